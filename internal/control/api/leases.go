package api

// Lease is one delivery that is not answered yet: a row of /v1/leases.
type Lease struct {
	Seq            uint64  `json:"seq"`
	Route          string  `json:"route"`
	Owner          string  `json:"owner"`
	Kind           string  `json:"kind"`          // LeaseOfWorker or LeaseOfConsumer
	UID            *uint32 `json:"uid,omitempty"` // a consumer's user
	Delivery       int     `json:"delivery"`      // which one this is, from 1
	Fence          uint64  `json:"fence"`         // of this lease, and of no other that there ever is; it gives no right to anything
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

// LeasesAct is the body of revoke: Seqs, whose leases are taken whoever has them by
// then, or Leases, which are taken only while they are still those. With Owner, only
// what the owner of that name has is taken.
type LeasesAct struct {
	Seqs   []uint64   `json:"seqs,omitempty"`
	Leases []LeaseRef `json:"leases,omitempty"`
	Owner  string     `json:"owner,omitzero"`
	By     string     `json:"by,omitzero"`
	Reason string     `json:"reason,omitzero"`
}

// LeaseRef names one lease, as a row of /v1/leases has it.
type LeaseRef struct {
	Seq   uint64 `json:"seq"`
	Fence uint64 `json:"fence"`
}

// Revoked is the answer to revoke: how many leases were taken back, how many were
// refused, and each one's result in the order of the request.
type Revoked struct {
	Revoked int          `json:"revoked"`
	Failed  int          `json:"failed"`
	Items   []Revocation `json:"items"`
}

// Revocation is what became of one lease; without a Code it was taken from Owner. With
// LEASE_EXPIRED it was another than the one that was meant, and is Owner's still. DeadCode
// is set when that delivery was its last, and it is a dead letter now.
type Revocation struct {
	Seq      uint64 `json:"seq"`
	Owner    string `json:"owner,omitzero"`
	DeadCode string `json:"dead_code,omitzero"`
	Code     string `json:"code,omitzero"`
	Error    string `json:"error,omitzero"`
}
