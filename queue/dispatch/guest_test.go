package dispatch

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

// guest is a consumer of a test: it reads what it is told as soon as it is told, and
// answers when the test says so.
type guest struct {
	g *rig
	*Session

	mu       sync.Mutex
	all      []queue.Delivery          // it was ever told of
	held     map[string]queue.Delivery // by idempotency key: not answered yet
	ending   []queue.Ending
	draining int
	err      error // that ended it
	gone     chan struct{}
}

// attachment is what guests ask for: leases of a minute.
func attachment(name string, prefetch int, routes ...queue.Route) queue.Attachment {
	if len(routes) == 0 {
		routes = []queue.Route{queue.RouteReview}
	}
	return queue.Attachment{
		Owner: queue.Owner{Kind: queue.Consumer, Name: name, UID: 1000}, Peer: queue.Peer{UID: 1000, GID: 1000, PID: 77},
		Prefetch: prefetch, Routes: queue.RoutesOf(routes...), Lease: time.Minute,
	}
}

// attach takes in a consumer that reads.
func (g *rig) attach(a queue.Attachment) *guest {
	g.t.Helper()
	c := g.silent(a)
	go c.read()
	return c
}

// silent takes in a consumer that does not read until it is told to.
func (g *rig) silent(a queue.Attachment) *guest {
	g.t.Helper()
	s, err := g.Attach(context.Background(), a)
	if err != nil {
		g.t.Fatal(err)
	}
	synctest.Wait() // a claim that was asked for without it is over
	c := &guest{g: g, Session: s, held: map[string]queue.Delivery{}, gone: make(chan struct{})}
	g.t.Cleanup(func() {
		if err := c.Break(context.Background()); err != nil && !errors.Is(err, queue.ErrFailed) {
			g.t.Error(err)
		}
	})
	return c
}

// read reads until the session is over.
func (c *guest) read() {
	defer close(c.gone)
	for {
		n, err := c.Next(context.Background())
		c.mu.Lock()
		c.err = err
		for _, d := range n.Deliveries {
			c.all = append(c.all, d)
			c.held[d.Message.IdempotencyKey] = d
		}
		c.ending = append(c.ending, n.Ending...)
		if n.Draining {
			c.draining++
		}
		c.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// has returns the ids it holds, sorted.
func (c *guest) has() string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	ids := make([]string, 0, len(c.held))
	for id := range c.held {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return strings.Join(ids, " ")
}

// told returns the ids it was told of, in order.
func (c *guest) told() string {
	all := c.deliveries()
	ids := make([]string, len(all))
	for i, d := range all {
		ids[i] = d.Message.IdempotencyKey
	}
	return strings.Join(ids, " ")
}

// warned returns what it was told of leases that end, drained how often of the drain.
func (c *guest) warned() []queue.Ending {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ending)
}

func (c *guest) drained() int {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.draining
}

// deliveries returns what it was told of, in order.
func (c *guest) deliveries() []queue.Delivery {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.all)
}

// unread is what waits in its mailbox, and how many bytes that counts.
func (c *guest) unread() (deliveries, bytes int) {
	synctest.Wait()
	c.Session.mu.Lock()
	defer c.Session.mu.Unlock()
	return len(c.mailbox), c.bytes
}

// token is the lease of a message that it holds.
func (c *guest) token(id string) queue.Token {
	c.g.t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	d, ok := c.held[id]
	if !ok {
		c.g.t.Fatalf("%s is not held", id)
	}
	return d.Token
}

// answer answers for messages that it holds; the answer has to be taken.
func (c *guest) answer(a queue.Settlement, ids ...string) {
	c.g.t.Helper()
	for i, res := range c.reply(a, ids...) {
		if res.Code != "" {
			c.g.t.Errorf("%s: %s %s", ids[i], res.Code, res.Error)
		}
	}
}

// reply answers for messages that it holds, and returns what became of it.
func (c *guest) reply(a queue.Settlement, ids ...string) []queue.SettleResult {
	c.g.t.Helper()
	var all []queue.Settlement
	for _, id := range ids {
		a.Token, a.At = c.token(id), time.Now()
		all = append(all, a)
	}
	c.mu.Lock()
	for _, id := range ids {
		delete(c.held, id)
	}
	c.mu.Unlock()
	results, err := c.Answer(context.Background(), all)
	if err != nil {
		c.g.t.Fatal(err)
	}
	return results
}

// ack approves messages that it holds.
func (c *guest) ack(ids ...string) {
	c.g.t.Helper()
	c.answer(queue.Settlement{Verb: queue.Ack, Outcome: "APPROVED", By: "alice"}, ids...)
}

// hosted is a Runner that leaves ROUTE_REVIEW to consumers.
func hosted(t *testing.T, change ...func(*Options)) *rig {
	t.Helper()
	o := usual()
	o.Handlers = map[queue.Route]any{queue.AutoResolve: &recording{}}
	for _, f := range change {
		f(&o)
	}
	return start(t, o, ack)
}
