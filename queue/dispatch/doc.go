// Package dispatch is breakwater at work: every goroutine between the sockets and
// the store.
//
// # The parts
//
//	producers ──► Submit ──► store.Admit          intake.go: back-pressure, QUEUE_SATURATED
//	                             │
//	feeder ──► store.Claim ──────┘                feeder.go: takes no more than there is room for
//	   │  one bounded channel per worker
//	   ▼
//	workers ──► handler ──► store.Settle          worker.go: one message at a time, in order
//
// Beside them run the keeper of leases (leases.go: renews what the workers hold,
// takes back what expired) and the watch (watch.go: CONSUMER_LAG, readiness).
//
// # Back-pressure
//
// There is no rate limiter. A slow handler fills its worker's channel, the feeder
// then claims nothing for that worker, the backlog grows to its limit, and Submit
// stops returning: the producer's socket is not read any more (P7).
//
// # Order
//
// The store sees to the order of each key. All that is left to a worker is to run
// what it was given in the order in which it was given, and to settle a message
// before it starts the next one of the same key. The store gives a worker several
// messages of one key only when asked to, and the feeder asks only on behalf of
// handlers that have no effect but their record (Pure): so no effect of a message
// can come before the settlement of the one before it.
//
// # Stopping
//
// Two contexts: the first ends the taking (claims, waiting lines), the second the
// working (running handlers). Settlements outlive both, under a deadline of their
// own, so that the last answer is not lost. Run returns when the last goroutine
// has left.
package dispatch
