package boltstore

import (
	bolt "go.etcd.io/bbolt"
)

// The buckets of the file; docs/format.md describes each key and value.
var (
	bucketMeta      = []byte("meta")      // name → value: identity, counters, config, pause
	bucketBacklog   = []byte("backlog")   // place → record
	bucketScheduled = []byte("scheduled") // not-before ‖ seq → record
	bucketTimed     = []byte("timed")     // seq → where a message that was scheduled lies now
	bucketFlight    = []byte("flight")    // seq → lease, counters, wait
	bucketParked    = []byte("parked")    // key hash ‖ place → nothing: messages kept out of the window
	bucketDead      = []byte("dead")      // seq → dead letter
	bucketHeld      = []byte("held")      // partition key → operator's hold
	bucketEpochs    = []byte("epochs")    // number → epoch that has ended
	bucketAudit     = []byte("audit")     // block number → block of the trail

	// bucketAliases: hash of what a message was → what the ledger knows it by now. The
	// first edit makes it.
	bucketAliases = []byte("aliases")

	// bucketTrailIndex: number of a span's last block → what is in the span. It only
	// saves reading, and the first start makes it, so a file may be without.
	bucketTrailIndex = []byte("trail_index")
)

// allBuckets is what a new file gets; the ledger adds its own.
var allBuckets = [][]byte{
	bucketMeta, bucketBacklog, bucketScheduled, bucketTimed, bucketFlight,
	bucketParked, bucketDead, bucketHeld, bucketAudit, bucketEpochs,
}

// Names in the meta bucket.
var (
	metaFormat    = []byte("format")     // FormatVersion, big-endian 32 bits
	metaID        = []byte("id")         // 16 random bytes: which store this is
	metaSecret    = []byte("secret")     // 32 random bytes: keys the hashes of ledger and partition keys
	metaCounters  = []byte("counters")   // see counters.go
	metaTally     = []byte("tally")      // see tally.go
	metaConfig    = []byte("config")     // the configuration in force, JSON
	metaConfigSum = []byte("config_sum") // CRC-32C of it; absent: a program that wrote none stored it
	metaService   = []byte("service")    // see epoch.go
	metaOpening   = []byte("opening")    // where the trail begins, once it was trimmed; see trim.go
	metaPause     = []byte("pause")      // present while claims are paused, JSON
	metaClean     = []byte("clean")      // present when the last process closed the store
	metaArchive   = []byte("archive")    // present in an archive copy
	metaArchived  = []byte("archived")   // how far the trail is in an archive; absent: nothing is
)

// FormatVersion is the version of everything in this package and below it. A
// newer file is refused; an older one is migrated.
const FormatVersion = 1

// appendFill is how full bbolt packs the pages of buckets that only grow at their
// end. bbolt's default leaves half of every page free for inserts that never come.
const appendFill = 0.95

// buckets are the buckets of one transaction, looked up once.
type buckets struct {
	meta, backlog, scheduled, timed, flight, parked, dead, held, audit, epochs *bolt.Bucket

	aliases *bolt.Bucket // nil in a file in which nothing was edited
}

func bucketsOf(tx *bolt.Tx) buckets {
	b := buckets{
		meta: tx.Bucket(bucketMeta), backlog: tx.Bucket(bucketBacklog),
		scheduled: tx.Bucket(bucketScheduled), timed: tx.Bucket(bucketTimed),
		flight: tx.Bucket(bucketFlight), parked: tx.Bucket(bucketParked),
		dead: tx.Bucket(bucketDead), held: tx.Bucket(bucketHeld), audit: tx.Bucket(bucketAudit),
		epochs: tx.Bucket(bucketEpochs), aliases: tx.Bucket(bucketAliases),
	}
	for _, appended := range []*bolt.Bucket{b.backlog, b.audit, b.epochs} {
		if appended != nil {
			appended.FillPercent = appendFill
		}
	}
	return b
}
