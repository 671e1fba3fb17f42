package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// maxDue bounds how many scheduled messages take their place in one Claim.
const maxDue = 1024

// Claim leases messages to the owners that want some, in the order of the wants.
func (s *Store) Claim(ctx context.Context, r queue.ClaimRequest) (queue.ClaimResult, error) {
	res := queue.ClaimResult{Deliveries: make([][]queue.Delivery, len(r.Wants))}
	err := s.write(ctx, func() {
		if s.paused != nil {
			return
		}
		s.endWaits(r.Now)
		res.More = s.fallDue(r.Now)
		for i := range r.Wants {
			res.Deliveries[i] = s.grant(r.Now, &r.Wants[i])
		}
		res.Next = s.next(r.Now)
	})
	if err != nil {
		return queue.ClaimResult{}, err
	}
	return res, nil
}

// endWaits lets the keys go on whose time has come, in the order of their times.
func (s *state) endWaits(now time.Time) {
	type ended struct {
		name string
		*wait
	}
	var over []ended
	for name, k := range s.keys {
		if k.wait != nil && !now.Before(k.wait.due) {
			over = append(over, ended{name, k.wait})
		}
	}
	slices.SortFunc(over, func(a, b ended) int {
		return cmp.Or(micros(a.due).Compare(micros(b.due)), cmp.Compare(a.began, b.began))
	})
	for _, e := range over {
		s.keys[e.name].wait = nil
		s.file(e.name)
	}
}

// fallDue gives scheduled messages their place: after everything that has been
// accepted so far, before everything that will be. It reports whether more wait
// for the next call.
func (s *state) fallDue(now time.Time) (more bool) {
	due := s.scheduled()
	due = slices.DeleteFunc(due, func(m *message) bool { return m.notBefore.After(now) })
	for _, m := range due[:min(len(due), maxDue)] {
		if s.duePlace.Seq != s.lastSeq {
			s.duePlace = queue.Place{Seq: s.lastSeq}
		}
		s.duePlace.Sub++
		s.enter(m, s.duePlace)
		s.record(queue.DueRecord(now, &m.Stored, m.place))
		s.file(m.PartitionKey)
	}
	return len(due) > maxDue
}

// scheduled returns the messages that wait for their time, soonest first.
func (s *state) scheduled() []*message {
	var out []*message
	for _, m := range s.open {
		if !m.inOrder() {
			out = append(out, m)
		}
	}
	slices.SortFunc(out, func(a, b *message) int {
		return cmp.Or(a.notBefore.Compare(b.notBefore), cmp.Compare(a.Seq, b.Seq))
	})
	return out
}

// grant gives one owner what it wants, key by key.
func (s *state) grant(now time.Time, w *queue.Want) []queue.Delivery {
	var out []queue.Delivery
	bytes := 0
	for _, k := range s.candidates(now, w) {
		room := w.PerKey
		for _, m := range k.order {
			if room <= 0 || w.Full(len(out), bytes) || !w.Routes.Has(m.route) {
				break // what stands behind it may not overtake
			}
			room--
			bytes += len(m.Line)
			out = append(out, s.lease(now, w, m))
		}
		k.filed = k.claimable()
	}
	return out
}

// candidates returns the keys whose head this owner may have, the most urgent
// first, then who has waited longest.
func (s *state) candidates(now time.Time, w *queue.Want) []*key {
	var out []*key
	for name, k := range s.keys {
		if k.filed && w.Routes.Has(k.route) && w.Slots.Has(partition.SlotOf(name)) && !k.isAside(now, w.Owner) {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(a, b *key) int {
		return cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.turn, b.turn))
	})
	return out
}

// isAside reports whether o has put the head back and is not to be asked yet.
func (k *key) isAside(now time.Time, o queue.Owner) bool {
	return k.aside != nil && k.aside.owner == o && now.Before(k.aside.until)
}

// lease makes one delivery.
func (s *state) lease(now time.Time, w *queue.Want, m *message) queue.Delivery {
	s.fence++
	m.deliveries++
	m.unanswered = queue.AtLeastUnanswered(m.unanswered, m.Seq, s.restored)
	owner := ownOwner(w.Owner)
	m.lease = &lease{owner: owner, fence: s.fence, deadline: now.Add(w.Lease), length: w.Lease}
	s.keys[m.PartitionKey].aside = nil
	d := m.delivery()
	s.record(queue.DispatchedRecord(now, &d, m.holding()))
	return d
}

// delivery shows the present lease as its holder is told of it.
func (m *message) delivery() queue.Delivery {
	return queue.Delivery{
		Token: m.token(), Route: m.route, Number: m.deliveries, FailedAttempts: m.failed,
		Redelivered: m.unanswered > 0, AcceptedAt: m.acceptedAt, Deadline: m.lease.deadline,
		Message: ownStored(m.Stored),
	}
}

// next returns when a claim may find more because time has passed; zero if time
// alone changes nothing. It is a point on now's clock, whichever clock the
// soonest of them follows.
func (s *state) next(now time.Time) time.Time {
	var times []time.Time
	for _, k := range s.keys {
		if k.wait != nil {
			times = append(times, k.wait.due)
		}
		if k.filed && k.aside != nil && now.Before(k.aside.until) {
			times = append(times, k.aside.until)
		}
	}
	for _, m := range s.scheduled() {
		times = append(times, m.notBefore)
	}
	if len(times) == 0 {
		return time.Time{}
	}
	soonest := times[0].Sub(now)
	for _, t := range times {
		soonest = min(soonest, t.Sub(now))
	}
	return now.Add(soonest)
}
