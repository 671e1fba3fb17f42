package dispatch

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
	"breakwater/storage/storetest"
)

// setClock is a machine's clock that somebody sets. Its time passes with the time of
// the bubble.
type setClock struct {
	mu   sync.Mutex
	hand *storetest.Clock
	last time.Time
}

func newSetClock() *setClock { return &setClock{hand: storetest.NewClock(), last: time.Now()} }

func (c *setClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.hand.Pass(now.Sub(c.last))
	c.last = now
	return c.hand.Now()
}

func (c *setClock) set(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hand.Step(by)
}

// The clock is set while a handler runs for longer than its lease, a consumer holds a
// lease, and a key waits for its next attempt (B37). Nothing expires, nothing is run
// twice, nothing comes sooner or later; only what is scheduled goes by the wall.
func TestClock(t *testing.T) {
	for _, step := range []time.Duration{
		time.Hour, -time.Hour, 10 * 365 * 24 * time.Hour, time.Unix(0, 0).Sub(storetest.NewClock().Now()), 8 * time.Hour,
	} {
		inBubble(t, fmt.Sprintf("set by %v", step), func(t *testing.T) {
			c, o := newSetClock(), usual()
			o.Now, o.Settings.Lease = c.now, 6*time.Second
			o.Settings.Policy.RetryInitial = 40 * time.Second // 20 s, without chance
			var mu sync.Mutex
			began, at := time.Now(), map[string][]time.Duration{}
			g := start(t, o, func(ctx context.Context, d *queue.Delivery) queue.Answer {
				id := d.Message.IdempotencyKey
				mu.Lock()
				at[id] = append(at[id], time.Since(began))
				first := len(at[id]) == 1
				mu.Unlock()
				switch {
				case id == "long":
					return slowly(60*time.Second)(ctx, d)
				case id == "failed" && first:
					return failing(ctx, d)
				}
				return ack(ctx, d)
			})
			guest := g.attach(attachment("ui", 1, queue.AutoResolve))
			g.submit("long@A", "failed@B", "held@C=0")
			s := submissions(t, "later@D")
			s[0].Message.NotBefore = c.now().Add(30 * time.Minute)
			if _, err := g.Submit(t.Context(), queue.Peer{}, s); err != nil {
				t.Fatal(err)
			}
			if got := guest.has(); got != "held" {
				t.Fatalf("the consumer holds %q", got)
			}
			pass(10 * time.Second)
			c.set(step)
			pass(48 * time.Second)
			g.wantRaised() // a minute's lease, two seconds before its end
			guest.ack("held")
			pass(100 * time.Second)
			if n := g.status().Scheduled; (n == 0) != (step > 0) {
				t.Errorf("%d are scheduled", n)
			}
			c.set(-step)
			pass(30 * time.Minute)
			g.wantRaised()
			if st := g.status(); st.Done != 4 {
				t.Errorf("%+v", st)
			}
			mu.Lock()
			defer mu.Unlock()
			if got := at["long"]; len(got) != 1 {
				t.Errorf("the long one was begun at %v", got)
			}
			if got := at["failed"]; len(got) != 2 || got[1] != 20*time.Second {
				t.Errorf("the one that failed was begun at %v", got)
			}
		})
	}
}

// Keys that fail at one instant do not come back at one instant (B49).
func TestRetries_of_one_instant_are_spread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 200
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = n, n, n
		o.Settings.Policy.RetryInitial, o.Settings.Policy.RetryMax = time.Minute, time.Minute
		die := rand.New(rand.NewPCG(1, 2))
		var mu sync.Mutex // the workers throw it
		o.Random = func() uint32 { mu.Lock(); defer mu.Unlock(); return die.Uint32() }
		var specs []string
		for i := range n {
			specs = append(specs, fmt.Sprintf("m%d@K%d", i, i))
		}
		g := start(t, o, failing)
		g.submit(specs...)
		pass(time.Second)
		seconds := map[int64]int{}
		for _, r := range g.trail() {
			if r.Event == queue.EventRetried {
				seconds[int64(r.Until.Sub(r.TS)/time.Second)]++
			}
		}
		total, most := 0, 0
		for s, keys := range seconds {
			if s < 30 || s > 60 {
				t.Errorf("%d keys wait %d s, want half a minute to a minute", keys, s)
			}
			total, most = total+keys, max(most, keys)
		}
		if total != n || most > n/10 || len(seconds) < 20 {
			t.Errorf("%d failed; they come back in %d different seconds, at most %d in one", total, len(seconds), most)
		}
	})
}

// A channel full of messages of one key, more workers than messages that may run
// (B45): one at a time, none of them twice, though each waits in the channel for longer
// than its lease is.
func TestChannels_full_of_one_key(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch, o.Settings.Lease = 8, 64, 64, 2*time.Second
		g := start(t, o, slowly(time.Second))
		var specs []string
		for i := range 12 {
			specs = append(specs, fmt.Sprintf("a%d@A", i))
		}
		for i := range 52 {
			specs = append(specs, fmt.Sprintf("o%d@K%d", i, i%16))
		}
		g.submit(specs...)
		pass(time.Minute)
		if st := g.status(); st.Done != 64 {
			t.Errorf("%+v", st)
		}
		if n := g.events(queue.EventDispatched); n != 64 {
			t.Errorf("dispatched %d times", n)
		}
		if g.seen.most < 2 || g.seen.most > 8 {
			t.Errorf("%d ran at once", g.seen.most)
		}
		g.wantRaised()
	})
}
