package queue

import (
	"strings"
	"testing"
	"time"
)

// trimmedTrail is a trail whose beginning goes: of the messages 1 to 5 of key A and 6 of
// key B, 1 is over, 2 and 3 are leased to w-0, 4 waits, 5 is a dead letter, 6 is a line
// from the door. 7 is accepted behind what goes.
type trimmedTrail struct {
	gone, kept []Record // before the step, and behind what goes
	t          Trimmed  // what the step says, to be spoilt
	copies     []Record // to be spoilt
	after      []Record // behind the copies
}

func about(e Event, seq uint64, more ...func(*Record)) Record {
	key := "A"
	if seq == 6 {
		key = "B"
	}
	r := Record{
		Event: e, TS: time.Date(2026, 3, 2, 9, 0, 0, int(seq)*1000, time.UTC), Seq: seq, PartitionKey: key,
		TraceID: "t", MatchDecision: Partial, LineSHA256: LineHash([]byte{byte(seq)}),
	}
	for _, change := range more {
		change(&r)
	}
	return r
}

func delivered(worker string, n int) func(*Record) {
	return func(r *Record) { r.Worker, r.Delivery = worker, n }
}

func unanswered(r *Record) { r.Unanswered = 1 }

// newTrimmedTrail tells the story as a store does.
func newTrimmedTrail() *trimmedTrail {
	died := about(EventDeadLettered, 5, delivered("w-0", 1), unanswered)
	died.Code = CodeRejected
	x := &trimmedTrail{
		gone: []Record{
			about(EventAccepted, 1), about(EventDispatched, 1, delivered("w-0", 1)), about(EventDecided, 1, delivered("w-0", 1)),
			about(EventAccepted, 2), about(EventAccepted, 3), about(EventAccepted, 4), about(EventAccepted, 5),
			about(EventQuarantined, 6, func(r *Record) { r.Code = CodePoison }),
			about(EventDispatched, 2, delivered("w-0", 1)), about(EventRetried, 2, delivered("w-0", 1), func(r *Record) { r.FailedAttempts, r.Unanswered = 1, 1 }),
			about(EventDispatched, 2, delivered("w-0", 2), unanswered), about(EventDispatched, 3, delivered("w-0", 1)),
			about(EventDispatched, 4, delivered("w-0", 1)), about(EventReleased, 4, delivered("w-0", 1), unanswered),
			about(EventDispatched, 5, delivered("w-0", 1)), about(EventReclaimed, 5, delivered("w-0", 1), unanswered), died,
		},
		kept:  []Record{about(EventAccepted, 7)},
		after: []Record{about(EventDecided, 3, delivered("w-0", 1)), about(EventDecided, 2, delivered("w-0", 2))},
	}
	standing := map[uint64]*Unfinished{
		2: {Place: Place{Seq: 2}, Worker: "w-0", Delivery: 2}, 3: {Place: Place{Seq: 3}, Worker: "w-0", Delivery: 1},
		4: {Place: Place{Seq: 4}}, 5: {Place: Place{Seq: 5}, DeadAt: died.TS}, 6: {Door: true, DeadAt: about(EventQuarantined, 6).TS},
	}
	var step Trimming
	for i := range x.gone {
		x.gone[i].N = uint64(i + 1)
		step.Count(&x.gone[i])
		if x.gone[i].StillHolds(standing[x.gone[i].Seq]) {
			step.Copy(x.gone[i])
		}
	}
	step.Before = Head{Block: uint64(len(x.gone)), Hash: Hash{1}} // verify puts the real one there
	x.t, x.copies = step.Told(), step.Copies
	return x
}

// verify chains the trail, a record a block, and verifies what is left of it.
func (x *trimmedTrail) verify(t *testing.T) Verification {
	t.Helper()
	var w BlockWriter
	var blocks []Block
	write := func(records ...Record) {
		for i := range records {
			w.Reset(w.Head(), w.LastN())
			w.Add(&records[i])
			for _, b := range w.Blocks() {
				b.Plain = append([]byte(nil), b.Plain...)
				blocks = append(blocks, b)
			}
		}
	}
	write(x.gone...)
	before := w.Head()
	write(x.kept...)
	told := x.t
	if told.Before != "" {
		told.Before = before.String()
	}
	record := w.LastN() + 1
	write(TrimmedRecord(x.gone[0].TS, told))
	write(x.copies...)
	write(x.after...)
	opening, _ := newTrimmedTrail().t.opening(record)
	opening.Before = before
	st := StoreStatus{
		Head: w.Head(), Records: w.LastN(), LastSeq: 7, Opening: opening, Ready: 2, Done: 3, Dead: 2, Quarantined: 1,
	}
	v := NewVerifier(VerifyOptions{}, st)
	for _, b := range blocks[len(x.gone):] {
		v.Add(b)
	}
	return v.Result()
}

func TestVerifier_a_trail_whose_beginning_was_trimmed(t *testing.T) {
	v := newTrimmedTrail().verify(t)
	if len(v.Findings) > 0 {
		t.Fatalf("%+v", v.Findings)
	}
	want := Balance{Accepted: 6, Decided: 3, Dead: 1, Open: 2, Quarantined: 1, QuarantinedDead: 1, Deliveries: 6}
	if v.Balance != want || v.First.N != uint64(len(newTrimmedTrail().gone)+1) {
		t.Errorf("%+v from record %d on, want %+v", v.Balance, v.First.N, want)
	}
}

// Of what only trimmed records told, nothing is known; what a copy tells is, also behind a
// replay.
func TestVerifier_what_ended_without_an_answer_before_a_trimmed_trail(t *testing.T) {
	for _, c := range []struct {
		seq   uint64
		told  bool
		sound bool
	}{{4, true, true}, {4, false, true}, {5, true, true}, {5, false, false}} {
		x := newTrimmedTrail()
		if c.seq == 5 { // alone in the way is what comes before it
			x.after = append(x.after, about(EventDispatched, 4, delivered("w-0", 1)), about(EventDecided, 4, delivered("w-0", 1)), about(EventReplayed, 5))
		}
		is := about(EventDispatched, c.seq, delivered("w-0", 1))
		if c.told {
			is.Unanswered = 1
		}
		x.after = append(x.after, is)
		told := false
		v := x.verify(t)
		for _, f := range v.Findings {
			told = told || strings.Contains(f.What, "a delivery ended without an answer")
		}
		if told == c.sound {
			t.Errorf("%+v: %+v", c, v.Findings)
		}
	}
}

// What the copies say is as good as what the records said: who breaks a promise behind
// them is found out.
func TestVerifier_knows_from_copies_what_it_needs(t *testing.T) {
	for want, after := range map[string][]Record{
		"w-0 held the message, not w-9":            {about(EventDecided, 3, delivered("w-9", 1))},
		"w-0 held the key":                         {about(EventDispatched, 4, delivered("w-9", 1))},
		"nobody held the message, it was ready":    {about(EventDecided, 4, delivered("w-0", 1))},
		"nobody held the message, it was dead":     {about(EventDecided, 5, delivered("w-0", 1))},
		"the message was not open":                 {about(EventDispatched, 1, delivered("w-0", 2))},
		"the message at place 4 of its key comes":  {about(EventDispatched, 7, delivered("w-0", 1))},
		"it is delivery 7, 3 was due":              {about(EventReleased, 3, delivered("w-0", 1)), about(EventRetried, 2, delivered("w-0", 2), func(r *Record) { r.FailedAttempts = 2 }), about(EventDispatched, 2, delivered("w-0", 7))},
		"it does not say that a delivery ended":    {about(EventReleased, 3, delivered("w-0", 1)), about(EventReleased, 2, delivered("w-0", 2)), about(EventDispatched, 2, delivered("w-0", 2))},
		"it says that a delivery ended without":    {about(EventReleased, 3, delivered("w-0", 1)), about(EventReleased, 2, delivered("w-0", 2)), about(EventDispatched, 2, delivered("w-0", 2), unanswered), about(EventDispatched, 3, delivered("w-0", 1), unanswered)},
		"seq 8 was due":                            {about(EventAccepted, 9)},
		"a copy of record 3, which was not trimme": {about(EventAccepted, 2, func(r *Record) { r.CopyOf = 3 })},
	} {
		x := newTrimmedTrail()
		x.after = after
		if v := x.verify(t); len(v.Findings) == 0 || !strings.Contains(v.Findings[0].What, want) {
			t.Errorf("%s: %+v", want, v.Findings)
		}
	}
}

func TestVerifier_what_is_said_of_trimming_must_be_so(t *testing.T) {
	for want, spoil := range map[string]func(*trimmedTrail){
		"announced":                    func(x *trimmedTrail) { x.copies = x.copies[1:] },
		"are not those of which it":    func(x *trimmedTrail) { x.copies[0].LineSHA256[0]++ },
		"no copy of its first record":  func(x *trimmedTrail) { x.copies[0] = x.copies[1] },
		"counts otherwise than the":    func(x *trimmedTrail) { x.t.Decided++ },
		"the trail begins with record": func(x *trimmedTrail) { x.t.First++ },
		"does not say what":            func(x *trimmedTrail) { x.t = Trimmed{} },
		"which was not trimmed":        func(x *trimmedTrail) { x.copies[0].Seq = 7 },
		"is not in the trail":          func(x *trimmedTrail) { x.t = Trimmed{Keys: 1, SettledTo: 1} },
	} {
		x := newTrimmedTrail()
		spoil(x)
		found := false
		v := x.verify(t)
		for _, f := range v.Findings {
			found = found || strings.Contains(f.What, want)
		}
		if !found {
			t.Errorf("%s: %+v", want, v.Findings)
		}
	}
}

// TestFold_copies: what a copy tells holds, but not in the place of what came after it.
func TestFold_copies(t *testing.T) {
	copied := func(r Record) Record { r.CopyOf = 1; return r }
	accepted := copied(about(EventAccepted, 2, func(r *Record) { r.IdempotencyKey = "k" }))
	door := copied(about(EventQuarantined, 2, func(r *Record) { r.Code, r.LineSHA256 = CodePoison, Hash{9} }))
	for name, c := range map[string]struct {
		records []Record
		state   State
		key     string
		line    Hash
	}{
		"alone":                     {[]Record{accepted}, Ready, "k", accepted.LineSHA256},
		"behind what came after it": {[]Record{about(EventDispatched, 2, delivered("w", 1)), accepted}, Leased, "k", accepted.LineSHA256},
		"of a line that was replayed": {
			[]Record{door, accepted, about(EventDispatched, 2, delivered("w", 1))}, Leased, "k", Hash{9},
		},
		"the other way round":             {[]Record{accepted, door}, Ready, "k", Hash{9}},
		"of a dead letter":                {[]Record{accepted, copied(about(EventDeadLettered, 2))}, Dead, "k", accepted.LineSHA256},
		"of one, the other way":           {[]Record{copied(about(EventDeadLettered, 2)), accepted}, Dead, "k", accepted.LineSHA256},
		"of none at all":                  {[]Record{about(EventDispatched, 2, delivered("w", 1)), about(EventDecided, 2, delivered("w", 1))}, Done, "", Hash{}},
		"and an answer that was too late": {[]Record{about(EventRefused, 2)}, 0, "", Hash{}},
	} {
		var x Exception
		for _, r := range c.records {
			x.Fold(&r)
		}
		if x.State != c.state || x.IdempotencyKey != c.key || x.LineHash != c.line || x.Trimmed != (c.state != 0) {
			t.Errorf("%s: %+v", name, x)
		}
	}
}
