package api

// Lease is one delivery that is not answered yet: a row of /v1/leases. Its token is
// not shown: that is for who holds it.
type Lease struct {
	Seq            uint64  `json:"seq"`
	Route          string  `json:"route"`
	Owner          string  `json:"owner"`
	Kind           string  `json:"kind"`          // LeaseOfWorker or LeaseOfConsumer
	UID            *uint32 `json:"uid,omitempty"` // a consumer's user
	Delivery       int     `json:"delivery"`      // which one this is, from 1
	Since          Time    `json:"since"`         // given, last extended, or begun anew by a start
	Deadline       Time    `json:"deadline"`      // past: it is about to be taken back
	IdempotencyKey string  `json:"idempotency_key"`
	TraceID        string  `json:"trace_id"`
	PartitionKey   string  `json:"partition_key"`
	LedgerEntity   string  `json:"ledger_entity"`
	MatchDecision  string  `json:"match_decision"`
	VarianceAmount string  `json:"variance_amount"`
	Currency       string  `json:"currency,omitzero"`
	SourceHash     string  `json:"source_hash"`
}

// What kinds of owner there are.
const (
	LeaseOfWorker   = "worker"   // in the process: ends by itself, with its handler
	LeaseOfConsumer = "consumer" // attached, or was: may be revoked
)

// LeasesAct is the body of revoke.
type LeasesAct struct {
	Seqs   []uint64 `json:"seqs"`
	By     string   `json:"by,omitzero"`
	Reason string   `json:"reason,omitzero"`
}

// Revoked is the answer to revoke: how many leases were taken back, how many seqs
// were refused, and each one's result in the order of the request.
type Revoked struct {
	Revoked int          `json:"revoked"`
	Failed  int          `json:"failed"`
	Items   []Revocation `json:"items"`
}

// Revocation is what became of one seq; without a Code its lease was taken from Owner.
// DeadCode is set when that delivery was its last, and it is a dead letter now.
type Revocation struct {
	Seq      uint64 `json:"seq"`
	Owner    string `json:"owner,omitzero"`
	DeadCode string `json:"dead_code,omitzero"`
	Code     string `json:"code,omitzero"`
	Error    string `json:"error,omitzero"`
}
