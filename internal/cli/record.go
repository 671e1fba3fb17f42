package cli

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"breakwater/queue"
)

// recordRow is one record of the trail as a row: number, time, event, and in words
// what else it says. The ids of the message are left to whoever shows it; that the
// record is another message's (a conflict with it) is said.
func recordRow(line []byte, of uint64) ([]string, error) {
	r, err := queue.ParseRecord(line)
	if err != nil {
		return nil, fmt.Errorf("a record that cannot be read: %w", err)
	}
	if r.Event == queue.EventDuplicateSkipped {
		return []string{strconv.FormatUint(r.N, 10), string(queue.AppendTime(nil, r.TS)), string(r.Event), skippedWords(&r)}, nil
	}
	text := recordWords(&r)
	if r.Seq != of && r.Seq != 0 {
		text = fmt.Sprintf("seq %d  %s", r.Seq, text)
	}
	return []string{strconv.FormatUint(r.N, 10), string(queue.AppendTime(nil, r.TS)), string(r.Event), text}, nil
}

// skippedWords says of one exception that it was sent again. The record is one for a
// whole commit: its count is not how often this one came.
func skippedWords(r *queue.Record) string {
	of, one := r.Count, *r
	one.Count = 0
	w := words{"sent again"}
	if of > 1 {
		w = append(w, fmt.Sprintf("one of %s lines in that commit that were known", number(of)))
	}
	if rest := recordWords(&one); rest != "" {
		w = append(w, rest)
	}
	return strings.Join(w, "  ")
}

// recordWords says what a record says besides when, what and of which message.
func recordWords(r *queue.Record) string {
	var w words
	w.text("code", string(r.Code))
	w.text("outcome", r.Outcome)
	w.text("by", r.By)
	w.text("worker", r.Worker)
	w.text("route", string(r.Route))
	w.number("delivery", r.Delivery)
	w.number("failed", r.FailedAttempts)
	w.number("unanswered", r.Unanswered)
	w.text("field", r.Field)
	w.seq("of", r.Of)
	w.seq("copy of record", r.CopyOf)
	w.time("until", r.Until, r.TS)
	w.time("deadline", r.Deadline, r.TS)
	w.time("not before", r.NotBefore, r.TS)
	w.number("count", r.Count)
	if r.Seq == 0 {
		w.text("key", r.PartitionKey)
	}
	w.text("reason", quoted(r.Reason))
	w.text("note", quoted(r.Note))
	w.text("stderr", quoted(r.Stderr))
	if r.Event == queue.EventEdited {
		w.changes(r.Before, r.After)
	} else {
		w.raw("before", r.Before)
		w.raw("after", r.After)
	}
	w.raw("detail", r.Detail)
	if r.Peer != nil {
		w.text("uid", strconv.FormatUint(uint64(r.Peer.UID), 10))
	}
	return strings.Join(w, "  ")
}

// words are the parts of a record that apply, each as "name value".
type words []string

func (w *words) text(name, value string) {
	if value != "" {
		*w = append(*w, name+" "+value)
	}
}

func (w *words) number(name string, n int) { w.seq(name, uint64(n)) }

func (w *words) seq(name string, n uint64) {
	if n != 0 {
		*w = append(*w, name+" "+strconv.FormatUint(n, 10))
	}
}

func (w *words) raw(name string, doc json.RawMessage) { w.text(name, string(doc)) }

// changes adds what an edit changed, a member each. Digests are for programs.
func (w *words) changes(before, after json.RawMessage) {
	value := func(text string) string {
		if text == "" {
			return "none"
		}
		return short(text, maxChange)
	}
	for _, c := range changesOf(before, after) {
		if c.name != "source_hash" && c.name != "line_sha256" {
			*w = append(*w, c.name+": "+value(c.from)+" -> "+value(c.to))
		}
	}
}

// time adds a moment to the second, without its date where that is the record's: it
// is for orientation, the record has it whole.
func (w *words) time(name string, t, of time.Time) {
	switch {
	case t.IsZero():
	case t.UTC().Format(time.DateOnly) == of.UTC().Format(time.DateOnly):
		w.text(name, t.UTC().Format("15:04:05Z"))
	default:
		w.text(name, t.UTC().Format("2006-01-02T15:04:05Z"))
	}
}

// quoted is a text in quotes, so that its end can be seen; "" stays "".
func quoted(s string) string {
	if s == "" {
		return ""
	}
	return `"` + strings.ReplaceAll(s, `"`, `\"`) + `"`
}

// csvColumns are the columns of an export, those of a record in its order. The last
// are the peer's.
var csvColumns = []string{
	"n", "ts", "event", "seq", "of", "place", "copy_of", "trace_id", "source_hash", "match_decision", "partition_key", "variance_amount",
	"idempotency_key", "ledger_entity", "currency", "line_sha256", "line_bytes", "worker", "route", "outcome", "by", "note",
	"reason", "code", "field", "delivery", "failed_attempts", "unanswered", "not_before", "until", "deadline", "count", "seqs",
	"stderr", "before", "after", "detail", "cut", "uid", "gid", "pid",
}

// csvCells are the cells of one record. A text that a spreadsheet would take for a
// formula gets an apostrophe in front. Amounts are numbers, and stay; but what stands
// for one in a quarantined line may be anything.
func csvCells(line []byte) ([]string, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(line, &members); err != nil {
		return nil, fmt.Errorf("a record that cannot be read: %w", err)
	}
	if peer, ok := members["peer"]; ok {
		if err := json.Unmarshal(peer, &members); err != nil { // uid, gid, pid join the others
			return nil, fmt.Errorf("a record that cannot be read: %w", err)
		}
	}
	cells := make([]string, len(csvColumns))
	for i, name := range csvColumns {
		var text string
		raw := members[name]
		switch {
		case raw == nil:
			continue
		case json.Unmarshal(raw, &text) != nil:
			cells[i] = string(raw) // a number, list or object
		default:
			cells[i] = csvText(name, text)
		}
	}
	return cells, nil
}

// csvText is the cell of a text: see csvCells.
func csvText(name, text string) string {
	if computed(text) && !(name == "variance_amount" && amount.MatchString(text)) {
		return "'" + oneLine(text)
	}
	return oneLine(text)
}

// formulas are the beginnings of a cell that spreadsheets compute; the last four are
// the full-width forms of the others, which some take for them.
const formulas = "=+-@＝＋－＠"

// computed reports whether a spreadsheet would take a text for a formula. Control
// characters, which may stand before one, are escaped anyway.
func computed(text string) bool {
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune(formulas, first)
}

// amount is what a spreadsheet takes for a number.
var amount = regexp.MustCompile(`^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$`)
