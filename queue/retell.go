package queue

// This file is how a trail is read whose beginning was trimmed (see trim.go). Of a
// message that is older than the trail nothing is known until a record tells of it: one
// of its own, from which follows where it must have stood, or a copy. What was open when
// the records were trimmed has copies, all of them behind the TRIMMED that says so; so
// from there on everything is known that is open, and what is not among it was over.

// open makes the story begin where a trimmed trail does.
func (s *story) open(o *Opening) { s.seq, s.old, s.sums = o.LastSeq, o.LastSeq, o.Sums }

// older returns a message that is older than the trail, and of which nothing is known
// but its key.
func (s *story) older(r *Record) *traced {
	m := &traced{flags: tracedLoose | tracedLineless | tracedDeliveries | tracedFailed}
	s.live[r.Seq] = m
	s.adopt(m, r.PartitionKey)
	return m
}

// meet returns a message that is older than the trail where it must have stood for its
// first record here to be right.
func (s *story) meet(r *Record) *traced {
	m := s.older(r)
	m.flags |= tracedTold
	switch r.Event {
	case EventDue:
		m.state = Scheduled
	case EventAccepted, EventDispatched, EventDeadLettered:
		m.state = Ready
	case EventReplayed, EventDiscarded, EventEdited:
		m.state = Dead
	default: // an answer
		s.hold(r, m)
	}
	if r.Event != EventReplayed && r.Event != EventDiscarded && r.Event != EventEdited {
		m.flags |= tracedAccepted
	}
	return m
}

// hold makes a message leased, as far as an answer or a copy of its DISPATCHED says.
func (s *story) hold(r *Record, m *traced) {
	if m.key.leased == 0 {
		m.key.holder = r.Worker
	}
	m.key.leased++
	m.state, m.deliveries = Leased, uint32(r.Delivery)
	m.flags &^= tracedDeliveries
}

// retell plays a copy. It was true when the records before the trail were trimmed, and
// perhaps long before; what records of the message's own have told since stands.
func (s *story) retell(r *Record) {
	switch r.Event {
	case EventKeyHeld:
		s.held[r.PartitionKey] = true
		return
	case EventPaused, EventRestored:
		s.paused = true
		return
	}
	if r.Seq == 0 || r.Seq > s.old {
		s.wrong(r, "it is a copy of record %d, which was not trimmed", r.CopyOf)
		return
	}
	m := s.live[r.Seq]
	if m == nil {
		m = s.older(r)
	}
	m.flags |= tracedCopied
	switch r.Event {
	case EventAccepted, EventQuarantined:
		s.retellFirst(r, m)
	case EventEdited:
		s.edited(r, m)
	case EventDue:
		m.takes(r.Place)
		if m.state == Scheduled || m.state == Ready {
			s.putBack(m)
		}
	case EventDispatched:
		if m.state != Leased {
			s.hold(r, m)
		}
	case EventDeadLettered:
		m.state = Dead
	default:
		s.wrong(r, "it is a copy, and tells nothing that could still hold")
	}
}

// retellFirst plays a copy of the record by which a message got its seq, or its place.
func (s *story) retellFirst(r *Record, m *traced) {
	told := m.flags&tracedTold != 0
	if r.Event == EventQuarantined {
		m.flags |= tracedQuarantined
		s.sent[r.Seq] = lineMark(r.LineSHA256)
		if m.flags&tracedLineless != 0 {
			m.reads(r)
		}
		if !told {
			m.state = Dead
			m.flags &^= tracedLoose // it has no place
		}
		return
	}
	m.flags |= tracedAccepted
	switch {
	case m.flags&tracedLineless != 0:
		m.reads(r)
	case m.flags&tracedQuarantined == 0:
		s.sent[r.Seq] = lineMark(r.LineSHA256)
	case m.flags&tracedEdited == 0 && m.line != lineMark(r.LineSHA256):
		m.reads(r) // it was edited between the two
		m.flags |= tracedEdited
	}
	scheduled := r.NotBefore.After(r.TS)
	if !scheduled {
		m.takes(Place{Seq: r.Seq})
	}
	switch {
	case told && m.state == Ready && !scheduled, !told && !scheduled:
		s.putBack(m)
	case !told:
		m.state = Scheduled
		m.flags &^= tracedLoose // it has none yet, or its DUE follows
	}
}

// settle ends the telling of what is older than the trail: what no copy has told of was
// over by then.
func (s *story) settle(r *Record) {
	for seq, m := range s.live {
		if seq <= s.old && m.flags&tracedCopied == 0 {
			s.wrong(&Record{N: r.N, Event: r.Event, Seq: seq}, "it was %s, and no copy of its records follows", m.state)
		}
	}
	s.old = 0
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
