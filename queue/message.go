package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"time"
)

// Limits of one message's members, in bytes after decoding. They are far below
// bbolt's own key limit (32,768), so that no derived key can ever be refused by
// the store after the door has let a message in.
const (
	MaxIdempotencyKey = 256
	MaxTraceID        = 128
	MaxPartitionKey   = 256
	MaxLedgerEntity   = 256

	// MaxDepth is how deep a line's JSON may nest, the object itself included.
	MaxDepth = 64

	// MinPriority is the most urgent, MaxPriority the least urgent priority.
	MinPriority, MaxPriority = 0, 9
	// DefaultPriority is taken where a message has none.
	DefaultPriority = 5
)

// MatchDecision is what the matching engine decided upstream. It is carried,
// never recomputed.
type MatchDecision string

// The three decisions a message may carry.
const (
	Matched   MatchDecision = "MATCHED"
	Partial   MatchDecision = "PARTIAL"
	Unmatched MatchDecision = "UNMATCHED"
)

// Route names the way a message leaves: which handler or which consumers get it.
type Route string

// The two routes. AutoResolve is for a variance of zero, RouteReview for all else.
const (
	AutoResolve Route = "AUTO_RESOLVE"
	RouteReview Route = "ROUTE_REVIEW"
)

// Routes lists every route, in the order in which the configuration shows them.
var Routes = [...]Route{AutoResolve, RouteReview}

// Message is one exception as the gates let it in. Its strings are the decoded
// members; Line is the sender's object byte for byte, which is what is stored,
// handed on and hashed for evidence.
type Message struct {
	IdempotencyKey string
	TraceID        string
	PartitionKey   string
	LedgerEntity   string
	Decision       MatchDecision
	Amount         string // variance_amount exactly as it was sent
	Currency       string // empty: none was given, two minor units
	Priority       uint8  // 0 (most urgent) to 9
	Route          Route
	NotBefore      time.Time // zero: at once
	SourceHash     Hash
	Line           []byte
}

// Hash is a SHA-256 digest.
type Hash [sha256.Size]byte

// String returns the digest in lower-case hexadecimal.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }
