package queue

import (
	"encoding/json"
	"slices"
	"time"
)

// Limits of one record, so that a trail cannot be made to grow by long texts.
// What exceeds them is cut on a rune border and named in the record's member
// "cut"; the original bytes of a message are in the store, and their length and
// SHA-256 in its ACCEPTED or QUARANTINED record.
const (
	// MaxRecordID bounds every short member (ids, names, codes), in bytes of
	// text. The gates let nothing longer in; a quarantined line may have it.
	MaxRecordID = 256
	// MaxRecordText bounds note, reason and stderr each, in bytes of text. Of
	// stderr the end is kept, of the others the beginning.
	MaxRecordText = 4 << 10
	// MaxRecordRaw bounds before, after and detail each, in bytes of JSON. A
	// document that is longer is replaced by {"bytes":n,"sha256":"…"}.
	MaxRecordRaw = 64 << 10
	// MaxRecordSeqs bounds the list of a DUPLICATE_SKIPPED; count has them all.
	MaxRecordSeqs = 1024

	// MaxRecordBytes bounds a whole line with its newline. It follows from the
	// limits above with every byte of text escaped to six (\u0000).
	MaxRecordBytes = 6*(shortMembers*MaxRecordID+3*MaxRecordText) + 3*MaxRecordRaw + 21*MaxRecordSeqs + 4<<10
	// shortMembers is how many members MaxRecordID bounds.
	shortMembers = 15
)

// Record is one line of the trail: what happened to a message, a key or the
// system, when, and by whom. Members that do not apply are zero and absent from
// the line; there is no member whose zero value would be news.
//
// The text of a record is always valid UTF-8. A quarantined line may not have
// been: what was readable of it is recorded with U+FFFD in place of each bad
// byte, for people, while LineSHA256 and the dead letter hold the bytes
// themselves, for proof.
type Record struct {
	N     uint64    // number of the record, from 1, without gaps
	TS    time.Time // wall clock; see AppendNDJSON for its text. Order is by N, never by TS
	Event Event

	Seq   uint64 // the message
	Of    uint64 // QUARANTINED as a conflict: the message whose key it used
	Place Place  // DUE only; of any other message the place is its seq

	// CopyOf is the number under which the record was written first, if this is a copy:
	// the first one was trimmed, and what it tells still holds. All else is as it was.
	CopyOf uint64

	TraceID       string
	SourceHash    Hash
	MatchDecision MatchDecision
	PartitionKey  string
	Amount        string // variance_amount, as sent

	// On ACCEPTED and QUARANTINED, so that source_hash can be recomputed and the
	// stored bytes be compared.
	IdempotencyKey string
	LedgerEntity   string
	Currency       string
	LineSHA256     Hash
	LineBytes      int64

	Worker         string // the lease's owner: "w-3", or a consumer's name
	Route          Route
	Outcome        string
	By             string // who decided or acted, as far as they said
	Note           string
	Reason         string
	Code           Code
	Field          string    // QUARANTINED: the member at fault
	Delivery       int       // which delivery, from 1
	FailedAttempts int       // retries so far
	Unanswered     int       // deliveries so far that ended without an answer, this one included if it did
	NotBefore      time.Time // ACCEPTED of a scheduled message
	Until          time.Time // RETRIED, HELD: when its key stops waiting
	Deadline       time.Time // DISPATCHED, EXTENDED: of the lease

	Count  int      // DUPLICATE_SKIPPED
	Seqs   []uint64 // DUPLICATE_SKIPPED: at most MaxRecordSeqs of them
	Stderr string   // the end of an exec handler's stderr

	Before json.RawMessage // CONFIG_CHANGED, EDITED
	After  json.RawMessage
	Detail json.RawMessage // counts and facts of a system event

	Peer *Peer  // the connection it came by
	Cut  CutSet // members that are not whole
}

// Peer is the process at the other end of a socket, as the kernel names it
// (SO_PEERCRED). Pid is for the reader only: numbers are used again.
type Peer struct {
	UID, GID uint32
	PID      int32
}

// concerns reports whether the record says something about message seq.
func (r *Record) concerns(seq uint64) bool {
	return r.Seq == seq || r.Of == seq || slices.Contains(r.Seqs, seq)
}

// CutSet says which members of a record were cut to their limit. The zero value:
// none.
type CutSet uint32

// cuttable lists the members that have a limit; a bit of a CutSet is an index.
// Bits never leave the process, so the order is free: it is that of a line.
var cuttable = [...]string{
	"event", "trace_id", "match_decision", "partition_key", "variance_amount",
	"idempotency_key", "ledger_entity", "currency", "worker", "route", "outcome", "by",
	"note", "reason", "code", "field", "seqs", "stderr", "before", "after", "detail",
}

// Indexes into cuttable.
const (
	cutEvent = iota
	cutTraceID
	cutMatchDecision
	cutPartitionKey
	cutAmount
	cutIdempotencyKey
	cutLedgerEntity
	cutCurrency
	cutWorker
	cutRoute
	cutOutcome
	cutBy
	cutNote
	cutReason
	cutCode
	cutField
	cutSeqs
	cutStderr
	cutBefore
	cutAfter
	cutDetail
)

// Has reports whether the member of this name was cut.
func (c CutSet) Has(member string) bool {
	i := slices.Index(cuttable[:], member)
	return i >= 0 && c&(1<<i) != 0
}

// Members returns the names of the members that were cut, in line order.
func (c CutSet) Members() []string {
	var names []string
	for i, name := range cuttable {
		if c&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return names
}
