package queue

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
)

func FuzzParseLine(f *testing.F) {
	for _, line := range []string{
		minimal, goodLine, minimal + "\r", "{}", "null", "[]", minimal + minimal, "\ufeff" + minimal, with(minimal, "trace_id", `"\ud800"`), with(minimal, "deep", nested(64)),
		with(minimal, "idempotency_key", `"\u0000\ud83d\ude00é"`), with(minimal, "variance_amount", `"1E+3"`), with(minimal, "not_before", `"2026-03-31T23:59:60Z"`),
		with(minimal, "priority", "5.0"), with(minimal, "a", `{"b":1,"b":2}`), strings.Replace(minimal, "trace_id", `trace\u005fid`, 1),
	} {
		f.Add([]byte(line))
	}
	var used Parser // lines before must not matter
	f.Fuzz(func(t *testing.T, line []byte) {
		m, err := ParseLine(line)
		again, errAgain := used.Parse(line)
		if !reflect.DeepEqual(m, again) || !reflect.DeepEqual(err, errAgain) {
			t.Fatalf("a used parser says %+v, %v; a new one %+v, %v", again, errAgain, m, err)
		}
		if len(m.IdempotencyKey) > MaxIdempotencyKey || len(m.TraceID) > MaxTraceID || len(m.PartitionKey) > MaxPartitionKey ||
			len(m.LedgerEntity) > MaxLedgerEntity || len(m.Amount) > MaxAmountBytes || len(m.Currency) > maxWord {
			t.Fatalf("a member is over its limit: %+v", m)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		checkAccepted(t, m)
	})
}

// checkRefusal wants an error that is fit to be shown.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	var failed *GateError
	if !errors.As(err, &failed) || failed.Gate != Structural && failed.Gate != Monetary || failed.Reason == "" {
		t.Fatalf("the error is %#v", err)
	}
	text := err.Error()
	if len(text) > 1024 {
		t.Fatalf("the error has %d bytes", len(text))
	}
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			t.Fatalf("byte %#x in the error %q", text[i], text)
		}
	}
}

// checkAccepted holds a message against what encoding/json reads in its line,
// and against itself.
func checkAccepted(t *testing.T, m Message) {
	t.Helper()
	var object map[string]json.RawMessage
	if err := json.Unmarshal(m.Line, &object); err != nil {
		t.Fatalf("encoding/json does not take the line: %v", err)
	}
	for name, got := range map[string]string{
		"idempotency_key": m.IdempotencyKey, "trace_id": m.TraceID, "partition_key": m.PartitionKey,
		"ledger_entity": m.LedgerEntity, "match_decision": string(m.Decision), "variance_amount": m.Amount,
	} {
		var want string
		if err := json.Unmarshal(object[name], &want); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got != want || got == "" {
			t.Fatalf("%s is %q, encoding/json reads %q", name, got, want)
		}
	}
	amount, err := CheckAmount(m.Amount, m.Currency)
	if err != nil {
		t.Fatalf("an accepted amount fails on its own: %v", err)
	}
	if want := SourceHash(m.IdempotencyKey, m.LedgerEntity, amount.Canonical(), m.Decision); m.SourceHash != want {
		t.Fatalf("SourceHash = %s, want %s", m.SourceHash, want)
	}
	if _, sent := object["route"]; !sent && m.Route != RouteFor(amount) {
		t.Fatalf("Route = %s for %s", m.Route, m.Amount)
	}
	again, err := ParseLine(m.Line)
	if strings.HasSuffix(string(m.Line), "\r") {
		return // a second CR would go now
	}
	if err != nil || !reflect.DeepEqual(again, m) {
		t.Fatalf("reads back as %+v, %v", again, err)
	}
}
