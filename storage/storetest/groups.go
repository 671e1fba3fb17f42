package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"breakwater/queue"
)

// RunGroups makes calls of different verbs at one time, so that a store may answer
// several by one commit, and looks for an order in which the model, asked one by one,
// gives all the same answers, comes to the same state and leaves the same records. If
// there is none, a group did what no order of its calls explains: one of them saw half
// of another, or not at all what came before it in the same transaction.
func RunGroups(t *testing.T, model, open Open) {
	t.Helper()
	// They are short, and few of them meet two calls that depend on each other.
	const often = 5
	for range often {
		runGroups(t, model, open)
	}
}

// runGroups tries as many random groups as are usual.
func runGroups(t *testing.T, model, open Open) {
	t.Helper()
	rapid.Check(t, func(rt *rapid.T) {
		m := newMachine(rt, t, []Open{model, open})
		g := &groups{machine: m, t: t, model: model, began: m.now()}
		defer g.close()
		for range rapid.IntRange(3, 9).Draw(rt, "groups") { // each is explained from the beginning
			g.step(&choices{aStep.Draw(rt, "group")})
		}
		g.finish()
	})
}

// grouped lists the verbs that are mixed: all that change something and are not the end
// of a process. In most groups they are about the same things: leases, idempotency keys.
var grouped = [][]string{
	{"admit", "claim", "settle", "reclaim", "extend", "revoke", "replay", "discard", "edit", "keys", "pause"},
	{"claim", "settle", "settle", "reclaim", "extend", "revoke", "keys"},
	{"admit", "admit", "replay", "discard", "edit"},
}

// maxGroup bounds a group: its calls are tried in every order.
const maxGroup = 3

// groups is a machine that gathers the calls of its steps instead of making them.
type groups struct {
	*machine
	t       *testing.T
	model   Open
	began   time.Time
	history []groupCall // what has been done, in the order that was found
}

// groupCall is one call, as often as it has to be made, and what it was for.
type groupCall struct {
	what string
	make func(queue.Store) (any, error)
	asks []queue.Want // of a claim
}

// groupAnswer is what came of it.
type groupAnswer struct {
	answer any
	err    error
}

// step gathers a few calls, makes them at once, and explains what came of them.
func (g *groups) step(c *choices) {
	g.Helper()
	if c.oneIn(3) {
		verbs["pass"](g.machine, c)
	}
	var calls []groupCall
	g.gathered = &calls
	about := of(c, grouped...)
	for range 2 + c.below(maxGroup-1) {
		verb := of(c, about...)
		g.Logf("%s:", verb)
		verbs[verb](g.machine, c)
	}
	g.gathered = nil
	calls = calls[:min(len(calls), maxGroup)]
	g.explain(calls, g.together(calls))
}

// together makes calls to the store under test at one time.
func (g *groups) together(calls []groupCall) []groupAnswer {
	answers := make([]groupAnswer, len(calls))
	starts := make([]func(), len(calls))
	for i, call := range calls {
		starts[i] = func() {
			a, err := call.make(g.stores[1])
			answers[i] = groupAnswer{withoutHead(a), err}
		}
	}
	if at := g.harnesses[1].Together; at != nil {
		at(starts)
		return answers
	}
	var all sync.WaitGroup
	for _, start := range starts {
		all.Go(start)
	}
	all.Wait()
	return answers
}

// withoutHead is an answer without the head that its commit led to, which is that of the
// whole group.
func withoutHead(answer any) any {
	answer = plain(answer)
	if r, ok := answer.(queue.AdmitResult); ok {
		r.Head = queue.Head{}
		return r
	}
	return answer
}

// explain finds the order of the calls.
func (g *groups) explain(calls []groupCall, got []groupAnswer) {
	g.Helper()
	want := g.picture(g.stores[1])
	var wrong []string
	for _, order := range orders(len(calls)) {
		h := g.replayed()
		what := ""
		for _, i := range order {
			a, err := calls[i].make(h.Store)
			if answer := (groupAnswer{withoutHead(a), err}); !reflect.DeepEqual(answer, got[i]) {
				what = fmt.Sprintf("call %d, %s (-model +store):\n%s", i+1, calls[i].what, cmp.Diff(fmt.Sprintf("%+v", answer), fmt.Sprintf("%+v", got[i])))
				break
			}
		}
		if what == "" {
			what = cmp.Diff(g.picture(h.Store), want)
		}
		if what == "" {
			g.take(h, order, calls, got)
			return
		}
		wrong = append(wrong, fmt.Sprintf("in the order %v: %s", order, what))
	}
	g.Fatalf("no order of the calls explains what the store did\n%s", strings.Join(wrong, "\n"))
}

// take goes on with the model that has explained it.
func (g *groups) take(h Harness, order []int, calls []groupCall, got []groupAnswer) {
	g.harnesses[0], g.stores[0] = h, h.Store
	for _, i := range order {
		g.history = append(g.history, calls[i])
		res, ok := got[i].answer.(queue.ClaimResult)
		for k := range res.Deliveries {
			for _, d := range res.Deliveries[k] {
				g.given = append(g.given, held{token: d.Token, owner: calls[i].asks[k].Owner})
			}
		}
		if ok != (calls[i].asks != nil) {
			g.Fatalf("%s answers %T", calls[i].what, got[i].answer)
		}
	}
}

// replayed is a model to which all that was done has been done.
func (g *groups) replayed() Harness {
	g.Helper()
	h := g.model(g.t, Options{})
	if _, err := h.Store.Start(g.ctx, queue.StartRequest{Now: g.began, Policy: g.policy, Version: "1"}); err != nil {
		g.Fatalf("start of a model: %v", err)
	}
	for _, call := range g.history {
		if _, err := call.make(h.Store); err != nil {
			g.Fatalf("%s, again: %v", call.what, err)
		}
	}
	return h
}

// picture is the state of a store, and its trail but for what differs between one
// transaction and several: the numbers of the records behind a DUPLICATE_SKIPPED, of
// which there is one for a commit.
func (g *groups) picture(s queue.Store) string {
	g.Helper()
	var b strings.Builder
	st, err := s.Status(g.ctx, g.now())
	records := st.Records
	st.Head, st.Records = queue.Head{}, 0
	fmt.Fprintf(&b, "%s %+v\n", statusText(st), st.Oldest)
	open, err2 := s.Exceptions(g.ctx, 0, 10_000)
	dead, err3 := g.letters(s)
	leases, err4 := s.Leases(g.ctx, 0, 10_000)
	for _, x := range append(each(open, plainException), each(dead, plainException)...) {
		fmt.Fprintf(&b, "%+v\n", x)
	}
	for _, l := range each(leases, plainLease) {
		fmt.Fprintf(&b, "%+v\n", l)
	}
	skipped := map[uint64]bool{}
	count := 0
	err5 := s.Trail(g.ctx, queue.TrailQuery{}, func(r queue.Record) bool {
		if r.Event == queue.EventDuplicateSkipped {
			count += r.Count
			for _, seq := range r.Seqs {
				skipped[seq] = true
			}
			records--
			return true
		}
		r.N = 0
		b.Write(r.AppendNDJSON(nil))
		return true
	})
	fmt.Fprintf(&b, "%d records, %d duplicates of %d messages\n", records, count, len(skipped))
	for _, err := range []error{err, err2, err3, err4, err5} {
		if err != nil {
			g.Fatalf("look at a store: %v", err)
		}
	}
	return b.String()
}

// finish kills both, and compares what the next processes find.
func (g *groups) finish() {
	g.Helper()
	for i, h := range g.harnesses {
		g.stores[i] = h.Crash()
	}
	g.clock.Boot()
	for i, s := range g.stores {
		if _, err := s.Start(g.ctx, queue.StartRequest{Now: g.now(), Policy: g.policy, Version: "1"}); err != nil {
			g.Fatalf("start store %d: %v", i, err)
		}
		v, err := s.Verify(g.ctx, queue.VerifyOptions{Buckets: true})
		if err != nil || len(v.Findings) > 0 {
			g.Fatalf("verify store %d: %+v, %v", i, v, err)
		}
	}
	if d := cmp.Diff(g.picture(g.stores[0]), g.picture(g.stores[1])); d != "" {
		g.Fatalf("after a crash (-model +store):\n%s", d)
	}
}

// orders are all orders of n calls, the one in which they were begun first.
func orders(n int) (all [][]int) {
	if n == 0 {
		return [][]int{nil}
	}
	for _, rest := range orders(n - 1) {
		for at := len(rest); at >= 0; at-- {
			all = append(all, slices.Insert(slices.Clone(rest), at, n-1))
		}
	}
	return all
}
