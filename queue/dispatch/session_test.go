package dispatch

import (
	"context"
	"errors"
	"testing"
	"time"

	"breakwater/queue"
)

func TestConsumers(t *testing.T) {
	inBubble(t, "a consumer gets the messages of a key one by one, in order", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 10))
		g.submit("a1@A", "a2@A", "b1@B", "b2@B")
		if got := c.has(); got != "a1 b1" {
			t.Fatalf("holds %s", got)
		}
		c.ack("a1")
		if got := c.has(); got != "a2 b1" {
			t.Errorf("holds %s", got)
		}
		c.ack("a2", "b1")
		c.has()
		c.ack("b2")
		if got := c.told(); got != "a1 b1 a2 b2" {
			t.Errorf("was told of %s", got)
		}
		if st := g.status(); st.Done != 4 {
			t.Errorf("%+v", st)
		}
	})
	inBubble(t, "holds no more than its prefetch, and gets more as soon as there is room", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 2))
		g.submit("a1@A", "b1@B", "c1@C", "d1@D")
		if got := c.has(); got != "a1 b1" {
			t.Fatalf("holds %s", got)
		}
		c.ack("b1")
		if got := c.has(); got != "a1 c1" {
			t.Errorf("holds %s", got)
		}
	})
	inBubble(t, "its coming and going is on record", func(t *testing.T) {
		g := hosted(t)
		g.submit("a1@A", "b1@B")
		c := g.attach(attachment("ui", 1))
		if c.has() != "a1" || g.Consumers() != 1 {
			t.Fatalf("holds %s, %d attached", c.has(), g.Consumers())
		}
		if err := c.Detach(t.Context()); err != nil {
			t.Fatal(err)
		}
		<-c.gone
		if !errors.Is(c.err, queue.ErrDetached) || g.Consumers() != 0 {
			t.Errorf("it ends with %v, %d attached", c.err, g.Consumers())
		}
		var came, left, back queue.Record
		for _, r := range g.trail() {
			switch r.Event {
			case queue.EventAttached:
				came = r
			case queue.EventDetached:
				left = r
			case queue.EventReleased:
				back = r
			}
		}
		if came.Worker != "ui" || came.Peer == nil || came.Peer.PID != 77 ||
			string(came.Detail) != `{"prefetch":1,"routes":["ROUTE_REVIEW"],"lease_timeout_ms":60000}` {
			t.Errorf("ATTACHED %+v %s", came, came.Detail)
		}
		if left.Worker != "ui" || left.Reason != leftByItself || string(left.Detail) != `{"released":1,"kept":0}` {
			t.Errorf("DETACHED %+v %s", left, left.Detail)
		}
		if back.Seq != 1 || back.Reason != leftByItself {
			t.Errorf("RELEASED %+v", back)
		}
		if x := g.message("a1"); x.State != queue.Ready || x.Deliveries != 0 {
			t.Errorf("%s, %d deliveries", x.State, x.Deliveries)
		}
	})
	inBubble(t, "a name in use is refused, whoever asks", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 1))
		other := attachment("ui", 1)
		for _, uid := range []uint32{1000, 1001} {
			other.Owner.UID = uid
			if _, err := g.Attach(t.Context(), other); !errors.Is(err, queue.ErrNameInUse) {
				t.Errorf("uid %d: %v", uid, err)
			}
		}
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		g.attach(other)
	})
	inBubble(t, "what cannot be worked with is refused", func(t *testing.T) {
		g := hosted(t)
		for name, spoil := range map[string]func(*queue.Attachment){
			"a worker":    func(a *queue.Attachment) { a.Owner.Kind = queue.Worker },
			"no name":     func(a *queue.Attachment) { a.Owner.Name = "" },
			"no prefetch": func(a *queue.Attachment) { a.Prefetch = 0 },
			"no routes":   func(a *queue.Attachment) { a.Routes = 0 },
			"no lease":    func(a *queue.Attachment) { a.Lease = 0 },
		} {
			a := attachment("ui", 1)
			spoil(&a)
			if _, err := g.Attach(t.Context(), a); err == nil {
				t.Errorf("%s is attached", name)
			}
		}
	})
	inBubble(t, "a broken connection keeps its leases until their deadlines", func(t *testing.T) { // B39, as the contract has it
		g := hosted(t)
		g.submit("a1@A")
		c := g.attach(attachment("ui", 1))
		c.has()
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := g.attach(attachment("other", 1))
		pass(58 * time.Second)
		if got := other.has(); got != "" {
			t.Fatalf("the other one has %s", got)
		}
		pass(4 * time.Second)
		if got := other.has(); got != "a1" {
			t.Errorf("the other one has %s", got)
		}
		g.wantRaised("LEASE_EXPIRED")
	})
	inBubble(t, "Next ends with its context", func(t *testing.T) {
		g := hosted(t)
		c := g.silent(attachment("ui", 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
}
