package memstore

import (
	"context"

	"breakwater/queue"
)

// notDead refuses a seq that names no dead letter.
func notDead(seq uint64) queue.ActionResult {
	return queue.ActionResult{Seq: seq, Code: queue.CodeNotFound, Error: "no such dead letter"}
}

// revive opens a dead letter again at its own place, as if it had never been
// delivered. Its history stays in the trail; and what ended without an answer may have
// had its effect all the same.
func (s *state) revive(m *message, a *queue.Action) {
	s.record(queue.ReplayedRecord(&m.Stored, a))
	s.unblock(m)
	delete(s.dead, m.Seq)
	s.open[m.Seq] = m
	m.letter = nil
	m.deliveries, m.failed = 0, 0
	s.ledger[m.IdempotencyKey].state = queue.Ready
	s.enter(m, m.place)
	s.file(m.PartitionKey)
}

// readmit takes a line that never was in the order into it. It keeps its seq, and with
// it its place.
func (s *state) readmit(m *message, parsed *queue.Message, a *queue.Action) {
	s.record(queue.ReplayedRecord(&m.Stored, a))
	delete(s.dead, m.Seq)
	now := m.content()
	opened := newMessage(m.Seq, &queue.Submission{Message: *parsed, LineBytes: m.lineBytes, LineHash: m.lineHash})
	opened.sent, opened.deaths = m.sent, m.deaths
	peer := queue.Peer{}
	if a.Peer != nil {
		peer = *a.Peer
	}
	s.admit(a.Now, opened, now, peer)
	opened.acceptedAt, opened.came = m.came, m.came // it is as old as it was
}

// Discard ends dead letters.
func (s *Store) Discard(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	seen := map[uint64]bool{}
	return act(ctx, s, seqs, func(seq uint64) queue.ActionResult {
		m := s.dead[seq]
		if m == nil || seen[seq] {
			return notDead(seq)
		}
		if a.DryRun {
			seen[seq] = true
			return queue.ActionResult{Seq: seq}
		}
		owns := m.inOrder() || m.sent != nil // a letter from the door has no entry until it is edited
		s.ended.Add(&m.Stored)
		s.record(queue.DiscardedRecord(&m.Stored, m.letter.code, owns, &a))
		s.unblock(m)
		delete(s.dead, seq)
		s.gone++
		if owns {
			s.discardEntry(m, &a)
			s.file(m.PartitionKey)
		}
		return queue.ActionResult{Seq: seq}
	})
}

// discardEntry ends or forgets what the ledger knows of a message.
func (s *state) discardEntry(m *message, a *queue.Action) {
	if a.Forget {
		delete(s.ledger, m.IdempotencyKey)
		return
	}
	e := s.ledger[m.IdempotencyKey]
	s.endKey(e, queue.Discarded, a.Now)
}

// unblock ends a dead letter's hold on its key.
func (s *state) unblock(m *message) {
	if m.letter.blocks {
		s.keys[m.PartitionKey].blocking--
	}
}
