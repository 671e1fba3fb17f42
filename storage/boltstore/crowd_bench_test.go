package boltstore

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/storetest"
)

// BenchmarkCrowd is the work of a day beside keys that do not move: a key that one
// consumer works on with everything behind it waiting, ten thousand keys that an
// operator holds, and one held key with as many messages as there are in all. That is
// 200,000, or as many as BREAKWATER_BENCH_CROWD says. Nobody else should notice.
func BenchmarkCrowd(b *testing.B) {
	size := 200_000
	if text := os.Getenv("BREAKWATER_BENCH_CROWD"); text != "" {
		var err error
		if size, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for _, c := range []crowd{
		{name: "nobody"},
		{name: "hot-key", messages: size, keys: 1, busy: true},
		{name: "held-keys", messages: size, keys: queue.MaxHeldKeys},
		{name: "held-key", messages: size, keys: 1},
		{name: "held-keys-just-now", messages: size, keys: queue.MaxHeldKeys, fresh: true},
	} {
		b.Run(c.name, func(b *testing.B) {
			full := filepath.Join(b.TempDir(), "full.db")
			c.make(b, full)
			storetest.BenchBatch(b, func(tb testing.TB, _ storetest.Options) storetest.Harness {
				h := &harness{t: tb}
				h.options.Path = filepath.Join(h.folder(), "breakwater.db")
				copyFile(tb, full, h.options.Path)
				flush(tb, h.options.Path) // or the first commit would pay for the copy
				h.open()
				return storetest.Harness{Store: h.store, Close: h.close}
			}, 100, 16)
		})
	}
}

// crowd is messages of keys that do not move.
type crowd struct {
	name           string
	messages, keys int
	busy           bool // a consumer has the first message; else an operator holds the keys
	fresh          bool // the walk over the backlog has still to come to them, and to park them
}

func (c crowd) key(i int) string { return fmt.Sprintf("crowd-%d", i%max(1, c.keys)) }

// make makes a store with the crowd in it.
func (c crowd) make(b *testing.B, path string) {
	s, err := Open(Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	now := time.Now()
	_, err = s.Start(b.Context(), queue.StartRequest{Now: now})
	for i := 0; i < c.messages && err == nil; {
		lines := make([]queue.Submission, 0, 1000)
		for ; i < c.messages && len(lines) < cap(lines); i++ {
			lines = append(lines, queue.Submission{Message: queue.Message{
				IdempotencyKey: fmt.Sprintf("crowd-%d", i), TraceID: "t", PartitionKey: c.key(i), LedgerEntity: "E",
				Decision: queue.Partial, Amount: "1.00", Priority: queue.DefaultPriority, Route: queue.RouteReview, Line: []byte("{}"),
			}})
		}
		_, err = s.Admit(b.Context(), queue.AdmitRequest{Now: now, Lines: lines})
	}
	switch {
	case err != nil || c.keys == 0:
	case c.busy:
		_, err = s.Claim(b.Context(), queue.ClaimRequest{Now: now, Wants: []queue.Want{{
			Owner: queue.Owner{Kind: queue.Consumer, Name: "busy"}, Slots: partition.AllSlots(),
			Routes: queue.RoutesOf(queue.RouteReview), Max: 1, PerKey: 1, Lease: 24 * time.Hour,
		}}})
	default:
		keys := make([]string, c.keys)
		for i := range keys {
			keys[i] = c.key(i)
		}
		_, err = s.HoldKeys(b.Context(), queue.Action{Now: now, By: "op"}, keys)
	}
	for more := !c.fresh && c.keys > 0; more && err == nil; {
		var res queue.ClaimResult
		res, err = s.Claim(b.Context(), queue.ClaimRequest{Now: now, Wants: []queue.Want{{
			Owner: queue.Owner{Kind: queue.Worker, Name: "w-0"}, Slots: partition.AllSlots(),
			Routes: queue.RoutesOf(queue.RouteReview), Max: 1, PerKey: 1, Lease: time.Minute,
		}}})
		more = res.More
	}
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
}
