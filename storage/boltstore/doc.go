// Package boltstore keeps a breakwater in one bbolt file: the product's default
// backend of [queue.Store].
//
// # One committer
//
// One goroutine owns the only read-write transaction and every table in memory.
// Callers prepare their part (hashing, encoding) in their own goroutine, hand over
// an operation and wait. The committer takes what is waiting, bounded by count and
// bytes, applies all of it to one transaction, commits, and then answers each. One
// pair of syncs thus serves hundreds of messages, and nothing in memory needs a
// lock. (db.Batch was the road not taken: it delays a lone caller and may run a
// body twice.)
//
// # Everything is appended
//
// Messages lie in the order of their places, the ledger is a log with sorted
// segments (package ledger), the trail is a list of blocks, with a filter for each
// MiB of them that says what is not in it (span.go). Only what is in flight is
// written in place. docs/format.md lists every bucket, key and value.
//
// # Tables in memory
//
// What must be found fast is in memory and rebuilt at start by one walk over the
// backlog: a table of partition keys that have open messages, with a bounded
// window of their next messages (window.go); the leases (flight.go); lists of the
// keys that can be claimed now (ready.go); the waits (wait.go). None of it grows
// with the backlog, only with the number of open keys.
//
// # Failing
//
// A commit that fails is not "not stored": the disk may hold it or not. So every
// error of a commit but a clean refusal (no space, and the transaction id did not
// move) ends the store with [queue.ErrFailed] and no answer to anybody; the next
// start reads what is really there (fail-stop). After a clean refusal the tables
// are rebuilt from the file, by the code that a start runs.
package boltstore
