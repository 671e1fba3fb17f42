package boltstore

import (
	"cmp"
	"context"
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
		refused := queue.SettleResult{}
		a := queue.Settlement{Token: token, Owner: r.Owner, Peer: r.Peer}
		if r.Owner.Kind == queue.Consumer {
			err = x.refuse(r.Now, &a, &refused)
		}
		res.Code = cmp.Or(refused.Code, queue.CodeExpired)
		return res, err
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
		for _, f := range x.expired(r.Now, r.Max) {
			if !f.leased() {
				continue // put back with an earlier one of its key
			}
			counted := f.owner.Kind == queue.Consumer || x.running(f)
			back, err := x.reclaim(r.Now, r.Policy, f, counted, queue.ReclaimExpired)
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

// expired returns the leases whose deadline lies before now, at most most, ordered
// by deadline. It looks through what is in flight, which is bounded by what owners
// may hold.
func (x *txn) expired(now time.Time, most int) (over []*flight) {
	for _, f := range x.t.flights {
		if f.leased() && f.deadline.Before(now) {
			over = append(over, f)
		}
	}
	slices.SortFunc(over, func(a, b *flight) int {
		return cmp.Or(cmp.Compare(a.deadline.UnixMicro(), b.deadline.UnixMicro()), cmp.Compare(a.fence, b.fence))
	})
	return over[:min(len(over), most)]
}

// running reports whether f is the first lease of its worker: a worker runs what
// it holds in order, so only that one can have been running.
func (x *txn) running(f *flight) bool {
	for _, g := range x.t.flights {
		if g.leased() && g.owner == f.owner && g.fence < f.fence {
			return false
		}
	}
	return true
}

// reclaim takes one lease back.
func (x *txn) reclaim(now time.Time, p queue.Policy, f *flight, counted bool, reason string) (queue.Reclaimed, error) {
	back := queue.Reclaimed{Token: f.token(), Owner: f.owner, Counted: counted, Message: f.msg.Summary()}
	if counted {
		f.unanswered++
	}
	x.record(queue.ReclaimedRecord(now, &f.msg, f.holding(), counted, reason))
	if counted && f.deliveries >= p.MaxDeliveries {
		back.DeadCode = queue.CodeDeliveriesExhausted
		return back, x.die(now, p, f, back.DeadCode, reason)
	}
	if !counted {
		f.deliveries--
	}
	return back, x.putBack(now, f, moment{}, false)
}
