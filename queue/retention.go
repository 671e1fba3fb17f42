package queue

import "time"

// This file is what retention counts by.
//
// The age of a settled key is not a difference of two readings of the wall clock: one
// that was set forward by ten years would forget everything at once, and then whatever
// a producer sends again would be run again. It is counted in time in service, which
// no clock can make more than it was (see [Uptime]).
//
// So that no key needs a moment of its own, the life of a store is cut into epochs.
// What is settled, and each record of the trail, belongs to the epoch in which it was
// written, and is as old as the end of that epoch: it is kept for its whole retention,
// and for as much longer as its epoch lasted.

// EpochLength is how long an epoch is in a store that serves. It is the grain of
// retention: what is kept for 24 hours is gone after 25.
const EpochLength = time.Hour

// MaxStop is how much a stop of the process can add to the time in service. Within a
// process that time is elapsed time (the monotonic clock); across a stop only the wall
// clock can say how long it was, and it may be wrong.
const MaxStop = 24 * time.Hour

// stopShare is the share of a key's retention that one stop can add at most, so that
// short retentions are not at the mercy of the clock either.
const stopShare = 8

// MaxEpochs is how many epochs one request lets go of at most.
const MaxEpochs = 64

// ExpireRequest is one bounded step of retention.
type ExpireRequest struct {
	Now time.Time

	// First says that no request of this process came before. Passed is what else has
	// passed since that one, by the monotonic clock.
	First  bool
	Passed time.Duration

	Epoch  time.Duration // how long an epoch is, at least; zero: one ends with each request
	Ledger time.Duration // how long a settled key is remembered; zero: for ever
}

// ExpireResult says what a step did. More: there is more to do, so ask again soon.
type ExpireResult struct {
	Keys int64 // idempotency keys that were forgotten
	More bool
}

// TrimRequest is one bounded step of letting go of the trail's beginning.
type TrimRequest struct {
	Now            time.Time
	Audit          time.Duration // how long a record is kept; zero: for ever
	RequireArchive bool          // only what is in an archive; see [Store.Archived]
}

// TrimResult says what a step did. More: there is more to do, so ask again soon.
type TrimResult struct {
	Records int // that were removed
	Copies  int // of them: what still holds, and was copied
	More    bool
}

// Uptime is how long a store has been in service, and which epoch that makes.
type Uptime struct {
	Total time.Duration // in whole microseconds
	Seen  time.Time     // wall clock of the last request; zero: there was none
	Epoch uint64        // the present one, from 1
	Began time.Duration // Total when it began
	LastN uint64        // the last record before it
	Kept  uint64        // keys settled in epochs before this one are forgotten
}

// Epoch is one that has ended.
type Epoch struct {
	Number  uint64
	Ended   time.Duration // [Uptime.Total] then
	LastN   uint64        // the last record that may belong to it
	Settled int64         // keys that were settled in it
}

// Advance counts the time since the request before.
func (s *Uptime) Advance(r *ExpireRequest) {
	passed := max(r.Passed, 0)
	if r.First {
		passed = 0
		if !s.Seen.IsZero() {
			passed = min(max(r.Now.Round(0).Sub(s.Seen), 0), r.maxStop())
		}
	}
	s.Total += passed.Truncate(time.Microsecond)
	s.Seen = r.Now.UTC().Round(0).Truncate(time.Microsecond)
}

// maxStop is what a stop may add.
func (r *ExpireRequest) maxStop() time.Duration {
	if r.Ledger == 0 {
		return MaxStop
	}
	return min(MaxStop, r.Ledger/stopShare)
}

// End ends the present epoch if it is long enough and anything was recorded in it. lastN
// is the number of the record written last, settled how many keys were settled in it.
func (s *Uptime) End(r *ExpireRequest, lastN uint64, settled int64) (e Epoch, ended bool) {
	if s.Total-s.Began < r.Epoch || lastN == s.LastN {
		return Epoch{}, false
	}
	e = Epoch{Number: s.Epoch, Ended: s.Total, LastN: lastN, Settled: settled}
	s.Epoch, s.Began, s.LastN = s.Epoch+1, s.Total, lastN
	return e, true
}

// Over reports whether what belongs to an epoch is older than it is to be kept; keep
// zero is for ever.
func (s *Uptime) Over(e *Epoch, keep time.Duration) bool {
	return keep > 0 && s.Total-e.Ended >= keep
}

// Lapsed reports whether a key that was settled in an epoch is forgotten.
func (s *Uptime) Lapsed(epoch uint64) bool { return epoch < s.Kept }
