package api

// AtRisk is the money that waits in one currency: sums of amounts without their signs,
// exact decimals with as many fraction digits as the currency has.
type AtRisk struct {
	Currency string `json:"currency"` // "none": of messages that name none
	Open     string `json:"open"`
	Held     string `json:"held"` // of the open ones: those whose key waits
	Dead     string `json:"dead"` // of dead letters whose amount can be read
}

// Ages counts exceptions by the time since they were accepted first, in whole minutes
// of the clock. No retry, edit or replay makes one younger.
type Ages struct {
	Under24h int64 `json:"under_24h"`
	To3d     int64 `json:"from_1d_to_3d"`
	To7d     int64 `json:"from_3d_to_7d"`
	Over7d   int64 `json:"over_7d"`
}

// Ageing is the ages of what waits.
type Ageing struct {
	Open Ages `json:"open"`
	Dead Ages `json:"dead"`
}

// Recent is what happened in the last so many seconds.
type Recent struct {
	Seconds   int64 `json:"seconds"`
	Stored    int64 `json:"stored"` // lines that took a seq
	Done      int64 `json:"done"`
	Discarded int64 `json:"discarded"`
}

// Route is who works on a route.
type Route struct {
	Route     string `json:"route"`
	InProcess bool   `json:"in_process"` // a handler of breakwater does; else consumers
	Consumers int    `json:"consumers"`  // attached that take the route
	Room      int    `json:"room"`       // how many more they would take now
}

// What becomes of a partition key: members of Key.State.
const (
	KeyBlocked = "blocked" // it waits for a dead letter, or for damaged bytes
	KeyHeld    = "held"    // it waits for an operator, for a retry, or until a time
	KeyBusy    = "busy"    // somebody holds exceptions of it
	KeyReady   = "ready"   // its first exception can be claimed
)

// Key is a partition key: a row of a list. What does not apply is absent.
type Key struct {
	Key        string     `json:"key,omitzero"` // absent: it cannot be read
	State      string     `json:"state"`
	Seq        uint64     `json:"seq,omitzero"`  // the first of its exceptions, in order
	Code       string     `json:"code,omitzero"` // of the dead letter that it waits for
	Open       int64      `json:"open"`          // exceptions that have their place
	Leased     int64      `json:"leased"`        // of them
	Amounts    []Amount   `json:"amounts"`       // of the open ones, without their signs
	AcceptedAt Time       `json:"accepted_at,omitzero"`
	Route      string     `json:"route,omitzero"`     // of the first one
	Priority   *uint8     `json:"priority,omitempty"` // likewise
	Letter     *KeyLetter `json:"dead_letter,omitempty"`
	Hold       *KeyHold   `json:"hold,omitempty"`
	Wait       *KeyWait   `json:"wait,omitempty"`
	Holder     *KeyHolder `json:"holder,omitempty"`
	Aside      *KeyAside  `json:"aside,omitempty"`
	Damaged    uint64     `json:"damaged,omitzero"` // the exception whose stored bytes are damaged

	// WaitsFor, of a row of a list: why nothing of the key runs, by what it waits for
	// itself and by what keeps everything, or all of its route; absent: nothing keeps it.
	WaitsFor []Cause `json:"waits_for,omitempty"`
}

// Amount is a sum in one currency.
type Amount struct {
	Currency string `json:"currency"` // "none": of exceptions that name none
	Amount   string `json:"amount"`
}

// KeyLetter is the dead letter that a key waits for, of several the one with the
// smallest seq.
type KeyLetter struct {
	Seq    uint64 `json:"seq"`
	Count  int    `json:"count"` // how many there are
	Code   string `json:"code,omitzero"`
	Reason string `json:"reason,omitzero"`
	DeadAt Time   `json:"dead_at,omitzero"`
}

// KeyHold is an operator's hold.
type KeyHold struct {
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
	Since  Time   `json:"since"`
}

// KeyWait is a time that a key waits for.
type KeyWait struct {
	Seq    uint64 `json:"seq"` // the exception that was put back
	Until  Time   `json:"until"`
	Retry  bool   `json:"retry"`           // after a failure; else a handler asked for it
	Failed int    `json:"failed,omitzero"` // its failures so far
}

// KeyHolder is who has leases of a key.
type KeyHolder struct {
	Owner    string  `json:"owner"`
	Kind     string  `json:"kind"`          // "worker" or "consumer"
	UID      *uint32 `json:"uid,omitempty"` // of a consumer
	Seq      uint64  `json:"seq"`           // the first that it has
	Deadline Time    `json:"deadline"`
}

// KeyAside keeps a key from the one that has put it back, for a while.
type KeyAside struct {
	Owner string `json:"owner"`
	Until Time   `json:"until"`
}

// Why is why an exception, or a partition key, does not run.
type Why struct {
	Seq          uint64  `json:"seq,omitzero"` // absent: a key was asked about
	PartitionKey string  `json:"partition_key,omitzero"`
	State        string  `json:"state,omitzero"` // of the exception, or of the key
	Causes       []Cause `json:"causes"`         // at least one, what a person can change first
	Key          *Key    `json:"key,omitempty"`  // absent: nothing of it is in the order
}

// Cause is one reason. Reason is a stable word; Words says it for people, and may
// change. What does not apply is absent.
type Cause struct {
	Reason      string `json:"reason"`
	Words       string `json:"words"`
	Seq         uint64 `json:"seq,omitzero"` // the exception that is the cause
	Since       Time   `json:"since,omitzero"`
	Until       Time   `json:"until,omitzero"`
	By          string `json:"by,omitzero"`
	Owner       string `json:"owner,omitzero"`
	Kind        string `json:"kind,omitzero"` // of the owner: "worker" or "consumer"
	Route       string `json:"route,omitzero"`
	Code        string `json:"code,omitzero"`
	Text        string `json:"text,omitzero"` // in the words of whoever caused it
	Outcome     string `json:"outcome,omitzero"`
	Count       int    `json:"count,omitzero"`        // dead letters; failures so far; keys that come first; consumers
	MaxAttempts int    `json:"max_attempts,omitzero"` // failures until it is a dead letter
	More        bool   `json:"more,omitzero"`         // there are more than count
}
