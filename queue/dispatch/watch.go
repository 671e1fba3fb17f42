package dispatch

import (
	"context"
	"time"

	"breakwater/queue"
)

const (
	// watchEvery is how often the oldest claimable exceptions are looked at, and the
	// totals noted.
	watchEvery = 5 * time.Second
	// lagAgain is how often a route's lag is raised, at most: whether it goes on, or
	// comes and goes.
	lagAgain = time.Minute
)

// watch raises CONSUMER_LAG while a route's oldest claimable exception is older
// than it should be, and notes the totals for Recent, until stop ends.
func (r *Runner) watch(stop context.Context) {
	raised := map[queue.Route]time.Time{}
	if st, err := r.store.Status(stop, r.now()); err == nil {
		r.samples.take(sampleOf(&st, r.now()))
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-r.draining:
			return
		case <-r.failed:
			return
		case <-stop.Done():
			return
		}
		now := r.now()
		st, err := r.store.Status(stop, now)
		if err != nil {
			continue // who writes will meet it too, and say so
		}
		r.samples.take(sampleOf(&st, now))
		r.checkLag(&st, raised, now)
	}
}

// checkLag raises CONSUMER_LAG for each route that lags, with the ids of its
// oldest claimable exception and what would help.
func (r *Runner) checkLag(st *queue.StoreStatus, raised map[queue.Route]time.Time, now time.Time) {
	limit := r.settings.Load().ConsumerLag
	for i := range st.Oldest {
		o := &st.Oldest[i]
		age := now.Sub(o.AcceptedAt)
		if limit <= 0 || age < limit || st.Paused != nil {
			continue
		}
		if last, ok := raised[o.Route]; ok && now.Sub(last) < lagAgain {
			continue
		}
		raised[o.Route] = now
		r.raise(queue.CodeConsumerLag, o.Route, "the oldest claimable exception is too old", &o.Message,
			append(r.capacity(o.Route), "age_ms", age.Milliseconds(), "ready", st.Ready)...)
	}
}

// capacity says who works on a route, and how many more deliveries they would take.
func (r *Runner) capacity(route queue.Route) []any {
	if r.served(route) != nil {
		return []any{"in_process", true, "free_room", r.freeRoom()}
	}
	attached, room := r.ConsumersOf(route)
	return []any{"in_process", false, "consumers", attached, "free_room", room}
}

// freeRoom is how many deliveries the workers could take now.
func (r *Runner) freeRoom() int {
	free := 0
	for _, w := range r.crew.fed() {
		free += w.room()
	}
	return free
}

// Stuck names the in-process routes that have claimable work and have settled
// nothing for as long as ConsumerLag: what makes the process not ready.
func (r *Runner) Stuck(st *queue.StoreStatus, now time.Time) (stuck []queue.Route) {
	limit := r.settings.Load().ConsumerLag
	if limit <= 0 || st.Paused != nil {
		return nil
	}
	for i := range st.Oldest {
		o := &st.Oldest[i]
		h := r.served(o.Route)
		if h != nil && now.Sub(o.AcceptedAt) >= limit && now.Sub(h.settledAt()) >= limit {
			stuck = append(stuck, o.Route)
		}
	}
	return stuck
}
