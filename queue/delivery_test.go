package queue

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func delivery() *Delivery {
	return &Delivery{
		Token: Token{Seq: 42, Fence: 7}, Route: RouteReview, Number: 3, FailedAttempts: 1, Redelivered: true,
		AcceptedAt: time.Date(2026, 3, 2, 9, 0, 0, 123456000, time.UTC), Deadline: time.Date(2026, 3, 2, 9, 1, 0, 0, time.UTC),
		Message: Stored{
			Seq: 42, IdempotencyKey: "k1", TraceID: "t1", PartitionKey: "E1",
			Line: []byte(`{"idempotency_key":"k1",  "x":1e5}`),
		},
	}
}

func TestAppendDelivery(t *testing.T) {
	const want = `{"event":"delivery","seq":42,"route":"ROUTE_REVIEW","delivery":3,"failed_attempts":1,"redelivered":true,` +
		`"accepted_at":"2026-03-02T09:00:00.123456Z","trace_id":"t1","idempotency_key":"k1","partition_key":"E1",` +
		`"source_hash":"0100000000000000000000000000000000000000000000000000000000000000","exception":{"idempotency_key":"k1",  "x":1e5}}`
	const wantLease = `{"event":"delivery","lease":"000000000000002a0000000000000007","seq":42,"route":"ROUTE_REVIEW","delivery":3,` +
		`"failed_attempts":1,"redelivered":true,"accepted_at":"2026-03-02T09:00:00.123456Z","deadline":"2026-03-02T09:01:00.000000Z",` +
		`"trace_id":"t1","idempotency_key":"k1","partition_key":"E1",` +
		`"source_hash":"0100000000000000000000000000000000000000000000000000000000000000","exception":{"idempotency_key":"k1",  "x":1e5}}`
	d := delivery()
	d.Message.SourceHash[0] = 1
	if got := string(AppendDelivery(nil, d, false)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := string(AppendDelivery([]byte("x"), d, true)); got != "x"+wantLease {
		t.Errorf("got  %s\nwant x%s", got, wantLease)
	}
}

// Keys are compared as bytes after decoding, so the object must give them back.
func TestAppendDelivery_any_text_comes_back_on_one_line(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := delivery()
		text := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x00\n\r\"\\\u2028\u202e\u009b\U0001f600"))))
		d.Message.IdempotencyKey = text.Draw(t, "key")
		d.Message.TraceID = text.Draw(t, "trace")
		d.Message.PartitionKey = text.Draw(t, "partition")
		line := AppendDelivery(nil, d, true)
		var got struct {
			IdempotencyKey string          `json:"idempotency_key"`
			TraceID        string          `json:"trace_id"`
			PartitionKey   string          `json:"partition_key"`
			Lease          string          `json:"lease"`
			Exception      json.RawMessage `json:"exception"`
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if got.IdempotencyKey != d.Message.IdempotencyKey || got.TraceID != d.Message.TraceID || got.PartitionKey != d.Message.PartitionKey {
			t.Fatalf("got %+v back from %s", got, line)
		}
		if string(got.Exception) != string(d.Message.Line) {
			t.Fatalf("got exception %s", got.Exception)
		}
		if token, ok := ParseToken(got.Lease); !ok || token != d.Token {
			t.Fatalf("got lease %s", got.Lease)
		}
		for _, b := range line {
			if b == '\n' {
				t.Fatalf("%q is more than a line", line)
			}
		}
	})
}

func BenchmarkAppendDelivery(b *testing.B) {
	d := delivery()
	var dst []byte
	b.ReportAllocs()
	for b.Loop() {
		dst = AppendDelivery(dst[:0], d, true)
	}
}
