package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"breakwater/queue"
)

// Extend renews leases. Only a consumer's is news to the trail.
func (s *Store) Extend(ctx context.Context, r queue.ExtendRequest) ([]queue.ExtendResult, error) {
	res := make([]queue.ExtendResult, 0, len(r.Tokens))
	err := s.write(ctx, func() {
		for _, t := range r.Tokens {
			m, code := s.held(t, r.Owner, r.Now)
			if code != "" {
				res = append(res, queue.ExtendResult{Seq: t.Seq, Code: code})
				continue
			}
			m.lease.deadline, m.lease.length = r.Now.Add(r.Lease), r.Lease
			if r.Owner.Kind == queue.Consumer {
				s.record(queue.ExtendedRecord(r.Now, &m.Stored, m.holding(), m.lease.deadline, r.Peer))
			}
			res = append(res, queue.ExtendResult{Seq: t.Seq, Deadline: m.lease.deadline})
		}
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// Reclaim takes back what its holder had too long.
func (s *Store) Reclaim(ctx context.Context, r queue.ReclaimRequest) ([]queue.Reclaimed, error) {
	var res []queue.Reclaimed
	err := s.write(ctx, func() {
		leased := s.leased()
		first := firstFences(leased)
		slices.SortStableFunc(leased, func(a, b *message) int {
			return cmp.Or(a.lease.deadline.Compare(b.lease.deadline), cmp.Compare(a.lease.fence, b.lease.fence))
		})
		for _, m := range leased {
			// One before it may have put it back meanwhile.
			if len(res) < r.Max && m.lease != nil && m.lease.deadline.Before(r.Now) {
				res = append(res, s.expire(&r, m, first))
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// leased returns the messages that somebody holds, in the order of their fences.
func (s *state) leased() []*message {
	var out []*message
	for _, m := range s.open {
		if m.lease != nil {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *message) int { return cmp.Compare(a.lease.fence, b.lease.fence) })
	return out
}

// firstFences returns of each owner its smallest fence. A worker starts what it
// holds in that order, so this is the one that was running.
func firstFences(leased []*message) map[queue.Owner]uint64 {
	first := map[queue.Owner]uint64{}
	for _, m := range leased {
		if _, seen := first[m.lease.owner]; !seen {
			first[m.lease.owner] = m.lease.fence
		}
	}
	return first
}

// expire takes back one lease and what was leased behind it.
func (s *state) expire(r *queue.ReclaimRequest, m *message, first map[queue.Owner]uint64) queue.Reclaimed {
	owner, name, place := m.lease.owner, m.PartitionKey, m.place
	res := queue.Reclaimed{Token: m.token(), Owner: owner, Message: m.Summary()}
	res.Counted = owner.Kind == queue.Consumer || m.lease.fence == first[owner]
	res.DeadCode = s.takeBack(r.Now, m, res.Counted, &queue.Settlement{Reason: queue.ReclaimExpired}, r.Policy)
	if s.isStop(m) {
		s.putBackAfter(r.Now, name, place)
	}
	s.file(name)
	return res
}

// Revoke takes leases back from consumers.
func (s *Store) Revoke(ctx context.Context, a queue.Action, p queue.Policy, leases []queue.LeaseRef) ([]queue.Revoked, error) {
	res := make([]queue.Revoked, 0, len(leases))
	err := s.write(ctx, func() {
		for _, l := range leases {
			r, m := queue.Revoked{Seq: l.Seq}, s.open[l.Seq]
			switch {
			case m == nil || m.lease == nil:
				r.Code, r.Error = queue.CodeNotFound, "nobody holds it"
			case !l.Names(m.token(), m.lease.owner):
				r.Code, r.Error, r.Owner = queue.CodeExpired, queue.MovedText(m.lease.owner), m.lease.owner
			case m.lease.owner.Kind == queue.Worker:
				r.Code, r.Error = queue.CodeUsage, "a worker runs it"
			default:
				r.Reclaimed = s.revoke(&a, m, p)
			}
			res = append(res, r)
		}
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// revoke takes one lease back, and what was leased behind it. It would have come
// back to its holder at the deadline; that remains so.
func (s *state) revoke(a *queue.Action, m *message, p queue.Policy) queue.Reclaimed {
	name, place, was := m.PartitionKey, m.place, *m.lease
	res := queue.Reclaimed{Token: m.token(), Owner: was.owner, Counted: true, Message: m.Summary()}
	res.DeadCode = s.takeBack(a.Now, m, true, queue.Revocation(a), p)
	if res.DeadCode == "" {
		s.keys[name].aside = &aside{owner: was.owner, until: was.deadline}
	}
	if s.isStop(m) {
		s.putBackAfter(a.Now, name, place)
	}
	s.file(name)
	return res
}

// TakeOver returns what a consumer holds.
func (s *Store) TakeOver(ctx context.Context, r queue.TakeOverRequest) (queue.TakeOverResult, error) {
	var res queue.TakeOverResult
	err := s.read(ctx, func() {
		bytes := 0
		for _, m := range s.leased() {
			if m.lease.owner != r.Owner || r.Owner.Kind != queue.Consumer || r.Now.After(m.lease.deadline) || m.lease.fence <= r.After {
				continue
			}
			if r.MaxBytes > 0 && bytes >= r.MaxBytes {
				res.More = true
				return
			}
			bytes += len(m.Line)
			d := m.delivery()
			d.Redelivered = true
			res.Deliveries = append(res.Deliveries, d)
		}
	})
	return res, err
}

// takeBack ends a lease that nobody answered. A delivery that counts may have
// been the last; one that does not is as if it had never been.
func (s *state) takeBack(now time.Time, m *message, counted bool, why *queue.Settlement, p queue.Policy) queue.Code {
	if counted {
		m.unanswered++
	}
	s.record(queue.ReclaimedRecord(now, &m.Stored, m.holding(), counted, why))
	if !counted {
		m.deliveries--
	} else if m.deliveries >= p.MaxDeliveries {
		s.bury(now, m, queue.CodeDeliveriesExhausted, why, p)
		return queue.CodeDeliveriesExhausted
	}
	m.lease = nil
	return ""
}
