package queue

// This file is how a trail is read whose beginning was trimmed (see trim.go).
//
// Of a message that is older than the trail nothing is certain until a record of its own
// tells of it, from which follows where it must have stood. Copies say what held when
// they were made, in any order, and what has changed it since may have been trimmed later.
// But behind the last TRIMMED, which is the one that says where the trail begins, all is
// told: whatever a record before the trail says that still held then has a copy, there or
// further up. So what is open is known from there on, with its place, its holder and its
// line, and what has no copy was over.

// open makes the story begin where a trimmed trail does.
func (s *story) open(o *Opening) { s.seq, s.old, s.sums = o.LastSeq, o.LastSeq, o.Sums }

// older returns a message that is older than the trail, and of which nothing is certain
// but its key.
func (s *story) older(r *Record) *traced {
	m := &traced{flags: tracedVague | tracedLoose | tracedLineless | tracedDeliveries | tracedFailed | tracedUntold}
	s.live[r.Seq] = m
	s.adopt(m, r.PartitionKey)
	return m
}

// meet puts a message that is older than the trail where it must have stood for its
// first record here to be right.
func (s *story) meet(r *Record, m *traced) {
	m.flags &^= tracedVague
	s.adopt(m, r.PartitionKey)
	switch r.Event {
	case EventDue:
		m.state = Scheduled
	case EventAccepted, EventDispatched, EventDeadLettered:
		m.state = Ready
	case EventReplayed, EventDiscarded, EventEdited:
		m.state = Dead
		return
	case EventKeyReleased: // it had been put back
		s.putBack(m)
	default: // an answer
		m.deliveries = uint32(r.Delivery)
		m.flags &^= tracedDeliveries
		s.hold(m, r.Worker)
	}
	m.flags |= tracedAccepted
}

// hold makes a message leased.
func (s *story) hold(m *traced, worker string) {
	if m.key.leased == 0 {
		m.key.holder = worker
	}
	m.key.leased++
	m.state = Leased
}

// retell plays a copy.
func (s *story) retell(r *Record) {
	if s.order(r) {
		return
	}
	if r.Seq == 0 || r.Seq > s.old || !r.MayHold() {
		s.wrong(r, "it is a copy of record %d, which was not trimmed or cannot hold", r.CopyOf)
		return
	}
	m := s.live[r.Seq]
	if m == nil {
		m = s.older(r)
	}
	m.flags |= tracedCopied
	latest := s.retellLine(r, m)
	if m.flags&tracedVague != 0 && (latest || r.Event != EventQuarantined) {
		s.adopt(m, r.PartitionKey) // which an edit may have changed
	}
	s.retellPlace(r, m)
	if m.flags&tracedVague != 0 {
		s.retellState(r, m)
	}
}

// retellLine takes from a copy what the line of a message is, and what was sent. latest
// says that no other copy tells of a later line so far.
func (s *story) retellLine(r *Record, m *traced) (latest bool) {
	line := lineMark(r.LineSHA256)
	switch r.Event {
	case EventQuarantined:
		s.sent[r.Seq] = line
		latest = m.flags&(tracedAccepted|tracedEdited) == 0
		m.flags |= tracedQuarantined
	case EventAccepted:
		if m.flags&tracedQuarantined == 0 {
			s.sent[r.Seq] = line
		}
		latest = m.flags&tracedEdited == 0
		m.flags |= tracedAccepted
	case EventEdited:
		latest = true
		m.flags |= tracedEdited
	default: // it has been in the order
		m.flags |= tracedAccepted
	}
	if latest && m.flags&tracedLineless != 0 {
		m.line = line
	}
	return latest
}

// retellPlace takes from a copy what the place of a message is, which never changes.
func (s *story) retellPlace(r *Record, m *traced) {
	switch {
	case r.Event == EventDue:
		m.takes(r.Place)
	case r.Event == EventAccepted && !r.NotBefore.After(r.TS):
		m.takes(Place{Seq: r.Seq})
	default:
		return
	}
	if m.state == Ready && m.flags&tracedVague == 0 {
		s.putBack(m)
	}
}

// retellState takes from a copy where a message stands, if no record of its own tells.
func (s *story) retellState(r *Record, m *traced) {
	begun := m.state != 0 && (m.state != Dead || m.flags&tracedDied != 0)
	switch r.Event {
	case EventQuarantined:
		if !begun {
			m.state = Dead
		}
	case EventAccepted:
		if !begun {
			m.state = Scheduled
		}
		if m.state == Scheduled && m.flags&tracedLoose == 0 {
			m.state = Ready
		}
	case EventDue:
		if m.state == 0 || m.state == Scheduled {
			m.state = Ready
		}
	case EventDispatched:
		m.state, m.deliveries = Leased, uint32(r.Delivery)
		m.flags &^= tracedDeliveries
		m.hears(r)
		s.holders[r.Seq] = r.Worker
	case EventDeadLettered:
		m.state = Dead
		m.flags |= tracedDied
		m.hears(r)
	}
}

// settle ends the telling of what is older than the trail; r is the last record of it.
func (s *story) settle(r *Record) {
	for seq, m := range s.live {
		if seq > s.old {
			continue
		}
		_, first := s.sent[seq]
		if m.flags&tracedCopied == 0 || !first || m.state == 0 {
			s.wrong(&Record{N: r.N, Event: r.Event, Seq: seq}, "it was %s, and no copy of its first record is there", m.state)
			continue
		}
		if m.flags&tracedLineless != 0 && m.line != s.sent[seq] {
			m.flags |= tracedEdited
		}
		vague := m.flags&tracedVague != 0
		m.flags &^= tracedVague | tracedLineless | tracedLoose
		switch {
		case !vague:
		case m.state == Ready:
			s.putBack(m)
		case m.state == Leased:
			s.hold(m, s.holders[seq])
		}
	}
	s.old, s.holders = 0, nil
}

// copies are what a TRIMMED has announced and was not read yet.
type copies struct {
	record uint64 // the TRIMMED
	left   int
	told   TrimmedTrail
	open   int
	digest []byte
}

// expect reads what TRIMMED says of the trail, and holds the copies behind it against
// that.
func (v *Verifier) expect(r *Record) {
	if v.copies.left > 0 {
		v.expectCopy(r)
		return
	}
	t, ok := ReadTrimmed(r)
	if r.Event != EventTrimmed || ok && t.Before == "" && t.Keys > 0 {
		return
	}
	is, readable := t.opening(r.N)
	switch o := &v.at.Opening; {
	case !ok || !readable:
		v.wrong(r, "it does not say what was trimmed")
		return
	case r.N == o.Record && is != *o:
		v.wrong(r, "it says that the trail begins with record %d after head %s, or counts otherwise than the store, which says %d after %s",
			is.LastN+1, is.Before, o.LastN+1, o.Before)
	case r.N > o.Record:
		v.wrong(r, "it says that records before %d were trimmed, the store has those from %d on", is.LastN+1, o.LastN+1)
	}
	v.opened = v.opened || r.N == v.at.Opening.Record
	v.copies = copies{record: r.N, left: t.Copies, told: t.TrimmedTrail}
	if t.Copies == 0 {
		v.endCopies(r)
	}
}

// expectCopy takes in a record that must be a copy.
func (v *Verifier) expectCopy(r *Record) {
	c := &v.copies
	if r.CopyOf == 0 {
		v.wrong(r, "record %d announced %d copies, this is none", c.record, c.told.Copies)
		c.left = 0
		return
	}
	if r.Event == EventAccepted || r.Event == EventQuarantined {
		c.open++
		c.digest = appendOpen(c.digest, r)
	}
	if c.left--; c.left == 0 {
		v.endCopies(r)
	}
}

// endCopies compares the copies with what was said of them.
func (v *Verifier) endCopies(r *Record) {
	c := &v.copies
	if c.open != c.told.Open || c.open > 0 && openDigest(c.digest).String() != c.told.OpenSHA256 {
		v.wrong(r, "the copies behind record %d are not those of which it has the digest", c.record)
	}
}
