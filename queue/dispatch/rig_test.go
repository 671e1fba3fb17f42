package dispatch

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
	"breakwater/storage/memstore"
	"breakwater/storage/storetest"
)

// rig is a Runner at work on a model store, in a bubble of fake time. Whatever a
// test did, at its end the trail must keep the promises.
type rig struct {
	t *testing.T
	*Runner
	store *frail
	seen  *effects

	stop, hurry context.CancelFunc
	ended       chan struct{}
	drained     Drained
	err         error

	mu     sync.Mutex
	raised []string       // "CODE route"
	told   []queue.Record // all that there were, trimmed ones too
}

// inBubble runs a promise of its own bubble.
func inBubble(t *testing.T, name string, f func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, f) })
}

// usual are the options that a test starts from: two workers with room for two
// each, delays of half the backoff (no chance).
func usual() Options {
	return Options{
		Workers: 2, Room: 4,
		Settings: Settings{
			Prefetch: 4, Lease: 30 * time.Second, DrainTimeout: 30 * time.Second,
			Policy: queue.Policy{MaxAttempts: 3, MaxDeliveries: 5, RetryInitial: time.Second, RetryMax: time.Minute},
		},
		Random: func() uint32 { return 0 },
	}
}

// open makes a Runner that does not run yet. ROUTE_REVIEW goes to the effects,
// unless the options say otherwise.
func open(t *testing.T, o Options, answer func(context.Context, *queue.Delivery) queue.Answer) *rig {
	t.Helper()
	g := &rig{t: t, ended: make(chan struct{})}
	g.store = &frail{Store: memstore.New(memstore.Options{Committed: g.tell})}
	g.seen = newEffects(g.store, answer)
	if o.Handlers == nil {
		o.Handlers = map[queue.Route]any{queue.RouteReview: g.seen}
	}
	o.Store = g.store
	told := o.Observer.Raised
	o.Observer.Raised = func(c queue.Code, r queue.Route) {
		g.mu.Lock()
		g.raised = append(g.raised, strings.TrimSpace(string(c)+" "+string(r)))
		g.mu.Unlock()
		if told != nil {
			told(c, r)
		}
	}
	if _, err := g.store.Start(t.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	var err error
	if g.Runner, err = New(o); err != nil {
		t.Fatal(err)
	}
	return g
}

// rewire gives an open rig other options and handlers, over the same store.
func (g *rig) rewire(o Options, handlers map[queue.Route]any) *rig {
	g.t.Helper()
	o.Store, o.Handlers = g.store, handlers
	o.Observer.Raised = g.Runner.observer.Raised
	var err error
	if g.Runner, err = New(o); err != nil {
		g.t.Fatal(err)
	}
	return g
}

// begin runs the Runner until the test ends, or ends it.
func (g *rig) begin() *rig {
	var stop, hurry context.Context
	stop, g.stop = context.WithCancel(context.Background())
	hurry, g.hurry = context.WithCancel(context.Background())
	go func() {
		defer close(g.ended)
		g.drained, g.err = g.Run(stop, hurry)
	}()
	g.t.Cleanup(func() {
		g.end()
		g.hurry()
		g.check()
	})
	return g
}

// start is open and begin.
func start(t *testing.T, o Options, answer func(context.Context, *queue.Delivery) queue.Answer) *rig {
	t.Helper()
	return open(t, o, answer).begin()
}

// end drains and waits for the end.
func (g *rig) end() Drained {
	g.stop()
	<-g.ended
	return g.drained
}

// check is what holds after every test.
func (g *rig) check() {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, broken := range storetest.CheckTrail(g.told) {
		g.t.Errorf("trail: %s", broken)
	}
	for _, broken := range g.seen.broken {
		g.t.Errorf("effects: %s", broken)
	}
}

// tell takes in what the store tells of a commit.
func (g *rig) tell(c queue.Commit) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for line := range bytes.Lines(c.Records) {
		r, err := queue.ParseRecord(line)
		if err != nil {
			g.t.Error(err)
		}
		g.told = append(g.told, r)
	}
}

func (g *rig) trail() (all []queue.Record) {
	g.t.Helper()
	err := g.store.Store.Trail(context.Background(), queue.TrailQuery{}, func(r queue.Record) bool {
		all = append(all, r)
		return true
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return all
}

// events counts the records of an event.
func (g *rig) events(e queue.Event) (n int) {
	for _, r := range g.trail() {
		if r.Event == e {
			n++
		}
	}
	return n
}

func (g *rig) status() queue.StoreStatus {
	g.t.Helper()
	st, err := g.store.Store.Status(context.Background(), time.Now())
	if err != nil {
		g.t.Fatal(err)
	}
	return st
}

// state returns a message by its idempotency key.
func (g *rig) message(id string) queue.Exception {
	g.t.Helper()
	seq, err := g.store.Store.Find(context.Background(), id)
	if err != nil {
		g.t.Fatalf("%s: %v", id, err)
	}
	x, err := g.store.Store.Exception(context.Background(), seq)
	if err != nil {
		g.t.Fatalf("%s: %v", id, err)
	}
	return x
}

// wantRaised expects what was raised so far, in order.
func (g *rig) wantRaised(want ...string) {
	g.t.Helper()
	g.mu.Lock()
	defer g.mu.Unlock()
	if !slices.Equal(g.raised, want) {
		g.t.Errorf("raised %q, want %q", g.raised, want)
	}
}

// submissions makes lines of a notation: "a1@A" is message a1 of key A with a
// variance, for review; "a1@A=0" has none and resolves itself; "a1@A+4096" is that
// much longer.
func submissions(t testing.TB, specs ...string) []queue.Submission {
	t.Helper()
	out := make([]queue.Submission, len(specs))
	for i, spec := range specs {
		amount := "1.00"
		spec, resolved := strings.CutSuffix(spec, "=0")
		if resolved {
			amount = "0.00"
		}
		id, key, _ := strings.Cut(spec, "@")
		key, longer, _ := strings.Cut(key, "+")
		more, _ := strconv.Atoi(longer)
		line := fmt.Appendf(nil, `{"idempotency_key":%q,"trace_id":%q,"partition_key":%q,"ledger_entity":"E","match_decision":"PARTIAL","variance_amount":%q,"more":%q}`,
			id, "t-"+id, key, amount, strings.Repeat("x", more))
		m, err := queue.ParseLine(line)
		if err != nil {
			t.Fatal(err)
		}
		out[i] = queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)}
	}
	return out
}

// submit stores lines, all of them.
func (g *rig) submit(specs ...string) {
	g.t.Helper()
	res, err := g.Submit(context.Background(), queue.Peer{UID: 1000}, submissions(g.t, specs...))
	if err != nil {
		g.t.Fatal(err)
	}
	for i, r := range res.Receipts {
		if r.Status != queue.Accepted {
			g.t.Fatalf("%s: %s %s", specs[i], r.Status, r.Code)
		}
	}
}

// pass lets time pass, and waits until everybody has done what there is to do.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// ack and its like are answers.
func ack(context.Context, *queue.Delivery) queue.Answer {
	return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
}

// slowly answers after a time, or is cut off.
func slowly(d time.Duration) func(context.Context, *queue.Delivery) queue.Answer {
	return func(ctx context.Context, _ *queue.Delivery) queue.Answer {
		select {
		case <-time.After(d):
			return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
		case <-ctx.Done():
			return queue.Answer{Verb: queue.Retry, Reason: "cut off", Unanswered: true}
		}
	}
}

// effects is a handler that watches over the order of what it is asked to do.
type effects struct {
	store  queue.Store
	answer func(context.Context, *queue.Delivery) queue.Answer

	mu      sync.Mutex
	running map[string]int    // by key
	last    map[string]uint64 // the message of each key that was begun last
	most    int               // that ran at once
	total   int               // running now
	begun   []string          // ids, in order
	broken  []string
}

func newEffects(s queue.Store, answer func(context.Context, *queue.Delivery) queue.Answer) *effects {
	return &effects{store: s, answer: answer, running: map[string]int{}, last: map[string]uint64{}}
}

// Handle answers what the test said, between two looks at the world.
func (e *effects) Handle(ctx context.Context, d *queue.Delivery) queue.Answer {
	key := d.Message.PartitionKey
	e.mu.Lock()
	if e.running[key]++; e.running[key] > 1 {
		e.broken = append(e.broken, fmt.Sprintf("two at work on key %s", key))
	}
	before := e.last[key]
	if d.Message.Seq < before {
		e.broken = append(e.broken, fmt.Sprintf("key %s: seq %d after %d", key, d.Message.Seq, before))
	}
	e.last[key] = d.Message.Seq
	e.total++
	e.most = max(e.most, e.total)
	e.begun = append(e.begun, d.Message.IdempotencyKey)
	e.mu.Unlock()
	if before != 0 && before != d.Message.Seq {
		e.settledBefore(before)
	}

	a := e.answer(ctx, d)

	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[key]--
	e.total--
	return a
}

// settledBefore wants the end of the message before on record.
func (e *effects) settledBefore(seq uint64) {
	x, err := e.store.Exception(context.Background(), seq)
	if err == nil && x.State != queue.Done && x.State != queue.Dead && x.State != queue.Discarded {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.broken = append(e.broken, fmt.Sprintf("begun while seq %d before it is %s", seq, x.State))
	}
}

// started returns the ids that were begun, in order.
func (e *effects) started() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return strings.Join(e.begun, " ")
}

// frail is a store that can be made to fail, or to keep its callers waiting.
type frail struct {
	queue.Store
	mu     sync.Mutex
	before func(verb string) error // nil: nothing
	once   map[string]func()       // after the next call of a verb
	calls  map[string]int

	expired func(queue.ExpireRequest, *queue.ExpireResult) // nil: nothing
}

// after runs f once, when the store has answered a call and before its caller knows.
func (s *frail) after(verb string, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.once == nil {
		s.once = map[string]func(){}
	}
	s.once[verb] = f
}

func (s *frail) answered(verb string) {
	s.mu.Lock()
	f := s.once[verb]
	delete(s.once, verb)
	s.mu.Unlock()
	if f != nil {
		f()
	}
}

// on makes every call meet f first.
func (s *frail) on(f func(verb string) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.before = f
}

func (s *frail) meet(verb string) error {
	s.mu.Lock()
	if s.calls == nil {
		s.calls = map[string]int{}
	}
	s.calls[verb]++
	f := s.before
	s.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(verb)
}

func (s *frail) count(verb string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls[verb]
}

// all counts the calls of every verb.
func (s *frail) all() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, calls := range s.calls {
		n += calls
	}
	return n
}

func (s *frail) Admit(ctx context.Context, r queue.AdmitRequest) (queue.AdmitResult, error) {
	if err := s.meet("admit"); err != nil {
		return queue.AdmitResult{}, err
	}
	return s.Store.Admit(ctx, r)
}

func (s *frail) Claim(ctx context.Context, r queue.ClaimRequest) (queue.ClaimResult, error) {
	if err := s.meet("claim"); err != nil {
		return queue.ClaimResult{}, err
	}
	defer s.answered("claim")
	return s.Store.Claim(ctx, r)
}

func (s *frail) Settle(ctx context.Context, r queue.SettleRequest) ([]queue.SettleResult, error) {
	if err := s.meet("settle"); err != nil {
		return nil, err
	}
	return s.Store.Settle(ctx, r)
}

func (s *frail) Extend(ctx context.Context, r queue.ExtendRequest) ([]queue.ExtendResult, error) {
	if err := s.meet("extend"); err != nil {
		return nil, err
	}
	return s.Store.Extend(ctx, r)
}

func (s *frail) Reclaim(ctx context.Context, r queue.ReclaimRequest) ([]queue.Reclaimed, error) {
	if err := s.meet("reclaim"); err != nil {
		return nil, err
	}
	return s.Store.Reclaim(ctx, r)
}

func (s *frail) TakeOver(ctx context.Context, r queue.TakeOverRequest) (queue.TakeOverResult, error) {
	if err := s.meet("take over"); err != nil {
		return queue.TakeOverResult{}, err
	}
	defer s.answered("take over")
	return s.Store.TakeOver(ctx, r)
}

func (s *frail) Note(ctx context.Context, now time.Time, records []queue.Record) error {
	if err := s.meet("note"); err != nil {
		return err
	}
	return s.Store.Note(ctx, now, records)
}

func (s *frail) Expire(ctx context.Context, r queue.ExpireRequest) (queue.ExpireResult, error) {
	if err := s.meet("expire"); err != nil {
		return queue.ExpireResult{}, err
	}
	res, err := s.Store.Expire(ctx, r)
	if s.expired != nil {
		s.expired(r, &res)
	}
	return res, err
}
