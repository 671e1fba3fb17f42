package boltstore

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// Pause stops claims; see [queue.Store].
func (s *Store) Pause(ctx context.Context, a queue.Action) error {
	return s.do(ctx, &operation{apply: func(x *txn) error {
		if x.t.pause != nil {
			return nil
		}
		x.record(queue.PauseRecord(queue.EventPaused, &a))
		return x.setPause(&queue.Pause{By: a.By, Since: micros(uint64(a.Now.UnixMicro())), Reason: a.Reason})
	}})
}

// Resume lets claims go on; see [queue.Store].
func (s *Store) Resume(ctx context.Context, a queue.Action) error {
	return s.do(ctx, &operation{apply: func(x *txn) error {
		if x.t.pause == nil {
			return nil
		}
		x.record(queue.PauseRecord(queue.EventResumed, &a))
		return x.setPause(nil)
	}})
}

// each applies an operator's action to the elements of a list.
func each[E, R any](ctx context.Context, s *Store, list []E, act func(*txn, E) (R, error)) ([]R, error) {
	var res []R
	err := s.do(ctx, &operation{apply: func(x *txn) (err error) {
		res = make([]R, len(list))
		for i, e := range list {
			if res[i], err = act(x, e); err != nil {
				return err
			}
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Replay puts dead letters back; see [queue.Store].
func (s *Store) Replay(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	return each(ctx, s, seqs, func(x *txn, seq uint64) (queue.ActionResult, error) { return x.replay(&a, seq) })
}

// Discard ends dead letters; see [queue.Store].
func (s *Store) Discard(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	return each(ctx, s, seqs, func(x *txn, seq uint64) (queue.ActionResult, error) { return x.discard(&a, seq) })
}

// HoldKeys makes keys wait; see [queue.Store].
func (s *Store) HoldKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error) {
	return each(ctx, s, keys, func(x *txn, key string) (queue.ActionResult, error) { return x.holdKey(&a, key) })
}

// ReleaseKeys undoes HoldKeys; see [queue.Store].
func (s *Store) ReleaseKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error) {
	return each(ctx, s, keys, func(x *txn, key string) (queue.ActionResult, error) { return x.releaseKey(&a, key) })
}

// notDead is the result for a seq that is no dead letter.
func notDead(seq uint64) queue.ActionResult {
	return queue.ActionResult{Seq: seq, Code: queue.CodeNotFound, Error: "it is not a dead letter"}
}

// replay puts one dead letter back.
func (x *txn) replay(a *queue.Action, seq uint64) (queue.ActionResult, error) {
	d, ok, err := x.letter(seq)
	if err != nil || !ok {
		return notDead(seq), err
	}
	if !d.ordered() {
		return x.replayLine(a, &d)
	}
	m, err := parseRecord(d.record)
	if err != nil {
		return queue.ActionResult{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	m.past.returns++
	rec, err := withPast(d.record, &m.past)
	if err != nil {
		return queue.ActionResult{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if err := x.exhume(&d); err != nil {
		return queue.ActionResult{}, err
	}
	x.record(queue.ReplayedRecord(&m.msg, a))
	x.mark(&m.msg, func(e *ledger.Entry) { e.State = ledger.StateOpen })
	return queue.ActionResult{Seq: seq}, x.putIn(&d, &m, rec)
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
	k.open++
	k.unblock(d.seq)
	if err := x.rejoin(k, messageRef{place: place, route: routeByte(m.route), priority: m.priority}); err != nil {
		return err
	}
	return x.settle(k)
}

// replayLine lets a line that never entered the order go through the gates and
// the ledger again.
func (x *txn) replayLine(a *queue.Action, d *deadLetter) (queue.ActionResult, error) {
	refused := func(code queue.Code, why string) (queue.ActionResult, error) {
		return queue.ActionResult{Seq: d.seq, Code: code, Error: why}, nil
	}
	edited := d.flags&deadEdited != 0
	if d.flags&deadDiffers != 0 && !edited {
		return refused(queue.CodeConflict, "its idempotency key is another message's: edit it to a key of its own first")
	}
	if d.flags&deadCut != 0 && !edited {
		return refused(queue.CodeUsage, "only the first bytes of its line are kept")
	}
	old, err := parseRecord(d.record)
	if err != nil {
		return queue.ActionResult{}, fmt.Errorf("dead letter %d: %w", d.seq, err)
	}
	m, err := queue.ParseLine(old.msg.Line)
	if err != nil {
		return refused(queue.CodePoison, err.Error())
	}
	e, err := x.recall(ledger.KeyOf(x.t.secret, m.IdempotencyKey))
	if err != nil {
		return queue.ActionResult{}, err
	}
	if x.t.taken(e) && e.Seq != d.seq {
		return refused(queue.CodeConflict, fmt.Sprintf("its idempotency key is that of seq %d", e.Seq))
	}
	if err := x.exhume(d); err != nil {
		return queue.ActionResult{}, err
	}
	return queue.ActionResult{Seq: d.seq}, x.admitReplayed(a, d, &old, &m, e)
}

// admitReplayed takes a replayed line into the order under its old seq; before is what
// the ledger has of its idempotency key.
func (x *txn) admitReplayed(a *queue.Action, d *deadLetter, old *record, m *queue.Message, before ledger.Entry) error {
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
	sealRecord(rec, d.seq, a.Now)
	old.past.returns++
	rec, err := withPast(rec, &old.past)
	if err != nil {
		return fmt.Errorf("dead letter %d: %w", d.seq, err)
	}
	if m.NotBefore.After(a.Now) {
		return x.schedule(d.seq, m.NotBefore, rec)
	}
	d.meta.Place = queue.Place{Seq: d.seq}.String()
	r := record{route: m.Route, priority: m.Priority, key: key, msg: stored}
	return x.putIn(d, &r, rec)
}

// discard ends one dead letter.
func (x *txn) discard(a *queue.Action, seq uint64) (queue.ActionResult, error) {
	d, ok, err := x.letter(seq)
	if err != nil || !ok {
		return notDead(seq), err
	}
	m, err := parseRecord(d.record)
	if err != nil {
		return queue.ActionResult{}, fmt.Errorf("dead letter %d: %w", seq, err)
	}
	if err := x.exhume(&d); err != nil {
		return queue.ActionResult{}, err
	}
	x.record(queue.DiscardedRecord(&m.msg, d.meta.Code, a))
	x.t.count.discarded++
	res := queue.ActionResult{Seq: seq}
	if !d.owns() {
		return res, nil
	}
	x.mark(&m.msg, func(e *ledger.Entry) {
		e.State, e.SettledAt = ledger.StateDiscarded, a.Now.UnixMicro()
		if a.Forget {
			e.State = ledger.StateForgotten
		}
	})
	if !d.ordered() {
		return res, nil
	}
	k := x.t.keyOf(m.key, partition.SlotOf(m.msg.PartitionKey))
	x.t.lift(k)
	k.unblock(seq)
	return res, x.settle(k)
}

// keyHold is what bucket held keeps of an operator's hold.
type keyHold struct {
	By     string    `json:"by,omitempty"`
	Reason string    `json:"reason,omitempty"`
	Since  time.Time `json:"since"`
}

// holdKey makes one key wait. Holding what is held changes nothing.
func (x *txn) holdKey(a *queue.Action, name string) (queue.ActionResult, error) {
	res := queue.ActionResult{Key: name}
	if name == "" || len(name) > queue.MaxPartitionKey {
		res.Code, res.Error = queue.CodeUsage, "a partition key has 1 to 256 bytes"
		return res, nil
	}
	k := x.t.keyOf(hashKey(x.t.secret, name), partition.SlotOf(name))
	if k.opHold {
		return res, nil
	}
	b, err := json.Marshal(keyHold{By: a.By, Reason: a.Reason, Since: micros(uint64(a.Now.UnixMicro()))})
	if err != nil {
		return res, fmt.Errorf("encode the hold: %w", err)
	}
	if err := x.b.held.Put([]byte(name), b); err != nil {
		return res, err
	}
	x.record(queue.KeyRecord(queue.EventKeyHeld, name, a))
	x.t.lift(k)
	k.opHold = true
	return res, x.settle(k)
}

// releaseKey ends one operator's hold, and nothing else that the key waits for.
func (x *txn) releaseKey(a *queue.Action, name string) (queue.ActionResult, error) {
	res := queue.ActionResult{Key: name}
	k := x.t.keys[hashKey(x.t.secret, name)]
	if k == nil || !k.opHold {
		res.Code, res.Error = queue.CodeNotFound, "no operator holds this key"
		return res, nil
	}
	if err := x.b.held.Delete([]byte(name)); err != nil {
		return res, err
	}
	x.record(queue.KeyRecord(queue.EventKeyReleased, name, a))
	x.t.lift(k)
	k.opHold = false
	return res, x.settle(k)
}
