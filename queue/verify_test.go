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
	to := func(worker string, delivery int) func(*Record) {
		return func(r *Record) { r.Worker, r.Delivery = worker, delivery }
	}
	return []Record{
		{Event: EventStarted, TS: now},
		about(EventAccepted, 1, nil),
		about(EventAccepted, 2, nil),
		about(EventQuarantined, 3, nil),
		about(EventDispatched, 1, to("w-0", 1)),
		about(EventDispatched, 2, to("w-0", 1)),
		about(EventRetried, 1, func(r *Record) { r.Worker, r.FailedAttempts, r.Unanswered = "w-0", 1, 1 }),
		about(EventReleased, 2, by("w-0")),
		about(EventDispatched, 1, func(r *Record) { r.Worker, r.Delivery, r.Unanswered = "w-1", 2, 1 }),
		about(EventDecided, 1, by("w-1")),
		about(EventDispatched, 2, to("w-1", 1)),
		about(EventDeadLettered, 2, by("w-1")),
		about(EventReplayed, 2, nil),
		about(EventDispatched, 2, to("w-0", 1)),
		about(EventDecided, 2, by("w-0")),
		about(EventDiscarded, 3, nil),
	}
}

// verifyRecords chains records, as a store would, and verifies them.
func verifyRecords(t *testing.T, records []Record, o VerifyOptions) Verification {
	t.Helper()
	var w BlockWriter
	for i := range records {
		w.Add(&records[i])
	}
	blocks := w.Blocks()
	v := NewVerifier(o, standing(records, w.Head()))
	for _, b := range blocks {
		v.Block(b.Number, AppendBlock(nil, b, true))
	}
	return v.Result()
}

// standing is what a store with these records would say of itself.
func standing(records []Record, head Head) StoreStatus {
	st := StoreStatus{Head: head, Records: uint64(len(records)), Origin: Origin([16]byte{1})}
	all := map[uint64]*Exception{}
	for i := range records {
		if r := &records[i]; r.Seq != 0 {
			if all[r.Seq] == nil {
				all[r.Seq] = &Exception{}
			}
			all[r.Seq].Fold(r)
			st.LastSeq = max(st.LastSeq, r.Seq)
		}
	}
	for _, x := range all {
		switch x.State {
		case Done:
			st.Done++
		case Dead:
			st.Dead++
		case Discarded:
			st.Discarded++
		default:
			st.Ready++
		}
	}
	return st
}

func TestVerifier_a_sound_trail_has_no_findings(t *testing.T) {
	v := verifyRecords(t, life(), VerifyOptions{})
	if len(v.Findings) != 0 || v.Records != uint64(len(life())) || v.Events[EventDispatched] != 5 {
		t.Fatalf("%+v", v)
	}
	if v.First.N != 1 || v.Last.N != v.Records || !v.Last.TS.Equal(life()[0].TS) || v.Origin != Origin([16]byte{1}) {
		t.Errorf("%+v", v)
	}
	want := Balance{Accepted: 2, Decided: 2, Quarantined: 1, QuarantinedDiscarded: 1, Deliveries: 5}
	if v.Balance != want || !v.Balance.Even() {
		t.Errorf("%+v, want %+v", v.Balance, want)
	}
}

// TestVerifier_counts_what_came_in_and_what_became_of_it ends a trail after each of
// its records: the balance is even at every moment.
func TestVerifier_counts_what_came_in_and_what_became_of_it(t *testing.T) {
	records := append(life()[:12], Record{Event: EventDuplicateSkipped, TS: life()[0].TS, Count: 3, Seqs: []uint64{1, 2}})
	for n := range records {
		if v := verifyRecords(t, records[:n+1], VerifyOptions{}); len(v.Findings) > 0 {
			t.Fatalf("after %d records: %+v", n+1, v.Findings)
		}
	}
	v := verifyRecords(t, records, VerifyOptions{})
	want := Balance{Accepted: 2, Decided: 1, Dead: 1, Quarantined: 1, QuarantinedDead: 1, Duplicates: 3, Deliveries: 4}
	if v.Balance != want {
		t.Errorf("%+v, want %+v", v.Balance, want)
	}
}

func TestVerifier_holds_the_store_s_counters_against_the_trail(t *testing.T) {
	for want, change := range map[string]func(*StoreStatus){
		"the seq given last": func(st *StoreStatus) { st.LastSeq++ },
		"records":            func(st *StoreStatus) { st.Records-- },
		"open":               func(st *StoreStatus) { st.Held++ },
		"dead letters":       func(st *StoreStatus) { st.Dead++ },
		"done":               func(st *StoreStatus) { st.Done-- },
		"discarded":          func(st *StoreStatus) { st.Discarded++ },
	} {
		records := life()
		var w BlockWriter
		for i := range records {
			w.Add(&records[i])
		}
		blocks, st := w.Blocks(), standing(records, w.Head())
		change(&st)
		v := NewVerifier(VerifyOptions{}, st)
		for _, b := range blocks {
			v.Add(b)
		}
		if got := v.Result().Findings; len(got) != 1 || !strings.HasPrefix(got[0].What, want+": the store counts") {
			t.Errorf("%s: %+v", want, got)
		}
	}
}

// TestVerifier_follows_no_more_than_it_may: beyond MaxOpen the chain is still
// checked, and it is said what was not.
func TestVerifier_follows_no_more_than_it_may(t *testing.T) {
	v := verifyRecords(t, life(), VerifyOptions{MaxOpen: 2})
	if v.Untraced != 4 || len(v.Findings) > 0 || v.Records != uint64(len(life())) || v.Balance != (Balance{}) {
		t.Errorf("%+v", v)
	}
	if v := verifyRecords(t, life(), VerifyOptions{MaxOpen: 3}); v.Untraced != 0 || v.Balance.Accepted != 2 {
		t.Errorf("%+v", v)
	}
}

// TestVerifier_forgets_what_is_settled: a message that is put back over and over
// leaves nothing behind, and neither does one that is settled.
func TestVerifier_forgets_what_is_settled(t *testing.T) {
	records := life()[:4]
	for range 1000 {
		records = append(records, life()[4], life()[7])
		records[len(records)-1].Seq = 1
	}
	var s story
	s.begin(func(r *Record, format string, args ...any) { t.Errorf(string(r.Event)+": "+format, args...) })
	for i := range records {
		s.play(&records[i])
	}
	if k := s.keys["A"]; len(k.waiting) > 2 || k.live != 3 {
		t.Errorf("%d messages wait in the heap of a key with 2", len(k.waiting))
	}
	s.begin(s.wrong)
	for _, r := range life() {
		s.play(&r)
	}
	if len(s.live) != 0 || len(s.keys) != 0 {
		t.Errorf("%d messages and %d keys are left", len(s.live), len(s.keys))
	}
}

func TestVerifier_hands_every_record_on(t *testing.T) {
	trail := writeTrail(3, 50, 7)
	v := NewVerifier(VerifyOptions{}, StoreStatus{Head: trail[len(trail)-1].Head()})
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
		{"handed out while claims were paused", change(0, func(r *Record) { r.Event = EventPaused }), "claims were paused"},
		{"handed out while its key was held", change(0, func(r *Record) { r.Event, r.PartitionKey = EventKeyHeld, "A" }), "an operator held the key"},
		{"a delivery with another number", change(8, func(r *Record) { r.Delivery = 7 }), "it is delivery 7, 2 was due"},
		{"a failure that was not counted", change(6, func(r *Record) { r.FailedAttempts = 2 }), "it says 2 failed attempts of 1"},
		{"handed out without a word of a delivery that nobody answered", change(8, func(r *Record) { r.Unanswered = 0 }), "it does not say that a delivery ended without an answer"},
		{"said to have been handed out before", change(4, func(r *Record) { r.Unanswered = 1 }), "it says that a delivery ended without an answer, and none did"},
		{"a dead letter of which more is said than was", change(11, func(r *Record) { r.Unanswered = 1 }), "it says that a delivery ended without an answer, and none did"},
		{"a dead letter twice", swap(12, 11), "the message was leased"},
		{"a wait ended of what somebody had", change(5, func(r *Record) { r.Event, r.Seq = EventKeyReleased, 1 }), "KEY_RELEASED: the message was leased"},
		{"a wait ended of what is over", change(15, func(r *Record) { r.Event, r.Seq = EventKeyReleased, 1 }), "KEY_RELEASED: the message was not open"},
		{"a wait ended under another key", change(4, func(r *Record) { r.Event, r.PartitionKey = EventKeyReleased, "Z" }), "KEY_RELEASED: it is another key's"},
		{"edited while it was no dead letter", change(4, func(r *Record) { r.Event = EventEdited }), "EDITED: the message was ready"},
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

// Nobody knows what was done with a message after the copy was made that was restored.
func TestVerifier_wants_to_be_told_of_a_restored_state(t *testing.T) {
	for unanswered, findings := range map[int]int{0: 1, 1: 0} {
		r := life()[:3]
		r = append(r, Record{Event: EventRestored, TS: r[0].TS}, Record{Event: EventResumed, TS: r[0].TS}, life()[4])
		r[5].Unanswered = unanswered
		v := verifyRecords(t, r, VerifyOptions{})
		if len(v.Findings) != findings || findings > 0 && !strings.Contains(v.Findings[0].What, "it does not say that a delivery") {
			t.Errorf("told %d: %+v", unanswered, v.Findings)
		}
	}
}

func TestVerifier_compares_the_stored_line_with_what_was_accepted(t *testing.T) {
	records := life()[:3]
	var w BlockWriter
	for i := range records {
		w.Add(&records[i])
	}
	blocks := w.Blocks()
	v := NewVerifier(VerifyOptions{}, standing(records, w.Head()))
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
	st := standing(records, w.Head())
	v := NewVerifier(VerifyOptions{Witnesses: []Witness{{Head: w.Head()}}}, st)
	for i, data := range stored {
		v.Block(uint64(i+1), data)
	}
	// The store's own head and the witness each know better.
	r := v.Result()
	if r.Verdicts[0] != WitnessCut || r.Records != 5 || len(r.Findings) == 0 || !strings.Contains(r.Findings[0].What, "the trail ends at 1:") {
		t.Fatalf("%+v", r)
	}
}

func TestVerifier_bounds_its_findings(t *testing.T) {
	v := NewVerifier(VerifyOptions{}, StoreStatus{})
	for range MaxFindings + 1 {
		v.Report(Finding{What: "x"})
	}
	if r := v.Result(); len(r.Findings) != MaxFindings || !r.More {
		t.Fatalf("%d findings, more %v", len(r.Findings), r.More)
	}
}
