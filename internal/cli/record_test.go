package cli

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// fullRecord has every member that a record can have.
func fullRecord() queue.Record {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	return queue.Record{
		N: 7, TS: at, Event: queue.EventDecided, Seq: 42, Of: 3, Place: queue.Place{Seq: 9, Sub: 1}, CopyOf: 6,
		TraceID: "=cmd()", SourceHash: queue.Hash{1}, MatchDecision: "PARTIAL", PartitionKey: "@p\nforged", Amount: "-1042.37",
		IdempotencyKey: "+k", LedgerEntity: "-E", Currency: "EUR", LineSHA256: queue.Hash{2}, LineBytes: 12,
		Worker: "w-1", Route: queue.RouteReview, Outcome: "POSTED", By: "alice", Note: `said "yes"`, Reason: "why", Code: queue.CodeRejected,
		Field: "f", Delivery: 1, FailedAttempts: 2, Unanswered: 3, NotBefore: at.Add(24 * time.Hour), Until: at, Deadline: at, Count: 4, Seqs: []uint64{1, 2},
		Stderr: "err", Before: []byte(`{"a":1}`), After: []byte(`{"a":2}`), Detail: []byte(`{}`), Peer: &queue.Peer{UID: 1000, GID: 100, PID: 77},
	}
}

// TestCSV: every member of a record has a column, and no cell is computed by a
// spreadsheet, breaks its row, or touches an amount.
func TestCSV(t *testing.T) {
	r := fullRecord()
	line := r.AppendNDJSON(nil)
	cells, err := csvCells(line)
	if err != nil {
		t.Fatal(err)
	}
	for i, cell := range cells {
		if cell == "" && csvColumns[i] != "cut" {
			t.Errorf("the column %s is empty: is it a member?", csvColumns[i])
		}
	}
	for want, column := range map[string]string{
		"'=cmd()": "trace_id", `'@p\nforged`: "partition_key", "-1042.37": "variance_amount", "'+k": "idempotency_key", "'-E": "ledger_entity",
		"7": "n", "9.1": "place", "[1,2]": "seqs", `{"a":1}`: "before", "1000": "uid", "77": "pid", `said "yes"`: "note",
	} {
		if got := cells[slices.Index(csvColumns, column)]; got != want {
			t.Errorf("%s is %q, want %q", column, got, want)
		}
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		t.Fatal(err)
	}
	for name := range members {
		if name != "peer" && !slices.Contains(csvColumns, name) {
			t.Errorf("the member %s has no column", name)
		}
	}
	var b strings.Builder
	w := csv.NewWriter(&b)
	if err := w.Write(cells); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	if strings.Count(b.String(), "\n") != 1 {
		t.Errorf("more than one row: %q", b.String())
	}
	if _, err := csvCells([]byte("{")); err == nil {
		t.Error("a record that is none was taken")
	}
}

func TestRecordRow(t *testing.T) {
	r := fullRecord()
	row, err := recordRow(r.AppendNDJSON(nil), 42)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(row, "  ")
	for _, want := range []string{"7  2026-03-02T09:00:00.000000Z  DECIDED", "outcome POSTED", "by alice", `note "said \"yes\""`, "deadline 09:00:00Z", "not before 2026-03-03T09:00:00Z", "uid 1000"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not in %q", want, text)
		}
	}
	if other, _ := recordRow(r.AppendNDJSON(nil), 3); !strings.HasPrefix(other[3], "seq 42  ") {
		t.Errorf("that it is another message's is not said: %q", other[3])
	}
	if out := string(table([][]string{{"a\x1b[2J\nb", "c"}, {"d", ""}})); out != "a\\x1b[2J\\nb  c\nd\n" {
		t.Errorf("table: %q", out)
	}
}

// A list is shown in pieces while it is read, with its heads once.
func TestListing(t *testing.T) {
	var out bytes.Buffer
	l := listing{out: &out, rows: [][]string{{"N", "NAME"}}}
	for i := range listPiece + 1 {
		if shown := out.Len() > 0; shown != (i >= listPiece) {
			t.Fatalf("after %d rows something is shown: %v", i, shown)
		}
		if err := l.add(strconv.Itoa(i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.print(); err != nil {
		t.Fatal(err)
	}
	if err := l.print(); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if n := strings.Count(text, "\n"); n != listPiece+2 || strings.Count(text, "NAME") != 1 {
		t.Errorf("%d lines, heads %d times", n, strings.Count(text, "NAME"))
	}
	if !strings.HasPrefix(text, "N    NAME\n0    x\n") || !strings.HasSuffix(text, "999  x\n1000  x\n") {
		t.Errorf("shown: %q … %q", text[:20], text[len(text)-20:])
	}
}

func TestWords(t *testing.T) {
	for in, want := range map[int64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB", 1<<20 - 1: "1023.9 KiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 3 << 40: "3.0 TiB", 1 << 60: "1048576.0 TiB",
	} {
		if got := bytesText(in); got != want {
			t.Errorf("bytesText(%d) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -100: "-100"} {
		if got := number(in); got != want {
			t.Errorf("number(%d) = %s, want %s", in, got, want)
		}
	}
	for in, want := range map[string]time.Duration{"90m": 90 * time.Minute, "7d": 168 * time.Hour, "0d": 0, "1h30m": 90 * time.Minute, "100000d": 2_400_000 * time.Hour} {
		if got, ok := parseAge(in); !ok || got != want {
			t.Errorf("parseAge(%q) = %v, %v, want %v", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "d", "7", "-1h", "-1d", "1.5d", "100001d", "99999999999999999999d", "1w", "soon"} {
		if got, ok := parseAge(in); ok {
			t.Errorf("parseAge(%q) = %v", in, got)
		}
	}
	for in, ok := range map[string]bool{"1": true, "18446744073709551615": true, "0": false, "01": false, "+1": false, "-1": false, "1 ": false, "": false, "18446744073709551616": false} {
		if _, got := parseSeq(in); got != ok {
			t.Errorf("parseSeq(%q) is %v", in, got)
		}
	}
	if got := moment(api.Time{}); got != "" {
		t.Errorf("no moment is %q", got)
	}
	if got := short("12345", 4); got != "123…" {
		t.Errorf("short: %q", got)
	}
	if got := fmt.Sprint(wrap("a bb ccc", 4)); got != "[a bb ccc]" {
		t.Errorf("wrap: %q", got)
	}
}

// TestRecord_of_a_line_sent_again: the record is one for the whole commit, and on one
// exception's page must not read as if that one had come so often.
func TestRecord_of_a_line_sent_again(t *testing.T) {
	for count, want := range map[int]string{
		1:    "sent again  uid 7",
		2500: "sent again  one of 2,500 lines in that commit that were known  uid 7",
	} {
		r := queue.Record{N: 3, Event: queue.EventDuplicateSkipped, Count: count, Seqs: []uint64{1, 2}, Peer: &queue.Peer{UID: 7}}
		row, err := recordRow(r.AppendNDJSON(nil), 2)
		if err != nil || row[2] != "DUPLICATE_SKIPPED" || row[3] != want {
			t.Errorf("%q, %v; want %q", row, err, want)
		}
	}
}

// TestRecordWords_of_an_edit: a person reads what was changed, not two documents.
func TestRecordWords_of_an_edit(t *testing.T) {
	got := recordWords(&queue.Record{
		Event: queue.EventEdited, By: "alice",
		Before: []byte(`{"source_hash":"01","line_bytes":7,"currency":"EU"}`),
		After:  []byte(`{"source_hash":"02","line_bytes":7,"currency":"EUR","variance_amount":"1.00"}`),
	})
	if want := `by alice  currency: "EU" -> "EUR"  variance_amount: none -> "1.00"`; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestLetterRow: what cannot be read is no amount, and what was edited is not what died.
func TestLetterRow(t *testing.T) {
	row := letterRow(&api.Exception{Seq: 3, Currency: "EUR", Field: "variance_amount", Reason: "is missing"})
	if row[5] != "" || row[6] != "variance_amount: is missing" {
		t.Errorf("%q", row)
	}
	row = letterRow(&api.Exception{Seq: 3, VarianceAmount: "1", Currency: "EUR", Field: "variance_amount", Reason: "is missing", EditedSHA256: "00"})
	if row[0] != "3*" || row[5] != "1 EUR" || row[6] != "edited since: variance_amount: is missing" {
		t.Errorf("%q", row)
	}
}

func TestRate(t *testing.T) {
	for _, c := range []struct {
		n    int64
		want string
	}{{0, "0/s"}, {5, "<0.1/s"}, {6, "0.1/s"}, {60, "1/s"}} {
		if got := rate(c.n, 60); got != c.want {
			t.Errorf("%d in a minute: %s, want %s", c.n, got, c.want)
		}
	}
}
