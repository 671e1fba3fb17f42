package memstore

import (
	"slices"
	"time"

	"breakwater/queue"
)

// key is a partition key: its open messages in the order of their places, and the
// reasons why it may have to wait.
type key struct {
	order []*message

	held     *queue.KeyHold // by an operator
	blocking int            // dead letters that hold it
	wait     *wait

	aside *aside

	// Where it is filed while it can be claimed. The turn is its place in the
	// queue of keys with the same priority.
	filed    bool
	route    queue.Route
	priority uint8
	turn     uint64
}

// wait is a time to wait for. A backoff is elapsed time: its due carries a reading
// of the monotonic clock, and a step of the wall clock does not move it. A hold
// is until a time on the wall clock.
type wait struct {
	seq     uint64 // of the message that was put back
	due     time.Time
	backoff bool
	began   uint64 // order in which waits began
}

// aside is the owner that put the head back and shall not be asked again at once.
type aside struct {
	owner queue.Owner
	until time.Time
}

// key returns the partition key with this name, new if need be.
func (s *state) key(name string) *key {
	k := s.keys[name]
	if k == nil {
		k = &key{}
		s.keys[name] = k
	}
	return k
}

// waits reports whether anything keeps the key from being claimed. An ended wait
// counts until a Claim has seen it.
func (k *key) waits() bool { return k.held != nil || k.blocking > 0 || k.wait != nil }

// leased reports whether anybody holds a lease of the key.
func (k *key) leased() bool {
	return slices.ContainsFunc(k.order, func(m *message) bool { return m.lease != nil })
}

// claimable reports whether the head may be handed out. No lease on the key at
// all: so all leases of a key come from one claim, have one owner, and nothing
// is claimed past an open one (P4, P5).
func (k *key) claimable() bool { return len(k.order) > 0 && !k.waits() && !k.leased() }

// file puts the key where claims will find it, or takes it away, after whatever
// may have changed that. A key that was claimable and still is, under the same
// route and priority, keeps its turn.
func (s *state) file(name string) {
	k := s.keys[name]
	if k == nil {
		return
	}
	if !k.claimable() {
		k.filed = false
		if len(k.order) == 0 && !k.waits() {
			delete(s.keys, name)
		}
		return
	}
	head := k.order[0]
	if !k.filed || k.route != head.route || k.priority != head.priority {
		s.turns++
		k.filed, k.route, k.priority, k.turn = true, head.route, head.priority, s.turns
	}
}

// enter gives an open message its place in the order of its key.
func (s *state) enter(m *message, place queue.Place) {
	m.place = place
	k := s.key(m.PartitionKey)
	if len(k.order) == 0 {
		s.openKeys++
	}
	k.order = append(k.order, m)
	slices.SortFunc(k.order, func(a, b *message) int { return a.place.Compare(b.place) })
}

// leave takes a message out of the order of its key.
func (s *state) leave(m *message) {
	k := s.keys[m.PartitionKey]
	k.order = slices.DeleteFunc(k.order, func(o *message) bool { return o == m })
	if len(k.order) == 0 {
		s.openKeys--
	}
}

// waitFor makes the key of m wait until due. Of two times the later counts, so that
// neither is undercut.
func (s *state) waitFor(m *message, now, due time.Time, backoff bool) {
	k := s.key(m.PartitionKey)
	if k.wait != nil && k.wait.due.Sub(now) >= due.Sub(now) {
		return
	}
	s.began++
	k.wait = &wait{seq: m.Seq, due: due, backoff: backoff, began: s.began}
}

// putBackAfter gives back every lease of the key behind place, uncounted, because
// what they wait for did not happen (P5).
func (s *state) putBackAfter(now time.Time, name string, place queue.Place) {
	for _, m := range s.keys[name].order {
		if m.lease != nil && place.Less(m.place) {
			s.record(queue.ReleasedRecord(now, &m.Stored, m.holding(), &queue.Settlement{Reason: queue.PutBack}))
			m.deliveries--
			m.lease = nil
		}
	}
}
