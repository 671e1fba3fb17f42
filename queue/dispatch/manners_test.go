package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// acked is an answer that settles.
var acked = queue.Settlement{Verb: queue.Ack, Outcome: "APPROVED"}

// B38: a consumer that extends in time keeps its lease, one that does not loses it.
func TestEnding(t *testing.T) {
	inBubble(t, "a consumer is told once when a third of a lease is left, and again after it was extended", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 9))
		g.submit("a1@A")
		pass(40*time.Second - time.Millisecond)
		if ends := c.warned(); len(ends) != 0 {
			t.Fatalf("told too soon: %v", ends)
		}
		pass(time.Millisecond)
		token := c.token("a1")
		if ends := c.warned(); len(ends) != 1 || ends[0].Token != token || time.Until(ends[0].Deadline) != 20*time.Second {
			t.Fatalf("told %+v", ends)
		}
		pass(15 * time.Second)
		results, err := c.Extend(t.Context(), time.Now(), []queue.Token{token})
		if err != nil || results[0].Code != "" || !results[0].Deadline.Equal(time.Now().Add(time.Minute)) {
			t.Fatalf("%+v, %v", results, err)
		}
		pass(39 * time.Second)
		if ends := c.warned(); len(ends) != 1 {
			t.Fatalf("told too soon: %v", ends)
		}
		pass(time.Second)
		if ends := c.warned(); len(ends) != 2 || !ends[1].Deadline.Equal(results[0].Deadline) {
			t.Errorf("told %+v", ends)
		}
		c.ack("a1")
	})
	inBubble(t, "each lease has its own time", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 9))
		for _, spec := range []string{"a1@A", "b1@B", "c1@C"} {
			g.submit(spec)
			pass(5 * time.Second)
		}
		c.ack("b1")
		pass(time.Minute - 21*time.Second)
		if ends := c.warned(); len(ends) != 2 || ends[0].Token.Seq != 1 || ends[1].Token.Seq != 3 {
			t.Errorf("told %+v", ends)
		}
		c.ack("a1", "c1")
	})
	inBubble(t, "a lease that expires makes room", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 1))
		g.submit("a1@A", "b1@B")
		c.has()
		c.ack("a1")
		g.submit("a2@A")
		c.has()
		pass(62 * time.Second)
		if got := c.told(); got != "a1 b1 b1" && got != "a1 b1 a2" {
			t.Errorf("told of %s", got)
		}
		if g.events(queue.EventReclaimed) != 1 {
			t.Errorf("%d leases were taken back", g.events(queue.EventReclaimed))
		}
	})
}

func TestTakeOver(t *testing.T) {
	inBubble(t, "who comes back is given its leases again, before anything new", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 2))
		g.submit("a1@A", "b1@B", "c1@C")
		c.has()
		before := [2]queue.Token{c.token("a1"), c.token("b1")}
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		pass(10 * time.Second)
		again := g.attach(attachment("ui", 3))
		if got := again.told(); got != "a1 b1 c1" {
			t.Fatalf("told of %s", got)
		}
		for i, d := range again.deliveries() {
			if old := i < 2; d.Redelivered != old || d.Number != 1 || old && d.Token != before[i] {
				t.Errorf("delivery %d: %+v", i, d)
			}
		}
		again.ack("a1", "b1", "c1")
		if st := g.status(); st.Done != 3 || g.events(queue.EventDispatched) != 3 {
			t.Errorf("%+v", st)
		}
	})
	inBubble(t, "they count against its prefetch", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 3))
		g.submit("a1@A", "b1@B", "c1@C", "d1@D")
		c.has()
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := g.attach(attachment("ui", 2))
		if got := again.has(); got != "a1 b1" {
			t.Fatalf("has %s", got)
		}
		again.ack("b1")
		if got := again.has(); got != "a1 c1" {
			t.Fatalf("has %s", got)
		}
		again.ack("a1", "c1")
		if got := again.has(); got != "d1" {
			t.Errorf("has %s", got)
		}
	})
	inBubble(t, "another user under the same name is given none of them", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 1))
		g.submit("a1@A", "b1@B")
		c.has()
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		other := attachment("ui", 9)
		other.Owner.UID = 1001
		d := g.attach(other)
		if got := d.has(); got != "b1" {
			t.Errorf("has %s", got)
		}
		for i, res := range d.reply(acked, "b1") {
			if res.Code != "" {
				t.Errorf("%d: %+v", i, res)
			}
		}
		stolen := acked
		stolen.Token, stolen.At = c.token("a1"), time.Now()
		if res, err := d.Answer(t.Context(), []queue.Settlement{stolen}); err != nil || res[0].Code != queue.CodeExpired {
			t.Errorf("%+v, %v", res, err)
		}
	})
	inBubble(t, "an answer with a token of before is good, and its message is not given again", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 9))
		g.submit("a1@A", "b1@B")
		c.has()
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := g.silent(attachment("ui", 9))
		a := acked
		a.Token, a.At = c.token("a1"), time.Now()
		if res, err := again.Answer(t.Context(), []queue.Settlement{a}); err != nil || res[0].Code != "" {
			t.Fatalf("%+v, %v", res, err)
		}
		go again.read()
		if got := again.told(); got != "b1" {
			t.Errorf("told of %s", got)
		}
	})
	inBubble(t, "many of them come piece by piece, and what is answered meanwhile does not", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 100))
		g.submit(long(40, 16<<10)...)
		if n := len(strings.Fields(c.has())); n != 40 {
			t.Fatalf("holds %d", n)
		}
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := g.silent(attachment("ui", 100))
		if _, n := again.unread(); n > mailboxBytes+20<<10 {
			t.Errorf("%d bytes are in the mailbox", n)
		}
		last := acked
		last.Token, last.At = c.token("m39"), time.Now()
		if res, err := again.Answer(t.Context(), []queue.Settlement{last}); err != nil || res[0].Code != "" {
			t.Fatalf("%+v, %v", res, err)
		}
		g.submit("z1@Z")
		go again.read()
		if got := strings.Fields(again.told()); len(got) != 40 || got[38] != "m38" || got[39] != "z1" {
			t.Errorf("told of %s", got)
		}
	})
	inBubble(t, "who leaves before it was given all of them puts back all of them, or keeps all", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 100))
		g.submit(long(40, 16<<10)...)
		c.has()
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, leave := range []func(*guest) error{
			func(c *guest) error { return c.Break(t.Context()) },
			func(c *guest) error { return c.Detach(t.Context()) },
		} {
			if err := leave(g.silent(attachment("ui", 100))); err != nil {
				t.Error(err)
			}
			last := g.trail()[len(g.trail())-1]
			want, leased := `{"released":0,"kept":40}`, int64(40)
			if last.Reason == leftByItself {
				want, leased = `{"released":40,"kept":0}`, 0
			}
			if st := g.status(); st.Leased != leased || string(last.Detail) != want {
				t.Errorf("%+v, %s %s", st, last.Event, last.Detail)
			}
		}
	})
	inBubble(t, "a message that is settled while leases are taken over is not given again", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 100))
		g.submit(long(40, 16<<10)...)
		c.has()
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := g.silent(attachment("ui", 100))
		last := acked
		last.Token, last.At = c.token("m39"), time.Now()
		g.store.after("take over", func() {
			if res, err := again.Answer(context.Background(), []queue.Settlement{last}); err != nil || res[0].Code != "" {
				t.Errorf("%+v, %v", res, err)
			}
		})
		go again.read()
		if got := strings.Fields(again.told()); len(got) != 39 {
			t.Errorf("told of %s", got)
		}
	})
}

func TestLeaving(t *testing.T) {
	inBubble(t, "what is claimed for who is just leaving goes back", func(t *testing.T) {
		for _, leave := range []func(*guest) error{
			func(c *guest) error { return c.Detach(context.Background()) },
			func(c *guest) error { return c.Break(context.Background()) },
		} {
			g := hosted(t)
			c := g.attach(attachment("ui", 9))
			left := make(chan error, 1)
			synctest.Wait()
			g.store.after("claim", func() {
				go func() { left <- leave(c) }()
				<-time.After(time.Millisecond)
			})
			g.submit("a1@A")
			if err := <-left; err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if st := g.status(); st.Ready != 1 || st.Leased != 0 || g.events(queue.EventDispatched) != 1 {
				t.Errorf("%+v", st)
			}
		}
	})
	inBubble(t, "who comes back is not told of what its last answer settles", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 9))
		g.submit("a1@A", "b1@B")
		c.has()
		g.store.on(func(verb string) error {
			if verb == "settle" {
				<-time.After(5 * time.Second)
			}
			return nil
		})
		go c.ack("a1")
		synctest.Wait()
		if err := c.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		again := g.attach(attachment("ui", 9))
		if got := again.told(); got != "b1" {
			t.Errorf("told of %s", got)
		}
		g.store.on(nil)
	})
	inBubble(t, "what was taken back while it lay in the mailbox is not told", func(t *testing.T) {
		g := hosted(t)
		c := g.silent(attachment("ui", 9))
		g.submit("a1@A", "b1@B")
		synctest.Wait()
		revoked, err := g.store.Revoke(t.Context(), queue.Action{Now: time.Now(), By: "op"}, g.settings.Load().Policy, []queue.LeaseRef{{Seq: 1}})
		if err != nil || revoked[0].Code != "" {
			t.Fatal(revoked, err)
		}
		g.Revoked(revoked)
		go c.read()
		if got := c.told(); got != "b1" {
			t.Errorf("told of %s", got)
		}
	})
	inBubble(t, "what is taken back while it is claimed is not told, and takes no room", func(t *testing.T) {
		g := hosted(t)
		c := g.attach(attachment("ui", 1))
		synctest.Wait()
		g.store.after("claim", func() {
			revoked, err := g.store.Revoke(t.Context(), queue.Action{Now: time.Now(), By: "op"}, g.settings.Load().Policy, []queue.LeaseRef{{Seq: 1}})
			if err != nil || revoked[0].Code != "" {
				t.Error(revoked, err)
			}
			g.Revoked(revoked)
		})
		g.submit("a1@A", "b1@B")
		if got := c.told(); got != "b1" {
			t.Errorf("told of %s", got)
		}
	})
}

// long makes n messages m0, m1, … of n keys, of so many bytes each.
func long(n, size int) (specs []string) {
	for i := range n {
		specs = append(specs, fmt.Sprintf("m%d@L%d+%d", i, i, size))
	}
	return specs
}

func TestLiars(t *testing.T) {
	// bystander is another consumer at work, and the workers: they go on.
	bystander := func(g *rig) (goesOn func()) {
		b := g.attach(attachment("b", 9))
		n := 0
		return func() {
			t.Helper()
			n++
			before := g.status().Done
			key := keysFor(9, "b", "a", "b")[8]
			id := fmt.Sprintf("by%d", n)
			g.submit(id+"@"+key, fmt.Sprintf("w%d@W%d=0", n, n))
			b.has()
			b.ack(id)
			if done := g.status().Done; done != before+2 {
				t.Errorf("the others have settled %d", done-before)
			}
		}
	}
	inBubble(t, "answers under leases of others, of nobody, and twice change nothing", func(t *testing.T) {
		g := hosted(t)
		a := g.attach(attachment("a", 9))
		goesOn := bystander(g)
		g.submit("x1@" + keysFor(1, "a", "a", "b")[0])
		g.submit("y1@" + keysFor(1, "b", "a", "b")[0])
		a.has()
		x, y := a.token("x1"), queue.Token{Seq: 2, Fence: a.token("x1").Fence + 1}
		lies := []queue.Token{y, {}, {Seq: 1}, {Seq: 1, Fence: 99}, {Seq: 99, Fence: 1}, {Seq: 2, Fence: x.Fence}}
		var answers []queue.Settlement
		for _, token := range append(lies, x, x) {
			s := acked
			s.Token, s.At = token, time.Now()
			answers = append(answers, s)
		}
		results, err := a.Answer(t.Context(), answers)
		if err != nil {
			t.Fatal(err)
		}
		for i, res := range results {
			want := queue.CodeExpired
			switch i {
			case len(lies):
				want = ""
			case len(lies) + 1:
				want = queue.CodeAlreadySettled
			}
			if res.Code != want {
				t.Errorf("answer %d: %+v", i, res)
			}
		}
		extended, err := a.Extend(t.Context(), time.Now(), lies)
		for i, res := range extended {
			if res.Code == "" || err != nil {
				t.Errorf("extended %v: %+v, %v", lies[i], res, err)
			}
		}
		if st := g.status(); st.Done != 1 || st.Leased != 1 || g.events(queue.EventRefused) != 5 {
			t.Errorf("%+v, %d refused", st, g.events(queue.EventRefused))
		}
		goesOn()
	})
	inBubble(t, "an answer that cannot be recorded leaves the lease as it is", func(t *testing.T) {
		g := hosted(t)
		a := g.attach(attachment("a", 1))
		g.submit("x1@X")
		a.has()
		bad := queue.Settlement{Token: a.token("x1"), At: time.Now(), Verb: queue.Ack, Outcome: "not so"}
		res, err := a.Answer(t.Context(), []queue.Settlement{bad, {Token: bad.Token, At: bad.At}})
		if err != nil || res[0].Code != queue.CodeUsage || res[1].Code != queue.CodeUsage {
			t.Fatalf("%+v, %v", res, err)
		}
		a.ack("x1")
	})
	inBubble(t, "late answers are counted each, and logged once in a while", func(t *testing.T) {
		var log logBuffer
		g := hosted(t, func(o *Options) { o.Log = hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true}) })
		a := g.attach(attachment("a", 9))
		for range 3 {
			for range 5 {
				if _, err := a.Answer(t.Context(), []queue.Settlement{acked}); err != nil {
					t.Fatal(err)
				}
			}
			pass(staleLogEvery)
		}
		g.mu.Lock()
		n := len(g.raised)
		g.mu.Unlock()
		if logged := strings.Count(log.String(), "a late answer changed nothing"); logged != 3 || n != 15 {
			t.Errorf("logged %d times, raised %d times", logged, n)
		}
		if !strings.Contains(log.String(), `"not_logged":4`) {
			t.Errorf("the log: %s", log.String())
		}
	})
	inBubble(t, "who goes on with them is slowed down, and nobody else is", func(t *testing.T) {
		g := hosted(t)
		a := g.attach(attachment("a", 9))
		goesOn := bystander(g)
		goesOn()
		lie := acked
		lie.Token, lie.At = queue.Token{Seq: 1, Fence: 99}, time.Now()
		lies := make([]queue.Settlement, 256)
		for i := range lies {
			lies[i] = lie
		}
		began := time.Now()
		go func() {
			for {
				if _, err := a.Answer(context.Background(), lies); err != nil {
					break
				}
			}
		}()
		synctest.Wait()
		if n := g.events(queue.EventRefused); n < staleBurst || n > staleBurst+len(lies) || !time.Now().Equal(began) {
			t.Errorf("%d refused at once", n)
		}
		goesOn()
		pass(100 * time.Second)
		if n := g.events(queue.EventRefused) - staleBurst; n > 11_000 || n < 9_000 {
			t.Errorf("%d refused in 100 s", n)
		}
		goesOn()
	})
	inBubble(t, "a consumer that does not read is given no more than its mailbox takes", func(t *testing.T) {
		g := hosted(t)
		a := g.silent(attachment("a", 1024))
		goesOn := bystander(g)
		keys := keysFor(100, "a", "a", "b")
		var specs []string
		for i, key := range keys {
			specs = append(specs, fmt.Sprintf("x%d@%s+%d", i, key, 16<<10))
		}
		g.submit(specs...)
		synctest.Wait()
		if n, _ := a.unread(); n < 15 || n > 17 || a.room() != 0 {
			t.Errorf("%d deliveries, room for %d", n, a.room())
		}
		goesOn()
	})
	inBubble(t, "and what it was not told of goes back, uncounted, for the others", func(t *testing.T) {
		g := hosted(t)
		a := g.silent(attachment("a", 9))
		b := g.attach(attachment("b", 9))
		g.submit(named("x", keysFor(3, "a", "a", "b"))...)
		pass(unreadAfter - time.Second)
		if b.has() != "" {
			t.Fatalf("b has %s", b.has())
		}
		pass(3 * time.Second)
		if b.has() != "x1 x2 x3" {
			t.Fatalf("b has %s", b.has())
		}
		if x := g.message("x1"); x.Deliveries != 1 {
			t.Errorf("%d deliveries", x.Deliveries)
		}
		g.submit(named("y", keysFor(3, "a", "a", "b"))...)
		b.ack("x1", "x2", "x3")
		if n, _ := a.unread(); n != 0 || b.has() != "y1 y2 y3" {
			t.Fatalf("b has %s", b.has())
		}
		b.ack("y1", "y2", "y3")
		go a.read()
		synctest.Wait()
		g.submit(named("z", keysFor(3, "a", "a", "b"))...)
		if a.told() != "z1 z2 z3" {
			t.Errorf("it reads again, and is told of %s", a.told())
		}
	})
	inBubble(t, "if there is no room to write that down, it stays, also for who reads again", func(t *testing.T) {
		g := hosted(t)
		a, b := g.silent(attachment("a", 9)), g.silent(attachment("b", 9))
		g.submit(append(named("x", keysFor(2, "a", "a", "b")), named("y", keysFor(2, "b", "a", "b"))...)...)
		var full atomic.Bool
		full.Store(true)
		g.store.on(func(verb string) error {
			if verb == "settle" && full.Load() {
				return queue.ErrNoRoom
			}
			return nil
		})
		pass(unreadAfter + 5*time.Second)
		if st := g.status(); st.Leased != 4 {
			t.Fatalf("%+v", st)
		}
		go b.read()
		if got := b.told(); got != "y1 y2" {
			t.Errorf("told of %s", got)
		}
		full.Store(false)
		pass(2 * time.Second)
		if n, bytes := a.unread(); n != 0 || bytes != 0 || b.has() != "x1 x2 y1 y2" || g.status().Leased != 4 {
			t.Errorf("%d deliveries of %d bytes are unread, b has %s, %+v", n, bytes, b.has(), g.status())
		}
	})
	inBubble(t, "a consumer that breaks off gives back at once what it was not told of", func(t *testing.T) {
		g := hosted(t)
		a := g.silent(attachment("a", 9))
		g.submit("x1@X", "y1@Y")
		synctest.Wait()
		if err := a.Break(t.Context()); err != nil {
			t.Fatal(err)
		}
		if st := g.status(); st.Ready != 2 || st.Leased != 0 {
			t.Errorf("%+v", st)
		}
		if x := g.message("x1"); x.Deliveries != 0 {
			t.Errorf("%d deliveries", x.Deliveries)
		}
	})
	inBubble(t, "what the only consumer never answers ends as a dead letter", func(t *testing.T) {
		g := hosted(t, func(o *Options) { o.Settings.Policy.OnDeadLetter = queue.SkipDead })
		a := g.attach(attachment("a", 1))
		key := keysFor(1, "a", "a", "b")[0]
		g.submit("x1@"+key, "x2@"+key)
		for range 6 {
			pass(62 * time.Second)
		}
		if x := g.message("x1"); x.State != queue.Dead || x.Code != queue.CodeDeliveriesExhausted {
			t.Errorf("%s %s", x.State, x.Code)
		}
		if !strings.Contains(a.told(), "x2") {
			t.Errorf("told of %s", a.told())
		}
	})
}

func TestDrain_consumers(t *testing.T) {
	inBubble(t, "every consumer hears of it once, gets nothing new, and may still answer", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 1)), g.attach(attachment("b", 1))
		g.submit("x1@"+keysFor(1, "a", "a", "b")[0], "y1@"+keysFor(1, "b", "a", "b")[0], "z1@Z", "z2@Y")
		a.has()
		g.Drain()
		g.Drain()
		a.has()
		a.ack("x1")
		if a.drained() != 1 || b.drained() != 1 || a.has() != "" {
			t.Errorf("told %d and %d times, has %s", a.drained(), b.drained(), a.has())
		}
		if _, err := g.Attach(t.Context(), attachment("c", 1)); !errors.Is(err, queue.ErrDraining) {
			t.Errorf("one more: %v", err)
		}
		if d := g.end(); !d.Clean() || g.err != nil {
			t.Errorf("%+v, %v", d, g.err)
		}
		if st := g.status(); st.Leased != 1 || st.Done != 1 {
			t.Errorf("%+v", st)
		}
		b.ack("y1") // the store is open
		if err := b.Break(t.Context()); err != nil {
			t.Error(err)
		}
		last := g.trail()[len(g.trail())-1]
		if last.Event != queue.EventDetached || last.Reason != leftDraining {
			t.Errorf("%+v", last)
		}
	})
	inBubble(t, "what a consumer was not told of goes back, what it was told of stays leased", func(t *testing.T) {
		g := hosted(t)
		a, b := g.attach(attachment("a", 1)), g.silent(attachment("b", 9))
		g.submit("x1@"+keysFor(1, "a", "a", "b")[0], "y1@"+keysFor(1, "b", "a", "b")[0])
		a.has()
		if d := g.end(); d != (Drained{Released: 1}) {
			t.Errorf("%+v", d)
		}
		if st := g.status(); st.Leased != 1 || st.Ready != 1 {
			t.Errorf("%+v", st)
		}
		go b.read()
		if b.told() != "" || b.drained() != 1 {
			t.Errorf("told of %s, drained %d times", b.told(), b.drained())
		}
	})
	inBubble(t, "Run does not wait for them; an answer to a store that is closed has an error", func(t *testing.T) {
		g := hosted(t)
		a := g.attach(attachment("a", 1))
		g.submit("x1@X")
		a.has()
		g.end()
		g.store.on(func(string) error { return queue.ErrClosed })
		x := acked
		x.Token, x.At = a.token("x1"), time.Now()
		if _, err := a.Answer(t.Context(), []queue.Settlement{x}); !errors.Is(err, queue.ErrClosed) {
			t.Error(err)
		}
		if _, err := a.Extend(t.Context(), time.Now(), []queue.Token{x.Token}); !errors.Is(err, queue.ErrClosed) {
			t.Error(err)
		}
		if err := a.Detach(t.Context()); !errors.Is(err, queue.ErrClosed) {
			t.Error(err)
		}
		g.store.on(nil)
	})
	inBubble(t, "nor does an answer wait for room then", func(t *testing.T) {
		g := hosted(t)
		a := g.attach(attachment("a", 1))
		g.submit("x1@X")
		a.has()
		g.store.on(func(verb string) error {
			if verb == "settle" {
				return queue.ErrNoRoom
			}
			return nil
		})
		x := acked
		x.Token, x.At = a.token("x1"), time.Now()
		said := make(chan error)
		go func() {
			_, err := a.Answer(context.Background(), []queue.Settlement{x})
			said <- err
		}()
		pass(time.Hour)
		select {
		case err := <-said:
			t.Fatalf("it did not wait: %v", err)
		default:
		}
		g.end()
		if err := <-said; !errors.Is(err, queue.ErrNoRoom) {
			t.Error(err)
		}
		g.store.on(nil)
	})
}

func TestFailure_consumers(t *testing.T) {
	for _, verb := range []string{"claim", "settle", "extend", "note", "take over"} {
		inBubble(t, verb, func(t *testing.T) {
			g := hosted(t)
			a := g.attach(attachment("a", 1))
			g.submit("x1@X")
			a.has()
			g.store.on(func(v string) error {
				if v == verb {
					return fmt.Errorf("sync: %w", queue.ErrFailed)
				}
				return nil
			})
			switch verb {
			case "claim":
				g.submit("y1@Y")
				if err := a.Detach(t.Context()); err != nil && !errors.Is(err, queue.ErrFailed) {
					t.Fatal(err)
				}
			case "settle":
				x := acked
				x.Token, x.At = a.token("x1"), time.Now()
				if _, err := a.Answer(t.Context(), []queue.Settlement{x}); !errors.Is(err, queue.ErrFailed) {
					t.Error(err)
				}
			case "extend":
				if _, err := a.Extend(t.Context(), time.Now(), []queue.Token{a.token("x1")}); !errors.Is(err, queue.ErrFailed) {
					t.Error(err)
				}
			default:
				if _, err := g.Attach(t.Context(), attachment("b", 1)); !errors.Is(err, queue.ErrFailed) {
					t.Error(err)
				}
			}
			<-g.ended
			if !errors.Is(g.err, queue.ErrFailed) {
				t.Errorf("Run returned %v", g.err)
			}
			if verb != "claim" {
				<-a.gone
				if !errors.Is(a.err, queue.ErrFailed) {
					t.Errorf("Next returned %v", a.err)
				}
			}
			if _, err := a.Answer(t.Context(), []queue.Settlement{{}}); !errors.Is(err, queue.ErrFailed) && !errors.Is(err, queue.ErrDetached) {
				t.Errorf("Answer returned %v", err)
			}
			if _, err := g.Attach(t.Context(), attachment("c", 1)); !errors.Is(err, queue.ErrFailed) {
				t.Errorf("Attach returned %v", err)
			}
		})
	}
}

func TestWatch_consumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log logBuffer
		g := lagging(t, hclog.New(&hclog.LoggerOptions{Output: &log, JSONFormat: true}))
		g.attach(attachment("a", 1))
		g.attach(attachment("b", 5))
		g.attach(attachment("c", 7, queue.AutoResolve))
		if attached, room := g.ConsumersOf(queue.RouteReview); attached != 2 || room != 6 {
			t.Errorf("%d attached with room for %d", attached, room)
		}
		specs := named("x", keysFor(3, "a", "a", "b"))
		g.submit(specs...)
		g.submit(named("y", keysFor(9, "b", "a", "b"))...)
		pass(2 * time.Minute)
		if !strings.Contains(log.String(), `"consumers":2,"free_room":0`) {
			t.Errorf("the log: %s", log.String())
		}
	})
}

// Who detaches has answered nothing of what it was told of, and may have worked on it.
func TestLeaving_what_was_told_may_have_had_its_effect(t *testing.T) {
	inBubble(t, "and what was not has not", func(t *testing.T) {
		g := hosted(t)
		reads, silent := g.attach(attachment("reads", 9)), g.silent(attachment("silent", 9))
		g.submit("a1@A", "b1@B", "c1@C", "d1@D", "e1@E", "f1@F", "g1@G", "h1@H")
		synctest.Wait()
		told := reads.told()
		if told == "" || len(strings.Fields(told)) == 8 {
			t.Fatalf("the first was told of %q: this shows nothing", told)
		}
		for _, c := range []*guest{reads, silent} {
			if err := c.Detach(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		for _, id := range []string{"a1", "b1", "c1", "d1", "e1", "f1", "g1", "h1"} {
			x, want := g.message(id), 0
			if slices.Contains(strings.Fields(told), id) {
				want = 1
			}
			if x.State != queue.Ready || x.Unanswered != want || x.Deliveries != 0 {
				t.Errorf("%s, told %d: %s, %d deliveries, %d without an answer", id, want, x.State, x.Deliveries, x.Unanswered)
			}
		}
	})
}
