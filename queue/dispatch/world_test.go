package dispatch

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"breakwater/queue"
)

// This file is the outside view of the order that is promised (P3, P4, P5): a witness
// between the dispatcher and its store writes down what each said to the other, and
// the handlers and consumers say what they were told. The world holds it all against
// the promise. It knows neither's insides: a call happened at some moment between its
// beginning and its end, and only what no such moment can explain is held to be wrong.
// Who hears of a call may be faster than who made it, so all is looked at when nobody
// is at work (review).

// world is all that was seen.
type world struct {
	inner queue.Store

	mu       sync.Mutex
	tick     uint64 // orders beginnings and ends of calls
	claims   int
	messages map[uint64]*seen
	keys     map[string]*seenKey
	paused   []phase
	prefetch map[queue.Owner]int // of the consumers that are attached
	checks   []func()            // to be made when nobody is at work
	broken   []string
}

func newWorld(inner queue.Store) *world {
	return &world{
		inner: inner, messages: map[uint64]*seen{}, keys: map[string]*seenKey{}, prefetch: map[queue.Owner]int{},
		paused: []phase{{is: free}},
	}
}

// span is from the beginning to the end of a call.
type span struct{ from, to uint64 }

func (p phase) String() string {
	words := map[standing]string{free: "free", lentOut: "leased to " + p.owner.Name, over: "over", blocked: "a dead letter that blocks"}
	return fmt.Sprintf("%s (%d-%d)", words[p.is], p.from, p.to)
}

// standing is how a message stands in its key.
type standing int

const (
	free    standing = iota + 1 // open and not leased; of a key or the claims: not held
	lentOut                     // leased
	over                        // done, discarded, or dead and passed over
	blocked                     // a dead letter that its key waits for; of a key or the claims: held
)

// phase is one standing that began in a call.
type phase struct {
	span
	is       standing
	at       time.Time // when the call ended
	claim    int       // leased: by which claim
	since    uint64    // and when that began
	token    queue.Token
	owner    queue.Owner
	length   time.Duration
	deadline time.Time
	replayed bool // open again by a replay
}

// possible returns the phases that may have been under way in a span: those that no
// other one has wholly replaced before.
func possible(history []phase, in span) (may []phase) {
	for _, x := range history {
		if x.from > in.to {
			continue
		}
		replaced := slices.ContainsFunc(history, func(y phase) bool { return y.from > x.to && y.to < in.from })
		if !replaced {
			may = append(may, x)
		}
	}
	return may
}

// review makes the checks of what has happened since the last one, and forgets what no
// later one can need: of everything, all but what may still last.
func (w *world) review() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, check := range w.checks {
		check()
	}
	w.checks = nil
	w.tick++
	now := span{w.tick, w.tick}
	w.paused = possible(w.paused, now)
	for _, k := range w.keys {
		k.held = possible(k.held, now)
		k.waits = slices.DeleteFunc(k.waits, func(a wait) bool { return !a.until.After(time.Now()) || k.endedSince(&a, now) })
		k.freed = nil
		for i := range k.waits {
			k.waits[i].had = w.hadSince(k, &k.waits[i], w.tick)
		}
	}
	for _, m := range w.messages {
		m.history = possible(m.history, now)
	}
}

// later makes a check when nobody is at work.
func (w *world) later(check func()) { w.checks = append(w.checks, check) }

// seen is a message.
type seen struct {
	seq       uint64
	id, key   string
	scheduled time.Time   // zero: it has had its place from the beginning
	place     queue.Place // zero: not known yet
	history   []phase
	ended     uint64 // fence of the last lease that has ended
	told      uint64 // fence of the last one that somebody was told of
	accepted  bool
	decided   int
}

type seenKey struct {
	messages []*seen
	held     []phase
	waits    []wait
	freed    []span // calls that ended its waits for a time
}

// wait is a time before which a key is not handed out: to one owner, who has put it
// back, until somebody has had it; or to nobody.
type wait struct {
	span
	until time.Time
	owner queue.Owner
	had   bool
}

func (w *world) wrong(format string, args ...any) {
	if len(w.broken) < 20 {
		w.broken = append(w.broken, fmt.Sprintf(format, args...))
	}
}

// begin is the beginning of a call.
func (w *world) begin() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	return w.tick
}

// end locks the world and returns the span of a call that has just ended.
func (w *world) end(from uint64) span {
	w.mu.Lock()
	w.tick++
	return span{from, w.tick}
}

func (w *world) key(name string) *seenKey {
	if w.keys[name] == nil {
		w.keys[name] = &seenKey{held: []phase{{is: free}}}
	}
	return w.keys[name]
}

// message returns what is known of a message. Its claim may be told of before its
// acceptance: whoever heard of that was only slower.
func (w *world) message(seq uint64, id, key string, in span) *seen {
	m := w.messages[seq]
	if m == nil {
		m = &seen{seq: seq, id: id, key: key, history: []phase{{span: span{0, in.to}, is: free}}}
		w.messages[seq] = m
		k := w.key(key)
		k.messages = append(k.messages, m)
	}
	return m
}

// placeOf returns a message's place; zero: it has none yet.
func (w *world) placeOf(m *seen) queue.Place {
	if m.place.IsZero() {
		if x, err := w.inner.Exception(context.Background(), m.seq); err == nil {
			m.place = x.Place
		}
	}
	return m.place
}

// witness is the store as the dispatcher and the operators have it.
type witness struct {
	queue.Store
	w *world
}

func (v witness) Admit(ctx context.Context, r queue.AdmitRequest) (queue.AdmitResult, error) {
	from := v.w.begin()
	res, err := v.Store.Admit(ctx, r)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	for i, rc := range res.Receipts {
		if rc.Status != queue.Accepted {
			continue
		}
		sent := &r.Lines[i].Message
		m := v.w.message(rc.Seq, sent.IdempotencyKey, sent.PartitionKey, in)
		m.accepted = true
		if sent.NotBefore.After(r.Now) {
			m.scheduled = sent.NotBefore
		} else {
			m.place = queue.Place{Seq: rc.Seq}
		}
	}
	return res, err
}

func (v witness) Claim(ctx context.Context, r queue.ClaimRequest) (queue.ClaimResult, error) {
	from := v.w.begin()
	res, err := v.Store.Claim(ctx, r)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	v.w.claims++
	for i, deliveries := range res.Deliveries {
		for n := range deliveries {
			v.w.lease(&deliveries[n], r.Wants[i].Owner, in, r.Now)
		}
		if len(deliveries) > 0 {
			v.w.later(func() { v.w.checkPrefetch(r.Wants[i].Owner, in.to+1, r.Now) })
		}
	}
	return res, err
}

// lease takes in one delivery of a claim.
func (w *world) lease(d *queue.Delivery, o queue.Owner, in span, now time.Time) {
	m := w.message(d.Message.Seq, d.Message.IdempotencyKey, d.Message.PartitionKey, in)
	for _, other := range w.key(m.key).messages {
		w.placeOf(other)
	}
	p := phase{span: in, is: lentOut, at: time.Now(), claim: w.claims, since: in.from, token: d.Token, owner: o, length: d.Deadline.Sub(now), deadline: d.Deadline}
	m.history = append(m.history, p)
	w.later(func() { w.checkClaim(m, &p, now) })
}

// checkClaim holds a lease that was given against the promise.
func (w *world) checkClaim(m *seen, p *phase, now time.Time) {
	k := w.key(m.key)
	if may := possible(m.history, p.span); !slices.ContainsFunc(may, func(p phase) bool { return p.is == free }) {
		w.wrong("%s was handed to %s, and was %v", m.id, p.owner.Name, may)
	}
	if m.scheduled.After(now) {
		w.wrong("%s was handed out %v too soon", m.id, m.scheduled.Sub(now))
	}
	for _, a := range k.waits {
		if a.to < p.from && a.until.After(now) && !k.endedSince(&a, p.span) && (a.owner == queue.Owner{} || a.owner == p.owner && !w.hadSince(k, &a, p.from)) {
			w.wrong("%s was handed to %s %v too soon", m.id, p.owner.Name, a.until.Sub(now))
		}
	}
	for what, held := range map[string][]phase{"its key was held": k.held, "claims were paused": w.paused} {
		if !slices.ContainsFunc(possible(held, p.span), func(p phase) bool { return p.is == free }) {
			w.wrong("%s was handed out while %s", m.id, what)
		}
	}
	for _, other := range k.messages {
		if other == m {
			continue
		}
		before := !other.place.IsZero() && other.place.Less(m.place)
		may := possible(other.history, p.span)
		fine := slices.ContainsFunc(may, func(o phase) bool {
			return o.is == over || o.is == lentOut && o.claim == p.claim && o.owner == p.owner || o.is == free && !before
		})
		if !fine {
			w.wrong("%s (place %v) was handed to %s while %s (place %v) of its key was %v", m.id, m.place, p.owner.Name, other.id, other.place, may)
		}
	}
}

// endedSince reports whether an operator may have ended a wait before a call was over.
func (k *seenKey) endedSince(a *wait, in span) bool {
	return a.owner == queue.Owner{} && slices.ContainsFunc(k.freed, func(s span) bool { return s.to >= a.from && s.from <= in.to })
}

// hadSince reports whether a key may have been leased since it was put back, and before
// a moment.
func (w *world) hadSince(k *seenKey, a *wait, before uint64) bool {
	for _, m := range k.messages {
		for _, x := range m.history {
			if x.is == lentOut && x.to > a.from && x.from < before {
				return true
			}
		}
	}
	return a.had
}

// checkPrefetch counts what a consumer has for sure. A lease that is over and was not
// taken back yet is nothing that it has.
func (w *world) checkPrefetch(o queue.Owner, at uint64, clock time.Time) {
	most, is := w.prefetch[o]
	if !is || o.Kind != queue.Consumer {
		return
	}
	n, now := 0, span{at, at}
	for _, m := range w.messages {
		if holdsForSure(possible(m.history, now), o, clock) {
			n++
		}
	}
	if n > most {
		w.wrong("%s has %d leases and asked for %d", o.Name, n, most)
	}
}

func holdsForSure(may []phase, o queue.Owner, clock time.Time) bool {
	return len(may) > 0 && !slices.ContainsFunc(may, func(p phase) bool {
		return p.is != lentOut || p.owner != o || p.deadline.Before(clock)
	})
}

// restarted is what a start of the store does while nobody is at work: the leases of
// consumers run anew, and who has put a key back may have it again.
func (w *world) restarted() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.messages {
		for i := range m.history {
			m.history[i].deadline = time.Now().Add(m.history[i].length)
		}
	}
	for _, k := range w.keys {
		k.waits = slices.DeleteFunc(k.waits, func(a wait) bool { return a.owner != queue.Owner{} })
	}
}

func (v witness) Settle(ctx context.Context, r queue.SettleRequest) ([]queue.SettleResult, error) {
	from := v.w.begin()
	res, err := v.Store.Settle(ctx, r)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	for i := range res {
		v.w.settled(&r, &r.Settlements[i], &res[i], in)
	}
	return res, err
}

// settled takes in one answer, and whether it was taken as it had to be.
func (w *world) settled(r *queue.SettleRequest, a *queue.Settlement, res *queue.SettleResult, in span) {
	m := w.messages[a.Token.Seq]
	if m == nil {
		if res.Code == "" {
			w.wrong("an answer to seq %d was taken, which was never handed out", a.Token.Seq)
		}
		return
	}
	answer, code := *a, res.Code
	w.later(func() { w.checkAnswer(m, &answer, code, in) })
	if res.Code != "" {
		return
	}
	k, next := w.key(m.key), phase{span: in, is: free, at: time.Now()}
	switch {
	case a.Verb == queue.Ack:
		next.is = over
		m.decided++
	case res.DeadCode != "":
		next.is = dead(r.Policy)
	case a.Verb == queue.Retry:
		k.waits = append(k.waits, wait{span: in, until: r.Now.Add(res.Delay)})
	case a.Verb == queue.Hold:
		k.waits = append(k.waits, wait{span: in, until: a.Until.Truncate(time.Microsecond)})
	case a.Verb == queue.Release && a.Aside > 0:
		k.waits = append(k.waits, wait{span: in, until: r.Now.Add(a.Aside), owner: a.Owner})
	}
	w.endLease(m, a.Token, next)
}

// checkAnswer wants an answer taken if its lease was good, and refused if it was not.
func (w *world) checkAnswer(m *seen, a *queue.Settlement, code queue.Code, in span) {
	good := func(p phase) bool {
		return p.is == lentOut && p.token == a.Token && p.owner == a.Owner && !a.At.After(p.deadline)
	}
	may := possible(m.history, in)
	can := slices.ContainsFunc(may, good)
	sure := len(may) > 0 && !slices.ContainsFunc(may, func(p phase) bool { return !good(p) })
	if code == "" && !can || code != "" && code != queue.CodeUsage && sure {
		w.wrong("an answer of %s to %s got %q, which was %v", a.Owner.Name, m.id, code, may)
	}
}

// dead is how a dead letter stands.
func dead(p queue.Policy) standing {
	if p.OnDeadLetter == queue.SkipDead {
		return over
	}
	return blocked
}

// endLease ends a lease; what was leased behind it by the same claim goes back with
// it, unless the key goes on.
func (w *world) endLease(m *seen, t queue.Token, next phase) {
	claim := 0
	for _, p := range m.history {
		if p.is == lentOut && p.token == t {
			claim = p.claim
		}
	}
	m.history, m.ended = append(m.history, next), t.Fence
	if next.is == over {
		return
	}
	for _, other := range w.key(m.key).messages {
		for _, p := range other.history {
			if p.is == lentOut && p.claim == claim && p.token.Fence > max(t.Fence, other.ended) {
				other.history, other.ended = append(other.history, phase{span: next.span, is: free, at: next.at}), p.token.Fence
				break
			}
		}
	}
}

func (v witness) Extend(ctx context.Context, r queue.ExtendRequest) ([]queue.ExtendResult, error) {
	from := v.w.begin()
	res, err := v.Store.Extend(ctx, r)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	for i := range res {
		m := v.w.messages[r.Tokens[i].Seq]
		if m == nil || res[i].Code != "" {
			continue
		}
		may := possible(m.history, in)
		n := slices.IndexFunc(may, func(p phase) bool {
			return p.is == lentOut && p.token == r.Tokens[i] && p.owner == r.Owner
		})
		if n < 0 {
			v.w.wrong("%s extended its lease of %s, which is %v", r.Owner.Name, m.id, may)
			continue
		}
		p := may[n]
		p.span, p.at, p.length, p.deadline = in, time.Now(), r.Lease, res[i].Deadline
		m.history = append(m.history, p)
	}
	return res, err
}

func (v witness) Reclaim(ctx context.Context, r queue.ReclaimRequest) ([]queue.Reclaimed, error) {
	from := v.w.begin()
	res, err := v.Store.Reclaim(ctx, r)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	for i := range res {
		v.w.takenBack(&res[i], r.Policy, in)
	}
	return res, err
}

func (w *world) takenBack(b *queue.Reclaimed, p queue.Policy, in span) {
	next := phase{span: in, is: free, at: time.Now()}
	if b.DeadCode != "" {
		next.is = dead(p)
	}
	w.endLease(w.messages[b.Token.Seq], b.Token, next)
}

func (v witness) Revoke(ctx context.Context, a queue.Action, p queue.Policy, leases []queue.LeaseRef) ([]queue.Revoked, error) {
	from := v.w.begin()
	res, err := v.Store.Revoke(ctx, a, p, leases)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	for i := range res {
		if res[i].Code == "" {
			v.w.takenBack(&res[i].Reclaimed, p, in)
		}
	}
	return res, err
}

func (v witness) Replay(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	from := v.w.begin()
	res, err := v.Store.Replay(ctx, a, seqs)
	v.w.acted(res, v.w.end(from), phase{is: free, replayed: true})
	return res, err
}

func (v witness) Discard(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	from := v.w.begin()
	res, err := v.Store.Discard(ctx, a, seqs)
	v.w.acted(res, v.w.end(from), phase{is: over})
	return res, err
}

// acted takes in what became of dead letters, and unlocks the world.
func (w *world) acted(res []queue.ActionResult, in span, next phase) {
	defer w.mu.Unlock()
	next.span, next.at = in, time.Now()
	for i := range res {
		if m := w.messages[res[i].Seq]; m != nil && res[i].Code == "" {
			m.history = append(m.history, next)
		}
	}
}

func (v witness) HoldKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error) {
	return v.holds(ctx, a, keys, v.Store.HoldKeys, blocked)
}

func (v witness) ReleaseKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error) {
	return v.holds(ctx, a, keys, v.Store.ReleaseKeys, free)
}

func (v witness) holds(ctx context.Context, a queue.Action, keys []string,
	do func(context.Context, queue.Action, []string) ([]queue.ActionResult, error), is standing,
) ([]queue.ActionResult, error) {
	from := v.w.begin()
	res, err := do(ctx, a, keys)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	for i := range res {
		if res[i].Code == "" {
			k := v.w.key(keys[i])
			k.held = append(k.held, phase{span: in, is: is})
			if is == free && a.Waits {
				k.freed = append(k.freed, in)
			}
		}
	}
	return res, err
}

func (v witness) Pause(ctx context.Context, a queue.Action) error {
	return v.pause(ctx, a, v.Store.Pause, blocked)
}

func (v witness) Resume(ctx context.Context, a queue.Action) error {
	return v.pause(ctx, a, v.Store.Resume, free)
}

func (v witness) pause(ctx context.Context, a queue.Action, do func(context.Context, queue.Action) error, is standing) error {
	from := v.w.begin()
	err := do(ctx, a)
	in := v.w.end(from)
	defer v.w.mu.Unlock()
	v.w.paused = append(v.w.paused, phase{span: in, is: is})
	return err
}

// listener is who is told of a delivery.
type listener int

const (
	toWorker   listener = iota // a handler with effects begins: what stands before it has ended
	toClerk                    // a handler without: what stands before it has ended, or was told of before
	toConsumer                 // a consumer, as the first; it may be told of a lease that ends at this very moment
)

// told is called when somebody is told of a delivery.
func (w *world) told(d *queue.Delivery, who string, as listener) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tick++
	now, in := time.Now(), span{w.tick, w.tick}
	m := w.messages[d.Message.Seq]
	if m == nil {
		w.wrong("%s was told of seq %d, which was never accepted", who, d.Message.Seq)
		return
	}
	w.placeOf(m)
	token := d.Token // who is told may use d again for another one
	w.later(func() {
		w.checkTold(m, token, who, as, in, now)
		m.told = token.Fence
	})
}

func (w *world) checkTold(m *seen, t queue.Token, who string, as listener, in span, now time.Time) {
	var claim phase
	for _, p := range m.history {
		if p.is == lentOut && p.token == t {
			claim = p
		}
	}
	may := possible(m.history, in)
	fine := slices.ContainsFunc(may, func(p phase) bool {
		return p.is == lentOut && p.token == t || as == toConsumer && p.at.Equal(now) && p.is != over
	})
	if !fine || claim.claim == 0 {
		w.wrong("%s was told of %s under a lease that was over: it was %v", who, m.id, may)
		return
	}
	for _, other := range w.key(m.key).messages {
		if other == m || other.place.IsZero() || !other.place.Less(m.place) {
			continue
		}
		may := possible(other.history, in)
		fine := slices.ContainsFunc(may, func(p phase) bool {
			// One that was replayed after this one was leased waits for it.
			return p.is == over || p.is == free && p.replayed && p.to > claim.since ||
				as == toClerk && p.is == lentOut && p.claim == claim.claim && p.token.Fence == other.told
		})
		if !fine {
			w.wrong("%s was told of %s (place %v) while %s (place %v) before it was %v", who, m.id, m.place, other.id, other.place, may)
		}
	}
}

// judge says what is wrong at the end of the day, when everything should be over.
func (w *world) judge() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.messages {
		x, err := w.inner.Exception(context.Background(), m.seq)
		if err != nil {
			w.wrong("%s is lost: %v", m.id, err)
			continue
		}
		switch {
		case !m.accepted:
			w.wrong("%s was handed out and never accepted", m.id)
		case m.decided > 1:
			w.wrong("%s was settled %d times", m.id, m.decided)
		case x.State == queue.Done && m.decided != 1, x.State == queue.Discarded && m.decided != 0:
			w.wrong("%s is %s, and was settled %d times", m.id, x.State, m.decided)
		case x.State != queue.Done && x.State != queue.Discarded:
			w.wrong("%s is still %s: %s", m.id, x.State, x.HeldBy)
		}
	}
	return w.broken
}
