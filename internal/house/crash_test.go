package house

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/client"
	"breakwater/queue"
)

// crashLines is how many exceptions the big crash test sends: a tenth of a minute's
// worth in a usual run, BREAKWATER_CRASH_LINES for more.
func crashLines(t *testing.T) int {
	text := os.Getenv("BREAKWATER_CRASH_LINES")
	if text == "" {
		return 20000
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1000 {
		t.Fatalf("BREAKWATER_CRASH_LINES=%s: want a number from 1000", text)
	}
	return n
}

const crashKeys = 500

// TestCrash kills the program with SIGKILL again and again while it takes in and
// works off exceptions, and then proves from its file that nothing was lost, nothing
// was done twice, and nothing overtook.
func TestCrash(t *testing.T) {
	t.Run("ten kills under load lose nothing and repeat nothing", func(t *testing.T) {
		t.Parallel()
		n := crashLines(t)
		c := newCrash(t, n, crashKeys)
		c.kill(10, 3)
		c.send("p1")
		c.finish()
		c.check()
	})
	t.Run("two producers of the same file store it once", func(t *testing.T) {
		t.Parallel()
		c := newCrash(t, 4000, 100)
		c.kill(4, 1)
		var both sync.WaitGroup
		for _, name := range []string{"p1", "p2"} {
			both.Go(func() { c.send(name) })
		}
		both.Wait()
		c.finish()
		c.check()
	})
	t.Run("effects of a command never go back", func(t *testing.T) {
		t.Parallel()
		c := newCrash(t, 300, 20)
		c.configure(fmt.Sprintf(`
route "AUTO_RESOLVE" { handler = "append" }
handler "exec" "append" {
  command    = ["/bin/sh", "-c", "printf '%%s %%s\n' \"$BREAKWATER_IDEMPOTENCY_KEY\" \"$BREAKWATER_SEQ\" >> \"$0\"", %q]
  timeout_ms = 60000
}
queue {
  max_deliveries = 1000
}
audit { stream = "stdout" }
`, c.path("effects")))
		c.kill(5, 0)
		c.killAtDecisions(5)
		c.send("p1")
		c.finish()
		c.check()
		c.checkEffects(c.read("effects"))
	})
}

// crash is one crash test: an input, its producers, and the killer between them.
type crash struct {
	*site
	rng   *rand.Rand
	input string
	ids   []string
	keys  map[string]string // partition key of each id

	mu       sync.Mutex
	now      *process
	accepted map[string]uint64 // by id, as a producer was told
	claims   []string          // what is wrong with receipts

	receipts atomic.Int64
	killAt   chan int64 // numbers of receipts at which to kill
	wake     chan struct{}
	planned  chan struct{} // closed when all planned kills are done
	starts   []int         // kill the i-th next start after so many lines of log
	later    []int         // kill when so many decisions were seen since the start
	kills    int
}

func newCrash(t *testing.T, n, keys int) *crash {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("BREAKWATER_CRASH_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("BREAKWATER_CRASH_SEED=%d", seed)
	c := &crash{
		site: newSite(t, ""), rng: rand.New(rand.NewPCG(seed, 1)),
		accepted: map[string]uint64{}, keys: map[string]string{},
		wake: make(chan struct{}, 1), planned: make(chan struct{}),
	}
	var text strings.Builder
	for i := range n {
		key := fmt.Sprintf("K%03d", c.rng.IntN(keys))
		id := fmt.Sprintf("%s.%06d", key, i)
		c.ids, c.keys[id] = append(c.ids, id), key
		text.WriteString(exceptionLine(key, id, `,"route":"AUTO_RESOLVE"`) + "\n")
	}
	c.input = text.String()
	return c
}

// kill plans kills: so many at random numbers of receipts, and of the starts after
// them so many before the program is ready.
func (c *crash) kill(underLoad, starting int) {
	var at []int64
	for range underLoad {
		at = append(at, c.rng.Int64N(int64(len(c.ids))*9/10)+1)
	}
	slices.Sort(at)
	c.killAt = make(chan int64, len(at))
	for _, n := range at {
		c.killAt <- n
	}
	close(c.killAt)
	for range starting {
		c.starts = append(c.starts, c.rng.IntN(5))
	}
	c.now = c.serve() // a producer that finds nobody at all gives up soon
	go c.killer()
}

// killAtDecisions plans kills for after the intake, at random numbers of decisions.
func (c *crash) killAtDecisions(n int) {
	for range n {
		c.later = append(c.later, 1+c.rng.IntN(30))
	}
}

// killer kills at each planned receipt and starts the program again, until there is
// nothing planned any more. It owns c.now until then.
func (c *crash) killer() {
	for at := range c.killAt {
		for c.receipts.Load() < at {
			<-c.wake
		}
		c.killNow()
	}
	close(c.planned)
}

// killNow kills the running program, and some of its successors before they are
// ready.
func (c *crash) killNow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.kill()
	c.kills++
	c.now = c.site.start("serve")
	if len(c.starts) > 0 {
		lines := c.starts[0]
		c.starts = c.starts[1:]
		c.now.log.awaitLines(lines) // which may be "ready" already: also a moment to die
		c.now.kill()
		c.kills++
		c.now = c.site.start("serve")
	}
}

// send sends the whole input and returns when every line has its receipt.
func (c *crash) send(name string) {
	p := client.Producer{Path: c.enqueueSocket(), Receipt: func(line []byte) error {
		a := parseAnswer(c, line)
		c.note(name, a, c.ids[a.Line-1])
		c.receipts.Add(1)
		select {
		case c.wake <- struct{}{}:
		default:
		}
		return nil
	}}
	ctx, cancel := context.WithTimeout(c.Context(), 5*patience)
	defer cancel()
	res, err := p.Send(ctx, strings.NewReader(c.input))
	if err != nil {
		c.Errorf("%s: %v after %+v", name, err, res)
		return
	}
	if res.Accepted+res.Duplicate != len(c.ids) {
		c.Errorf("%s: %d lines, receipts: %+v", name, len(c.ids), res)
	}
	c.Logf("%s: %+v", name, res.Counts)
}

// note keeps what a producer was told of a line.
func (c *crash) note(name string, a answer, id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	told, known := c.accepted[id]
	switch {
	case a.Status == "accepted" && known:
		c.claims = append(c.claims, fmt.Sprintf("%s: %s accepted again", name, id))
	case a.Status == "accepted":
		c.accepted[id] = a.Seq
	case a.Status == "duplicate" && known && told != a.Seq:
		c.claims = append(c.claims, fmt.Sprintf("%s: %s is a duplicate of %d, was accepted as %d", name, id, a.Seq, told))
	case a.Status != "duplicate":
		c.claims = append(c.claims, fmt.Sprintf("%s: %s: %+v", name, id, a))
	}
}

// finish lets the program work until nothing is open, killing it where that was
// planned.
func (c *crash) finish() {
	c.Helper()
	if c.Failed() {
		c.FailNow() // a producer gave up: the killer may wait for ever
	}
	<-c.planned
	for _, decisions := range c.later {
		c.awaitDecisions(decisions)
		c.now.kill()
		c.kills++
		c.now = c.site.start("serve")
	}
	c.now.await("ready")
	c.awaitDone(len(c.ids))
	c.now.stop()
	st := c.status()
	if st.Backlog() != 0 || st.Dead != 0 {
		c.Errorf("all is done, and %d open, %d dead", st.Backlog(), st.Dead)
	}
	c.Logf("%d kills, %d records, %d bytes", c.kills, st.Records, st.FileBytes)
}

// awaitDecisions waits until the running program has shown n decisions, or has ended
// all there was to do.
func (c *crash) awaitDecisions(n int) {
	c.now.await("ready")
	eventually(c, "some decisions more", func() bool {
		lines, _, _ := c.now.out.from(0)
		seen := 0
		for _, line := range lines {
			if strings.Contains(line, `"event":"DECIDED"`) {
				seen++
			}
		}
		return seen >= n || c.done() == len(c.ids)
	})
}

// check proves the promises from the file alone.
func (c *crash) check() {
	c.Helper()
	if len(c.claims) > 0 {
		c.Errorf("%d wrong receipts, first: %s", len(c.claims), c.claims[0])
	}
	records := c.trail()
	checkTrail(c, records)
	accepted, decided := map[string]uint64{}, map[uint64]int{}
	last := map[string]uint64{} // decided seq by key
	var seqs uint64
	for i := range records {
		r := &records[i]
		switch r.Event {
		case queue.EventAccepted:
			if seqs++; r.Seq != seqs {
				c.Errorf("seq %d was given where %d was due", r.Seq, seqs)
			}
			if accepted[r.IdempotencyKey] != 0 {
				c.Errorf("%s was accepted twice", r.IdempotencyKey)
			}
			accepted[r.IdempotencyKey] = r.Seq
		case queue.EventDecided:
			decided[r.Seq]++
			if r.Seq <= last[r.PartitionKey] {
				c.Errorf("key %s: %d decided after %d", r.PartitionKey, r.Seq, last[r.PartitionKey])
			}
			last[r.PartitionKey] = r.Seq
		}
	}
	for _, id := range c.ids {
		seq := accepted[id]
		if seq == 0 || decided[seq] != 1 {
			c.Errorf("%s: accepted as %d, decided %d times", id, seq, decided[seq])
		}
		if told := c.accepted[id]; told != 0 && told != seq {
			c.Errorf("%s: the producer was told seq %d, the trail says %d", id, told, seq)
		}
	}
	if len(accepted) != len(c.ids) || len(decided) != len(c.ids) {
		c.Errorf("%d lines, %d accepted, %d decided", len(c.ids), len(accepted), len(decided))
	}
	c.verify()
}

// checkEffects proves from what the commands have written that a key's effects never
// went back, but for the one that was running when the program died.
func (c *crash) checkEffects(text string) {
	c.Helper()
	last, done, repeated := map[string]uint64{}, map[string]bool{}, 0
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		id, number, _ := strings.Cut(line, " ")
		seq, err := strconv.ParseUint(number, 10, 64)
		if err != nil || c.keys[id] == "" {
			c.Fatalf("an effect that nobody asked for: %q", line)
		}
		key := c.keys[id]
		switch {
		case seq < last[key]:
			c.Errorf("key %s: the effect of %d came after that of %d", key, seq, last[key])
		case seq == last[key]:
			repeated++
		}
		last[key], done[id] = seq, true
	}
	if len(done) != len(c.ids) {
		c.Errorf("%d effects of %d exceptions", len(done), len(c.ids))
	}
	c.Logf("%d effects were repeated by %d kills", repeated, c.kills)
}
