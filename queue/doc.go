// Package queue says what breakwater is: its words, its rules, and the contract
// of the store that keeps them. It starts no goroutine, does no I/O and reads no
// clock; whoever calls it says what time it is.
//
// # Words
//
// An exception is what a matching engine could not match: a break between two
// books, with a variance amount. It arrives as one line of JSON, a [Message].
// The door is where lines arrive; two gates stand in it, [Structural] and
// [Monetary]. A line that fails one is quarantined: stored as a dead letter
// with its bytes as they came.
//
// A message that passes is identified by its seq, a number given once and never
// again. Its idempotency key says which unit of work it is, its partition key
// which messages it must keep in step with. The message of a partition key that
// is next to go is the key's head. The ledger remembers every idempotency key,
// what became of it and for how long that holds good.
//
// To be worked on, a message is claimed: an owner, which is a worker inside the
// process or a consumer attached to a socket, gets a lease on it, until a
// deadline, under a token. Each time it is handed out is one delivery. The
// owner settles the lease: ack (it is done, with an outcome), retry (it failed;
// again later), release (never started), hold (wait until a given time), reject
// (never again). What cannot be processed becomes a dead letter, which a person
// replays, edits or discards. All of this is written to the trail, as records in a
// chain of hashes.
//
// # The life of one exception
//
// A line comes in. [Parser.Parse] reads it and puts it through the two gates.
// The store admits it: an idempotency key that the ledger knows makes it a
// duplicate, or a conflict if the content differs; else it gets its seq and its
// place in the order, and the sender hears "accepted" once the commit is on
// disk. [RouteFor] has decided whether it resolves itself (a variance of zero)
// or goes to review.
//
// When it is its key's head, the key is not held, and an owner has room, it is
// claimed and delivered. The owner's answer, the ledger entry and the record of
// the decision are one commit. If no answer comes before the deadline, the lease
// is reclaimed and the message delivered again; after too many failures or
// deliveries it becomes a dead letter, and its key waits for a person.
//
// # The promises
//
// Code, tests and documents cite them by number.
//
//   - P1: what was answered "accepted" is on disk, through a kill or a power cut.
//   - P2: one idempotency key is one unit of work; the same key with other
//     content is told apart, kept, and not run.
//   - P3: a message is delivered until it is settled and takes effect once:
//     settlement, ledger and trail change in one transaction.
//   - P4: a message has at most one holder; an answer under an old lease changes
//     nothing.
//   - P5: the messages of a partition key go out in the order of their places,
//     one settled before the next, come retries, restarts or new workers.
//   - P6: everything is bounded by a named limit; memory does not grow with the
//     backlog.
//   - P7: slow handlers slow the intake; nothing is dropped to keep up.
//   - P8: nothing vanishes: a line that cannot be processed is kept with its
//     bytes, a code, the reason and its history.
//   - P9: a stop drains: what runs is given time, what waits is put back, and the
//     exit status says whether that was all.
//   - P10: whatever happens to a message is a record with its trace id, source
//     hash and match decision.
//   - P11: no failure settles a message: failures slow, reclaim, divert or warn.
//   - P12: money is exact: amounts are decimal strings and never pass through a
//     binary fraction.
//
// # Money and hashes
//
// [CheckAmount] holds an amount against the minor unit of its currency, which
// [MinorUnits] knows from ISO 4217. [SourceHash] names a message's content by a
// hash that other programs compute alike; [LineHash] names its bytes.
package queue
