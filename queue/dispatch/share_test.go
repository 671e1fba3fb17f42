package dispatch

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// keysFor returns n keys whose preferred consumer among all is the one named.
func keysFor(n int, owner string, all ...string) (keys []string) {
	a := partition.Assign(all)
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprintf("K%d", i); a.Name(a.OwnerOf(key)) == owner {
			keys = append(keys, key)
		}
	}
	return keys
}

// named makes specs x1@key, x2@key, … of keys.
func named(x string, keys []string) (specs []string) {
	for i, key := range keys {
		specs = append(specs, fmt.Sprintf("%s%d@%s", x, i+1, key))
	}
	return specs
}

func TestShares(t *testing.T) {
	inBubble(t, "each consumer gets the keys that prefer it", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 20)), g.attach(attachment("b", 20))
		g.submit(append(named("x", keysFor(3, "a", "a", "b")), named("y", keysFor(3, "b", "a", "b"))...)...)
		if a.has() != "x1 x2 x3" || b.has() != "y1 y2 y3" {
			t.Errorf("a has %s, b has %s", a.has(), b.has())
		}
	})
	inBubble(t, "one that leaves leaves its keys to the others, one that comes takes its own", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 20)), g.attach(attachment("b", 20))
		keys := keysFor(3, "b", "a", "b")
		g.submit(named("x", keys)...)
		if b.has() != "x1 x2 x3" {
			t.Fatalf("b has %s", b.has())
		}
		if err := b.Detach(t.Context()); err != nil {
			t.Fatal(err)
		}
		if a.has() != "x1 x2 x3" {
			t.Fatalf("a has %s", a.has())
		}
		b = g.attach(attachment("b", 20))
		g.submit(named("y", keys)...)
		if a.has() != "x1 x2 x3" || b.has() != "" {
			t.Fatalf("a has %s, b has %s: keys were taken from their holder", a.has(), b.has())
		}
		a.ack("x1", "x2", "x3")
		if a.has() != "" || b.has() != "y1 y2 y3" {
			t.Errorf("a has %s, b has %s", a.has(), b.has())
		}
	})
	inBubble(t, "only the share of one who comes moves", func(t *testing.T) {
		g := hosted(t)
		for _, name := range []string{"a", "b"} {
			g.attach(attachment(name, 1))
		}
		both := attachment("c", 1, queue.AutoResolve, queue.RouteReview)
		before := g.desk.attached()
		g.attach(both)
		after := g.desk.attached()
		review := queue.RouteIndex(queue.RouteReview)
		moved := 0
		for i := range before {
			if taken := after[i].slots[review].AndNot(before[i].slots[review]); !taken.Empty() {
				t.Errorf("%s got %d slots", before[i].a.Owner.Name, taken.Count())
			}
			lost := before[i].slots[review].AndNot(after[i].slots[review])
			moved += lost.Count()
		}
		newcomer := after[2]
		if n := newcomer.slots[review].Count(); moved != n || n == 0 {
			t.Errorf("%d slots moved, the newcomer has %d", moved, n)
		}
		if auto := newcomer.slots[queue.RouteIndex(queue.AutoResolve)]; auto != partition.AllSlots() {
			t.Errorf("alone on its route it has %d slots", auto.Count())
		}
	})
	inBubble(t, "consumers of both routes get both", func(t *testing.T) {
		g := hosted(t, func(o *Options) { o.Handlers = map[queue.Route]any{} })
		g.Wake()
		one, both := g.attach(attachment("one", 1)), g.attach(attachment("both", 1, queue.AutoResolve, queue.RouteReview))
		var specs []string
		for i := range 20 {
			specs = append(specs, fmt.Sprintf("r%d@R%d", i, i), fmt.Sprintf("a%d@A%d=0", i, i))
		}
		g.submit(specs...)
		for range 40 {
			one.ack(strings.Fields(one.has())...)
			both.ack(strings.Fields(both.has())...)
		}
		if st := g.status(); st.Done != 40 {
			t.Fatalf("%+v", st)
		}
		if strings.Contains(one.told(), "a") {
			t.Errorf("one was told of %s", one.told())
		}
		if !strings.Contains(both.told(), "r") {
			t.Errorf("both was told of %s", both.told())
		}
	})
	inBubble(t, "a route with a handler in this process is not theirs", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 9, queue.AutoResolve, queue.RouteReview))
		g.submit("a1@A", "b1@B=0")
		if c.has() != "a1" {
			t.Errorf("holds %s", c.has())
		}
	})
	inBubble(t, "a reload gives a route to them, and takes it away; they keep what they have", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 9))
		g.submit("a1@A", "a2@A")
		c.has()
		g.with(map[queue.Route]any{queue.AutoResolve: &recording{}, queue.RouteReview: &recording{}})
		g.submit("b1@B")
		if c.has() != "a1" || g.status().Done != 1 {
			t.Fatalf("holds %s, %+v", c.has(), g.status())
		}
		c.ack("a1")
		if c.has() != "" || g.status().Done != 3 {
			t.Fatalf("holds %s, %+v", c.has(), g.status())
		}
		g.with(map[queue.Route]any{})
		g.submit("c1@C", "d1@D=0")
		if c.has() != "c1" {
			t.Errorf("holds %s", c.has())
		}
	})
}

// Two consumers with one place each, and different slots for their two routes, are asked
// for one route and then for the other. That the one came in between must not make
// each the reason to ask for the other again.
func TestShares_an_idle_feeder_rests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := hosted(t, func(o *Options) { o.Handlers = map[queue.Route]any{} })
		g.attach(attachment("one", 1))
		g.attach(attachment("a", 1, queue.Routes[:]...))
		synctest.Wait()
		g.store.on(func(verb string) error {
			if verb == "claim" && g.store.count("claim") > 1000 {
				return queue.ErrClosed // a test that fails, not one that hangs
			}
			return nil
		})
		came := make(chan *guest)
		g.store.after("claim", func() {
			go func() { came <- g.attach(attachment("b", 1, queue.Routes[:]...)) }()
			<-time.After(time.Millisecond)
		})
		g.Wake()
		<-came
		pass(time.Second)
		if n := g.store.count("claim"); n > 20 {
			t.Errorf("%d claims, and there was nothing to do", n)
		}
		g.store.on(nil)
	})
}

func TestSpill(t *testing.T) {
	inBubble(t, "what a consumer has had no room for in a second goes to any that has", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 1)), g.attach(attachment("b", 9))
		g.submit(named("x", keysFor(3, "a", "a", "b"))...)
		if a.has() != "x1" || b.has() != "" {
			t.Fatalf("a has %s, b has %s", a.has(), b.has())
		}
		pass(spillAfter - time.Millisecond)
		if b.has() != "" {
			t.Fatalf("b has %s too soon", b.has())
		}
		pass(time.Millisecond)
		if a.has() != "x1" || b.has() != "x2 x3" {
			t.Errorf("a has %s, b has %s", a.has(), b.has())
		}
		g.submit("x9@" + keysFor(9, "a", "a", "b")[8])
		if b.has() != "x2 x3 x9" {
			t.Errorf("a stands still, and b has %s", b.has())
		}
	})
	inBubble(t, "also while it takes one after the other, slower than they come", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 1)), g.attach(attachment("b", 9))
		g.submit(named("x", keysFor(8, "a", "a", "b"))...)
		pass(900 * time.Millisecond)
		if a.has() != "x1" || b.has() != "" {
			t.Fatalf("a has %s, b has %s", a.has(), b.has())
		}
		a.ack("x1")
		a.has()
		pass(200 * time.Millisecond)
		if a.has() != "x2" || b.has() != "x3 x4 x5 x6 x7 x8" {
			t.Errorf("a has %s, b has %s", a.has(), b.has())
		}
	})
	inBubble(t, "and not any more once it has room for all there is", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 2)), g.attach(attachment("b", 9))
		keys := keysFor(6, "a", "a", "b")
		g.submit(named("x", keys[:3])...)
		pass(2 * time.Second)
		if a.has() != "x1 x2" || b.has() != "x3" {
			t.Fatalf("a has %s, b has %s", a.has(), b.has())
		}
		a.ack("x1", "x2")
		a.has()
		g.submit(named("y", keys[3:5])...)
		if a.has() != "y1 y2" || b.has() != "x3" {
			t.Errorf("a has %s, b has %s", a.has(), b.has())
		}
	})
	inBubble(t, "one key has one holder also then", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 1)), g.attach(attachment("b", 9))
		key := keysFor(1, "a", "a", "b")[0]
		g.submit("x1@"+key, "x2@"+key)
		a.has()
		pass(5 * time.Second)
		if a.has() != "x1" || b.has() != "" {
			t.Errorf("a has %s, b has %s", a.has(), b.has())
		}
	})
}

func TestRelease(t *testing.T) {
	release := queue.Settlement{Verb: queue.Release}
	inBubble(t, "what the preferred consumer puts back another one gets at once", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 9)), g.attach(attachment("b", 9))
		key := keysFor(1, "a", "a", "b")[0]
		g.submit("x1@"+key, "x2@"+key)
		a.has()
		a.answer(release, "x1")
		if a.has() != "" || b.has() != "x1" {
			t.Fatalf("a has %s, b has %s", a.has(), b.has())
		}
		b.ack("x1")
		if x := g.message("x1"); x.State != queue.Done || x.Deliveries != 1 {
			t.Errorf("%s, %d deliveries", x.State, x.Deliveries)
		}
	})
	inBubble(t, "the same one gets it again after retry_initial_ms, if nobody else could", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 9)), g.attach(attachment("b", 1))
		g.submit("y1@" + keysFor(1, "b", "a", "b")[0])
		g.submit("x1@" + keysFor(1, "a", "a", "b")[0])
		if a.has() != "x1" || b.has() != "y1" {
			t.Fatalf("a has %s, b has %s", a.has(), b.has())
		}
		a.answer(release, "x1")
		pass(time.Second - time.Millisecond)
		if a.has() != "" || b.has() != "y1" {
			t.Fatalf("a has %s, b has %s", a.has(), b.has())
		}
		pass(time.Millisecond)
		if a.has() != "x1" {
			t.Errorf("a has %s, b has %s", a.has(), b.has())
		}
	})
	inBubble(t, "a hold that is over is a release", func(t *testing.T) {
		g := hosted(t)
		a := g.attach(attachment("a", 9))
		g.submit("x1@X")
		a.has()
		a.answer(queue.Settlement{Verb: queue.Hold, Until: time.Now()}, "x1")
		if a.has() != "" || g.events(queue.EventReleased) != 1 || g.events(queue.EventHeld) != 0 {
			t.Errorf("a has %s", a.has())
		}
	})
	inBubble(t, "an operator takes a lease back: the others may have it at once", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 1)), g.attach(attachment("b", 1))
		keys := keysFor(2, "a", "a", "b")
		g.submit(named("x", keys)...)
		if a.has() != "x1" || b.has() != "" {
			t.Fatalf("a has %s, b has %s", a.has(), b.has())
		}
		revoked, err := g.store.Revoke(t.Context(), queue.Action{Now: time.Now(), By: "op"}, g.settings.Load().Policy, []queue.LeaseRef{{Seq: 1}})
		if err != nil || revoked[0].Code != "" {
			t.Fatal(revoked, err)
		}
		g.Revoked(revoked)
		if a.has() != "x1 x2" || b.has() != "x1" {
			t.Errorf("a has %s, b has %s: its room comes back, and the message goes on", a.has(), b.has())
		}
		if res := a.reply(queue.Settlement{Verb: queue.Ack, Outcome: "LATE"}, "x1"); res[0].Code != queue.CodeExpired {
			t.Errorf("%+v", res[0])
		}
	})
	inBubble(t, "a retry waits as long as it is told to, at most retry_max_ms", func(t *testing.T) {
		g := hosted(t)
		a := g.attach(attachment("a", 9))
		g.submit("x1@X")
		a.has()
		a.answer(queue.Settlement{Verb: queue.Retry, After: time.Hour, Reason: "r"}, "x1")
		pass(59 * time.Second)
		if a.has() != "" {
			t.Fatalf("a has %s", a.has())
		}
		pass(time.Second)
		if all := a.deliveries(); a.has() != "x1" || all[len(all)-1].FailedAttempts != 1 {
			t.Errorf("a has %s", a.has())
		}
	})
}
