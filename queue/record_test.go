package queue

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var update = flag.Bool("update", false, "write golden files anew")

// decided is the record of the contract's example, with every member it names.
func decided() Record {
	return Record{
		N: 7, TS: time.Date(2026, 3, 31, 23, 59, 59, 123456789, time.UTC), Event: EventDecided, Seq: 42,
		TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", SourceHash: Hash{0x83, 0xfb}, MatchDecision: Partial,
		PartitionKey: "ACC-1001", Amount: "-1042.37", Worker: "w-3", Route: RouteReview,
		Outcome: "APPROVED", By: "alice", Delivery: 1, Peer: &Peer{UID: 1000, GID: 1000, PID: 77},
	}
}

// goldenRecords has one record of each kind that the contract describes.
func goldenRecords() []Record {
	ts := time.Date(2026, 1, 2, 15, 4, 5, 6000, time.UTC)
	accepted := Record{
		N: 1, TS: ts, Event: EventAccepted, Seq: 1, TraceID: "t-1", SourceHash: Hash{1}, MatchDecision: Unmatched,
		PartitionKey: "K", Amount: "10.00", IdempotencyKey: "k1", LedgerEntity: "E1", Currency: "EUR",
		LineSHA256: Hash{2}, LineBytes: 350, Route: RouteReview, Peer: &Peer{UID: 1000, GID: 100, PID: 4711},
	}
	scheduled := accepted
	scheduled.N, scheduled.NotBefore = 2, ts.Add(time.Hour)
	return []Record{
		accepted, scheduled, decided(),
		{N: 3, TS: ts, Event: EventQuarantined, Seq: 2, Code: CodePoison, Field: "variance_amount", Reason: "not a decimal string",
			TraceID: "bad \xff\xfe bytes", IdempotencyKey: "tab\tnul\x00esc\x1b[31m\u009b\u202e\"\\", LineSHA256: Hash{3}, LineBytes: 12},
		{N: 4, TS: ts, Event: EventQuarantined, Seq: 3, Of: 1, Code: CodeConflict, Reason: "currency differs"},
		{N: 5, TS: ts, Event: EventDue, Seq: 9, Place: Place{42, 3}, TraceID: "t", SourceHash: Hash{9}, MatchDecision: Matched},
		{N: 6, TS: ts, Event: EventDispatched, Seq: 42, Worker: "w-3", Route: AutoResolve, Delivery: 2, FailedAttempts: 1, Deadline: ts.Add(30 * time.Second)},
		{N: 8, TS: ts, Event: EventRetried, Seq: 42, Reason: "exit status 75", FailedAttempts: 2, Until: ts.Add(time.Second), Stderr: "line one\nZürich \U0001F4B6\n"},
		{N: 9, TS: ts, Event: EventReclaimed, Seq: 42, Worker: "review-ui-1", Delivery: 3, Unanswered: 1, Code: CodeExpired},
		{N: 10, TS: ts, Event: EventDuplicateSkipped, Count: 3, Seqs: []uint64{1, 1, 42}},
		{N: 11, TS: ts, Event: EventConfigChanged, By: "root", Before: json.RawMessage("{\n \"concurrency\": 8 }"), After: json.RawMessage(`{"concurrency":16}`)},
		{N: 12, TS: ts, Event: EventDrained, Detail: json.RawMessage(`{"released":3,"note":"a\u2028b` + "\u2028" + `"}`)},
		{N: 13, TS: ts, Event: EventStarted, Detail: json.RawMessage(`not json`)},
		{N: 14, TS: ts, Event: EventDecided, Seq: 1, Note: strings.Repeat("ü", MaxRecordText/2) + "x"},
		{N: 15, TS: ts, Event: EventReleased, Seq: 42, Worker: "w-3", Route: AutoResolve, Reason: "cut off", Delivery: 2, Unanswered: 1},
		{N: 16, TS: ts, Event: EventDispatched, Seq: 42, Worker: "w-3", Route: AutoResolve, Delivery: 2, Unanswered: 1, Deadline: ts.Add(30 * time.Second)},
	}
}

func TestRecord(t *testing.T) {
	t.Run("has_the_lines_of_the_golden_file", func(t *testing.T) {
		var got []byte
		for _, r := range goldenRecords() {
			got = r.AppendNDJSON(got)
		}
		golden(t, "records.ndjson", got)
	})
	t.Run("has_the_member_order_of_the_contract", func(t *testing.T) {
		r := decided()
		want := `{"n":7,"ts":"2026-03-31T23:59:59.123456Z","event":"DECIDED","seq":42,"trace_id":"4bf92f3577b34da6a3ce929d0e0e4736","source_hash":"83fb` + strings.Repeat("0", 60) +
			`","match_decision":"PARTIAL","partition_key":"ACC-1001","variance_amount":"-1042.37","worker":"w-3","route":"ROUTE_REVIEW","outcome":"APPROVED","by":"alice","delivery":1,"peer":{"uid":1000,"gid":1000,"pid":77}}` + "\n"
		if diff := cmp.Diff(want, string(r.AppendNDJSON(nil))); diff != "" {
			t.Errorf("(-contract +line)\n%s", diff)
		}
	})
	t.Run("is_one_line_of_valid_bounded_JSON_whatever_is_in_it", rapid.MakeCheck(func(t *rapid.T) {
		r := anyRecord(wildText()).Draw(t, "record")
		line := r.AppendNDJSON(nil)
		if len(line) > MaxRecordBytes || line[len(line)-1] != '\n' || bytes.Count(line, []byte("\n")) != 1 {
			t.Fatalf("not one bounded line: %q", line)
		}
		if !utf8.Valid(line) || !jsontext.Value(line).IsValid() {
			t.Fatalf("not valid: %q", line)
		}
		for _, c := range string(line[:len(line)-1]) {
			if c < ' ' || c >= 0x7f && hidden(c) {
				t.Fatalf("hidden character %U in %q", c, line)
			}
		}
		back, err := ParseRecord(line)
		if err != nil {
			t.Fatalf("does not parse: %v", err)
		}
		if again := back.AppendNDJSON(nil); !bytes.Equal(again, line) {
			t.Fatalf("comes back as\n%s from\n%s", again, line)
		}
	}))
	t.Run("comes_back_whole_when_its_text_is_sound", rapid.MakeCheck(func(t *rapid.T) {
		r := anyRecord(rapid.StringN(0, 20, MaxRecordID)).Draw(t, "record")
		for name, parse := range map[string]func([]byte) (Record, error){"ParseRecord": ParseRecord, "decodeRecord": decodeRecord} {
			back, err := parse(r.AppendNDJSON(nil))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(r, back); diff != "" {
				t.Fatalf("%s (-written +read)\n%s", name, diff)
			}
		}
	}))
	t.Run("of_a_message's_usual_life_is_scanned", func(t *testing.T) {
		// Else the fast path would be dead code and nobody would notice.
		for _, r := range goldenRecords() {
			_, ok := scanRecord(r.AppendNDJSON(nil))
			switch r.Event {
			case EventAccepted, EventDispatched:
				if want := r.NotBefore.IsZero(); ok != want {
					t.Errorf("%s at n %d: scanned %v", r.Event, r.N, ok)
				}
			case EventStarted, EventDrained, EventDue:
				if ok {
					t.Errorf("%s was scanned", r.Event)
				}
			}
		}
	})
	t.Run("costs_no_allocation", func(t *testing.T) {
		r := decided()
		buf := make([]byte, 0, MaxRecordBytes)
		if n := testing.AllocsPerRun(100, func() { buf = r.AppendNDJSON(buf[:0]) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// wildText is what a quarantined line may hold: any bytes, at times very many.
func wildText() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		b := string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes"))
		if rapid.IntRange(0, 9).Draw(t, "long") == 0 {
			return strings.Repeat(b, rapid.SampledFrom([]int{7, 300}).Draw(t, "times"))
		}
		return b + rapid.SampledFrom([]string{"", "\u2028", "\u202e", "\ufeff", "\x7f", "\u0085", "\xed\xa0\x80", "é"}).Draw(t, "rune")
	})
}

// anyRecord draws records in the form in which they are read: times in UTC and
// whole microseconds, documents compact, no empty list.
func anyRecord(text *rapid.Generator[string]) *rapid.Generator[Record] {
	return rapid.Custom(func(t *rapid.T) Record {
		str := func(name string) string { return text.Draw(t, name) }
		hash := func(name string) (h Hash) { copy(h[:], rapid.SliceOfN(rapid.Byte(), 0, 32).Draw(t, name)); return h }
		num := func(name string) int { return rapid.IntRange(0, 1<<30).Draw(t, name) }
		at := func(name string) time.Time {
			if rapid.Bool().Draw(t, name+"?") {
				return time.Time{}
			}
			return time.UnixMicro(rapid.Int64Range(-1_000_000_000_000_000, 200_000_000_000_000_000).Draw(t, name)).UTC()
		}
		doc := func(name string) json.RawMessage {
			return rapid.SampledFrom([]json.RawMessage{nil, json.RawMessage(`{"a":[1,"é\u0000"]}`), json.RawMessage(`null`), json.RawMessage(`"x"`)}).Draw(t, name)
		}
		r := Record{
			N: rapid.Uint64Min(1).Draw(t, "n"), TS: time.UnixMicro(rapid.Int64Range(0, 200_000_000_000_000_000).Draw(t, "ts")).UTC(),
			Event: rapid.SampledFrom(Events[:]).Draw(t, "event"),
			Seq:   rapid.Uint64().Draw(t, "seq"), Of: rapid.Uint64().Draw(t, "of"), Place: places().Draw(t, "place"), CopyOf: rapid.Uint64().Draw(t, "copy of"),
			TraceID: str("trace"), SourceHash: hash("source"), MatchDecision: MatchDecision(str("decision")),
			PartitionKey: str("key"), Amount: str("amount"), IdempotencyKey: str("idem"), LedgerEntity: str("entity"),
			Currency: str("currency"), LineSHA256: hash("line"), LineBytes: int64(num("bytes")), Worker: str("worker"),
			Route: Route(str("route")), Outcome: str("outcome"), By: str("by"), Note: str("note"), Reason: str("reason"),
			Code: Code(str("code")), Field: str("field"), Delivery: num("delivery"), FailedAttempts: num("failed"),
			Unanswered: num("unanswered"), NotBefore: at("not_before"), Until: at("until"), Deadline: at("deadline"),
			Count: num("count"), Stderr: str("stderr"), Before: doc("before"), After: doc("after"), Detail: doc("detail"),
		}
		if rapid.Bool().Draw(t, "peer?") {
			r.Peer = &Peer{UID: rapid.Uint32().Draw(t, "uid"), GID: rapid.Uint32().Draw(t, "gid"), PID: rapid.Int32().Draw(t, "pid")}
		}
		if n := rapid.IntRange(0, 5).Draw(t, "seqs"); n > 0 {
			r.Seqs = rapid.SliceOfN(rapid.Uint64(), n, n).Draw(t, "list")
		}
		return r
	})
}

// TestRecordLimits fills every member beyond its limit with what costs most.
func TestRecordLimits(t *testing.T) {
	long := strings.Repeat("\x01", 1<<20)
	r := Record{
		N: 1<<64 - 1, TS: time.Now(), Event: Event(long), Seq: 1<<64 - 1, Of: 1<<64 - 1, Place: Place{1<<64 - 1, 1<<32 - 1},
		CopyOf: 1<<64 - 1, TraceID: long, SourceHash: Hash{1}, MatchDecision: MatchDecision(long), PartitionKey: long, Amount: long,
		IdempotencyKey: long, LedgerEntity: long, Currency: long, LineSHA256: Hash{1}, LineBytes: -1 << 63, Worker: long,
		Route: Route(long), Outcome: long, By: long, Note: long, Reason: long, Code: Code(long), Field: long,
		Delivery: -1 << 63, FailedAttempts: -1 << 63, Unanswered: -1 << 63, NotBefore: lastTime, Until: lastTime, Deadline: lastTime,
		Count: -1 << 63, Seqs: make([]uint64, 2*MaxRecordSeqs), Stderr: long + "end",
		Before: json.RawMessage(`"` + strings.Repeat("\u2028", MaxRecordRaw/6-1) + `"`),
		After:  json.RawMessage(`"` + strings.Repeat("x", MaxRecordRaw-2) + `"`),
		Detail: json.RawMessage(`"` + strings.Repeat("x", MaxRecordRaw-2) + `"`),
		Peer:   &Peer{1<<32 - 1, 1<<32 - 1, -1 << 31},
	}
	for i := range r.Seqs {
		r.Seqs[i] = 1<<64 - 1
	}
	line := r.AppendNDJSON(nil)
	t.Logf("the longest record: %d bytes of %d", len(line), MaxRecordBytes)
	if len(line) > MaxRecordBytes || len(line) < MaxRecordBytes*9/10 {
		t.Errorf("the longest record has %d bytes, the limit is %d", len(line), MaxRecordBytes)
	}
	back, err := ParseRecord(line)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(back.PartitionKey); n != MaxRecordID {
		t.Errorf("partition_key has %d bytes", n)
	}
	if n := len(back.Note); n != MaxRecordText {
		t.Errorf("note has %d bytes", n)
	}
	if n := len(back.Stderr); n != MaxRecordText || !strings.HasSuffix(back.Stderr, "end") {
		t.Errorf("stderr has %d bytes and does not keep the end", n)
	}
	if len(back.Seqs) != MaxRecordSeqs {
		t.Errorf("%d seqs", len(back.Seqs))
	}
	want := []string{"event", "trace_id", "match_decision", "partition_key", "variance_amount", "idempotency_key", "ledger_entity",
		"currency", "worker", "route", "outcome", "by", "note", "reason", "code", "field", "seqs", "stderr"}
	if diff := cmp.Diff(want, back.Cut.Members()); diff != "" {
		t.Errorf("cut (-want +got)\n%s", diff)
	}
	t.Run("a_document_over_the_limit_is_named_by_its_hash", func(t *testing.T) {
		r := Record{N: 1, Event: EventStarted, Detail: json.RawMessage(`"` + strings.Repeat("x", MaxRecordRaw) + `"`)}
		back, err := ParseRecord(r.AppendNDJSON(nil))
		if err != nil || !back.Cut.Has("detail") || !bytes.HasPrefix(back.Detail, []byte(`{"bytes":65538,"sha256":"`)) {
			t.Errorf("%v, cut %v, detail %.100s", err, back.Cut.Members(), back.Detail)
		}
	})
	t.Run("a_document_that_grows_over_the_limit_is_too", func(t *testing.T) {
		doc := `"` + strings.Repeat("\u2028", MaxRecordRaw/4) + `"` // three bytes each, six escaped
		r := Record{N: 1, Event: EventStarted, Detail: json.RawMessage(doc)}
		back, err := ParseRecord(r.AppendNDJSON(nil))
		if err != nil || !back.Cut.Has("detail") || len(back.Detail) > 100 {
			t.Errorf("%v, cut %v, detail of %d bytes", err, back.Cut.Members(), len(back.Detail))
		}
	})
	t.Run("text_is_cut_on_a_rune_border", func(t *testing.T) {
		for _, s := range []string{"€", "\U0001F4B6", "\xff", "é"} {
			for pad := range 4 {
				r := Record{N: 1, Event: EventDecided, Note: strings.Repeat("x", pad) + strings.Repeat(s, MaxRecordText), Stderr: strings.Repeat(s, MaxRecordText) + strings.Repeat("x", pad)}
				back, err := ParseRecord(r.AppendNDJSON(nil))
				clean := strings.ToValidUTF8(s, "\uFFFD")
				rest := strings.TrimLeft(back.Note, "x")
				if err != nil || strings.Trim(rest, clean) != "" || len(back.Note) > MaxRecordText || len(back.Note) <= MaxRecordText-4 {
					t.Errorf("%q: note of %d bytes, %v", s, len(back.Note), err)
				}
				rest = strings.TrimRight(back.Stderr, "x")
				if strings.Trim(rest, clean) != "" || len(back.Stderr) > MaxRecordText || len(back.Stderr) <= MaxRecordText-4 {
					t.Errorf("%q: stderr of %d bytes", s, len(back.Stderr))
				}
			}
		}
	})
}

func TestAppendTime(t *testing.T) {
	t.Run("is_what_the_standard_library_writes", rapid.MakeCheck(func(t *rapid.T) {
		at := time.Unix(rapid.Int64Range(-62167219200, 253402300799).Draw(t, "s"), rapid.Int64Range(0, 999999999).Draw(t, "ns"))
		at = at.In(time.FixedZone("x", rapid.IntRange(-50000, 50000).Draw(t, "zone")))
		if got, want := string(appendTime(nil, at)), at.UTC().Format(timeLayout); got != want {
			t.Fatalf("got %s, want %s", got, want)
		}
	}))
	t.Run("stays_within_what_RFC_3339_can_write", func(t *testing.T) {
		for at, want := range map[time.Time]string{
			time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC):                              "9999-12-31T23:59:59.999999Z",
			time.Date(9999, 12, 31, 23, 59, 59, 0, time.FixedZone("west", -3600)):     "9999-12-31T23:59:59.999999Z",
			time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC):                                 "0000-01-01T00:00:00.000000Z",
			time.Date(2026, 1, 2, 3, 4, 5, 999_999_999, time.FixedZone("east", 7200)): "2026-01-02T01:04:05.999999Z",
		} {
			if got := string(appendTime(nil, at)); got != want {
				t.Errorf("%v is written %s, want %s", at, got, want)
			}
		}
	})
}

func TestParseRecord(t *testing.T) {
	const head = `{"n":1,"ts":"2026-01-02T15:04:05.000006Z","event":"ACCEPTED"`
	t.Run("skips_members_of_a_newer_program", func(t *testing.T) {
		r, err := ParseRecord([]byte(head + `,"mood":{"a":[1]},"seq":3,"cut":["note","mood"]}`))
		if err != nil || r.Seq != 3 || !r.Cut.Has("note") || len(r.Cut.Members()) != 1 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	t.Run("takes_an_event_of_a_newer_program", func(t *testing.T) {
		if r, err := ParseRecord([]byte(`{"n":1,"ts":"2026-01-02T15:04:05.000006Z","event":"SUNG"}`)); err != nil || r.Event != "SUNG" {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	for name, line := range map[string]string{
		"nothing":            ``,
		"an_array":           `[]`,
		"a_name_twice":       head + `,"seq":1,"seq":2}`,
		"bad_UTF8":           head + ",\"note\":\"\xff\"}",
		"two_values":         head + `}{}`,
		"a_cut_off_line":     head,
		"no_n":               `{"ts":"2026-01-02T15:04:05.000006Z","event":"ACCEPTED"}`,
		"no_event":           `{"n":1,"ts":"2026-01-02T15:04:05.000006Z"}`,
		"no_time":            `{"n":1,"event":"ACCEPTED"}`,
		"another_zone":       `{"n":1,"ts":"2026-01-02T15:04:05.000006+01:00","event":"ACCEPTED"}`,
		"other_digits":       `{"n":1,"ts":"2026-01-02T15:04:05Z","event":"ACCEPTED"}`,
		"a_short_hash":       head + `,"source_hash":"83fb"}`,
		"an_upper_case_hash": head + `,"source_hash":"` + strings.Repeat("AB", 32) + `"}`,
		"a_wrong_place":      head + `,"place":"42.0"}`,
		"a_negative_seq":     head + `,"seq":-1}`,
		"a_fraction":         head + `,"seq":1.5}`,
		"a_quoted_number":    head + `,"seq":"1"}`,
		"a_number_too_large": head + `,"seq":18446744073709551616}`,
		"another_case":       `{"N":1,"TS":"2026-01-02T15:04:05.000006Z","EVENT":"ACCEPTED"}`,
		"a_line_too_long":    head + `,"note":"` + strings.Repeat("x", MaxRecordBytes) + `"}`,
	} {
		t.Run("refuses_"+name, func(t *testing.T) {
			if r, err := ParseRecord([]byte(line)); err == nil {
				t.Errorf("%.100s reads as %+v", line, r)
			}
		})
	}
}

func TestConcerns(t *testing.T) {
	r := Record{Seq: 3, Of: 1, Seqs: []uint64{7, 8}}
	for seq, want := range map[uint64]bool{1: true, 2: false, 3: true, 8: true, 9: false} {
		if r.concerns(seq) != want {
			t.Errorf("concerns(%d) = %v", seq, !want)
		}
	}
}

func TestEvents(t *testing.T) {
	seen := map[Event]bool{}
	for _, e := range Events {
		if e == "" || seen[e] {
			t.Errorf("%q is listed twice or empty", e)
		}
		seen[e] = true
	}
	for e, want := range map[Event]bool{EventAccepted: true, EventEdited: true, EventDuplicateSkipped: false, EventKeyHeld: false, EventRestored: false, "SUNG": false} {
		if e.OfMessage() != want {
			t.Errorf("%s.OfMessage() = %v", e, !want)
		}
	}
}

func FuzzParseRecord(f *testing.F) {
	for _, r := range goldenRecords() {
		f.Add(r.AppendNDJSON(nil))
	}
	f.Add([]byte(`{"n":1,"ts":"2026-01-02T15:04:05.000006Z","event":"SUNG","cut":["x"]}`))
	f.Add([]byte(`{"n":1,"ts":"2026-02-30T15:04:05.000006Z","event":"SUNG","seq":1,"seq":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if fast, ok := scanRecord(line); ok {
			strict, err := decodeRecord(line)
			if err != nil || !cmp.Equal(fast, strict) {
				t.Fatalf("the scanner takes what the decoder does not: %v\n%s", err, cmp.Diff(strict, fast))
			}
		}
		r, err := ParseRecord(line)
		if err != nil {
			return
		}
		first := r.AppendNDJSON(nil)
		again, err := ParseRecord(first)
		if err != nil {
			t.Fatalf("our own line does not parse: %v\n%s", err, first)
		}
		if second := again.AppendNDJSON(nil); !bytes.Equal(first, second) {
			t.Fatalf("not stable:\n%s\n%s", first, second)
		}
	})
}

func BenchmarkRecord(b *testing.B) {
	r := decided()
	line := r.AppendNDJSON(nil)
	b.Run("append", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(line)))
		buf := make([]byte, 0, 1024)
		for b.Loop() {
			buf = r.AppendNDJSON(buf[:0])
		}
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			if _, err := decodeRecord(line); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("parse", func(b *testing.B) {
		b.ReportAllocs()
		b.SetBytes(int64(len(line)))
		for b.Loop() {
			if _, err := ParseRecord(line); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// golden compares got with a file of testdata/trail; -update writes it.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", "trail", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s (-golden +got)\n%s", path, diff)
	}
}
