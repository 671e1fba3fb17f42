package house

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/client"
	"breakwater/queue"
)

// guestSession is an attached consumer of a test.
type guestSession struct {
	*site
	*client.Session
}

// attach attaches a consumer.
func (s *site) attach(c client.Consumer) guestSession {
	s.Helper()
	if c.Path == "" {
		c.Path = s.consumeSocket()
	}
	session, err := c.Attach(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(session.Close)
	return guestSession{s, session}
}

// next returns the next event, which must be of a kind.
func (g guestSession) next(kind client.Kind) client.Event {
	g.Helper()
	e, err := g.Next(g.Context())
	if err != nil || e.Kind != kind {
		g.Fatalf("want %s, got %+v, %v", kind, e, err)
	}
	return e
}

// limited is a context that lasts as long as anything may.
func (s *site) limited() (context.Context, context.CancelFunc) {
	return context.WithTimeout(s.Context(), patience)
}

// settle acks a delivery and waits for the confirmation.
func (g guestSession) settle(lease string) {
	g.Helper()
	if err := g.Send(g.Context(), lease, client.Answer{Verb: client.Ack, Outcome: "SIGNED"}); err != nil {
		g.Fatal(err)
	}
	g.next(client.Settled)
}

// TestConsumers_of_a_drain: a sign-off in flight survives a deploy, and one that comes
// before the end counts.
func TestConsumers_of_a_drain(t *testing.T) {
	t.Parallel()
	s := newSlow(t, 3600, waitsForGo, "slow")
	p := s.serve()
	s.running(1) // so long the drain waits
	s.sendAll(manyLines(3, 3, ""))
	c := client.Consumer{Name: "review-ui-1", Prefetch: 3, Lease: patience}
	g := s.attach(c)
	first, second, third := g.next(client.Delivered), g.next(client.Delivered), g.next(client.Delivered)
	var st struct{ Consumers int }
	if s.control("/v1/status", &st); st.Consumers != 1 {
		t.Errorf("%d consumers attached", st.Consumers)
	}
	if s.control("/readyz", &st); st.Consumers != 1 {
		t.Errorf("%d consumers attached", st.Consumers)
	}

	p.signal(syscall.SIGTERM)
	g.next(client.Draining)
	g.settle(first.Lease)
	ctx, cancel := s.limited()
	defer cancel()
	tries := 0
	late := client.Consumer{Path: s.consumeSocket(), Name: "late", Waiting: func(err error, _ time.Duration) {
		if !strings.Contains(err.Error(), "DRAINING") {
			t.Errorf("attaching to what is about to stop: %v", err)
		}
		if tries++; tries == 2 {
			cancel()
		}
	}}
	if _, err := late.Attach(ctx); err == nil {
		t.Error("somebody was attached to what is about to stop")
	}
	// Signed in the moment in which it stops: on this connection or the next, once.
	if err := g.Send(t.Context(), second.Lease, client.Answer{Verb: client.Ack, Outcome: "SIGNED"}); err != nil {
		t.Fatal(err)
	}
	s.letGo(1)
	if status := p.wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, p.log.all())
	}
	if d := s.drained(); !d.Clean || d.Leased == 0 {
		t.Errorf("DRAINED says %+v", d)
	}

	p = s.serve()
	for settled, back := 0, false; settled == 0 || !back; {
		e, err := g.Next(t.Context())
		switch {
		case err != nil:
			t.Fatal(err)
		case e.Kind == client.Attached:
			back = true
		case e.Kind == client.Settled || e.Resent && e.Code == client.CodeAlreadySettled:
			settled++
		default:
			t.Fatalf("%+v", e)
		}
	}
	g.settle(third.Lease) // under the token from before
	p.stop()
	times := map[uint64]int{}
	for _, r := range s.trail() {
		if r.Event == queue.EventDispatched && r.Worker == "review-ui-1" {
			times[r.Seq]++
		}
	}
	if len(times) != 3 || times[first.Delivery.Seq]*times[second.Delivery.Seq]*times[third.Delivery.Seq] != 1 {
		t.Errorf("deliveries: %v", times)
	}
	if st := s.status(); st.Done != 4 {
		t.Errorf("%+v", st)
	}
	s.sound()
}

func TestConsumers_of_a_reload(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	p := s.serve()
	s.sendAll(manyLines(3, 3, ""))
	g := s.attach(client.Consumer{Name: "before", Prefetch: 3, Lease: time.Hour})
	var leases []string
	for range 3 {
		leases = append(leases, g.next(client.Delivered).Lease)
	}
	s.replace("queue {\n  max_prefetch = 2\n  max_lease_timeout_ms = 60000\n}\n")
	if got := s.says("reload"); strings.Contains(got, "error") {
		t.Fatal(got)
	}
	for _, c := range []client.Consumer{{Name: "after", Prefetch: 3}, {Name: "after", Lease: time.Hour}} {
		c.Path = s.consumeSocket()
		if _, err := c.Attach(t.Context()); !errors.Is(err, client.ErrUsage) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	s.attach(client.Consumer{Name: "after", Prefetch: 2, Lease: time.Minute})
	for _, lease := range leases { // who was there keeps what it was granted
		g.settle(lease)
	}
	p.stop()
	s.sound()
}

// TestConsumers_of_a_socket_that_was_handed_over: who attaches before the program runs
// waits, and the socket outlives it.
func TestConsumers_of_a_socket_that_was_handed_over(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path("handed.sock"), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	attached := make(chan error, 1)
	var g *client.Session
	go func() {
		g, err = (&client.Consumer{Path: s.path("handed.sock"), Name: "early"}).Attach(t.Context())
		attached <- err
	}()
	p := s.runWith(t, l, "consume")
	p.await("socket taken over from the service manager")
	if err := <-attached; err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	p.await("ready")
	s.sendOne(exceptionLine("k", "1", ""))
	guestSession{s, g}.next(client.Delivered)
	p.stop()
	if c, err := net.Dial("unix", s.path("handed.sock")); err != nil {
		t.Errorf("the manager's socket is gone: %v", err)
	} else {
		_ = c.Close()
	}
	s.sound()
}

// TestConsumers_that_are_too_many are told so, whatever they say first.
func TestConsumers_that_are_too_many(t *testing.T) {
	t.Parallel()
	s := newSite(t, "socket \"consume\" { max_connections = 2 }\n")
	p := s.serve()
	s.attach(client.Consumer{Name: "a", Routes: []string{"AUTO_RESOLVE"}})
	p.await("a consumer is attached that gets nothing: each route that it asks for has a handler")
	b := s.attach(client.Consumer{Name: "b"})
	for i := range 20 {
		ctx, cancel := s.limited()
		c := client.Consumer{Path: s.consumeSocket(), Name: fmt.Sprint("c", i), Waiting: func(err error, _ time.Duration) {
			if !errors.Is(err, client.ErrRefused) {
				t.Errorf("refused as %v", err)
			}
			cancel()
		}}
		if _, err := c.Attach(ctx); err == nil {
			t.Error("a third consumer is attached")
		}
		cancel()
	}
	s.sendOne(exceptionLine("k", "1", ""))
	b.next(client.Delivered)
	if err := b.Detach(t.Context(), nil); err != nil {
		t.Error(err)
	}
	s.attach(client.Consumer{Name: "c"})
	p.stop()
	s.sound()
}
