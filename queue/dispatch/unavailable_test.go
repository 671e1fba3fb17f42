package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

// reviewAPI is a handler's other end, which may be down. Calls take a moment, so
// that many are on their way at once.
type reviewAPI struct {
	down  atomic.Bool
	calls atomic.Int64 // since it went down
}

func (a *reviewAPI) answer(ctx context.Context, d *queue.Delivery) queue.Answer {
	<-time.After(10 * time.Millisecond)
	a.calls.Add(1)
	if a.down.Load() {
		return queue.Unavailable("connection refused", 0)
	}
	return ack(ctx, d)
}

func TestUnavailable(t *testing.T) {
	inBubble(t, "the outage is told while it lasts: which route, since when, until when, and why", func(t *testing.T) {
		api := &reviewAPI{}
		api.down.Store(true)
		g := start(t, one(), api.answer)
		if down := g.Unavailable(); down != nil {
			t.Errorf("before anything was tried: %+v", down)
		}
		began := time.Now()
		g.submit("a1@A")
		pass(100 * time.Millisecond)
		first := began.Add(10 * time.Millisecond)
		want := []Outage{{queue.RouteReview, first, first.Add(500 * time.Millisecond), "connection refused"}}
		if down := g.Unavailable(); !slices.Equal(down, want) {
			t.Errorf("after the first failure: %+v, want %+v", down, want)
		}
		if up, here := g.Available(queue.RouteReview); up || !here {
			t.Errorf("available: %v, %v", up, here)
		}
		pass(time.Minute)
		down := g.Unavailable()
		if len(down) != 1 || !down[0].Since.Equal(first) || !down[0].Next.After(time.Now()) {
			t.Errorf("a minute later: %+v", down)
		}
		api.down.Store(false)
		pass(time.Minute)
		if down := g.Unavailable(); down != nil {
			t.Errorf("after it was back: %+v", down)
		}
		up, here := g.Available(queue.RouteReview)
		if _, elsewhere := g.Available(queue.AutoResolve); !up || !here || elsewhere {
			t.Errorf("available: %v, %v; a route without a handler: %v", up, here, elsewhere)
		}
	})
	inBubble(t, "one probe at a time, nothing is counted, and all goes on when it is back", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 4, 16, 16
		api := &reviewAPI{}
		api.down.Store(true)
		g := start(t, o, api.answer)
		var specs []string
		for w, keys := range keysOf(4, 5) {
			for i, k := range keys {
				specs = append(specs, fmt.Sprintf("m%d.%d@%s", w, i, k))
			}
		}
		g.submit(specs...)
		pass(100 * time.Millisecond)
		// Each worker had one under way when the first failed; what else they had
		// queued goes back untried.
		if n := api.calls.Load(); n != 4 {
			t.Errorf("%d calls before it was known", n)
		}
		g.seen.mu.Lock()
		g.seen.most = 0
		g.seen.mu.Unlock()
		pass(10 * time.Minute)
		// 0.5 s, 1 s, 2 s, … 30 s and 30 s again: half of the backoff.
		if n := api.calls.Load() - 4; n < 15 || n > 30 {
			t.Errorf("%d probes in 10 minutes", n)
		}
		if g.seen.most != 1 {
			t.Errorf("%d probes at once", g.seen.most)
		}
		for _, x := range g.exceptions() {
			if x.Deliveries != 0 || x.FailedAttempts != 0 || x.State != queue.Ready {
				t.Errorf("seq %d is %s with %d deliveries, %d failures", x.Seq, x.State, x.Deliveries, x.FailedAttempts)
			}
		}
		api.down.Store(false)
		pass(31 * time.Second)
		if st := g.status(); st.Done != 20 {
			t.Errorf("half a minute after it was back: %+v", st)
		}
	})
	inBubble(t, "it is raised when it begins and when a probe fails, not for every delivery", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 4, 16, 16
		o.Settings.Policy.RetryInitial = 10 * time.Second
		api := &reviewAPI{}
		api.down.Store(true)
		g := start(t, o, api.answer)
		for _, keys := range keysOf(4, 2) {
			g.submit("x"+keys[0]+"@"+keys[0], "x"+keys[1]+"@"+keys[1])
		}
		pass(4 * time.Second)
		g.wantRaised("HANDLER_UNAVAILABLE ROUTE_REVIEW")
		pass(2 * time.Second)
		g.wantRaised("HANDLER_UNAVAILABLE ROUTE_REVIEW", "HANDLER_UNAVAILABLE ROUTE_REVIEW")
		api.down.Store(false)
	})
	inBubble(t, "a probe is found wherever the only message is", func(t *testing.T) {
		for _, keys := range keysOf(4, 1) {
			o := usual()
			o.Workers, o.Room, o.Settings.Prefetch = 4, 16, 1
			api := &reviewAPI{}
			api.down.Store(true)
			g := start(t, o, api.answer)
			g.submit("m@" + keys[0])
			pass(5 * time.Second)
			if n := api.calls.Load(); n < 3 {
				t.Errorf("key %s: %d calls in 5 s", keys[0], n)
			}
			api.down.Store(false)
			pass(time.Minute)
			if st := g.status(); st.Done != 1 {
				t.Errorf("key %s: %+v", keys[0], st)
			}
			g.end()
		}
	})
	inBubble(t, "its Retry-After is obeyed up to the policy's cap", func(t *testing.T) {
		var calls atomic.Int64
		g := start(t, usual(), func(context.Context, *queue.Delivery) queue.Answer {
			calls.Add(1)
			return queue.Unavailable("429", time.Hour)
		})
		g.submit("a1@A")
		pass(59 * time.Second)
		if n := calls.Load(); n != 1 {
			t.Errorf("%d calls", n)
		}
		pass(2 * time.Second)
		if n := calls.Load(); n != 2 {
			t.Errorf("%d calls after a minute, which is the cap", n)
		}
	})
	inBubble(t, "the longest Retry-After counts of those that were asked at once", func(t *testing.T) {
		for _, longer := range []struct{ asked, waits time.Duration }{{40 * time.Second, 40 * time.Second}, {time.Hour, time.Minute}} {
			o := usual()
			o.Workers, o.Room, o.Settings.Prefetch = 2, 8, 8
			var calls atomic.Int64
			g := start(t, o, func(context.Context, *queue.Delivery) queue.Answer {
				n := calls.Add(1) // both are on their way before the first has an answer
				<-time.After(time.Duration(n) * 10 * time.Millisecond)
				if n == 2 {
					return queue.Unavailable("503", longer.asked)
				}
				return queue.Unavailable("503", 10*time.Second)
			})
			for _, keys := range keysOf(2, 1) {
				g.submit("m" + keys[0] + "@" + keys[0])
			}
			pass(longer.waits)
			if n := calls.Load(); n != 2 {
				t.Errorf("%d calls within %v, which was asked for", n, longer.waits)
			}
			pass(time.Second)
			if n := calls.Load(); n != 3 {
				t.Errorf("%d calls a second after it", n)
			}
			g.end()
		}
	})
	inBubble(t, "the other route goes on", func(t *testing.T) {
		o := usual()
		g := open(t, o, func(context.Context, *queue.Delivery) queue.Answer { return queue.Unavailable("down", 0) })
		g.rewire(o, map[queue.Route]any{queue.RouteReview: g.seen, queue.AutoResolve: &recording{}}).begin()
		g.submit("a1@A", "b1@B", "c1@C", "d1@D", "a2@A=0", "e1@E=0", "f1@F=0", "g1@G=0", "h1@H=0", "i1@I=0")
		pass(100 * time.Millisecond)
		if st := g.status(); st.Done != 5 {
			t.Errorf("%+v", st)
		}
	})
	inBubble(t, "a message that is put back costs its key nothing", func(t *testing.T) {
		api := &reviewAPI{}
		api.down.Store(true)
		g := start(t, usual(), api.answer)
		g.submit("a1@A")
		synctest.Wait()
		pass(100 * time.Millisecond)
		for _, r := range g.trail() {
			if r.Event == queue.EventReleased && r.Code != queue.CodeHandlerUnavailable {
				t.Errorf("released with code %q", r.Code)
			}
		}
		if n := g.events(queue.EventReleased); n != 1 {
			t.Errorf("released %d times", n)
		}
		api.down.Store(false)
	})
}

// exceptions lists what is open.
func (g *rig) exceptions() []queue.Exception {
	g.t.Helper()
	list, err := g.store.Exceptions(context.Background(), 0, 1000)
	if err != nil {
		g.t.Fatal(err)
	}
	return list
}

// A probe for which there is no message must not take the only place that prefetch has,
// again and again: others could not work, and the feeder would never rest.
func TestUnavailable_a_probe_without_a_message_leaves_room(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual()
		o.Settings.Prefetch = 1
		g := open(t, o, func(context.Context, *queue.Delivery) queue.Answer { return queue.Unavailable("down", 0) })
		g.rewire(o, map[queue.Route]any{queue.RouteReview: g.seen, queue.AutoResolve: &recording{}}).begin()
		g.submit("a1@A")
		synctest.Wait()
		if _, err := g.store.HoldKeys(t.Context(), queue.Action{Now: time.Now(), By: "op"}, []string{"A"}); err != nil {
			t.Fatal(err)
		}
		before := g.store.count("claim")
		g.store.on(func(verb string) error {
			if verb == "claim" && g.store.count("claim") > before+1000 {
				return queue.ErrClosed // a test that fails, not one that hangs
			}
			return nil
		})
		pass(10 * time.Second) // the probe is due
		g.submit("b1@B=0", "c1@C=0")
		pass(time.Second)
		if st, n := g.status(), g.store.count("claim")-before; st.Done != 2 || n > 100 {
			t.Errorf("%+v after %d claims", st, n)
		}
		g.store.on(nil)
	})
}
