package storetest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"breakwater/queue"
)

// RunModel applies random programs to a store and to a model, and compares every
// answer, every list, the counters and each record of the trail after every step.
// At the end of a program the faults stop: what is open is worked off, which must
// succeed, and the trail is checked by CheckTrail, which knows neither store.
//
// A failure prints the seed and the smallest program that shows it. -rapid.checks
// says how many programs to run, -rapid.seed repeats one.
func RunModel(t *testing.T, model, open Open) {
	t.Helper()
	runPrograms(t, model, open)
}

// RunAlone is RunModel without a model: for a store whose bounded steps are set so
// small that a claim may answer with less than there is. That everything is worked
// off in the end, and every promise kept on the way, must hold all the same.
func RunAlone(t *testing.T, open Open) {
	t.Helper()
	runPrograms(t, open)
}

// Programs says how many random programs a property is tried with where neither the
// variable RAPID_CHECKS nor the flag -rapid.checks does. It is for an init function of a
// package in whose properties each program opens stores; the library's usual number, 100,
// would take minutes there.
func Programs(n int) {
	if _, given := os.LookupEnv("RAPID_CHECKS"); given {
		return
	}
	if err := flag.Set("rapid.checks", strconv.Itoa(n)); err != nil {
		panic(err) // the library has another flag now
	}
}

// runPrograms runs random programs on stores that must agree.
func runPrograms(t *testing.T, opens ...Open) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, t, opens)
		defer m.close()
		// Three steps at a time, so that a program of the library's usual length
		// is long enough for a message to fail, die, come back and end.
		rt.Repeat(map[string]func(*rapid.T){"steps": func(rt *rapid.T) {
			for range 3 {
				m.run(aStep.Draw(rt, "step"))
			}
		}})
		m.finish()
	})
}

// aStep draws the numbers that one step of a program makes its choices by, the
// first of them being the verb. They say nothing of the state, so that any part
// of a program is a program, and a failing one can be cut down.
var aStep = rapid.SliceOfN(rapid.Uint16(), 48, 48)

// choices hands out the numbers of a step, zeros when they are used up.
type choices struct{ left []uint16 }

// below returns the next choice from 0 to n-1. The library prefers small numbers;
// the multiplication spreads them, and keeps the zero to which it shrinks them.
func (c *choices) below(n int) int {
	if len(c.left) == 0 {
		return 0
	}
	v := uint32(c.left[0]) * 2654435761 >> 8 // Knuth, TAOCP 3, 6.4: 2³² over the golden ratio
	c.left = c.left[1:]
	return int(v) % n
}

// oneIn is true once in n times.
func (c *choices) oneIn(n int) bool { return c.below(n) == n-1 }

// of returns one of a list.
func of[T any](c *choices, list ...T) T { return list[c.below(len(list))] }

// machine runs a program on all its stores.
type machine struct {
	*rapid.T
	ctx       context.Context
	harnesses []Harness
	stores    []queue.Store // theirs; the model, if there is one, comes first
	clock     *Clock
	policy    queue.Policy

	given   []held   // every delivery there ever was
	edited  [][]byte // lines that dead letters had, and were edited to
	copies  []queue.ArchiveInfo
	fresh   int            // idempotency keys used so far
	told    uint64         // records compared so far
	history []queue.Record // all that there were, trimmed ones too
	expired time.Duration  // elapsed time at the last Expire of this process; 0: none yet
	commits []committed

	gathered *[]groupCall // not nil: calls are put here and not made; see RunGroups
}

// committed is what the observer of a store was told in all.
type committed struct {
	records uint64
	head    queue.Head
}

// held is a delivery and who has it.
type held struct {
	token queue.Token
	owner queue.Owner
}

func newMachine(rt *rapid.T, t *testing.T, opens []Open) *machine {
	m := &machine{
		T: rt, ctx: context.Background(), clock: NewClock(),
		policy: queue.Policy{
			MaxAttempts: 3, MaxDeliveries: 5,
			RetryInitial: time.Second, RetryMax: 10 * time.Second, OnDeadLetter: queue.HoldKey,
		},
		commits: make([]committed, len(opens)),
	}
	for i, open := range opens {
		h := open(t, Options{Committed: func(c queue.Commit) {
			m.commits[i].records += uint64(c.Count)
			m.commits[i].head = c.Head
		}})
		m.harnesses, m.stores = append(m.harnesses, h), append(m.stores, h.Store)
	}
	m.start(false)
	return m
}

func (m *machine) close() {
	for _, h := range m.harnesses {
		if h.Close != nil {
			h.Close()
		}
	}
}

func (m *machine) now() time.Time { return m.clock.Now() }

// all calls a verb on all stores, compares the results and returns them.
func all[R any](m *machine, what string, call func(queue.Store) (R, error)) R {
	m.Helper()
	if m.gathered != nil {
		*m.gathered = append(*m.gathered, groupCall{what: what, make: func(s queue.Store) (any, error) { return call(s) }})
		var none R
		return none
	}
	want, err := call(m.stores[0])
	if err != nil {
		m.Fatalf("%s: %v", what, err)
	}
	for _, s := range m.stores[1:] {
		got, err := call(s)
		if err != nil {
			m.Fatalf("%s: %v, unlike the model", what, err)
		}
		same(m, what, got, want)
	}
	return want
}

// same compares what two stores said. cmp would be slow for what is the same
// nearly always, so it only says what differs.
func same[R any](m *machine, what string, got, want R) {
	m.Helper()
	g, w := plain(any(got)), plain(any(want))
	if !reflect.DeepEqual(g, w) {
		m.Fatalf("%s (-model +store):\n%s", what, cmp.Diff(w, g))
	}
}

// run does one step and compares everything.
func (m *machine) run(numbers []uint16) {
	m.Helper()
	c := choices{numbers}
	verb := weighted[c.below(len(weighted))]
	m.Logf("%s, at %s after %s:", verb, m.now().Round(0).Format("15:04:05.000"), m.clock.elapsed)
	verbs[verb](m, &c)
	m.compare()
}

// compare holds everything that can be asked of the stores against each other.
func (m *machine) compare() {
	m.Helper()
	for _, line := range all(m, "new records", func(s queue.Store) (lines []string, err error) {
		err = s.Trail(m.ctx, queue.TrailQuery{AfterN: m.told}, func(r queue.Record) bool {
			lines = append(lines, string(r.AppendNDJSON(nil)))
			return true
		})
		return lines, err
	}) {
		r, err := queue.ParseRecord([]byte(line))
		if err != nil {
			m.Fatalf("a record: %v", err)
		}
		m.history = append(m.history, r)
	}
	st := all(m, "status", func(s queue.Store) (queue.StoreStatus, error) {
		st, err := s.Status(m.ctx, m.now())
		st.Origin = "" // which store it is: of each another
		return st, err
	})
	if sum := st.Backlog() + st.Done + st.Dead + st.Discarded; sum != int64(st.LastSeq) {
		m.Fatalf("%d messages are somewhere, %d seqs were given: %+v", sum, st.LastSeq, st)
	}
	open := all(m, "open messages", func(s queue.Store) ([]queue.Exception, error) { return s.Exceptions(m.ctx, 0, 10_000) })
	dead := all(m, "dead letters", m.letters)
	if d := cmp.Diff(reckon(open, dead, m.now()), reckoned(st)); d != "" {
		m.Fatalf("what is at risk (-lists +counters):\n%s", d)
	}
	keys := all(m, "keys", func(s queue.Store) ([]queue.Key, error) {
		return keysOf(m.ctx, s, queue.KeyQuery{Now: m.now(), Limit: 3})
	})
	if wrong := wrongKeys(keys, open, dead); len(wrong) > 0 {
		m.Fatalf("%s", strings.Join(wrong, "\n"))
	}
	all(m, "leases", func(s queue.Store) ([]queue.Lease, error) { return s.Leases(m.ctx, 0, 10_000) })
	m.told = st.Records
	for i, c := range m.commits {
		if c.records != st.Records || c.head != st.Head {
			m.Fatalf("observer %d was told of %d records up to %s, there are %d up to %s", i, c.records, c.head, st.Records, st.Head)
		}
	}
}

// finish stops the faults and works off what is left; then nothing may be open,
// every message must be where its records say, and the trail must hold.
func (m *machine) finish() {
	m.Helper()
	a := m.action()
	all(m, "resume", func(s queue.Store) (any, error) { return nil, s.Resume(m.ctx, a) })
	all(m, "release keys", func(s queue.Store) ([]queue.ActionResult, error) { return s.ReleaseKeys(m.ctx, a, keys) })
	for round := 0; m.left() > 0; round++ {
		if round > 200 {
			m.Fatalf("%d messages are still open after %d rounds", m.left(), round)
		}
		m.clock.Pass(time.Minute)
		m.clock.Step(time.Hour) // holds and schedules are on the wall
		m.reclaim(100)
		m.discardDead()
		want := wants(worker("last"))
		want.PerKey = 3
		for _, h := range m.claim([]queue.Want{want}) {
			m.settle([]queue.Settlement{{Token: h.token, Owner: h.owner, Verb: queue.Ack, At: m.now(), Outcome: "DONE"}})
		}
		m.compare()
	}
	m.discardDead()
	m.compare()
	m.checkEnds()
}

// letters lists the dead letters of a store.
func (m *machine) letters(s queue.Store) ([]queue.Exception, error) {
	return lettersOf(m.ctx, s, queue.LetterQuery{Limit: 1000})
}

// lettersOf reads a list of dead letters to its end.
func lettersOf(ctx context.Context, s queue.Store, q queue.LetterQuery) (all []queue.Exception, err error) {
	for {
		page, err := s.DeadLetters(ctx, q)
		all = append(all, page.Letters...)
		if q.After = page.Next; err != nil || page.Next.IsZero() {
			return all, err
		}
	}
}

// left counts what is open.
func (m *machine) left() int64 {
	st, err := m.stores[0].Status(m.ctx, m.now())
	if err != nil {
		m.Fatalf("status: %v", err)
	}
	return st.Backlog()
}

// discardDead ends every dead letter.
func (m *machine) discardDead() {
	m.Helper()
	letters := all(m, "dead letters", m.letters)
	seqs := make([]uint64, len(letters))
	for i, x := range letters {
		seqs[i] = x.Seq
	}
	a := m.action()
	all(m, "discard", func(s queue.Store) ([]queue.ActionResult, error) { return s.Discard(m.ctx, a, seqs) })
}

// checkEnds looks at what became of messages, and at the trail as a whole.
func (m *machine) checkEnds() {
	m.Helper()
	st, err := m.stores[0].Status(m.ctx, m.now())
	if err != nil {
		m.Fatalf("status: %v", err)
	}
	// A look at what has ended reads its whole history: a few of them will do.
	for seq := uint64(1); seq <= st.LastSeq; seq += 1 + st.LastSeq/8 {
		all(m, fmt.Sprintf("exception %d", seq), func(s queue.Store) (queue.Exception, error) {
			x, err := s.Exception(m.ctx, seq)
			if errors.Is(err, queue.ErrTrimmed) {
				x, err = queue.Exception{Reason: "trimmed"}, nil
			}
			return x, err
		})
	}
	var records []queue.Record
	if err := m.stores[0].Trail(m.ctx, queue.TrailQuery{}, func(r queue.Record) bool { records = append(records, r); return true }); err != nil {
		m.Fatalf("trail: %v", err)
	}
	if n := m.history[len(m.history)-len(records):]; len(records) == 0 || records[0].N != st.Opening.LastN+1 || !reflect.DeepEqual(n, records) {
		m.Errorf("the trail is not the end of what there was, from record %d on", st.Opening.LastN+1)
	}
	for _, broken := range CheckTrail(m.history) {
		m.Errorf("trail: %s", broken)
	}
	for i, s := range m.stores {
		v, err := s.Verify(m.ctx, queue.VerifyOptions{Buckets: true, Witnesses: []queue.Witness{{Head: st.Head, N: st.Records}}})
		if err != nil || len(v.Findings) > 0 || v.Verdicts[0] != queue.WitnessFound {
			m.Fatalf("verify store %d: %+v, %v", i, v, err)
		}
	}
}
