package dispatch

import (
	"context"
	"errors"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// idleWait is how long the feeder waits when nothing is due: a bound, not a poll;
// every event that can make work claimable raises wake.
const idleWait = time.Minute

// feeder claims work for workers and consumers that have room. Only its own goroutine uses it.
type feeder struct {
	r     *Runner
	shift *shift
	// first is the worker that is asked for first, so that none is always last
	// when prefetch is short; round counts the workers asked since the last
	// delivery.
	first, round int
	// due is when time alone changes what can be claimed, as the last claim said.
	due time.Time
	// firstSeat is the consumer that is asked for first; dry counts the claims that
	// have found nothing for anybody, in a row, since the feeder last waited.
	firstSeat, dry int
}

// claimant is who work is claimed for.
type claimant interface {
	give([]queue.Delivery)
}

// run feeds until stop ends.
func (f *feeder) run(stop context.Context) {
	for stop.Err() == nil && !f.r.Draining() && !f.r.hasFailed() {
		pause := f.feed(stop)
		if pause == 0 {
			continue
		}
		f.dry = 0
		timer := time.NewTimer(pause)
		select {
		case <-f.r.wake:
		case <-timer.C:
		case <-f.r.draining:
		case <-f.r.failed:
		case <-stop.Done():
		}
		timer.Stop()
	}
}

// feed makes one claim and hands it out. It returns how long there is nothing to
// do, unless somebody raises wake. When something falls due a claim is made also if
// nobody has room: scheduled messages take their place in it.
func (f *feeder) feed(stop context.Context) time.Duration {
	r := f.r
	if want := r.wanted.Swap(nil); want != nil {
		f.shift.restaff(r, *want)
		f.first, f.round = 0, 0
	}
	if !r.moving.take(stop) {
		return idleWait
	}
	defer r.moving.end()
	now := r.now()
	a := f.ask(now)
	f.offer(&a, now)
	if f.due = r.soonest.earlier(f.due); len(a.wants) == 0 && (f.due.IsZero() || f.due.After(now)) {
		// A worker that has come to have room raises wake; the probe of a route
		// that waits for its handler has nobody else to remember it.
		return f.untilNext(f.due, now)
	}
	res, err := r.store.Claim(stop, queue.ClaimRequest{Now: now, Wants: a.wants})
	if err != nil {
		f.seated(&a, nil, now)
	}
	switch {
	case errors.Is(err, queue.ErrNoRoom):
		return retryAfter
	case err != nil && !fatal(err) && stop.Err() != nil:
		return idleWait
	case err != nil:
		r.fail("claim", err)
		return idleWait
	}
	for _, d := range res.Damaged {
		r.log.Error("stored message is damaged; its key is held", "seq", d.Seq, "error", d.What)
	}
	f.due = res.Next
	filled := a.handOut(r, res.Deliveries)
	if f.dry++; a.all > 0 {
		f.dry = 0
	}
	filled = f.seated(&a, &res, now) || filled
	if res.More || filled || f.others(&a) {
		return 0
	}
	return f.untilNext(res.Next, now)
}

// others reports whether there are workers with room that were not asked, because
// prefetch is short, or not for both kinds of handlers, and have to be before it is
// sure that there is nothing for anybody.
func (f *feeder) others(a *asking) bool {
	f.round += a.asked
	if a.given > 0 {
		f.round = a.asked
	}
	all := a.able
	if a.halved {
		all *= 2 // the second time it is the other kind's turn
	}
	if f.round < all {
		return true
	}
	f.round = 0
	return false
}

// asking is one request for work.
type asking struct {
	wants   []queue.Want
	to      []claimant // who gets the want of the same index
	probing []*served  // what it probes; nil for ordinary ones
	offered []offered  // the consumers among them
	left    int        // of prefetch
	able    int        // workers with room
	asked   int        // those of them that were asked for
	given   int        // deliveries to workers that came of it
	all     int        // those to consumers too
	halved  bool       // somebody had one place, and was asked for one kind of handler only
}

// add asks for one worker. What is asked for is bounded by prefetch.
func (a *asking) add(w *worker, slots partition.SlotSet, routes queue.RouteSet, most, perKey int, lease time.Duration, probed *served) {
	most = min(most, a.left)
	if routes == 0 || most <= 0 {
		return
	}
	a.left -= most
	a.wants = append(a.wants, queue.Want{
		Owner: w.owner(), Slots: slots, Routes: routes, Max: most, PerKey: perKey, Lease: lease,
	})
	a.to, a.probing = append(a.to, w), append(a.probing, probed)
}

// handOut gives deliveries to those they were claimed for. It reports whether some
// worker's want was filled, so that there may be more; see seated for consumers.
func (a *asking) handOut(r *Runner, all [][]queue.Delivery) (filled bool) {
	for i, deliveries := range all {
		if len(deliveries) == 0 {
			continue
		}
		a.all += len(deliveries)
		if _, is := a.to[i].(*worker); is {
			a.given += len(deliveries)
			filled = filled || a.probing[i] == nil && len(deliveries) == a.wants[i].Max
		}
		if h := a.probing[i]; h != nil {
			h.health.probeClaimed()
		}
		if r.observer.Claimed != nil {
			r.observer.Claimed(deliveries)
		}
		a.to[i].give(deliveries)
	}
	return filled
}

// ask makes the next request: probes first, then work for every worker that has
// run half empty (thirsty); sooner is not worth a transaction. The workers share prefetch;
// if it is too short for all, those after the last one asked come first.
//
// For handlers with effects it asks for one message of a key at a time; see the
// package comment.
func (f *feeder) ask(now time.Time) asking {
	r := f.r
	s := r.settings.Load()
	a := asking{left: s.Prefetch}
	if f.dry == 0 { // else it was asked for just now, and must not take the place of the others
		f.probe(&a, s, now)
	}
	workers := r.crew.fed()
	for _, w := range workers {
		if w.thirsty() {
			a.able++
		}
	}
	pure, effects := r.claimable()
	if a.able == 0 || pure|effects == 0 {
		a.able = 0
		return a
	}
	share, last := max(1, a.left/a.able), 0
	for i := range workers {
		w := workers[(f.first+i)%len(workers)]
		if a.left <= 0 {
			break
		}
		if !w.thirsty() {
			continue
		}
		a.asked++
		last = i
		room := min(w.room()-a.probes(w), share)
		forPure := w.split(room, pure, effects)
		if pure != 0 && effects != 0 && (forPure == 0 || forPure == room) {
			a.halved = true
		}
		a.add(w, w.slots, pure, forPure, forPure, s.Lease, nil)
		a.add(w, w.slots, effects, room-forPure, 1, s.Lease, nil)
	}
	f.first = (f.first + last + 1) % len(workers)
	return a
}

// probe asks, for each route whose handler is unavailable and may be tried again,
// for one message: of any slot, for any worker that has room. It is the route that
// is probed, and whoever is asked must be able to find a message of it.
func (f *feeder) probe(a *asking, s *Settings, now time.Time) {
	r := f.r
	workers := r.crew.fed()
	for name, rt := range r.routes {
		h := rt.inProcess()
		if h == nil || !h.health.probeDue(now) {
			continue
		}
		for i := range workers {
			w := workers[(f.first+i)%len(workers)]
			if w.room()-a.probes(w) > 0 {
				a.add(w, partition.AllSlots(), queue.RoutesOf(name), 1, 1, s.Lease, h)
				break
			}
		}
	}
}

// probes is how many probes are asked for w.
func (a *asking) probes(w *worker) (n int) {
	for i, h := range a.probing {
		if h != nil && a.to[i] == w {
			n++
		}
	}
	return n
}

// claimable returns the routes that work may be claimed for, by kind of handler.
func (r *Runner) claimable() (pure, effects queue.RouteSet) {
	for name, rt := range r.routes {
		switch h := rt.inProcess(); {
		case h == nil:
		case h.pure != nil:
			pure |= queue.RoutesOf(name)
		case h.health.up():
			effects |= queue.RoutesOf(name)
		}
	}
	return pure, effects
}

// untilNext is the time to the next thing that falls due: a key's wait, a
// scheduled message, a consumer's spill, or a route's probe. A probe that is due already, and for
// which there was no message, waits for one.
func (f *feeder) untilNext(next, now time.Time) time.Duration {
	r, pause := f.r, idleWait
	if at := f.nextSpill(now); !at.IsZero() {
		pause = min(pause, at.Sub(now))
	}
	if !next.IsZero() {
		pause = min(pause, next.Sub(now))
	}
	for _, rt := range r.routes {
		h := rt.inProcess()
		if h == nil {
			continue
		}
		if at := h.health.retryAt(); at.After(now) {
			pause = min(pause, at.Sub(now))
		}
	}
	return max(pause, time.Millisecond)
}
