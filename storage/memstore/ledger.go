package memstore

import (
	"bytes"
	"strings"
	"time"

	"breakwater/queue"
)

// newMessage returns what is kept of a line, in memory of its own.
func newMessage(seq uint64, l *queue.Submission) *message {
	m := &message{
		Stored: ownStored(queue.StoredOf(seq, &l.Message)),
		route:  queue.Route(strings.Clone(string(l.Message.Route))), priority: l.Message.Priority,
		lineBytes: l.LineBytes, lineHash: l.LineHash,
	}
	if !l.Message.NotBefore.IsZero() {
		m.notBefore = micros(l.Message.NotBefore)
	}
	return m
}

// ownStored copies everything that its maker might change or keep alive.
func ownStored(st queue.Stored) queue.Stored {
	st.IdempotencyKey = strings.Clone(st.IdempotencyKey)
	st.TraceID = strings.Clone(st.TraceID)
	st.PartitionKey = strings.Clone(st.PartitionKey)
	st.LedgerEntity = strings.Clone(st.LedgerEntity)
	st.Decision = queue.MatchDecision(strings.Clone(string(st.Decision)))
	st.Amount = strings.Clone(st.Amount)
	st.Currency = strings.Clone(st.Currency)
	st.Line = bytes.Clone(st.Line)
	return st
}

// admit makes m an open message that the ledger knows, under the seq it has.
func (s *state) admit(now time.Time, m *message, is queue.Content, peer queue.Peer) {
	m.acceptedAt, m.came = micros(now), micros(now)
	s.open[m.Seq] = m
	first := m.Stored
	first.Line = nil
	s.ledger[m.IdempotencyKey] = &entry{first: first, state: queue.Ready}
	s.record(queue.AcceptedRecord(now, &m.Stored, m.route, m.notBefore, is.LineBytes, is.LineHash, peer))
	if m.notBefore.After(now) {
		return // its place is given when it falls due
	}
	s.enter(m, queue.Place{Seq: m.Seq})
	s.file(m.PartitionKey)
}

// sameContent is the contract's: equal source hash, currency and partition key.
func sameContent(first *queue.Stored, m *queue.Message) bool {
	return first.SourceHash == m.SourceHash && first.Currency == m.Currency && first.PartitionKey == m.PartitionKey
}

// differs names the first member in which m is not the content that used its key.
// Amounts are only looked at when the hash differs: "+5" and "5" are one amount.
func differs(first *queue.Stored, m *queue.Message) string {
	if first.SourceHash != m.SourceHash {
		switch {
		case first.LedgerEntity != m.LedgerEntity:
			return "ledger_entity"
		case first.Amount != m.Amount:
			return "variance_amount"
		}
		return "match_decision"
	}
	if first.Currency != m.Currency {
		return "currency"
	}
	return "partition_key"
}
