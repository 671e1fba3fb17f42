package queue

import "time"

// TrailQuery selects records. Zero members select everything.
type TrailQuery struct {
	AfterN         uint64 // only records with a greater n
	Seq            uint64
	TraceID        string
	PartitionKey   string
	IdempotencyKey string // only ACCEPTED and QUARANTINED name one
	Event          Event
	Since, Until   time.Time // by ts: [Since, Until)
}

// Matches reports whether the query selects r. A record that lists several
// messages (DUPLICATE_SKIPPED, a conflict) concerns each of them.
func (q TrailQuery) Matches(r *Record) bool {
	return r.N > q.AfterN &&
		(q.Seq == 0 || r.concerns(q.Seq)) &&
		(q.TraceID == "" || r.TraceID == q.TraceID) &&
		(q.PartitionKey == "" || r.PartitionKey == q.PartitionKey) &&
		(q.IdempotencyKey == "" || r.IdempotencyKey == q.IdempotencyKey) &&
		(q.Event == "" || r.Event == q.Event) &&
		(q.Since.IsZero() || !r.TS.Before(q.Since)) &&
		(q.Until.IsZero() || r.TS.Before(q.Until))
}
