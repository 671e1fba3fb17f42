package boltstore

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"breakwater/queue"
)

// BenchmarkLook is what an operator asks of a store with many open partition keys: a
// hundred thousand, or as many as BREAKWATER_BENCH_OPEN says. Each question takes a
// turn of the committer, so none may take longer than a commit or two.
func BenchmarkLook(b *testing.B) {
	open := 100_000
	if text := os.Getenv("BREAKWATER_BENCH_OPEN"); text != "" {
		var err error
		if open, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	ctx, now := context.Background(), time.Now()
	s := openAt(b, filepath.Join(b.TempDir(), "breakwater.db"), now)
	defer s.Close()
	for i := 0; i < open; {
		r := queue.AdmitRequest{Now: now}
		for ; i < open && len(r.Lines) < 10_000; i++ {
			r.Lines = append(r.Lines, submission(b, i, open))
		}
		if _, err := s.Admit(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprintf("entity-%d", i*open/10))
	}
	if _, err := s.HoldKeys(ctx, queue.Action{Now: now}, names); err != nil {
		b.Fatal(err)
	}
	keys := func(q queue.KeyQuery, want int) func() error {
		q.Now = now
		return func() error {
			page, err := s.Keys(ctx, q)
			if err == nil && len(page.Keys) != want {
				err = fmt.Errorf("%d keys, want %d", len(page.Keys), want)
			}
			return err
		}
	}
	for _, question := range []struct {
		name string
		ask  func() error
	}{
		{"status", func() error { _, err := s.Status(ctx, now); return err }},
		{"keys=held", keys(queue.KeyQuery{State: queue.KeyHeld, Limit: 100}, 10)},
		{"keys=1000", keys(queue.KeyQuery{Limit: 1000}, 1000)},
		{"why", func() error { _, err := s.Why(ctx, queue.WhyQuery{Now: now, Key: "entity-1"}); return err }},
	} {
		b.Run(question.name, func(b *testing.B) {
			for b.Loop() {
				if err := question.ask(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
