package queue

import "time"

// Answer is what a handler says of a delivery: the part of a [Settlement] that is
// its to say.
type Answer struct {
	Verb    Verb
	Outcome string        // Ack
	By      string        // who decided, as far as the handler knows
	Note    string        // Ack
	Reason  string        // the others
	After   time.Duration // Retry: never sooner than this
	Until   time.Time     // Hold
	Stderr  string        // the end of an exec handler's stderr

	// Unanswered says of a Retry or a Release that the handler did not give it: it began
	// with the delivery, and what became of that is not known; see [Settlement].
	Unanswered bool

	// Unavailable says that the handler itself could not be had (it did not start,
	// nobody listened): Verb is Release, nothing is counted, and the whole route
	// backs off, by at least After.
	Unavailable bool
}

// Unavailable is the answer of a handler that could not be had.
func Unavailable(reason string, after time.Duration) Answer {
	return Answer{Verb: Release, Reason: reason, After: after, Unavailable: true}
}
