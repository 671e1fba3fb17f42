package queue

// Told is what the trail says of a message that is open or a dead letter.
type Told struct {
	State                      State // Ready (whatever its key waits for), Scheduled, Leased or Dead
	Accepted                   bool  // it is, or was, in the order: no line that the door refused
	Place                      Place // zero: none yet
	PartitionKey               string
	Holder                     string // Leased: who holds it
	Deliveries, FailedAttempts int    // that count
	Uncounted                  bool   // the records that count them were trimmed: they are more, or less
	Unanswered                 bool   // a delivery of it ended without an answer
	Untold                     bool   // the records that would say so were trimmed
}

// Told returns what the trail says of a message; ok is false if it is settled, was
// never accepted, or was not followed (see Traced).
func (v *Verifier) Told(seq uint64) (t Told, ok bool) {
	m := v.story.live[seq]
	if m == nil || !v.Traced() {
		return Told{}, false
	}
	return m.told(), true
}

// EachTold calls fn for every message that is open or a dead letter, in no order.
func (v *Verifier) EachTold(fn func(seq uint64, t Told)) {
	if !v.Traced() {
		return
	}
	for seq, m := range v.story.live {
		fn(seq, m.told())
	}
}

func (m *traced) told() Told {
	t := Told{
		State: m.state, Accepted: m.flags&tracedAccepted != 0, Place: m.at(), PartitionKey: m.key.name,
		Deliveries: int(m.deliveries), FailedAttempts: int(m.failed),
		Uncounted:  m.flags&(tracedDeliveries|tracedFailed) != 0,
		Unanswered: m.flags&tracedUnanswered != 0, Untold: m.flags&tracedUntold != 0,
	}
	if m.state == Leased {
		t.Holder = m.key.holder
	}
	return t
}

// Traced reports whether messages were followed to the end of the trail: then Told,
// KeyHolds and Pause know.
func (v *Verifier) Traced() bool { return v.traces() }

// Whole reports whether what operators ordered is known, also before the trail begins:
// it is whole, or copies tell of what held when its beginning was trimmed.
func (v *Verifier) Whole() bool { return v.out.First.N <= 1 || v.opened && v.story.old == 0 }

// KeyHolds returns the partition keys that operators hold, says the trail, with who
// held each, when and why. It must not be changed.
func (v *Verifier) KeyHolds() map[string]Action { return v.story.held }

// Pause returns what stops the claims, says the trail; nil: they go on.
func (v *Verifier) Pause() *Pause { return v.story.paused }
