package dispatch

import (
	"reflect"
	"sync/atomic"
	"time"

	"breakwater/queue"
)

// route is a route that exceptions take. Its handler may change while the Runner
// runs: nil leaves it to consumers.
type route struct {
	current atomic.Pointer[served]
}

// inProcess returns what serves the route in this process now; nil: nothing does.
func (rt *route) inProcess() *served { return rt.current.Load() }

// served is a handler at work, and whether it can be had. Another handler begins
// with a clean slate: what the one before could not reach says nothing about it.
type served struct {
	given   any     // as it came
	handler Handler // one of the two
	asker   Asker   // the handler, if it is one
	pure    Pure
	since   time.Time
	health  health
	settled atomic.Int64 // when a delivery of the route was settled last, Unix nanoseconds; 0: not yet
}

// served returns what serves a route in this process now; nil: nothing does.
func (r *Runner) served(name queue.Route) *served {
	if rt := r.routes[name]; rt != nil {
		return rt.inProcess()
	}
	return nil
}

// settledAt is when a delivery was settled last, or else when the handler came.
func (h *served) settledAt() time.Time {
	if at := h.settled.Load(); at != 0 {
		return time.Unix(0, at)
	}
	return h.since
}

// Configuration is what may change while a Runner runs.
type Configuration struct {
	Settings Settings
	// Workers and Room are as in [Options].
	Workers int
	Room    int
	// Handlers has the in-process handler of each route that has one, as in
	// [Options]. One that is equal to the present one stays, with all that is known
	// of it.
	Handlers map[queue.Route]any
}

// Check says what of the configuration could not be worked with, as New would.
func (r *Runner) Check(c Configuration) error {
	o := Options{Store: r.store, Settings: c.Settings, Workers: c.Workers, Room: c.Room, Handlers: c.Handlers}
	return o.check()
}

// Reconfigure puts another configuration into force, or returns what [Runner.Check]
// has against it and changes nothing. A delivery that runs is finished by the handler
// that has begun it; what is queued gets the new one, or goes back uncounted if its
// route has none any more. Workers come and go soon after; those that go finish what
// they have begun. It must not be called by two goroutines at once.
func (r *Runner) Reconfigure(c Configuration) error {
	if err := r.Check(c); err != nil {
		return err
	}
	r.settings.Store(&c.Settings)
	r.setHandlers(c.Handlers)
	r.wanted.Store(&staffing{c.Workers, c.Room})
	r.Wake()
	return nil
}

// setHandlers gives each route its handler, and none to those that are not named.
func (r *Runner) setHandlers(handlers map[queue.Route]any) {
	now := r.now()
	for name, rt := range r.routes {
		h, ok := handlers[name]
		old := rt.inProcess()
		switch {
		case !ok:
			rt.current.Store(nil)
		case old == nil || !same(old.given, h):
			next := &served{given: h, since: now}
			next.handler, _ = h.(Handler)
			next.asker, _ = h.(Asker)
			next.pure, _ = h.(Pure)
			rt.current.Store(next)
		}
	}
}

// same reports whether two handlers are one. Those that Go cannot compare are not.
func same(a, b any) bool {
	return reflect.TypeOf(a) == reflect.TypeOf(b) && reflect.TypeOf(a).Comparable() && a == b
}
