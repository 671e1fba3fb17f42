package handler

import "breakwater/queue"

// OutcomeAutoResolved is the outcome of everything that Log acks.
const OutcomeAutoResolved = "AUTO_RESOLVED"

// Log acks every delivery: the record of the decision is its whole effect, so its
// deliveries may be settled many at a time. It is the default of AUTO_RESOLVE.
type Log struct{}

// Decide acks d with AUTO_RESOLVED.
func (Log) Decide(*queue.Delivery) queue.Answer {
	return queue.Answer{Verb: queue.Ack, Outcome: OutcomeAutoResolved}
}
