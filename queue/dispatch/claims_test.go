package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// keysOf returns n keys for each of a Runner's workers.
func keysOf(workers, n int) (keys [][]string) {
	names := make([]string, workers)
	for i := range names {
		names[i] = fmt.Sprintf("w-%d", i)
	}
	assigned := partition.Assign(names)
	keys = make([][]string, workers)
	for i, full := 0, 0; full < workers; i++ {
		key := fmt.Sprintf("key-%d", i)
		owner := assigned.OwnerOf(key)
		if len(keys[owner]) < n {
			if keys[owner] = append(keys[owner], key); len(keys[owner]) == n {
				full++
			}
		}
	}
	return keys
}

// outstanding counts what each worker has and has not answered.
type outstanding struct {
	mu   sync.Mutex
	now  map[string]int // by worker
	most map[string]int
	// largest is the most deliveries of one claim.
	largest int
}

// watch counts in a Runner's options.
func (c *outstanding) watch(store queue.Store, o *Options) {
	c.now, c.most = map[string]int{}, map[string]int{}
	owner := func(seq uint64) string {
		x, err := store.Exception(context.Background(), seq)
		if err != nil {
			return err.Error()
		}
		return x.Owner
	}
	o.Observer.Claimed = func(ds []queue.Delivery) {
		c.mu.Lock()
		defer c.mu.Unlock()
		w := owner(ds[0].Message.Seq)
		c.now[w] += len(ds)
		c.most[w] = max(c.most[w], c.now[w])
		c.largest = max(c.largest, len(ds))
	}
	o.Observer.Handled = func(d *queue.Delivery, _ *queue.Answer, _ time.Duration) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now[owner(d.Message.Seq)]--
	}
}

func TestClaims_never_exceed_the_room(t *testing.T) {
	for _, c := range []struct{ workers, room, prefetch int }{{1, 1, 1}, {2, 4, 4}, {3, 8, 2}, {4, 64, 32}, {8, 8, 1}} {
		inBubble(t, fmt.Sprintf("%d workers, room %d, prefetch %d", c.workers, c.room, c.prefetch), func(t *testing.T) {
			o := usual()
			o.Workers, o.Room, o.Settings.Prefetch = c.workers, c.room, c.prefetch
			g := open(t, o, slowly(time.Second))
			var count outstanding
			count.watch(g.store, &o)
			g.rewire(o, map[queue.Route]any{queue.RouteReview: g.seen}).begin()
			const each = 30
			var specs []string
			for w, keys := range keysOf(c.workers, each) {
				for i, key := range keys {
					specs = append(specs, fmt.Sprintf("m%d.%d@%s", w, i, key))
				}
			}
			g.submit(specs...)
			pass(time.Second * (each + 2))
			if st := g.status(); st.Done != int64(len(specs)) {
				t.Errorf("after %d s every worker could have done its %d: %d are done of %d", each+2, each, st.Done, len(specs))
			}
			for i, w := range g.crew.fed() {
				// One runs; what is queued besides is what the channel takes.
				if most := count.most[fmt.Sprintf("w-%d", i)]; most > cap(w.items)+1 || most == 0 {
					t.Errorf("worker %d had %d at once, its channel takes %d", i, most, cap(w.items))
				}
			}
			if count.largest > c.prefetch {
				t.Errorf("%d were claimed at once", count.largest)
			}
			if g.seen.most != c.workers {
				t.Errorf("%d ran at once", g.seen.most)
			}
		})
	}
}

// A prefetch that is short must not leave a worker's keys to chance.
func TestClaims_every_workers_keys_are_found_at_once(t *testing.T) {
	for w, keys := range keysOf(8, 1) {
		inBubble(t, fmt.Sprintf("worker %d", w), func(t *testing.T) {
			o := usual()
			o.Workers, o.Room, o.Settings.Prefetch = 8, 64, 1
			g := start(t, o, ack)
			g.submit("a1@" + keys[0])
			synctest.Wait()
			if st := g.status(); st.Done != 1 {
				t.Errorf("%+v", st)
			}
		})
	}
}

func TestClaims_are_few(t *testing.T) {
	inBubble(t, "an idle Runner asks for nothing", func(t *testing.T) {
		g := start(t, usual(), ack)
		pass(10 * time.Minute)
		if n := g.store.count("claim"); n > 11 {
			t.Errorf("%d claims in 10 idle minutes", n)
		}
	})
	inBubble(t, "a worker is asked for when it has run half empty", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 1, 16, 16
		g := start(t, o, slowly(time.Second))
		keys := keysOf(1, 160)[0]
		var specs []string
		for i, k := range keys {
			specs = append(specs, fmt.Sprintf("m%d@%s", i, k))
		}
		g.submit(specs...)
		before := g.store.count("claim")
		pass(120 * time.Second) // while there is more to claim than room
		if st := g.status(); st.Done != 120 || st.Ready == 0 {
			t.Fatalf("%+v", st)
		}
		if n := g.store.count("claim") - before; n > 120/8+3 {
			t.Errorf("%d claims for 120 messages", n)
		}
	})
	inBubble(t, "a route without messages is not asked for in a loop when its handler is down", func(t *testing.T) {
		var down atomic.Bool
		down.Store(true)
		g := start(t, usual(), func(ctx context.Context, d *queue.Delivery) queue.Answer {
			if down.Load() {
				return queue.Unavailable("down", 0)
			}
			return ack(ctx, d)
		})
		g.submit("a1@A")
		synctest.Wait()
		if _, err := g.store.HoldKeys(t.Context(), queue.Action{Now: time.Now()}, []string{"A"}); err != nil {
			t.Fatal(err)
		}
		before := g.store.count("claim")
		pass(10 * time.Minute)
		if n := g.store.count("claim") - before; n > 25 {
			t.Errorf("%d claims in 10 minutes without a message to probe with", n)
		}
		down.Store(false)
		if _, err := g.store.ReleaseKeys(t.Context(), queue.Action{Now: time.Now()}, []string{"A"}); err != nil {
			t.Fatal(err)
		}
		g.Wake()
		synctest.Wait()
		if st := g.status(); st.Done != 1 {
			t.Errorf("after the key was released: %+v", st)
		}
	})
}

func TestClaims_scheduled_messages_are_taken_when_they_fall_due(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, usual(), ack)
		s := submissions(t, "a1@A")
		s[0].Message.NotBefore = time.Now().Add(90 * time.Second)
		if _, err := g.Submit(t.Context(), queue.Peer{}, s); err != nil {
			t.Fatal(err)
		}
		pass(89 * time.Second)
		if got := g.seen.started(); got != "" {
			t.Errorf("too soon: %s", got)
		}
		pass(2 * time.Second)
		if got := g.seen.started(); got != "a1" {
			t.Errorf("begun %q", got)
		}
	})
}

// A message that falls due while nobody has room takes its place all the same: what
// is accepted later must come after it.
func TestClaims_scheduled_messages_take_their_place_also_when_all_workers_are_full(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 1, 1, 1
		g := start(t, o, slowly(time.Hour))
		g.submit("x1@X", "x2@X2", "x3@X3") // one runs, one is queued, one waits
		s := submissions(t, "a1@A")
		s[0].Message.NotBefore = time.Now().Add(time.Minute)
		if _, err := g.Submit(t.Context(), queue.Peer{}, s); err != nil {
			t.Fatal(err)
		}
		pass(2 * time.Minute)
		g.submit("a2@A")
		if first, second := g.message("a1").Place, g.message("a2").Place; first.IsZero() || !first.Less(second) {
			t.Errorf("a1 has place %s, a2 %s", first, second)
		}
	})
}

func TestPure_is_settled_in_batches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 1, 64, 64
		// The first decision takes a moment, in which everybody else does what there is
		// to do: so it is not chance how much waits for the worker then.
		var first sync.Once
		o.Handlers = map[queue.Route]any{queue.AutoResolve: &recording{each: func(*queue.Delivery) queue.Answer {
			first.Do(func() { <-time.After(time.Second) })
			return queue.Answer{Verb: queue.Ack, Outcome: "AUTO_RESOLVED"}
		}}}
		var mu sync.Mutex
		var batches []int
		o.Observer.Settled = func(results []queue.SettleResult, _ time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			batches = append(batches, len(results))
		}
		g := open(t, o, ack)
		var specs []string
		for i := range 64 {
			specs = append(specs, fmt.Sprintf("m%d@K%d=0", i, i%2))
		}
		g.submit(specs...)
		g.begin()
		pass(2 * time.Second)
		if st := g.status(); st.Done != 64 {
			t.Errorf("%+v", st)
		}
		if len(batches) > 3 {
			t.Errorf("64 messages of two keys were settled in batches of %v", batches)
		}
	})
}

// What comes after a message that was put back is put back with it, and must not be
// answered: that would be a refusal on record, and a lost turn.
func TestPure_an_answer_that_is_no_ack_stops_its_key_only(t *testing.T) {
	for name, tt := range map[string]struct {
		answer queue.Answer
		skip   bool
		want   []string
		done   int64
	}{
		"retry":  {queue.Answer{Verb: queue.Retry}, false, []string{"a1", "a2", "b1", "a2", "a3"}, 4},
		"reject": {queue.Answer{Verb: queue.Reject}, false, []string{"a1", "a2", "b1"}, 2},
		"skip":   {queue.Answer{Verb: queue.Reject}, true, []string{"a1", "a2", "a3", "b1"}, 3},
	} {
		inBubble(t, name, func(t *testing.T) {
			o := usual()
			o.Workers, o.Room, o.Settings.Prefetch = 1, 8, 8
			if tt.skip {
				o.Settings.Policy.OnDeadLetter = queue.SkipDead
			}
			first := once("a2", tt.answer)
			pure := &recording{each: func(d *queue.Delivery) queue.Answer { return first(context.Background(), d) }}
			o.Handlers = map[queue.Route]any{queue.AutoResolve: pure}
			g := open(t, o, ack)
			pure.also = g.seen
			g.submit("a1@A=0", "a2@A=0", "a3@A=0", "b1@B=0")
			g.begin()
			pass(time.Minute)
			if !slices.Equal(g.seen.begun, tt.want) {
				t.Errorf("decided %v, want %v", g.seen.begun, tt.want)
			}
			if st := g.status(); st.Done != tt.done || st.Leased != 0 {
				t.Errorf("%+v", st)
			}
			if n := g.events(queue.EventRefused); n != 0 {
				t.Errorf("%d answers were refused", n)
			}
		})
	}
}
