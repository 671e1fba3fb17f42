package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// verbs are the steps of a program by name.
var verbs = map[string]func(*machine, *choices){
	"rest":      func(*machine, *choices) {}, // what a failing program shrinks to
	"admit":     (*machine).stepAdmit,
	"claim":     (*machine).stepClaim,
	"settle":    (*machine).stepSettle,
	"extend":    (*machine).stepExtend,
	"reclaim":   func(m *machine, c *choices) { m.reclaim(of(c, 1, 2, 100)) },
	"take over": (*machine).stepTakeOver,
	"revoke":    (*machine).stepRevoke,
	"pass": func(m *machine, c *choices) {
		m.clock.Pass(of(c, 100*time.Millisecond, 500*time.Millisecond, time.Second, 3*time.Second, 7*time.Second, 20*time.Second))
	},
	"set the clock": func(m *machine, c *choices) {
		m.clock.Step(of(c, time.Second, 5*time.Second, time.Hour, -time.Second, -5*time.Second, -time.Hour, 30*time.Hour, 80*time.Hour, -30*time.Hour))
	},
	"pause":     (*machine).stepPause,
	"replay":    (*machine).stepReplay,
	"discard":   (*machine).stepDiscard,
	"edit":      (*machine).stepEdit,
	"keys":      (*machine).stepKeys,
	"crash":     func(m *machine, c *choices) { m.restart(Harness.crash, c.oneIn(8)) },
	"reopen":    func(m *machine, c *choices) { m.restart(Harness.reopen, false) },
	"policy":    (*machine).stepPolicy,
	"note":      (*machine).stepNote,
	"exception": (*machine).stepException,
	"archive":   (*machine).stepArchive,
	"expire":    (*machine).stepExpire,
	"trim":      (*machine).stepTrim,
}

// weighted lists the verbs as often as they are to be drawn: mostly what a day
// brings.
var weighted = func() (out []string) {
	for _, w := range []struct {
		verb string
		n    int
	}{
		{"rest", 1}, {"admit", 9}, {"claim", 12}, {"settle", 12}, {"pass", 8}, {"reclaim", 3}, {"extend", 2},
		{"take over", 1}, {"revoke", 2},
		{"replay", 3}, {"discard", 2}, {"edit", 3}, {"keys", 3}, {"pause", 2}, {"set the clock", 2},
		{"crash", 2}, {"reopen", 1}, {"policy", 1}, {"note", 1}, {"exception", 1}, {"archive", 1}, {"expire", 4}, {"trim", 3},
	} {
		out = append(out, slices.Repeat([]string{w.verb}, w.n)...)
	}
	return out
}()

// keys and owners are few, so that they meet; some of the keys share a slot.
var (
	keys   = []string{"A", "B", "C", twin("A"), twin("B")}
	owners = []queue.Owner{
		worker("w-1"), worker("w-2"), consumer("ui"), consumer("post"), {Kind: queue.Consumer, Name: "ui", UID: 1},
	}
)

func (h Harness) crash() queue.Store  { return h.Crash() }
func (h Harness) reopen() queue.Store { return h.Reopen() }

func (m *machine) start(restored bool) {
	m.Helper()
	r := queue.StartRequest{Now: m.now(), Policy: m.policy, Version: "1", Restored: restored}
	all(m, "start", func(s queue.Store) (queue.StartResult, error) { return s.Start(m.ctx, r) })
}

// restart ends all processes and starts the next ones.
func (m *machine) restart(how func(Harness) queue.Store, restored bool) {
	m.Helper()
	for i, h := range m.harnesses {
		m.stores[i] = how(h)
	}
	m.clock.Boot()
	m.expired = 0
	m.start(restored)
}

// stepAdmit sends a few lines: new ones, known ones, other content under a known
// key, scheduled ones, and such as no gate lets in.
func (m *machine) stepAdmit(c *choices) {
	m.Helper()
	r := queue.AdmitRequest{Now: m.now(), Peer: queue.Peer{UID: 1000, PID: 7}}
	if c.oneIn(4) {
		r.Limits = queue.Limits{
			MaxBacklog: int64(of(c, 0, 5, 10)), MaxOpenKeys: int64(of(c, 0, 2, 3)),
			MaxDeadLetters: int64(of(c, 0, 2)), MaxLedgerKeys: int64(of(c, 0, 8)),
		}
	}
	for range 1 + c.below(4) {
		l := m.line(c)
		m.Logf("  %s %v", l.Message.Line, l.Fault)
		r.Lines = append(r.Lines, l)
	}
	all(m, "admit", func(s queue.Store) (queue.AdmitResult, error) { return s.Admit(m.ctx, r) })
}

// line makes one line.
func (m *machine) line(c *choices) queue.Submission {
	m.Helper()
	n := m.fresh
	if n == 0 || !c.oneIn(3) {
		m.fresh++
	} else {
		n = c.below(m.fresh)
	}
	spec := fmt.Sprintf("k%d@%s", n, keys[n%len(keys)])
	switch c.below(13) {
	case 12:
		if len(m.edited) > 0 {
			return submission(of(c, m.edited...)) // what a letter was, or what it became
		}
	case 1:
		spec += " amount=" + of(c, "1.00", "-0.00", "7e37", "9.9E1", "184467440737095516.15")
	case 2:
		spec += " not_before=" + of(c, "5s", "1s", "-1s", "30s")
	case 3:
		spec += " priority=" + of(c, "0", "9")
	case 4, 5:
		spec += " route=auto"
	case 9:
		spec += " currency=" + of(c, "EUR", "JPY amount=12", "KWD amount=0.005")
	case 6:
		spec = of(c, "!{}", "![]", `!{"idempotency_key":"q"}`, `!{"variance_amount":"1.5","currency":"EUR"}`)
	case 7:
		return tooLong()
	case 8:
		spec = fmt.Sprintf("k%d@%s", n, keys[(n+1)%len(keys)])
	}
	s, err := submit(m.now(), spec)
	if err != nil {
		m.Fatalf("notation: %v", err)
	}
	if s.Fault == nil && c.oneIn(12) {
		s.Fault = &queue.Fault{Field: "currency", Reason: "is not known yet"} // a replay will let it in
	}
	return s
}

// stepClaim asks for several owners at once.
func (m *machine) stepClaim(c *choices) {
	m.Helper()
	var ask []queue.Want
	for range 1 + c.below(3) {
		w := queue.Want{
			Owner: of(c, owners...), Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...),
			Max: of(c, 1, 2, 5, 0), PerKey: of(c, 1, 3, 2), Lease: of(c, 30*time.Second, time.Second, 5*time.Second, time.Minute),
		}
		switch c.below(6) {
		case 1:
			w.Routes = queue.RoutesOf(queue.Routes[c.below(len(queue.Routes))])
		case 2:
			w.Slots = partition.SlotSet{}
			w.Slots.Add(partition.SlotOf(of(c, keys...)))
			w.Slots.Add(partition.SlotOf(of(c, keys...)))
		case 3:
			w.MaxBytes = of(c, 1, 200, 400, -1) // a line has some 170
		}
		m.Logf("  %s: %d or %d bytes, %d per key, routes %b, %d slots, for %s", w.Owner.Name, w.Max, w.MaxBytes, w.PerKey, w.Routes, w.Slots.Count(), w.Lease)
		ask = append(ask, w)
	}
	m.claim(ask)
}

func (m *machine) claim(ask []queue.Want) []held {
	m.Helper()
	var next []time.Duration
	now := m.now()
	res := all(m, "claim", func(s queue.Store) (queue.ClaimResult, error) {
		res, err := s.Claim(m.ctx, queue.ClaimRequest{Now: now, Wants: ask})
		if res.Next.IsZero() {
			next = append(next, -1)
		} else {
			next = append(next, res.Next.Sub(now).Truncate(time.Microsecond))
		}
		return res, err
	})
	if m.gathered != nil {
		(*m.gathered)[len(*m.gathered)-1].asks = ask
		return nil
	}
	same(m, "next", next[len(next)-1], next[0])
	var got []held
	for i, ds := range res.Deliveries {
		for _, d := range ds {
			m.Logf("  %s has seq %d", ask[i].Owner.Name, d.Token.Seq)
			got = append(got, held{token: d.Token, owner: ask[i].Owner})
		}
	}
	m.given = append(m.given, got...)
	return got
}

// stepSettle answers a few deliveries: mostly late ones of the right owner, and
// sometimes anything.
func (m *machine) stepSettle(c *choices) {
	m.Helper()
	if len(m.live()) == 0 && !c.oneIn(8) {
		m.stepClaim(c) // there is nothing to answer
		return
	}
	var answers []queue.Settlement
	for range 1 + c.below(4) {
		h := m.pickHeld(c)
		a := queue.Settlement{
			Token: h.token, Owner: h.owner, At: m.now(), Outcome: "DONE",
			Verb: of(c, queue.Ack, queue.Retry, queue.Release, queue.Hold, queue.Reject, queue.Ack, queue.Retry),
			By:   of(c, "", "alice"), Reason: of(c, "", "why"), Random: uint32(c.below(4)) << 30,
			After: of(c, 0, 0, 3*time.Second), Aside: of(c, 0, time.Second),
			Until: m.now().Add(of(c, time.Second, 4*time.Second, 0, -time.Second)), Unanswered: c.oneIn(5),
		}
		switch c.below(16) {
		case 1:
			a.Owner = of(c, owners...)
		case 2:
			a.Outcome = "not a word"
		case 3:
			a.At = a.At.Add(-2 * time.Second)
		case 4:
			a.Token.Fence += uint64(c.below(3))
		case 5:
			a.Token.Seq += uint64(c.below(3))
		case 6:
			a.Verb = 0
		}
		answers = append(answers, a)
		if c.oneIn(10) {
			answers = append(answers, a)
		}
	}
	m.settle(answers)
}

func (m *machine) settle(answers []queue.Settlement) {
	m.Helper()
	for _, a := range answers {
		m.Logf("  seq %d of %s: verb %d, after %s, until %s, aside %s, unanswered %t", a.Token.Seq, a.Owner.Name, a.Verb,
			a.After, a.Until.Round(0).Format("15:04:05.000"), a.Aside, a.Unanswered)
	}
	r := queue.SettleRequest{Now: m.now(), Policy: m.policy, Settlements: answers}
	all(m, "settle", func(s queue.Store) ([]queue.SettleResult, error) { return s.Settle(m.ctx, r) })
}

// pickHeld picks a lease that somebody holds, or sometimes one of all there were.
func (m *machine) pickHeld(c *choices) held {
	m.Helper()
	if live := m.live(); len(live) > 0 && !c.oneIn(6) {
		return live[c.below(len(live))]
	}
	if len(m.given) == 0 {
		return held{token: queue.Token{Seq: 1, Fence: 1}, owner: owners[0]}
	}
	return m.given[c.below(len(m.given))]
}

// live returns the present leases, by seq.
func (m *machine) live() (out []held) {
	m.Helper()
	open, err := m.stores[0].Exceptions(m.ctx, 0, 10_000)
	if err != nil {
		m.Fatalf("exceptions: %v", err)
	}
	for _, x := range open {
		if x.State != queue.Leased {
			continue
		}
		for _, h := range slices.Backward(m.given) {
			if h.token.Seq == x.Seq {
				out = append(out, h)
				break
			}
		}
	}
	return out
}

func (m *machine) stepExtend(c *choices) {
	m.Helper()
	h := m.pickHeld(c)
	r := queue.ExtendRequest{Now: m.now(), Owner: h.owner, Tokens: []queue.Token{h.token}, Lease: of(c, 3*time.Second, 60*time.Second)}
	m.Logf("  %s, by %s", h.owner.Name, r.Lease)
	for range c.below(3) {
		r.Tokens = append(r.Tokens, m.pickHeld(c).token)
	}
	all(m, "extend", func(s queue.Store) ([]queue.ExtendResult, error) { return s.Extend(m.ctx, r) })
}

// stepTakeOver has an owner come back, mostly one that holds something.
func (m *machine) stepTakeOver(c *choices) {
	m.Helper()
	r := queue.TakeOverRequest{Now: m.now(), Owner: m.pickHeld(c).owner}
	switch c.below(4) {
	case 1:
		r.Owner = of(c, owners...)
	case 2:
		r.MaxBytes = of(c, 1, 200)
	case 3:
		r.After = m.pickHeld(c).token.Fence
	}
	m.Logf("  %s, after %d, %d bytes", r.Owner.Name, r.After, r.MaxBytes)
	all(m, "take over", func(s queue.Store) (queue.TakeOverResult, error) { return s.TakeOver(m.ctx, r) })
}

// stepRevoke takes leases back, mostly such as there are.
func (m *machine) stepRevoke(c *choices) {
	m.Helper()
	var refs []queue.LeaseRef
	for range 1 + c.below(3) {
		h := m.pickHeld(c)
		ref := queue.LeaseRef{Seq: h.token.Seq}
		switch c.below(4) {
		case 1:
			ref.Fence = h.token.Fence // which may be over, and the message another's
		case 2:
			ref.Owner = h.owner.Name
		}
		refs = append(refs, ref)
	}
	a := m.action()
	m.Logf("  %+v", refs)
	all(m, "revoke", func(s queue.Store) ([]queue.Revoked, error) { return s.Revoke(m.ctx, a, m.policy, refs) })
}

func (m *machine) reclaim(most int) {
	m.Helper()
	r := queue.ReclaimRequest{Now: m.now(), Policy: m.policy, Max: most}
	all(m, "reclaim", func(s queue.Store) ([]queue.Reclaimed, error) { return s.Reclaim(m.ctx, r) })
}

func (m *machine) action() queue.Action {
	return queue.Action{Now: m.now(), By: "olga", Reason: "because"}
}

func (m *machine) stepPause(c *choices) {
	m.Helper()
	pause, a := c.oneIn(3), m.action()
	m.Logf("  pause %v", pause)
	all(m, "pause or resume", func(s queue.Store) (any, error) {
		if pause {
			return nil, s.Pause(m.ctx, a)
		}
		return nil, s.Resume(m.ctx, a)
	})
}

// pickSeqs picks dead letters mostly.
func (m *machine) pickSeqs(c *choices) (seqs []uint64) {
	m.Helper()
	letters, err := m.letters(m.stores[0])
	if err != nil {
		m.Fatalf("dead letters: %v", err)
	}
	for range 1 + c.below(3) {
		if len(letters) == 0 || c.oneIn(5) {
			seqs = append(seqs, uint64(c.below(m.fresh+3)))
		} else {
			seqs = append(seqs, letters[c.below(len(letters))].Seq)
		}
	}
	m.Logf("  %d", seqs)
	return seqs
}

func (m *machine) stepReplay(c *choices) {
	m.Helper()
	seqs, a := m.pickSeqs(c), m.action()
	a.DryRun = c.oneIn(4)
	all(m, "replay", func(s queue.Store) ([]queue.ActionResult, error) { return s.Replay(m.ctx, a, seqs) })
}

func (m *machine) stepDiscard(c *choices) {
	m.Helper()
	seqs, a := m.pickSeqs(c), m.action()
	a.Forget, a.DryRun = c.oneIn(3), c.oneIn(6)
	all(m, "discard", func(s queue.Store) ([]queue.ActionResult, error) { return s.Discard(m.ctx, a, seqs) })
}

func (m *machine) stepKeys(c *choices) {
	m.Helper()
	names := []string{of(c, keys...), of(c, keys...)}[:1+c.below(2)]
	hold, a := c.oneIn(3), m.action()
	a.Waits = c.oneIn(3) // which says nothing to a hold
	m.Logf("  hold %v, waits %v: %s", hold, a.Waits, names)
	all(m, "hold or release keys", func(s queue.Store) ([]queue.ActionResult, error) {
		if hold {
			return s.HoldKeys(m.ctx, a, names)
		}
		return s.ReleaseKeys(m.ctx, a, names)
	})
}

// stepPolicy is a reload of the configuration.
func (m *machine) stepPolicy(c *choices) {
	m.policy.OnDeadLetter = of(c, queue.SkipDead, queue.HoldKey)
	m.policy.MaxAttempts, m.policy.MaxDeliveries = of(c, 3, 1, 2), of(c, 5, 2)
}

func (m *machine) stepNote(c *choices) {
	m.Helper()
	records := []queue.Record{{Event: queue.EventAttached, Worker: of(c, "ui", "post"), Peer: &queue.Peer{UID: 1}}}
	all(m, "note", func(s queue.Store) (any, error) { return nil, s.Note(m.ctx, m.now(), records) })
}

// stepException looks at one message, and for one key.
func (m *machine) stepException(c *choices) {
	m.Helper()
	st, err := m.stores[0].Status(m.ctx, m.now())
	if err != nil {
		m.Fatalf("status: %v", err)
	}
	seq, id := uint64(c.below(int(st.LastSeq)+3)), fmt.Sprintf("k%d", c.below(m.fresh+2))
	all(m, "exception", func(s queue.Store) (out [2]string, err error) {
		x, err := s.Exception(m.ctx, seq)
		found, err2 := s.Find(m.ctx, id)
		return [2]string{fmt.Sprint(x.Seq, x.State, x.TraceID, err != nil), fmt.Sprint(found, err2 != nil)}, nil
	})
	for _, q := range []queue.WhyQuery{{Now: m.now(), Seq: seq}, {Now: m.now(), Key: of(c, keys...)}} {
		all(m, "why", func(s queue.Store) (queue.Standing, error) {
			st, err := s.Why(m.ctx, q)
			if errors.Is(err, queue.ErrNotFound) {
				return queue.Standing{AheadMore: true}, nil
			}
			return st, err
		})
	}
}
