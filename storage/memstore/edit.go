package memstore

import (
	"bytes"
	"context"
	"strings"

	"breakwater/queue"
)

// Edit gives dead letters new content.
func (s *Store) Edit(ctx context.Context, a queue.Action, edits []queue.Edit) ([]queue.EditResult, error) {
	res := make([]queue.EditResult, len(edits))
	err := s.write(ctx, func() {
		for i := range edits {
			s.edit(&a, &edits[i], &res[i])
		}
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

func (s *state) edit(a *queue.Action, e *queue.Edit, r *queue.EditResult) {
	m := s.dead[e.Seq]
	if m == nil {
		r.Seq = e.Seq
		r.Refuse(queue.CodeNotFound, "", "no such dead letter")
		return
	}
	l := m.describe()
	parsed := e.Check(&l, r)
	if r.Code == "" {
		if of := s.ownerBeside(m.Seq, &parsed); of != 0 {
			r.Known(of)
		}
	}
	if r.Code != "" || a.DryRun {
		return
	}
	is := newMessage(m.Seq, &queue.Submission{Message: parsed})
	s.record(queue.EditedRecord(&m.Stored, &is.Stored, &r.Before, &r.After, a))
	s.reserve(m, &is.Stored)
	if m.sent == nil {
		m.sent = bytes.Clone(m.Line)
	}
	m.Stored, m.route, m.priority, m.notBefore = is.Stored, is.route, is.priority, is.notBefore
}

// ownerBeside returns the seq of the other message whose idempotency key or former
// content m has; 0 if there is none.
func (s *state) ownerBeside(seq uint64, m *queue.Message) uint64 {
	former := s.follow(contentName(m.IdempotencyKey, m.SourceHash, m.Currency, m.PartitionKey))
	for _, e := range [...]*entry{s.ledger[m.IdempotencyKey], former} {
		if e != nil && e.first.Seq != seq {
			return e.first.Seq
		}
	}
	return 0
}

// reserve makes the ledger know a dead letter by what it has been edited to, and by
// all that it was: what was sent, and, of an exception that was in the order, each
// content that a handler may have seen.
func (s *state) reserve(m *message, is *queue.Stored) {
	if !m.inOrder() && m.sent != nil {
		delete(s.ledger, m.IdempotencyKey) // what the letter was in between nobody has seen
	}
	to := alias{key: strings.Clone(is.IdempotencyKey), seq: m.Seq}
	if m.inOrder() {
		s.alias(contentName(m.IdempotencyKey, m.SourceHash, m.Currency, m.PartitionKey), to)
	} else {
		s.alias(lineName(m.lineHash), to)
		sent := m.sent
		if sent == nil {
			sent = m.Line
		}
		if was, err := queue.ParseLine(sent); err == nil && m.lineBytes == int64(len(sent)) {
			s.alias(contentName(was.IdempotencyKey, was.SourceHash, was.Currency, was.PartitionKey), to)
		}
	}
	first := *is
	first.Line = nil
	s.ledger[to.key] = &entry{first: first, state: queue.Dead}
}

// alias says that what has been a message's content is it still: key is the idempotency
// key under which the ledger knows it now.
type alias struct {
	key string
	seq uint64
}

// alias remembers an alias, unless the name is that of another message already.
func (s *state) alias(name string, to alias) {
	if e := s.follow(name); e == nil || e.first.Seq == to.seq {
		s.aliases[name] = to
	}
}

// follow returns the entry that an alias leads to; nil if there is none any more.
func (s *state) follow(name string) *entry {
	to, ok := s.aliases[name]
	if e := s.ledger[to.key]; ok && e != nil && e.first.Seq == to.seq {
		return e
	}
	return nil
}

// edited returns the entry of the message that a line was, before it was edited.
func (a *admission) edited(l *queue.Submission) *entry {
	if e := a.follow(lineName(l.LineHash)); e != nil || l.Fault != nil {
		return e
	}
	m := &l.Message
	return a.follow(contentName(m.IdempotencyKey, m.SourceHash, m.Currency, m.PartitionKey))
}

// lineName and contentName are what aliases are known by.
func lineName(h queue.Hash) string { return "line\x00" + string(h[:]) }

func contentName(idempotencyKey string, source queue.Hash, currency, partitionKey string) string {
	return strings.Join([]string{"content", idempotencyKey, string(source[:]), currency, partitionKey}, "\x00")
}
