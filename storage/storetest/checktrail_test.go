package storetest

import (
	"strings"
	"testing"
	"time"

	"breakwater/queue"
)

// rec makes a record of message seq, whose partition key is A unless it says so.
func rec(e queue.Event, seq uint64, more ...func(*queue.Record)) queue.Record {
	r := queue.Record{Event: e, Seq: seq, TS: time.Unix(1000, 0).UTC()}
	if seq != 0 {
		r.TraceID, r.PartitionKey, r.MatchDecision = "t", "A", queue.Partial
	}
	if e == queue.EventAccepted || e == queue.EventQuarantined {
		r.IdempotencyKey = "k" + string(rune('0'+seq))
	}
	for _, m := range more {
		m(&r)
	}
	return r
}

func by(owner string, delivery int) func(*queue.Record) {
	return func(r *queue.Record) { r.Worker, r.Delivery = owner, delivery }
}
func key(name string) func(*queue.Record)   { return func(r *queue.Record) { r.PartitionKey = name } }
func usedBy(id string) func(*queue.Record)  { return func(r *queue.Record) { r.IdempotencyKey = id } }
func code(c queue.Code) func(*queue.Record) { return func(r *queue.Record) { r.Code = c } }
func conflict(of uint64) func(*queue.Record) {
	return func(r *queue.Record) { r.Code, r.Of = queue.CodeConflict, of }
}
func later(r *queue.Record) { r.NotBefore = r.TS.Add(time.Hour) }
func at(seq uint64, n uint32) func(*queue.Record) {
	return func(r *queue.Record) { r.Place = queue.Place{Seq: seq, Sub: n} }
}
func counts(n int) func(*queue.Record)   { return func(r *queue.Record) { r.Unanswered = n } }
func failures(n int) func(*queue.Record) { return func(r *queue.Record) { r.FailedAttempts = n } }
func waits(r *queue.Record)              { r.Until = r.TS.Add(time.Hour) }
func forgotten(r *queue.Record)          { r.Note = "its idempotency key may be used again" }

// The events in short.
const (
	accepted    = queue.EventAccepted
	dispatched  = queue.EventDispatched
	decided     = queue.EventDecided
	retried     = queue.EventRetried
	released    = queue.EventReleased
	reclaimed   = queue.EventReclaimed
	deadLetter  = queue.EventDeadLettered
	replayed    = queue.EventReplayed
	discarded   = queue.EventDiscarded
	quarantined = queue.EventQuarantined
)

func TestCheckTrail(t *testing.T) {
	good := map[string][]queue.Record{
		"two of a key, one after the other": {
			rec(accepted, 1), rec(accepted, 2), rec(dispatched, 1, by("w", 1)), rec(decided, 1, by("w", 1)),
			rec(dispatched, 2, by("w", 1)), rec(decided, 2, by("w", 1)),
		},
		"two of a key in one hand, answered in any order": {
			rec(accepted, 1), rec(accepted, 2), rec(dispatched, 1, by("w", 1)), rec(dispatched, 2, by("w", 1)),
			rec(decided, 2, by("w", 1)), rec(decided, 1, by("w", 1)),
		},
		"a failure, a release and a delivery that nobody answered": {
			rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(retried, 1, by("w", 1), failures(1)),
			rec(dispatched, 1, by("v", 2)), rec(released, 1, by("v", 2)),
			rec(dispatched, 1, by("v", 2)), rec(reclaimed, 1, by("v", 2), counts(1)),
			rec(dispatched, 1, by("v", 3), counts(1)), rec(reclaimed, 1, by("v", 3)),
			rec(dispatched, 1, by("v", 3), counts(1)), rec(decided, 1, by("v", 3)),
		},
		"a dead letter that is skipped, replayed while the next is out, and discarded": {
			rec(accepted, 1), rec(accepted, 2), rec(dispatched, 1, by("w", 1)), rec(deadLetter, 1, by("w", 1)),
			rec(dispatched, 2, by("w", 1)), rec(replayed, 1), rec(decided, 2, by("w", 1)),
			rec(dispatched, 1, by("w", 1)), rec(deadLetter, 1, by("w", 1)), rec(discarded, 1, forgotten),
			rec(accepted, 3, usedBy("k1")),
		},
		"a scheduled message behind what came before it fell due": {
			rec(accepted, 1, later), rec(accepted, 2), rec(queue.EventDue, 1, at(2, 1)), rec(accepted, 3),
			rec(dispatched, 2, by("w", 1)), rec(dispatched, 1, by("w", 1)), rec(dispatched, 3, by("w", 1)),
		},
		"waits that an operator ended": {
			rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(retried, 1, by("w", 1), failures(1), waits), rec(queue.EventKeyHeld, 0, key("A")),
			rec(queue.EventKeyReleased, 1, waits, failures(1)), rec(dispatched, 1, by("w", 2)), rec(queue.EventHeld, 1, by("w", 2), waits),
			rec(queue.EventKeyReleased, 1, waits), rec(dispatched, 1, by("w", 2)),
		},
		"a quarantined line that is let in": {
			rec(quarantined, 1, code(queue.CodePoison)), rec(replayed, 1), rec(accepted, 1), rec(dispatched, 1, by("w", 1)),
		},
	}
	for name, records := range good {
		t.Run("lets_pass/"+name, func(t *testing.T) {
			for i := range records {
				records[i].N = uint64(i + 1)
			}
			for _, broken := range CheckTrail(records) {
				t.Error(broken)
			}
		})
	}
	for name, records := range brokenTrails {
		t.Run("finds/"+name, func(t *testing.T) {
			for i := range records {
				if records[i].N == 0 {
					records[i].N = uint64(i + 1)
				}
			}
			found := CheckTrail(records)
			if len(found) == 0 {
				t.Fatal("nothing was found")
			}
			// What is wrong is the last record; what was before must be good.
			last := CheckTrail(records[:len(records)-1])
			if len(last) != 0 {
				t.Errorf("found before the end: %s", strings.Join(last, "; "))
			}
		})
	}
}

// brokenTrails are good but for their last record.
var brokenTrails = map[string][]queue.Record{
	"a record is missing":           {rec(accepted, 1), {N: 3, Event: queue.EventStarted}},
	"a seq is missing":              {rec(accepted, 1), rec(accepted, 3)},
	"a seq is given twice":          {rec(accepted, 1), rec(accepted, 1, usedBy("other"))},
	"a key is accepted twice":       {rec(accepted, 1), rec(accepted, 2, usedBy("k1"))},
	"a conflict with nothing":       {rec(accepted, 1), rec(quarantined, 2, conflict(1))},
	"a letter without a reason":     {rec(quarantined, 1)},
	"a duplicate of nothing":        {rec(accepted, 1), {Event: queue.EventDuplicateSkipped, TS: time.Unix(1000, 0), Count: 1, Seqs: []uint64{2}}},
	"a message that never was":      {rec(dispatched, 1, by("w", 1))},
	"dispatched while leased":       {rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(dispatched, 1, by("v", 2))},
	"dispatched while scheduled":    {rec(accepted, 1, later), rec(dispatched, 1, by("w", 1))},
	"dispatched from quarantine":    {rec(quarantined, 1, code(queue.CodePoison)), rec(dispatched, 1, by("w", 1))},
	"dispatched after its decision": {rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(decided, 1, by("w", 1)), rec(dispatched, 1, by("w", 2))},
	"dispatched past an open one":   {rec(accepted, 1), rec(accepted, 2), rec(dispatched, 2, by("w", 1))},
	"dispatched past another's":     {rec(accepted, 1), rec(accepted, 2), rec(dispatched, 1, by("w", 1)), rec(dispatched, 2, by("v", 1))},
	"dispatched past one that was put back": {
		rec(accepted, 1), rec(accepted, 2), rec(dispatched, 1, by("w", 1)), rec(retried, 1, by("w", 1), failures(1)), rec(dispatched, 2, by("w", 1)),
	},
	"dispatched before what was accepted earlier fell due": {
		rec(accepted, 1, later), rec(queue.EventDue, 1, at(1, 1)), rec(accepted, 2), rec(dispatched, 2, by("w", 1)),
	},
	"dispatched without a word of what nobody answered": {
		rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(released, 1, by("w", 1), counts(1)), rec(dispatched, 1, by("w", 1)),
	},
	"dispatched as if somebody had not answered": {rec(accepted, 1), rec(dispatched, 1, by("w", 1), counts(1))},
	"dispatched without a word of a restore": {
		rec(accepted, 1), {Event: queue.EventRestored, TS: time.Unix(1000, 0)}, {Event: queue.EventResumed, TS: time.Unix(1000, 0)}, rec(dispatched, 1, by("w", 1)),
	},
	"dead without a word of what nobody answered": {
		rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(reclaimed, 1, by("w", 1), counts(1)), rec(deadLetter, 1, by("w", 1)),
	},
	"dispatched while claims are paused": {rec(accepted, 1), {Event: queue.EventPaused, TS: time.Unix(1000, 0)}, rec(dispatched, 1, by("w", 1))},
	"dispatched while restored":          {rec(accepted, 1), {Event: queue.EventRestored, TS: time.Unix(1000, 0)}, rec(dispatched, 1, by("w", 1))},
	"dispatched while its key is held":   {rec(accepted, 1), rec(queue.EventKeyHeld, 0, key("A")), rec(dispatched, 1, by("w", 1))},
	"a delivery is left out":             {rec(accepted, 1), rec(dispatched, 1, by("w", 2))},
	"a release is counted": {
		rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(released, 1, by("w", 1)), rec(dispatched, 1, by("w", 2)),
	},
	"decided by nobody":             {rec(accepted, 1), rec(decided, 1, by("w", 1))},
	"decided by another":            {rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(decided, 1, by("v", 1))},
	"decided twice":                 {rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(decided, 1, by("w", 1)), rec(decided, 1, by("w", 1))},
	"decided under an old delivery": {rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(decided, 1, by("w", 2))},
	"decided past one that was put back": {
		rec(accepted, 1), rec(accepted, 2), rec(dispatched, 1, by("w", 1)), rec(dispatched, 2, by("w", 1)),
		rec(released, 1, by("w", 1)), rec(decided, 2, by("w", 1)),
	},
	"a failure is not counted":        {rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(retried, 1, by("w", 1))},
	"retried by nobody":               {rec(accepted, 1), rec(retried, 1, by("w", 1), failures(1))},
	"dead twice":                      {rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(deadLetter, 1, by("w", 1)), rec(deadLetter, 1, by("w", 1))},
	"replayed alive":                  {rec(accepted, 1), rec(replayed, 1)},
	"discarded alive":                 {rec(accepted, 1), rec(discarded, 1)},
	"replayed after its discard":      {rec(quarantined, 1, code(queue.CodePoison)), rec(discarded, 1), rec(replayed, 1)},
	"due though not scheduled":        {rec(accepted, 1), rec(queue.EventDue, 1, at(1, 1))},
	"due before what is accepted":     {rec(accepted, 1, later), rec(accepted, 2), rec(queue.EventDue, 1, at(1, 1))},
	"due at a place that was given":   {rec(accepted, 1, later), rec(accepted, 2, later), rec(queue.EventDue, 1, at(2, 1)), rec(queue.EventDue, 2, at(2, 1))},
	"resumed though nothing paused":   {{Event: queue.EventResumed, TS: time.Unix(1000, 0)}},
	"a key held twice":                {rec(queue.EventKeyHeld, 0, key("A")), rec(queue.EventKeyHeld, 0, key("A"))},
	"a key released that is not held": {rec(queue.EventKeyReleased, 0, key("A"))},
	"a wait ended that never began":   {rec(accepted, 1), rec(queue.EventKeyReleased, 1, waits)},
	"a wait ended of what is leased": {
		rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(retried, 1, by("w", 1), failures(1), waits), rec(dispatched, 1, by("w", 2)),
		rec(queue.EventKeyReleased, 1, waits),
	},
	"a wait ended twice": {
		rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(queue.EventHeld, 1, by("w", 1), waits),
		rec(queue.EventKeyReleased, 1, waits), rec(queue.EventKeyReleased, 1, waits),
	},
	"a wait ended, nobody knows which": {
		rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(queue.EventHeld, 1, by("w", 1), waits), rec(queue.EventKeyReleased, 1),
	},
	"a record under another name": {rec(accepted, 1), rec(dispatched, 1, by("w", 1), func(r *queue.Record) { r.TraceID = "other" })},
}

// trimmedTrail is a trail of which the first five records are trimmed, with what change
// makes of what is said of that, and of the one copy.
func trimmedTrail(change func(told *queue.Trimmed, copies *[]queue.Record)) []queue.Record {
	records := []queue.Record{
		rec(accepted, 1), rec(dispatched, 1, by("w", 1)), rec(decided, 1, by("w", 1)), rec(accepted, 2, key("B")), rec(dispatched, 2, by("w", 1), key("B")),
		rec(released, 2, by("w", 1), key("B")),
	}
	var step queue.Trimming
	for i := range records[:5] {
		records[i].N = uint64(i + 1)
		step.Count(&records[i])
	}
	step.Before = queue.Head{Block: 5}
	step.Copy(records[3])
	told := step.Told()
	change(&told, &step.Copies)
	records = append(records, queue.TrimmedRecord(records[0].TS, told))
	return append(append(records, step.Copies...), rec(dispatched, 2, by("w", 1), key("B")))
}

func TestCheckTrail_of_a_trimmed_trail(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*queue.Trimmed, *[]queue.Record)
		want   string
	}{
		"as it should be": {func(*queue.Trimmed, *[]queue.Record) {}, ""},
		"no copy":         {func(_ *queue.Trimmed, c *[]queue.Record) { *c = nil }, "comes before copies that were announced"},
		"one too many":    {func(_ *queue.Trimmed, c *[]queue.Record) { *c = append(*c, (*c)[0]) }, "a copy that was not announced"},
		"one that is announced twice": {func(u *queue.Trimmed, c *[]queue.Record) {
			u.Copies++
			*c = append(*c, (*c)[0])
		}, "was copied before"},
		"a copy that was changed": {func(_ *queue.Trimmed, c *[]queue.Record) { (*c)[0].Amount = "1.00" }, "is no copy of record 4"},
		"of what is over": {func(_ *queue.Trimmed, c *[]queue.Record) {
			(*c)[0] = rec(accepted, 1)
			(*c)[0].CopyOf = 1
		}, "of a message that is over"},
		"of a lease that is over": {func(_ *queue.Trimmed, c *[]queue.Record) {
			(*c)[0] = rec(dispatched, 2, by("w", 1), key("B"))
			(*c)[0].CopyOf = 5
		}, "of a lease that is over"},
		"of what is kept": {func(_ *queue.Trimmed, c *[]queue.Record) { (*c)[0].CopyOf = 6 }, "which was not removed"},
		"other counts":    {func(u *queue.Trimmed, _ *[]queue.Record) { u.Decided = 2 }, "says {Accepted:2 Decided:2"},
		"another seq":     {func(u *queue.Trimmed, _ *[]queue.Record) { u.LastSeq = 1 }, "and seq 1"},
		"fewer open":      {func(u *queue.Trimmed, _ *[]queue.Record) { u.Open = 0 }, "copies of 0 first records follow"},
		"records to come": {func(u *queue.Trimmed, _ *[]queue.Record) { u.First = 99 }, "keeps records from 99 on"},
	} {
		records := trimmedTrail(c.change)
		for i := range records {
			records[i].N = uint64(i + 1)
		}
		found := strings.Join(CheckTrail(records), "; ")
		if c.want == "" && found != "" || !strings.Contains(found, c.want) {
			t.Errorf("%s: found %q, want %q", name, found, c.want)
		}
	}
}
