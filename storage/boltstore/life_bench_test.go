package boltstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

func submission(tb testing.TB, i, keys int) queue.Submission {
	line := fmt.Appendf(nil, `{"idempotency_key":"idem-%08d","trace_id":"trace-%08d","partition_key":"entity-%d","ledger_entity":"E%d","match_decision":"PARTIAL","variance_amount":"-1042.37","currency":"EUR","source":"engine-7","counterparty":"ACME Holdings (Netherlands) B.V.","booking":{"ref":"2026-11-30/%d","lines":[1,2,3],"text":"settlement difference on invoice"}}`, i, i, i%keys, i%keys, i)
	m, err := queue.ParseLine(line)
	if err != nil {
		tb.Fatal(err)
	}
	return queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)}
}

func BenchmarkLife(b *testing.B) {
	ctx := context.Background()
	dir, err := os.MkdirTemp(".", "bench")
	if err != nil {
		b.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := Open(Options{Path: filepath.Join(dir, "a.db")})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	if _, err := s.Start(ctx, queue.StartRequest{Now: now}); err != nil {
		b.Fatal(err)
	}
	const batch = 1000
	subs := make([]queue.Submission, b.N)
	for i := range subs {
		subs[i] = submission(b, i, 500)
	}
	b.ResetTimer()
	t0 := time.Now()
	for i := 0; i < b.N; i += batch {
		if _, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: subs[i:min(b.N, i+batch)]}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/time.Since(t0).Seconds(), "admit/s")
	t0 = time.Now()
	w := queue.Want{Owner: queue.Owner{Kind: queue.Worker, Name: "w-1"}, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: 512, PerKey: 64, Lease: time.Minute}
	done := 0
	for done < b.N {
		r, err := s.Claim(ctx, queue.ClaimRequest{Now: now, Wants: []queue.Want{w}})
		if err != nil {
			b.Fatal(err)
		}
		var set []queue.Settlement
		for _, d := range r.Deliveries[0] {
			set = append(set, queue.Settlement{Token: d.Token, Owner: w.Owner, Verb: queue.Ack, At: now, Outcome: "DONE"})
		}
		if len(set) == 0 {
			b.Fatal("nothing to claim", done)
		}
		res, err := s.Settle(ctx, queue.SettleRequest{Now: now, Settlements: set})
		if err != nil {
			b.Fatal(err)
		}
		for _, x := range res {
			if x.Code != "" {
				b.Fatal(x)
			}
		}
		done += len(set)
	}
	b.ReportMetric(float64(b.N)/time.Since(t0).Seconds(), "claimsettle/s")
	b.StopTimer()
	v, err := s.Verify(ctx, queue.VerifyOptions{})
	if err != nil || len(v.Findings) > 0 {
		b.Fatal(err, v.Findings)
	}
	st, _ := s.Status(ctx, now)
	b.ReportMetric(float64(st.FileBytes)/float64(b.N), "filebytes/msg")
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	t0 = time.Now()
	s, err = Open(Options{Path: filepath.Join(dir, "a.db")})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(time.Since(t0).Milliseconds()), "open-ms")
	s.Close()
}
