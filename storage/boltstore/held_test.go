package boltstore

import (
	"context"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// A message whose stored bytes went bad while a consumer held it is named and left
// out; the others come, and the store lives on.
func TestTakeOver_leaves_out_what_cannot_be_read_back(t *testing.T) {
	ctx, now := context.Background(), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	s := heldStore(t, now)
	err := s.file.DB().Update(func(tx *bolt.Tx) error {
		rec := tx.Bucket(bucketBacklog).Get(seqKey(2))
		bad := append([]byte(nil), rec...)
		bad[len(bad)-2] ^= 1
		return tx.Bucket(bucketBacklog).Put(seqKey(2), bad)
	})
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.TakeOver(ctx, queue.TakeOverRequest{Now: now, Owner: heldBy})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Deliveries) != 2 || res.Deliveries[0].Token.Seq != 1 || res.Deliveries[1].Token.Seq != 3 {
		t.Errorf("delivered again: %+v", res.Deliveries)
	}
	if len(res.Damaged) != 1 || res.Damaged[0].Seq != 2 || res.Damaged[0].What == "" {
		t.Errorf("damaged: %+v", res.Damaged)
	}
	got, err := s.Revoke(ctx, queue.Action{Now: now}, queue.Policy{MaxDeliveries: 6}, []queue.LeaseRef{{Seq: 2}})
	if err != nil || got[0].Code != "" {
		t.Fatalf("revoke: %+v, %v", got, err)
	}
	next := claimAll(t, s, queue.Owner{Kind: queue.Consumer, Name: "other"}, now, 10, time.Minute)
	if len(next.Deliveries[0]) != 0 || len(next.Damaged) != 1 || next.Damaged[0].Seq != 2 {
		t.Errorf("the next claim: %+v", next)
	}
	if err := s.Probe(ctx); err != nil {
		t.Error(err)
	}
}

// A copy says who held what when it was made.
func TestLeases_of_a_copy(t *testing.T) {
	ctx, now := context.Background(), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	s := heldStore(t, now)
	want, err := s.Leases(ctx, 0, 10)
	if err != nil || len(want) != 3 {
		t.Fatalf("%d leases, %v", len(want), err)
	}
	to := t.TempDir() + "/copy.db"
	copyFile(t, s.options.Path, to)
	c, err := OpenCopy(Options{Path: to})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for after := uint64(0); after < 3; after++ {
		got, err := c.Leases(ctx, after, 1)
		if err != nil || len(got) != 1 {
			t.Fatalf("after %d: %d leases, %v", after, len(got), err)
		}
		w := want[after]
		if l := got[0]; l.Token != w.Token || l.Owner != w.Owner || l.Route != w.Route || l.Number != w.Number ||
			!l.Deadline.Equal(w.Deadline) || !l.Since.Equal(now) || l.Message.IdempotencyKey != w.Message.IdempotencyKey {
			t.Errorf("after %d: %+v, want %+v", after, l, w)
		}
	}
	if got, err := c.TakeOver(ctx, queue.TakeOverRequest{Now: now, Owner: heldBy}); err != nil || len(got.Deliveries) != 3 {
		t.Errorf("a look at what one consumer holds: %+v, %v", got, err)
	}
}

var heldBy = queue.Owner{Kind: queue.Consumer, Name: "ui", UID: 7}

// heldStore is a store with three messages of three keys, which one consumer holds.
func heldStore(t *testing.T, now time.Time) *Store {
	t.Helper()
	h := newHarness(t, Options{})
	t.Cleanup(h.close)
	ctx := context.Background()
	if _, err := h.store.Start(ctx, queue.StartRequest{Now: now, Policy: queue.Policy{MaxAttempts: 3, MaxDeliveries: 6}}); err != nil {
		t.Fatal(err)
	}
	lines := []queue.Submission{submission(t, 1, 10), submission(t, 2, 10), submission(t, 3, 10)}
	if _, err := h.store.Admit(ctx, queue.AdmitRequest{Now: now, Lines: lines}); err != nil {
		t.Fatal(err)
	}
	if n := len(claimFor(t, h.store, heldBy, now, 10, time.Minute)); n != 3 {
		t.Fatalf("%d leases", n)
	}
	return h.store
}
