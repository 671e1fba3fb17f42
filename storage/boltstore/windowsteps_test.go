package boltstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
)

// parkedPerCommit is a store of which each commit says by how many entries the bucket
// parked has changed: the largest growth and the largest loss of one.
type parkedPerCommit struct {
	*Store
	now           time.Time
	n, grew, lost int
}

// newParkedPerCommit opens one with a window in which the bounds of a transaction are
// those of the usual one.
func newParkedPerCommit(t *testing.T) *parkedPerCommit {
	t.Helper()
	p := &parkedPerCommit{now: time.Now()}
	h := newHarness(t, Options{Window: 1200, commit: func(tx *bolt.Tx) error {
		was := p.n
		p.n = 0
		for c, at := tx.Bucket(bucketParked).Cursor(), []byte(nil); ; p.n++ {
			if p.n == 0 {
				at, _ = c.First()
			} else {
				at, _ = c.Next()
			}
			if at == nil {
				break
			}
		}
		p.grew, p.lost = max(p.grew, p.n-was), max(p.lost, was-p.n)
		return tx.Commit()
	}})
	t.Cleanup(h.close)
	p.Store = h.store
	if _, err := p.Start(t.Context(), queue.StartRequest{Now: p.now, Policy: queue.Policy{MaxAttempts: 3, MaxDeliveries: 6}}); err != nil {
		t.Fatal(err)
	}
	return p
}

// admit stores n messages of a route, in turn of so many keys, in small transactions.
func (p *parkedPerCommit) admit(t *testing.T, route queue.Route, n, keys int) {
	t.Helper()
	for i := 0; i < n; {
		lines := make([]queue.Submission, 0, 100)
		for ; i < n && len(lines) < cap(lines); i++ {
			lines = append(lines, queue.Submission{Message: queue.Message{
				IdempotencyKey: fmt.Sprint(route, i), TraceID: "t", PartitionKey: fmt.Sprint(route, i%keys), LedgerEntity: "E",
				Decision: queue.Partial, Amount: "1.00", Priority: queue.DefaultPriority, Route: route, Line: []byte("{}"),
			}})
		}
		if _, err := p.Admit(t.Context(), queue.AdmitRequest{Now: p.now, Lines: lines}); err != nil {
			t.Fatal(err)
		}
	}
}

// claim asks for messages of a route, and returns the next seq of each key.
func (p *parkedPerCommit) claim(t *testing.T, route queue.Route, most, perKey int) queue.ClaimResult {
	t.Helper()
	res, err := p.Claim(context.Background(), queue.ClaimRequest{Now: p.now, Wants: []queue.Want{{
		Owner: queue.Owner{Kind: queue.Worker, Name: "w-0"}, Slots: partition.AllSlots(), Routes: queue.RoutesOf(route),
		Max: most, PerKey: perKey, Lease: time.Hour,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

// TestWindow_a_transaction_parks_only_so_much: a claim that finds nothing in a full window
// lets the walk go on, in steps that nobody notices who waits for a receipt meanwhile.
func TestWindow_a_transaction_parks_only_so_much(t *testing.T) {
	p := newParkedPerCommit(t)
	p.admit(t, queue.RouteReview, 6000, 40)
	p.grew = 0
	rounds := 0
	for more := true; more; rounds++ {
		more = p.claim(t, queue.AutoResolve, 8, 1).More
	}
	if p.grew == 0 || p.grew > 2*parkStep || rounds < 6000/2/parkStep/2 {
		t.Errorf("a transaction parked up to %d messages, want at most %d; %d claims", p.grew, 2*parkStep, rounds)
	}
	if p.n < 6000-1200-2*headStep {
		t.Errorf("%d messages are parked: the walk has not come to its end", p.n)
	}
}

// TestWindow_a_transaction_brings_back_only_so_much claims from many keys at once of
// which nearly everything is parked.
func TestWindow_a_transaction_brings_back_only_so_much(t *testing.T) {
	p := newParkedPerCommit(t)
	const keys, all = 40, 8000
	p.admit(t, queue.RouteReview, all, keys)
	for more := true; more; {
		more = p.claim(t, queue.AutoResolve, 8, 1).More
	}
	p.lost = 0
	last := map[string]uint64{}
	for got := 0; got < all; {
		res := p.claim(t, queue.RouteReview, all, all)
		if len(res.Deliveries[0]) == 0 {
			t.Fatalf("%d of %d messages were handed out", got, all)
		}
		acks := make([]queue.Settlement, 0, len(res.Deliveries[0]))
		for _, d := range res.Deliveries[0] {
			if key := d.Message.PartitionKey; d.Message.Seq <= last[key] {
				t.Fatalf("seq %d of key %s after %d", d.Message.Seq, key, last[key])
			}
			last[d.Message.PartitionKey] = d.Message.Seq
			acks = append(acks, queue.Settlement{Verb: queue.Ack, Token: d.Token, Owner: queue.Owner{Kind: queue.Worker, Name: "w-0"}, At: p.now, Outcome: "DONE"})
			got++
		}
		if _, err := p.Settle(t.Context(), queue.SettleRequest{Now: p.now, Settlements: acks}); err != nil {
			t.Fatal(err)
		}
	}
	if most := unparkMost + keys*unparkLeast; p.lost == 0 || p.lost > most {
		t.Errorf("a transaction brought back up to %d messages, want at most %d", p.lost, most)
	}
}

// TestWindow_a_walk_for_heads_ends_when_it_has_some: behind a window that is full of what
// nobody wants lie messages of many keys. What a claim needs is found without parking
// what is wanted next.
func TestWindow_a_walk_for_heads_ends_when_it_has_some(t *testing.T) {
	p := newParkedPerCommit(t)
	p.admit(t, queue.RouteReview, 1200, 40)
	p.admit(t, queue.AutoResolve, 6000, 1000)
	p.claim(t, queue.AutoResolve, 8, 1) // finds nothing at hand
	p.grew = 0
	if res := p.claim(t, queue.AutoResolve, 8, 1); len(res.Deliveries[0]) != 8 {
		t.Errorf("%d messages were handed out, want 8", len(res.Deliveries[0]))
	}
	if p.grew > 0 {
		t.Errorf("%d messages were parked, which are wanted next", p.grew)
	}
}
