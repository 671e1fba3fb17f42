package queue

import "time"

// Submission is one line at the door, after the gates. Fault is nil when it may
// enter the order; else the line is quarantined, and Message holds what of it
// could be read.
//
// LineBytes and LineHash are those of the whole line as it was received; an
// over-long line is kept only by its first bytes in Message.Line.
type Submission struct {
	Message   Message
	Fault     *Fault
	LineBytes int64
	LineHash  Hash
}

// Fault is why a line was quarantined: the member at fault, if one is, and the
// reason in words.
type Fault struct {
	Field  string
	Reason string
}

// AdmitRequest is a run of lines from one producer, in order.
type AdmitRequest struct {
	Now    time.Time
	Peer   Peer
	Limits Limits
	Lines  []Submission
}

// AdmitResult has one receipt per line, and the head of the trail after the
// commit that made them durable.
type AdmitResult struct {
	Receipts []Receipt
	Head     Head
}

// Status is what became of a line.
type Status uint8

// The statuses of a receipt. Rejected is the only one after which the line is
// stored nowhere.
const (
	Accepted Status = iota + 1
	Duplicate
	Conflict
	Quarantined
	Rejected
)

// String returns the status as receipts spell it.
func (s Status) String() string {
	switch s {
	case Accepted:
		return "accepted"
	case Duplicate:
		return "duplicate"
	case Conflict:
		return "conflict"
	case Quarantined:
		return "quarantined"
	case Rejected:
		return "rejected"
	}
	return "unknown"
}

// Receipt answers one line. Members that do not apply are zero.
type Receipt struct {
	Status    Status
	Seq       uint64
	Of        uint64     // Conflict: the message whose key it used
	State     State      // Duplicate: of the first
	Outcome   string     // Duplicate of a settled one
	SettledAt time.Time  // Duplicate of a settled one
	Code      Code       // Conflict, Quarantined, Rejected
	Reason    Saturation // Rejected for QUEUE_SATURATED
	Field     string     // Quarantined
	Error     string
	Repeat    bool // byte-identical to an open letter, whose receipt this is
}

// State is where a message is in its life.
type State uint8

// The states. Held: its key waits (backoff, hold, dead letter, operator).
const (
	Ready State = iota + 1
	Scheduled
	Leased
	Held
	Done
	Dead
	Discarded
)

// String returns the state as receipts and status spell it.
func (s State) String() string {
	switch s {
	case Ready:
		return "ready"
	case Scheduled:
		return "scheduled"
	case Leased:
		return "leased"
	case Held:
		return "held"
	case Done:
		return "done"
	case Dead:
		return "dead"
	case Discarded:
		return "discarded"
	}
	return "unknown"
}
