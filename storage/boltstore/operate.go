package boltstore

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

// Discard ends dead letters; see [queue.Store].
func (s *Store) Discard(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	if a.DryRun {
		return s.rehearse(ctx, a, seqs, (*replay).doomed)
	}
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
	x.ended.Add(&m.msg)
	x.record(queue.DiscardedRecord(&m.msg, d.meta.Code, d.owns(), a))
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
	hash := hashKey(x.t.secret, name)
	if k := x.t.keys.get(hash); k != nil && k.opHold {
		return res, nil
	}
	if len(x.t.holds) >= queue.MaxHeldKeys {
		res.Code, res.Error = queue.CodeSaturated, queue.TooManyHolds
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
	k := x.t.keyOf(hash, partition.SlotOf(name))
	x.t.lift(k)
	k.opHold = true
	x.t.holds[hash] = strings.Clone(name)
	return res, x.settle(k)
}

// releaseKey ends one operator's hold, and if the action says so the time that the key
// waits for; never what else it waits for.
func (x *txn) releaseKey(a *queue.Action, name string) (queue.ActionResult, error) {
	res := queue.ActionResult{Key: name}
	k := x.t.keys.get(hashKey(x.t.secret, name))
	if k != nil {
		res.Wait = x.waitOf(k)
		if len(k.blockers) > 0 {
			res.Letter = slices.Min(k.blockers)
		}
	}
	ends := a.Waits && res.Wait != nil
	if k == nil || !k.opHold && !ends {
		res.Code, res.Error = queue.CodeNotFound, queue.NotHeldText(a)
		return res, nil
	}
	r := queue.KeyRecord(queue.EventKeyReleased, name, a)
	if ends {
		msg, _, err := x.stored(res.Wait.Seq)
		if err != nil {
			return res, err
		}
		r = queue.WaitEndedRecord(&msg, res.Wait, a)
	}
	x.record(r)
	x.t.lift(k)
	if k.opHold {
		if err := x.b.held.Delete([]byte(name)); err != nil {
			return res, err
		}
		k.opHold = false
		delete(x.t.holds, k.hash)
	}
	if ends {
		if err := x.endWait(k); err != nil {
			return res, err
		}
	}
	return res, x.settle(k)
}
