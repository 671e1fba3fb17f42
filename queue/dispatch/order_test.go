package dispatch

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

// once answers the first delivery of a message with a, and acks the later ones.
func once(id string, a queue.Answer) func(context.Context, *queue.Delivery) queue.Answer {
	answered := false
	return func(ctx context.Context, d *queue.Delivery) queue.Answer {
		if d.Message.IdempotencyKey == id && !answered {
			answered = true
			return a
		}
		return ack(ctx, d)
	}
}

// That nothing overlaps and nothing begins before the one before it is settled is
// looked at by the handler of every test here (effects).
func TestOrder(t *testing.T) {
	tests := []struct {
		name  string
		first queue.Answer // to a1
		until time.Duration
		want  string
	}{
		{"messages of a key run in the order accepted", queue.Answer{Verb: queue.Ack, Outcome: "OK"}, 0, "a1 a2 a3"},
		{"a retry keeps its place", queue.Answer{Verb: queue.Retry, Reason: "r"}, time.Minute, "a1 a1 a2 a3"},
		{"a retry with a delay of its own keeps its place", queue.Answer{Verb: queue.Retry, After: 40 * time.Second}, time.Minute, "a1 a1 a2 a3"},
		{"what is put back keeps its place", queue.Answer{Verb: queue.Release}, time.Minute, "a1 a1 a2 a3"},
		{"what waits until a time keeps its place", queue.Answer{Verb: queue.Hold}, 2 * time.Hour, "a1 a1 a2 a3"},
		{"what its handler could not take keeps its place", queue.Unavailable("down", 0), time.Minute, "a1 a1 a2 a3"},
		{"a dead letter holds its key", queue.Answer{Verb: queue.Reject, Reason: "no"}, time.Hour, "a1"},
		{"no answer is a retry", queue.Answer{}, time.Minute, "a1 a1 a2 a3"},
		{"an outcome that cannot be recorded is a retry", queue.Answer{Verb: queue.Ack, Outcome: "not so"}, time.Minute, "a1 a1 a2 a3"},
	}
	for _, tt := range tests {
		inBubble(t, tt.name, func(t *testing.T) {
			if tt.first.Verb == queue.Hold {
				tt.first.Until = time.Now().Add(time.Hour)
			}
			g := start(t, usual(), once("a1", tt.first))
			g.submit("a1@A", "a2@A", "a3@A")
			pass(tt.until)
			if got := g.seen.started(); got != tt.want {
				t.Errorf("begun %s, want %s", got, tt.want)
			}
		})
	}
}

func TestOrder_a_blocked_key_blocks_only_itself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := start(t, usual(), func(ctx context.Context, d *queue.Delivery) queue.Answer {
			if d.Message.PartitionKey == "A" {
				return queue.Answer{Verb: queue.Reject}
			}
			return ack(ctx, d)
		})
		g.submit("a1@A", "b1@B", "a2@A", "b2@B", "c1@C")
		synctest.Wait()
		if st := g.status(); st.Done != 3 || st.Dead != 1 || st.Held != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestOrder_routes_of_one_key_do_not_overtake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual()
		pure := &recording{}
		g := open(t, o, slowly(time.Second))
		pure.also = g.seen
		g.rewire(o, map[queue.Route]any{queue.RouteReview: g.seen, queue.AutoResolve: pure}).begin()
		g.submit("a1@A=0", "a2@A", "a3@A=0", "a4@A=0", "a5@A")
		pass(time.Minute)
		if got := g.seen.started(); got != "a1 a2 a3 a4 a5" {
			t.Errorf("begun %s", got)
		}
	})
}

// recording is a pure handler that acks, and writes down the order.
type recording struct {
	also *effects
	each func(*queue.Delivery) queue.Answer
}

func (p *recording) Decide(d *queue.Delivery) queue.Answer {
	if p.also != nil {
		p.also.mu.Lock()
		p.also.begun = append(p.also.begun, d.Message.IdempotencyKey)
		p.also.mu.Unlock()
	}
	if p.each != nil {
		return p.each(d)
	}
	return queue.Answer{Verb: queue.Ack, Outcome: "AUTO_RESOLVED"}
}

// A handler that gives a message back at once must not make a busy loop.
func TestOrder_answers_that_settle_nothing_are_paced(t *testing.T) {
	for name, a := range map[string]queue.Answer{
		"release":                {Verb: queue.Release},
		"a hold that is over":    {Verb: queue.Hold, Until: time.Unix(0, 0)},
		"an unavailable handler": queue.Unavailable("down", 0),
	} {
		inBubble(t, name, func(t *testing.T) {
			g := start(t, usual(), func(context.Context, *queue.Delivery) queue.Answer { return a })
			g.submit("a1@A")
			pass(10 * time.Second)
			if n := len(strings.Fields(g.seen.started())); n < 2 || n > 20 {
				t.Errorf("delivered %d times in 10 s", n)
			}
			if x := g.message("a1"); x.Deliveries != 0 || x.FailedAttempts != 0 {
				t.Errorf("it counted: %d deliveries, %d failures", x.Deliveries, x.FailedAttempts)
			}
		})
	}
}
