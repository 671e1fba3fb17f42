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
	res.DeadCode = s.takeBack(r.Now, m, res.Counted, queue.ReclaimExpired, r.Policy)
	if s.isStop(m) {
		s.putBackAfter(r.Now, name, place)
	}
	s.file(name)
	return res
}

// takeBack ends a lease that nobody answered. A delivery that counts may have
// been the last; one that does not is as if it had never been.
func (s *state) takeBack(now time.Time, m *message, counted bool, reason string, p queue.Policy) queue.Code {
	if counted {
		m.unanswered++
	}
	s.record(queue.ReclaimedRecord(now, &m.Stored, m.holding(), counted, reason))
	if !counted {
		m.deliveries--
	} else if m.deliveries >= p.MaxDeliveries {
		s.bury(now, m, queue.CodeDeliveriesExhausted, &queue.Settlement{Reason: reason}, p)
		return queue.CodeDeliveriesExhausted
	}
	m.lease = nil
	return ""
}
