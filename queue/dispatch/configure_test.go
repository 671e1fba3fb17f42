package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

// with is the rig's settings with other handlers.
func (g *rig) with(handlers map[queue.Route]any) {
	g.t.Helper()
	if err := g.Reconfigure(Configuration{
		Settings: *g.settings.Load(), Workers: len(g.crew.fed()), Room: g.roomInAll(), Handlers: handlers,
	}); err != nil {
		g.t.Fatal(err)
	}
}

func (g *rig) roomInAll() (n int) {
	for _, w := range g.crew.fed() {
		n += cap(w.items)
	}
	return n
}

// now is how many run.
func (e *effects) now() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.total
}

// staff asks for so many workers.
func (g *rig) staff(workers, room int) {
	g.t.Helper()
	c := Configuration{Settings: *g.settings.Load(), Workers: workers, Room: room, Handlers: map[queue.Route]any{queue.RouteReview: g.seen}}
	if err := g.Reconfigure(c); err != nil {
		g.t.Fatal(err)
	}
	synctest.Wait()
}

func TestReconfigure_workers(t *testing.T) {
	many := func(keys, each int) (specs []string) {
		for i := range each {
			for k := range keys {
				specs = append(specs, fmt.Sprintf("m%d.%d@K%d", k, i, k))
			}
		}
		return specs
	}
	inBubble(t, "more of them run more at once", func(t *testing.T) {
		g := start(t, usual(), slowly(10*time.Second))
		g.submit(many(40, 1)...)
		synctest.Wait()
		if g.seen.now() != 2 {
			t.Fatalf("%d run", g.seen.now())
		}
		g.staff(8, 16)
		pass(10 * time.Second)
		if g.seen.now() != 8 || len(g.crew.holders()) != 8 {
			t.Errorf("%d run, %d workers", g.seen.now(), len(g.crew.holders()))
		}
		pass(5 * time.Minute)
		if g.status().Done != 40 {
			t.Errorf("%+v", g.status())
		}
	})
	inBubble(t, "those that leave finish what they have begun, and keep its lease", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Lease = 8, 16, 3*time.Second
		g := start(t, o, slowly(time.Minute))
		g.submit(many(40, 1)...)
		synctest.Wait()
		g.staff(1, 4)
		if n := len(g.crew.holders()); n != 9 {
			t.Errorf("%d workers while eight finish", n)
		}
		pass(time.Minute)
		if g.status().Done != 9 || g.seen.now() != 1 || len(g.crew.holders()) != 1 {
			t.Errorf("%+v, %d run, %d workers", g.status(), g.seen.now(), len(g.crew.holders()))
		}
		g.wantRaised() // no lease has expired
		if x := g.message("m39.0"); x.FailedAttempts != 0 {
			t.Errorf("%+v", x)
		}
	})
	inBubble(t, "a drain waits for those that leave", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room = 4, 8
		g := start(t, o, slowly(20*time.Second))
		g.submit(many(10, 1)...)
		synctest.Wait()
		g.staff(1, 4)
		began := time.Now()
		if d := g.end(); !d.Clean() || g.status().Done < 4 || time.Since(began) != 20*time.Second {
			t.Errorf("%+v, %+v after %v", d, g.status(), time.Since(began))
		}
	})
	inBubble(t, "through any changes every key is in order and nothing is lost", func(t *testing.T) {
		g := start(t, usual(), slowly(time.Second))
		g.submit(many(12, 6)...)
		for i, n := range []int{5, 1, 8, 8, 3, 12, 2, 6, 1, 4} {
			g.staff(n, n*(1+i%3)+4)
			pass(1500 * time.Millisecond)
		}
		pass(2 * time.Minute)
		if st := g.status(); st.Done != 72 {
			t.Errorf("%+v", st)
		}
		g.wantRaised()
	})
}

func TestReconfigure(t *testing.T) {
	review := func(h any) map[queue.Route]any { return map[queue.Route]any{queue.RouteReview: h} }
	inBubble(t, "what runs is finished by the old handler, what is queued goes to the new one", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room = 1, 4
		g := start(t, o, slowly(10*time.Second))
		g.submit("a1@A", "b1@B")
		synctest.Wait()
		other := newEffects(g.store, ack)
		g.with(review(other))
		pass(5 * time.Second)
		if other.started() != "" || g.seen.started() != "a1" {
			t.Fatalf("old %q, new %q", g.seen.started(), other.started())
		}
		pass(5 * time.Second)
		if other.started() != "b1" || g.status().Done != 2 {
			t.Errorf("new %q, %+v", other.started(), g.status())
		}
	})
	inBubble(t, "a route that is left to consumers keeps what was queued, uncounted", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room = 1, 4
		g := start(t, o, slowly(10*time.Second))
		g.submit("a1@A", "b1@B")
		synctest.Wait()
		g.with(nil)
		pass(time.Hour)
		if x := g.message("b1"); x.State != queue.Ready || x.FailedAttempts != 0 || g.status().Done != 1 {
			t.Errorf("%+v, %+v", x, g.status())
		}
		g.with(review(g.seen))
		pass(10 * time.Second)
		if g.status().Done != 2 {
			t.Errorf("%+v", g.status())
		}
	})
	inBubble(t, "a run of one key that was claimed for a pure handler is in order under one with effects", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 1, 8, 8
		failed := false
		g := open(t, o, func(ctx context.Context, d *queue.Delivery) queue.Answer {
			if d.Message.IdempotencyKey == "a2" && !failed {
				failed = true
				return queue.Answer{Verb: queue.Retry}
			}
			return ack(ctx, d)
		})
		blocking := &gate{open: make(chan struct{})}
		g.rewire(o, review(blocking)).begin()
		g.submit("a1@A")
		synctest.Wait() // it is being decided
		g.submit("a2@A", "a3@A", "a4@A", "b1@B")
		synctest.Wait()
		g.with(review(g.seen))
		close(blocking.open)
		pass(time.Minute)
		if got := g.seen.started(); g.status().Done != 5 || got != "a2 b1 a2 a3 a4" && got != "b1 a2 a2 a3 a4" {
			t.Errorf("%q, %+v", got, g.status())
		}
	})
	inBubble(t, "another handler is not blamed for the one before", func(t *testing.T) {
		g := start(t, usual(), func(context.Context, *queue.Delivery) queue.Answer { return queue.Unavailable("down", time.Minute) })
		g.submit("a1@A", "b1@B")
		synctest.Wait()
		g.with(review(g.seen)) // the same one: it stays down
		synctest.Wait()
		if g.status().Done != 0 {
			t.Fatalf("%+v", g.status())
		}
		g.with(review(newEffects(g.store, ack)))
		synctest.Wait()
		if g.status().Done != 2 {
			t.Errorf("%+v", g.status())
		}
	})
	inBubble(t, "what cannot be worked with changes nothing", func(t *testing.T) {
		g := start(t, usual(), ack)
		s := *g.settings.Load()
		s.Prefetch = 5 // more than the room
		if err := g.Reconfigure(Configuration{Settings: s, Workers: 2, Room: 4}); err == nil {
			t.Error("taken")
		}
		if err := g.Reconfigure(Configuration{Settings: *g.settings.Load(), Workers: 2, Room: 4, Handlers: review(7)}); err == nil {
			t.Error("taken")
		}
		g.submit("a1@A")
		synctest.Wait()
		if g.status().Done != 1 {
			t.Errorf("%+v", g.status())
		}
	})
}

// gate is a pure handler that decides when it is opened. (Decide must not block; this
// is how a test catches a worker in the middle of it.)
type gate struct{ open chan struct{} }

func (p *gate) Decide(*queue.Delivery) queue.Answer {
	<-p.open
	return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
}

func TestClaims_with_one_place_both_kinds_get_their_turn_at_once(t *testing.T) {
	inBubble(t, "one worker", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 1, 1, 1
		g := open(t, o, ack)
		g.rewire(o, map[queue.Route]any{queue.RouteReview: g.seen, queue.AutoResolve: &recording{}}).begin()
		for i, spec := range []string{"a1@A", "a2@A", "b1@B=0", "a3@A", "b2@B=0", "b3@B=0", "a4@A"} {
			g.submit(spec)
			synctest.Wait()
			if done := g.status().Done; done != int64(i+1) {
				t.Fatalf("%s: %d done", spec, done)
			}
		}
	})
}
