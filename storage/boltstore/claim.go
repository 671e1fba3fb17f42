package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// dueStep is how many scheduled messages get their place in one claim.
const dueStep = 1024

// Claim hands out work; see [queue.Store].
func (s *Store) Claim(ctx context.Context, r queue.ClaimRequest) (queue.ClaimResult, error) {
	var res queue.ClaimResult
	err := s.do(ctx, &operation{apply: func(x *txn) (err error) {
		res, err = x.claim(&r)
		return err
	}})
	if err != nil {
		return queue.ClaimResult{}, err
	}
	return res, nil
}

func (x *txn) claim(r *queue.ClaimRequest) (res queue.ClaimResult, err error) {
	res.Deliveries = make([][]queue.Delivery, len(r.Wants))
	t := x.t
	if t.pause != nil {
		return res, nil
	}
	if err := x.endWaits(r.Now); err != nil {
		return res, err
	}
	if res.More, err = x.promote(r.Now); err != nil {
		return res, err
	}
	if err := x.walk(); err != nil {
		return res, err
	}
	t.starved = false
	for i := range r.Wants {
		g := grant{Want: &r.Wants[i], now: r.Now}
		if err := x.grant(&g, &res); err != nil {
			return res, err
		}
		res.Deliveries[i] = g.out
		t.starved = t.starved || !g.full()
	}
	res.More = res.More || !t.walkedAll && t.roomy()
	res.Next = t.next(r.Now)
	return res, nil
}

// endWaits lets go of the keys whose time has come.
func (x *txn) endWaits(now time.Time) error {
	for _, w := range x.t.waits.due(now) {
		x.t.lift(w.key)
		w.key.wait = nil
		if err := x.forgetWait(w.seq); err != nil {
			return err
		}
		if err := x.settle(w.key); err != nil {
			return err
		}
	}
	return nil
}

// next returns when a claim may find more because time has passed, as a point on
// now's clock, whichever clock the soonest follows; zero if time alone changes
// nothing.
func (t *tables) next(now time.Time) time.Time {
	next := earlier(t.waits.next(now), t.nextDue, now)
	t.asides = slices.DeleteFunc(t.asides, func(k *key) bool { return k.aside == nil || !k.aside.until.After(now) })
	for _, k := range t.asides {
		if k.list != nil {
			next = earlier(next, k.aside.until, now)
		}
	}
	if next.IsZero() {
		return next
	}
	return now.Add(next.Sub(now))
}

// promote gives scheduled messages that are due their place, in one bounded step;
// more says that there are others.
func (x *txn) promote(now time.Time) (more bool, err error) {
	t := x.t
	if t.nextDue.IsZero() || t.nextDue.After(now) {
		return false, nil
	}
	c := x.b.scheduled.Cursor()
	var due [][]byte
	at, _ := c.First()
	for ; at != nil && len(due) < dueStep && !scheduledFor(at).After(now); at, _ = c.Next() {
		due = append(due, bytes.Clone(at))
	}
	t.nextDue = time.Time{}
	if at != nil {
		t.nextDue = scheduledFor(at)
		more = !t.nextDue.After(now)
	}
	for _, at := range due {
		if err := x.fallDue(at, now); err != nil {
			return false, err
		}
	}
	return more, nil
}

// fallDue moves one scheduled message into the order, behind all that has been
// accepted so far.
func (x *txn) fallDue(at []byte, now time.Time) error {
	rec := bytes.Clone(x.b.scheduled.Get(at))
	seq := binary.BigEndian.Uint64(at[8:])
	in, err := x.readable(seq, rec)
	if err != nil {
		return fmt.Errorf("scheduled message %d: %w", seq, err)
	}
	m, err := parseRecord(in)
	if err != nil {
		return fmt.Errorf("scheduled message %d: %w", seq, err)
	}
	c := &x.t.count
	if c.dueSeq != c.lastSeq {
		c.dueSeq, c.dueSub = c.lastSeq, 0
	}
	c.dueSub++
	place := queue.Place{Seq: c.dueSeq, Sub: c.dueSub}
	x.t.scheduled--
	x.t.scheduledWorth.change(worthIn(rec), -1)
	if err := x.b.scheduled.Delete(at); err != nil {
		return err
	}
	if err := x.b.timed.Put(seqKey(m.msg.Seq), place.AppendKey([]byte{timedPlaced})); err != nil {
		return err
	}
	x.record(queue.DueRecord(now, &m.msg, place))
	k := x.t.keyOf(m.key, partition.SlotOf(m.msg.PartitionKey))
	return x.place(k, messageRef{place: place, route: routeByte(m.route), priority: m.priority}, rec)
}

// grant is one want and what it was given so far.
type grant struct {
	*queue.Want
	now   time.Time
	out   []queue.Delivery
	bytes int // of their lines
}

func (g *grant) full() bool { return g.Full(len(g.out), g.bytes) }

// grant fills one want.
func (x *txn) grant(g *grant, res *queue.ClaimResult) error {
	t := x.t
	for p := 0; p < priorities && !g.full(); p++ {
		t.gather(&t.candidates, g.Want, p)
		for !g.full() {
			k := t.candidates.next()
			if k == nil {
				break
			}
			if k.aside != nil && k.aside.owner == g.Owner && k.aside.until.After(g.now) {
				continue
			}
			if err := x.take(k, g); errors.Is(err, queue.ErrDamaged) {
				res.Damaged = append(res.Damaged, queue.Finding{What: err.Error(), Seq: k.damaged})
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// take leases the next messages of a key to the owner of a want. A message that
// cannot be read back ends it: the key is held, nothing overtakes.
func (x *txn) take(k *key, g *grant) error {
	x.t.lift(k)
	k.aside = nil
	n := 0
	var damage error
	for n < len(k.window) && n < g.PerKey && !g.full() && g.Routes.Has(queue.Routes[k.window[n].route]) {
		d, err := x.lease(k, k.window[n], g)
		if errors.Is(err, queue.ErrDamaged) {
			k.damaged, damage = x.damagedAt(k.window[n].place), err
			break
		}
		if err != nil {
			return err
		}
		g.out, g.bytes = append(g.out, d), g.bytes+len(d.Message.Line)
		n++
	}
	k.window = slices.Delete(k.window, 0, n)
	x.t.windowed -= n
	if err := x.settle(k); err != nil {
		return err
	}
	return damage
}

// lease hands one message of a key, which is lifted, to an owner.
func (x *txn) lease(k *key, ref messageRef, g *grant) (d queue.Delivery, err error) {
	m, err := parseRecord(x.b.backlog.Get(ref.place.AppendKey(nil)))
	if err != nil {
		return d, fmt.Errorf("message at place %s: %w", ref.place, err)
	}
	f := x.t.flights[m.msg.Seq]
	if f == nil {
		f = &flight{seq: m.msg.Seq, unanswered: m.past.unanswered}
	}
	f.unanswered = queue.AtLeastUnanswered(f.unanswered, f.seq, x.t.count.restored)
	x.t.count.fence++
	f.ref, f.key, f.owner, f.fence = ref, k, g.Owner, x.t.count.fence
	f.deadline, f.length, f.msg, f.acceptedAt = g.now.Add(g.Lease), g.Lease, m.msg, m.acceptedAt
	f.deliveries++
	f.msg.Line = nil
	k.lend(worthOf(m.msg.Amount, m.msg.Currency))
	d = f.delivery(&m)
	x.record(queue.DispatchedRecord(g.now, &d, f.holding()))
	return d, x.saveFlight(f)
}

// delivery shows a lease as its owner is told of it, with the message as it is stored.
func (f *flight) delivery(m *record) queue.Delivery {
	return queue.Delivery{
		Token: f.token(), Route: m.route, Number: f.deliveries, FailedAttempts: f.failed,
		Redelivered: f.unanswered > 0, AcceptedAt: m.acceptedAt, Deadline: f.deadline, Message: m.msg,
	}
}

// What a timed message's entry begins with: where it lies now.
const (
	timedWaits  = 'w' // then its key in bucket scheduled
	timedPlaced = 'p' // then its key in bucket backlog
)

// scheduleKey is the key of a scheduled message: microseconds since 1970 and seq,
// so that they lie in the order in which they fall due. Times before 1970 are due
// anyway and never come here.
func scheduleKey(notBefore time.Time, seq uint64) []byte {
	k := binary.BigEndian.AppendUint64(make([]byte, 0, 16), uint64(notBefore.UnixMicro()))
	return binary.BigEndian.AppendUint64(k, seq)
}

// scheduledFor is the time in such a key.
func scheduledFor(at []byte) time.Time { return micros(binary.BigEndian.Uint64(at)) }
