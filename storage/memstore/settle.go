package memstore

import (
	"context"
	"strings"
	"time"

	"breakwater/queue"
)

// Settle applies answers, each in its turn.
func (s *Store) Settle(ctx context.Context, r queue.SettleRequest) ([]queue.SettleResult, error) {
	res := make([]queue.SettleResult, 0, len(r.Settlements))
	err := s.write(ctx, func() {
		for i := range r.Settlements {
			a := ownSettlement(r.Settlements[i])
			res = append(res, s.settle(r.Now, &a, r.Policy))
		}
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// settle applies one answer, if its token is the valid lease of its owner (P4).
func (s *state) settle(now time.Time, a *queue.Settlement, p queue.Policy) queue.SettleResult {
	res := queue.SettleResult{Seq: a.Token.Seq, Message: s.summary(a.Token.Seq)}
	m, code := s.held(a.Token, a.Owner, a.At)
	if code != "" {
		res.Code, res.Error = code, refusal(code)
		if known := a.Token.Seq; known > 0 && known <= s.lastSeq {
			named, _ := s.known(known)
			s.record(queue.RefusedRecord(now, &named, code, a))
		}
		return res
	}
	if why := unusable(a); why != "" {
		res.Code, res.Error = queue.CodeUsage, why
		return res
	}
	name, place := m.PartitionKey, m.place
	if a.Unanswered && (a.Verb == queue.Retry || a.Verb == queue.Release) {
		m.unanswered++
	}
	switch a.Verb {
	case queue.Ack:
		s.ack(now, m, a)
	case queue.Retry:
		res.DeadCode, res.Delay = s.retry(now, m, a, p)
	case queue.Release:
		s.release(now, m, a)
	case queue.Hold:
		s.hold(now, m, a)
	case queue.Reject:
		res.DeadCode = queue.CodeRejected
		s.bury(now, m, queue.CodeRejected, a, p)
	}
	if s.isStop(m) {
		s.putBackAfter(now, name, place)
	}
	s.file(name)
	return res
}

// isStop reports whether what stands behind m in its key has to wait for it: it
// is open again, or dead and holds its key.
func (s *state) isStop(m *message) bool {
	return s.open[m.Seq] == m || m.letter != nil && m.letter.blocks
}

// held returns the message that the token is the valid lease of, or the code of
// the refusal. What nobody can hold any more was settled; whatever else is wrong,
// the lease is over.
func (s *state) held(t queue.Token, o queue.Owner, at time.Time) (*message, queue.Code) {
	m := s.open[t.Seq]
	switch {
	case m == nil && t.Seq > 0 && t.Seq <= s.lastSeq:
		return nil, queue.CodeAlreadySettled
	case m == nil || m.lease == nil || m.lease.fence != t.Fence || m.lease.owner != o || at.After(m.lease.deadline):
		return nil, queue.CodeExpired
	}
	return m, ""
}

// refusal says a code of held in words.
func refusal(c queue.Code) string {
	if c == queue.CodeAlreadySettled {
		return "the message is settled"
	}
	return "the lease is over, or it is somebody else's"
}

// unusable says why an answer cannot be applied although its lease is good.
func unusable(a *queue.Settlement) string {
	switch {
	case a.Verb < queue.Ack || a.Verb > queue.Reject:
		return "there is no such answer"
	case a.Verb == queue.Ack && !queue.ValidOutcome(a.Outcome):
		return "the outcome is not 1 to 64 characters of A-Z, 0-9 and _"
	}
	return ""
}

// ack settles the message: message, ledger and trail at once (P3).
func (s *state) ack(now time.Time, m *message, a *queue.Settlement) {
	s.record(queue.DecidedRecord(now, &m.Stored, m.holding(), a))
	s.ended.Add(&m.Stored)
	e := s.ledger[m.IdempotencyKey]
	e.outcome = a.Outcome
	s.endKey(e, queue.Done, now)
	s.done++
	delete(s.open, m.Seq)
	s.leave(m)
}

// retry counts a failure. The last one makes it a dead letter; after any other
// its key waits, and it keeps its place.
func (s *state) retry(now time.Time, m *message, a *queue.Settlement, p queue.Policy) (queue.Code, time.Duration) {
	m.failed++
	code := queue.Code("")
	switch {
	case m.failed >= p.MaxAttempts:
		code = queue.CodeAttemptsExhausted
	case m.deliveries >= p.MaxDeliveries:
		code = queue.CodeDeliveriesExhausted
	}
	if code != "" {
		s.record(queue.RetriedRecord(now, &m.Stored, m.holding(), a, time.Time{}))
		s.bury(now, m, code, &queue.Settlement{Reason: a.Reason}, p)
		return code, 0
	}
	delay := p.RetryDelay(m.failed, a.Random, a.After)
	s.record(queue.RetriedRecord(now, &m.Stored, m.holding(), a, now.Add(delay)))
	m.lease = nil
	s.waitFor(m, now, now.Add(delay), true)
	return "", delay
}

// release puts the message back as if it had never been handed out.
func (s *state) release(now time.Time, m *message, a *queue.Settlement) {
	s.record(queue.ReleasedRecord(now, &m.Stored, m.holding(), a))
	if a.Aside > 0 {
		s.keys[m.PartitionKey].aside = &aside{owner: m.lease.owner, until: now.Add(a.Aside)}
	}
	m.deliveries--
	m.lease = nil
}

// hold makes the key wait until a time on the wall clock.
func (s *state) hold(now time.Time, m *message, a *queue.Settlement) {
	s.record(queue.HeldRecord(now, &m.Stored, m.holding(), a))
	m.deliveries--
	m.lease = nil
	if a.Until.After(now) {
		s.waitFor(m, now, a.Until, false)
	}
}

// summary names a message that is still in the store; nil for any other.
func (s *state) summary(seq uint64) *queue.Summary {
	known, ok := s.known(seq)
	if !ok {
		return nil
	}
	sum := known.Summary()
	return &sum
}

// known is what is stored of a message, or remembered of one that has ended; false if that
// is no more than its seq.
func (s *state) known(seq uint64) (queue.Stored, bool) {
	for _, m := range []*message{s.open[seq], s.dead[seq]} {
		if m != nil {
			return m.Stored, true
		}
	}
	return s.ended.Find(seq)
}

// ownSettlement copies what the store keeps of an answer, its time to wait for on
// the wall clock.
func ownSettlement(a queue.Settlement) queue.Settlement {
	a.Outcome, a.Reason = strings.Clone(a.Outcome), strings.Clone(a.Reason)
	if !a.Until.IsZero() {
		a.Until = micros(a.Until)
	}
	return a
}

// ownOwner copies an owner's name.
func ownOwner(o queue.Owner) queue.Owner {
	o.Name = strings.Clone(o.Name)
	return o
}
