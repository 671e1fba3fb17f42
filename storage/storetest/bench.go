package storetest

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// Bench measures a store with the work of a day: durable intake, claims with
// settlements, and whole lives (three records of the trail each), in batches of
// three sizes, by one caller and by sixteen. An operation is one message of 350
// bytes; msgs/s is what to compare. Lines are not parsed: it is the store that is
// measured, not the gates.
func Bench(b *testing.B, open Open) {
	for _, batch := range []int{1, 100, 1000} {
		for _, callers := range []int{1, 16} {
			BenchBatch(b, open, batch, callers)
		}
	}
}

// BenchBatch is Bench for batches of one size and one number of callers.
func BenchBatch(b *testing.B, open Open, batch, callers int) {
	for _, work := range []struct {
		name string
		run  func(*bench, *testing.B)
	}{
		{"admit", (*bench).admitAll},
		{"claim+settle", (*bench).claimAll},
		{"life", (*bench).lives},
	} {
		b.Run(fmt.Sprintf("%s/batch=%d/callers=%d", work.name, batch, callers), func(b *testing.B) {
			w := newBench(b, open, batch, callers)
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime()
			work.run(w, b)
			b.StopTimer()
			b.ReportMetric(float64((processorTime()-before).Nanoseconds())/1e3/float64(b.N), "cpu-µs/op")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}

// processorTime is what the process has had of the processors so far. Unlike the
// time on the wall it hardly minds who else uses the machine. (It includes the
// filling of the store where a benchmark does that first.)
func processorTime() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0 // cannot happen with these arguments
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// bench is one measurement under way.
type bench struct {
	testing.TB
	store   queue.Store
	clock   *Clock
	batch   int
	callers int
	made    atomic.Int64
	settled atomic.Int64
}

func newBench(b *testing.B, open Open, batch, callers int) *bench {
	h := open(b, Options{})
	if h.Close != nil {
		b.Cleanup(h.Close)
	}
	w := &bench{TB: b, store: h.Store, clock: NewClock(), batch: batch, callers: callers}
	_, err := w.store.Start(context.Background(), queue.StartRequest{Now: w.clock.Now(), Policy: w.policy()})
	w.ok(err)
	return w
}

func (w *bench) policy() queue.Policy {
	return queue.Policy{MaxAttempts: 10, MaxDeliveries: 20, RetryInitial: time.Second, RetryMax: time.Minute}
}

// ok stops a caller; Fatal is not allowed in its goroutine.
func (w *bench) ok(err error) bool {
	if err != nil {
		w.Error(err)
	}
	return err == nil
}

// each runs all callers and waits for them.
func (w *bench) each(run func(caller int)) {
	var wg sync.WaitGroup
	for i := range w.callers {
		wg.Go(func() { run(i) })
	}
	wg.Wait()
}

// benchKeys is how many partition keys the messages are spread over.
const benchKeys = 1000

// lines makes the next n messages.
func (w *bench) lines(n int) []queue.Submission {
	last := w.made.Add(int64(n))
	out := make([]queue.Submission, n)
	for i := range out {
		number := last - int64(n) + int64(i) + 1
		line := make([]byte, 0, 350)
		line = fmt.Appendf(line, `{"idempotency_key":"%012d","rest":"`, number)
		for len(line) < 348 {
			line = append(line, byte('a'+len(line)%26))
		}
		line = append(line, `"}`...)
		m := queue.Message{
			IdempotencyKey: strconv.FormatInt(number, 10), TraceID: "trace-of-a-usual-length-0001",
			PartitionKey: "ACC-" + strconv.FormatInt(number*7919%benchKeys, 10), LedgerEntity: "ENTITY-0001",
			Decision: queue.Partial, Amount: "-1042.37", Currency: "EUR",
			Priority: queue.DefaultPriority, Route: queue.RouteReview, Line: line,
		}
		binary.BigEndian.PutUint64(m.SourceHash[:], uint64(number))
		out[i] = queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: m.SourceHash}
	}
	return out
}

// admit stores messages until this caller has done its share of n.
func (w *bench) admit(caller, n int) {
	for left := w.share(caller, n); left > 0; {
		lines := w.lines(min(left, w.batch))
		left -= len(lines)
		if !w.ok(w.send(lines)) {
			return
		}
	}
}

func (w *bench) send(lines []queue.Submission) error {
	_, err := w.store.Admit(context.Background(), queue.AdmitRequest{Now: w.clock.Now(), Lines: lines})
	return err
}

// share is how many of n messages are this caller's.
func (w *bench) share(caller, n int) int {
	share := n / w.callers
	if caller < n%w.callers {
		share++
	}
	return share
}

func (w *bench) admitAll(b *testing.B) { w.each(func(caller int) { w.admit(caller, b.N) }) }

// claimAll works off what was stored before the clock ran.
func (w *bench) claimAll(b *testing.B) {
	b.StopTimer()
	batch := w.batch
	w.batch = 1000
	w.each(func(caller int) { w.admit(caller, b.N) })
	w.batch = batch
	b.StartTimer()
	w.each(func(caller int) { w.workOff(caller, int64(b.N)) })
}

// lives admits, claims and settles, each caller in turns.
func (w *bench) lives(b *testing.B) {
	w.each(func(caller int) {
		for left := w.share(caller, b.N); left > 0; {
			lines := w.lines(min(left, w.batch))
			left -= len(lines)
			if !w.ok(w.send(lines)) || w.takeSome(caller) < 0 {
				return
			}
		}
		w.workOff(caller, int64(b.N))
	})
}

// workOff takes and settles until all are settled.
func (w *bench) workOff(caller int, all int64) {
	for w.settled.Load() < all && w.takeSome(caller) >= 0 {
	}
}

// takeSome claims a batch, settles it, and returns how many there were; -1 when
// the store failed.
func (w *bench) takeSome(caller int) int {
	want := queue.Want{
		Owner: worker("w-" + strconv.Itoa(caller)), Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...),
		Max: w.batch, PerKey: w.batch, Lease: leaseTime,
	}
	now := w.clock.Now()
	res, err := w.store.Claim(context.Background(), queue.ClaimRequest{Now: now, Wants: []queue.Want{want}})
	if !w.ok(err) {
		return -1
	}
	ds := res.Deliveries[0]
	if len(ds) == 0 {
		return 0
	}
	r := queue.SettleRequest{Now: now, Policy: w.policy()}
	for i := range ds {
		r.Settlements = append(r.Settlements, queue.Settlement{Token: ds[i].Token, Owner: want.Owner, Verb: queue.Ack, At: now, Outcome: "DONE"})
	}
	results, err := w.store.Settle(context.Background(), r)
	if !w.ok(err) {
		return -1
	}
	for i := range results {
		if results[i].Code != "" {
			w.Errorf("seq %d: %s", results[i].Seq, results[i].Code)
			return -1
		}
	}
	w.settled.Add(int64(len(ds)))
	return len(ds)
}
