package memstore

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"time"

	"breakwater/queue"
)

// Start takes the store into service: what the last process held goes back, what
// time has passed is made up for, and the keys are filed.
func (s *Store) Start(ctx context.Context, r queue.StartRequest) (queue.StartResult, error) {
	var res queue.StartResult
	err := s.write(ctx, func() {
		res = queue.StartResult{Clean: s.clean}
		if r.Restored {
			s.record(queue.RestoredRecord(&r))
			s.restored = s.lastSeq
			s.paused = &queue.Pause{By: queue.RestorePause, Since: micros(r.Now), Reason: queue.ReclaimRestored}
		}
		s.giveBack(&r, &res)
		s.resumeBackoffs(&r)
		s.configure(&r)
		s.fileAll()
		s.record(queue.StartedRecord(&r, res))
	})
	if err != nil {
		return queue.StartResult{}, err
	}
	return res, nil
}

// giveBack ends the leases of the last process's workers, by the worker's name
// and then by fence: only the first of each was running. A consumer may still be
// at work and keeps its own, for their full length again; not so in a restored
// store, where nobody can know what happened since.
func (s *state) giveBack(r *queue.StartRequest, res *queue.StartResult) {
	leased := s.leased()
	slices.SortStableFunc(leased, func(a, b *message) int { return compareOwners(a.lease.owner, b.lease.owner) })
	first := firstFences(leased)
	for _, m := range leased {
		switch owner := m.lease.owner; {
		case r.Restored:
			s.takeBack(r.Now, m, false, &queue.Settlement{Reason: queue.ReclaimRestored}, r.Policy)
			res.GaveBack++
		case owner.Kind == queue.Consumer:
			m.lease.deadline = r.Now.Add(m.lease.length)
			res.Kept++
		case m.lease.fence == first[owner]:
			res.GaveBack++
			if s.takeBack(r.Now, m, true, &queue.Settlement{Reason: queue.ReclaimCrash}, r.Policy) != "" {
				res.DeadAgain++
			}
		default:
			s.takeBack(r.Now, m, false, &queue.Settlement{Reason: queue.ReclaimUnused}, r.Policy)
			res.GaveBack++
		}
	}
}

// compareOwners orders workers before consumers, then by name and user.
func compareOwners(a, b queue.Owner) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
}

// resumeBackoffs puts the backoffs that were under way on the new process's
// clock. The wall clock may have been set meanwhile: none gets longer than the
// longest there is, and none becomes negative.
func (s *state) resumeBackoffs(r *queue.StartRequest) {
	for _, k := range s.keys {
		if k.wait != nil && k.wait.backoff {
			left := k.wait.due.Sub(micros(r.Now))
			k.wait.due = r.Now.Add(max(0, min(left, r.Policy.RetryMax)))
		}
	}
}

// configure stores the configuration in force and records a change of it.
func (s *state) configure(r *queue.StartRequest) {
	if r.Config == nil {
		return
	}
	if s.config != nil && !bytes.Equal(s.config, r.Config) {
		before, after := json.RawMessage(s.config), r.Config
		if r.Diff != nil {
			before, after = r.Diff(bytes.Clone(s.config), bytes.Clone(r.Config))
		}
		s.record(queue.ConfigRecord(r.Now, before, after, ""))
	}
	s.config = bytes.Clone(r.Config)
}

// SetConfig stores the configuration in force and records what changed.
func (s *Store) SetConfig(ctx context.Context, a queue.Action, config, before, after json.RawMessage) error {
	return s.write(ctx, func() {
		s.record(queue.ReconfiguredRecord(&a, bytes.Clone(before), bytes.Clone(after)))
		s.config = bytes.Clone(config)
	})
}

// fileAll gives the claimable keys their turns, in the order of their heads, and
// numbers the waits likewise: which came first was known to the last process only.
func (s *state) fileAll() {
	var names []string
	for name, k := range s.keys {
		k.filed = false
		if len(k.order) > 0 {
			names = append(names, name)
		} else if !k.waits() {
			delete(s.keys, name) // its last message died with the process
		}
	}
	slices.SortFunc(names, func(a, b string) int { return s.keys[a].order[0].place.Compare(s.keys[b].order[0].place) })
	for _, name := range names {
		if k := s.keys[name]; k.wait != nil {
			s.began++
			k.wait.began = s.began
		}
		s.file(name)
	}
}

// Note adds records of the system to the trail.
func (s *Store) Note(ctx context.Context, now time.Time, records []queue.Record) error {
	return s.write(ctx, func() {
		for _, r := range records {
			r.TS = now
			s.record(r)
		}
	})
}

// Probe proves that the store takes writes.
func (s *Store) Probe(ctx context.Context) error { return s.write(ctx, func() {}) }
