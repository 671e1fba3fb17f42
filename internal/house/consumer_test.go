package house

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"breakwater/client"
	"breakwater/queue"
)

// This file has consumers attach to the real program: who comes back, who comes and
// goes, who is too slow, and who takes another's name.

// TestConsumers_over_kills: two consumers work on while the program is killed again and
// again. What they have begun they finish; nothing is begun twice.
func TestConsumers_over_kills(t *testing.T) {
	t.Parallel()
	const n, kills = 3000, 3
	s := newSite(t, "")
	server := s.serve()
	s.sendAll(manyLines(n, 100, ""))
	var runs sync.Map
	var lost atomic.Int32
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, name := range []string{"one", "two"} {
		c := client.Consumer{Path: s.consumeSocket(), Name: name, Prefetch: 16, Lease: patience, Waiting: func(error, time.Duration) { lost.Add(1) }}
		go func() {
			ended <- c.Run(ctx, func(_ context.Context, d client.Delivery) client.Answer {
				if _, twice := runs.LoadOrStore(d.Seq, name); twice {
					t.Errorf("seq %d was begun twice", d.Seq)
				}
				return client.Answer{Verb: client.Ack, Outcome: "POSTED", By: name}
			})
		}()
	}
	for k := range kills {
		s.awaitDone((k + 1) * n / (kills + 2))
		server.kill()
		server = s.serve()
	}
	s.awaitDone(n)
	stop()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	server.stop()
	if lost.Load() < 2*kills {
		t.Errorf("%d connections were lost by %d kills", lost.Load(), kills)
	}
	decided := map[uint64]int{}
	for _, r := range s.trail() {
		if r.Event == queue.EventDecided {
			decided[r.Seq]++
			if by, _ := runs.Load(r.Seq); by != r.By || r.Worker != r.By {
				t.Errorf("seq %d was worked on by %v: %+v", r.Seq, by, r)
			}
		}
	}
	for seq, times := range decided {
		if times != 1 {
			t.Errorf("seq %d was decided %d times", seq, times)
		}
	}
	if len(decided) != n {
		t.Errorf("%d of %d are decided", len(decided), n)
	}
	s.sound()
}

// manyLines are n exceptions of so many keys, each with what more(i) adds.
func manyLines(n, keys int, more string) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintln(&text, exceptionLine(fmt.Sprintf("K%03d", i%keys), fmt.Sprint("id-", i), more))
	}
	return text.String()
}

// guestLines is how many exceptions the test of consumers that come and go has:
// BREAKWATER_CONSUMER_LINES for more.
func guestLines(t *testing.T) int {
	text := os.Getenv("BREAKWATER_CONSUMER_LINES")
	if text == "" {
		return 3000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		t.Fatalf("BREAKWATER_CONSUMER_LINES=%s: want a number from 1000", text)
	}
	return n
}

// TestConsumers_that_come_and_go: two consumers attach and leave at random, with and
// without a word, and give every sort of answer. The trail then proves that no key was
// at both of them at once, that nothing overtook, and that each was decided once.
func TestConsumers_that_come_and_go(t *testing.T) {
	t.Parallel()
	n := guestLines(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := newSite(t, `
queue {
  retry_initial_ms = 1
  retry_max_ms     = 20
  max_attempts     = 1000
  max_deliveries   = 1000
  on_dead_letter   = "skip"
}
route "AUTO_RESOLVE" { handler = "consumers" }
`)
	server := s.serve()
	dice := rand.New(rand.NewPCG(seed, 0))
	var text strings.Builder
	for i := range n {
		more := fmt.Sprintf(`,"priority":%d,"route":%q`, dice.IntN(10), queue.Routes[dice.IntN(2)])
		fmt.Fprintln(&text, exceptionLine(fmt.Sprintf("K%03d", dice.IntN(300)), fmt.Sprint("id-", i), more))
	}
	var sent sync.WaitGroup
	sent.Go(func() { s.sendAll(text.String()) })
	var guests sync.WaitGroup
	for i, name := range []string{"ann", "bob"} {
		guests.Go(func() {
			g := &guest{site: s, name: name, dice: rand.New(rand.NewPCG(seed, uint64(i+1)))}
			for s.over() < n && !t.Failed() {
				g.visit()
			}
		})
	}
	guests.Wait()
	sent.Wait()
	server.stop()
	if st := s.status(); st.Done+st.Dead != int64(n) || st.Dead == 0 {
		t.Errorf("%+v", st)
	}
	records := s.trail()
	checkTrail(t, records)
	checkHolders(t, records)
	s.verify()
	events := map[queue.Event]int{}
	for _, r := range records {
		events[r.Event]++
	}
	for _, e := range []queue.Event{queue.EventRetried, queue.EventReleased, queue.EventHeld, queue.EventExtended, queue.EventDetached} {
		if events[e] == 0 {
			t.Errorf("no %s in the trail: %v", e, events)
		}
	}
	t.Logf("%v", events)
}

// over asks the running program how many exceptions are done or dead.
func (s *site) over() int {
	s.Helper()
	var st struct{ Done, Dead int }
	s.control("/v1/status", &st)
	return st.Done + st.Dead
}

// checkHolders proves from a trail that no partition key was leased to two owners at
// once.
func checkHolders(t *testing.T, records []queue.Record) {
	t.Helper()
	type hold struct {
		owner  string
		leases map[uint64]bool
	}
	keys := map[string]*hold{}
	for _, r := range records {
		switch r.Event {
		case queue.EventDispatched:
			h := keys[r.PartitionKey]
			if h == nil || len(h.leases) == 0 {
				h = &hold{owner: r.Worker, leases: map[uint64]bool{}}
				keys[r.PartitionKey] = h
			}
			if h.owner != r.Worker || len(h.leases) > 0 {
				t.Errorf("record %d: %s is leased to %s, and %s has %v", r.N, r.PartitionKey, r.Worker, h.owner, h.leases)
			}
			h.leases[r.Seq] = true
		case queue.EventDecided, queue.EventRetried, queue.EventReleased, queue.EventHeld, queue.EventReclaimed, queue.EventDeadLettered:
			if h := keys[r.PartitionKey]; h != nil {
				delete(h.leases, r.Seq)
			}
		}
	}
	if len(keys) == 0 {
		t.Error("nothing was leased")
	}
}

// guest is a consumer that attaches again and again.
type guest struct {
	*site
	name string
	dice *rand.Rand
}

// visit attaches, answers some deliveries, and leaves with or without a word. Leases
// that it leaves behind it finds at its next visit.
func (g *guest) visit() {
	c := client.Consumer{Path: g.consumeSocket(), Name: g.name, Prefetch: 1 + g.dice.IntN(32), Lease: patience}
	if g.dice.IntN(4) == 0 {
		c.Routes = []string{string(queue.Routes[g.dice.IntN(2)])}
	}
	session, err := c.Attach(g.Context())
	if errors.Is(err, client.ErrNameInUse) {
		return // the server has not yet noticed that the last visit is over
	}
	if err != nil {
		g.Errorf("%s: %v", g.name, err)
		return
	}
	defer session.Close()
	ctx, cancel := context.WithTimeout(g.Context(), time.Duration(10+g.dice.IntN(200))*time.Millisecond)
	defer cancel()
	for {
		e, err := session.Next(ctx)
		if err != nil {
			break // its time is over
		}
		if e.Kind == client.Delivered {
			g.answer(session, e.Lease)
		}
	}
	if g.dice.IntN(2) == 0 {
		return // without a word
	}
	if err := session.Detach(g.Context(), nil); err != nil {
		g.Errorf("%s: %v", g.name, err)
	}
}

// answer says something by chance.
func (g *guest) answer(session *client.Session, lease string) {
	answers := []client.Answer{{Verb: client.Ack, Outcome: "A", By: g.name}}
	switch k := g.dice.IntN(100); {
	case k < 5:
		answers = []client.Answer{{Verb: client.Retry, Reason: "by chance"}}
	case k < 10:
		answers = []client.Answer{{Verb: client.Release}}
	case k < 13:
		answers = []client.Answer{{Verb: client.Hold, Until: time.Now().Add(time.Duration(g.dice.IntN(30)) * time.Millisecond)}}
	case k < 15:
		answers = []client.Answer{{Verb: client.Reject, Reason: "by chance"}}
	case k < 18:
		answers = []client.Answer{{Verb: client.Extend}, answers[0]}
	case k < 21:
		return // it keeps the lease, and has it again at its next visit
	}
	for _, a := range answers {
		if err := session.Send(g.Context(), lease, a); err != nil {
			g.Error(err)
		}
	}
}

// TestConsumers_of_long_work: a lease that is shorter than the work is extended by the
// command line; without that the exception goes to somebody else, and who comes late
// changes nothing.
func TestConsumers_of_long_work(t *testing.T) {
	t.Run("with extensions it is handed out once", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		server := s.serve()
		s.sendOne(exceptionLine("k", "1", ""))
		p := s.start("consume", "--name", "slow", "--max", "1", "--lease-timeout", "2s", "--timeout", "2m", "--",
			"/bin/sh", "-c", "until test -e finish; do sleep 0.01; done")
		deadlines := map[string]bool{}
		eventually(t, "it is extended twice", func() bool {
			var list struct{ Items []struct{ Deadline string } }
			s.control("/v1/leases", &list)
			for _, one := range list.Items {
				deadlines[one.Deadline] = true
			}
			return len(deadlines) >= 3
		})
		s.write("finish", "")
		if status := p.wait(); status != 0 {
			t.Errorf("exit status %d:\n%s", status, p.log.all())
		}
		server.stop()
		times := map[queue.Event]int{}
		for _, r := range s.trail() {
			times[r.Event]++
		}
		if times[queue.EventDispatched] != 1 || times[queue.EventDecided] != 1 {
			t.Errorf("%v", times)
		}
		s.sound()
	})
	t.Run("without them somebody else has it, and a late answer changes nothing", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		server := s.serve()
		s.sendOne(exceptionLine("k", "1", ""))
		attach := func(name string, lease time.Duration) (*client.Session, func(client.Kind) client.Event) {
			session, err := (&client.Consumer{Path: s.consumeSocket(), Name: name, Lease: lease}).Attach(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			return session, func(kind client.Kind) client.Event {
				t.Helper()
				for {
					e, err := session.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if e.Kind == kind {
						return e
					}
				}
			}
		}
		slow, next := attach("slow", 50*time.Millisecond)
		defer slow.Close()
		first := next(client.Delivered)
		quick, other := attach("quick", patience)
		defer quick.Close()
		again := other(client.Delivered)
		if !again.Delivery.Redelivered || again.Delivery.Number < 2 || again.Lease == first.Lease {
			t.Errorf("%s", again.Line)
		}
		late := client.Answer{Verb: client.Ack, Outcome: "LATE"}
		for _, want := range []string{client.CodeLeaseExpired, client.CodeAlreadySettled} {
			if err := slow.Send(t.Context(), first.Lease, late); err != nil {
				t.Fatal(err)
			}
			if e := next(client.Refused); e.Code != want {
				t.Errorf("%+v, want %s", e, want)
			}
			if err := quick.Send(t.Context(), again.Lease, client.Answer{Verb: client.Ack, Outcome: "QUICK"}); err != nil {
				t.Fatal(err)
			}
			if want == client.CodeLeaseExpired {
				other(client.Settled)
			}
		}
		server.stop()
		if e := s.exception(1); e.Outcome != "QUICK" {
			t.Errorf("%+v", e)
		}
		s.sound()
	})
}

// TestConsumers_of_one_name: a name is attached once, comes back with its leases, and
// gives them to nobody of another user.
func TestConsumers_of_one_name(t *testing.T) {
	t.Parallel()
	s := newSite(t, "run_dir = \"./run\"\n")
	if err := os.Chmod(s.dir, 0o755); err != nil { // for another user, below
		t.Fatal(err)
	}
	socket := s.path("run/consume.sock")
	server := s.start("serve")
	server.await("ready")
	send, err := net.Dial("unix", s.path("run/enqueue.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer send.Close()
	if _, err := io.WriteString(send, exceptionLine("k", "1", "")+"\n"); err != nil {
		t.Fatal(err)
	}
	c := client.Consumer{Path: socket, Name: "ui", Lease: patience}
	first, err := c.Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	had, err := first.Next(t.Context())
	if err != nil || had.Kind != client.Delivered {
		t.Fatalf("%+v, %v", had, err)
	}
	p := s.start("consume", "--name", "ui", "--socket", socket)
	if status := p.wait(); status != 1 || !strings.Contains(p.log.all(), "NAME_IN_USE") {
		t.Errorf("exit status %d: %s", status, p.log.all())
	}
	first.Close()
	s.askAsAnother(t, socket)
	var again client.Event
	eventually(t, "the name is free", func() bool {
		session, err := c.Attach(t.Context())
		if errors.Is(err, client.ErrNameInUse) {
			return false
		}
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		if again, err = session.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := session.Send(t.Context(), had.Lease, client.Answer{Verb: client.Ack, Outcome: "A"}); err != nil {
			t.Fatal(err)
		}
		return session.Detach(t.Context(), nil) == nil
	})
	if again.Kind != client.Delivered || again.Lease != had.Lease || !again.Delivery.Redelivered || again.Delivery.Number != 1 {
		t.Errorf("first %s, then %s", had.Line, again.Line)
	}
	server.stop()
	if e := s.exception(1); e.Outcome != "A" {
		t.Errorf("%+v", e)
	}
	s.sound()
}

// askAsAnother attaches under the name as another user: it has the name, and not the
// lease, which is the first user's. Only root can try.
func (s *site) askAsAnother(t *testing.T, socket string) {
	t.Helper()
	nc, err := exec.LookPath("nc")
	if os.Getuid() != 0 || err != nil {
		t.Logf("not tried as another user: uid %d, %v", os.Getuid(), err)
		return
	}
	for {
		cmd := exec.Command(nc, "-N", "-U", socket)
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: uint32(os.Getgid())}}
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd.Stderr = os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		if _, err := io.WriteString(in, `{"attach":"ui","prefetch":1}`+"\n"); err != nil {
			t.Fatal(err)
		}
		attached, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(in, `{"detach":true}`+"\n"); err != nil {
			t.Fatal(err)
		}
		_ = in.Close() // nc half-closes
		rest, err := io.ReadAll(lines)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // its output says it all
		if strings.Contains(attached, "NAME_IN_USE") {
			continue // the server has not yet noticed
		}
		if !strings.Contains(attached, `"attached"`) || strings.Contains(string(rest), "delivery") {
			t.Errorf("another user is told %s%s", attached, rest)
		}
		return
	}
}
