package queue

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode/utf16"
)

// goodLine is a line of the size that figures are given for, 350 bytes.
const goodLine = `{"idempotency_key":"recon-2026-03-31-000417","trace_id":"4bf92f3577b34da6a3ce929d0e0e4736",` +
	`"partition_key":"entity-0042","ledger_entity":"DE-0042-GL","match_decision":"PARTIAL","variance_amount":"-1042.37",` +
	`"currency":"EUR","priority":3,"booked":"2026-03-31","counterparty":{"bic":"DEUTDEFF","name":"Muster & Söhne GmbH"},` +
	`"refs":["INV-88412","PO-5521"]}`

func TestParseLine(t *testing.T) {
	t.Run("a_good_line_is_read_as_sent", func(t *testing.T) {
		m := mustParse(t, goodLine)
		if string(m.Line) != goodLine {
			t.Errorf("Line = %q", m.Line)
		}
		if m.IdempotencyKey != "recon-2026-03-31-000417" || m.TraceID != "4bf92f3577b34da6a3ce929d0e0e4736" ||
			m.PartitionKey != "entity-0042" || m.LedgerEntity != "DE-0042-GL" || m.Decision != Partial ||
			m.Amount != "-1042.37" || m.Currency != "EUR" || m.Priority != 3 || m.Route != RouteReview || !m.NotBefore.IsZero() {
			t.Errorf("%+v", m)
		}
	})

	t.Run("what_is_not_sent_has_its_default", func(t *testing.T) {
		m := mustParse(t, minimal)
		if m.Priority != DefaultPriority || m.Currency != "" || !m.NotBefore.IsZero() || m.Route != RouteReview {
			t.Errorf("%+v", m)
		}
		if m := mustParse(t, with(minimal, "variance_amount", `"-0.00"`)); m.Route != AutoResolve {
			t.Errorf("a variance of zero goes to %s", m.Route)
		}
	})

	t.Run("white_space_around_and_inside_is_kept", func(t *testing.T) {
		for _, line := range []string{
			" " + minimal, minimal + " \t", "\t" + minimal + "\r ", strings.ReplaceAll(minimal, ":", " :\r\t "),
		} {
			if m := mustParse(t, line); string(m.Line) != line {
				t.Errorf("Line = %q, want %q", m.Line, line)
			}
		}
	})

	t.Run("one_CR_at_the_end_is_the_line_end's", func(t *testing.T) {
		if m := mustParse(t, minimal+"\r"); string(m.Line) != minimal {
			t.Errorf("Line = %q", m.Line)
		}
		if m := mustParse(t, minimal+"\r\r"); string(m.Line) != minimal+"\r" {
			t.Errorf("Line = %q", m.Line)
		}
		m, _ := wantRefused(t, "{\r", Structural, "")
		if string(m.Line) != "{" {
			t.Errorf("Line of a refused one = %q", m.Line)
		}
	})

	t.Run("a_name_may_be_written_with_escapes", func(t *testing.T) {
		line := strings.Replace(minimal, "trace_id", `\u0074race\u005fid`, 1)
		if m := mustParse(t, line); m.TraceID != "t1" {
			t.Errorf("TraceID = %q", m.TraceID)
		}
	})

	t.Run("values_are_decoded_and_compared_as_bytes", func(t *testing.T) {
		m := mustParse(t, with(minimal, "idempotency_key", `"a\u0000\n\/\"\\\u00e9é\ud83d\ude00\u202e/../x"`))
		if want := "a\x00\n/\"\\éé😀\u202e/../x"; m.IdempotencyKey != want {
			t.Errorf("IdempotencyKey = %q, want %q", m.IdempotencyKey, want)
		}
		composed := mustParse(t, with(minimal, "idempotency_key", `"é"`))
		decomposed := mustParse(t, with(minimal, "idempotency_key", `"e\u0301"`))
		if composed.IdempotencyKey == decomposed.IdempotencyKey {
			t.Error("two normal forms are one key")
		}
		if mustParse(t, with(minimal, "idempotency_key", `"K1"`)).IdempotencyKey == "k1" {
			t.Error("case is folded")
		}
	})
}

func TestParseLineKeepsTheSendersMembers(t *testing.T) {
	for name, extra := range map[string]string{
		"number beyond 2^53":   `"trace":{"id":9007199254740993}`,
		"trailing zeros":       `"amounts":[0.1000,1e400,-0,1.0E+2]`,
		"html":                 `"note":"<a&b></script>"`,
		"template":             `"note":"{{.Exec}} ${jndi:ldap://x} $(reboot) '; DROP TABLE x;--"`,
		"terminal escape":      `"note":"\u001b[2J\u009b31m"`,
		"other case":           `"Priority":"high","TRACE_ID":1,"Variance_Amount":1.5,"idempotency_Key":null`,
		"null":                 `"note":null`,
		"empty name":           `"":""`,
		"same name further in": `"trace_id2":{"trace_id":7,"priority":"x"},"b":[{"x":1},{"x":2}]`,
		"63 levels inside":     `"deep":` + nested(MaxDepth-1),
	} {
		line := strings.TrimSuffix(minimal, "}") + "," + extra + "}"
		m := mustParse(t, line)
		if string(m.Line) != line {
			t.Errorf("%s: Line = %q", name, m.Line)
		}
		if m.Priority != DefaultPriority || m.TraceID != "t1" || m.Amount != "12.50" {
			t.Errorf("%s: a member of the sender's was taken for one of ours: %+v", name, m)
		}
	}
}

func TestParseLineRefusesWhatIsNotOneObject(t *testing.T) {
	utf16le := func(s string) string {
		var b bytes.Buffer
		b.WriteString("\xff\xfe")
		for _, unit := range utf16.Encode([]rune(s)) {
			b.Write([]byte{byte(unit), byte(unit >> 8)})
		}
		return b.String()
	}
	for name, line := range map[string]string{
		"nothing": "", "white space": " \t ", "null": "null", "array": "[]", "string": `"s"`, "number": "7", "boolean": "true",
		"array around": "[" + minimal + "]", "text after": minimal + " junk", "object after": minimal + minimal,
		"object after a space": minimal + " " + minimal, "comma after": minimal + ",", "brace after": minimal + "}",
		"NUL after": minimal + "\x00", "BOM": "\ufeff" + minimal, "UTF-16": utf16le(minimal), "no end": strings.TrimSuffix(minimal, "}"),
		"brace": "{", "name only": `{"a"`, "no value": `{"a":`, "no value before the end": `{"a":}`, "half a string": `{"a":"b`,
		"half an escape": `{"a":"\u00`, "half a literal": `{"a":tru`, "half a number": `{"a":-`, "half an array": `{"a":[1,2`,
		"NaN": `{"a":NaN}`, "Infinity": `{"a":-Infinity}`, "comment": `{/* */"a":1}`, "line comment": `{"a":1}// x`,
		"single quotes": `{'a':1}`, "bare name": `{a:1}`, "number name": `{1:1}`, "array name": `{[]:1}`, "null name": `{null:1}`,
		"trailing comma": `{"a":1,}`, "leading comma": `{,"a":1}`, "two commas": `{"a":1,,"b":2}`, "no comma": `{"a":1 "b":2}`,
		"no colon": `{"a" 1}`, "equals": `{"a"=1}`, "array comma": `{"a":[1,]}`, "mismatch": `{"a":[1}]`, "plus": `{"a":+1}`,
		"leading zero": `{"a":01}`, "no fraction": `{"a":1.}`, "no whole": `{"a":.5}`, "hex": `{"a":0x1}`, "True": `{"a":True}`,
		"bad escape": `{"a":"\x41"}`, "bad unicode escape": `{"a":"\u00g0"}`, "raw control character": "{\"a\":\"b\x01\"}",
		"raw tab": "{\"a\":\"b\tc\"}", "raw control in a name": "{\"a\x1f\":1}", "form feed": "{\"a\":1\f}", "no-break space": "{\u00a0}",
		"gzip": "\x1f\x8b\x08\x00\x00\x00\x00\x00", "HTML": "<html>", "HTTP": "GET / HTTP/1.1", "many braces": strings.Repeat("{", 100_000),
		"many brackets as a name": "{" + strings.Repeat("[", 100_000),
	} {
		t.Run(name, func(t *testing.T) {
			_, failed := wantRefused(t, line, Structural, "")
			if len(failed.Error()) > 250 {
				t.Errorf("the error has %d bytes", len(failed.Error()))
			}
		})
	}
}

func TestParseLineRefusesALineFeed(t *testing.T) {
	for _, line := range []string{minimal + "\n", "{\n" + minimal[1:], strings.Replace(minimal, ",", ",\r\n", 1)} {
		_, failed := wantRefused(t, line, Structural, "")
		if !strings.Contains(failed.Reason, "line feed") {
			t.Errorf("%q: %v", line, failed)
		}
	}
}

func TestParseLineRefusesTextThatIsNotUnicode(t *testing.T) {
	for name, text := range map[string]string{
		"stray byte": "a\xff", "cut rune": "a\xc3", "continuation": "\x80", "overlong": "\xc0\xaf", "surrogate half in bytes": "\xed\xa0\x80",
		"beyond the last plane": "\xf4\x90\x80\x80", "latin-1": "M\xfcller", "lone high surrogate": `\ud800`, "lone low surrogate": `\udc00`,
		"surrogates in the wrong order": `\udc00\ud800`, "high surrogate twice": `\ud83d\ud83d`, "high surrogate and a letter": `\ud83dx`,
		"high surrogate and an escape": `\ud83d\n`, "upper-case hex": `\uD800`,
	} {
		for where, line := range map[string]string{
			"in a known value":    with(minimal, "trace_id", `"`+text+`"`),
			"in a sender's value": with(minimal, "note", `"`+text+`"`),
			"further in":          with(minimal, "note", `[{"a":["`+text+`"]}]`),
			"in a name":           with(minimal, text, `1`),
			"in a name inside":    with(minimal, "note", `{"`+text+`":1}`),
		} {
			t.Run(name+" "+where, func(t *testing.T) {
				wantRefused(t, line, Structural, "")
			})
		}
	}
}

func TestParseLineRefusesANameTwice(t *testing.T) {
	for name, line := range map[string]string{
		"known, same value":     strings.Replace(minimal, "{", `{"trace_id":"t1",`, 1),
		"known, other value":    strings.Replace(minimal, "{", `{"variance_amount":"0",`, 1),
		"known, escaped":        strings.Replace(minimal, "{", `{"tr\u0061ce_id":"t1",`, 1),
		"the sender's":          with(with(minimal, "a", `1`), "b", `2,"a":1`),
		"inside":                with(minimal, "a", `{"b":1,"b":1}`),
		"inside, escaped":       with(minimal, "a", `{"b":1,"\u0062":1}`),
		"deep inside":           with(minimal, "a", `[[{"x":[{"b":null,"c":0,"b":null}]}]]`),
		"among very many names": with(minimal, "a", "{"+manyNames(5000)+`,"n17":0}`),
	} {
		t.Run(name, func(t *testing.T) {
			_, failed := wantRefused(t, line, Structural, "")
			if !strings.Contains(failed.Reason, "twice") {
				t.Errorf("reason is %q", failed.Reason)
			}
		})
	}
}

// manyNames returns n different members.
func manyNames(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `,"n%d":0`, i)
	}
	return b.String()[1:]
}

func TestParseLineBoundsNesting(t *testing.T) {
	mustParse(t, with(minimal, "deep", nested(MaxDepth-1)))
	mustParse(t, with(minimal, "deep", strings.Repeat(`{"a":`, MaxDepth-1)+"1"+strings.Repeat("}", MaxDepth-1)))
	for name, value := range map[string]string{
		"one level too many":   nested(MaxDepth),
		"objects":              strings.Repeat(`{"a":`, MaxDepth) + "1" + strings.Repeat("}", MaxDepth),
		"9,000 levels":         nested(9_000),
		"100,000 levels":       nested(100_000),
		"100,000, never ended": strings.Repeat("[", 100_000),
	} {
		for _, member := range []string{"deep", "priority", "currency"} {
			_, failed := wantRefused(t, with(minimal, member, value), Structural, "")
			if !strings.Contains(failed.Reason, "deeper than 64") {
				t.Errorf("%s in %s: reason is %q", name, member, failed.Reason)
			}
		}
	}
}

func TestParserReuse(t *testing.T) {
	t.Run("a_line_says_nothing_about_the_next", func(t *testing.T) {
		var p Parser
		for _, before := range []string{goodLine, "{", `{"trace_id":"x","priority":9,"route":"AUTO_RESOLVE"`, minimal + "junk", nested(70), with(minimal, "a", nested(70))} {
			p.Parse([]byte(before))
			m, err := p.Parse([]byte(minimal))
			if err != nil {
				t.Fatalf("after %q: %v", before, err)
			}
			if m.TraceID != "t1" || m.Priority != DefaultPriority || m.Route != RouteReview || m.Currency != "" {
				t.Errorf("after %q: %+v", before, m)
			}
		}
	})

	t.Run("a_message_outlives_the_parser's_next_line", func(t *testing.T) {
		var p Parser
		m, err := p.Parse([]byte(minimal))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Parse([]byte(goodLine)); err != nil {
			t.Fatal(err)
		}
		if m.IdempotencyKey != "k1" || m.Amount != "12.50" || string(m.Line) != minimal {
			t.Errorf("%+v", m)
		}
	})

	t.Run("an_unusual_line_does_not_make_it_big", func(t *testing.T) {
		var p Parser
		big := `"` + strings.Repeat("x", 1_000_000) + `"`
		if _, err := p.Parse([]byte(with(minimal, "trace_id", big))); err == nil {
			t.Fatal("a trace id of 1,000,000 bytes passes")
		}
		if cap(p.text) > maxKeptText || p.in.Len() > 0 || p.in.Cap() > 0 {
			t.Errorf("keeps %d bytes of text and %d of the line", cap(p.text), p.in.Cap())
		}
	})
}

func BenchmarkParser(b *testing.B) {
	line := []byte(goodLine)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var p Parser
	for b.Loop() {
		if _, err := p.Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParserManyNames is the dearest line there is for its length: every
// name has to be compared with those before it.
func BenchmarkParserManyNames(b *testing.B) {
	line := []byte(with(minimal, "a", "{"+manyNames(25_000)+"}"))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	var p Parser
	for b.Loop() {
		if _, err := p.Parse(line); err != nil {
			b.Fatal(err)
		}
	}
}
