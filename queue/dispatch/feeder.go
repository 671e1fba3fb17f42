package dispatch

import (
	"context"
	"errors"
	"time"

	"breakwater/queue"
)

// idleWait is how long the feeder waits when nothing is due: a bound, not a poll;
// every event that can make work claimable raises wake.
const idleWait = time.Minute

// feed claims work for workers that have room, until stop ends.
func (r *Runner) feed(stop context.Context) {
	for {
		pause := r.feedOnce(stop)
		if stop.Err() != nil || r.Draining() {
			return
		}
		if pause == 0 {
			continue
		}
		timer := time.NewTimer(pause)
		select {
		case <-r.wake:
		case <-timer.C:
		case <-r.draining:
		case <-r.failed:
		case <-stop.Done():
		}
		timer.Stop()
	}
}

// feedOnce makes one claim for all workers that have room, and hands it out. It
// returns how long there is nothing to do, unless somebody raises wake.
func (r *Runner) feedOnce(stop context.Context) time.Duration {
	now := r.now()
	wants, hands, probes := r.wants(now)
	if len(wants) == 0 {
		return idleWait // a worker that takes an item raises wake
	}
	res, err := r.store.Claim(stop, queue.ClaimRequest{Now: now, Wants: wants})
	switch {
	case errors.Is(err, queue.ErrNoRoom):
		return retryAfter
	case err != nil && stop.Err() != nil:
		return idleWait
	case err != nil:
		r.fail("claim", err)
		return idleWait
	}
	for _, d := range res.Damaged {
		r.log.Error("stored message is damaged; its key is held", "seq", d.Seq, "error", d.What)
	}
	claimed := 0
	for i, deliveries := range res.Deliveries {
		claimed += len(deliveries)
		if probe := i - (len(wants) - len(probes)); probe >= 0 && len(deliveries) > 0 {
			probes[probe].health.probeClaimed()
		}
		hands[i].give(deliveries)
		if r.observer.Claimed != nil && len(deliveries) > 0 {
			r.observer.Claimed(deliveries)
		}
	}
	if claimed > 0 || res.More {
		return 0
	}
	return r.untilNext(res.Next, now)
}

// untilNext is the time to the next thing that falls due: a key's wait, a
// scheduled message, or a route's probe.
func (r *Runner) untilNext(next, now time.Time) time.Duration {
	pause := idleWait
	if !next.IsZero() {
		pause = min(pause, next.Sub(now))
	}
	for _, rt := range r.routes {
		if at := rt.health.retryAt(); !at.IsZero() {
			pause = min(pause, at.Sub(now))
		}
	}
	return max(pause, time.Millisecond)
}

// wants asks for work for every worker with room, prefetch in all. For handlers
// with effects it asks for one message of a key at a time; see the package comment.
// The last wants are probes, one for each route in probes.
func (r *Runner) wants(now time.Time) (wants []queue.Want, hands []*worker, probes []*route) {
	s := r.settings.Load()
	pure, effects := r.claimable(now)
	left, first := s.Prefetch, r.first()
	for i := range r.workers {
		w := r.workers[(first+i)%len(r.workers)]
		room := min(w.room(), left)
		if room == 0 {
			continue
		}
		want := queue.Want{
			Owner: queue.Owner{Kind: queue.Worker, Name: w.name}, Slots: w.slots, Lease: s.Lease,
		}
		forPure := room
		if effects != 0 && pure != 0 {
			forPure = (room + w.turn&1) / 2 // an odd place goes to each in turn
			w.turn++
		} else if pure == 0 {
			forPure = 0
		}
		left -= room
		for _, part := range [...]struct {
			routes      queue.RouteSet
			max, perKey int
		}{{pure, forPure, forPure}, {effects, room - forPure, 1}} {
			if part.routes != 0 && part.max > 0 {
				want.Routes, want.Max, want.PerKey = part.routes, part.max, part.perKey
				wants, hands = append(wants, want), append(hands, w)
			}
		}
	}
	return r.probes(wants, hands, s, now)
}

// first rotates which worker is asked for first, so that none is always last when
// prefetch is short.
func (r *Runner) first() int { return int(r.random()) % len(r.workers) }

// claimable returns the routes that work may be claimed for, by kind of handler.
func (r *Runner) claimable(now time.Time) (pure, effects queue.RouteSet) {
	for name, rt := range r.routes {
		switch {
		case rt.pure != nil:
			pure |= queue.RoutesOf(name)
		case rt.health.up():
			effects |= queue.RoutesOf(name)
		}
	}
	return pure, effects
}

// probes adds, for each route whose handler is unavailable and may be tried again,
// a want for one message, for the first worker that has room besides what is
// wanted already.
func (r *Runner) probes(wants []queue.Want, hands []*worker, s *Settings, now time.Time) ([]queue.Want, []*worker, []*route) {
	var probed []*route
	taken := map[*worker]int{}
	for i, w := range hands {
		taken[w] += wants[i].Max
	}
	for name, rt := range r.routes {
		if !rt.health.probeDue(now) {
			continue
		}
		for _, w := range r.workers {
			if w.room()-taken[w] < 1 {
				continue
			}
			taken[w]++
			wants = append(wants, queue.Want{
				Owner: queue.Owner{Kind: queue.Worker, Name: w.name}, Slots: w.slots,
				Routes: queue.RoutesOf(name), Max: 1, PerKey: 1, Lease: s.Lease,
			})
			hands, probed = append(hands, w), append(probed, rt)
			break
		}
	}
	return wants, hands, probed
}
