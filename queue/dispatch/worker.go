package dispatch

import (
	"slices"
	"sync"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// worker runs deliveries one at a time, in the order in which they came.
type worker struct {
	r     *Runner
	name  string
	slots partition.SlotSet
	items chan queue.Delivery // only the feeder sends; closed after the last
	gone  chan struct{}       // closed when it has left
	turn  int                 // the feeder's

	// deciding is held while deliveries of pure handlers are settled, or queued
	// ones are put back: only those may be many of one key, whose leases end
	// together when one of them is put back.
	deciding sync.Mutex

	mu   sync.Mutex
	held map[queue.Token]hold // what is queued or runs
}

// hold is a lease that the worker has.
type hold struct {
	key      string
	deadline time.Time
}

func newWorker(r *Runner, name string, slots partition.SlotSet, room int) *worker {
	return &worker{r: r, name: name, slots: slots, items: make(chan queue.Delivery, room), gone: make(chan struct{}), held: map[queue.Token]hold{}}
}

// owner is the worker as the store knows it.
func (w *worker) owner() queue.Owner { return queue.Owner{Kind: queue.Worker, Name: w.name} }

// room is how many more deliveries the channel takes; only the feeder fills it.
func (w *worker) room() int { return cap(w.items) - len(w.items) }

// refillAt is how few deliveries may be left in a long channel before there are new
// ones: enough to work on while a claim is made, few enough to make it a big one.
const refillAt = 16

// thirsty reports whether the worker has run half empty, or nearly.
func (w *worker) thirsty() bool { return len(w.items) <= min(cap(w.items)/2, refillAt) }

// split says how much of the room is for pure handlers. Where both kinds are
// wanted an odd place goes to each in turn.
func (w *worker) split(room int, pure, effects queue.RouteSet) int {
	switch {
	case effects == 0:
		return room
	case pure == 0:
		return 0
	}
	w.turn++
	return (room + w.turn&1) / 2
}

// give queues deliveries, for which there is room.
func (w *worker) give(deliveries []queue.Delivery) {
	w.mu.Lock()
	for i := range deliveries {
		d := &deliveries[i]
		w.held[d.Token] = hold{key: d.Message.PartitionKey, deadline: d.Deadline}
	}
	w.mu.Unlock()
	for _, d := range deliveries {
		w.items <- d
	}
}

// tokens returns the leases that the worker holds, and the first of their deadlines.
func (w *worker) tokens() (all []queue.Token, deadline time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for t, h := range w.held {
		if len(all) == 0 || h.deadline.Before(deadline) {
			deadline = h.deadline
		}
		all = append(all, t)
	}
	return all, deadline
}

// extended notes the new deadlines of leases that are still held.
func (w *worker) extended(tokens []queue.Token, results []queue.ExtendResult) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, t := range tokens {
		if h, ok := w.held[t]; ok && results[i].Code == "" {
			h.deadline = results[i].Deadline
			w.held[t] = h
		}
	}
}

// live returns those of the deliveries whose leases the worker still holds: others
// went back with one before them.
func (w *worker) live(batch []queue.Delivery) []queue.Delivery {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := batch[:0]
	for _, d := range batch {
		if _, ok := w.held[d.Token]; ok {
			kept = append(kept, d)
		}
	}
	return kept
}

// run works until the channel is closed and empty. After the taking has ended it
// starts nothing more: what is queued is put back.
func (w *worker) run(s *shift) {
	batch := make([]queue.Delivery, 0, cap(w.items))
	for d := range w.items {
		batch = w.gather(append(batch[:0], d))
		if w.thirsty() {
			w.r.wake.raise()
		}
		for rest := w.live(batch); len(rest) > 0; {
			h := w.r.served(rest[0].Route)
			switch {
			case w.r.Draining():
				s.released.Add(w.putBack(s, rest, draining))
				rest = nil
			case h == nil:
				w.putBack(s, rest, "its route has no handler in this process any more")
				rest = nil
			case h.pure != nil:
				rest = w.live(rest[w.decide(s, rest):])
			default:
				w.handle(s, h, &rest[0])
				// It may have been claimed for a pure handler, with others of its key.
				rest = w.live(rest[1:])
			}
		}
	}
}

// pure returns the handler of a delivery, if it is a pure one.
func (w *worker) pure(d *queue.Delivery) Pure {
	if h := w.r.served(d.Route); h != nil {
		return h.pure
	}
	return nil
}

// gather adds what else is queued for pure handlers, without waiting, and takes at
// most one more. What a worker has taken to run is no longer put back at once by a
// drain, nor does it count as waiting in its channel.
func (w *worker) gather(batch []queue.Delivery) []queue.Delivery {
	for len(batch) < cap(batch) && w.pure(&batch[len(batch)-1]) != nil {
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

// decide settles the leading deliveries of pure handlers together, up to the first
// one that is not an ack: what comes after it depends on what becomes of it. It
// returns how many there were.
func (w *worker) decide(s *shift, batch []queue.Delivery) int {
	w.deciding.Lock()
	defer w.deciding.Unlock()
	settlements := make([]queue.Settlement, 0, len(batch))
	for i := range batch {
		d := &batch[i]
		pure := w.pure(d)
		if pure == nil {
			break
		}
		start := w.r.now()
		a := sound(pure.Decide(d), start)
		w.observe(d, &a, start)
		settlements = append(settlements, w.settlement(d, &a))
		if a.Verb != queue.Ack {
			break
		}
	}
	if len(settlements) > 0 { // else the handler has just gone
		w.settle(s, batch, settlements)
	}
	return len(settlements)
}

// handle runs one delivery through a handler with effects, and settles it before
// anything else is started.
func (w *worker) handle(s *shift, h *served, d *queue.Delivery) {
	start := w.r.now()
	if !h.health.begin(start) {
		back := queue.Unavailable("its route waits for its handler", 0)
		w.settleOne(s, d, &back)
		return
	}
	a := sound(h.run(s, d), w.r.now())
	if s.cuts(h, &a) {
		s.cutOff.Add(1)
		a = queue.Answer{Verb: queue.Release, Reason: "cut off by the drain", Stderr: a.Stderr, Unanswered: a.Unanswered}
	}
	w.noteHealth(h, d, &a)
	w.observe(d, &a, start)
	w.settleOne(s, d, &a)
}

// run runs a delivery through its handler.
func (h *served) run(s *shift, d *queue.Delivery) queue.Answer {
	if h.asker != nil {
		return h.asker.HandleAsked(s.working, s.asked, d)
	}
	return h.handler.Handle(s.working, d)
}

// cuts reports whether the drain has cut a delivery off, so that it goes back uncounted
// (P9): what was answered after the end counts only if it is an ack, and of one that was
// asked to end what it has said of itself, but for a failure.
func (s *shift) cuts(h *served, a *queue.Answer) bool {
	if s.working.Err() != nil {
		return a.Verb != queue.Ack
	}
	select {
	case <-s.asked:
		failed := a.Verb == queue.Retry || a.Verb == queue.Release && a.Unanswered && !a.Unavailable
		return h.asker != nil && failed
	default:
		return false
	}
}

// sound returns an answer that a store can apply and that a loop cannot be made of.
// What a handler cannot mean is a retry: it counts, and nothing is settled by
// mistake. A hold that is over already is a release.
func sound(a queue.Answer, now time.Time) queue.Answer {
	switch {
	case a.Verb < queue.Ack || a.Verb > queue.Reject:
		return queue.Answer{Verb: queue.Retry, Reason: "the handler gave no answer", Stderr: a.Stderr, Unanswered: true}
	case a.Verb == queue.Ack && !queue.ValidOutcome(a.Outcome):
		return queue.Answer{Verb: queue.Retry, Reason: "the handler's outcome cannot be recorded", Stderr: a.Stderr, Unanswered: true}
	case a.Verb == queue.Hold && !a.Until.After(now):
		a.Verb = queue.Release
	}
	return a
}

// noteHealth raises HANDLER_UNAVAILABLE when it begins, and when a probe finds
// that it goes on.
func (w *worker) noteHealth(h *served, d *queue.Delivery, a *queue.Answer) {
	wait := h.health.answered(a, w.r.settings.Load().Policy, w.r.now(), w.r.random())
	if wait > 0 {
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

// draining is why a drain puts back what was not started.
const draining = "the process is draining"

// putBack releases deliveries that were not started, the last one first: the store
// puts back with a message what is leased behind it in its key. It returns how many there
// were.
func (w *worker) putBack(s *shift, batch []queue.Delivery, reason string) int64 {
	w.deciding.Lock()
	defer w.deciding.Unlock()
	if batch = w.live(batch); len(batch) == 0 {
		return 0
	}
	slices.Reverse(batch)
	back := queue.Answer{Verb: queue.Release, Reason: reason}
	settlements := make([]queue.Settlement, len(batch))
	for i := range batch {
		settlements[i] = w.settlement(&batch[i], &back)
		settlements[i].Aside = 0 // the workers claim none of it any more
	}
	w.settle(s, batch, settlements)
	return int64(len(batch))
}

// putBackQueued puts back what is queued behind a delivery that still runs. The
// channel must be closed.
func (w *worker) putBackQueued(s *shift, reason string) {
	var queued []queue.Delivery
	for d := range w.items {
		queued = append(queued, d)
	}
	n := w.putBack(s, queued, reason)
	if reason == draining {
		s.released.Add(n)
	}
}
