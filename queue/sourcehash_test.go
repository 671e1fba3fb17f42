package queue

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// vector is one line of testdata/vectors/source_hash.ndjson, which Python made.
type vector struct {
	IdempotencyKey string        `json:"idempotency_key"`
	LedgerEntity   string        `json:"ledger_entity"`
	Decision       MatchDecision `json:"match_decision"`
	Amount         string        `json:"variance_amount"`
	Canonical      string        `json:"canonical"`
	SourceHash     string        `json:"source_hash"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("../testdata/vectors/source_hash.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	lines := bufio.NewScanner(bytes.NewReader(raw))
	for lines.Scan() {
		var v vector
		if err := json.Unmarshal(lines.Bytes(), &v); err != nil {
			t.Fatalf("vector %d: %v", len(vectors)+1, err)
		}
		vectors = append(vectors, v)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	if len(vectors) < 300 {
		t.Fatalf("%d vectors, want at least 300", len(vectors))
	}
	return vectors
}

func TestSourceHash(t *testing.T) {
	t.Run("python_computes_the_same", func(t *testing.T) {
		for i, v := range readVectors(t) {
			a, reason := parseAmount(v.Amount)
			if reason != "" {
				t.Errorf("vector %d: %s %s", i+1, v.Amount, reason)
				continue
			}
			if got := a.Canonical(); got != v.Canonical {
				t.Errorf("vector %d: Canonical of %s = %s, want %s", i+1, v.Amount, got, v.Canonical)
			}
			got := SourceHash(v.IdempotencyKey, v.LedgerEntity, a.Canonical(), v.Decision)
			if got.String() != v.SourceHash {
				t.Errorf("vector %d: SourceHash = %s, want %s", i+1, got, v.SourceHash)
			}
		}
	})

	t.Run("a_parsed_line_carries_it", func(t *testing.T) {
		passed := 0
		for i, v := range readVectors(t) {
			line, err := json.Marshal(map[string]string{
				"idempotency_key": v.IdempotencyKey, "trace_id": "t", "partition_key": "p",
				"ledger_entity": v.LedgerEntity, "match_decision": string(v.Decision), "variance_amount": v.Amount,
			})
			if err != nil {
				t.Fatal(err)
			}
			// A line whose amount has too many fraction digits carries it as well:
			// the quarantine's record needs it.
			m, err := ParseLine(line)
			if m.SourceHash.String() != v.SourceHash {
				t.Errorf("vector %d: SourceHash = %s, want %s (%v)", i+1, m.SourceHash, v.SourceHash, err)
			}
			if err == nil {
				passed++
			}
		}
		if passed < 100 {
			t.Errorf("only %d of the lines pass the gates", passed)
		}
	})

	t.Run("the_mission's_examples_hold", func(t *testing.T) {
		for amount, prefix := range map[string]string{
			"-1042.37": "83fb75f97d73d4f5",
			"1E+3":     "bb2d231a699a695c",
			"-0.00":    "f72f8ddb5e50d53f",
		} {
			got := SourceHash("k1", "E1", amount, Partial).String()
			if !strings.HasPrefix(got, prefix) {
				t.Errorf("SourceHash of %s = %s, want %s…", amount, got, prefix)
			}
		}
	})

	t.Run("only_the_key_makes_two_equal_exceptions_one", func(t *testing.T) {
		first := mustParse(t, with(minimal, "idempotency_key", `"a"`))
		second := mustParse(t, with(minimal, "idempotency_key", `"b"`))
		if first.SourceHash == second.SourceHash {
			t.Error("lines that differ in their key share a source hash")
		}
		traced := mustParse(t, with(with(minimal, "idempotency_key", `"a"`), "trace_id", `"other"`))
		if first.SourceHash != traced.SourceHash {
			t.Error("the trace id changes the source hash, which other programs compute without it")
		}
		spelled := mustParse(t, with(with(minimal, "idempotency_key", `"a"`), "variance_amount", `"12.500"`))
		if first.SourceHash == spelled.SourceHash {
			t.Error("12.50 and 12.500 share a source hash; Python tells them apart")
		}
	})
}

func TestLineHash(t *testing.T) {
	t.Run("is_the_sha256_of_the_bytes", func(t *testing.T) {
		// From FIPS 180-2, appendix B.1.
		const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
		if got := LineHash([]byte("abc")).String(); got != want {
			t.Errorf("LineHash = %s, want %s", got, want)
		}
		if raw, err := hex.DecodeString(want); err != nil || !bytes.Equal(raw, func() []byte { h := LineHash([]byte("abc")); return h[:] }()) {
			t.Error("the digest's bytes and its text differ")
		}
	})
	t.Run("sees_every_byte", func(t *testing.T) {
		if LineHash([]byte(`{"a":1}`)) == LineHash([]byte(`{"a": 1}`)) {
			t.Error("white space makes no difference")
		}
	})
}
