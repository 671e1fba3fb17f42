package queue

import (
	"strings"
	"testing"
	"time"
)

// editedLife is a sound trail: an exception that dies, is edited twice, replayed and
// decided, and a quarantined line that is edited, replayed and open.
func editedLife() []Record {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	a := &Action{Now: now, By: "olga"}
	content := func(line string) *Content {
		return &Content{LineHash: LineHash([]byte(line)), LineBytes: int64(len(line))}
	}
	s := func(seq uint64) *Stored {
		return &Stored{Seq: seq, IdempotencyKey: "k", TraceID: "t", PartitionKey: "A", Decision: Partial}
	}
	about := func(e Event, seq uint64, line string) Record {
		return Record{Event: e, TS: now, Seq: seq, PartitionKey: "A", TraceID: "t", MatchDecision: Partial,
			IdempotencyKey: "k", LineSHA256: content(line).LineHash, LineBytes: content(line).LineBytes, Worker: "w", Delivery: 1}
	}
	return []Record{
		about(EventAccepted, 1, "sent"),
		about(EventQuarantined, 2, "bad"),
		about(EventDispatched, 1, ""),
		about(EventDeadLettered, 1, ""),
		EditedRecord(s(1), s(1), content("sent"), content("edited"), a),
		EditedRecord(s(1), s(1), content("edited"), content("edited again"), a),
		EditedRecord(s(2), s(2), content("bad"), content("good"), a),
		ReplayedRecord(s(2), a),
		about(EventAccepted, 2, "good"),
		ReplayedRecord(s(1), a),
		about(EventDispatched, 1, ""),
		about(EventDecided, 1, ""),
	}
}

func TestVerifier_follows_the_edits_of_a_letter(t *testing.T) {
	if v := verifyRecords(t, editedLife(), VerifyOptions{}); len(v.Findings) > 0 {
		t.Fatalf("%+v", v.Findings)
	}
	for _, c := range []struct {
		name     string
		breaking func([]Record) []Record
		want     string
	}{
		{"an edit is left out", func(r []Record) []Record { return append(r[:4:4], r[5:]...) }, "an edit of another line"},
		{"an edit of what is not dead", func(r []Record) []Record { r[3], r[4] = r[4], r[3]; return r }, "the message was leased"},
		{"it does not say of what", func(r []Record) []Record { r[4].Before = nil; return r }, "an edit of another line"},
		{"other content is accepted", func(r []Record) []Record { r[8].LineSHA256 = Hash{1}; return r }, "not the one that was replayed"},
		{"the key of a place is changed", func(r []Record) []Record { r[5].PartitionKey = "B"; return r }, "has got another key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := verifyRecords(t, c.breaking(editedLife()), VerifyOptions{})
			for _, f := range v.Findings {
				if strings.Contains(f.What, c.want) {
					return
				}
			}
			t.Fatalf("no finding says %q: %+v", c.want, v.Findings)
		})
	}
}

func TestFold_an_edited_message_has_both_lines(t *testing.T) {
	var ordered, door Exception
	for _, r := range editedLife() {
		x := &ordered
		if r.Seq == 2 {
			x = &door
		}
		x.Fold(&r)
	}
	if ordered.LineHash != LineHash([]byte("sent")) || ordered.EditedHash != LineHash([]byte("edited again")) || ordered.Deaths != 1 || ordered.State != Done {
		t.Errorf("%+v", ordered)
	}
	if door.LineHash != LineHash([]byte("bad")) || door.LineBytes != 3 || door.EditedHash != LineHash([]byte("good")) || door.Deaths != 1 || door.State != Ready {
		t.Errorf("%+v", door)
	}
}

func TestEditedRecord_names_members_that_differ(t *testing.T) {
	was := Stored{Seq: 1, IdempotencyKey: "k", Amount: "1.0", Currency: "EU", PartitionKey: "bad \xff"}
	is := Stored{Seq: 1, IdempotencyKey: "k", Amount: "1.0", Currency: "EUR", PartitionKey: "A"}
	r := EditedRecord(&was, &is, &Content{LineBytes: 7}, &Content{SourceHash: Hash{1}, LineBytes: 8, Route: AutoResolve, Priority: 5}, &Action{})
	for _, c := range []struct{ doc, want string }{
		{string(r.Before), `{"line_sha256":"` + strings.Repeat("0", 64) + `","line_bytes":7,"partition_key":"bad \ufffd","currency":"EU"}`},
		{string(r.After), `{"source_hash":"01` + strings.Repeat("0", 62) + `","line_sha256":"` + strings.Repeat("0", 64) +
			`","line_bytes":8,"partition_key":"A","currency":"EUR","route":"AUTO_RESOLVE","priority":5}`},
	} {
		if c.doc != c.want {
			t.Errorf("%s, want %s", c.doc, c.want)
		}
	}
	r.N, r.TS = 1, time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	line := r.AppendNDJSON(nil)
	back, err := ParseRecord(line)
	if err != nil || string(back.AppendNDJSON(nil)) != string(line) {
		t.Errorf("%s comes back as %+v, %v", line, back, err)
	}
	if h, ok := back.EditOf(); !ok || h != (Hash{}) {
		t.Errorf("an edit of %s, %v", h, ok)
	}
}
