package queue

import (
	"encoding/hex"
	stdjson "encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// recordLine is a record as its line spells it. Hashes and times stay text until
// they have been checked.
type recordLine struct {
	N              uint64         `json:"n"`
	TS             string         `json:"ts"`
	Event          Event          `json:"event"`
	Seq            uint64         `json:"seq"`
	Of             uint64         `json:"of"`
	Place          string         `json:"place"`
	CopyOf         uint64         `json:"copy_of"`
	TraceID        string         `json:"trace_id"`
	SourceHash     string         `json:"source_hash"`
	MatchDecision  MatchDecision  `json:"match_decision"`
	PartitionKey   string         `json:"partition_key"`
	Amount         string         `json:"variance_amount"`
	IdempotencyKey string         `json:"idempotency_key"`
	LedgerEntity   string         `json:"ledger_entity"`
	Currency       string         `json:"currency"`
	LineSHA256     string         `json:"line_sha256"`
	LineBytes      int64          `json:"line_bytes"`
	Worker         string         `json:"worker"`
	Route          Route          `json:"route"`
	Outcome        string         `json:"outcome"`
	By             string         `json:"by"`
	Note           string         `json:"note"`
	Reason         string         `json:"reason"`
	Code           Code           `json:"code"`
	Field          string         `json:"field"`
	Delivery       int            `json:"delivery"`
	FailedAttempts int            `json:"failed_attempts"`
	Unanswered     int            `json:"unanswered"`
	NotBefore      string         `json:"not_before"`
	Until          string         `json:"until"`
	Deadline       string         `json:"deadline"`
	Count          int            `json:"count"`
	Seqs           []uint64       `json:"seqs"`
	Stderr         string         `json:"stderr"`
	Before         jsontext.Value `json:"before"`
	After          jsontext.Value `json:"after"`
	Detail         jsontext.Value `json:"detail"`
	Peer           *peerLine      `json:"peer"`
	Cut            []string       `json:"cut"`
}

type peerLine struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
	PID int32  `json:"pid"`
}

// ParseRecord reads one line of a trail, with or without its newline. It is
// strict about what it knows: one object, no name twice, valid UTF-8, times and
// hashes in the form in which they are written, at most MaxRecordBytes. Members
// it does not know are skipped, so that an older program reads the trail of a
// newer one. The record shares no memory with line.
func ParseRecord(line []byte) (Record, error) {
	if len(line) > MaxRecordBytes {
		return Record{}, fmt.Errorf("record: %d bytes, the limit is %d", len(line), MaxRecordBytes)
	}
	if r, ok := scanRecord(line); ok {
		return r, nil
	}
	return decodeRecord(line)
}

// decodeRecord is the strict decoder: it says what a line is. The scanner only
// anticipates it.
func decodeRecord(line []byte) (Record, error) {
	var l recordLine
	if err := json.Unmarshal(line, &l); err != nil {
		return Record{}, fmt.Errorf("record: %w", err)
	}
	return l.record()
}

// record checks and converts what JSON has no types for.
func (l *recordLine) record() (Record, error) {
	c := recordConverter{n: l.N}
	r := Record{
		N: l.N, TS: c.time("ts", l.TS), Event: l.Event, Seq: l.Seq, Of: l.Of, Place: c.place(l.Place), CopyOf: l.CopyOf,
		TraceID: l.TraceID, SourceHash: c.hash("source_hash", l.SourceHash), MatchDecision: l.MatchDecision,
		PartitionKey: l.PartitionKey, Amount: l.Amount,
		IdempotencyKey: l.IdempotencyKey, LedgerEntity: l.LedgerEntity, Currency: l.Currency,
		LineSHA256: c.hash("line_sha256", l.LineSHA256), LineBytes: l.LineBytes,
		Worker: l.Worker, Route: l.Route, Outcome: l.Outcome, By: l.By, Note: l.Note, Reason: l.Reason,
		Code: l.Code, Field: l.Field, Delivery: l.Delivery, FailedAttempts: l.FailedAttempts, Unanswered: l.Unanswered,
		NotBefore: c.time("not_before", l.NotBefore), Until: c.time("until", l.Until), Deadline: c.time("deadline", l.Deadline),
		Count: l.Count, Seqs: l.Seqs, Stderr: l.Stderr,
		Before: raw(l.Before), After: raw(l.After), Detail: raw(l.Detail),
		Peer: (*Peer)(l.Peer),
	}
	for _, name := range l.Cut {
		if i := slices.Index(cuttable[:], name); i >= 0 {
			r.Cut |= 1 << i
		}
	}
	switch {
	case c.err != nil:
		return Record{}, c.err
	case l.N == 0 || l.Event == "" || l.TS == "":
		return Record{}, fmt.Errorf("record %d: n, ts or event is missing", l.N)
	}
	return r, nil
}

// raw gives a document the type that callers know from encoding/json.
func raw(v jsontext.Value) stdjson.RawMessage { return stdjson.RawMessage(v) }

// recordConverter keeps the first error, so that the conversion reads as a list.
type recordConverter struct {
	n   uint64
	err error
}

func (c *recordConverter) fail(member, value string) {
	if c.err == nil {
		c.err = fmt.Errorf("record %d: %s is %.80q", c.n, member, value)
	}
}

func (c *recordConverter) time(member, s string) time.Time {
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(timeLayout, s)
	if err != nil {
		c.fail(member, s)
	}
	return t
}

func (c *recordConverter) hash(member, s string) (h Hash) {
	if s == "" {
		return h
	}
	b, err := hex.DecodeString(s)
	if err != nil || len(b) != len(h) {
		c.fail(member, s)
		return h
	}
	copy(h[:], b)
	if h.String() != s { // upper case is not what we wrote
		c.fail(member, s)
	}
	return h
}

func (c *recordConverter) place(s string) Place {
	if s == "" {
		return Place{}
	}
	p, ok := ParsePlace(s)
	if !ok {
		c.fail("place", s)
	}
	return p
}
