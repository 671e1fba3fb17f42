package storetest

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"breakwater/queue"
)

// Of many callers at once. What they get depends on who comes first; that every
// promise is kept is read from the trail afterwards (world.check).
var concurrentPromises = []promise{
	{"nothing_is_lost_or_doubled", manyCallers},
	{"no_mixture_of_verbs_breaks_a_promise", manyVerbs},
}

// manyCallers runs producers and workers against each other until everything is
// settled; world.check and the trail then prove that each was settled once and in
// order.
func manyCallers(w *world) {
	const producers, lines, keys = 4, 50, 7
	var wg sync.WaitGroup
	now := w.now() // no time passes
	for p := range producers {
		wg.Go(func() {
			for i := range lines {
				spec := fmt.Sprintf("p%d-%d@K%d", p, i, i%keys)
				s, err := submit(now, spec)
				if err != nil {
					w.Errorf("%s: %v", spec, err)
					return
				}
				// Twice: a retry must not be a second message.
				r := queue.AdmitRequest{Now: now, Lines: []queue.Submission{s, s}}
				if _, err := w.store.Admit(w.ctx, r); err != nil {
					w.Errorf("admit: %v", err)
					return
				}
			}
		})
	}
	for i := range 3 {
		wg.Go(func() { w.workOff(worker(fmt.Sprintf("w-%d", i)), now, producers*lines) })
	}
	wg.Wait()
	equal(w, "status", statusText(w.status()), fmt.Sprintf("done=%d ledger=%d", producers*lines, producers*lines))
}

// workOff claims and settles until so many are done.
func (w *world) workOff(o queue.Owner, now time.Time, all int64) {
	ask := wants(o)
	ask.Max, ask.PerKey = 8, 3
	for {
		st, err := w.store.Status(w.ctx, now)
		if err != nil || st.Done == all {
			return
		}
		res, err := w.store.Claim(w.ctx, queue.ClaimRequest{Now: now, Wants: []queue.Want{ask}})
		if err != nil {
			w.Errorf("claim: %v", err)
			return
		}
		r := queue.SettleRequest{Now: now, Policy: w.policy}
		for _, d := range res.Deliveries[0] {
			r.Settlements = append(r.Settlements, queue.Settlement{Token: d.Token, Owner: o, Verb: queue.Ack, At: now, Outcome: "DONE"})
		}
		results, err := w.store.Settle(w.ctx, r)
		if err != nil {
			w.Errorf("settle: %v", err)
			return
		}
		for _, s := range results {
			if s.Code != "" {
				w.Errorf("seq %d: %s", s.Seq, s.Code)
			}
		}
	}
}

// manyVerbs has callers do whatever they like to each other, and then works off
// what is left.
func manyVerbs(w *world) {
	var wg sync.WaitGroup
	m := &mixture{world: w}
	for i := range uint64(4) {
		wg.Go(func() {
			c := caller{mixture: m, name: fmt.Sprintf("c-%d", i), die: rand.New(rand.NewPCG(i, 2026))}
			for range 120 {
				if err := c.act(); err != nil {
					w.Errorf("%s: %v", c.name, err)
					return
				}
			}
		})
	}
	wg.Wait()
	w.ok(w.store.Resume(w.ctx, w.operator("")), "resume")
	_, err := w.store.ReleaseKeys(w.ctx, w.operator(""), keys)
	w.ok(err, "release keys")
	for round := 0; w.left() > 0; round++ {
		if round > 100 {
			w.Fatalf("%s after %d rounds", statusText(w.status()), round)
		}
		w.pass(time.Hour)
		w.reclaim()
		for _, x := range w.letters(queue.LetterQuery{}) {
			w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{x.Seq}))
		}
		w.ack(worker("last"), w.claim(wants(worker("last")))...)
	}
}

// left counts what is open.
func (w *world) left() int64 { st := w.status(); return st.Backlog() }

// mixture is what the callers of manyVerbs share.
type mixture struct {
	*world
	mu sync.Mutex // guards the clock
}

// time lets a moment pass and says when it is.
func (m *mixture) time() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pass(10 * time.Millisecond)
	return m.now()
}

// caller is one of them, with what it was given last.
type caller struct {
	*mixture
	name  string
	die   *rand.Rand
	given []queue.Delivery
	owner queue.Owner
}

// act does one thing.
func (c *caller) act() (err error) {
	now, key := c.time(), keys[c.die.IntN(len(keys))]
	a := queue.Action{Now: now, By: c.name}
	switch c.die.IntN(14) {
	case 0, 1, 2:
		var r queue.AdmitRequest
		for range 1 + c.die.IntN(4) {
			s, err := submit(now, fmt.Sprintf("k%d@%s", c.die.IntN(400), key))
			if err != nil {
				return err
			}
			r.Lines = append(r.Lines, s)
		}
		r.Now = now
		_, err = c.store.Admit(c.ctx, r)
	case 3, 4, 5:
		err = c.claimSome(now)
	case 6, 7, 8:
		err = c.answerSome(now)
	case 9:
		_, err = c.store.Reclaim(c.ctx, queue.ReclaimRequest{Now: now, Policy: c.policy, Max: 3})
	case 10:
		if err = c.store.Pause(c.ctx, a); err == nil {
			err = c.store.Resume(c.ctx, a)
		}
		if err == nil {
			_, err = c.store.HoldKeys(c.ctx, a, []string{key})
		}
	case 11:
		a.Waits = c.die.IntN(2) == 0
		if _, err = c.store.ReleaseKeys(c.ctx, a, keys); err == nil {
			err = c.bringBack(a)
		}
	case 12:
		_, err = c.store.TakeOver(c.ctx, queue.TakeOverRequest{Now: now, Owner: c.owner})
	case 13:
		err = c.revokeSome(a)
	}
	return err
}

// revokeSome takes from whoever comes first what it holds.
func (c *caller) revokeSome(a queue.Action) error {
	leases, err := c.store.Leases(c.ctx, uint64(c.die.IntN(100)), 2)
	if err != nil {
		return err
	}
	var refs []queue.LeaseRef
	for _, l := range leases {
		ref := queue.LeaseRef{Seq: l.Token.Seq}
		if c.die.IntN(2) == 0 { // it may be another's by now
			ref.Fence = l.Token.Fence
		}
		refs = append(refs, ref)
	}
	_, err = c.store.Revoke(c.ctx, a, c.policy, refs)
	return err
}

// claimSome asks as a worker or as a consumer, for a few of each key.
func (c *caller) claimSome(now time.Time) error {
	ask := wants(worker(c.name))
	if c.die.IntN(2) == 0 {
		ask.Owner = consumer(c.name)
	}
	ask.Max, ask.PerKey, ask.Lease = 4, 1+c.die.IntN(3), time.Second
	res, err := c.store.Claim(c.ctx, queue.ClaimRequest{Now: now, Wants: []queue.Want{ask}})
	if err == nil && len(res.Deliveries[0]) > 0 {
		c.given, c.owner = res.Deliveries[0], ask.Owner
	}
	return err
}

// answerSome answers what was given last, some of it twice.
func (c *caller) answerSome(now time.Time) error {
	r := queue.SettleRequest{Now: now, Policy: c.policy}
	for _, d := range c.given {
		a := queue.Settlement{
			Token: d.Token, Owner: c.owner, Verb: queue.Verb(1 + c.die.IntN(5)), At: now,
			Outcome: "DONE", Until: now.Add(time.Second), Random: c.die.Uint32(),
		}
		r.Settlements = append(r.Settlements, a)
	}
	_, err := c.store.Settle(c.ctx, r)
	if err == nil && c.die.IntN(2) == 0 {
		_, err = c.store.Settle(c.ctx, r)
	}
	return err
}

// bringBack replays what is dead, and discards what cannot be.
func (c *caller) bringBack(a queue.Action) error {
	letters, err := c.store.DeadLetters(c.ctx, queue.LetterQuery{Limit: 5})
	if err != nil {
		return err
	}
	for _, x := range letters.Letters {
		if _, err := c.store.Replay(c.ctx, a, []uint64{x.Seq}); err != nil {
			return err
		}
		if x.Place.IsZero() {
			if _, err := c.store.Discard(c.ctx, a, []uint64{x.Seq}); err != nil {
				return err
			}
		}
	}
	return nil
}
