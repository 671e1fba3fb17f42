package boltstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// What somebody may do to a file while nobody serves it.

// TestStopped_stored_times_of_the_year_2100 changes every deadline and wait in the
// file (B37): a start goes by lengths, not by stored times. A worker's lease ends, a
// consumer's runs its length, and a backoff is never longer than the longest.
func TestStopped_stored_times_of_the_year_2100(t *testing.T) {
	ctx, now := context.Background(), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	policy := queue.Policy{MaxAttempts: 3, MaxDeliveries: 6, RetryInitial: time.Second, RetryMax: time.Minute}
	h := stopped(t, now, policy)
	h.amend(t, func(tx *bolt.Tx) error {
		year2100 := time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC)
		b := tx.Bucket(bucketFlight)
		changed := 0
		for seq := uint64(1); seq <= 3; seq++ {
			f, err := parseFlight(seq, b.Get(seqKey(seq)))
			if err != nil {
				return err
			}
			if f.leased() {
				f.deadline = year2100
			} else {
				f.waitUntil = year2100
			}
			changed++
			if err := b.Put(seqKey(seq), appendFlight(nil, &f)); err != nil {
				return err
			}
		}
		if changed != 3 {
			t.Fatalf("%d were changed", changed)
		}
		return nil
	})
	h.open()
	defer h.close()
	res, err := h.store.Start(ctx, queue.StartRequest{Now: now, Policy: policy})
	if err != nil || res.GaveBack != 1 || res.Kept != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	for seq, want := range map[uint64]queue.Exception{
		1: {State: queue.Ready},
		2: {State: queue.Leased, Owner: "ui", Deadline: now.Add(time.Minute)},
		3: {State: queue.Held, DueAt: now.Add(policy.RetryMax)},
	} {
		x, err := h.store.Exception(ctx, seq)
		if err != nil || x.State != want.State || x.Owner != want.Owner || !x.Deadline.Equal(want.Deadline) || !x.DueAt.Equal(want.DueAt) {
			t.Errorf("seq %d: %s, owner %q, deadline %v, due %v; %v", seq, x.State, x.Owner, x.Deadline, x.DueAt, err)
		}
	}
	back, err := h.store.Reclaim(ctx, queue.ReclaimRequest{Now: now.Add(time.Minute + 1), Policy: policy, Max: 10})
	if err != nil || len(back) != 1 {
		t.Errorf("reclaimed %+v, %v", back, err)
	}
}

// TestStopped_a_row_that_is_gone_is_noticed takes single rows out of the file (B39).
// Without its lease record a message would be handed out as if nobody had ever had
// it, and a message without its own would be missed by nobody. A start says so and
// serves nothing.
func TestStopped_a_row_that_is_gone_is_noticed(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	policy := queue.Policy{MaxAttempts: 3, MaxDeliveries: 6, RetryInitial: time.Second, RetryMax: time.Minute}
	for name, c := range map[string]struct {
		bucket []byte
		nth    int
		want   string
	}{
		"a worker's lease":             {bucketFlight, 0, "3 lease records were written, 2 are there"},
		"a consumer's lease":           {bucketFlight, 1, "3 lease records were written, 2 are there"},
		"the count of failures":        {bucketFlight, 2, "3 lease records were written, 2 are there"},
		"a message that was given out": {bucketBacklog, 0, "a lease record of seq 1, which is not open"},
		"a message":                    {bucketBacklog, 3, "6 seqs were given, and what is open, dead, done and discarded makes 5"},
		"a scheduled message":          {bucketScheduled, 0, "6 seqs were given"},
		"a dead letter":                {bucketDead, 0, "6 seqs were given"},
	} {
		t.Run(name, func(t *testing.T) {
			h := stopped(t, now, policy)
			h.amend(t, func(tx *bolt.Tx) error {
				cursor := tx.Bucket(c.bucket).Cursor()
				at, _ := cursor.First()
				for range c.nth {
					at, _ = cursor.Next()
				}
				if at == nil {
					t.Fatal("there is no such row")
				}
				return cursor.Delete()
			})
			s, err := Open(h.options)
			if !errors.Is(err, dbfile.ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says %v, want %q", err, c.want)
			}
			if err == nil {
				_ = s.Close()
			}
		})
	}
}

// stopped is a store that was closed with a message that a worker has (seq 1), one
// that a consumer has, one that waits for its next attempt, one that is ready, one
// that is scheduled, and a dead letter.
func stopped(t *testing.T, now time.Time, policy queue.Policy) *harness {
	t.Helper()
	ctx, h := context.Background(), newHarness(t, Options{})
	if _, err := h.store.Start(ctx, queue.StartRequest{Now: now, Policy: policy}); err != nil {
		t.Fatal(err)
	}
	r := queue.AdmitRequest{Now: now}
	for i := 1; i <= 5; i++ {
		r.Lines = append(r.Lines, submission(t, i, 10))
	}
	r.Lines[4].Message.NotBefore = now.Add(time.Hour)
	line := []byte("{}")
	r.Lines = append(r.Lines, queue.Submission{
		Message: queue.Message{Line: line}, LineBytes: 2, LineHash: queue.LineHash(line), Fault: &queue.Fault{Field: "idempotency_key", Reason: "is missing"},
	})
	if _, err := h.store.Admit(ctx, r); err != nil {
		t.Fatal(err)
	}
	w, ui := queue.Owner{Kind: queue.Worker, Name: "w"}, queue.Owner{Kind: queue.Consumer, Name: "ui"}
	claimFor(t, h.store, w, now, 1, time.Minute)
	claimFor(t, h.store, ui, now, 1, time.Minute)
	failed := claimFor(t, h.store, ui, now, 1, time.Minute)
	failed[0].Verb = queue.Retry
	res, err := h.store.Settle(ctx, queue.SettleRequest{Now: now, Policy: policy, Settlements: failed})
	if err != nil || res[0].Code != "" {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	return h
}

// amend changes the file of a closed store.
func (h *harness) amend(t *testing.T, change func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(h.options.Path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}
