package boltstore

import (
	"context"
	"fmt"
	"slices"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// Replay puts dead letters back; see [queue.Store].
func (s *Store) Replay(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	if a.DryRun {
		return s.rehearse(ctx, a, seqs, (*replay).judged)
	}
	var res []queue.ActionResult
	err := s.do(ctx, &operation{apply: func(x *txn) (err error) {
		res, err = x.newReplay(&a).each(seqs, (*replay).done)
		return err
	}})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// rehearse says what a list of dead letters would become, and changes nothing.
func (s *Store) rehearse(ctx context.Context, a queue.Action, seqs []uint64, as replayStep) ([]queue.ActionResult, error) {
	var res []queue.ActionResult
	err := s.look(ctx, func(x *txn) (err error) {
		r := x.newReplay(&a)
		if res, err = r.each(seqs, as); err == nil {
			r.waits(res)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// replay is one list of dead letters being put back, or rehearsed.
type replay struct {
	*txn
	a       *queue.Action
	stopped map[keyHash]*queue.ActionResult // the first of a key that was refused
	put     map[uint64]*key                 // rehearsed: what would be back, and its key; nil if it has none yet
	taken   map[ledger.Key]uint64           // rehearsed: idempotency keys that lines would have taken
}

// replayStep deals with one letter. What it refuses stands in the result.
type replayStep func(*replay, *deadLetter, *record, *queue.ActionResult) error

func (x *txn) newReplay(a *queue.Action) *replay {
	return &replay{txn: x, a: a, stopped: map[keyHash]*queue.ActionResult{}, put: map[uint64]*key{}, taken: map[ledger.Key]uint64{}}
}

// each takes the letters of a list in the order of their ranks. Results are in that of
// the list.
func (r *replay) each(seqs []uint64, step replayStep) ([]queue.ActionResult, error) {
	ranks := make([]queue.Place, len(seqs)) // zero for what is not dead: it has no turn
	order := make([]int, len(seqs))
	for i, seq := range seqs {
		d, ok, err := r.letter(seq)
		if err != nil {
			return nil, err
		}
		if order[i] = i; ok {
			ranks[i] = d.rank()
		}
	}
	slices.SortStableFunc(order, func(i, j int) int { return ranks[i].Compare(ranks[j]) })
	res := make([]queue.ActionResult, len(seqs))
	for _, i := range order {
		if err := r.one(seqs[i], step, &res[i]); err != nil {
			return nil, fmt.Errorf("dead letter %d: %w", seqs[i], err)
		}
	}
	return res, nil
}

// one deals with one letter, unless an earlier one of its key was refused.
func (r *replay) one(seq uint64, step replayStep, res *queue.ActionResult) error {
	res.Seq = seq
	d, ok, err := r.letter(seq)
	if err != nil {
		return err
	}
	if _, again := r.put[seq]; !ok || again {
		*res = notDead(seq)
		return nil
	}
	m, err := parseRecord(d.record)
	if err != nil {
		return err
	}
	if first := r.stopped[m.key]; first != nil {
		res.Stops(first)
		return nil
	}
	if err := step(r, &d, &m, res); err != nil {
		return err
	}
	if res.Code != "" && m.msg.PartitionKey != "" {
		r.stopped[m.key] = res
	}
	return nil
}

// done puts a letter back.
func (r *replay) done(d *deadLetter, m *record, res *queue.ActionResult) error {
	if d.damaged {
		res.Code, res.Error = queue.CodeInternal, refuseDamaged
		return nil
	}
	if d.ordered() {
		res.Place = d.place()
		return r.revive(r.a, d, m)
	}
	parsed, before, err := r.admissible(d, m, res)
	if err != nil || res.Code != "" {
		return err
	}
	if err := r.exhume(d); err != nil {
		return err
	}
	return r.admitReplayed(r.a, d, m, &parsed, before, res)
}

// judged finds out what done would do.
func (r *replay) judged(d *deadLetter, m *record, res *queue.ActionResult) error {
	if d.damaged {
		res.Code, res.Error = queue.CodeInternal, refuseDamaged
		return nil
	}
	hash := m.key
	if d.ordered() {
		res.Place = d.place()
	} else {
		parsed, _, err := r.admissible(d, m, res)
		if err != nil || res.Code != "" {
			return err
		}
		r.taken[ledger.KeyOf(r.t.secret, parsed.IdempotencyKey)] = d.seq
		if hash = hashKey(r.t.secret, parsed.PartitionKey); !parsed.NotBefore.After(r.a.Now) {
			res.Place = queue.Place{Seq: d.seq}
		} else {
			res.Waits = "its not_before"
		}
	}
	r.put[d.seq] = r.t.keys.get(hash)
	return nil
}

// doomed finds out what a discard would do.
func (r *replay) doomed(d *deadLetter, _ *record, _ *queue.ActionResult) error {
	r.put[d.seq] = nil
	return nil
}

// waits says of each letter that would be put back what it would wait for, when all of
// them are.
func (r *replay) waits(res []queue.ActionResult) {
	for i := range res {
		if k := r.put[res[i].Seq]; res[i].Code == "" && !res[i].Place.IsZero() {
			res[i].Waits = r.waitOf(k)
		}
	}
}

// waitOf says what a key would wait for; k is nil if it has nothing yet.
func (r *replay) waitOf(k *key) string {
	switch {
	case r.t.pause != nil:
		return queue.WaitsPaused
	case k == nil:
		return ""
	case k.opHold:
		return queue.WaitsOperator
	case k.damaged != 0:
		return fmt.Sprintf("the stored bytes of seq %d of its key are damaged", k.damaged)
	}
	for _, seq := range k.blockers {
		if _, back := r.put[seq]; !back {
			return fmt.Sprintf("dead letter %d holds its key", seq)
		}
	}
	switch {
	case k.leased > 0:
		f := r.leasesOf(k)[0]
		return fmt.Sprintf("seq %d of its key is leased to %s", f.seq, f.owner.Name)
	case k.wait != nil && k.wait.wall:
		return fmt.Sprintf("hold of seq %d of its key", k.wait.seq)
	case k.wait != nil:
		return fmt.Sprintf("retry of seq %d of its key", k.wait.seq)
	}
	return ""
}

// revive puts a letter that has a place back there.
func (x *txn) revive(a *queue.Action, d *deadLetter, m *record) error {
	m.past.returns++
	m.past.unanswered = d.meta.Unanswered
	rec, err := withPast(d.record, &m.past)
	if err != nil {
		return err
	}
	if err := x.exhume(d); err != nil {
		return err
	}
	x.record(queue.ReplayedRecord(&m.msg, a))
	x.mark(&m.msg, func(e *ledger.Entry) { e.State = ledger.StateOpen })
	return x.putIn(d, m, rec)
}

// putIn puts a dead letter's message back at its own place.
func (x *txn) putIn(d *deadLetter, m *record, rec []byte) error {
	place := d.place()
	if place.Sub != 0 {
		if err := x.b.timed.Put(seqKey(d.seq), place.AppendKey([]byte{timedPlaced})); err != nil {
			return err
		}
	}
	if err := x.b.backlog.Put(place.AppendKey(nil), rec); err != nil {
		return err
	}
	k := x.t.keyOf(m.key, partition.SlotOf(m.msg.PartitionKey))
	x.t.lift(k)
	k.come(place, worthIn(rec))
	x.t.openAges.add(minuteIn(rec), 1)
	k.unblock(d.seq)
	if err := x.rejoin(k, messageRef{place: place, route: routeByte(m.route), priority: m.priority}); err != nil {
		return err
	}
	return x.settle(k)
}

// admissible lets a line that never entered the order go through the gates and the
// ledger again; before is what the ledger has of its idempotency key.
func (r *replay) admissible(d *deadLetter, m *record, res *queue.ActionResult) (parsed queue.Message, before ledger.Entry, err error) {
	l := d.describe(m)
	if parsed = l.Admissible(res); res.Code != "" {
		return parsed, before, nil
	}
	key := ledger.KeyOf(r.t.secret, parsed.IdempotencyKey)
	if before, err = r.recall(key); inDoubt(err) {
		res.Code, res.Error = queue.CodeStorageUnavailable, doubtText
		return parsed, before, nil
	}
	if err != nil {
		return parsed, before, err
	}
	of := r.taken[key]
	if r.t.taken(before) && before.Seq != d.seq {
		of = before.Seq
	}
	if of != 0 {
		res.Code, res.Error = queue.CodeConflict, fmt.Sprintf("its idempotency key is that of seq %d", of)
	}
	return parsed, before, nil
}

// admitReplayed takes a replayed line into the order under its old seq; before is what
// the ledger has of its idempotency key. The line is as old as it was: as far as ages
// go it was accepted when it came.
func (x *txn) admitReplayed(a *queue.Action, d *deadLetter, old *record, m *queue.Message, before ledger.Entry, res *queue.ActionResult) error {
	x.record(queue.ReplayedRecord(&old.msg, a))
	peer := queue.Peer{}
	if a.Peer != nil {
		peer = *a.Peer
	}
	stored := queue.StoredOf(d.seq, m)
	c := d.content(old)
	x.record(queue.AcceptedRecord(a.Now, &stored, m.Route, m.NotBefore, c.LineBytes, c.LineHash, peer))
	e := ledgerEntry(x.t.secret, &stored)
	if e.State = ledger.StateOpen; d.owns() {
		x.remember(e)
	} else {
		x.claimKey(e, before)
	}
	key := hashKey(x.t.secret, m.PartitionKey)
	rec := appendRecord(nil, m, key)
	sealRecord(rec, d.seq, old.acceptedAt)
	old.past.returns++
	rec, err := withPast(rec, &old.past)
	if err != nil {
		return err
	}
	if m.NotBefore.After(a.Now) {
		x.t.openAges.add(minuteIn(rec), 1)
		return x.schedule(d.seq, m.NotBefore, rec)
	}
	res.Place = queue.Place{Seq: d.seq}
	d.meta.Place = res.Place.String()
	r := record{route: m.Route, priority: m.Priority, key: key, msg: stored}
	return x.putIn(d, &r, rec)
}
