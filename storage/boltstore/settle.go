package boltstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// Settle applies answers; see [queue.Store].
func (s *Store) Settle(ctx context.Context, r queue.SettleRequest) ([]queue.SettleResult, error) {
	var res []queue.SettleResult
	err := s.do(ctx, &operation{apply: func(x *txn) (err error) {
		res = make([]queue.SettleResult, len(r.Settlements))
		for i := range r.Settlements {
			if res[i], err = x.answer(&r, &r.Settlements[i]); err != nil {
				return fmt.Errorf("settle seq %d: %w", r.Settlements[i].Token.Seq, err)
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// answer applies one answer, if its token is good.
func (x *txn) answer(r *queue.SettleRequest, a *queue.Settlement) (res queue.SettleResult, err error) {
	res.Seq = a.Token.Seq
	f := x.t.flights[a.Token.Seq]
	if f == nil || !f.leased() || f.fence != a.Token.Fence || f.owner != a.Owner || a.At.After(f.deadline) {
		return res, x.refuse(r.Now, a, &res)
	}
	named := f.msg.Summary()
	res.Message = &named
	if a.Verb == queue.Ack && !queue.ValidOutcome(a.Outcome) {
		res.Code, res.Error = queue.CodeUsage, "an outcome is 1 to 64 of A-Z, 0-9 and _"
		return res, nil
	}
	if a.Unanswered && (a.Verb == queue.Retry || a.Verb == queue.Release) {
		f.unanswered++
	}
	switch a.Verb {
	case queue.Ack:
		return res, x.decide(r.Now, f, a)
	case queue.Retry:
		return res, x.retry(r, f, a, &res)
	case queue.Release:
		return res, x.release(r.Now, f, a)
	case queue.Hold:
		return res, x.hold(r.Now, f, a)
	case queue.Reject:
		res.DeadCode = queue.CodeRejected
		return res, x.kill(r.Now, r.Policy, f, queue.CodeRejected, a)
	}
	res.Code, res.Error = queue.CodeUsage, "no such answer"
	return res, nil
}

// refuse answers for a lease that is not the owner's (any more): nothing changes,
// but the trail says that it was tried.
func (x *txn) refuse(now time.Time, a *queue.Settlement, res *queue.SettleResult) error {
	seq := a.Token.Seq
	res.Code, res.Error = queue.CodeExpired, "the lease is over; the message may be with another by now"
	if seq == 0 || seq > x.t.count.lastSeq {
		return nil
	}
	if _, rec := x.locate(seq); rec == nil {
		res.Code, res.Error = queue.CodeAlreadySettled, "the message is settled"
	}
	msg, known, err := x.stored(seq)
	if err != nil {
		return err
	}
	if known {
		named := msg.Summary()
		res.Message = &named
	}
	x.record(queue.RefusedRecord(now, &msg, res.Code, a))
	return nil
}

// stored reads a message that is open or dead; of any other it returns what is remembered,
// false if that is no more than its seq.
func (x *txn) stored(seq uint64) (msg queue.Stored, ok bool, err error) {
	_, rec := x.locate(seq)
	if rec == nil {
		d, ok, err := x.letter(seq)
		if err != nil || !ok {
			over, known := x.ended.Find(seq)
			return over, known, err
		}
		rec = d.record
	}
	if rec, err = x.readable(seq, rec); err != nil {
		return msg, false, fmt.Errorf("message %d: %w", seq, err)
	}
	m, err := parseRecord(rec)
	if err != nil {
		return msg, false, fmt.Errorf("message %d: %w", seq, err)
	}
	return m.msg, true, nil
}

// decide settles a message for good (P3): it leaves the order, the ledger and the
// trail say how.
func (x *txn) decide(now time.Time, f *flight, a *queue.Settlement) error {
	x.record(queue.DecidedRecord(now, &f.msg, f.holding(), a))
	x.ended.Add(&f.msg)
	x.t.count.done++
	x.mark(&f.msg, func(e *ledger.Entry) {
		e.State, e.Outcome, e.SettledAt = ledger.StateDone, a.Outcome, now.UnixMicro()
	})
	return x.leave(f)
}

// mark writes a new state of a message's idempotency key. The entry is made anew
// from the message, which costs less than to look the old one up.
func (x *txn) mark(m *queue.Stored, change func(*ledger.Entry)) {
	e := ledgerEntry(x.t.secret, m)
	change(&e)
	x.remember(e)
}

// ledgerEntry is what the ledger keeps of a message, as yet without a state.
func ledgerEntry(secret [32]byte, m *queue.Stored) ledger.Entry {
	return ledger.Entry{
		Key:         ledger.KeyOf(secret, m.IdempotencyKey),
		Fingerprint: fingerprint(m.SourceHash, m.Currency, m.PartitionKey),
		Members:     digestsOf(m),
		Seq:         m.Seq,
	}
}

// leave takes a leased message out of the order.
func (x *txn) leave(f *flight) error {
	if err := x.unplace(f.ref.place, f.seq); err != nil {
		return err
	}
	x.ends(f)
	delete(x.t.standIns, f.seq)
	w := worthOf(f.msg.Amount, f.msg.Currency)
	x.t.openAges.add(queue.Minute(f.acceptedAt), -1)
	x.t.lift(f.key)
	f.key.unlend(w)
	f.key.leave(w)
	f.owner = queue.Owner{}
	delete(x.t.flights, f.seq)
	if err := x.b.flight.Delete(seqKey(f.seq)); err != nil {
		return err
	}
	return x.settle(f.key)
}

// unplace deletes a message's record.
func (x *txn) unplace(p queue.Place, seq uint64) error {
	if p.Sub != 0 {
		if err := x.b.timed.Delete(seqKey(seq)); err != nil {
			return err
		}
	}
	return x.b.backlog.Delete(p.AppendKey(nil))
}

// retry counts a failure: the key waits, or the message is dead.
func (x *txn) retry(r *queue.SettleRequest, f *flight, a *queue.Settlement, res *queue.SettleResult) error {
	f.failed++
	if code := exhausted(r.Policy, f); code != "" {
		x.record(queue.RetriedRecord(r.Now, &f.msg, f.holding(), a, time.Time{}))
		res.DeadCode = code
		return x.kill(r.Now, r.Policy, f, code, &queue.Settlement{Reason: a.Reason})
	}
	res.Delay = r.Policy.RetryDelay(f.failed, a.Random, a.After)
	until := r.Now.Add(res.Delay)
	x.record(queue.RetriedRecord(r.Now, &f.msg, f.holding(), a, until))
	return x.putBack(r.Now, f, until, false)
}

// exhausted names the limit that a message has reached after a failure.
func exhausted(p queue.Policy, f *flight) queue.Code {
	switch {
	case f.failed >= p.MaxAttempts:
		return queue.CodeAttemptsExhausted
	case f.deliveries >= p.MaxDeliveries:
		return queue.CodeDeliveriesExhausted
	}
	return ""
}

// release puts a message back as if it had not been handed out.
func (x *txn) release(now time.Time, f *flight, a *queue.Settlement) error {
	x.record(queue.ReleasedRecord(now, &f.msg, f.holding(), a))
	f.deliveries--
	if a.Aside > 0 {
		f.key.aside = &aside{owner: f.owner, until: now.Add(a.Aside)}
		x.t.asides = append(x.t.asides, f.key)
	}
	return x.putBack(now, f, moment{}, false)
}

// hold makes the key wait until a time on the wall clock.
func (x *txn) hold(now time.Time, f *flight, a *queue.Settlement) error {
	x.record(queue.HeldRecord(now, &f.msg, f.holding(), a))
	f.deliveries--
	until := a.Until.Round(0)
	if !until.After(now) {
		until = moment{}
	}
	return x.putBack(now, f, until, true)
}

// putBack ends a lease: the message waits at its place, and its key until a time,
// if one is given. The later leases of the key go back with it: order before
// progress.
func (x *txn) putBack(now time.Time, f *flight, until moment, wall bool) error {
	if err := x.putBackAfter(now, f); err != nil {
		return err
	}
	k := f.key
	x.t.lift(k)
	if err := x.unlease(f); err != nil {
		return err
	}
	if err := x.startWait(now, f, until, wall); err != nil {
		return err
	}
	if err := x.saveFlight(f); err != nil {
		return err
	}
	return x.settle(k)
}

// startWait makes the key of a message wait, unless it waits for longer already
// because of another of its messages: of two times the later counts. A wait is
// stored in one flight, so that of the other forgets it. The key must be lifted.
func (x *txn) startWait(now time.Time, f *flight, until moment, wall bool) error {
	w := f.key.wait
	if until.IsZero() || w != nil && w.until.Sub(now) >= until.Sub(now) {
		return nil
	}
	if w != nil {
		if err := x.forgetWait(w.seq); err != nil {
			return err
		}
	}
	f.waitUntil, f.waitWall = until, wall
	x.t.waits.start(f.key, f.seq, until, wall)
	return nil
}

// endWait ends the wait of a key before its time. The key must be lifted.
func (x *txn) endWait(k *key) error {
	seq := k.wait.seq
	x.t.waits.end(k)
	return x.forgetWait(seq)
}

// forgetWait removes a wait from the flight that stores it.
func (x *txn) forgetWait(seq uint64) error {
	f := x.t.flights[seq]
	if f == nil || f.waitUntil.IsZero() {
		return nil
	}
	x.ends(f)
	f.waitUntil = time.Time{}
	x.dirty = true
	return x.saveFlight(f)
}

// unlease makes a message claimable as far as it goes; the key must be lifted.
func (x *txn) unlease(f *flight) error {
	x.ends(f)
	f.key.unlend(worthOf(f.msg.Amount, f.msg.Currency))
	f.owner, f.fence, f.msg = queue.Owner{}, 0, queue.Stored{}
	f.deadline, f.length = moment{}, 0
	return x.rejoin(f.key, f.ref)
}

// putBackAfter puts back, uncounted, every lease of f's key that comes after it.
func (x *txn) putBackAfter(now time.Time, f *flight) error {
	others := f.key.leased
	if f.leased() {
		others--
	}
	if others == 0 {
		return nil
	}
	for _, g := range x.leasesOf(f.key) {
		if !f.ref.place.Less(g.ref.place) {
			continue
		}
		x.record(queue.ReleasedRecord(now, &g.msg, g.holding(), &queue.Settlement{Reason: queue.PutBack}))
		g.deliveries--
		x.t.lift(g.key)
		if err := x.unlease(g); err != nil {
			return err
		}
		if err := x.saveFlight(g); err != nil {
			return err
		}
		if err := x.settle(g.key); err != nil {
			return err
		}
	}
	return nil
}

// leasesOf returns the leases of a key in the order of their places. It looks
// through all that is in flight; only the rare ways of an answer need it.
func (x *txn) leasesOf(k *key) (held []*flight) {
	for _, f := range x.t.flights {
		if f.key == k && f.leased() {
			held = append(held, f)
		}
	}
	slices.SortFunc(held, func(a, b *flight) int { return a.ref.place.Compare(b.ref.place) })
	return held
}

// kill makes a leased message a dead letter, and when it blocks its key puts back
// what was leased behind it.
func (x *txn) kill(now time.Time, p queue.Policy, f *flight, code queue.Code, a *queue.Settlement) error {
	if err := x.die(now, p, f, code, a); err != nil || p.OnDeadLetter != queue.HoldKey {
		return err
	}
	return x.putBackAfter(now, f)
}

// die makes a leased message a dead letter.
func (x *txn) die(now time.Time, p queue.Policy, f *flight, code queue.Code, a *queue.Settlement) error {
	blocks := p.OnDeadLetter == queue.HoldKey
	x.record(queue.DeadLetteredRecord(now, &f.msg, f.holding(), code, p, a))
	rec := x.b.backlog.Get(f.ref.place.AppendKey(nil))
	in, err := x.readable(f.seq, rec)
	if err != nil {
		return err
	}
	m, err := parseRecord(in)
	if err != nil {
		return err
	}
	sent := m.sent()
	s, damaged := x.t.standIns[f.seq]
	if damaged {
		sent = sentLine{hash: s.told.LineHash, bytes: s.told.LineBytes}
	}
	d := deadLetter{damaged: damaged, seq: f.seq, line: sent.hash, record: append([]byte(nil), rec...), meta: deadMeta{
		Code: code, Reason: a.Reason, Place: f.ref.place.String(), DeadAt: micros(uint64(now.UnixMicro())),
		LineBytes: sent.bytes, Deliveries: f.deliveries, FailedAttempts: f.failed, Unanswered: f.unanswered,
	}}
	if blocks {
		d.flags |= deadBlocks
	}
	if m.past.edited {
		d.flags |= deadEdited
	}
	if err := x.bury(&d); err != nil {
		return err
	}
	x.mark(&f.msg, func(e *ledger.Entry) { e.State = ledger.StateDead })
	if blocks {
		x.t.lift(f.key)
		f.key.blockers = append(f.key.blockers, f.seq)
		x.t.countKey(f.key, 1)
	}
	return x.leave(f)
}
