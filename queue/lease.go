package queue

import (
	"encoding/binary"
	"encoding/hex"
	"time"
)

// OwnerKind says what sort of owner holds a lease, because they end differently:
// the workers of a process are gone with it, a consumer may come back.
type OwnerKind uint8

// The two kinds of owner.
const (
	Worker   OwnerKind = iota + 1 // in this process; void at the next start
	Consumer                      // attached to consume.sock; survives a restart
)

// Owner is who may settle a lease. UID is a consumer's user id: only the same
// user may take over its leases under its name.
type Owner struct {
	Kind OwnerKind
	Name string // "w-3", or the name a consumer attached under
	UID  uint32
}

// Token is the right to settle one delivery (P4). Seq finds the message; Fence
// rises with every lease the store ever grants, so that an older holder can
// never be mistaken for the present one.
type Token struct {
	Seq   uint64
	Fence uint64
}

// tokenText is the length of a token's text: two 64-bit numbers in hexadecimal.
const tokenText = 32

// String returns the token as consumers see it: 32 lower-case hexadecimal digits.
func (t Token) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], t.Seq)
	binary.BigEndian.PutUint64(b[8:], t.Fence)
	return hex.EncodeToString(b[:])
}

// ParseToken reads what String wrote; ok is false for anything else.
func ParseToken(s string) (t Token, ok bool) {
	if len(s) != tokenText {
		return Token{}, false
	}
	b, err := hex.DecodeString(s)
	if err != nil {
		return Token{}, false
	}
	t = Token{Seq: binary.BigEndian.Uint64(b[:8]), Fence: binary.BigEndian.Uint64(b[8:])}
	return t, t.String() == s // upper-case hexadecimal is not the text we gave
}

// Want is one owner's request for work. A store grants it in order of priority,
// then of waiting, and never past the invariants of P4 and P5.
type Want struct {
	Owner    Owner
	Slots    SlotSet       // the partition slots this owner serves
	Routes   RouteSet      // the routes it can run
	Max      int           // room: at most so many deliveries
	MaxBytes int           // full, too, once the lines of its deliveries have so many bytes; 0: no matter
	PerKey   int           // at most so many leases of one key, those it has included
	Lease    time.Duration // until the deadline
}

// Full reports whether so many deliveries, with so many bytes of lines, are all
// that the want has room for.
func (w *Want) Full(deliveries, bytes int) bool {
	return deliveries >= w.Max || w.MaxBytes > 0 && bytes >= w.MaxBytes
}

// ClaimRequest asks for work for several owners in one transaction.
type ClaimRequest struct {
	Now   time.Time
	Wants []Want
}

// ClaimResult is what was handed out. Deliveries has one entry per want, each in
// the order in which it must be started. Next is when the next waiting key or
// scheduled message falls due (zero: none); More says that a want went unfilled
// for now although there may be work at once (a bounded step ended), so ask again.
type ClaimResult struct {
	Deliveries [][]Delivery
	Next       time.Time
	More       bool
	Damaged    []Finding // messages that cannot be read back; each holds its key
}

// Delivery is one message handed to one owner under one lease.
type Delivery struct {
	Token          Token
	Route          Route
	Number         int  // which delivery this is, from 1
	FailedAttempts int  // retries so far
	Redelivered    bool // a former holder may have had its effect; see [Settlement]'s Unanswered
	AcceptedAt     time.Time
	Deadline       time.Time
	Message        Stored
}

// Stored is what a store keeps of a message besides its place: the members that
// records and deliveries name, and the line.
type Stored struct {
	Seq            uint64
	IdempotencyKey string
	TraceID        string
	PartitionKey   string
	LedgerEntity   string
	Decision       MatchDecision
	Amount         string
	Currency       string
	SourceHash     Hash
	Line           []byte // the sender's object, byte for byte
}

// Verb is what an answer does to its delivery.
type Verb uint8

// The five answers.
const (
	Ack     Verb = iota + 1 // settled, with an outcome
	Retry                   // failed; counts; keeps its place and waits
	Release                 // put back; counts as nothing
	Hold                    // its key waits until a time; counts as nothing
	Reject                  // to the dead letters, REJECTED
)

// MaxOutcome bounds an outcome: 1 to 64 bytes of A-Z, 0-9 and _.
const MaxOutcome = 64

// ValidOutcome reports whether s may be recorded as an outcome.
func ValidOutcome(s string) bool {
	if len(s) == 0 || len(s) > MaxOutcome {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return true
}

// Settlement is one answer. A store takes it only while Token is the valid lease
// of Owner and At lies before the deadline (P4); else it changes nothing.
type Settlement struct {
	Token Token
	Owner Owner
	Verb  Verb
	At    time.Time // when the answer was read: the lease is judged by this moment

	Outcome string        // Ack
	By      string        // who decided, as the answer says
	Note    string        // Ack
	Reason  string        // Retry, Hold, Reject, Release
	After   time.Duration // Retry: never sooner than this
	Random  uint32        // Retry: spreads the delay; the caller's die, so that stores stay deterministic
	Until   time.Time     // Hold, on the wall clock
	Aside   time.Duration // Release: not offered to the same owner for this long
	Code    Code          // Release: why, when a code says it (HANDLER_UNAVAILABLE)

	// Unanswered says, of a Retry or a Release, that this is not what the holder itself
	// has said: the delivery began and was cut off, or came to its end without an answer
	// that can be read, so that its effect may exist. What it counts as does not change;
	// but every later delivery of the message says Redelivered, as after a lease that
	// nobody answered, until it is settled: also after a restart, and after a replay.
	Unanswered bool

	Stderr string // the tail of an exec handler's stderr
	Peer   *Peer  // the connection that answered
}

// SettleRequest is many answers in one transaction.
type SettleRequest struct {
	Now         time.Time
	Policy      Policy
	Settlements []Settlement
}

// SettleResult answers the settlement of the same index. Code is empty when it
// was applied; LEASE_EXPIRED or ALREADY_SETTLED when it changed nothing.
type SettleResult struct {
	Seq      uint64
	Code     Code
	Error    string
	DeadCode Code          // set when the message became a dead letter by this
	Delay    time.Duration // Retry: how long its key waits now
	Message  *Summary      // who it was, for logs; nil when the token names nobody
}

// Summary names a message in logs and events: the ids that P10 asks for.
type Summary struct {
	Seq          uint64
	TraceID      string
	SourceHash   Hash
	Decision     MatchDecision
	PartitionKey string
}

// ExtendRequest gives leases a new full length from Now. The lease of a Worker is
// extended in memory only and leaves no record: a restart voids it anyway.
type ExtendRequest struct {
	Now    time.Time
	Owner  Owner
	Tokens []Token
	Lease  time.Duration
	Peer   *Peer
}

// ExtendResult answers the token of the same index.
type ExtendResult struct {
	Seq      uint64
	Deadline time.Time
	Code     Code
}

// ReclaimRequest takes back leases whose deadline has passed, at most Max.
type ReclaimRequest struct {
	Now    time.Time
	Policy Policy
	Max    int
}

// Reclaimed is one lease that was taken back. Counted says that the delivery
// counted: its holder may have run it. DeadCode is set when it was the last.
type Reclaimed struct {
	Token    Token
	Owner    Owner
	Counted  bool
	DeadCode Code
	Message  Summary
}

// LeaseRef names the lease of a message that an operator means: whoever has it by the
// time of the call, or only the one that the operator has seen.
type LeaseRef struct {
	Seq   uint64
	Fence uint64 // only the lease with this fence; 0: any
	Owner string // only one of the owner with this name; "": anybody's
}

// Names reports whether the lease of the message with this token, which o has, is the
// one that is meant.
func (r *LeaseRef) Names(t Token, o Owner) bool {
	return (r.Fence == 0 || r.Fence == t.Fence) && (r.Owner == "" || r.Owner == o.Name)
}

// MovedText is the error of a lease that is not the one that was meant: o has it now.
func MovedText(o Owner) string { return "the lease that was meant is over: " + o.Name + " has it now" }

// Revoked answers the lease of the same index. Code is empty when it was taken back, and
// then Reclaimed says whose it was and what became of the message. With LEASE_EXPIRED
// its Owner is who has the message now.
type Revoked struct {
	Seq   uint64
	Code  Code
	Error string
	Reclaimed
}

// TakeOverRequest is what a consumer that attached again asks for. Owner is exactly
// who it was: leases of another user, or of a worker, are not found.
//
// The leases are as they were. One that ran anew with every connection would let a
// message whose consumer dies of it come back for ever, uncounted, and one cut
// short would take from a person what was promised; who needs longer extends it.
// An answer under way may settle some while the call is answered.
type TakeOverRequest struct {
	Now   time.Time
	Owner Owner

	After    uint64 // only leases with a greater fence; 0: all
	MaxBytes int    // enough once the lines have so many bytes; 0: no matter
}

// TakeOverResult is what the owner holds. Deliveries are those of the claims, under
// the same number, and Redelivered. Damaged are messages that cannot be read back:
// their leases run on to their deadlines. More says that MaxBytes left some out: ask
// again after the fence of the last.
type TakeOverResult struct {
	Deliveries []Delivery
	Damaged    []Finding
	More       bool
}

// Lease is one delivery that was not answered yet.
type Lease struct {
	Token    Token
	Owner    Owner
	Route    Route
	Number   int       // which delivery this is, from 1
	Since    time.Time // when it was given, extended last, or ran anew after a start
	Deadline time.Time
	Message  Stored // without its line
}
