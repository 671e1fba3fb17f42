package queue

// This file plays what people do with dead letters.

// edit takes the content that a dead letter was given. Each edit is of the line that
// the last one left; the first is of the line that was sent.
func (s *story) edit(r *Record, m *traced) {
	if m.state != Dead {
		s.wrong(r, "the message was %s", m.state)
	}
	lineless := m.flags&tracedLineless != 0
	if was, ok := r.EditOf(); !ok || lineMark(was) != m.line && !lineless {
		s.wrong(r, "it is an edit of another line than the message had")
	}
	s.edited(r, m)
	if m.at().IsZero() {
		s.adopt(m, r.PartitionKey)
	} else if r.PartitionKey != m.key.name {
		s.wrong(r, "a message with a place has got another key")
	}
}

// edited gives a message another line than the one that was sent.
func (s *story) edited(r *Record, m *traced) {
	if _, known := s.sent[r.Seq]; !known && m.flags&tracedLineless == 0 {
		s.sent[r.Seq] = m.line
	}
	m.reads(r)
	m.flags |= tracedEdited
}

// revive plays what ends a dead letter.
func (s *story) revive(r *Record, m *traced) {
	if m.state != Dead {
		s.wrong(r, "the message was %s", m.state)
	}
	m.deliveries, m.failed = 0, 0
	m.flags &^= tracedDeliveries | tracedFailed
	switch {
	case r.Event == EventDiscarded:
		s.discard(r, m)
	case m.at().IsZero():
		m.state = Ready // its ACCEPTED follows
	default:
		s.putBack(m)
	}
}

// discard ends a dead letter.
func (s *story) discard(r *Record, m *traced) {
	door := m.flags&tracedAccepted == 0
	if m.flags&tracedLoose != 0 {
		door = atDoor(r.Code)
	} else if r.Code != "" && door != atDoor(r.Code) {
		s.wrong(r, "its code %s is not that of the dead letter", r.Code)
	}
	if door {
		s.sums.QuarantinedDiscarded++
	} else {
		s.sums.Discarded++
	}
	s.forget(r.Seq, m)
}
