// Package api is the words of control.sock: the JSON that the server writes and a
// client reads, as plain data. It imports nothing of ours, so that both ends, which
// do not know each other, can share it.
//
// Members are in snake_case; a member that does not apply is absent. Times are
// RFC 3339 in UTC with six digits of a second. Adding a member is possible,
// changing one is not: other people's scripts read them.
package api

import (
	"encoding/json"
	"fmt"
	"time"
)

// MaxLimit bounds a page of any list, and the seqs or keys of one request.
const MaxLimit = 1000

// Media types of what is answered.
const (
	JSON    = "application/json"
	NDJSON  = "application/x-ndjson"
	Trouble = "application/problem+json" // RFC 9457
)

// Time is a time as the API writes it.
type Time struct{ time.Time }

// timeLayout is that of the trail: of one length, so that texts sort as times do.
const timeLayout = `"2006-01-02T15:04:05.000000Z"`

// MarshalJSON writes t with six digits of a second, cut off and not rounded, so that
// nothing seems to have happened before it did.
func (t Time) MarshalJSON() ([]byte, error) {
	return t.UTC().AppendFormat(nil, timeLayout), nil
}

// LengthText is a length of time as people say it, on either end: its two largest
// units (a year has 365 days), and nothing less than 0s.
func LengthText(d time.Duration) string {
	d = max(d, 0)
	days, hours, minutes, seconds := d/(24*time.Hour), d/time.Hour%24, d/time.Minute%60, d/time.Second%60
	switch {
	case days >= 2*365:
		return fmt.Sprintf("%dy%dd", days/365, days%365)
	case days > 0:
		return fmt.Sprintf("%dd%dh", days, hours)
	case hours > 0:
		return fmt.Sprintf("%dh%dm", hours, minutes)
	case minutes > 0:
		return fmt.Sprintf("%dm%ds", minutes, seconds)
	}
	return fmt.Sprintf("%ds", seconds)
}

// Problem is the body of every answer that is not a success (RFC 9457). Code is one
// of the product's stable words; Detail and Hint are for people and may change.
type Problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Code   string `json:"code"`
	Detail string `json:"detail,omitzero"`
	Hint   string `json:"hint,omitzero"`

	// Field names the member at fault, where one is.
	Field string `json:"field,omitzero"`

	// Reasons lists everything that is wrong, where there may be several: the
	// problems of a configuration that was not loaded.
	Reasons []string `json:"reasons,omitempty"`
}

// Error returns the problem in one line.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return p.Code + ": " + p.Title
	}
	return p.Code + ": " + p.Detail
}

// List is one page. Next is what after must be for the page that follows; without
// it, this was the last. A page may be shorter than its limit and still have a next.
type List[T any] struct {
	Items []T    `json:"items"`
	Next  string `json:"next,omitempty"`
}

// Health says that the process answers; it asks nothing else of it.
type Health struct {
	Status  string `json:"status"` // "ok"
	Version string `json:"version"`
}

// Readiness is the body of /readyz. What is not ready is answered 503, as a Problem
// with these members besides its own; whatever is only worth knowing (a pause, held
// keys, saturation, nobody attached) does not make it so.
type Readiness struct {
	Ready     bool     `json:"ready"`
	Draining  bool     `json:"draining"`
	Stuck     []string `json:"stuck,omitempty"` // in-process routes that settle nothing
	Paused    *Pause   `json:"paused,omitempty"`
	Backlog   *int64   `json:"backlog,omitempty"` // absent: the store could not be asked
	HeldKeys  *int64   `json:"held_keys,omitempty"`
	Consumers int      `json:"consumers"` // attached
	Intake
	Unavailable []Outage `json:"unavailable,omitempty"` // in-process routes whose handler is down
}

// What a new line meets.
const (
	IntakeOpen     = "open"     // it is stored
	IntakeWaiting  = "waiting"  // lines of producers wait for room
	IntakeFull     = "full"     // nobody waits, but the next line that needs room finds none
	IntakeDraining = "draining" // it is refused, and may be sent again after the restart
)

// Intake is what new lines meet.
type Intake struct {
	Intake    string `json:"intake,omitzero"`            // absent: of a file, which takes none
	Saturated string `json:"saturated,omitzero"`         // the limit that they meet
	Waiting   int    `json:"waiting_producers,omitzero"` // whose lines wait for room
}

// Outage is an in-process route whose handler could not be had when it was last
// tried: what is for it waits, and counts no attempt. Next may be past: then the next
// exception that is claimable tries it.
type Outage struct {
	Route  string `json:"route"`
	Since  Time   `json:"since"`
	Next   Time   `json:"next"`
	Reason string `json:"reason,omitzero"`
}

// NotReady is a Problem and a Readiness in one object; its Reasons say why.
type NotReady struct {
	Problem
	Readiness
}

// Status is the body of /v1/status.
type Status struct {
	Ready         int64  `json:"ready"`
	Scheduled     int64  `json:"scheduled"`
	Leased        int64  `json:"leased"`
	Held          int64  `json:"held"`
	Done          int64  `json:"done"`
	Dead          int64  `json:"dead"`
	Discarded     int64  `json:"discarded"`
	Quarantined   int64  `json:"quarantined"` // of the dead: lines that a gate refused
	OpenKeys      int64  `json:"open_keys"`
	HeldKeys      int64  `json:"held_keys"`      // of the open ones, those that wait for anything
	BlockedKeys   int64  `json:"blocked_keys"`   // that wait for a dead letter, with open exceptions or without
	OperatorHolds int64  `json:"operator_holds"` // that operators hold, likewise
	LedgerKeys    int64  `json:"ledger_keys"`
	LastSeq       uint64 `json:"last_seq"`
	Damaged       int64  `json:"damaged,omitzero"` // what is stored of so many cannot be read; each holds its key

	DamagedSegments int64            `json:"damaged_segments,omitzero"` // of the ledger: lines whose idempotency key may be there are rejected
	DeadByCode      map[string]int64 `json:"dead_by_code"`
	DeadUnvalued    int64            `json:"dead_unvalued"` // of the dead: without an amount that can be read
	AtRisk          []AtRisk         `json:"at_risk"`       // by currency; one of which nothing is at risk is absent
	Ages            Ageing           `json:"ages"`
	Consumers       int              `json:"consumers"`
	Draining        bool             `json:"draining"`
	Intake
	Routes      []Route     `json:"routes,omitempty"`      // absent: of a file
	Recent      *Recent     `json:"recent,omitempty"`      // absent: not known yet, or of a file
	Unavailable []Outage    `json:"unavailable,omitempty"` // in-process routes whose handler is down
	Paused      *Pause      `json:"paused,omitempty"`
	Oldest      []Oldest    `json:"oldest"` // of each route that has something claimable
	Audit       Audit       `json:"audit"`
	Checkpoint  *Checkpoint `json:"checkpoint,omitempty"` // absent: none are signed
	Store       Store       `json:"store"`
	Archived    *Archived   `json:"archived,omitempty"` // absent: no archive was made
	Version     string      `json:"version"`
	Now         Time        `json:"now"`
	StartedAt   Time        `json:"started_at,omitzero"`
}

// Pause says who stopped the claims, since when and why.
type Pause struct {
	By     string `json:"by,omitzero"`
	Since  Time   `json:"since"`
	Reason string `json:"reason,omitzero"`
}

// Oldest is the oldest claimable exception of a route.
type Oldest struct {
	Route        string `json:"route"`
	AcceptedAt   Time   `json:"accepted_at"`
	AgeMS        int64  `json:"age_ms"`
	Seq          uint64 `json:"seq"`
	TraceID      string `json:"trace_id"`
	PartitionKey string `json:"partition_key"`
}

// Audit is the trail's head and length, and whose it is.
type Audit struct {
	Block   uint64 `json:"block"`
	Head    string `json:"head"` // hexadecimal
	Records uint64 `json:"records"`
	Origin  string `json:"origin"` // the same in every copy of a store, in no other store

	// FirstRecord is the number of the first record that is kept: retention has removed
	// those before it. Absent: there is no record, or all are kept.
	FirstRecord uint64 `json:"first_record,omitzero"`
}

// Checkpoint is how the signed heads of the trail are doing: the newest one, and what
// keeps the next from being written.
type Checkpoint struct {
	Key          string `json:"key"` // name and hash of the key that signs
	N            uint64 `json:"n"`   // the number of the newest one's last record; 0: there is none yet
	Block        uint64 `json:"block"`
	At           Time   `json:"at,omitzero"`
	Written      uint64 `json:"written"` // by this process
	Failed       uint64 `json:"failed"`
	FailingSince Time   `json:"failing_since,omitzero"` // absent: the last one was written
	Error        string `json:"error,omitzero"`
}

// Store is the store's file and the room in it.
type Store struct {
	FileBytes int64 `json:"file_bytes"`
	FreeBytes int64 `json:"free_bytes"`
}

// Exception is one message: a row of a list. Line has the sender's bytes where they
// are valid UTF-8, LineBase64 where they are not; a settled message's are not kept. Of
// one that was edited the other members are those that it has now.
type Exception struct {
	Seq            uint64 `json:"seq"`
	State          string `json:"state"`
	Code           string `json:"code,omitzero"` // dead: why
	Field          string `json:"field,omitzero"`
	Reason         string `json:"reason,omitzero"`
	Of             uint64 `json:"of,omitzero"` // conflict: whose key it used
	Route          string `json:"route,omitzero"`
	Priority       *uint8 `json:"priority,omitempty"` // absent where it is not known
	IdempotencyKey string `json:"idempotency_key,omitzero"`
	TraceID        string `json:"trace_id,omitzero"`
	PartitionKey   string `json:"partition_key,omitzero"`
	LedgerEntity   string `json:"ledger_entity,omitzero"`
	MatchDecision  string `json:"match_decision,omitzero"`
	VarianceAmount string `json:"variance_amount,omitzero"`
	Currency       string `json:"currency,omitzero"`
	SourceHash     string `json:"source_hash,omitzero"`
	Place          string `json:"place,omitzero"` // absent: it has none, or not yet
	AcceptedAt     Time   `json:"accepted_at,omitzero"`
	NotBefore      Time   `json:"not_before,omitzero"`
	Deliveries     int    `json:"deliveries"`
	FailedAttempts int    `json:"failed_attempts"`
	Unanswered     int    `json:"unanswered,omitzero"` // deliveries of its whole life that ended without an answer: their effect may exist
	Owner          string `json:"owner,omitzero"`      // leased: who holds it
	Deadline       Time   `json:"deadline,omitzero"`   // leased
	HeldBy         string `json:"held_by,omitzero"`    // held: what its key waits for, in words
	DueAt          Time   `json:"due_at,omitzero"`     // held until a time, scheduled
	Outcome        string `json:"outcome,omitzero"`
	SettledAt      Time   `json:"settled_at,omitzero"`
	DeadAt         Time   `json:"dead_at,omitzero"`
	Deaths         int    `json:"deaths,omitzero"` // how often it has become a dead letter
	LineBytes      int64  `json:"line_bytes"`
	LineSHA256     string `json:"line_sha256,omitzero"`
	Line           string `json:"line,omitzero"`
	LineBase64     []byte `json:"line_base64,omitempty"`
	EditedSHA256   string `json:"edited_sha256,omitzero"` // it was edited: of what it is now
	EditedLine     string `json:"edited_line,omitzero"`   // the same; line is what was sent
}

// Detail is one exception with its history: the records of the trail that concern
// it, as they are in the trail.
type Detail struct {
	Exception
	History     []json.RawMessage `json:"history"`
	HistoryMore bool              `json:"history_more,omitzero"` // there are more: /v1/audit?seq=

	// HistoryTrimmed: retention has removed the first records; what of them still holds
	// was copied, and stands where the copies are.
	HistoryTrimmed bool `json:"history_trimmed,omitzero"`
}
