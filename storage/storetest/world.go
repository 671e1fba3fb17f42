package storetest

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"breakwater/queue"
)

// world is one test's store, clock and policy, and the verbs in short. Whatever
// is not what the test expects ends it: what follows would only confuse.
type world struct {
	testing.TB
	ctx     context.Context
	h       Harness
	store   queue.Store
	clock   *Clock
	policy  queue.Policy
	limits  queue.Limits
	peer    queue.Peer
	commits []told

	expired time.Duration // elapsed time at the last Expire of this process; 0: none yet
}

// told is what a store's observer was told.
type told struct {
	head   queue.Head
	firstN uint64
	count  int
	text   string
}

// newWorld opens a store and starts it.
func newWorld(t testing.TB, open Open) *world {
	w := &world{
		TB: t, ctx: context.Background(), clock: NewClock(),
		policy: queue.Policy{
			MaxAttempts: 3, MaxDeliveries: 5,
			RetryInitial: time.Second, RetryMax: time.Minute, OnDeadLetter: queue.HoldKey,
		},
		peer: queue.Peer{UID: 1000, GID: 1000, PID: 77},
	}
	w.h = open(t, Options{Committed: func(c queue.Commit) {
		w.commits = append(w.commits, told{head: c.Head, firstN: c.FirstN, count: c.Count, text: string(c.Records)})
	}})
	if w.h.Close != nil {
		t.Cleanup(w.h.Close)
	}
	w.store = w.h.Store
	w.start()
	return w
}

// check is what must hold after every test, whatever it did: the trail keeps the
// promises, and the store agrees with its trail.
func (w *world) check() {
	w.Helper()
	for _, broken := range CheckTrail(w.history()) {
		w.Errorf("trail: %s", broken)
	}
	v, err := w.store.Verify(w.ctx, queue.VerifyOptions{})
	w.ok(err, "verify")
	for _, f := range v.Findings {
		w.Errorf("verify: %+v", f)
	}
	w.checkCounters()
}

// history returns all records that there were, trimmed ones too.
func (w *world) history() []queue.Record {
	w.Helper()
	var out []queue.Record
	for _, c := range w.commits {
		for line := range strings.Lines(c.text) {
			r, err := queue.ParseRecord([]byte(line))
			w.ok(err, "parse a record")
			out = append(out, r)
		}
	}
	return out
}

// checkCounters holds the counters against the lists.
func (w *world) checkCounters() {
	w.Helper()
	var want queue.StoreStatus
	keys := map[string]bool{}
	open, dead := w.all(w.store.Exceptions), w.letters(queue.LetterQuery{})
	for _, x := range open {
		switch x.State {
		case queue.Ready:
			want.Ready++
		case queue.Scheduled:
			want.Scheduled++
			continue
		case queue.Leased:
			want.Leased++
		case queue.Held:
			want.Held++
		default:
			w.Errorf("seq %d is listed as open and is %s", x.Seq, x.State)
		}
		keys[x.PartitionKey] = true
	}
	for _, x := range dead {
		want.Dead++
		if x.Code == queue.CodePoison && x.Place.IsZero() {
			want.Quarantined++
		}
	}
	want.OpenKeys = int64(len(keys))
	got := w.status()
	// The rest cannot be counted from lists.
	want.Done, want.Discarded, want.HeldKeys, want.LedgerKeys = got.Done, got.Discarded, got.HeldKeys, got.LedgerKeys
	if g, want := statusText(got), statusText(want); g != want {
		w.Errorf("the counters say\n%s\nthe lists\n%s", g, want)
	}
	if d := cmp.Diff(reckon(open, dead, w.now()), reckoned(got)); d != "" {
		w.Errorf("what is at risk (-lists +counters):\n%s", d)
	}
}

// all reads a whole list, page by page.
func (w *world) all(list func(context.Context, uint64, int) ([]queue.Exception, error)) []queue.Exception {
	w.Helper()
	var out []queue.Exception
	after := uint64(0)
	for {
		page, err := list(w.ctx, after, 7)
		w.ok(err, "list")
		out = append(out, page...)
		if len(page) < 7 {
			return out
		}
		after = page[len(page)-1].Seq
	}
}

// letters reads a list of dead letters, in small pages.
func (w *world) letters(q queue.LetterQuery) []queue.Exception {
	w.Helper()
	q.Limit = 3
	all, err := lettersOf(w.ctx, w.store, q)
	w.ok(err, "dead letters")
	return all
}

// ok ends the test on an error.
func (w *world) ok(err error, doing string) {
	w.Helper()
	if err != nil {
		w.Fatalf("%s: %v", doing, err)
	}
}

// equal ends the test when got is not want.
func equal[T any](w *world, what string, got, want T) {
	w.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func (w *world) now() time.Time { return w.clock.Now() }

// pass lets time pass.
func (w *world) pass(d time.Duration) { w.clock.Pass(d) }

// start is the first call on an opened store.
func (w *world) start() queue.StartResult {
	w.Helper()
	return w.startWith(queue.StartRequest{})
}

func (w *world) startWith(r queue.StartRequest) queue.StartResult {
	w.Helper()
	r.Now, r.Policy, r.Version = w.now(), w.policy, "1.2.3"
	res, err := w.store.Start(w.ctx, r)
	w.ok(err, "start")
	return res
}

// crash ends the process and starts the next one.
func (w *world) crash() queue.StartResult {
	w.Helper()
	w.store = w.h.Crash()
	w.boot()
	return w.start()
}

// reopen ends the process in good order and starts the next one.
func (w *world) reopen() queue.StartResult {
	w.Helper()
	w.store = w.h.Reopen()
	w.boot()
	return w.start()
}

// boot is what a new process does not know.
func (w *world) boot() {
	w.clock.Boot()
	w.expired = 0
}

func (w *world) status() queue.StoreStatus {
	w.Helper()
	st, err := w.store.Status(w.ctx, w.now())
	w.ok(err, "status")
	return st
}

// find returns a message's seq by its idempotency key.
func (w *world) find(id string) uint64 {
	w.Helper()
	seq, err := w.store.Find(w.ctx, id)
	w.ok(err, "find "+id)
	return seq
}

// look returns one message.
func (w *world) look(seq uint64) queue.Exception {
	w.Helper()
	x, err := w.store.Exception(w.ctx, seq)
	w.ok(err, "exception")
	return x
}

// see returns one message by its idempotency key.
func (w *world) see(id string) queue.Exception {
	w.Helper()
	return w.look(w.find(id))
}

// states expects the state of messages: "a1 ready", "b1 held".
func (w *world) states(want ...string) {
	w.Helper()
	var got []string
	for _, s := range want {
		id, _, _ := strings.Cut(s, " ")
		got = append(got, id+" "+w.see(id).State.String())
	}
	equal(w, "states", got, want)
}

func (w *world) head() queue.Head {
	w.Helper()
	h, err := w.store.Head(w.ctx)
	w.ok(err, "head")
	return h
}

func (w *world) records(q queue.TrailQuery) []queue.Record {
	w.Helper()
	var out []queue.Record
	w.ok(w.store.Trail(w.ctx, q, func(r queue.Record) bool {
		out = append(out, r)
		return true
	}), "trail")
	return out
}

// mark returns the number of the last record; since tells what came after it.
func (w *world) mark() uint64 { w.Helper(); return w.status().Records }

// since expects the records after a mark, in words (recordText).
func (w *world) since(mark uint64, want ...string) {
	w.Helper()
	names := map[uint64]string{}
	for _, r := range w.records(queue.TrailQuery{}) {
		if r.IdempotencyKey != "" {
			names[r.Seq] = r.IdempotencyKey
		}
	}
	var got []string
	for _, r := range w.records(queue.TrailQuery{AfterN: mark}) {
		got = append(got, recordText(&r, func(seq uint64) string { return names[seq] }))
	}
	if !slices.Equal(got, want) {
		w.Fatalf("records (-want +got):\n%s", cmp.Diff(want, got))
	}
}
