package dispatch

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

func failing(context.Context, *queue.Delivery) queue.Answer {
	return queue.Answer{Verb: queue.Retry, Reason: "no", Stderr: "trace"}
}

func TestLetters(t *testing.T) {
	inBubble(t, "attempts are exhausted after so many, and the key is held", func(t *testing.T) {
		g := start(t, usual(), failing)
		g.submit("a1@A", "a2@A")
		pass(time.Hour)
		if got := g.seen.started(); got != "a1 a1 a1" {
			t.Errorf("begun %s", got)
		}
		x := g.message("a1")
		if x.State != queue.Dead || x.Code != queue.CodeAttemptsExhausted || x.Reason != "no" {
			t.Errorf("%s %s %q", x.State, x.Code, x.Reason)
		}
		if s := g.message("a2").State; s != queue.Held {
			t.Errorf("a2 is %s", s)
		}
		g.wantRaised("ATTEMPTS_EXHAUSTED")
		for _, r := range g.trail() {
			if r.Event == queue.EventRetried && r.Stderr != "trace" {
				t.Errorf("record %d has stderr %q", r.N, r.Stderr)
			}
		}
	})
	inBubble(t, "skip lets the key go on", func(t *testing.T) {
		o := usual()
		o.Settings.Policy.OnDeadLetter = queue.SkipDead
		g := start(t, o, func(ctx context.Context, d *queue.Delivery) queue.Answer {
			if d.Message.IdempotencyKey == "a1" {
				return failing(ctx, d)
			}
			return ack(ctx, d)
		})
		g.submit("a1@A", "a2@A")
		pass(time.Hour)
		if got := g.seen.started(); got != "a1 a1 a1 a2" {
			t.Errorf("begun %s", got)
		}
	})
	inBubble(t, "a replay is delivered at its own place, before what waited for it", func(t *testing.T) {
		var fixed atomic.Bool
		g := start(t, usual(), func(ctx context.Context, d *queue.Delivery) queue.Answer {
			if d.Message.IdempotencyKey == "a1" && !fixed.Load() {
				return queue.Answer{Verb: queue.Reject, Reason: "unknown account"}
			}
			return ack(ctx, d)
		})
		g.submit("a1@A", "a2@A")
		synctest.Wait()
		g.wantRaised("REJECTED")
		fixed.Store(true)
		if _, err := g.store.Replay(t.Context(), queue.Action{Now: time.Now()}, []uint64{1}); err != nil {
			t.Fatal(err)
		}
		g.Wake()
		synctest.Wait()
		if got := g.seen.started(); got != "a1 a1 a2" {
			t.Errorf("begun %s", got)
		}
	})
	inBubble(t, "the delays grow and are those of the policy", func(t *testing.T) {
		o := usual()
		o.Settings.Policy = queue.Policy{MaxAttempts: 6, MaxDeliveries: 9, RetryInitial: time.Second, RetryMax: 5 * time.Second}
		began := time.Now()
		var at []time.Duration
		g := start(t, o, func(context.Context, *queue.Delivery) queue.Answer {
			at = append(at, time.Since(began))
			return queue.Answer{Verb: queue.Retry}
		})
		g.submit("a1@A")
		pass(time.Hour)
		want := []time.Duration{0, 500, 1500, 3500, 6000, 8500} // d/2: 0.5, 1, 2, 2.5, 2.5 s
		if len(at) != len(want) {
			t.Fatalf("delivered at %v", at)
		}
		for i := range want {
			if at[i] != want[i]*time.Millisecond {
				t.Errorf("delivery %d at %v, want %v", i+1, at[i], want[i]*time.Millisecond)
			}
		}
	})
}
