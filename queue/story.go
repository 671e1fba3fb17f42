package queue

import "container/heap"

// story is what the records played so far tell of the messages that are open or dead
// letters. What contradicts it, or breaks a promise, is told to wrong.
type story struct {
	wrong func(r *Record, format string, args ...any)
	seq   uint64 // given last

	restored uint64 // the seq given last before an older state was restored
	live     map[uint64]*traced
	sent     map[uint64][16]byte // of those that were edited: of the hash of the line as it was sent
	keys     map[string]*tracedKey
	held     map[string]Action // keys that an operator holds: by whom, since when and why
	paused   *Pause            // nil: claims go on
	sums     Balance           // but for what is counted from live

	// old is the seq given last before the trail begins, as long as the copies of what
	// was open then have not all been read; see retell.go.
	old     uint64
	holders map[uint64]string // by seq: who has a message, as a copy says
}

// traced is an open message or dead letter. There may be millions: it has 48 bytes.
type traced struct {
	key                *tracedKey
	place              uint64   // Place.Seq; 0: none
	line               [16]byte // of the hash of its line, the first half
	sub                uint32   // Place.Sub
	deliveries, failed uint32   // that count
	state              State    // Ready, Scheduled, Leased or Dead
	flags              uint16
}

// Flags of a traced message.
const (
	tracedAccepted    = 1 << iota // it has an ACCEPTED record
	tracedQuarantined             // it has a QUARANTINED record
	tracedStored                  // found in the buckets
	tracedEdited                  // its line is not the one that was sent: story.sent

	// Of a message that is older than the trail, see retell.go:
	tracedCopied     // a copy has told of it
	tracedVague      // its state is not certain yet
	tracedDied       // but it is no letter from the door
	tracedLoose      // its place is not known
	tracedLineless   // its line is not certain
	tracedDeliveries // it is not known how many of its deliveries count
	tracedFailed     // nor how many of its attempts failed
	tracedUntold     // nor whether a delivery ended without an answer

	// Of any:
	tracedUnanswered // a delivery ended without an answer, or may have: see AtLeastUnanswered
)

// lineMark is what is kept of a line's hash.
func lineMark(h Hash) [16]byte { return [16]byte(h[:16]) }

func (m *traced) at() Place { return Place{Seq: m.place, Sub: m.sub} }

// tracedKey is a partition key with messages that are live.
type tracedKey struct {
	name    string
	live    int    // messages of it, whatever their state
	leased  int    // of them
	holder  string // who has the leases
	waiting placeHeap
}

// placeHeap is a heap of messages by place. A message that is not Ready any more,
// or that is there twice, is passed over when it comes up.
type placeHeap []*traced

// Len, Less, Swap, Push and Pop are what container/heap asks for.
func (h placeHeap) Len() int           { return len(h) }
func (h placeHeap) Less(i, j int) bool { return h[i].at().Less(h[j].at()) }
func (h placeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *placeHeap) Push(m any)        { *h = append(*h, m.(*traced)) }
func (h *placeHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return m
}

// first returns the ready message that comes first, nil if there is none.
func (k *tracedKey) first() *traced {
	for len(k.waiting) > 0 && k.waiting[0].state != Ready {
		heap.Pop(&k.waiting)
	}
	if len(k.waiting) == 0 {
		return nil
	}
	return k.waiting[0]
}

// begin forgets everything.
func (s *story) begin(wrong func(*Record, string, ...any)) {
	*s = story{
		wrong: wrong, live: map[uint64]*traced{}, sent: map[uint64][16]byte{}, keys: map[string]*tracedKey{}, held: map[string]Action{},
		holders: map[uint64]string{},
	}
}

// count adds up what became of the messages.
func (s *story) count() Balance {
	b := s.sums
	for _, m := range s.live {
		dead, door := m.state == Dead, m.flags&tracedAccepted == 0
		switch {
		case dead && door:
			b.QuarantinedDead++
		case dead:
			b.Dead++
		case !door:
			b.Open++
		}
	}
	return b
}

// play plays one record.
func (s *story) play(r *Record) {
	if r.CopyOf != 0 {
		s.retell(r)
		return
	}
	switch r.Event {
	case EventAccepted, EventQuarantined:
		s.first(r)
	case EventDuplicateSkipped:
		s.sums.Duplicates += uint64(r.Count)
	case EventRefused:
	default:
		if s.order(r) || !r.Event.OfMessage() || r.Seq == 0 {
			return
		}
		m := s.meetOlder(r)
		if m == nil {
			s.wrong(r, "the message was not open")
			return
		}
		s.step(r, m)
	}
}

// order plays what an operator ordered; ok is false if the record is of something else.
func (s *story) order(r *Record) (ok bool) {
	switch r.Event {
	case EventKeyHeld:
		s.held[r.PartitionKey] = Action{Now: r.TS, By: r.By, Reason: r.Reason}
	case EventKeyReleased:
		delete(s.held, r.PartitionKey)
		if r.Seq != 0 {
			s.waited(r)
		}
	case EventPaused:
		s.paused = &Pause{By: r.By, Since: r.TS, Reason: r.Reason}
	case EventRestored: // whose By is who started the process
		s.paused = &Pause{By: RestorePause, Since: r.TS, Reason: ReclaimRestored}
		if r.CopyOf == 0 {
			s.restored = s.seq
		}
	case EventResumed:
		s.paused = nil
	default:
		return false
	}
	return true
}

// waited plays the end of a wait by an operator's order. Whose wait it was had been put
// back, and nobody has it.
func (s *story) waited(r *Record) {
	switch m := s.meetOlder(r); {
	case m == nil:
		s.wrong(r, "the message was not open")
	case m.state != Ready:
		s.wrong(r, "the message was %s, and nothing waited for it", m.state)
	case m.key.name != r.PartitionKey:
		s.wrong(r, "it is another key's than that of the message")
	}
}

// meetOlder returns the message that a record is about, nil if it is not live; one that
// is older than the trail where it must have stood.
func (s *story) meetOlder(r *Record) *traced {
	m := s.live[r.Seq]
	if m == nil && r.Seq <= s.old && r.Event != EventQuarantined {
		m = s.older(r)
	}
	if m != nil && m.flags&tracedVague != 0 {
		s.meet(r, m)
	}
	return m
}

// first plays the record by which a message gets its seq, or, after a replay, its
// place.
func (s *story) first(r *Record) {
	m := s.meetOlder(r)
	replayed := m != nil
	if m == nil {
		if s.seq++; r.Seq != s.seq {
			s.wrong(r, "seq %d was due", s.seq)
			s.seq = r.Seq
		}
		m = &traced{}
		s.live[r.Seq] = m
	} else if r.Event == EventQuarantined || m.state != Ready || !m.at().IsZero() {
		s.wrong(r, "the message was accepted before")
	} else if lineMark(r.LineSHA256) != m.line && m.flags&tracedLineless == 0 {
		s.wrong(r, "its line is not the one that was replayed")
	}
	s.adopt(m, r.PartitionKey)
	m.reads(r)
	if r.Event == EventQuarantined {
		m.state, m.flags = Dead, m.flags|tracedQuarantined
		s.sums.Quarantined++
		return
	}
	m.flags |= tracedAccepted
	s.sums.Accepted++
	if replayed {
		s.sums.QuarantinedAccepted++
	}
	if r.NotBefore.After(r.TS) {
		m.state = Scheduled
		return
	}
	s.enter(m, Place{Seq: r.Seq})
}

// adopt puts a message under its key, taking it from the one that it had.
func (s *story) adopt(m *traced, name string) {
	if m.key != nil && m.key.name == name {
		return
	}
	s.disown(m)
	k := s.keys[name]
	if k == nil {
		k = &tracedKey{name: name}
		s.keys[name] = k
	}
	k.live++
	m.key = k
}

// disown takes a message from its key, and forgets a key that has none.
func (s *story) disown(m *traced) {
	if m.key == nil {
		return
	}
	if m.key.live--; m.key.live == 0 {
		delete(s.keys, m.key.name)
	}
	m.key = nil
}

// forget ends a message.
func (s *story) forget(seq uint64, m *traced) {
	s.disown(m)
	delete(s.live, seq)
	delete(s.sent, seq)
}

// enter gives a message its place in the order of its key.
func (s *story) enter(m *traced, p Place) {
	m.takes(p)
	s.putBack(m)
}

// putBack makes a message ready at its place.
func (s *story) putBack(m *traced) {
	m.state = Ready
	if m.flags&tracedLoose == 0 {
		heap.Push(&m.key.waiting, m)
	}
}

// takes gives a message its place.
func (m *traced) takes(p Place) {
	m.place, m.sub = p.Seq, p.Sub
	m.flags &^= tracedLoose
}

// reads gives a message its line.
func (m *traced) reads(r *Record) {
	m.line = lineMark(r.LineSHA256)
	m.flags &^= tracedLineless
}

// step plays a record of a message that is open or a dead letter.
func (s *story) step(r *Record, m *traced) {
	switch r.Event {
	case EventDue:
		if m.state != Scheduled {
			s.wrong(r, "the message was %s", m.state)
		}
		s.enter(m, r.Place)
	case EventDispatched:
		s.dispatch(r, m)
	case EventDecided:
		s.answer(r, m)
		s.sums.Decided++
		m.state = Done // wherever it is still listed
		s.forget(r.Seq, m)
	case EventRetried, EventHeld, EventReleased, EventReclaimed:
		s.answer(r, m)
		s.uncount(r, m)
		s.putBack(m)
	case EventExtended:
		s.holder(r, m)
	case EventDeadLettered:
		if m.state == Leased {
			s.answer(r, m)
		} else if m.state != Ready {
			s.wrong(r, "the message was %s", m.state)
		}
		s.tells(r, m)
		m.state = Dead
	case EventEdited:
		s.edit(r, m)
	case EventReplayed, EventDiscarded:
		s.revive(r, m)
	}
}

// dispatch checks P4 and P5: nobody else holds the key, nothing open of it comes
// before but what the same owner holds, and nothing makes it wait that an operator
// ordered.
func (s *story) dispatch(r *Record, m *traced) {
	k := m.key
	loose := m.flags&tracedLoose != 0
	if m.state != Ready || m.at().IsZero() && !loose {
		s.wrong(r, "the message was %s", m.state)
		return
	}
	s.sums.Deliveries++
	if k.leased > 0 && k.holder != r.Worker {
		s.wrong(r, "%s held the key", k.holder)
	}
	if first := k.first(); first != nil && !loose && first.at().Less(m.at()) {
		s.wrong(r, "the message at place %s of its key comes before and was open", first.at())
	}
	if s.paused != nil {
		s.wrong(r, "claims were paused")
	}
	if _, held := s.held[k.name]; held {
		s.wrong(r, "an operator held the key")
	}
	m.state = Leased
	if m.deliveries++; r.Delivery != int(m.deliveries) && m.flags&tracedDeliveries == 0 {
		s.wrong(r, "it is delivery %d, %d was due", r.Delivery, m.deliveries)
	}
	m.deliveries = uint32(r.Delivery)
	m.flags &^= tracedDeliveries
	if r.Seq <= s.restored {
		m.flags |= tracedUnanswered
	}
	s.tells(r, m)
	k.leased++
	k.holder = r.Worker
	k.first() // it leaves the heap, or a message that is put back for ever would fill it
}

// uncount takes back what an answer does not count, and counts a failure.
func (s *story) uncount(r *Record, m *traced) {
	switch {
	case r.Event == EventRetried:
		if m.failed++; r.FailedAttempts != int(m.failed) && m.flags&tracedFailed == 0 {
			s.wrong(r, "it says %d failed attempts of %d", r.FailedAttempts, m.failed)
		}
		m.failed = uint32(r.FailedAttempts)
		m.flags &^= tracedFailed
	case r.Event != EventReclaimed || r.Unanswered == 0:
		m.deliveries--
	}
}

// tells checks that a record which must say so says whether a delivery of the message
// ended without an answer: who gets it is told, and who judges the dead letter.
func (s *story) tells(r *Record, m *traced) {
	switch says, is := r.Unanswered > 0, m.flags&tracedUnanswered != 0; {
	case is && !says:
		s.wrong(r, "it does not say that a delivery ended without an answer")
	case says && !is && m.flags&tracedUntold == 0:
		s.wrong(r, "it says that a delivery ended without an answer, and none did")
	}
	m.hears(r)
}

// hears takes from a record of a message whether deliveries ended without an answer.
func (m *traced) hears(r *Record) {
	if m.flags &^= tracedUntold; r.Unanswered > 0 {
		m.flags |= tracedUnanswered
	}
}

// holder checks that a record comes from who holds the message (P4).
func (s *story) holder(r *Record, m *traced) {
	switch {
	case m.state != Leased:
		s.wrong(r, "nobody held the message, it was %s", m.state)
	case m.key.holder != r.Worker:
		s.wrong(r, "%s held the message, not %s", m.key.holder, r.Worker)
	}
}

// answer ends a lease.
func (s *story) answer(r *Record, m *traced) {
	s.holder(r, m)
	if m.state == Leased {
		m.key.leased--
	}
	if r.Event != EventDeadLettered && r.Unanswered > 0 {
		m.hears(r)
	}
}
