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

// ReloadState is the answer to a reload that was taken.
type ReloadState struct {
	Reloaded bool `json:"reloaded"`
}

// LettersAct is the body of replay and discard. With DryRun nothing is changed, and
// the answer says which of the seqs are dead letters.
type LettersAct struct {
	Seqs   []uint64 `json:"seqs"`
	By     string   `json:"by,omitzero"`
	Reason string   `json:"reason,omitzero"` // discard: required
	Forget bool     `json:"forget,omitzero"` // discard: free the idempotency key
	DryRun bool     `json:"dry_run,omitzero"`
}

// Letters is what both answers say: how many of the seqs were dead letters, how many
// were not dealt with, and each one's result in the order of the request.
type Letters struct {
	Matched int      `json:"matched"`
	Failed  int      `json:"failed"`
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

// Result is what became of one element; without a Code it was done.
type Result struct {
	Seq   uint64 `json:"seq,omitzero"`
	Key   string `json:"key,omitzero"`
	Code  string `json:"code,omitzero"`
	Error string `json:"error,omitzero"`
}

// KeysAct is the body of hold and release.
type KeysAct struct {
	Keys   []string `json:"keys"` // partition keys
	By     string   `json:"by,omitzero"`
	Reason string   `json:"reason,omitzero"`
}

// Keys is the answer to hold and release.
type Keys struct {
	Matched int      `json:"matched"` // keys that are now as asked
	Failed  int      `json:"failed"`
	Items   []Result `json:"items"`
}

// VerifyAct is the body of a verification. Witness is a head that somebody was
// shown, as BLOCK:HASH; it must be found in the chain.
type VerifyAct struct {
	Witness string `json:"witness,omitzero"`
}

// Verification is what was checked and found.
type Verification struct {
	Sound        bool              `json:"sound"` // nothing was found wrong
	Blocks       uint64            `json:"blocks"`
	Records      uint64            `json:"records"`
	Audit        Audit             `json:"audit"`
	Events       map[string]uint64 `json:"events"`
	Findings     []Finding         `json:"findings"`
	More         bool              `json:"more,omitzero"`           // findings that are not listed
	WitnessFound *bool             `json:"witness_found,omitempty"` // absent: none was given
}

// Finding is one thing that is wrong, and where.
type Finding struct {
	What  string `json:"what"`
	Block uint64 `json:"block,omitzero"`
	N     uint64 `json:"n,omitzero"`
	Seq   uint64 `json:"seq,omitzero"`
}
