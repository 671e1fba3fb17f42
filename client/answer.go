package client

import (
	"encoding/json"
	"fmt"
	"time"
	"unicode/utf8"
)

// Delivery is one exception that was handed out, as the server sent it.
type Delivery struct {
	Lease          string          `json:"lease"` // the right to answer it
	Seq            uint64          `json:"seq"`   // its number: the same in every delivery
	Route          string          `json:"route"`
	Number         int             `json:"delivery"`        // which delivery this is, from 1
	FailedAttempts int             `json:"failed_attempts"` // retries so far
	Redelivered    bool            `json:"redelivered"`     // somebody has worked on it before and given no answer: its effect may exist
	AcceptedAt     time.Time       `json:"accepted_at"`
	Deadline       time.Time       `json:"deadline"` // of the lease; by the monotonic clock, whatever is done to the other
	TraceID        string          `json:"trace_id"`
	IdempotencyKey string          `json:"idempotency_key"` // which unit of work it is
	PartitionKey   string          `json:"partition_key"`
	SourceHash     string          `json:"source_hash"`
	Exception      json.RawMessage `json:"exception"` // the sender's object, byte for byte
}

// Verb is what an answer does.
type Verb string

// The verbs. All but Extend end the lease.
const (
	Ack     Verb = "ack"     // settled, with an Outcome
	Retry   Verb = "retry"   // failed; counts; it keeps its place and waits
	Release Verb = "release" // put back; counts as nothing
	Hold    Verb = "hold"    // its partition key waits until a time; counts as nothing
	Reject  Verb = "reject"  // to the dead letters
	Extend  Verb = "extend"  // a new full lease
)

// Answer says what becomes of a delivery.
type Answer struct {
	Verb    Verb
	Outcome string        // Ack: 1 to 64 of A-Z, 0-9 and _; what it means is yours
	By      string        // who decided; at most 256 bytes
	Note    string        // Ack; at most 4,096 bytes
	Reason  string        // the others but Extend; at most 4,096 bytes
	After   time.Duration // Retry: not sooner than this; 0: as the server is configured
	Until   time.Time     // Hold
	Stderr  string        // the end of what a command said on its way; at most 4,096 bytes. Kept in the record

	// Unanswered says of a Retry or a Release that this is no answer of whoever did the
	// work: it was begun and cut off, or nobody can tell what became of it. Counting is
	// not changed by it; but who gets the exception next is told that it is Redelivered.
	Unanswered bool
}

// line spells the answer for a lease, with the line's end. The error is ErrUsage.
func (a Answer) line(lease string) ([]byte, error) {
	texts := []text{{"lease", lease}, {"verb", string(a.Verb)}, {"outcome", a.Outcome}, {"by", a.By}, {"note", a.Note}, {"reason", a.Reason}, {"stderr", a.Stderr}}
	if err := mustBeText(texts...); err != nil {
		return nil, err
	}
	said := map[string]any{string(a.Verb): lease}
	for _, t := range texts[2:] {
		if t.value != "" {
			said[t.name] = t.value
		}
	}
	if a.After > 0 {
		said["after_ms"] = (a.After + time.Millisecond - 1).Milliseconds() // never sooner
	}
	if a.Unanswered {
		said["unanswered"] = true
	}
	if !a.Until.IsZero() {
		said["until"] = a.Until.UTC().Format(time.RFC3339Nano)
	}
	line, err := json.Marshal(said)
	return append(line, '\n'), err // strings and a number always marshal
}

// text is a value that becomes a string of JSON, and what to call it.
type text struct{ name, value string }

// mustBeText refuses what is not UTF-8. JSON cannot hold it, and what an encoder puts in
// its place is another text: it would be recorded, or name somebody else.
func mustBeText(texts ...text) error {
	for _, t := range texts {
		if !utf8.ValidString(t.value) {
			return fmt.Errorf("%w: %s: %s is not UTF-8: %.80q", ErrUsage, codeUsage, t.name, t.value)
		}
	}
	return nil
}

// Kind says what an event is about.
type Kind string

// The kinds of events. A Session keeps others to itself.
const (
	Attached    Kind = "attached"     // again, after a lost connection
	Delivered   Kind = "delivery"     // an exception that the session has not had yet
	LeaseEnding Kind = "lease_ending" // a third of a lease is left
	Draining    Kind = "draining"     // nothing more is delivered before the server's restart
	Settled     Kind = "settled"      // an answer was taken, and is on the server's disk
	Extended    Kind = "extended"     // a lease has a new Deadline
	Refused     Kind = "refused"      // an answer changed nothing: Code says why
	Faulty      Kind = "error"        // a line was not understood: nothing of it was done
)

// Codes of a Refused event.
const (
	CodeLeaseExpired   = "LEASE_EXPIRED"   // the lease is over: it is handed out again
	CodeAlreadySettled = "ALREADY_SETTLED" // it was settled before
)

// Event is something that the server said.
type Event struct {
	Kind     Kind
	Lease    string    // which delivery it is about
	Deadline time.Time // LeaseEnding, Extended
	Code     string    // Refused, Faulty
	Error    string    // Refused, Faulty: why, for people
	// Resent says that the answer was sent before, on a connection that was lost. If it
	// is refused as ALREADY_SETTLED then, it was most likely taken the first time.
	Resent   bool
	Delivery *Delivery // Delivered
	Line     []byte    // Delivered: the line as it came, without its end
}

// heard is a line of the server.
type heard struct {
	Event    string    `json:"event"`
	Lease    string    `json:"lease"`
	Deadline time.Time `json:"deadline"`
	Code     string    `json:"code"`
	Error    string    `json:"error"`
	LeaseMs  int64     `json:"lease_timeout_ms"`
}
