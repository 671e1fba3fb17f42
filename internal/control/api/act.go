package api

// Act is the body of a request that has no list: pause, resume, drain, reload. By
// says who, as far as they say; whom the kernel names is recorded besides.
type Act struct {
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// PauseState is the answer to pause and resume: what holds now.
type PauseState struct {
	Paused *Pause `json:"paused,omitempty"` // absent: claims go on
}

// DrainState is the answer to drain, which goes on after it.
type DrainState struct {
	Draining bool `json:"draining"`
}

// ReloadState is the answer to a reload that was taken: the file that was read, by its
// absolute path, and the keys that changed by it, sorted ("queue.prefetch").
type ReloadState struct {
	Reloaded bool     `json:"reloaded"`
	File     string   `json:"file,omitzero"` // absent: breakwater was started without one, built-in values are in force
	Changed  []string `json:"changed"`
}

// LettersAct is the body of replay and discard. With DryRun nothing is changed, and
// the answer says what would be.
type LettersAct struct {
	Seqs   []uint64 `json:"seqs"`
	By     string   `json:"by,omitzero"`
	Reason string   `json:"reason,omitzero"` // discard: required
	Forget bool     `json:"forget,omitzero"` // discard: free the idempotency key
	DryRun bool     `json:"dry_run,omitzero"`
}

// Letters is what both answers say: how many of the seqs were dead letters, how many
// were refused or are none, how many were not tried because an earlier one of their key
// was refused, and each one's result in the order of the request.
type Letters struct {
	Matched int      `json:"matched"`
	Failed  int      `json:"failed"`
	Skipped int      `json:"skipped"`
	DryRun  bool     `json:"dry_run,omitzero"`
	Items   []Result `json:"items"`
}

// Replayed is the answer to replay.
type Replayed struct {
	Replayed int `json:"replayed"`
	Letters
}

// Discarded is the answer to discard.
type Discarded struct {
	Discarded int `json:"discarded"`
	Letters
}

// MaxEdit bounds the line of an edit, in bytes.
const MaxEdit = 500_000

// EditAct is the body of an edit: a whole new line for a dead letter. Was is the SHA-256
// of the line that was edited, in hexadecimal; if the letter has another by now the
// edit is refused (412).
type EditAct struct {
	Seq    uint64 `json:"seq"`
	Was    string `json:"was"`
	Line   string `json:"line"`
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
	DryRun bool   `json:"dry_run,omitzero"`
}

// Edited is the answer to an edit that was taken, or would be.
type Edited struct {
	Seq    uint64  `json:"seq"`
	DryRun bool    `json:"dry_run,omitzero"`
	Before Content `json:"before"`
	After  Content `json:"after"`
}

// Content identifies the content of an exception.
type Content struct {
	SourceHash string `json:"source_hash,omitzero"` // absent: the line had none
	LineSHA256 string `json:"line_sha256"`
	LineBytes  int64  `json:"line_bytes"`
}

// LetterGroups are the dead letters that are selected, by why they are dead, the largest
// group first. Ungrouped are those whose reasons are more than a table may have.
type LetterGroups struct {
	Total     int           `json:"total"`
	Ungrouped int           `json:"ungrouped,omitzero"`
	Items     []LetterGroup `json:"items"`
}

// LetterGroup is dead letters with one code, field and reason.
type LetterGroup struct {
	Code     string `json:"code"`
	Field    string `json:"field,omitzero"`
	Reason   string `json:"reason,omitzero"`
	Count    int    `json:"count"`
	FirstSeq uint64 `json:"first_seq"`
	LastSeq  uint64 `json:"last_seq"`
	Oldest   Time   `json:"oldest"` // dead since
}

// Result is what became of one element; without a Code it was done.
type Result struct {
	Seq   uint64 `json:"seq,omitzero"`
	Key   string `json:"key,omitzero"`
	Code  string `json:"code,omitzero"`
	Error string `json:"error,omitzero"`

	// Of replays.
	Place  string `json:"place,omitzero"`  // where it is, or would be, put back; absent: it is scheduled
	Behind uint64 `json:"behind,omitzero"` // the letter of its key that was refused before it
	Waits  string `json:"waits,omitzero"`  // dry run: what it would wait for, in words

	// Of releases of keys.
	Wait   *KeyWait `json:"wait,omitempty"`       // the time that the key waits for; with waits, the one that is over
	Letter uint64   `json:"dead_letter,omitzero"` // that the key goes on waiting for
}

// KeysAct is the body of hold and release.
type KeysAct struct {
	Keys   []string `json:"keys"` // partition keys
	By     string   `json:"by,omitzero"`
	Reason string   `json:"reason,omitzero"`
	Waits  bool     `json:"waits,omitzero"` // release: end the times that the keys wait for, too
}

// Keys is the answer to hold and release.
type Keys struct {
	Matched int      `json:"matched"` // keys that are now as asked
	Failed  int      `json:"failed"`
	Items   []Result `json:"items"`
}

// MaxWitnesses bounds the heads that one verification looks for.
const MaxWitnesses = 1 << 16

// VerifyAct is the body of a verification. Witness is a head that somebody was
// shown, as BLOCK:HASH, and Witnesses are more of them, as a checkpoint knows them;
// they must be found in the chain.
type VerifyAct struct {
	Witness   string    `json:"witness,omitzero"`
	Witnesses []Witness `json:"witnesses,omitempty"`
}

// Witness is a head and, if it is known, the number of its last record.
type Witness struct {
	Block uint64 `json:"block"`
	Head  string `json:"head"` // hexadecimal
	N     uint64 `json:"n,omitzero"`
}

// Verification is what was checked and found. All but Audit.Origin and the verdicts
// is about the trail as far as its chain is proven.
type Verification struct {
	Sound        bool              `json:"sound"` // nothing was found wrong, and no head contradicts the trail
	Blocks       uint64            `json:"blocks"`
	Records      uint64            `json:"records"`
	Audit        Audit             `json:"audit"`
	First        *Stamp            `json:"first,omitempty"` // absent: there is no record
	Last         *Stamp            `json:"last,omitempty"`
	Balance      *Balance          `json:"balance,omitempty"` // absent: see UntracedFrom
	UntracedFrom uint64            `json:"untraced_from,omitzero"`
	Events       map[string]uint64 `json:"events"`
	Findings     []Finding         `json:"findings"`
	More         bool              `json:"more,omitzero"`           // findings that are not listed
	WitnessFound *bool             `json:"witness_found,omitempty"` // all were; absent: none was given
	Verdicts     []string          `json:"verdicts,omitempty"`      // of each: Witness, then Witnesses
}

// Stamp is a record's number and time.
type Stamp struct {
	N  uint64 `json:"n"`
	TS Time   `json:"ts"`
}

// Balance is what came in and what became of it, counted from the records alone:
// accepted = decided + dead + discarded + open, and quarantined = the three of it.
// Lines that were replayed and passed are in QuarantinedAccepted and in Accepted.
type Balance struct {
	Accepted             uint64 `json:"accepted"`
	Decided              uint64 `json:"decided"`
	Dead                 uint64 `json:"dead"`
	Discarded            uint64 `json:"discarded"`
	Open                 uint64 `json:"open"`
	Quarantined          uint64 `json:"quarantined"`
	QuarantinedDead      uint64 `json:"quarantined_dead"`
	QuarantinedDiscarded uint64 `json:"quarantined_discarded"`
	QuarantinedAccepted  uint64 `json:"quarantined_accepted"`
	DuplicatesSkipped    uint64 `json:"duplicates_skipped"`
	Deliveries           uint64 `json:"deliveries"`
}

// Finding is one thing that is wrong, and where.
type Finding struct {
	What  string `json:"what"`
	Block uint64 `json:"block,omitzero"`
	N     uint64 `json:"n,omitzero"`
	Seq   uint64 `json:"seq,omitzero"`
}
