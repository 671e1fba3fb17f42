package boltstore

import (
	"bytes"
	"context"
	"path/filepath"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
)

// stray changes a byte of an entry of bucket parked, which all is key: of the hash of the
// partition key, or of the place.
func stray(t *testing.T, tx *bolt.Tx, pick func(n int) int) {
	t.Helper()
	b := tx.Bucket(bucketParked)
	var entries [][]byte
	if err := b.ForEach(func(at, _ []byte) error { entries = append(entries, bytes.Clone(at)); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(entries) == 0 {
		t.Fatal("nothing is parked")
	}
	at := entries[pick(len(entries))]
	bad := bytes.Clone(at)
	bad[pick(len(bad))] ^= byte(1 + pick(255))
	if err := b.Delete(at); err != nil {
		t.Fatal(err)
	}
	if err := b.Put(bad, nil); err != nil {
		t.Fatal(err)
	}
}

// TestStrayed_before_a_start: what is parked is listed for the memory's sake alone. A
// start holds the list against the messages, and all are handed out, in their order.
func TestStrayed_before_a_start(t *testing.T) {
	sp := newSpecimen(t)
	rng := damageDice(t, 11)
	path := filepath.Join(t.TempDir(), "breakwater.db")
	sp.write(t, path, sp.body)
	sound := worked(t, path, nil)
	slices.Sort(sound.delivered)
	for range max(6, *damageRounds/2) {
		sp.write(t, path, sp.body)
		amendFile(t, path, func(tx *bolt.Tx) error { stray(t, tx, rng.IntN); return nil })
		w := worked(t, path, nil)
		last := map[string]queue.Place{}
		for _, seq := range w.delivered {
			if key := w.keys[seq]; !last[key].Less(w.places[seq]) {
				t.Errorf("seq %d of key %q was handed out after a later one", seq, key)
			} else {
				last[key] = w.places[seq]
			}
		}
		slices.Sort(w.delivered)
		if !slices.Equal(w.delivered, sound.delivered) {
			t.Errorf("handed out %d, want %d", len(w.delivered), len(sound.delivered))
		}
	}
}

// TestStrayed_while_it_runs: an entry that leads nowhere when it is met holds its key, and
// no other. After the next start all is as if nothing had been.
func TestStrayed_while_it_runs(t *testing.T) {
	t.Run("leads to nothing", func(t *testing.T) { strayedLive(t, 0xff) })
	t.Run("leads to another key's", func(t *testing.T) { strayedLive(t, 43) })
}

// strayedLive has the first parked entry of 40 messages of a key lead to another place: 41
// to 45 are another key's, and behind them is nothing.
func strayedLive(t *testing.T, leads byte) {
	ctx, now := context.Background(), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	var told []string
	o := damageOptions
	o.Path, o.Damaged = filepath.Join(t.TempDir(), "breakwater.db"), func(what string) { told = append(told, what) }
	open := func() *Store {
		s, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(ctx, queue.StartRequest{Now: now, Version: "1"}); err != nil {
			t.Fatal(err)
		}
		return s
	}
	s := open()
	l := &liver{t: t, h: &harness{store: s}, sp: &specimen{}, ctx: ctx, now: now, commits: 1 << 40}
	for range 40 {
		l.admit(l.line("hot", ""))
	}
	for range 5 {
		l.admit(l.line("other", ""))
	}
	err := s.do(ctx, &operation{apply: func(x *txn) error {
		x.dirty = true
		c := x.b.parked.Cursor()
		at, _ := c.First()
		bad := bytes.Clone(at)
		bad[len(bad)-1] = leads
		if err := x.b.parked.Delete(bytes.Clone(at)); err != nil {
			return err
		}
		return x.b.parked.Put(bad, nil)
	}})
	if err != nil {
		t.Fatal(err)
	}
	owner := queue.Owner{Kind: queue.Worker, Name: "w"}
	drain := func() (n int) {
		for range 100 {
			res, err := s.Claim(ctx, queue.ClaimRequest{Now: now, Wants: []queue.Want{{
				Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: 3, PerKey: 3, Lease: time.Hour,
			}}})
			if err != nil {
				t.Fatal(err)
			}
			n += len(res.Deliveries[0])
			l.settle(owner, queue.Ack, res.Deliveries[0]...)
		}
		return n
	}
	// What is at the place that the entry leads to must still be there when it is met.
	byHand := queue.Action{Now: now, By: "test"}
	if _, err := s.HoldKeys(ctx, byHand, []string{"other"}); err != nil {
		t.Fatal(err)
	}
	before := drain()
	st, err := s.Status(ctx, now)
	if err != nil || st.Damaged != 1 || st.BlockedKeys != 1 || len(told) != 1 {
		t.Errorf("%d were handed out; damaged %d, blocked keys %d, told %q, %v", before, st.Damaged, st.BlockedKeys, told, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open()
	l.h.store = s
	defer s.Close()
	if _, err := s.ReleaseKeys(ctx, byHand, []string{"other"}); err != nil {
		t.Fatal(err)
	}
	if after := drain(); before+after != 45 || before == 0 {
		t.Errorf("%d of 45 were handed out before the next start, and %d after it", before, after)
	}
	if st, err := s.Status(ctx, now); err != nil || st.Damaged != 0 || st.BlockedKeys != 0 || st.OpenKeys != 0 {
		t.Errorf("after the next start: %+v, %v", st, err)
	}
	l.admit(l.line("hot", ""))
	if n := drain(); n != 1 {
		t.Errorf("the key does not go on: %d handed out", n)
	}
}
