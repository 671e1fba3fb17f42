package boltstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"breakwater/queue"
)

// Extend renews leases; see [queue.Store].
func (s *Store) Extend(ctx context.Context, r queue.ExtendRequest) ([]queue.ExtendResult, error) {
	var res []queue.ExtendResult
	op := &operation{apply: func(x *txn) (err error) {
		res = make([]queue.ExtendResult, len(r.Tokens))
		for i, token := range r.Tokens {
			if res[i], err = x.extend(&r, token); err != nil {
				return err
			}
		}
		return nil
	}}
	// A worker's lease is renewed in memory: the next start gives it back anyway.
	op.read = r.Owner.Kind == queue.Worker
	if err := s.do(ctx, op); err != nil {
		return nil, err
	}
	return res, nil
}

func (x *txn) extend(r *queue.ExtendRequest, token queue.Token) (res queue.ExtendResult, err error) {
	res.Seq = token.Seq
	f := x.t.flights[token.Seq]
	if f == nil || !f.leased() || f.fence != token.Fence || f.owner != r.Owner || r.Now.After(f.deadline) {
		res.Code = queue.CodeExpired
		if _, rec := x.locate(token.Seq); rec == nil && token.Seq > 0 && token.Seq <= x.t.count.lastSeq {
			res.Code = queue.CodeAlreadySettled
		}
		return res, nil
	}
	f.deadline, f.length = r.Now.Add(r.Lease), r.Lease
	res.Deadline = f.deadline
	if r.Owner.Kind == queue.Worker {
		return res, nil
	}
	x.record(queue.ExtendedRecord(r.Now, &f.msg, f.holding(), f.deadline, r.Peer))
	return res, x.saveFlight(f)
}

// Reclaim takes back expired leases; see [queue.Store].
func (s *Store) Reclaim(ctx context.Context, r queue.ReclaimRequest) ([]queue.Reclaimed, error) {
	var res []queue.Reclaimed
	err := s.do(ctx, &operation{apply: func(x *txn) (err error) {
		res = nil
		running := x.running()
		for _, f := range x.expired(r.Now) {
			if !f.leased() || len(res) == r.Max {
				continue // put back with an earlier one of its key, or for the next call
			}
			counted := f.owner.Kind == queue.Consumer || f.fence == running[f.owner]
			back, err := x.reclaim(r.Now, r.Policy, f, counted, &queue.Settlement{Reason: queue.ReclaimExpired})
			if err != nil {
				return err
			}
			res = append(res, back)
		}
		return nil
	}})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// expired returns the leases whose deadline lies before now, ordered by deadline.
// It looks through what is in flight, which is bounded by what owners may hold.
func (x *txn) expired(now time.Time) (over []*flight) {
	for _, f := range x.t.flights {
		if f.leased() && f.deadline.Before(now) {
			over = append(over, f)
		}
	}
	slices.SortFunc(over, func(a, b *flight) int {
		return cmp.Or(a.deadline.Compare(b.deadline), cmp.Compare(a.fence, b.fence))
	})
	return over
}

// running returns the first fence of each owner: a worker runs what it holds in
// that order, so only that one can have been running.
func (x *txn) running() map[queue.Owner]uint64 {
	first := map[queue.Owner]uint64{}
	for _, f := range x.t.flights {
		if at, ok := first[f.owner]; f.leased() && (!ok || f.fence < at) {
			first[f.owner] = f.fence
		}
	}
	return first
}

// reclaim takes one lease back, and with it those of its key that come after it.
func (x *txn) reclaim(now time.Time, p queue.Policy, f *flight, counted bool, why *queue.Settlement) (queue.Reclaimed, error) {
	back, err := x.takeBack(now, p, f, counted, why)
	if err != nil || back.DeadCode != "" && p.OnDeadLetter != queue.HoldKey {
		return back, err
	}
	return back, x.putBackAfter(now, f)
}

// takeBack ends one lease that nobody answered. A delivery that counts may have
// been the last; one that does not is as if it had never been.
func (x *txn) takeBack(now time.Time, p queue.Policy, f *flight, counted bool, why *queue.Settlement) (queue.Reclaimed, error) {
	back := queue.Reclaimed{Token: f.token(), Owner: f.owner, Counted: counted, Message: f.msg.Summary()}
	if counted {
		f.unanswered++
	}
	x.record(queue.ReclaimedRecord(now, &f.msg, f.holding(), counted, why))
	if counted && f.deliveries >= p.MaxDeliveries {
		back.DeadCode = queue.CodeDeliveriesExhausted
		return back, x.die(now, p, f, back.DeadCode, why)
	}
	if !counted {
		f.deliveries--
	}
	x.t.lift(f.key)
	if err := errors.Join(x.unlease(f), x.saveFlight(f)); err != nil {
		return back, err
	}
	return back, x.settle(f.key)
}
