package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"breakwater/queue"
)

// Start takes the store into service; see [queue.Store].
func (s *Store) Start(ctx context.Context, r queue.StartRequest) (queue.StartResult, error) {
	var res queue.StartResult
	err := s.do(ctx, &operation{apply: func(x *txn) (err error) {
		res, err = x.start(&r)
		return err
	}})
	if err != nil {
		return queue.StartResult{}, err
	}
	return res, nil
}

func (x *txn) start(r *queue.StartRequest) (res queue.StartResult, err error) {
	res.Clean = x.b.meta.Get(metaClean) != nil
	for _, mark := range [][]byte{metaClean, metaArchive} {
		if err := x.b.meta.Delete(mark); err != nil {
			return res, err
		}
	}
	if err := x.indexTrail(); err != nil {
		return res, err
	}
	if r.Restored {
		if err := x.restore(r); err != nil {
			return res, err
		}
	}
	if err := x.giveBackAll(r, &res); err != nil {
		return res, err
	}
	if err := x.resumeWaits(r); err != nil {
		return res, err
	}
	if err := x.fileAll(); err != nil {
		return res, err
	}
	if err := x.storeConfig(r); err != nil {
		return res, err
	}
	x.record(queue.StartedRecord(r, res))
	return res, nil
}

// resumeWaits lets backoffs go on where they were: for what was left of them by
// the wall clock, never for longer than a backoff can be, should the clock have
// gone back.
func (x *txn) resumeWaits(r *queue.StartRequest) error {
	for _, f := range x.byWait() {
		until := f.waitUntil
		if !f.waitWall {
			left := max(0, min(until.Sub(r.Now.Round(0)), r.Policy.RetryMax))
			until = r.Now.Add(left)
		}
		f.waitUntil = until
		x.t.waits.start(f.key, f.seq, until, f.waitWall) // it waited before: no count changes
		if err := x.saveFlight(f); err != nil {
			return err
		}
	}
	x.t.waits.sweep()
	return nil
}

// byWait returns the flights that keep their keys waiting, in the order of the
// places of the keys' heads: which wait began first, only the last process knew.
func (x *txn) byWait() (waiting []*flight) {
	heads := map[*key]queue.Place{}
	for _, f := range x.t.flights {
		if !f.waitUntil.IsZero() {
			waiting = append(waiting, f)
			heads[f.key] = x.firstAtHand(f.key)
		}
	}
	for _, f := range x.t.flights {
		if first, ok := heads[f.key]; ok && f.leased() && (first.IsZero() || f.ref.place.Less(first)) {
			heads[f.key] = f.ref.place
		}
	}
	slices.SortFunc(waiting, func(a, b *flight) int { return heads[a.key].Compare(heads[b.key]) })
	return waiting
}

// firstAtHand is the place of a key's first message that is not leased; zero if the
// walk has not come to it.
func (x *txn) firstAtHand(k *key) queue.Place {
	if len(k.window) > 0 {
		return k.window[0].place
	}
	return x.firstParked(k)
}

// restore says that an older state was taken into service, and pauses.
func (x *txn) restore(r *queue.StartRequest) error {
	x.record(queue.RestoredRecord(r))
	x.t.count.restored = x.t.count.lastSeq
	return x.setPause(&queue.Pause{By: queue.RestorePause, Since: micros(uint64(r.Now.UnixMicro())), Reason: queue.ReclaimRestored})
}

// giveBackAll ends the leases of the last process's workers, and of everybody
// after a restore. A consumer's lease runs its full length again.
func (x *txn) giveBackAll(r *queue.StartRequest, res *queue.StartResult) error {
	running := x.running()
	for _, f := range x.byOwner() {
		if f.owner.Kind == queue.Consumer && !r.Restored {
			f.deadline = r.Now.Add(f.length)
			res.Kept++
			if err := x.saveFlight(f); err != nil {
				return err
			}
			continue
		}
		counted, reason := f.fence == running[f.owner], queue.ReclaimCrash
		if r.Restored {
			counted, reason = false, queue.ReclaimRestored
		} else if !counted {
			reason = queue.ReclaimUnused
		}
		back, err := x.takeBack(r.Now, r.Policy, f, counted, &queue.Settlement{Reason: reason})
		if err != nil {
			return err
		}
		res.GaveBack++
		if back.DeadCode != "" {
			res.DeadAgain++
		}
	}
	return nil
}

// byOwner returns the leases by kind and name of their owners, then by fence.
func (x *txn) byOwner() (held []*flight) {
	for _, f := range x.t.flights {
		if f.leased() {
			held = append(held, f)
		}
	}
	slices.SortFunc(held, func(a, b *flight) int {
		return cmp.Or(cmp.Compare(a.owner.Kind, b.owner.Kind), cmp.Compare(a.owner.Name, b.owner.Name),
			cmp.Compare(a.owner.UID, b.owner.UID), cmp.Compare(a.fence, b.fence))
	})
	return held
}

// fileAll gives the keys that can be claimed their turns anew, in the order of
// their heads' places, and brings parked heads to the window, which the load could
// not do in its read-only transaction.
func (x *txn) fileAll() error {
	var all []headAt
	for k := range x.t.keys.all() {
		x.t.unfile(k)
		if k.movable() && (len(k.window) > 0 || k.parked > 0) {
			all = append(all, headAt{place: x.firstAtHand(k), key: k})
		}
	}
	slices.SortFunc(all, func(a, b headAt) int { return a.place.Compare(b.place) })
	for _, head := range all {
		x.t.lift(head.key)
		if err := x.settle(head.key); err != nil {
			return err
		}
	}
	return nil
}

// storeConfig stores the configuration in force and records what it changes.
func (x *txn) storeConfig(r *queue.StartRequest) error {
	if r.Config == nil {
		return nil
	}
	before := bytes.Clone(x.b.meta.Get(metaConfig))
	if bytes.Equal(before, r.Config) {
		return x.b.meta.Put(metaConfigSum, configSum(before))
	}
	if before != nil {
		b, a := json.RawMessage(before), r.Config
		if r.Diff != nil {
			b, a = r.Diff(before, r.Config)
		}
		x.record(queue.ConfigRecord(r.Now, b, a, ""))
	}
	return x.putConfig(r.Config)
}

// putConfig stores a configuration.
func (x *txn) putConfig(config []byte) error {
	if err := x.b.meta.Put(metaConfig, config); err != nil {
		return err
	}
	return x.b.meta.Put(metaConfigSum, configSum(config))
}

// SetConfig stores the configuration in force and records what changed; see
// [queue.Store].
func (s *Store) SetConfig(ctx context.Context, a queue.Action, config, before, after json.RawMessage) error {
	return s.do(ctx, &operation{apply: func(x *txn) error {
		x.record(queue.ReconfiguredRecord(&a, before, after))
		return x.putConfig(config)
	}})
}

// setPause stops claims, or with nil lets them go on.
func (x *txn) setPause(p *queue.Pause) error {
	x.t.pause = p
	if p == nil {
		return x.b.meta.Delete(metaPause)
	}
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("encode the pause: %w", err)
	}
	return x.b.meta.Put(metaPause, b)
}

// Note writes records of the system; see [queue.Store].
func (s *Store) Note(ctx context.Context, now time.Time, records []queue.Record) error {
	return s.do(ctx, &operation{apply: func(x *txn) error {
		for _, r := range records {
			r.TS = now
			x.record(r)
		}
		return nil
	}})
}

// Probe makes one small commit; see [queue.Store].
func (s *Store) Probe(ctx context.Context) error {
	return s.do(ctx, &operation{apply: func(x *txn) error {
		x.dirty = true
		return nil
	}})
}
