package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// remembering is a Runner whose store remembers settled keys for so long.
func remembering(d time.Duration) Options {
	o := usual()
	o.Settings.Retention.Ledger = d
	return o
}

func TestExpire(t *testing.T) {
	inBubble(t, "a settled key is new again after its time, and the log says how many", func(t *testing.T) {
		var log logBuffer
		o := remembering(2 * time.Hour)
		o.Log = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
		var told []int64
		o.Observer.Expired = func(did queue.ExpireResult, err error) {
			if did.Keys > 0 {
				told = append(told, did.Keys)
			}
		}
		g := start(t, o, ack)
		g.submit("a1@A", "b1@B")
		pass(2 * time.Hour)
		if st := g.status(); st.LedgerKeys != 2 || st.Done != 2 {
			t.Errorf("after two hours: %+v", st)
		}
		pass(time.Hour + time.Minute)
		g.submit("a1@A", "b1@B")
		if !slices.Equal(told, []int64{2}) || strings.Count(log.String(), `"keys_forgotten":2`) != 1 {
			t.Errorf("told of %d, log:\n%s", told, log.String())
		}
	})

	inBubble(t, "lines that wait for max_ledger_keys go on when keys are forgotten", func(t *testing.T) {
		o := remembering(time.Hour)
		o.Settings.Limits.MaxLedgerKeys = 1
		g := start(t, o, ack)
		g.submit("a1@A")
		pass(time.Second)
		at := time.Now()
		g.submit("b1@B") // waits
		if waited := time.Since(at); waited < time.Hour || waited > 2*time.Hour+time.Minute {
			t.Errorf("it waited for %s", waited)
		}
	})

	inBubble(t, "what a reload changes holds from the next step on", func(t *testing.T) {
		g := start(t, remembering(0), ack)
		g.submit("a1@A")
		pass(5 * time.Hour)
		s := *g.settings.Load()
		s.Retention.Ledger = time.Hour
		g.Configure(s)
		pass(2 * time.Minute)
		g.submit("a1@A")
	})

	inBubble(t, "while there is more to do it takes short steps with pauses", func(t *testing.T) {
		var at []time.Time
		g := open(t, remembering(time.Hour), ack)
		g.store.expired = func(_ queue.ExpireRequest, res *queue.ExpireResult) {
			at = append(at, time.Now())
			if len(at)%4 != 0 { // three times in four there is more
				<-time.After(20 * time.Millisecond)
				res.More = true
			}
		}
		g.begin()
		pass(2 * time.Minute)
		var gaps []time.Duration
		for i := 1; i < 6; i++ {
			gaps = append(gaps, at[i].Sub(at[i-1]))
		}
		step := 200 * time.Millisecond // 20 ms and nine times that
		want := []time.Duration{step, step, step, time.Minute, step}
		if !slices.Equal(gaps, want) {
			t.Errorf("pauses %s, want %s", gaps, want)
		}
	})

	inBubble(t, "records go when their time is over, and the log says how many", func(t *testing.T) {
		var log logBuffer
		o := usual()
		o.Settings.Retention.Audit = 2 * time.Hour
		o.Log = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
		var removed, copied int
		o.Observer.Trimmed = func(did queue.TrimResult, err error) { removed, copied = removed+did.Records, copied+did.Copies }
		g := start(t, o, func(_ context.Context, d *queue.Delivery) queue.Answer {
			if d.Message.IdempotencyKey == "a1" {
				return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
			}
			return queue.Answer{Verb: queue.Reject, Reason: "no"}
		})
		g.submit("a1@A", "b1@B")
		pass(2 * time.Hour)
		if n := g.status().Opening.LastN; n != 0 {
			t.Errorf("after two hours the first %d are gone", n)
		}
		g.submit("c1@C") // the last block stays
		pass(time.Hour + 2*time.Minute)
		st := g.status()
		if st.Opening.LastN < 7 || removed != int(st.Opening.LastN) || copied != 2 {
			t.Errorf("the first %d are gone; told of %d, and %d copies", st.Opening.LastN, removed, copied)
		}
		if !strings.Contains(log.String(), `"records_copied":2`) {
			t.Errorf("the log: %s", log.String())
		}
	})

	inBubble(t, "but none that is in no archive, if one is required", func(t *testing.T) {
		o := usual()
		o.Settings.Retention = Retention{Audit: time.Hour, RequireArchive: true}
		g := start(t, o, ack)
		g.submit("a1@A")
		pass(5 * time.Hour)
		g.submit("b1@B")
		pass(5 * time.Hour)
		if n := g.status().Opening.LastN; n != 0 {
			t.Errorf("the first %d are gone", n)
		}
	})

	inBubble(t, "time that passed while the store had no room is not lost", func(t *testing.T) {
		var log logBuffer
		o := remembering(time.Hour)
		o.Log = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true})
		failures := 0
		o.Observer.Expired = func(_ queue.ExpireResult, err error) {
			if err != nil {
				failures++
			}
		}
		g := open(t, o, ack)
		var passed time.Duration
		firsts := 0
		g.store.expired = func(r queue.ExpireRequest, _ *queue.ExpireResult) {
			if r.First {
				firsts++
			}
			passed += r.Passed
		}
		g.begin()
		pass(30 * time.Second)
		g.store.on(func(verb string) error {
			if verb == "expire" {
				return fmt.Errorf("probe: %w", queue.ErrNoRoom)
			}
			return nil
		})
		pass(10 * time.Minute)
		g.store.on(nil)
		pass(time.Minute)
		if firsts != 1 || passed != 11*time.Minute || failures != 10 || !strings.Contains(log.String(), "retention could do nothing") {
			t.Errorf("%d first steps, %s passed, %d failures were told of, log:\n%s", firsts, passed, failures, log.String())
		}
	})

	inBubble(t, "it ends with the taking", func(t *testing.T) {
		g := start(t, remembering(time.Hour), slowly(10*time.Minute))
		g.submit("a1@A")
		pass(time.Second)
		g.Drain()
		steps := g.store.count("expire")
		pass(5 * time.Minute)
		if n := g.store.count("expire"); n != steps {
			t.Errorf("%d steps were taken during the drain", n-steps)
		}
	})

	inBubble(t, "a store that fails ends the run", func(t *testing.T) {
		g := start(t, remembering(time.Hour), ack)
		pass(time.Second)
		g.store.on(func(verb string) error {
			if verb == "expire" {
				return queue.ErrFailed
			}
			return nil
		})
		pass(time.Minute)
		<-g.ended
		if g.err == nil {
			t.Error("the run ended without an error")
		}
	})
}
