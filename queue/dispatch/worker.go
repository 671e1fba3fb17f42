package dispatch

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// settleTime is how long a settlement may wait for its turn after everything else
// has ended.
const settleTime = 30 * time.Second

// worker runs deliveries one at a time, in the order in which they came.
type worker struct {
	r     *Runner
	name  string
	slots partition.SlotSet
	items chan queue.Delivery // only the feeder sends, and closes it after the last
	turn  int                 // the feeder's

	mu   sync.Mutex
	held map[queue.Token]struct{} // what is queued or runs: its leases are renewed
}

func newWorker(r *Runner, name string, slots partition.SlotSet, room int) *worker {
	return &worker{r: r, name: name, slots: slots, items: make(chan queue.Delivery, room), held: map[queue.Token]struct{}{}}
}

// owner is the worker as the store knows it.
func (w *worker) owner() queue.Owner { return queue.Owner{Kind: queue.Worker, Name: w.name} }

// room is how many more deliveries the channel takes; only the feeder asks, and
// only the feeder fills it.
func (w *worker) room() int { return cap(w.items) - len(w.items) }

// give queues deliveries, for which there is room.
func (w *worker) give(deliveries []queue.Delivery) {
	w.mu.Lock()
	for i := range deliveries {
		w.held[deliveries[i].Token] = struct{}{}
	}
	w.mu.Unlock()
	for _, d := range deliveries {
		w.items <- d
	}
}

// tokens returns the leases that the worker holds.
func (w *worker) tokens() []queue.Token {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := make([]queue.Token, 0, len(w.held))
	for t := range w.held {
		all = append(all, t)
	}
	return all
}

// run works until the channel is closed and empty. After the taking has ended it
// starts nothing more: what is queued is put back.
func (w *worker) run(working context.Context, counts *drainCounts) {
	batch := make([]queue.Delivery, 0, cap(w.items))
	for d := range w.items {
		batch = w.gather(append(batch[:0], d))
		w.r.wake.raise()
		for len(batch) > 0 {
			n := 1
			switch {
			case w.r.Draining():
				n = len(batch)
				w.putBack(batch, counts)
			case w.r.routes[batch[0].Route].pure != nil:
				n = w.decide(batch)
			default:
				w.handle(working, &batch[0], counts)
			}
			batch = batch[n:]
		}
	}
}

// gather takes what else is queued, without waiting.
func (w *worker) gather(batch []queue.Delivery) []queue.Delivery {
	for len(batch) < cap(w.items) {
		select {
		case d, ok := <-w.items:
			if !ok {
				return batch
			}
			batch = append(batch, d)
		default:
			return batch
		}
	}
	return batch
}

// decide settles the leading deliveries of pure handlers together, and returns how
// many there were.
func (w *worker) decide(batch []queue.Delivery) int {
	settlements := make([]queue.Settlement, 0, len(batch))
	for i := range batch {
		d := &batch[i]
		pure := w.r.routes[d.Route].pure
		if pure == nil {
			break
		}
		start := w.r.now()
		a := pure.Decide(d)
		w.observe(d, &a, start)
		settlements = append(settlements, w.settlement(d, &a))
	}
	w.settle(batch, settlements)
	return len(settlements)
}

// handle runs one delivery through a handler with effects, and settles it before
// anything else is started.
func (w *worker) handle(working context.Context, d *queue.Delivery, counts *drainCounts) {
	rt := w.r.routes[d.Route]
	start := w.r.now()
	if !rt.health.begin(start) {
		back := queue.Unavailable("its route waits for its handler", 0)
		w.settle([]queue.Delivery{*d}, []queue.Settlement{w.settlement(d, &back)})
		return
	}
	a := rt.handler.Handle(working, d)
	if working.Err() != nil && a.Verb != queue.Ack {
		counts.cutOff.Add(1)
		a = queue.Answer{Verb: queue.Release, Reason: "cut off by the drain's time limit", Stderr: a.Stderr}
	}
	w.noteHealth(rt, d, &a)
	w.observe(d, &a, start)
	w.settle([]queue.Delivery{*d}, []queue.Settlement{w.settlement(d, &a)})
}

// noteHealth raises HANDLER_UNAVAILABLE when it begins.
func (w *worker) noteHealth(rt *route, d *queue.Delivery, a *queue.Answer) {
	down, wait := rt.health.answered(a, w.r.settings.Load().Policy, w.r.now(), w.r.random())
	if down {
		s := d.Message.Summary()
		w.r.raise(queue.CodeHandlerUnavailable, d.Route, "handler unavailable; its route waits", &s,
			"reason", a.Reason, "wait_ms", wait.Milliseconds())
	}
}

// observe tells the observer what a handler answered.
func (w *worker) observe(d *queue.Delivery, a *queue.Answer, start time.Time) {
	if w.r.observer.Handled != nil {
		w.r.observer.Handled(d, a, w.r.now().Sub(start))
	}
}

// settlement turns a handler's answer into the store's words.
func (w *worker) settlement(d *queue.Delivery, a *queue.Answer) queue.Settlement {
	s := queue.Settlement{
		Token: d.Token, Owner: w.owner(), Verb: a.Verb, At: w.r.now(),
		Outcome: a.Outcome, By: a.By, Note: a.Note, Reason: a.Reason,
		After: a.After, Random: w.r.random(), Until: a.Until, Stderr: a.Stderr,
	}
	if a.Unavailable {
		s.Code = queue.CodeHandlerUnavailable
	}
	return s
}

// putBack releases deliveries that were not started, the last one first: the store
// puts back with a message what is leased behind it in its key.
func (w *worker) putBack(batch []queue.Delivery, counts *drainCounts) {
	slices.Reverse(batch)
	settlements := make([]queue.Settlement, len(batch))
	for i := range batch {
		settlements[i] = w.settlement(&batch[i], &queue.Answer{Verb: queue.Release, Reason: "the process is draining"})
	}
	counts.released.Add(int64(len(batch)))
	w.settle(batch, settlements)
}

// settle hands the settlements of a batch to the store, and lets go of its leases. It outlives
// the contexts of the Run, so that an answer that was given is not lost. A store
// without room is asked again: the effect has happened.
func (w *worker) settle(batch []queue.Delivery, settlements []queue.Settlement) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	results, err := w.trySettle(ctx, settlements)
	w.mu.Lock()
	for i := range settlements {
		delete(w.held, settlements[i].Token)
	}
	w.mu.Unlock()
	if err != nil {
		w.r.fail("settle", err)
		return
	}
	now := w.r.now().UnixNano()
	for i := range results {
		w.logResult(&settlements[i], &results[i])
		if results[i].Code == "" && settlements[i].Verb != queue.Release {
			w.r.routes[batch[i].Route].settled.Store(now)
		}
	}
	w.r.wake.raise()
	w.r.room.wake()
}

// trySettle asks until there is room. Its error is the end of the store, or of the
// patience of a drain: the leases are then given back by the next start.
func (w *worker) trySettle(ctx context.Context, settlements []queue.Settlement) ([]queue.SettleResult, error) {
	for {
		start := w.r.now()
		results, err := w.r.store.Settle(ctx, queue.SettleRequest{
			Now: start, Policy: w.r.settings.Load().Policy, Settlements: settlements,
		})
		if err == nil && w.r.observer.Settled != nil {
			w.r.observer.Settled(results, w.r.now().Sub(start))
		}
		if !errors.Is(err, queue.ErrNoRoom) {
			return results, err
		}
		w.r.log.Error("no room to settle; trying again", "code", string(queue.CodeStorageUnavailable), "error", err.Error())
		if !w.pauseFor(ctx, retryAfter) {
			return nil, err
		}
	}
}

// pauseFor waits; false: it was not worth waiting to the end.
func (w *worker) pauseFor(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-w.r.failed:
	case <-ctx.Done():
	}
	return false
}

// logResult says what is not ordinary about a settlement.
func (w *worker) logResult(s *queue.Settlement, res *queue.SettleResult) {
	switch {
	case res.Code == queue.CodeExpired || res.Code == queue.CodeAlreadySettled:
		w.r.raise(queue.CodeExpired, "", "a late answer changed nothing", res.Message, "seq", res.Seq, "worker", w.name)
	case res.Code != "":
		w.r.log.Error("the store refused an answer", "code", string(res.Code), "seq", res.Seq, "error", res.Error)
	case res.DeadCode != "":
		w.r.raise(res.DeadCode, "", "dead letter", res.Message, "reason", s.Reason)
	}
}
