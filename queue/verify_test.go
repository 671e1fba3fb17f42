package queue

import (
	"strings"
	"testing"
	"time"
)

// life is a sound trail: two messages of one key, the first of them retried, a
// third quarantined, replayed and discarded.
func life() []Record {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	about := func(e Event, seq uint64, more func(*Record)) Record {
		r := Record{Event: e, TS: now, Seq: seq, PartitionKey: "A", TraceID: "t", MatchDecision: Partial, LineSHA256: LineHash([]byte("line"))}
		if more != nil {
			more(&r)
		}
		return r
	}
	by := func(worker string) func(*Record) { return func(r *Record) { r.Worker = worker } }
	return []Record{
		{Event: EventStarted, TS: now},
		about(EventAccepted, 1, nil),
		about(EventAccepted, 2, nil),
		about(EventQuarantined, 3, nil),
		about(EventDispatched, 1, by("w-0")),
		about(EventDispatched, 2, by("w-0")),
		about(EventRetried, 1, by("w-0")),
		about(EventReleased, 2, by("w-0")),
		about(EventDispatched, 1, by("w-1")),
		about(EventDecided, 1, by("w-1")),
		about(EventDispatched, 2, by("w-1")),
		about(EventDeadLettered, 2, by("w-1")),
		about(EventReplayed, 2, nil),
		about(EventDispatched, 2, by("w-0")),
		about(EventDecided, 2, by("w-0")),
		about(EventDiscarded, 3, nil),
	}
}

// verifyRecords chains records, as a store would, and verifies them.
func verifyRecords(t *testing.T, records []Record, o VerifyOptions) Verification {
	t.Helper()
	var w BlockWriter
	last := uint64(0)
	for i := range records {
		w.Add(&records[i])
		if e := records[i].Event; e == EventAccepted || e == EventQuarantined {
			last = max(last, records[i].Seq)
		}
	}
	blocks := w.Blocks()
	v := NewVerifier(o, w.Head(), last)
	for _, b := range blocks {
		v.Block(b.Number, AppendBlock(nil, b, true))
	}
	return v.Result()
}

func TestVerifier_a_sound_trail_has_no_findings(t *testing.T) {
	v := verifyRecords(t, life(), VerifyOptions{})
	if len(v.Findings) != 0 || v.Records != uint64(len(life())) || v.Events[EventDispatched] != 5 {
		t.Fatalf("%+v", v)
	}
}

func TestVerifier_hands_every_record_on(t *testing.T) {
	trail := writeTrail(3, 50, 7)
	v := NewVerifier(VerifyOptions{}, trail[len(trail)-1].Head(), 0)
	n := uint64(0)
	v.Visit = func(r Record) {
		if n++; r.N != n {
			t.Fatalf("record %d after %d", r.N, n-1)
		}
	}
	for _, b := range trail {
		v.Block(b.Number, AppendBlock(nil, b, true))
	}
	if n != 60 {
		t.Fatalf("%d records of 60", n)
	}
}

// TestVerifier_finds_what_breaks_a_promise changes one record of a sound trail and
// wants to be told.
func TestVerifier_finds_what_breaks_a_promise(t *testing.T) {
	drop := func(i int) func([]Record) []Record {
		return func(r []Record) []Record { return append(r[:i:i], r[i+1:]...) }
	}
	change := func(i int, f func(*Record)) func([]Record) []Record {
		return func(r []Record) []Record { f(&r[i]); return r }
	}
	repeat := func(i int) func([]Record) []Record {
		return func(r []Record) []Record { return append(r, r[i]) }
	}
	swap := func(i, j int) func([]Record) []Record {
		return func(r []Record) []Record { r[i], r[j] = r[j], r[i]; return r }
	}
	for _, c := range []struct {
		name     string
		breaking func([]Record) []Record
		want     string
	}{
		{"a seq is missing", drop(1), "seq 1 was due"},
		{"a seq is given twice", repeat(1), "seq 4 was due"},
		{"accepted twice", swap(2, 1), "seq 1 was due"},
		{"decided twice", repeat(9), "was not open"},
		{"decided by who did not hold it", change(9, func(r *Record) { r.Worker = "w-7" }), "w-1 held the message"},
		{"decided while nobody held it", drop(13), "nobody held"},
		{"handed out past an open one", drop(4), "comes before and was open"},
		{"handed to two at once", change(5, func(r *Record) { r.Worker = "w-7" }), "w-0 held the key"},
		{"handed out while it was leased", swap(6, 8), "the message was leased"},
		{"handed out while it was dead", drop(12), "the message was dead"},
		{"replayed while it was not dead", drop(11), "the message was leased"},
		{"discarded twice", repeat(15), "was not open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verifyRecords(t, c.breaking(life()), VerifyOptions{})
			for _, f := range v.Findings {
				if strings.Contains(f.What, c.want) {
					return
				}
			}
			t.Fatalf("no finding says %q: %+v", c.want, v.Findings)
		})
	}
}

func TestVerifier_compares_the_stored_line_with_what_was_accepted(t *testing.T) {
	records := life()[:3]
	var w BlockWriter
	for i := range records {
		w.Add(&records[i])
	}
	blocks := w.Blocks()
	v := NewVerifier(VerifyOptions{}, w.Head(), 2)
	for _, b := range blocks {
		v.Block(b.Number, AppendBlock(nil, b, false))
	}
	v.Stored(&Stored{Seq: 1, Line: []byte("line")})
	v.Stored(&Stored{Seq: 2, Line: []byte("lime")})
	v.Stored(&Stored{Seq: 99, Line: []byte("accepted after the verification began")})
	if got := v.Result().Findings; len(got) != 1 || got[0].Seq != 2 {
		t.Fatalf("%+v", got)
	}
}

func TestVerifier_says_when_the_trail_was_cut(t *testing.T) {
	records := life()
	var w BlockWriter
	for i := range records[:5] {
		w.Add(&records[i])
	}
	var stored [][]byte
	for _, b := range w.Blocks() {
		stored = append(stored, AppendBlock(nil, b, true))
	}
	w.Reset(w.Head(), w.LastN())
	for i := range records[5:] {
		w.Add(&records[5+i])
	}
	w.Blocks()
	v := NewVerifier(VerifyOptions{Witness: w.Head()}, w.Head(), 3)
	for i, data := range stored {
		v.Block(uint64(i+1), data)
	}
	// The store's own head and the witness each know better.
	if r := v.Result(); r.WitnessFound || len(r.Findings) != 2 || r.Records != 5 {
		t.Fatalf("%+v", r)
	}
}

func TestVerifier_bounds_its_findings(t *testing.T) {
	v := NewVerifier(VerifyOptions{}, Head{}, 0)
	for range MaxFindings + 1 {
		v.Report(Finding{What: "x"})
	}
	if r := v.Result(); len(r.Findings) != MaxFindings || !r.More {
		t.Fatalf("%d findings, more %v", len(r.Findings), r.More)
	}
}
