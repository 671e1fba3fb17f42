package socket

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"breakwater/queue"
)

// The lines of the contract, member for member.
func TestReceipts(t *testing.T) {
	settled := time.Date(2026, 12, 1, 4, 5, 6, 789_000_000, time.UTC)
	tests := []struct {
		name    string
		line    uint64
		key     string
		receipt queue.Receipt
		want    string
	}{
		{"accepted", 1, "k1", queue.Receipt{Status: queue.Accepted, Seq: 1},
			`{"line":1,"status":"accepted","seq":1,"idempotency_key":"k1"}`},
		{"duplicate", 2, "k1", queue.Receipt{Status: queue.Duplicate, Seq: 1, State: queue.Ready},
			`{"line":2,"status":"duplicate","seq":1,"idempotency_key":"k1","state":"ready"}`},
		{"duplicate of a settled one", 2, "k1", queue.Receipt{Status: queue.Duplicate, Seq: 1, State: queue.Done, Outcome: "APPROVED", SettledAt: settled},
			`{"line":2,"status":"duplicate","seq":1,"idempotency_key":"k1","state":"done","outcome":"APPROVED","settled_at":"2026-12-01T04:05:06.789000Z"}`},
		{"conflict", 3, "k1", queue.Receipt{Status: queue.Conflict, Code: queue.CodeConflict, Seq: 2, Of: 1, Error: "currency differs"},
			`{"line":3,"status":"conflict","code":"IDEMPOTENCY_CONFLICT","seq":2,"of":1,"idempotency_key":"k1","error":"currency differs"}`},
		{"conflict again", 3, "k1", queue.Receipt{Status: queue.Conflict, Code: queue.CodeConflict, Seq: 2, Of: 1, Error: "currency differs", Repeat: true},
			`{"line":3,"status":"conflict","code":"IDEMPOTENCY_CONFLICT","seq":2,"of":1,"idempotency_key":"k1","error":"currency differs","repeat":true}`},
		{"quarantined", 4, "k1", queue.Receipt{Status: queue.Quarantined, Code: queue.CodePoison, Seq: 3, Field: "variance_amount", Error: "..."},
			`{"line":4,"status":"quarantined","code":"POISON_MESSAGE","seq":3,"field":"variance_amount","error":"..."}`},
		{"quarantined without a member at fault", 4, "", queue.Receipt{Status: queue.Quarantined, Code: queue.CodePoison, Seq: 3, Error: "not an object"},
			`{"line":4,"status":"quarantined","code":"POISON_MESSAGE","seq":3,"error":"not an object"}`},
		{"quarantined again", 4, "", queue.Receipt{Status: queue.Quarantined, Code: queue.CodePoison, Seq: 3, Error: "x", Repeat: true},
			`{"line":4,"status":"quarantined","code":"POISON_MESSAGE","seq":3,"error":"x","repeat":true}`},
		{"rejected for want of room", 5, "k1", queue.Receipt{Status: queue.Rejected, Code: queue.CodeSaturated, Reason: queue.FullBacklog, Error: "..."},
			`{"line":5,"status":"rejected","code":"QUEUE_SATURATED","reason":"max_backlog","retry_after_ms":500,"error":"..."}`},
		{"rejected by a drain", 5, "k1", queue.Receipt{Status: queue.Rejected, Code: queue.CodeDraining, Error: "..."},
			`{"line":5,"status":"rejected","code":"DRAINING","error":"..."}`},
		{"a key is escaped", 6, "a\"b\\c\n\x1b[31m\u202e\u009b", queue.Receipt{Status: queue.Accepted, Seq: 9},
			`{"line":6,"status":"accepted","seq":9,"idempotency_key":"a\"b\\c\n\u001b[31m\u202e\u009b"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := string(appendReceipt([]byte("before "), tt.line, tt.key, &tt.receipt))
			if want := "before " + tt.want + "\n"; got != want {
				t.Errorf("got  %swant %s", got, want)
			}
		})
	}
}

func TestEvents(t *testing.T) {
	var counts tally
	for s := queue.Accepted; s <= queue.Rejected; s++ {
		counts.add(s)
	}
	head := queue.Head{Block: 17, Hash: queue.Hash{0xab, 31: 0x01}}
	tests := []struct{ name, got, want string }{
		{"end", string(appendEnd(nil, &counts, head)),
			`{"event":"end","lines":5,"accepted":1,"duplicate":1,"conflict":1,"quarantined":1,"rejected":1,"audit":{"block":17,"head":"ab` + strings.Repeat("0", 60) + `01"}}`},
		{"error", string(appendError(nil, queue.CodeSaturated, "too many")),
			`{"event":"error","code":"QUEUE_SATURATED","error":"too many"}`},
		{"receipts dropped", string(appendDropped(nil, 3, 7)),
			`{"event":"receipts_dropped","from_line":3,"to_line":7}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.got != tt.want+"\n" {
				t.Errorf("got  %swant %s", tt.got, tt.want)
			}
		})
	}
}

// Whatever a sender put into its key, the receipt is one line of valid JSON that gives
// the key back.
func TestReceiptsAreOneLineOfJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.String().Draw(t, "key")
		reason := rapid.String().Draw(t, "reason")
		r := queue.Receipt{Status: queue.Conflict, Code: queue.CodeConflict, Seq: 1, Of: 2, Error: reason}
		text := appendReceipt(nil, 1, key, &r)
		if strings.Count(string(text), "\n") != 1 || text[len(text)-1] != '\n' {
			t.Fatalf("not one line: %q", text)
		}
		var back struct {
			Key   string `json:"idempotency_key"`
			Error string `json:"error"`
		}
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		if utf8.ValidString(key) && back.Key != key || utf8.ValidString(reason) && back.Error != reason {
			t.Fatalf("%q and %q came back as %q and %q", key, reason, back.Key, back.Error)
		}
	})
}

func TestReceiptsCostNoMemory(t *testing.T) {
	r := queue.Receipt{Status: queue.Accepted, Seq: 123456}
	buf := make([]byte, 0, 512)
	if n := testing.AllocsPerRun(100, func() { buf = appendReceipt(buf[:0], 99, "some-key", &r) }); n != 0 {
		t.Errorf("%v allocations for a receipt", n)
	}
}

func BenchmarkReceipt(b *testing.B) {
	r := queue.Receipt{Status: queue.Accepted, Seq: 123456}
	buf := make([]byte, 0, 512)
	b.ReportAllocs()
	for b.Loop() {
		buf = appendReceipt(buf[:0], 99, "2026-12-01/branch-17/000123", &r)
	}
}
