// Package ledger remembers idempotency keys: a small log-structured merge tree
// that lives inside a bbolt file.
//
// # Why not a bucket keyed by the hash
//
// A hash is random, so every new key would dirty a page of its own: 4 KiB
// written for 60 bytes remembered, and worse as the tree grows. Measured on one
// machine, a plain bucket of keys cut the durable intake from about 107,000 to
// 21,000 messages a second. Here everything is appended instead, and a commit of
// 100 keys takes 6 % longer with ten million remembered than with none
// (BenchmarkAdmit; 5.8 and 6.2 µs a key with two syncs a commit).
//
// # The life of an entry
//
//	Put ──► log value (sequential)  ──► rebuilt into the head at Open
//	   └──► active head (memory) ──freeze──► frozen head ──seal──► segment, tier 0
//	                                 4 segments of a tier ──merge──► segment, next tier
//
// An entry is appended to the log bucket and stored in the active head, a table
// in memory that happens to be sorted (see head). When the head is full it is
// frozen, and a job writes it, in key order, into a segment: blocks of records
// in the blocks bucket, and for every run of blocks a piece of a bloom filter
// in the filters bucket, kept in memory as well. Then the log that it replaces
// is deleted. Segments of one tier are merged into one of the next.
//
// A key may have several entries (accepted, then settled). The newest wins: in
// a head the later Put, then the active head over the frozen one, then newer
// segments over older ones. Every read and every merge asks in that order.
//
// # In the file
//
//	ledger_manifest  "manifest"           → JSON: segments, jobs, where the log begins, the count
//	ledger_log       log number           → records, as they came
//	ledger_blocks    segment id ‖ last key → records, in key order
//	ledger_filters   segment id ‖ last key → filter of a run of blocks, with its counts
//
// Numbers in keys are 8 bytes, big-endian. Every value begins with a CRC-32C
// over its bucket key and the rest, checked on every read; appendRecord says
// what a record looks like. Values are small, so that bbolt fills its pages: see
// defaultSizes.
//
// A damaged value is an error that names bucket and key and matches
// [queue.ErrDamaged], never a wrong answer; a damaged piece of filter is rebuilt
// from its blocks and reported by [Ledger.Repaired]. A damaged block ends nothing: keys
// that may be there are in doubt (a [*DoubtError]), and merges go around its segment
// (damage.go). That a key is absent is proved, not believed (run.go).
//
// # Who may call
//
// One goroutine, the committer, which owns the only read-write transaction.
// All state has that one owner, so there is no lock. Reads on behalf of people
// (a command line's verify) go through the committer too, or use a second
// Ledger opened on a read-only transaction or on a copy of the file: Open, Get,
// Walk and Check never write. [KeyOf] and [Digest] may be called from anywhere.
//
// # Crashes and rollbacks
//
// Every step, however small, leaves file and manifest consistent within the
// caller's transaction, and a job keeps nothing that can't be read back: its
// position is the last block it wrote. So a crash between any two steps resumes
// where it was. Memory runs ahead of the file until the commit; after a rolled
// back transaction call [Ledger.Reload].
//
// # Limits
//
// At most 16 segments, by arithmetic and not by luck: maintain.go counts them. With
// damaged ones among them 32: damage.go.
// Both heads together stay under 40 MB (a remembered key in a head takes about
// 80 bytes), filters take 10 bits a record, twice that for the inputs of a merge
// while it lasts. Each record is written once to the log, once when sealed and
// once per tier it climbs: at 50 million keys 5.8 times in all.
package ledger
