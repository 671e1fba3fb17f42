package dispatch

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

// one is the options of one worker with room for eight.
func one() Options {
	o := usual()
	o.Workers, o.Room, o.Settings.Prefetch = 1, 8, 8
	return o
}

func TestDrain(t *testing.T) {
	inBubble(t, "what is queued goes back at once, what runs is finished", func(t *testing.T) {
		g := start(t, one(), slowly(10*time.Second))
		g.submit("a1@A", "b1@B", "c1@C")
		synctest.Wait()
		began := time.Now()
		go g.end()
		synctest.Wait()
		if st := g.status(); st.Ready != 2 || st.Leased != 1 {
			t.Errorf("while the first still runs: %+v", st)
		}
		if d := g.end(); d != (Drained{Released: 2}) || !d.Clean() || g.err != nil {
			t.Errorf("got %+v, %v", d, g.err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("it took %v", took)
		}
		if st := g.status(); st.Done != 1 || st.Ready != 2 || st.Leased != 0 {
			t.Errorf("%+v", st)
		}
		for _, x := range g.exceptions() {
			if x.Deliveries != 0 {
				t.Errorf("seq %d counts %d deliveries", x.Seq, x.Deliveries)
			}
		}
	})
	inBubble(t, "what the time limit cuts off goes back without an attempt burnt", func(t *testing.T) {
		g := start(t, one(), slowly(10*time.Minute))
		g.submit("a1@A", "b1@B")
		synctest.Wait()
		began := time.Now()
		d := g.end()
		if d != (Drained{Released: 1, CutOff: 1}) || d.Clean() {
			t.Errorf("got %+v", d)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it took %v", took)
		}
		x := g.message("a1")
		if x.State != queue.Ready || x.Deliveries != 0 || x.FailedAttempts != 0 {
			t.Errorf("%s, %d deliveries, %d failures", x.State, x.Deliveries, x.FailedAttempts)
		}
	})
	inBubble(t, "an effect that was finished at the last moment counts", func(t *testing.T) {
		g := start(t, one(), func(ctx context.Context, d *queue.Delivery) queue.Answer {
			<-ctx.Done()
			return ack(ctx, d)
		})
		g.submit("a1@A")
		synctest.Wait()
		if d := g.end(); d != (Drained{}) || g.status().Done != 1 {
			t.Errorf("got %+v, %+v", d, g.status())
		}
	})
	inBubble(t, "hurry ends it at once", func(t *testing.T) {
		g := start(t, one(), slowly(10*time.Minute))
		g.submit("a1@A")
		synctest.Wait()
		began := time.Now()
		g.hurry()
		if d := g.end(); d.CutOff != 1 || time.Since(began) != 0 {
			t.Errorf("got %+v after %v", d, time.Since(began))
		}
	})
	inBubble(t, "hurry during the drain ends it then", func(t *testing.T) {
		g := start(t, one(), slowly(10*time.Minute))
		g.submit("a1@A")
		synctest.Wait()
		began := time.Now()
		time.AfterFunc(7*time.Second, g.hurry)
		if d := g.end(); d.CutOff != 1 || time.Since(began) != 7*time.Second {
			t.Errorf("got %+v after %v", d, time.Since(began))
		}
	})
	inBubble(t, "leases are renewed while it lasts", func(t *testing.T) {
		o := one()
		o.Settings.Lease = time.Second
		g := start(t, o, slowly(20*time.Second))
		g.submit("a1@A")
		synctest.Wait()
		if d := g.end(); !d.Clean() || g.status().Done != 1 {
			t.Errorf("got %+v, %+v", d, g.status())
		}
		g.wantRaised()
	})
	inBubble(t, "many messages of one key go back in one piece", func(t *testing.T) {
		o := one()
		g := open(t, o, slowly(10*time.Second))
		g.rewire(o, map[queue.Route]any{queue.RouteReview: g.seen, queue.AutoResolve: &recording{}}).begin()
		g.submit("a1@A")
		synctest.Wait()
		g.submit("b1@B=0", "b2@B=0", "b3@B=0", "c1@C=0") // as many as half of the room
		synctest.Wait()
		if st := g.status(); st.Leased != 5 {
			t.Fatalf("%+v", st)
		}
		if d := g.end(); d != (Drained{Released: 4}) {
			t.Errorf("got %+v", d)
		}
		if st := g.status(); st.Done != 1 || st.Ready != 4 || g.events(queue.EventRefused) != 0 {
			t.Errorf("%+v, %d refused", st, g.events(queue.EventRefused))
		}
		g.wantRaised()
	})
	inBubble(t, "nothing is claimed after it began", func(t *testing.T) {
		g := start(t, one(), slowly(time.Second))
		g.Drain()
		g.submit("a1@A")
		pass(time.Minute)
		if got := g.seen.started(); got != "" {
			t.Errorf("begun %s", got)
		}
		if d := g.end(); d != (Drained{}) {
			t.Errorf("got %+v", d)
		}
	})
	inBubble(t, "a store without room to settle is waited for, and not for ever", func(t *testing.T) {
		g := start(t, one(), slowly(time.Second))
		g.submit("a1@A")
		synctest.Wait()
		g.store.on(func(verb string) error {
			if verb == "settle" {
				return queue.ErrNoRoom
			}
			return nil
		})
		began := time.Now()
		g.end()
		if took := time.Since(began); took != 40*time.Second || g.err == nil {
			t.Errorf("it took %v, %v", took, g.err)
		}
		g.store.on(nil)
	})
}

// The bubble's own end finds goroutines that stay; this one counts in a process,
// where handlers were cut off too.
func TestDrain_Run_returns_after_the_last_goroutine(t *testing.T) {
	before := runtime.NumGoroutine()
	g := open(t, one(), slowly(time.Hour))
	stop, cancel := context.WithCancel(t.Context())
	hurry, now := context.WithCancel(t.Context())
	now()
	time.AfterFunc(10*time.Millisecond, cancel)
	g.submit("a1@A", "b1@B")
	if _, err := g.Run(stop, hurry); err != nil {
		t.Fatal(err)
	}
	// One that has said its last word may still be on a thread that the system has set
	// aside; what stays for good is what is looked for.
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); <-time.After(time.Millisecond) {
		if runtime.NumGoroutine() <= before {
			return
		}
	}
	t.Errorf("%d goroutines, %d before", runtime.NumGoroutine(), before)
}

// asker is a handler that can be asked to end.
type asker struct {
	*effects
	begun func(ctx context.Context, asked <-chan struct{}) queue.Answer
}

func (a *asker) HandleAsked(ctx context.Context, asked <-chan struct{}, _ *queue.Delivery) queue.Answer {
	return a.begun(ctx, asked)
}

// P9: a command that can end cleanly, if it is asked to, does; what it fails with then
// may be the asking's, and costs no attempt.
func TestDrain_asks_before_it_cuts_off(t *testing.T) {
	back := queue.Answer{Verb: queue.Release, Reason: "cut off", Unanswered: true}
	for _, c := range []struct {
		name    string
		answer  queue.Answer
		drained Drained
		state   queue.State
		silent  int
	}{
		{"an ack is one", queue.Answer{Verb: queue.Ack, Outcome: "DONE"}, Drained{}, queue.Done, 0},
		{"a reject is one", queue.Answer{Verb: queue.Reject, Reason: "exit status 65"}, Drained{}, queue.Dead, 0},
		{"a release of its own is one", queue.Answer{Verb: queue.Release}, Drained{}, queue.Ready, 0},
		{"a handler that is not available is no more", queue.Unavailable("exit status 69", 0), Drained{}, queue.Ready, 0},
		{"a failure costs no attempt", queue.Answer{Verb: queue.Retry, Reason: "exit status 1"}, Drained{CutOff: 1}, queue.Ready, 0},
		{"a death costs none, and may have had its effect", back, Drained{CutOff: 1}, queue.Ready, 1},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			g := open(t, one(), nil)
			o := one()
			o.Settings.Policy.OnDeadLetter = queue.HoldKey
			g.rewire(o, map[queue.Route]any{queue.RouteReview: &asker{g.seen, func(_ context.Context, asked <-chan struct{}) queue.Answer {
				<-asked
				return c.answer
			}}}).begin()
			g.submit("a1@A")
			synctest.Wait()
			began := time.Now()
			if d := g.end(); d != c.drained {
				t.Errorf("got %+v", d)
			}
			if took := time.Since(began); took != 28*time.Second {
				t.Errorf("it took %v of 30s", took)
			}
			x := g.message("a1")
			if x.State != c.state || x.FailedAttempts != 0 || x.Unanswered != c.silent || c.state == queue.Ready && x.Deliveries != 0 {
				t.Errorf("%s, %d deliveries, %d failures, %d without an answer", x.State, x.Deliveries, x.FailedAttempts, x.Unanswered)
			}
		})
	}
	inBubble(t, "what does not listen is cut off at the limit", func(t *testing.T) {
		g := open(t, one(), nil)
		g.rewire(one(), map[queue.Route]any{queue.RouteReview: &asker{g.seen, func(ctx context.Context, _ <-chan struct{}) queue.Answer {
			<-ctx.Done()
			return back
		}}}).begin()
		g.submit("a1@A")
		synctest.Wait()
		began := time.Now()
		if d := g.end(); d != (Drained{CutOff: 1}) || time.Since(began) != 30*time.Second {
			t.Errorf("got %+v after %v", d, time.Since(began))
		}
		if x := g.message("a1"); x.State != queue.Ready || x.Unanswered != 1 {
			t.Errorf("%+v", x)
		}
	})
	inBubble(t, "a tenth of a short limit before it", func(t *testing.T) {
		o := one()
		o.Settings.DrainTimeout = 5 * time.Second
		g := open(t, o, nil)
		g.rewire(o, map[queue.Route]any{queue.RouteReview: &asker{g.seen, func(_ context.Context, asked <-chan struct{}) queue.Answer {
			<-asked
			return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
		}}}).begin()
		g.submit("a1@A")
		synctest.Wait()
		began := time.Now()
		if d := g.end(); !d.Clean() || time.Since(began) != 4500*time.Millisecond {
			t.Errorf("got %+v after %v", d, time.Since(began))
		}
	})
}

// README: who is asked again is told so. What a handler has answered does not count.
func TestUnanswered_is_told_to_who_gets_it_next(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  queue.Answer
		number int
		told   bool
	}{
		{"a death by a signal", queue.Answer{Verb: queue.Retry, Reason: "killed by a signal: killed", Unanswered: true}, 2, true},
		{"an answer that nobody can read", queue.Answer{Verb: 99}, 2, true},
		{"an outcome that cannot be recorded", queue.Answer{Verb: queue.Ack, Outcome: "not a word"}, 2, true},
		{"a connection that broke", queue.Answer{Verb: queue.Release, Unavailable: true, Unanswered: true}, 1, true},
		{"a connection that was refused", queue.Unavailable("connection refused", 0), 1, false},
		{"a failure", queue.Answer{Verb: queue.Retry, Reason: "exit status 75"}, 2, false},
		{"a release", queue.Answer{Verb: queue.Release}, 1, false},
	} {
		inBubble(t, c.name, func(t *testing.T) {
			var got []queue.Delivery
			start(t, one(), func(_ context.Context, d *queue.Delivery) queue.Answer {
				if got = append(got, *d); len(got) == 1 {
					return c.first
				}
				return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
			}).submit("a1@A")
			pass(time.Hour)
			if len(got) != 2 || got[0].Redelivered || got[1].Redelivered != c.told || got[1].Number != c.number {
				t.Errorf("got %+v", got)
			}
		})
	}
}
