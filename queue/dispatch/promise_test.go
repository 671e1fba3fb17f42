package dispatch

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore"
	"breakwater/storage/memstore"
	"breakwater/storage/storetest"

	"pgregory.net/rapid"
)

// daySteps makes the days of TestPromise longer.
var daySteps = flag.Int("promise.steps", 24, "steps of each random day of TestPromise, at most")

// TestPromise lives random days on the real dispatcher: workers and consumers come and
// go, answer in every way, late and twice, and vanish; operators hold, pause, replay,
// discard, revoke and reload. A world that sees only what was said holds it against
// the promise of order; in the end all of it must be over, once.
//
// Every twentieth day is lived on boltstore too. Seconds in CI; a night with, say,
// -rapid.checks=20000 -promise.steps=200.
func TestPromise(t *testing.T) {
	warmUp(t)
	rapid.Check(t, func(rt *rapid.T) {
		d := drawDay(rt)
		d.liveOn(t, rt, false)
		if d.salt%20 == 0 {
			d.liveOn(t, rt, true)
		}
	})
}

// liveOn lives the day in a bubble of its own, on a new store.
func (d *day) liveOn(t *testing.T, rt *rapid.T, onDisk bool) {
	var found []string
	synctest.Test(t, func(t *testing.T) {
		d.path = ""
		if onDisk {
			d.path = filepath.Join(t.TempDir(), "day.db")
		}
		d.live(t)
		found = d.found
	})
	for _, what := range found {
		rt.Errorf("on disk %v: %s", onDisk, what)
	}
}

// open opens the store, and is the first to speak to it.
func (d *day) open() queue.Store {
	s := queue.Store(memstore.New(memstore.Options{}))
	if d.path != "" {
		var err error
		if s, err = boltstore.Open(boltstore.Options{Path: d.path}); err != nil {
			d.t.Fatal(err)
		}
	}
	if _, err := s.Start(context.Background(), queue.StartRequest{Now: time.Now(), Policy: d.policy}); err != nil {
		d.t.Fatal(err)
	}
	return s
}

// warmUp has the coders of the trail made, which there are once in a process: they
// must not belong to a bubble.
func warmUp(t *testing.T) {
	t.Helper()
	plain := queue.Block{Number: 1, FirstN: 1, Count: 1, Plain: bytes.Repeat([]byte("x"), 8<<10)}
	if _, err := queue.ParseBlock(1, queue.AppendBlock(nil, plain, true)); err != nil {
		t.Fatal(err)
	}
}

// step is one thing that somebody does. What a, b and c mean depends on it and on the
// moment: a program is drawn before its day begins.
type step struct {
	do      string
	a, b, c int
}

// stepOf makes a step of a number: 0 is a rest, so that a day that failed shrinks.
func stepOf(n uint32) step {
	if n == 0 {
		return step{do: "rest"}
	}
	dice := rand.New(rand.NewPCG(uint64(n), 0))
	return step{deeds[dice.IntN(len(deeds))], dice.IntN(1 << 20), dice.IntN(1 << 20), dice.IntN(1 << 20)}
}

// deeds are what can be done, as often as it is listed.
var deeds = []string{
	"submit", "submit", "submit", "submit", "pass", "pass", "pass", "attach", "attach", "detach", "break",
	"answer", "answer", "answer", "answer", "answer", "answer", "answer", "answer", "extend", "lie", "reload", "reload",
	"replay", "discard", "hold", "free", "pause", "resume", "resume", "revoke", "hush", "hush", "restart",
}

// day is a program and what it is lived with.
type day struct {
	policy queue.Policy
	steps  []step
	salt   int

	t       *testing.T
	path    string // of the store; "": in memory
	store   witness
	runner  *Runner
	stop    context.CancelFunc
	ended   chan struct{}
	options Options
	people  map[string]*person
	nth     int // line
	kind    [len(queue.Routes)]int
	calm    bool // the day ends: everybody acks

	mu      sync.Mutex
	running map[string]int
	found   []string
}

func drawDay(rt *rapid.T) *day {
	d := &day{
		salt: int(rapid.Uint32().Draw(rt, "salt")),
		policy: queue.Policy{
			MaxAttempts: rapid.IntRange(1, 4).Draw(rt, "attempts"), MaxDeliveries: rapid.IntRange(1, 6).Draw(rt, "deliveries"),
			RetryInitial: time.Second, RetryMax: 10 * time.Second,
			OnDeadLetter: queue.OnDeadLetter(rapid.IntRange(0, 1).Draw(rt, "on dead letter")),
		},
	}
	for _, n := range rapid.SliceOfN(rapid.Uint32(), *daySteps/2, *daySteps).Draw(rt, "steps") {
		d.steps = append(d.steps, stepOf(n))
	}
	return d
}

// live lives the day.
func (d *day) live(t *testing.T) {
	d.t, d.found = t, nil
	d.people, d.running = map[string]*person{}, map[string]int{}
	d.nth, d.calm, d.kind = 0, false, [len(queue.Routes)]int{0, 2}
	s := d.open()
	d.store = witness{s, newWorld(s)}
	d.options = usual()
	d.options.Store, d.options.Settings.Policy, d.options.Settings.Lease = d.store, d.policy, 3*time.Second
	d.options.Settings.DrainTimeout = time.Second
	d.options.Handlers = d.handlers()
	d.begin()
	for i := range 2 { // of three consumers, two come to work early
		d.do(&step{do: "attach", a: i, b: d.salt >> i, c: 1 + d.salt%3})
	}
	for i := range d.steps {
		d.do(&d.steps[i])
		d.settle()
	}
	d.close()
	d.finish()
}

// settle waits until everybody has done what there is to do, and has the world look
// at it.
func (d *day) settle() {
	synctest.Wait()
	d.store.w.review()
}

// begin runs a new Runner.
func (d *day) begin() {
	var err error
	if d.runner, err = New(d.options); err != nil {
		d.t.Fatal(err)
	}
	var stop context.Context
	stop, d.stop = context.WithCancel(context.Background())
	d.ended = make(chan struct{})
	go func() {
		defer close(d.ended)
		if _, err := d.runner.Run(stop, context.Background()); err != nil {
			d.wrong("Run: %v", err)
		}
	}()
	synctest.Wait()
}

// end drains it; consumers break off as their sockets close.
func (d *day) end() {
	d.runner.Drain()
	synctest.Wait()
	for _, p := range d.people {
		p.leave(false)
	}
	d.stop()
	<-d.ended
}

func (d *day) wrong(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.found = append(d.found, fmt.Sprintf(format, args...))
}

// handlers gives each route what serves it now: 0 a handler with effects, 1 a pure one,
// 2 and 3 consumers.
func (d *day) handlers() map[queue.Route]any {
	h := map[queue.Route]any{}
	for i, route := range queue.Routes {
		switch d.kind[i] % 4 {
		case 0:
			h[route] = &employee{d, route}
		case 1:
			h[route] = &clerk{d, route}
		}
	}
	return h
}

// employee is a handler with effects, clerk one without.
type employee struct {
	d     *day
	route queue.Route
}

type clerk struct {
	d     *day
	route queue.Route
}

func (e *employee) Handle(ctx context.Context, m *queue.Delivery) queue.Answer {
	d, key := e.d, m.Message.PartitionKey
	d.store.w.told(m, "a handler", toWorker)
	d.mu.Lock()
	if d.running[key]++; d.running[key] > 1 {
		d.found = append(d.found, "two at work on key "+key)
	}
	d.mu.Unlock()
	n := d.roll(m)
	select {
	case <-time.After([]time.Duration{0, time.Millisecond, 300 * time.Millisecond, 4 * time.Second}[n%4]):
	case <-ctx.Done():
	}
	d.mu.Lock()
	d.running[key]--
	d.mu.Unlock()
	return d.reply(n / 4)
}

func (c *clerk) Decide(m *queue.Delivery) queue.Answer {
	c.d.store.w.told(m, "a pure handler", toClerk)
	a := c.d.reply(c.d.roll(m) / 4)
	a.Unavailable = false
	return a
}

// roll is a die for each delivery, the same whenever the day is lived.
func (d *day) roll(m *queue.Delivery) int {
	x := uint64(d.salt)*0x9e3779b97f4a7c15 + m.Token.Seq*0xbf58476d1ce4e5b9 + uint64(m.Number*7+m.FailedAttempts)*0x94d049bb133111eb
	return int((x ^ x>>29) % 4096)
}

func (d *day) reply(n int) queue.Answer {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calm {
		n = 0
	}
	switch n % 12 {
	case 6:
		return queue.Answer{Verb: queue.Retry, Reason: "r"}
	case 7:
		return queue.Answer{Verb: queue.Release}
	case 8:
		return queue.Answer{Verb: queue.Hold, Until: time.Now().Add(2500 * time.Millisecond)}
	case 9:
		return queue.Answer{Verb: queue.Reject, Reason: "no"}
	case 10:
		return queue.Unavailable("down", 0)
	case 11:
		return queue.Answer{}
	}
	return queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
}

// keyNames are few, so that they get in each other's way.
var keyNames = []string{"A", "B", "C", "D", "E"}

// do takes one step.
func (d *day) do(s *step) {
	ctx, now := context.Background(), time.Now()
	op := queue.Action{Now: now, By: "op", Reason: "r"}
	key := keyNames[s.a%len(keyNames)]
	switch s.do {
	case "submit":
		d.submit(s)
	case "pass":
		<-time.After([]time.Duration{time.Millisecond, 400 * time.Millisecond, time.Second, 3 * time.Second, 12 * time.Second, 61 * time.Second}[s.a%6])
	case "attach", "detach", "break", "answer", "extend", "lie", "hush":
		d.person(s)
	case "reload":
		d.reload(s)
	case "replay", "discard":
		d.letters(s, op)
	case "hold":
		_, err := d.store.HoldKeys(ctx, op, []string{key})
		d.must(err)
	case "free":
		op.Waits = s.b%2 == 0
		_, err := d.store.ReleaseKeys(ctx, op, []string{key})
		d.must(err)
		d.runner.Wake()
	case "pause":
		d.must(d.store.Pause(ctx, op))
	case "resume":
		d.must(d.store.Resume(ctx, op))
		d.runner.Wake()
	case "revoke":
		d.revoke(s, op)
	case "restart":
		if s.a%2 == 0 {
			d.restart()
		}
	}
}

// restart drains, opens the store again if it is on a disk, and goes on.
func (d *day) restart() {
	d.end()
	d.settle()
	if d.path != "" {
		d.must(d.store.Close())
		d.store.Store = d.open()
		d.store.w.inner = d.store.Store
		d.store.w.restarted()
		d.options.Store = d.store
	}
	d.begin()
}

func (d *day) must(err error) {
	if err != nil {
		d.wrong("%v", err)
	}
}

// submit sends one to eight lines: of any key, route and priority, some for later.
func (d *day) submit(s *step) {
	var lines []queue.Submission
	for i := range 1 + s.a%8 {
		n := s.b>>i + s.c
		spec := fmt.Sprintf("m%d@%s", d.nth, keyNames[n%len(keyNames)])
		if n%3 == 0 {
			spec += "=0"
		}
		line := submissions(d.t, spec)[0]
		d.nth++
		line.Message.Priority = uint8(n % 10)
		line.Message.NotBefore = []time.Time{{}, {}, {}, time.Now().Add(3 * time.Second), time.Now().Add(40 * time.Second)}[n%7%5]
		lines = append(lines, line)
	}
	if _, err := d.runner.Submit(context.Background(), queue.Peer{}, lines); err != nil {
		d.wrong("submit: %v", err)
	}
}

func (d *day) reload(s *step) {
	for i := range d.kind {
		d.kind[i] = s.a >> (2 * i)
	}
	d.options.Handlers = d.handlers()
	d.options.Workers = 1 + s.b%4
	d.options.Room = d.options.Workers + s.c%8
	d.options.Settings.Prefetch = 1 + s.c%d.options.Room
	d.must(d.runner.Reconfigure(Configuration{
		Settings: d.options.Settings, Workers: d.options.Workers, Room: d.options.Room, Handlers: d.options.Handlers,
	}))
}

// letters replays or discards every second dead letter, or all.
func (d *day) letters(s *step, op queue.Action) {
	page, err := d.store.DeadLetters(context.Background(), queue.LetterQuery{Limit: 1000, NoLines: true})
	d.must(err)
	var seqs []uint64
	for i := range page.Letters {
		if s.a%2 == 0 || (i+s.b)%2 == 0 {
			seqs = append(seqs, page.Letters[i].Seq)
		}
	}
	if s.do == "replay" {
		_, err = d.store.Replay(context.Background(), op, seqs)
	} else {
		_, err = d.store.Discard(context.Background(), op, seqs)
	}
	d.must(err)
	d.runner.Wake()
}

func (d *day) revoke(s *step, op queue.Action) {
	leases, err := d.store.Leases(context.Background(), 0, 1000)
	d.must(err)
	if len(leases) == 0 {
		return
	}
	meant := leases[s.a%len(leases)]
	ref := queue.LeaseRef{Seq: meant.Token.Seq}
	if s.a%2 == 0 { // as who has seen the list means it
		ref.Fence, ref.Owner = meant.Token.Fence, meant.Owner.Name
	}
	revoked, err := d.store.Revoke(context.Background(), op, d.policy, []queue.LeaseRef{ref})
	d.must(err)
	d.runner.Revoked(revoked)
}

// person is a consumer: a name, what it remembers of its leases, and its session if
// it is attached.
type person struct {
	d     *day
	a     queue.Attachment
	s     *Session
	quiet context.CancelFunc // ends its reading; nil: it does not read
	read  chan struct{}

	mu    sync.Mutex
	held  []queue.Delivery // not answered yet; it may be lost
	spent []queue.Delivery // answered: it lies
}

// person lets one of three consumers act.
func (d *day) person(s *step) {
	name := []string{"p", "q", "r"}[s.a%3]
	p := d.people[name]
	if p == nil {
		p = &person{d: d}
		d.people[name] = p
	}
	switch {
	case s.do == "attach":
		p.attach(name, s)
	case p.s == nil:
	case s.do == "detach":
		p.leave(true)
	case s.do == "break":
		p.leave(false)
	case s.do == "hush":
		if p.quiet != nil {
			p.hush()
		} else {
			p.listen()
		}
	default:
		p.speak(s)
	}
}

func (p *person) attach(name string, s *step) {
	a := attachment(name, 1+s.b%5, [][]queue.Route{{queue.RouteReview}, {queue.AutoResolve}, queue.Routes[:]}[s.b%3]...)
	a.Lease = []time.Duration{2 * time.Second, 10 * time.Second, time.Minute}[s.c%3]
	session, err := p.d.runner.Attach(context.Background(), a)
	if p.s != nil {
		if !errors.Is(err, queue.ErrNameInUse) {
			p.d.wrong("%s attached twice: %v", name, err)
		}
		return
	}
	if err != nil {
		p.d.wrong("attach: %v", err)
		return
	}
	p.a, p.s = a, session
	p.d.store.w.mu.Lock()
	p.d.store.w.prefetch[a.Owner] = a.Prefetch
	p.d.store.w.mu.Unlock()
	if s.c%5 > 0 {
		p.listen()
	}
}

// listen begins to read, hush ends it.
func (p *person) listen() {
	var ctx context.Context
	ctx, p.quiet = context.WithCancel(context.Background())
	p.read = make(chan struct{})
	session, done := p.s, p.read
	go func() {
		defer close(done)
		for {
			n, err := session.Next(ctx)
			for i := range n.Deliveries {
				m := &n.Deliveries[i]
				p.d.store.w.told(m, p.a.Owner.Name, toConsumer)
				p.mu.Lock()
				p.held = append(p.held, *m)
				p.mu.Unlock()
			}
			if err != nil {
				return
			}
			if p.d.isCalm() {
				p.ackAll(session)
			}
		}
	}()
}

func (p *person) hush() {
	if p.quiet != nil {
		p.quiet()
		<-p.read
		p.quiet = nil
	}
}

// leave detaches or breaks off.
func (p *person) leave(politely bool) {
	if p.s == nil {
		return
	}
	if politely {
		p.d.must(p.s.Detach(context.Background()))
	} else {
		p.d.must(p.s.Break(context.Background()))
	}
	p.hush()
	if _, err := p.s.Answer(context.Background(), nil); !errors.Is(err, queue.ErrDetached) {
		p.d.wrong("an answer after it had left: %v", err)
	}
	p.s = nil
}

// speak answers for some of what it was told of, asks for more time for it, or lies:
// answers again, or for another.
func (p *person) speak(s *step) {
	known := p.recall(s)
	if len(known) == 0 {
		return
	}
	now := time.Now()
	var answers []queue.Settlement
	var tokens []queue.Token
	for i := range 1 + s.b%4 {
		m, n := &known[(s.b>>2+i)%len(known)], s.c>>(2*i)
		tokens = append(tokens, m.Token)
		answers = append(answers, queue.Settlement{
			Token: m.Token, At: now, Outcome: "DONE", Reason: "r", After: time.Duration(n%3) * time.Second,
			Verb:  []queue.Verb{queue.Ack, queue.Ack, queue.Ack, queue.Ack, queue.Retry, queue.Release, queue.Hold, queue.Reject}[n%8],
			Until: now.Add(time.Duration(n%5) * time.Second),
		})
	}
	var err error
	if s.do == "extend" {
		_, err = p.s.Extend(context.Background(), now, tokens)
	} else {
		_, err = p.s.Answer(context.Background(), answers)
		p.spend(tokens)
	}
	p.d.must(err)
}

// recall is what it may speak of.
func (p *person) recall(s *step) (known []queue.Delivery) {
	if s.do != "lie" {
		p.mu.Lock()
		defer p.mu.Unlock()
		return slices.Clone(p.held)
	}
	for _, name := range []string{"p", "q", "r"} {
		if other := p.d.people[name]; other != nil {
			other.mu.Lock()
			known = append(append(known, other.held...), other.spent...)
			other.mu.Unlock()
		}
	}
	return known
}

// spend forgets what it has answered for.
func (p *person) spend(tokens []queue.Token) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = slices.DeleteFunc(p.held, func(m queue.Delivery) bool {
		if !slices.Contains(tokens, m.Token) {
			return false
		}
		p.spent = append(p.spent, m)
		return true
	})
}

func (d *day) isCalm() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.calm
}

// ackAll settles all it knows of; most of it is settled already.
func (p *person) ackAll(s *Session) {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	answers := make([]queue.Settlement, len(held))
	for i := range held {
		answers[i] = queue.Settlement{Token: held[i].Token, At: time.Now(), Verb: queue.Ack, Outcome: "DONE"}
	}
	if _, err := s.Answer(context.Background(), answers); err != nil && !errors.Is(err, queue.ErrDetached) {
		p.d.wrong("ack: %v", err)
	}
}

// close brings the day to its end: nothing is held any more, letters are replayed, and
// everybody acks. Half of the routes end with the workers, half with consumers.
func (d *day) close() {
	op := queue.Action{Now: time.Now(), By: "op", Reason: "the day ends"}
	for _, p := range d.people {
		p.leave(false)
	}
	d.mu.Lock()
	d.calm = true
	d.mu.Unlock()
	d.must(d.store.Resume(context.Background(), op))
	_, err := d.store.ReleaseKeys(context.Background(), op, keyNames)
	d.must(err)
	d.reload(&step{a: d.salt | 3, b: 2, c: 5})
	last := &person{d: d}
	d.people["last"] = last
	last.attach("last", &step{b: 2, c: 1})
	for range 4 {
		d.letters(&step{do: "replay"}, op)
		<-time.After(3 * time.Minute)
		d.settle()
	}
	d.end()
	d.settle()
}

// finish holds what was seen, the trail and the store against the promises.
func (d *day) finish() {
	d.found = append(d.found, d.store.w.judge()...)
	st, err := d.store.Status(context.Background(), time.Now())
	if err != nil || st.Backlog() != 0 || st.Dead != 0 || st.Done+st.Discarded != int64(d.nth) {
		d.wrong("of %d messages at the end: %+v, %v", d.nth, st, err)
	}
	var all []queue.Record
	d.must(d.store.Trail(context.Background(), queue.TrailQuery{}, func(r queue.Record) bool {
		all = append(all, r)
		return true
	}))
	d.found = append(d.found, storetest.CheckTrail(all)...)
	v, err := d.store.Verify(context.Background(), queue.VerifyOptions{})
	d.must(err)
	for _, f := range v.Findings {
		d.wrong("verify: %+v", f)
	}
	d.must(d.store.Close())
}
