package dispatch

import (
	"context"
	"errors"
	"time"

	"breakwater/queue"
)

// settleTime is how long a settlement may still wait for its turn, or for room,
// after the handlers' time is over.
const settleTime = 10 * time.Second

// settlement turns a handler's answer into the store's words. What a handler puts
// back is not given to the same worker again at once: it would be a loop.
func (w *worker) settlement(d *queue.Delivery, a *queue.Answer) queue.Settlement {
	s := queue.Settlement{
		Token: d.Token, Owner: w.owner(), Verb: a.Verb, At: w.r.now(),
		Outcome: a.Outcome, By: a.By, Note: a.Note, Reason: a.Reason,
		After: a.After, Until: a.Until, Stderr: a.Stderr, Unanswered: a.Unanswered,
	}
	switch {
	case a.Unavailable:
		s.Code = queue.CodeHandlerUnavailable // the route waits, not the key
	case a.Verb == queue.Retry:
		s.Random = w.r.random()
	case a.Verb == queue.Release:
		s.Aside = w.r.settings.Load().Policy.RetryInitial
	}
	return s
}

// settleOne settles a delivery of a handler with effects. It takes its turn with the
// decisions too: what was claimed for a pure handler may have got one with effects
// meanwhile, and have others of its key behind it.
func (w *worker) settleOne(s *shift, d *queue.Delivery, a *queue.Answer) {
	w.deciding.Lock()
	defer w.deciding.Unlock()
	w.settle(s, []queue.Delivery{*d}, []queue.Settlement{w.settlement(d, a)})
}

// settle hands the settlements of the leading deliveries of a batch to the store,
// and lets go of their leases and of those that end with them. It outlives the
// working, so that an answer that was given is not lost.
func (w *worker) settle(s *shift, batch []queue.Delivery, settlements []queue.Settlement) {
	policy := w.r.settings.Load().Policy
	later := w.prepare(batch, settlements)
	results, err := w.r.trySettle(s.settling, nil, policy, settlements)
	if err != nil {
		w.r.fail("settle", err)
		return
	}
	w.letGo(policy, settlements, results, later)
	now := w.r.now().UnixNano()
	for i := range results {
		w.logResult(&settlements[i], &results[i])
		if results[i].Code == "" && settlements[i].Verb != queue.Release {
			if h := w.r.served(batch[i].Route); h != nil {
				h.settled.Store(now)
			}
		}
	}
	w.r.wake.raise()
	w.r.room.raise()
}

// prepare dates the settlements and returns, of each that may put its key back,
// the later leases of the key. There can be no new ones of it before the store has
// ended those.
//
// An answer is never later than the last deadline that the worker was given: what
// it still holds nobody else can have, however long the process was stopped or the
// store kept a renewal waiting.
func (w *worker) prepare(batch []queue.Delivery, settlements []queue.Settlement) (later [][]queue.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range settlements {
		a := &settlements[i]
		if h, ok := w.held[a.Token]; ok && h.deadline.Before(a.At) {
			a.At = h.deadline
		}
		if a.Verb == queue.Ack {
			continue
		}
		if later == nil {
			later = make([][]queue.Token, len(settlements))
		}
		for t, h := range w.held {
			if h.key == batch[i].Message.PartitionKey && t.Fence > a.Token.Fence {
				later[i] = append(later[i], t)
			}
		}
	}
	return later
}

// letGo forgets leases that have ended.
func (w *worker) letGo(p queue.Policy, settlements []queue.Settlement, results []queue.SettleResult, later [][]queue.Token) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range settlements {
		delete(w.held, settlements[i].Token)
		goesOn := results[i].Code != "" || results[i].DeadCode != "" && p.OnDeadLetter == queue.SkipDead
		if later == nil || goesOn {
			continue
		}
		for _, t := range later[i] {
			delete(w.held, t)
		}
	}
}

// trySettle asks until there is room: the effect has happened. Its error is the
// end of the store, or of the patience of a drain or a consumer: enough ends the
// waiting for room, but no call that is under way; nil: nothing does.
func (r *Runner) trySettle(ctx context.Context, enough <-chan struct{}, p queue.Policy, settlements []queue.Settlement) ([]queue.SettleResult, error) {
	for told := false; !r.hasFailed(); told = true {
		results, err := r.settleOnce(ctx, p, settlements)
		if !errors.Is(err, queue.ErrNoRoom) {
			return results, err
		}
		if !told {
			r.log.Error("no room to settle; trying until there is", "code", string(queue.CodeStorageUnavailable), "error", err.Error())
		}
		if !r.pauseFor(ctx, enough, retryAfter) {
			return nil, err
		}
	}
	return nil, r.failure
}

// settleOnce asks once.
func (r *Runner) settleOnce(ctx context.Context, p queue.Policy, settlements []queue.Settlement) ([]queue.SettleResult, error) {
	start := r.now()
	results, err := r.store.Settle(ctx, queue.SettleRequest{Now: start, Policy: p, Settlements: settlements})
	if err == nil && r.observer.Settled != nil {
		r.observer.Settled(results, r.now().Sub(start))
	}
	return results, err
}

// pauseFor waits; false: it was not worth waiting to the end.
func (r *Runner) pauseFor(ctx context.Context, enough <-chan struct{}, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.failed:
	case <-r.ended:
	case <-enough:
	case <-ctx.Done():
	}
	return false
}

// logResult says what is not ordinary about a settlement.
func (w *worker) logResult(s *queue.Settlement, res *queue.SettleResult) {
	switch {
	case res.Code == queue.CodeExpired || res.Code == queue.CodeAlreadySettled:
		w.r.raise(queue.CodeExpired, "", "a late answer changed nothing", res.Message, "answer_to", res.Seq, "worker", w.name)
	case res.Code != "":
		w.r.log.Error("the store refused an answer", "code", string(res.Code), "seq", res.Seq, "error", res.Error)
	case res.DeadCode != "":
		w.r.raise(res.DeadCode, "", "dead letter", res.Message, "reason", s.Reason)
	}
}
