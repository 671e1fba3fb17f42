package queue

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"time"
)

// This file makes the records of the trail, one function per event, so that every
// store writes the same evidence for the same fact. A store adds nothing to them
// but their number.

// about starts a record that concerns a message: the three members of P10 and the
// ones that say which message of which entity it is.
func (s *Stored) about(e Event, now time.Time) Record {
	return Record{
		Event: e, TS: now, Seq: s.Seq,
		TraceID: s.TraceID, SourceHash: s.SourceHash, MatchDecision: s.Decision,
		PartitionKey: s.PartitionKey, Amount: s.Amount,
	}
}

// Summary names the message in logs.
func (s *Stored) Summary() Summary {
	return Summary{
		Seq: s.Seq, TraceID: s.TraceID, SourceHash: s.SourceHash,
		Decision: s.Decision, PartitionKey: s.PartitionKey,
	}
}

// StoredOf returns what a store keeps of an admitted message under its seq.
func StoredOf(seq uint64, m *Message) Stored {
	return Stored{
		Seq: seq, IdempotencyKey: m.IdempotencyKey, TraceID: m.TraceID,
		PartitionKey: m.PartitionKey, LedgerEntity: m.LedgerEntity,
		Decision: m.Decision, Amount: m.Amount, Currency: m.Currency,
		SourceHash: m.SourceHash, Line: m.Line,
	}
}

// evidence adds what only the first record of a line carries, so that every hash
// can be recomputed and stored bytes be compared.
func (r *Record) evidence(s *Stored, bytes int64, hash Hash, peer Peer) {
	r.IdempotencyKey, r.LedgerEntity, r.Currency = s.IdempotencyKey, s.LedgerEntity, s.Currency
	r.LineBytes, r.LineSHA256 = bytes, hash
	if peer != (Peer{}) {
		r.Peer = &peer
	}
}

// AcceptedRecord: the message entered the order, or waits for its time.
func AcceptedRecord(now time.Time, s *Stored, route Route, notBefore time.Time, bytes int64, hash Hash, peer Peer) Record {
	r := s.about(EventAccepted, now)
	r.evidence(s, bytes, hash, peer)
	r.Route, r.NotBefore = route, notBefore
	return r
}

// QuarantinedRecord: a gate refused the line, or its key was used with other
// content (then code is CodeConflict and of names the first).
func QuarantinedRecord(now time.Time, s *Stored, code Code, of uint64, field, reason string, bytes int64, hash Hash, peer Peer) Record {
	r := s.about(EventQuarantined, now)
	r.evidence(s, bytes, hash, peer)
	r.Code, r.Of, r.Field, r.Reason = code, of, field, reason
	return r
}

// MaxSkippedSeqs bounds the list of a DUPLICATE_SKIPPED record; its count is exact.
const MaxSkippedSeqs = 64

// SkippedRecord: count lines were duplicates of the messages in seqs.
func SkippedRecord(now time.Time, count int, seqs []uint64) Record {
	return Record{Event: EventDuplicateSkipped, TS: now, Count: count, Seqs: seqs}
}

// DueRecord: a scheduled message took its place.
func DueRecord(now time.Time, s *Stored, place Place) Record {
	r := s.about(EventDue, now)
	r.Place = place
	return r
}

// DispatchedRecord: the message was leased to an owner. Unanswered is present if the
// owner was told that it is redelivered.
func DispatchedRecord(now time.Time, d *Delivery, h Holding) Record {
	r := d.Message.about(EventDispatched, now)
	r.Worker, r.Route, r.Delivery, r.Deadline = h.Owner.Name, d.Route, d.Number, d.Deadline
	r.Unanswered = h.Unanswered
	return r
}

// Holding is who holds a message and what was counted of it: what the records of
// an answer say besides the answer.
type Holding struct {
	Owner          Owner
	Route          Route
	Deliveries     int // including this one
	FailedAttempts int
	Unanswered     int // deliveries of its whole life that ended without an answer; see [AtLeastUnanswered]
}

// AtLeastUnanswered is how many deliveries of a message ended without an answer, as far
// as is known when it is handed out: n are known to have. Of what was accepted before an
// older state was restored (seqs up to restored) nobody knows what has been done with it
// since, so at least one is assumed.
func AtLeastUnanswered(n int, seq, restored uint64) int {
	if n == 0 && seq <= restored {
		return 1
	}
	return n
}

// answered starts the record of an answer to a lease.
func answered(e Event, now time.Time, s *Stored, h Holding, a *Settlement) Record {
	r := s.about(e, now)
	r.Worker, r.Route, r.Delivery = h.Owner.Name, h.Route, h.Deliveries
	r.By, r.Reason, r.Stderr, r.Peer = a.By, a.Reason, a.Stderr, a.Peer
	return r
}

// DecidedRecord: the message is settled.
func DecidedRecord(now time.Time, s *Stored, h Holding, a *Settlement) Record {
	r := answered(EventDecided, now, s, h, a)
	r.Outcome, r.Note = a.Outcome, a.Note
	return r
}

// unanswered says of a delivery that ended without an answer how many have.
func (r *Record) unanswered(h Holding, is bool) {
	if is {
		r.Unanswered = h.Unanswered
	}
}

// RetriedRecord: the delivery failed; until is when its key may go on, zero when
// this was its last attempt.
func RetriedRecord(now time.Time, s *Stored, h Holding, a *Settlement, until time.Time) Record {
	r := answered(EventRetried, now, s, h, a)
	r.FailedAttempts, r.Until = h.FailedAttempts, until
	r.unanswered(h, a.Unanswered)
	return r
}

// ReleasedRecord: the message was put back, uncounted.
func ReleasedRecord(now time.Time, s *Stored, h Holding, a *Settlement) Record {
	r := answered(EventReleased, now, s, h, a)
	r.Code = a.Code
	r.unanswered(h, a.Unanswered)
	return r
}

// PutBack is the reason of a RELEASED that an answer to an earlier message caused.
const PutBack = "the message before it was put back"

// HeldRecord: the key of the message waits until a time.
func HeldRecord(now time.Time, s *Stored, h Holding, a *Settlement) Record {
	r := answered(EventHeld, now, s, h, a)
	r.Until = a.Until
	return r
}

// ExtendedRecord: a consumer's lease got a new deadline.
func ExtendedRecord(now time.Time, s *Stored, h Holding, deadline time.Time, peer *Peer) Record {
	r := answered(EventExtended, now, s, h, &Settlement{Peer: peer})
	r.Deadline = deadline
	return r
}

// RefusedRecord: an answer came for a lease that was not, or not any more, its
// owner's. It changed nothing. Of a message that has ended, s is what [Ended] knows of it.
func RefusedRecord(now time.Time, s *Stored, code Code, a *Settlement) Record {
	r := s.about(EventRefused, now)
	r.Code, r.Worker, r.By, r.Peer = code, a.Owner.Name, a.By, a.Peer
	return r
}

// The reasons of RECLAIMED.
const (
	ReclaimExpired  = "the lease expired"
	ReclaimCrash    = "the process ended"
	ReclaimUnused   = "it had not been started"
	ReclaimRestored = "an older state was restored"
	ReclaimRevoked  = "an operator took it back" // where the operator gave no reason
)

// ReclaimedRecord: a lease was taken back; of a, why, and by whom if it was a person.
// Unanswered is present only when the delivery counted, and then says how many have.
func ReclaimedRecord(now time.Time, s *Stored, h Holding, counted bool, a *Settlement) Record {
	r := answered(EventReclaimed, now, s, h, a)
	r.unanswered(h, counted)
	return r
}

// Revocation is what the records of a lease say that an operator took back.
func Revocation(a *Action) *Settlement {
	return &Settlement{By: a.By, Reason: cmp.Or(a.Reason, ReclaimRevoked), Peer: a.Peer}
}

// DeadLetteredRecord: the message became a dead letter by an answer, or by a lease
// that was taken back; then a has who did that and why.
func DeadLetteredRecord(now time.Time, s *Stored, h Holding, code Code, p Policy, a *Settlement) Record {
	r := answered(EventDeadLettered, now, s, h, a)
	r.Code, r.FailedAttempts, r.Unanswered = code, h.FailedAttempts, h.Unanswered
	if p.OnDeadLetter != HoldKey {
		r.Note = SkippedNote
	}
	return r
}

// SkippedNote is the note of a DEAD_LETTERED under [SkipDead]: from there on its key has
// a gap.
const SkippedNote = "its partition key goes on without it"

// acted starts the record of an operator's action.
func acted(r Record, a *Action) Record {
	r.By, r.Reason, r.Peer = a.By, a.Reason, a.Peer
	return r
}

// ReplayedRecord: a dead letter went back to its place, or to the gates.
func ReplayedRecord(s *Stored, a *Action) Record {
	return acted(s.about(EventReplayed, a.Now), a)
}

// DiscardedRecord: a dead letter, whose code this is, was ended by a person. Note says
// whether its idempotency key was freed; one that does not own its key (a conflict, a
// line that a gate refused) has none to free.
func DiscardedRecord(s *Stored, code Code, owns bool, a *Action) Record {
	r := acted(s.about(EventDiscarded, a.Now), a)
	r.Code = code
	if a.Forget && owns {
		r.Note = "its idempotency key may be used again"
	}
	return r
}

// editedContent is what EDITED says of a message before and after: its hashes, and the
// members that differ.
type editedContent struct {
	SourceHash     string        `json:"source_hash,omitempty"`
	LineSHA256     string        `json:"line_sha256"`
	LineBytes      int64         `json:"line_bytes"`
	IdempotencyKey string        `json:"idempotency_key,omitempty"`
	TraceID        string        `json:"trace_id,omitempty"`
	PartitionKey   string        `json:"partition_key,omitempty"`
	LedgerEntity   string        `json:"ledger_entity,omitempty"`
	MatchDecision  MatchDecision `json:"match_decision,omitempty"`
	Amount         string        `json:"variance_amount,omitempty"`
	Currency       string        `json:"currency,omitempty"`
	Route          Route         `json:"route,omitempty"`
	Priority       *uint8        `json:"priority,omitempty"`
	NotBefore      string        `json:"not_before,omitempty"`
}

// editedFrom is the content of s, with those members in which it is not other.
func editedFrom(s, other *Stored, c, otherC *Content) json.RawMessage {
	e := editedContent{LineSHA256: c.LineHash.String(), LineBytes: c.LineBytes}
	if c.SourceHash != (Hash{}) {
		e.SourceHash = c.SourceHash.String()
	}
	for _, m := range [...]struct{ to, of, is *string }{
		{&e.IdempotencyKey, &s.IdempotencyKey, &other.IdempotencyKey},
		{&e.TraceID, &s.TraceID, &other.TraceID},
		{&e.PartitionKey, &s.PartitionKey, &other.PartitionKey},
		{&e.LedgerEntity, &s.LedgerEntity, &other.LedgerEntity},
		{(*string)(&e.MatchDecision), (*string)(&s.Decision), (*string)(&other.Decision)},
		{&e.Amount, &s.Amount, &other.Amount},
		{&e.Currency, &s.Currency, &other.Currency},
	} {
		if *m.of != *m.is {
			*m.to = *m.of
		}
	}
	if c.Route != "" {
		if c.Route != otherC.Route {
			e.Route = c.Route
		}
		if c.Priority != otherC.Priority || otherC.Route == "" {
			e.Priority = &c.Priority
		}
		if !c.NotBefore.IsZero() && !sameMicro(c.NotBefore, otherC.NotBefore) {
			e.NotBefore = string(AppendTime(nil, c.NotBefore))
		}
	}
	doc, err := json.Marshal(&e)
	if err != nil {
		return nil // a struct of strings and numbers always marshals
	}
	return doc
}

// EditedRecord: a person gave a dead letter other content. It names the message as it
// is now, with what every hash can be recomputed from; before and after have both
// contents' hashes and the members in which they differ.
func EditedRecord(was, is *Stored, before, after *Content, a *Action) Record {
	r := acted(is.about(EventEdited, a.Now), a)
	r.IdempotencyKey, r.LedgerEntity, r.Currency = is.IdempotencyKey, is.LedgerEntity, is.Currency
	r.LineBytes, r.LineSHA256 = after.LineBytes, after.LineHash
	r.Before, r.After = editedFrom(was, is, before, after), editedFrom(is, was, after, before)
	return r
}

// EditOf returns the SHA-256 of the line that an EDITED record took the place of; ok is
// false if it does not say.
func (r *Record) EditOf() (h Hash, ok bool) {
	var was editedContent
	if json.Unmarshal(r.Before, &was) != nil {
		return h, false
	}
	b, err := hex.DecodeString(was.LineSHA256)
	return h, err == nil && copy(h[:], b) == len(h) && len(b) == len(h)
}

// KeyRecord: an operator held a partition key, or released it (EventKeyHeld,
// EventKeyReleased).
func KeyRecord(e Event, key string, a *Action) Record {
	return acted(Record{Event: e, TS: a.Now, PartitionKey: key}, a)
}

// WaitEndedRecord: an operator released the key of a message, and with that ended the
// wait that the message had put on it. What else held the key by an operator's order is
// over too, as with any EventKeyReleased.
func WaitEndedRecord(s *Stored, w *KeyWait, a *Action) Record {
	r := acted(s.about(EventKeyReleased, a.Now), a)
	r.Until, r.FailedAttempts = w.Until, w.Failed
	return r
}

// PauseRecord: claims were stopped or let go on (EventPaused, EventResumed).
func PauseRecord(e Event, a *Action) Record { return acted(Record{Event: e, TS: a.Now}, a) }

// ConfigRecord: the configuration in force changed.
func ConfigRecord(now time.Time, before, after json.RawMessage, by string) Record {
	return Record{Event: EventConfigChanged, TS: now, Before: before, After: after, By: by}
}

// ReconfiguredRecord: somebody changed the configuration of a running process.
func ReconfiguredRecord(a *Action, before, after json.RawMessage) Record {
	return acted(ConfigRecord(a.Now, before, after, a.By), a)
}

// startDetail is what STARTED says of the start.
type startDetail struct {
	Version  string `json:"version,omitempty"`
	Clean    bool   `json:"clean"`
	GaveBack int    `json:"gave_back"`
	Kept     int    `json:"kept"`
}

// StartedRecord: a process took the store into service.
func StartedRecord(r *StartRequest, found StartResult) Record {
	detail, err := json.Marshal(startDetail{r.Version, found.Clean, found.GaveBack, found.Kept})
	if err != nil {
		detail = nil // a struct of strings, numbers and bools always marshals
	}
	return Record{Event: EventStarted, TS: r.Now, Detail: detail}
}

// Trimmed is what TRIMMED says was let go of.
type Trimmed struct {
	// Keys is how many idempotency keys were forgotten, all of them settled by records
	// up to number SettledTo. Each may be accepted again as new.
	Keys      int64  `json:"keys,omitempty"`
	SettledTo uint64 `json:"settled_to,omitempty"`

	TrimmedTrail // Before is "" if it is of keys
}

// TrimmedTrail is what TRIMMED says of records that were removed; see [Opening]. The
// counts are of all records that were ever removed.
type TrimmedTrail struct {
	First      uint64 `json:"first,omitempty"`       // number of the first record that is kept
	Before     string `json:"before,omitempty"`      // the head before the first block that is kept
	LastSeq    uint64 `json:"last_seq,omitempty"`    // the seq given last before it
	Copies     int    `json:"copies,omitempty"`      // records behind this one that are copies
	Open       int    `json:"open,omitempty"`        // first records among them: what was still open
	OpenSHA256 string `json:"open_sha256,omitempty"` // digest of their seqs and lines

	Accepted             uint64 `json:"accepted,omitempty"`
	Decided              uint64 `json:"decided,omitempty"`
	Discarded            uint64 `json:"discarded,omitempty"`
	Quarantined          uint64 `json:"quarantined,omitempty"`
	QuarantinedAccepted  uint64 `json:"quarantined_accepted,omitempty"`
	QuarantinedDiscarded uint64 `json:"quarantined_discarded,omitempty"`
	Duplicates           uint64 `json:"duplicates,omitempty"`
	Deliveries           uint64 `json:"deliveries,omitempty"`
}

// TrimmedRecord: retention has let go of something.
func TrimmedRecord(now time.Time, t Trimmed) Record {
	detail, err := json.Marshal(t)
	if err != nil {
		detail = nil // a struct of numbers always marshals
	}
	return Record{Event: EventTrimmed, TS: now, Detail: detail}
}

// ReadTrimmed returns what a TRIMMED record says; ok is false for any other.
func ReadTrimmed(r *Record) (t Trimmed, ok bool) {
	return t, r.Event == EventTrimmed && json.Unmarshal(r.Detail, &t) == nil
}

// RestorePause is who is said to have paused a store that was restored.
const RestorePause = "restore"

// RestoredRecord: an older file or an archive was taken into service on purpose, and
// what it was known by.
func RestoredRecord(r *StartRequest) Record {
	return Record{Event: EventRestored, TS: r.Now, Reason: r.Why, By: r.By}
}
