package memstore

import (
	"time"

	"breakwater/queue"
)

// message is an exception that is not settled: open, or a dead letter.
type message struct {
	queue.Stored
	route      queue.Route
	priority   uint8
	notBefore  time.Time
	acceptedAt time.Time // zero for a line that was never accepted
	came       time.Time // when its line came: its age counts from then
	lineBytes  int64     // of the line as it was sent
	lineHash   queue.Hash
	sent       []byte // that line, once Line is what it was edited to; nil before
	deaths     int    // how often it has become a dead letter

	place      queue.Place // zero: scheduled, or a letter that never entered the order
	deliveries int         // those that count, the present one included
	failed     int
	unanswered int // deliveries of its whole life that ended without an answer, counted or not

	lease  *lease  // at most one (P4)
	letter *letter // set while it is a dead letter
}

// lease is the present holder's.
type lease struct {
	owner    queue.Owner
	fence    uint64
	deadline time.Time
	length   time.Duration
}

// letter says why a message is a dead letter.
type letter struct {
	code   queue.Code
	reason string
	field  string // of a line that a gate refused
	of     uint64 // of a conflict
	at     time.Time
	blocks bool // its key waits for it
}

// entry is what the ledger remembers of an idempotency key (P2): the content that
// used it, and what became of it. The state is Ready as long as the message is
// open; which of the open states it is, the message itself says.
type entry struct {
	first     queue.Stored // without its line
	state     queue.State
	outcome   string
	settledAt time.Time
	epoch     uint64 // in which it was settled
}

// token returns the right to settle the present delivery.
func (m *message) token() queue.Token { return queue.Token{Seq: m.Seq, Fence: m.lease.fence} }

// holding says who holds the message, for its records.
func (m *message) holding() queue.Holding {
	h := queue.Holding{
		Route: m.route, Deliveries: m.deliveries,
		FailedAttempts: m.failed, Unanswered: m.unanswered,
	}
	if m.lease != nil {
		h.Owner = m.lease.owner
	}
	return h
}

// describe is a dead letter as the rules look at it.
func (m *message) describe() queue.Letter {
	return queue.Letter{
		Stored: m.Stored, Code: m.letter.code, NotBefore: m.notBefore, Ordered: m.inOrder(), Edited: m.sent != nil, Content: m.content(),
	}
}

// content identifies what the message is now.
func (m *message) content() queue.Content {
	c := queue.Content{
		SourceHash: m.SourceHash, LineHash: m.lineHash, LineBytes: m.lineBytes,
		Route: m.route, Priority: m.priority, NotBefore: m.notBefore,
	}
	if m.sent != nil {
		c.LineHash, c.LineBytes = queue.LineHash(m.Line), int64(len(m.Line))
	}
	return c
}

// inOrder reports whether the message has, or had, a place.
func (m *message) inOrder() bool { return !m.place.IsZero() }

// isQuarantined reports whether it is a line that a gate refused.
func (m *message) isQuarantined() bool {
	return m.letter != nil && m.letter.code == queue.CodePoison && !m.inOrder()
}

// stateOf returns where a message is in its life.
func (s *state) stateOf(m *message) queue.State {
	switch {
	case m.letter != nil:
		return queue.Dead
	case m.lease != nil:
		return queue.Leased
	case !m.inOrder():
		return queue.Scheduled
	case s.keys[m.PartitionKey].waits():
		return queue.Held
	}
	return queue.Ready
}

// bury makes an open message a dead letter. It keeps its place, so that a replay
// goes back to it; under HoldKey its key waits for that (P5, P8).
func (s *state) bury(now time.Time, m *message, code queue.Code, a *queue.Settlement, p queue.Policy) {
	s.record(queue.DeadLetteredRecord(now, &m.Stored, m.holding(), code, p, a))
	m.letter = &letter{code: code, reason: a.Reason, at: micros(now), blocks: p.OnDeadLetter == queue.HoldKey}
	m.deaths++
	m.lease = nil
	s.ledger[m.IdempotencyKey].state = queue.Dead
	delete(s.open, m.Seq)
	s.dead[m.Seq] = m
	s.leave(m)
	if m.letter.blocks {
		s.key(m.PartitionKey).blocking++
	}
}
