package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// AppendNDJSON appends the record as one line of JSON with its newline, at most
// MaxRecordBytes. It cannot fail: what is too long is cut (and said so in "cut"),
// what is not UTF-8 is replaced, a raw member that is not JSON becomes a string.
//
// Three of these are written per message, inside the transaction: there is no
// reflection and no allocation but the growth of dst (the rare raw members
// excepted). The order of members is fixed. Times are UTC with exactly six digits
// of a second, "2026-01-02T15:04:05.000000Z": all of one length, so that their
// text sorts as they do; nanoseconds are cut off, not rounded, so that no record
// lies in the future.
//
// Besides what JSON demands, every character that is invisible or that could
// steer a terminal (C1 controls, DEL, line separators, bidirectional marks) is
// escaped: a line of the trail may be shown as it is.
func (r *Record) AppendNDJSON(dst []byte) []byte {
	e := recordEncoder{b: dst, cut: r.Cut}
	e.b = append(e.b, `{"n":`...)
	e.b = strconv.AppendUint(e.b, r.N, 10)
	e.b = append(e.b, `,"ts":"`...)
	e.b = append(appendTime(e.b, r.TS), '"')
	e.text(cutEvent, `,"event":`, string(r.Event))
	e.number(`,"seq":`, r.Seq)
	e.number(`,"of":`, r.Of)
	if !r.Place.IsZero() {
		e.b = append(e.b, `,"place":"`...)
		e.b = append(r.Place.appendText(e.b), '"')
	}
	e.number(`,"copy_of":`, r.CopyOf)
	e.message(r)
	e.work(r)
	e.rare(r)
	if r.Peer != nil {
		e.peer(r.Peer)
	}
	if e.cut != 0 {
		e.cutNames()
	}
	return append(e.b, '}', '\n')
}

// recordEncoder is the line under way and what was cut from it so far.
type recordEncoder struct {
	b   []byte
	cut CutSet
}

// message writes the members that say which message it is about.
func (e *recordEncoder) message(r *Record) {
	e.text(cutTraceID, `,"trace_id":`, r.TraceID)
	e.hash(`,"source_hash":"`, &r.SourceHash)
	e.text(cutMatchDecision, `,"match_decision":`, string(r.MatchDecision))
	e.text(cutPartitionKey, `,"partition_key":`, r.PartitionKey)
	e.text(cutAmount, `,"variance_amount":`, r.Amount)
	e.text(cutIdempotencyKey, `,"idempotency_key":`, r.IdempotencyKey)
	e.text(cutLedgerEntity, `,"ledger_entity":`, r.LedgerEntity)
	e.text(cutCurrency, `,"currency":`, r.Currency)
	e.hash(`,"line_sha256":"`, &r.LineSHA256)
	e.count(`,"line_bytes":`, r.LineBytes)
}

// work writes the members that say what was done, by whom.
func (e *recordEncoder) work(r *Record) {
	e.text(cutWorker, `,"worker":`, r.Worker)
	e.text(cutRoute, `,"route":`, string(r.Route))
	e.text(cutOutcome, `,"outcome":`, r.Outcome)
	e.text(cutBy, `,"by":`, r.By)
	e.long(cutNote, `,"note":`, r.Note)
	e.long(cutReason, `,"reason":`, r.Reason)
	e.text(cutCode, `,"code":`, string(r.Code))
	e.text(cutField, `,"field":`, r.Field)
	e.count(`,"delivery":`, int64(r.Delivery))
	e.count(`,"failed_attempts":`, int64(r.FailedAttempts))
	e.count(`,"unanswered":`, int64(r.Unanswered))
	e.time(`,"not_before":"`, r.NotBefore)
	e.time(`,"until":"`, r.Until)
	e.time(`,"deadline":"`, r.Deadline)
}

// rare writes what few records have.
func (e *recordEncoder) rare(r *Record) {
	e.count(`,"count":`, int64(r.Count))
	if len(r.Seqs) > 0 {
		e.seqs(r.Seqs)
	}
	if r.Stderr != "" {
		tail := keepEnd(r.Stderr, MaxRecordText)
		e.note(cutStderr, len(tail) < len(r.Stderr))
		e.b = appendQuoted(append(e.b, `,"stderr":`...), tail)
	}
	e.raw(cutBefore, `,"before":`, r.Before)
	e.raw(cutAfter, `,"after":`, r.After)
	e.raw(cutDetail, `,"detail":`, r.Detail)
}

func (e *recordEncoder) text(bit int, name, s string) { e.bounded(bit, name, s, MaxRecordID) }
func (e *recordEncoder) long(bit int, name, s string) { e.bounded(bit, name, s, MaxRecordText) }

func (e *recordEncoder) bounded(bit int, name, s string, limit int) {
	if s == "" {
		return
	}
	head := keepStart(s, limit)
	e.note(bit, len(head) < len(s))
	e.b = appendQuoted(append(e.b, name...), head)
}

// note remembers that a member was cut.
func (e *recordEncoder) note(bit int, wasCut bool) {
	if wasCut {
		e.cut |= 1 << bit
	}
}

func (e *recordEncoder) number(name string, n uint64) {
	if n != 0 {
		e.b = strconv.AppendUint(append(e.b, name...), n, 10)
	}
}

func (e *recordEncoder) count(name string, n int64) {
	if n != 0 {
		e.b = strconv.AppendInt(append(e.b, name...), n, 10)
	}
}

func (e *recordEncoder) hash(name string, h *Hash) {
	if *h != (Hash{}) {
		e.b = append(hex.AppendEncode(append(e.b, name...), h[:]), '"')
	}
}

func (e *recordEncoder) time(name string, t time.Time) {
	if !t.IsZero() {
		e.b = append(appendTime(append(e.b, name...), t), '"')
	}
}

func (e *recordEncoder) seqs(seqs []uint64) {
	e.note(cutSeqs, len(seqs) > MaxRecordSeqs)
	e.b = append(e.b, `,"seqs":`...)
	sep := byte('[')
	for _, s := range seqs[:min(len(seqs), MaxRecordSeqs)] {
		e.b = strconv.AppendUint(append(e.b, sep), s, 10)
		sep = ','
	}
	e.b = append(e.b, ']')
}

func (e *recordEncoder) peer(p *Peer) {
	e.b = strconv.AppendUint(append(e.b, `,"peer":{"uid":`...), uint64(p.UID), 10)
	e.b = strconv.AppendUint(append(e.b, `,"gid":`...), uint64(p.GID), 10)
	e.b = strconv.AppendInt(append(e.b, `,"pid":`...), int64(p.PID), 10)
	e.b = append(e.b, '}')
}

func (e *recordEncoder) cutNames() {
	e.b = append(e.b, `,"cut":`...)
	sep := byte('[')
	for i, name := range cuttable {
		if e.cut&(1<<i) != 0 {
			e.b = append(e.b, sep, '"')
			e.b = append(append(e.b, name...), '"')
			sep = ','
		}
	}
	e.b = append(e.b, ']')
}

// raw writes a document of somebody else's making on one line. System events
// only: this one does allocate.
func (e *recordEncoder) raw(bit int, name string, doc json.RawMessage) {
	if len(doc) == 0 {
		return
	}
	e.b = append(e.b, name...)
	v := jsontext.Value(bytes.Clone(doc))
	if len(doc) > MaxRecordRaw {
		e.summary(bit, doc)
		return
	}
	if v.Compact() != nil { // duplicate names and bad UTF-8 included
		e.b = appendQuoted(e.b, keepStart(string(doc), MaxRecordText))
		e.note(bit, len(doc) > MaxRecordText)
		return
	}
	start := len(e.b)
	e.b = appendEscaped(e.b, string(v))
	if len(e.b)-start > MaxRecordRaw {
		e.b = e.b[:start]
		e.summary(bit, doc)
	}
}

// summary stands for a document that is too long to record.
func (e *recordEncoder) summary(bit int, doc []byte) {
	e.note(bit, true)
	sum := sha256.Sum256(doc)
	e.b = strconv.AppendInt(append(e.b, `{"bytes":`...), int64(len(doc)), 10)
	e.b = hex.AppendEncode(append(e.b, `,"sha256":"`...), sum[:])
	e.b = append(e.b, `"}`...)
}
