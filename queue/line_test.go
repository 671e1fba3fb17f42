package queue

import (
	"strings"
	"testing"
)

// minimal has the required members and nothing else.
const minimal = `{"idempotency_key":"k1","trace_id":"t1","partition_key":"p1","ledger_entity":"E1",` +
	`"match_decision":"PARTIAL","variance_amount":"12.50"}`

// with returns the line with one member set to a raw JSON value, or without the
// member when raw is empty. It knows the lines of these tests, not JSON: a member
// that is already there must be a string without escapes.
func with(line, member, raw string) string {
	name := `"` + member + `":`
	at := strings.Index(line, name)
	if at < 0 {
		return strings.TrimSuffix(line, "}") + "," + name + raw + "}"
	}
	end := at + len(name) + 1
	end += strings.IndexByte(line[end:], '"') + 1
	if raw != "" {
		return line[:at] + name + raw + line[end:]
	}
	rest := strings.TrimPrefix(line[end:], ",")
	if rest == "}" {
		return strings.TrimSuffix(line[:at], ",") + rest
	}
	return line[:at] + rest
}

// mustParse returns the message of a line that has to pass.
func mustParse(t *testing.T, line string) Message {
	t.Helper()
	m, err := ParseLine([]byte(line))
	if err != nil {
		t.Fatalf("%s: %v", line, err)
	}
	return m
}

// wantRefused parses a line that has to fail the gate over the given member.
func wantRefused(t *testing.T, line string, gate Gate, member string) (Message, *GateError) {
	t.Helper()
	m, err := ParseLine([]byte(line))
	if err == nil {
		t.Fatalf("%.200q passes, want a %s gate's error about %q", line, gate, member)
	}
	return m, wantGate(t, err, gate, member)
}

// nested returns an object member value that is deep levels deep in itself.
func nested(deep int) string {
	return strings.Repeat("[", deep) + strings.Repeat("]", deep)
}
