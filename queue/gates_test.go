package queue

import (
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestStructuralGate(t *testing.T) {
	required := map[string]int{
		"idempotency_key": MaxIdempotencyKey, "trace_id": MaxTraceID, "partition_key": MaxPartitionKey, "ledger_entity": MaxLedgerEntity,
	}
	for member, limit := range required {
		t.Run(member+"_is_bounded_in_bytes", func(t *testing.T) {
			for _, size := range []int{1, limit - 1, limit} {
				mustParse(t, with(minimal, member, `"`+strings.Repeat("x", size)+`"`))
			}
			mustParse(t, with(minimal, member, `"`+strings.Repeat(`\u00e9`, limit/2)+`"`)) // limits are of decoded bytes
			for _, size := range []int{limit + 1, 4096, 32_768, 32_769, 1_000_000} {
				m, failed := wantRefused(t, with(minimal, member, `"`+strings.Repeat("x", size)+`"`), Structural, member)
				if !strings.Contains(failed.Reason, strconv.Itoa(size)) {
					t.Errorf("reason does not say the size: %q", failed.Reason)
				}
				if total := len(m.IdempotencyKey) + len(m.TraceID) + len(m.PartitionKey) + len(m.LedgerEntity); total > 8 {
					t.Errorf("%d bytes are kept of members that are %d bytes too long", total, size-limit)
				}
			}
			wantRefused(t, with(minimal, member, `"`+strings.Repeat("é", limit/2)+`x"`), Structural, member)
			wantRefused(t, with(minimal, member, `"`+strings.Repeat(`\ud83d\ude00`, limit/4)+`x"`), Structural, member)
		})
		t.Run(member+"_must_be_a_string_with_something_in_it", func(t *testing.T) {
			for _, raw := range []string{"", `""`, "null", "7", "true", "false", "{}", "[]", `["k"]`, `{"k":"v"}`, "1.5"} {
				wantRefused(t, with(minimal, member, raw), Structural, member)
			}
			mustParse(t, with(minimal, member, `" "`))
			mustParse(t, with(minimal, member, `"null"`))
		})
	}

	t.Run("an_empty_object_misses_its_first_member", func(t *testing.T) {
		wantRefused(t, "{}", Structural, "idempotency_key")
	})

	t.Run("match_decision_is_one_of_three", func(t *testing.T) {
		for _, d := range []MatchDecision{Matched, Partial, Unmatched} {
			if m := mustParse(t, with(minimal, "match_decision", `"`+string(d)+`"`)); m.Decision != d {
				t.Errorf("Decision = %q, want %q", m.Decision, d)
			}
		}
		for _, raw := range []string{
			"", `""`, "null", "1", `"partial"`, `"Partial"`, `" PARTIAL"`, `"PARTIAL "`, `"MATCH"`, `"UNMATCHED\u0000"`, `["PARTIAL"]`,
			`"` + strings.Repeat("MATCHED", 1000) + `"`,
		} {
			m, _ := wantRefused(t, with(minimal, "match_decision", raw), Structural, "match_decision")
			if m.Decision != "" || m.SourceHash != (Hash{}) {
				t.Errorf("%s: decision %q and hash %s are kept", raw, m.Decision, m.SourceHash)
			}
		}
	})

	t.Run("priority_is_one_digit_as_written", func(t *testing.T) {
		for p := range 10 {
			if m := mustParse(t, with(minimal, "priority", strconv.Itoa(p))); int(m.Priority) != p {
				t.Errorf("Priority = %d, want %d", m.Priority, p)
			}
		}
		for _, raw := range []string{
			"10", "-1", "-0", "5.0", "5e0", "0.5", "50e-1", `"5"`, `""`, "null", "true", "[5]", "{}", "1e1", "99999999999999999999",
			strings.Repeat("9", 100_000),
		} {
			_, failed := wantRefused(t, with(minimal, "priority", raw), Structural, "priority")
			if len(failed.Error()) > 200 {
				t.Errorf("the error has %d bytes", len(failed.Error()))
			}
		}
	})

	t.Run("a_route_from_upstream_is_kept", func(t *testing.T) {
		for _, amount := range []string{`"0.00"`, `"12.50"`} {
			for _, route := range Routes {
				line := with(with(minimal, "variance_amount", amount), "route", `"`+string(route)+`"`)
				if m := mustParse(t, line); m.Route != route {
					t.Errorf("%s: Route = %s, want %s", amount, m.Route, route)
				}
			}
		}
		for _, raw := range []string{`""`, "null", "0", `"auto_resolve"`, `"REVIEW"`, `"ROUTE_REVIEW "`, `["ROUTE_REVIEW"]`, "true"} {
			wantRefused(t, with(minimal, "route", raw), Structural, "route")
		}
	})

	t.Run("not_before_is_a_time_or_absent", func(t *testing.T) {
		m := mustParse(t, with(minimal, "not_before", `"2026-04-01T06:00:00+02:00"`))
		if got := m.NotBefore.Format("2006-01-02T15:04:05Z07:00"); got != "2026-04-01T04:00:00Z" {
			t.Errorf("NotBefore = %s", got)
		}
		for _, raw := range []string{`""`, "null", "1775023200", `"tomorrow"`, `"2026-04-01"`, `"9999-12-31T23:59:59Z"`, `"` + strings.Repeat("2", 200) + `"`} {
			wantRefused(t, with(minimal, "not_before", raw), Structural, "not_before")
		}
	})
}

func TestMonetaryGate(t *testing.T) {
	t.Run("an_amount_is_a_string", func(t *testing.T) {
		for _, raw := range []string{"", "null", "12.50", "0", "-1042.37", "1e3", "true", "[]", "{}", `["12.50"]`, `{"value":"12.50"}`, `""`} {
			wantRefused(t, with(minimal, "variance_amount", raw), Monetary, "variance_amount")
		}
	})

	t.Run("an_amount_fits_its_currency", func(t *testing.T) {
		for _, c := range []struct{ amount, currency string }{{`"12.505"`, `"EUR"`}, {`"12.5"`, `"JPY"`}, {`"1.2345"`, `"KWD"`}, {`"0.00001"`, `"CLF"`}} {
			wantRefused(t, with(with(minimal, "variance_amount", c.amount), "currency", c.currency), Monetary, "variance_amount")
		}
		wantRefused(t, with(minimal, "variance_amount", `"12.505"`), Monetary, "variance_amount")
		for _, c := range []struct{ amount, currency string }{{`"12.50000"`, `"EUR"`}, {`"12"`, `"JPY"`}, {`"1.234"`, `"KWD"`}, {`"0.0001"`, `"CLF"`}} {
			m := mustParse(t, with(with(minimal, "variance_amount", c.amount), "currency", c.currency))
			if `"`+m.Amount+`"` != c.amount || `"`+m.Currency+`"` != c.currency {
				t.Errorf("%s %s became %s %s", c.amount, c.currency, m.Amount, m.Currency)
			}
		}
	})

	t.Run("a_currency_is_a_code_with_units_or_absent", func(t *testing.T) {
		for _, raw := range []string{`""`, "null", "978", `"eur"`, `"Eur"`, `"XAU"`, `"XXX"`, `"XTS"`, `"EURO"`, `" EUR"`, `["EUR"]`, "true", `"` + strings.Repeat("EUR", 100) + `"`} {
			wantRefused(t, with(minimal, "currency", raw), Monetary, "currency")
		}
		if m := mustParse(t, with(minimal, "currency", `"\u0045UR"`)); m.Currency != "EUR" {
			t.Errorf("Currency = %q", m.Currency)
		}
	})

	t.Run("bombs_never_reach_the_record", func(t *testing.T) {
		for _, amount := range []string{"1e1000000000", strings.Repeat("9", 1_000_000), "0." + strings.Repeat("3", 20_000)} {
			m, failed := wantRefused(t, with(minimal, "variance_amount", `"`+amount+`"`), Monetary, "variance_amount")
			if len(m.Amount) > MaxAmountBytes || len(failed.Error()) > 200 {
				t.Errorf("%d bytes of the amount are kept, the error has %d", len(m.Amount), len(failed.Error()))
			}
		}
	})
}

func TestGatesAnswerAlikeWhateverTheOrder(t *testing.T) {
	members := []string{`"variance_amount":1`, `"trace_id":""`, `"currency":"eur"`, `"match_decision":"x"`, `"idempotency_key":"k"`, `"ledger_entity":"E"`}
	var first string
	for turn := range members {
		line := "{" + strings.Join(append(members[turn:len(members):len(members)], members[:turn]...), ",") + "}"
		_, failed := wantRefused(t, line, Structural, "trace_id")
		if turn == 0 {
			first = failed.Error()
		}
		if failed.Error() != first {
			t.Errorf("%s: %q, elsewhere %q", line, failed, first)
		}
	}
}

func TestAFailingLineKeepsWhatIdentifiesIt(t *testing.T) {
	full := with(minimal, "currency", `"EUR"`)
	want := mustParse(t, full)
	for name, line := range map[string]string{
		"amount":   with(full, "variance_amount", `"12.501"`),
		"priority": with(full, "priority", `"high"`),
		"currency": with(minimal, "currency", `"XAU"`),
		"cut off":  strings.TrimSuffix(full, "}"),
		"too deep": with(full, "x", nested(100)),
		"trailing": full + "junk",
	} {
		m, err := ParseLine([]byte(line))
		if err == nil {
			t.Fatalf("%s: the line passes", name)
		}
		if m.IdempotencyKey != want.IdempotencyKey || m.TraceID != want.TraceID || m.PartitionKey != want.PartitionKey ||
			m.LedgerEntity != want.LedgerEntity || m.Decision != want.Decision || m.Amount == "" || m.Currency == "" {
			t.Errorf("%s: only %+v is kept", name, m)
		}
		if m.SourceHash == (Hash{}) || name != "amount" && m.SourceHash != want.SourceHash {
			t.Errorf("%s: SourceHash = %s, want %s", name, m.SourceHash, want.SourceHash)
		}
	}

	m, _ := wantRefused(t, with(minimal, "trace_id", ""), Structural, "trace_id")
	if m.TraceID != "" || m.IdempotencyKey != "k1" || m.SourceHash == (Hash{}) {
		t.Errorf("without a trace id: %+v", m)
	}
	for _, part := range []string{"idempotency_key", "ledger_entity", "match_decision"} {
		m, _ = wantRefused(t, with(minimal, part, "7"), Structural, part)
		if m.SourceHash != (Hash{}) {
			t.Errorf("a hash is given though %s is unknown: %+v", part, m)
		}
	}
}

func TestGateErrorsAreShort(t *testing.T) {
	nasty := `\u001b[2J\u0000\u202e\u2028<script>é` + "é\x7f"
	for _, line := range []string{
		with(minimal, "match_decision", `"`+nasty+`"`), with(minimal, "variance_amount", `"`+nasty+`"`), with(minimal, "currency", `"`+nasty+`"`),
		with(minimal, "route", `"`+nasty+`"`), with(minimal, "not_before", `"`+nasty+`"`), "\x1b[2J" + minimal, "{\u202e}", "{é}", "{\"\x00\":1}", `{"a":"\ud800` + "\u202e\"}",
		with(minimal, "a", `{"`+nasty+`":1,"`+nasty+`":2}`), with(minimal, "match_decision", `"`+strings.Repeat("é", 40)+`"`),
		with(minimal, "variance_amount", `"`+strings.Repeat("\u202e", 26)+`"`), with(minimal, "variance_amount", `"`+strings.Repeat("z", 80)+`"`),
	} {
		_, err := ParseLine([]byte(line))
		if err == nil {
			t.Fatalf("%q passes", line)
		}
		text := err.Error()
		if !utf8.ValidString(text) || len(text) > 300 {
			t.Errorf("%q: the error is %q", line, text)
		}
		if z := strings.Count(text, "z"); z > maxExcerpt+2 {
			t.Errorf("%d bytes of the input are repeated in %q", z, text)
		}
	}
}

// What an error repeats is what was sent: it is escaped once, when it is written out.
func TestGateErrorsRepeatTheInputAsItIs(t *testing.T) {
	_, err := ParseLine([]byte(with(minimal, "match_decision", `"\u001b[2J\n\"\\ \u202eМ"`)))
	const want = "structural gate: match_decision is none of MATCHED, PARTIAL, UNMATCHED: \"\x1b[2J\n\"\\ \u202eМ\", which is not all ASCII"
	if err == nil || err.Error() != want {
		t.Fatalf("got %q, want %q", err, want)
	}
	got := string(AppendText(nil, err.Error()))
	const written = `"structural gate: match_decision is none of MATCHED, PARTIAL, UNMATCHED: \"\u001b[2J\n\"\\ \u202eМ\", which is not all ASCII"`
	if got != written {
		t.Errorf("got %s, want %s", got, written)
	}
}

func TestGateErrorText(t *testing.T) {
	for line, want := range map[string]string{
		with(minimal, "trace_id", ""):                `structural gate: trace_id is missing`,
		with(minimal, "variance_amount", "12.50"):    `monetary gate: variance_amount must be a string, not a number`,
		with(minimal, "variance_amount", `"12.505"`): `monetary gate: variance_amount has more fraction digits than the 2 of an amount without a currency: 12.505`,
		with(minimal, "variance_amount", `"12,50"`):  `monetary gate: variance_amount is not a decimal number: "12,50"`,
		with(minimal, "currency", `"XAU"`):           `monetary gate: currency is not an ISO 4217 code with a minor unit: "XAU"`,
		`{"a":1,"a":2}`:                              `structural gate: a member name appears twice at offset 7`,
		`[]`:                                         `structural gate: the line is not an object but an array`,
		minimal + "x":                                "structural gate: something follows the object at offset " + strconv.Itoa(len(minimal)),
	} {
		_, err := ParseLine([]byte(line))
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", line, err, want)
		}
	}
}
