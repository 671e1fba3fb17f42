package boltstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"breakwater/queue"
)

// This file is about leases as such: who holds what, what comes back to a consumer
// that has lost its connection, and what an operator takes away.

// Leases lists what is leased; see [queue.Reader]. It looks through what is in
// flight, as Reclaim does every second.
func (s *Store) Leases(ctx context.Context, after uint64, limit int) (list []queue.Lease, err error) {
	limit = min(limit, MaxPage)
	err = s.look(ctx, func(x *txn) error {
		held := x.leases(func(f *flight) bool { return f.seq > after })
		slices.SortFunc(held, func(a, b *flight) int { return cmp.Compare(a.seq, b.seq) })
		list = nil
		for _, f := range held[:max(0, min(len(held), limit))] {
			list = append(list, queue.Lease{
				Token: f.token(), Owner: f.owner, Route: queue.Routes[f.ref.route], Number: f.deliveries,
				Since: wall(f.deadline.Add(-f.length)), Deadline: wall(f.deadline), Message: f.msg,
			})
		}
		return nil
	})
	return list, err
}

// leases returns the flights that somebody holds and that are wanted.
func (x *txn) leases(wanted func(*flight) bool) (held []*flight) {
	for _, f := range x.t.flights {
		if f.leased() && wanted(f) {
			held = append(held, f)
		}
	}
	return held
}

// TakeOver returns what a consumer holds; see [queue.Store].
func (s *Store) TakeOver(ctx context.Context, r queue.TakeOverRequest) (res queue.TakeOverResult, err error) {
	if r.Owner.Kind != queue.Consumer {
		return res, nil // a worker does not come back
	}
	err = s.look(ctx, func(x *txn) (err error) {
		res, err = x.takeOver(&r)
		return err
	})
	if err != nil {
		return queue.TakeOverResult{}, err
	}
	return res, nil
}

func (x *txn) takeOver(r *queue.TakeOverRequest) (res queue.TakeOverResult, err error) {
	held := x.leases(func(f *flight) bool {
		return f.owner == r.Owner && f.fence > r.After && !r.Now.After(f.deadline)
	})
	slices.SortFunc(held, func(a, b *flight) int { return cmp.Compare(a.fence, b.fence) })
	bytes := 0
	for _, f := range held {
		if res.More = r.MaxBytes > 0 && bytes >= r.MaxBytes; res.More {
			break
		}
		m, err := parseRecord(x.b.backlog.Get(f.ref.place.AppendKey(nil)))
		if errors.Is(err, queue.ErrDamaged) {
			res.Damaged = append(res.Damaged, queue.Finding{Seq: f.seq, What: fmt.Sprintf("message at place %s: %v", f.ref.place, err)})
			continue
		}
		if err != nil {
			return res, err
		}
		bytes += len(m.msg.Line)
		d := f.delivery(&m)
		d.Redelivered = true
		res.Deliveries = append(res.Deliveries, d)
	}
	return res, nil
}

// Revoke takes leases back from consumers; see [queue.Store].
func (s *Store) Revoke(ctx context.Context, a queue.Action, p queue.Policy, leases []queue.LeaseRef) ([]queue.Revoked, error) {
	return each(ctx, s, leases, func(x *txn, l queue.LeaseRef) (queue.Revoked, error) { return x.revoke(&a, p, &l) })
}

// revoke takes one lease back. At its deadline the message would have come back to
// its holder; that remains so, and until then it is there for the others.
func (x *txn) revoke(a *queue.Action, p queue.Policy, l *queue.LeaseRef) (res queue.Revoked, err error) {
	res.Seq = l.Seq
	f := x.t.flights[l.Seq]
	switch {
	case f == nil || !f.leased():
		res.Code, res.Error = queue.CodeNotFound, "nobody holds it"
		return res, nil
	case !l.Names(f.token(), f.owner):
		res.Code, res.Error, res.Owner = queue.CodeExpired, queue.MovedText(f.owner), f.owner
		return res, nil
	case f.owner.Kind == queue.Worker:
		res.Code = queue.CodeUsage
		res.Error = "a worker of the server holds it: its handler runs, and ends by itself or by its time limit"
		return res, nil
	}
	k, holder := f.key, aside{owner: f.owner, until: f.deadline}
	if res.Reclaimed, err = x.reclaim(a.Now, p, f, true, queue.Revocation(a)); err != nil || res.DeadCode != "" {
		return res, err
	}
	k.aside = &holder
	x.t.asides = append(x.t.asides, k)
	return res, nil
}
