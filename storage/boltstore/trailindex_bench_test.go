package boltstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// BenchmarkTrace looks for one exception in a trail of a million records, or as many
// as BREAKWATER_BENCH_RECORDS says, and for comparison verifies all of it. Messages
// live for a hundred thousand others, so the records of each lie far apart.
// TMPDIR says on which disk; 10 million records take 2 GB.
func BenchmarkTrace(b *testing.B) {
	records := 1_000_000
	if text := os.Getenv("BREAKWATER_BENCH_RECORDS"); text != "" {
		var err error
		if records, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	h := newHarness(b, Options{})
	defer h.close()
	writeTrail(b, h.store, records/3)
	h.reopen()
	plain, index := measureTrail(b, h.store)
	for name, q := range map[string]queue.TrailQuery{
		"seq":    {Seq: uint64(records / 6)},
		"trace":  {TraceID: traceOf(records / 6)},
		"absent": {TraceID: "unheard of"},
		"key":    {PartitionKey: "ACC-17"},
		"holds":  {PartitionKey: "ACC-17", Event: queue.EventKeyHeld},
		"event":  {Event: queue.EventConfigChanged},
	} {
		b.Run(name, func(b *testing.B) {
			before, found := h.store.spansOpened.Load(), 0
			for b.Loop() {
				found = len(recordsOf(b, h.store, q))
			}
			b.ReportMetric(float64(h.store.spansOpened.Load()-before)/float64(b.N), "spans")
			b.ReportMetric(float64(found), "records")
			b.ReportMetric(index/plain*100, "%index/plain")
		})
	}
	b.Run("verify", func(b *testing.B) {
		for b.Loop() {
			v, err := h.store.Verify(context.Background(), queue.VerifyOptions{})
			if err != nil {
				b.Fatal(err)
			}
			for _, f := range v.Findings { // only the trail was written
				if !strings.Contains(f.What, "the store counts 0") {
					b.Fatal(f)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*records), "ns/record")
	})
}

func traceOf(i int) string { return fmt.Sprintf("trace-of-a-usual-length-%08d", i) }

// writeTrail writes the three records of each of n messages, a thousand messages a
// commit, each settled when a hundred thousand more have come.
func writeTrail(b *testing.B, s *Store, n int) {
	const lag, batch = 100_000, 1000
	now, ctx := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), context.Background()
	if _, err := s.Start(ctx, queue.StartRequest{Now: now}); err != nil {
		b.Fatal(err)
	}
	owner := queue.Owner{Kind: queue.Worker, Name: "w-3"}
	message := func(i int) (m queue.Stored) {
		m = queue.Stored{
			Seq: uint64(i + 1), IdempotencyKey: fmt.Sprintf("idem-%012d", i), TraceID: traceOf(i), PartitionKey: "ACC-" + strconv.Itoa(i*7919%1000),
			LedgerEntity: "ENTITY-0001", Decision: queue.Partial, Amount: "-1042.37", Currency: "EUR",
		}
		m.SourceHash = sha256.Sum256([]byte(m.IdempotencyKey))
		return m
	}
	for at := 0; at < n+lag; at += batch {
		var records []queue.Record
		for i := at; i < min(at+batch, n); i++ {
			m := message(i)
			records = append(records, queue.AcceptedRecord(now, &m, queue.RouteReview, time.Time{}, 350, m.SourceHash, queue.Peer{UID: 1000, GID: 1000, PID: 77}))
		}
		for i := max(at-lag, 0); i < min(at-lag+batch, n); i++ {
			m := message(i)
			d := queue.Delivery{Message: m, Route: queue.RouteReview, Number: 1, Deadline: now.Add(time.Minute)}
			records = append(records, queue.DispatchedRecord(now, &d, queue.Holding{Owner: owner}),
				queue.DecidedRecord(now, &m, queue.Holding{Owner: owner, Route: queue.RouteReview, Deliveries: 1}, &queue.Settlement{Outcome: "APPROVED"}))
		}
		if len(records) > 0 {
			if err := s.Note(ctx, now, records); err != nil {
				b.Fatal(err)
			}
		}
		now = now.Add(time.Second)
	}
}

// measureTrail returns the bytes of the trail as plain text and of its index, and
// says what there is.
func measureTrail(b *testing.B, s *Store) (plain, index float64) {
	blocks, stored, spans := 0, 0.0, 0
	err := s.view(func(tx *bolt.Tx) error {
		if err := tx.Bucket(bucketAudit).ForEach(func(_, data []byte) error {
			blocks++
			stored += float64(len(data))
			plain += float64(binary.BigEndian.Uint32(data[14:]))
			return nil
		}); err != nil {
			return err
		}
		return tx.Bucket(bucketTrailIndex).ForEach(func(_, v []byte) error {
			spans++
			index += float64(len(v))
			return nil
		})
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d blocks: %.1f MB plain, %.1f MB stored; %d spans: %.2f MB, %.0f bytes per MiB of plain trail",
		blocks, plain/1e6, stored/1e6, spans, index/1e6, index/plain*(1<<20))
	return plain, index
}
