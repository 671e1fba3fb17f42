package dispatch

import (
	"context"
	"slices"
	"time"

	"breakwater/queue"
)

// Answer settles deliveries, all in one transaction, each with its own result. Of a
// settlement the caller says Token, Verb, At (when the answer was read) and what the
// verb needs; the rest is filled in here. While the store has no room it does not
// return, unless Run has ended. The error is that of ctx, ErrDetached, or the store's:
// then nothing was applied, and the leases are as they were. It may be called as long
// as the store is open.
//
// An answer under a lease that is not the consumer's changes nothing and leaves a
// record; who gives more of them than anybody needs to is slowed down.
func (s *Session) Answer(ctx context.Context, answers []queue.Settlement) ([]queue.SettleResult, error) {
	s.speaks()
	policy := s.r.settings.Load().Policy
	settlements := s.settlements(answers, policy)
	results, err := s.settle(ctx, policy, settlements)
	if err != nil || len(results) == 0 {
		return nil, err
	}
	s.r.wake.raise()
	s.r.room.raise()
	s.pace(ctx, s.logResults(settlements, results))
	return results, nil
}

// settlements completes what a consumer has said. A hold that is over already is a
// release.
func (s *Session) settlements(answers []queue.Settlement, p queue.Policy) []queue.Settlement {
	out := slices.Clone(answers)
	for i := range out {
		a := &out[i]
		a.Owner, a.Peer = s.a.Owner, &s.a.Peer
		if a.Verb == queue.Hold && !a.Until.After(a.At) {
			a.Verb = queue.Release
		}
		switch a.Verb {
		case queue.Retry:
			a.After, a.Random = min(a.After, p.RetryMax), s.r.random()
		case queue.Release:
			a.Aside = p.RetryInitial
		}
	}
	return out
}

// settle hands settlements to the store and forgets the leases that are over.
func (s *Session) settle(ctx context.Context, p queue.Policy, settlements []queue.Settlement) ([]queue.SettleResult, error) {
	if !s.begin() {
		return nil, queue.ErrDetached
	}
	defer s.done()
	if len(settlements) == 0 {
		return nil, nil
	}
	results, err := s.r.trySettle(ctx, s.over, p, settlements)
	if err != nil {
		return nil, s.failed(ctx, "settle", err)
	}
	s.answered(settlements, results)
	return results, nil
}

// failed says what an error of the store means for the session.
func (s *Session) failed(ctx context.Context, doing string, err error) error {
	switch {
	case fatal(err):
		s.r.fail(doing, err)
		return s.r.failedWith()
	case s.isOver() && ctx.Err() == nil:
		return queue.ErrDetached
	}
	return err
}

func (s *Session) isOver() bool {
	select {
	case <-s.over:
		return true
	default:
		return false
	}
}

// answered forgets the leases that are over. A key that was put back is open to every
// consumer for as long as it is not offered to this one: the store keeps it from this
// one, and the shares must not keep it from the others.
func (s *Session) answered(settlements []queue.Settlement, results []queue.SettleResult) {
	now := s.r.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range results {
		a := &settlements[i]
		if results[i].Code != "" {
			if ended(results[i].Code) {
				s.drop(a.Token)
			}
			continue
		}
		if m := results[i].Message; a.Aside > 0 && m != nil {
			s.r.desk.open(m.PartitionKey, now.Add(a.Aside))
		}
		// It may be one of before that was not given again yet.
		if l := s.finish(a.Token); l != nil && s.r.observer.Answered != nil {
			s.r.observer.Answered(l.route, a.Verb)
		}
	}
}

// ended reports whether the lease is over after an answer of this code.
func ended(c queue.Code) bool {
	return c == "" || c == queue.CodeExpired || c == queue.CodeAlreadySettled
}

// Extend gives leases a new full length from at, when the consumer was read to ask
// for it. Each token has its own result. The error is as of Answer, but that a store
// without room is not waited for.
func (s *Session) Extend(ctx context.Context, at time.Time, tokens []queue.Token) ([]queue.ExtendResult, error) {
	if err := s.r.failedWith(); err != nil {
		return nil, err
	}
	if !s.begin() {
		return nil, queue.ErrDetached
	}
	defer s.done()
	if len(tokens) == 0 {
		return nil, nil
	}
	s.speaks()
	results, err := s.r.store.Extend(ctx, queue.ExtendRequest{
		Now: at, Owner: s.a.Owner, Tokens: tokens, Lease: s.a.Lease, Peer: &s.a.Peer,
	})
	if err != nil {
		return nil, s.failed(ctx, "extend", err)
	}
	s.extended(tokens, results)
	return results, nil
}

// extended notes the new deadlines, and has Next look when the first of them ends.
func (s *Session) extended(tokens []queue.Token, results []queue.ExtendResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, t := range tokens {
		if results[i].Code != "" {
			s.drop(t)
		} else if l := s.unsettled[t]; l != nil {
			l.deadline, l.warned = results[i].Deadline, false
			s.endsAt(s.endingOf(l))
			s.bell.raise()
		}
	}
}

const (
	// staleBurst is how many answers without a lease a consumer may give at once:
	// all that it can hold, and be late with. Each leaves a record.
	staleBurst = 1024
	// staleEvery is how much later every further one is answered, with all that come
	// behind it.
	staleEvery = 10 * time.Millisecond
	// staleLogEvery is how often a consumer's late answers are logged.
	staleLogEvery = 10 * time.Second
)

// stale is what a consumer has answered without a lease. The reader of its answers
// uses it under the session's lock.
type stale struct {
	paid   time.Time // until when its burst has been used up
	logged time.Time // when one was logged last
	silent int       // that were not logged since
}

// pace counts answers that changed nothing, and waits if there are too many of them:
// the trail must not grow as fast as somebody can talk nonsense.
func (s *Session) pace(ctx context.Context, late int) {
	if late == 0 {
		return
	}
	now := s.r.now()
	s.mu.Lock()
	full := now.Add(-staleBurst * staleEvery)
	if s.stale.paid.Before(full) {
		s.stale.paid = full
	}
	s.stale.paid = s.stale.paid.Add(time.Duration(late) * staleEvery)
	wait := s.stale.paid.Sub(now)
	s.mu.Unlock()
	if wait <= 0 {
		return
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.over:
	case <-s.r.draining: // what is read from now on is bounded by the drain
	case <-s.r.failed:
	case <-ctx.Done():
	}
}

// logResults says what is not ordinary about answers, and returns how many changed
// nothing.
func (s *Session) logResults(settlements []queue.Settlement, results []queue.SettleResult) (late int) {
	r := s.r
	for i := range results {
		res := &results[i]
		switch {
		case res.Code == queue.CodeExpired || res.Code == queue.CodeAlreadySettled:
			late++
			s.raiseLate(res)
		case res.DeadCode != "":
			r.raise(res.DeadCode, "", "dead letter", res.Message, "reason", settlements[i].Reason)
		}
	}
	return late
}

// raiseLate counts a late answer, and logs it if that was not done just now.
func (s *Session) raiseLate(res *queue.SettleResult) {
	r, now := s.r, s.r.now()
	s.mu.Lock()
	quiet := !s.stale.logged.IsZero() && now.Sub(s.stale.logged) < staleLogEvery
	silent := s.stale.silent
	if quiet {
		s.stale.silent++
	} else {
		s.stale.logged, s.stale.silent = now, 0
	}
	s.mu.Unlock()
	if quiet {
		if r.observer.Raised != nil {
			r.observer.Raised(queue.CodeExpired, "")
		}
		return
	}
	r.raise(queue.CodeExpired, "", "a late answer changed nothing", res.Message,
		"answer_to", res.Seq, "consumer", s.a.Owner.Name, "answer", string(res.Code), "not_logged", silent)
}
