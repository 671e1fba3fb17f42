package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// full is a Runner with room for n messages, and a handler that takes a second.
func full(t *testing.T, n int64, log hclog.Logger) *rig {
	t.Helper()
	o := one()
	o.Room, o.Settings.Prefetch = 1, 1
	o.Settings.Limits.MaxBacklog = n
	o.Log = log
	return start(t, o, slowly(time.Second))
}

// offerAll submits each line by a producer of its own, and counts who was answered.
func (g *rig) offerAll(specs ...string) *atomic.Int64 {
	var accepted atomic.Int64
	for _, s := range specs {
		lines := submissions(g.t, s)
		go func() {
			res, err := g.Submit(context.Background(), queue.Peer{}, lines)
			if err == nil && res.Receipts[0].Status == queue.Accepted {
				accepted.Add(1)
			}
		}()
	}
	synctest.Wait()
	return &accepted
}

func TestBackPressure(t *testing.T) {
	inBubble(t, "a slow handler slows the producer, and each settlement lets one line in", func(t *testing.T) {
		g := full(t, 2, nil)
		g.submit("a1@A", "a2@A")
		began := time.Now()
		g.submit("a3@A", "a4@A", "a5@A") // one Submit waits for three places
		if took := time.Since(began); took != 3*time.Second {
			t.Errorf("it took %v", took)
		}
		g.wantRaised("QUEUE_SATURATED ROUTE_REVIEW")
		pass(time.Minute)
	})
	inBubble(t, "QUEUE_SATURATED names the first line that waits", func(t *testing.T) {
		var log logBuffer
		g := full(t, 1, hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true}))
		g.submit("a1@A", "b2@B", "b3@B")
		first, _, _ := strings.Cut(log.String(), "\n")
		for _, want := range []string{
			`"code":"QUEUE_SATURATED"`, `"trace_id":"t-b2"`, `"reason":"max_backlog"`, `"route":"ROUTE_REVIEW"`, `"match_decision":"PARTIAL"`, `"source_hash":"`,
		} {
			if !strings.Contains(first, want) {
				t.Errorf("no %s in %s", want, first)
			}
		}
		if n := bytes.Count([]byte(log.String()), []byte("QUEUE_SATURATED")); n != 1 {
			t.Errorf("it was raised %d times", n)
		}
		pass(time.Minute)
	})
	inBubble(t, "who waits is counted, with the limit they met, and not longer", func(t *testing.T) {
		g := full(t, 1, nil)
		g.submit("a1@A")
		want := func(producers int, reason queue.Saturation) {
			t.Helper()
			if n, why := g.Waiting(); n != producers || why != reason {
				t.Errorf("%d wait for %q, want %d for %q", n, why, producers, reason)
			}
		}
		want(0, "")
		g.offerAll("b1@B", "b2@B", "b3@B")
		want(3, queue.FullBacklog)
		s := *g.settings.Load()
		s.Limits.MaxBacklog, s.Limits.MaxOpenKeys = 0, 1
		g.Configure(s)
		pass(600 * time.Millisecond) // each has asked again by itself
		want(3, queue.FullOpenKeys)
		pass(time.Minute)
		want(0, "")

		s.RejectWhenFull, s.Limits.MaxBacklog = true, 1
		g.Configure(s)
		g.offerAll("c1@C", "c2@C")
		want(0, "")
	})
	inBubble(t, "room is passed on until it is used up", func(t *testing.T) {
		g := full(t, 1, nil)
		g.submit("a1@A")
		var specs []string
		for i := range 100 {
			specs = append(specs, fmt.Sprintf("b%d@B", i))
		}
		accepted := g.offerAll(specs...)
		if n := accepted.Load(); n != 0 {
			t.Fatalf("%d accepted", n)
		}
		s := *g.settings.Load()
		s.Limits.MaxBacklog = 51
		g.Configure(s)
		synctest.Wait()
		if n := accepted.Load(); n != 50 {
			t.Errorf("%d accepted at once, there was room for 50", n)
		}
		s.Limits.MaxBacklog = 0
		g.Configure(s)
		synctest.Wait()
		if n := accepted.Load(); n != 100 {
			t.Errorf("%d accepted", n)
		}
		pass(5 * time.Minute)
	})
	inBubble(t, "a place that comes free is not asked for by everybody", func(t *testing.T) {
		g := full(t, 1, nil)
		g.submit("a1@A")
		var specs []string
		for i := range 100 {
			specs = append(specs, fmt.Sprintf("b%d@B", i))
		}
		<-time.After(700 * time.Millisecond)
		accepted := g.offerAll(specs...)
		before := g.store.count("admit")
		pass(400 * time.Millisecond) // in which a1 is settled
		if n := accepted.Load(); n != 1 {
			t.Errorf("%d accepted", n)
		}
		if n := g.store.count("admit") - before; n > 3 {
			t.Errorf("the store was asked %d times for one place", n)
		}
		pass(5 * time.Minute)
	})
	inBubble(t, "a drain refuses who waits, and keeps what was stored", func(t *testing.T) {
		g := full(t, 1, nil)
		g.submit("a1@A")
		answered := make(chan queue.AdmitResult, 1)
		go func() {
			res, _ := g.Submit(context.Background(), queue.Peer{}, submissions(t, "b1@B", "b2@B"))
			answered <- res
		}()
		synctest.Wait()
		g.Drain()
		for _, r := range (<-answered).Receipts {
			if r.Status != queue.Rejected || r.Code != queue.CodeDraining || r.Reason != "" {
				t.Errorf("got %+v", r)
			}
		}
		pass(2 * time.Second)
		res, err := g.Submit(t.Context(), queue.Peer{}, submissions(t, "c1@C", "c2@C"))
		if err != nil || res.Receipts[0].Status != queue.Accepted || res.Receipts[1].Code != queue.CodeDraining {
			t.Errorf("during the drain: %+v, %v", res, err)
		}
	})
	inBubble(t, "reject answers at once", func(t *testing.T) {
		g := full(t, 1, nil)
		s := *g.settings.Load()
		s.RejectWhenFull = true
		g.Configure(s)
		began := time.Now()
		res, err := g.Submit(t.Context(), queue.Peer{}, submissions(t, "a1@A", "a2@A"))
		if err != nil || time.Since(began) != 0 {
			t.Fatalf("after %v: %v", time.Since(began), err)
		}
		if r := res.Receipts[1]; r.Status != queue.Rejected || r.Code != queue.CodeSaturated || r.Reason != queue.FullBacklog {
			t.Errorf("got %+v", r)
		}
		g.wantRaised("QUEUE_SATURATED ROUTE_REVIEW")
		pass(time.Minute)
	})
}
