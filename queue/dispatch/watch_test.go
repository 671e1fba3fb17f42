package dispatch

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// logBuffer is a log that may be read while it is written.
type logBuffer struct {
	mu sync.Mutex
	bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Buffer.String()
}

// lagging is a Runner whose ROUTE_REVIEW is left to consumers, of whom there are
// none.
func lagging(t *testing.T, log hclog.Logger) *rig {
	t.Helper()
	o := usual()
	o.Settings.ConsumerLag = time.Minute
	o.Handlers = map[queue.Route]any{queue.AutoResolve: &recording{}}
	o.Log = log
	return start(t, o, ack)
}

func TestWatch(t *testing.T) {
	inBubble(t, "CONSUMER_LAG names the oldest claimable exception, once a minute while it lasts", func(t *testing.T) {
		var log logBuffer
		g := lagging(t, hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true}))
		g.submit("a1@A", "a2@A", "b1@B=0")
		pass(59 * time.Second)
		g.wantRaised()
		pass(7 * time.Second)
		g.wantRaised("CONSUMER_LAG ROUTE_REVIEW")
		for _, want := range []string{
			`"code":"CONSUMER_LAG"`, `"seq":1`, `"trace_id":"t-a1"`, `"match_decision":"PARTIAL"`, `"source_hash":"`,
			`"route":"ROUTE_REVIEW"`, `"in_process":false`, `"consumers":0`, `"free_room":0`,
		} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("the log has no %s: %s", want, log.String())
			}
		}
		pass(4 * time.Minute)
		g.mu.Lock()
		n := len(g.raised)
		g.mu.Unlock()
		if n < 4 || n > 5 {
			t.Errorf("raised %d times in 5 minutes", n)
		}
	})
	inBubble(t, "a pause is no lag", func(t *testing.T) {
		g := lagging(t, nil)
		g.submit("a1@A")
		if err := g.store.Pause(t.Context(), queue.Action{Now: time.Now(), By: "op"}); err != nil {
			t.Fatal(err)
		}
		pass(time.Hour)
		g.wantRaised()
	})
	inBubble(t, "a lag that comes and goes is raised once a minute", func(t *testing.T) {
		g := lagging(t, nil)
		g.submit("a1@A")
		pass(66 * time.Second)
		if _, err := g.store.HoldKeys(t.Context(), queue.Action{Now: time.Now()}, []string{"A"}); err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		if _, err := g.store.ReleaseKeys(t.Context(), queue.Action{Now: time.Now()}, []string{"A"}); err != nil {
			t.Fatal(err)
		}
		pass(6 * time.Second)
		g.wantRaised("CONSUMER_LAG ROUTE_REVIEW")
		pass(time.Minute)
		g.wantRaised("CONSUMER_LAG ROUTE_REVIEW", "CONSUMER_LAG ROUTE_REVIEW")
	})
}

func TestStuck(t *testing.T) {
	stuck := func(g *rig) []queue.Route {
		st := g.status()
		return g.Stuck(&st, time.Now())
	}
	inBubble(t, "claimable work without a settlement for the time of the lag", func(t *testing.T) {
		o := usual()
		o.Workers, o.Room, o.Settings.Prefetch = 1, 1, 1
		o.Settings.ConsumerLag = time.Minute
		g := start(t, o, slowly(10*time.Minute))
		g.submit("a1@A", "b1@B", "c1@C")
		pass(59 * time.Second)
		if r := stuck(g); len(r) != 0 {
			t.Errorf("too soon: %v", r)
		}
		pass(2 * time.Second)
		if r := stuck(g); len(r) != 1 || r[0] != queue.RouteReview {
			t.Errorf("got %v", r)
		}
		pass(9 * time.Minute)
		if r := stuck(g); len(r) != 0 {
			t.Errorf("just after a settlement: %v", r)
		}
		g.hurry()
	})
	inBubble(t, "a pause, a held key and a route of consumers are not stuck", func(t *testing.T) {
		g := lagging(t, nil)
		g.submit("a1@A")
		pass(time.Hour)
		if r := stuck(g); len(r) != 0 {
			t.Errorf("consumers: %v", r)
		}
		o := usual()
		o.Settings.ConsumerLag = time.Minute
		h := start(t, o, ack)
		if err := h.store.Pause(t.Context(), queue.Action{Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		h.submit("a1@A")
		pass(time.Hour)
		if r := stuck(h); len(r) != 0 {
			t.Errorf("paused: %v", r)
		}
		if _, err := h.store.HoldKeys(t.Context(), queue.Action{Now: time.Now()}, []string{"A"}); err != nil {
			t.Fatal(err)
		}
		if err := h.store.Resume(t.Context(), queue.Action{Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		h.Wake()
		pass(time.Hour)
		if r := stuck(h); len(r) != 0 {
			t.Errorf("held: %v", r)
		}
	})
	inBubble(t, "an unavailable handler's route is", func(t *testing.T) {
		o := usual()
		o.Settings.ConsumerLag = 10 * time.Minute
		g := start(t, o, func(context.Context, *queue.Delivery) queue.Answer { return queue.Unavailable("down", 0) })
		g.submit("a1@A")
		pass(11 * time.Minute)
		synctest.Wait()
		if r := stuck(g); len(r) != 1 {
			t.Errorf("got %v", r)
		}
	})
}
