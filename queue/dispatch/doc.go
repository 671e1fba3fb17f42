// Package dispatch is breakwater at work: every goroutine between the sockets and
// the store.
//
// # The parts
//
//	producers ──► Submit ──► store.Admit          intake.go: back-pressure, QUEUE_SATURATED
//	                             │
//	feeder ──► store.Claim ──────┘                feeder.go, offer.go: takes no more than there is room for
//	   │  one bounded channel per worker
//	   ├────► workers ──► handler ──► store.Settle    worker.go, settle.go: one message at a time, in order
//	   │  one bounded mailbox per consumer
//	   └────► Next    Answer ──► store.Settle     session.go, answer.go: consumers, at their own pace
//
// Beside them run the keeper of leases (leases.go: renews what the workers hold,
// takes back what expired), the watch (watch.go: CONSUMER_LAG, readiness) and
// retention (expire.go: forgets keys and trims the trail). A consumer has no
// goroutine here: its connection's call Next and Answer.
//
// # Back-pressure
//
// There is no rate limiter. A slow handler fills its worker's channel, the feeder
// then claims nothing for that worker, the backlog grows to its limit, and Submit
// stops returning: the producer's socket is not read any more (P7). When there is
// room again one of those who wait is woken, and passes it on.
//
// A worker is asked for when its channel has run half empty: a claim is a
// transaction, and one message is not worth one.
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
// # Leases of workers
//
// A worker holds what is queued for it, what it runs, and nothing else; the keeper
// renews exactly that. Since it lives in this process, its leases end with its
// answers: neither a slow handler, nor a slow disk, nor a process that was stopped
// for a while makes one expire.
//
// # Consumers
//
// A consumer attaches under a name and is an owner beside the workers (desk.go): it
// serves the slots that rendezvous hashing gives it among those of the same route. That
// is a preference. What it has no room for, or does not want, goes to others (offer.go).
// Its leases are its own: they outlive its connection (leave.go), and a session that is
// attached under the same name gets them again (takeover.go).
//
// A session knows all that the store has leased to its consumer, at any moment at which
// it could tell of it. So nothing is claimed for one that is leaving, nothing that was
// settled is told of, and every lease that ends makes room. Where the store is asked
// and the answer may be stale when it arrives, the session keeps what has ended
// meanwhile (early).
//
// # Changing
//
// Settings, handlers and workers may change while it runs (configure.go, crew.go). A
// delivery that has begun is finished by the handler and the worker it began with. What
// is queued follows the change: it gets the new handler, or goes back uncounted.
//
// # Stopping
//
// Two contexts: the first ends the taking (claims, waiting lines), the second the
// working (running handlers). What is queued behind a running handler goes back at
// once. Settlements outlive both, under a deadline of their own, so that the last
// answer is not lost. Run returns when the last goroutine has left.
package dispatch
