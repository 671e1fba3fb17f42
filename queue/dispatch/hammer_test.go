package dispatch

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
	"breakwater/storage/memstore"
	"breakwater/storage/storetest"

	"pgregory.net/rapid"
)

// TestHammer starts and stops Runners over one store, with producers at work, in
// real time: the race detector looks on.
func TestHammer(t *testing.T) {
	store := memstore.New(memstore.Options{})
	if _, err := store.Start(t.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	o := usual()
	o.Workers, o.Room, o.Settings.Prefetch = 4, 16, 8
	o.Settings.Lease = 20 * time.Millisecond
	o.Settings.Policy = queue.Policy{MaxAttempts: 1000, MaxDeliveries: 1000, RetryInitial: time.Microsecond, RetryMax: time.Microsecond}
	o.Settings.Limits.MaxBacklog = 40
	o.Store = store
	const rounds, producers, each = 200, 3, 8
	for round := range rounds {
		answers := newEffects(store, func(ctx context.Context, d *queue.Delivery) queue.Answer {
			switch d.Message.Seq % 7 {
			case 0:
				if d.FailedAttempts < 2 {
					return queue.Answer{Verb: queue.Retry}
				}
			case 1:
				<-ctx.Done()
			}
			return ack(ctx, d)
		})
		o.Handlers = map[queue.Route]any{queue.RouteReview: answers, queue.AutoResolve: &recording{}}
		r, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		hammerOnce(t, r, round, producers, each)
		for _, broken := range answers.broken {
			t.Fatalf("round %d: %s", round, broken)
		}
	}
	st, err := store.Status(t.Context(), time.Now())
	if err != nil || st.Leased != 0 || st.Done == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	checkTrail(t, store)
}

func hammerOnce(t *testing.T, r *Runner, round, producers, each int) {
	stop, cancel := context.WithCancel(context.Background())
	hurry, now := context.WithCancel(context.Background())
	ended := make(chan error)
	go func() {
		_, err := r.Run(stop, hurry)
		ended <- err
	}()
	var busy sync.WaitGroup
	for p := range producers {
		busy.Go(func() {
			for i := range each {
				zero := ""
				if i%2 == 0 {
					zero = "=0"
				}
				spec := fmt.Sprintf("m%d.%d.%d@K%d%s", round, p, i, (p+i)%5, zero)
				if _, err := r.Submit(stop, queue.Peer{}, submissions(t, spec)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	if round%3 == 0 {
		r.Configure(*r.settings.Load())
	}
	handlers := map[queue.Route]any{}
	for name := range r.routes {
		if h := r.served(name); h != nil {
			handlers[name] = h.given
		}
	}
	for n := range round % 4 {
		c := Configuration{Settings: *r.settings.Load(), Workers: 1 + (round+n)%5, Room: 12 + n, Handlers: handlers}
		if err := r.Reconfigure(c); err != nil {
			t.Error(err)
		}
	}
	if round%2 == 0 {
		time.AfterFunc(time.Millisecond, r.Drain)
		busy.Wait()
	}
	cancel()
	now()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	busy.Wait()
}

func checkTrail(t interface {
	Helper()
	Errorf(string, ...any)
}, store queue.Store) {
	t.Helper()
	var all []queue.Record
	if err := store.Trail(context.Background(), queue.TrailQuery{}, func(r queue.Record) bool {
		all = append(all, r)
		return true
	}); err != nil {
		t.Errorf("%v", err)
	}
	for _, broken := range storetest.CheckTrail(all) {
		t.Errorf("trail: %s", broken)
	}
}

// program is a random day: what is sent, and how handlers answer, by the number of
// the delivery.
type program struct {
	workers, room, prefetch int
	policy                  queue.Policy
	lease                   time.Duration
	specs                   []string
	answers                 map[string][]queue.Answer
	takes                   map[string]time.Duration
	drainAfter              time.Duration
}

func drawProgram(t *rapid.T) program {
	p := program{
		workers: rapid.IntRange(1, 4).Draw(t, "workers"),
		lease:   rapid.SampledFrom([]time.Duration{300 * time.Millisecond, time.Second, time.Minute}).Draw(t, "lease"),
		policy: queue.Policy{
			MaxAttempts: rapid.IntRange(1, 4).Draw(t, "attempts"), MaxDeliveries: rapid.IntRange(1, 6).Draw(t, "deliveries"),
			RetryInitial: time.Second, RetryMax: 10 * time.Second,
			OnDeadLetter: queue.OnDeadLetter(rapid.IntRange(0, 1).Draw(t, "on dead letter")),
		},
		answers: map[string][]queue.Answer{}, takes: map[string]time.Duration{},
		drainAfter: time.Duration(rapid.IntRange(0, 60_000).Draw(t, "drain after ms")) * time.Millisecond,
	}
	p.room = rapid.IntRange(p.workers, 12).Draw(t, "room")
	p.prefetch = rapid.IntRange(1, p.room).Draw(t, "prefetch")
	answer := rapid.Custom(func(t *rapid.T) queue.Answer {
		return rapid.SampledFrom([]queue.Answer{
			{Verb: queue.Ack, Outcome: "DONE"}, {Verb: queue.Ack, Outcome: "DONE"},
			{Verb: queue.Retry, Reason: "r"}, {Verb: queue.Retry, After: 3 * time.Second},
			{Verb: queue.Release}, {Verb: queue.Hold}, {Verb: queue.Reject, Reason: "no"},
			queue.Unavailable("down", 0), {}, {Verb: queue.Ack, Outcome: "not so"},
		}).Draw(t, "answer")
	})
	for i := range rapid.IntRange(1, 20).Draw(t, "messages") {
		id := fmt.Sprintf("m%d", i)
		spec := id + "@" + rapid.SampledFrom([]string{"A", "B", "C", "D"}).Draw(t, "key")
		if rapid.Bool().Draw(t, "resolved") {
			spec += "=0"
		}
		p.specs = append(p.specs, spec)
		p.answers[id] = rapid.SliceOfN(answer, 0, 3).Draw(t, "answers")
		p.takes[id] = time.Duration(rapid.SampledFrom([]int{0, 1, 100, 3000}).Draw(t, "takes ms")) * time.Millisecond
	}
	return p
}

// reply is the program's answer to a delivery: its list first, then an ack.
func (p *program) reply(asked map[string]int, mu *sync.Mutex, d *queue.Delivery) queue.Answer {
	mu.Lock()
	defer mu.Unlock()
	id := d.Message.IdempotencyKey
	n := asked[id]
	asked[id]++
	if n >= len(p.answers[id]) {
		return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
	}
	a := p.answers[id][n]
	if a.Verb == queue.Hold {
		a.Until = time.Now().Add(5 * time.Second)
	}
	return a
}

func TestRandom_days_keep_the_promises(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		p := drawProgram(rt)
		var found []string
		synctest.Test(t, func(t *testing.T) { found = p.run(t) })
		for _, what := range found {
			rt.Errorf("%s", what)
		}
	})
}

// run lives the day, with a drain in between, and returns what was broken.
func (p *program) run(t *testing.T) (found []string) {
	store := memstore.New(memstore.Options{})
	if _, err := store.Start(t.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		return []string{err.Error()}
	}
	var mu sync.Mutex
	asked := map[string]int{}
	seen := newEffects(store, func(ctx context.Context, d *queue.Delivery) queue.Answer {
		select {
		case <-time.After(p.takes[d.Message.IdempotencyKey]):
		case <-ctx.Done():
		}
		return p.reply(asked, &mu, d)
	})
	pure := &recording{each: func(d *queue.Delivery) queue.Answer {
		a := p.reply(asked, &mu, d)
		a.Unavailable = false // nothing to be had but a function
		return a
	}}
	life := func(d time.Duration, specs []string) {
		o := usual()
		o.Store, o.Workers, o.Room = store, p.workers, p.room
		o.Settings.Prefetch, o.Settings.Policy, o.Settings.Lease = p.prefetch, p.policy, p.lease
		o.Settings.DrainTimeout = time.Second
		o.Handlers = map[queue.Route]any{queue.RouteReview: seen, queue.AutoResolve: pure}
		o.Observer.Raised = func(c queue.Code, _ queue.Route) {
			if c == queue.CodeExpired {
				found = append(found, "a lease expired")
			}
		}
		r, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		stop, cancel := context.WithCancel(context.Background())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, err := r.Run(stop, context.Background()); err != nil {
				found = append(found, err.Error())
			}
		}()
		for _, s := range specs {
			if _, err := r.Submit(t.Context(), queue.Peer{}, submissions(t, s)); err != nil {
				found = append(found, err.Error())
			}
		}
		<-time.After(d)
		cancel()
		<-ended
	}
	half := len(p.specs) / 2
	life(p.drainAfter, p.specs[:half])
	life(30*time.Minute, p.specs[half:])
	found = append(found, seen.broken...)
	return append(found, p.judge(store)...)
}

// judge says what is wrong with how the day ended: each message is done, or dead,
// or waits behind a dead one of its key; nobody holds anything.
func (p *program) judge(store queue.Store) (found []string) {
	st, err := store.Status(context.Background(), time.Now())
	if err != nil {
		return []string{err.Error()}
	}
	if st.Leased != 0 || st.Ready != 0 || st.Scheduled != 0 {
		found = append(found, fmt.Sprintf("at the end: %+v", st))
	}
	if p.policy.OnDeadLetter == queue.SkipDead && st.Held != 0 {
		found = append(found, fmt.Sprintf("%d are held, and dead letters hold nothing", st.Held))
	}
	if st.Held > 0 && st.Dead == 0 {
		found = append(found, fmt.Sprintf("%d are held by nothing", st.Held))
	}
	var all []queue.Record
	_ = store.Trail(context.Background(), queue.TrailQuery{}, func(r queue.Record) bool { // of a store in memory
		all = append(all, r)
		if r.Event == queue.EventRefused {
			found = append(found, fmt.Sprintf("an answer to seq %d was refused", r.Seq))
		}
		return true
	})
	return append(found, storetest.CheckTrail(all)...)
}
