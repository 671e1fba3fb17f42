package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
)

// TestDamaged_is_one_message spoils what is stored of one message, whatever that is.
// The store starts, answers everything, hands out whatever is of another key or comes
// before it, and nothing else.
func TestDamaged_is_one_message(t *testing.T) {
	sp := newSpecimen(t)
	rng := damageDice(t, 5)
	path := filepath.Join(t.TempDir(), "breakwater.db")
	sp.write(t, path, sp.body)
	sound := worked(t, path, nil)
	if len(sound.delivered) < 40 {
		t.Fatalf("of the specimen only %d messages are handed out", len(sound.delivered))
	}
	for _, bucket := range [][]byte{bucketBacklog, bucketScheduled, bucketDead, bucketFlight} {
		t.Run(string(bucket), func(t *testing.T) {
			for range max(3, *damageRounds/4) {
				sp.write(t, path, sp.body)
				v := spoil(t, rng, path, bucket)
				sp.compare(t, &sound, worked(t, path, &v), &v)
			}
		})
	}
}

// victim is what was spoilt.
type victim struct {
	bucket []byte
	seq    uint64
	key    string
	place  queue.Place
	line   []byte
}

// spoil changes a byte of a random value of a bucket, and nothing else.
func spoil(t *testing.T, rng *rand.Rand, path string, bucket []byte) (v victim) {
	t.Helper()
	v.bucket = bucket
	amendFile(t, path, func(tx *bolt.Tx) error {
		b := tx.Bucket(bucket)
		var keys [][]byte
		if err := b.ForEach(func(at, _ []byte) error { keys = append(keys, bytes.Clone(at)); return nil }); err != nil {
			return err
		}
		at := keys[rng.IntN(len(keys))]
		value := bytes.Clone(b.Get(at))
		v.meet(t, tx, at, value)
		value[rng.IntN(len(value))] ^= byte(1 + rng.IntN(255))
		return b.Put(at, value)
	})
	return v
}

// meet finds out which message it is.
func (v *victim) meet(t *testing.T, tx *bolt.Tx, at, value []byte) {
	t.Helper()
	rec := value
	switch {
	case bytes.Equal(v.bucket, bucketDead):
		d, err := parseDead(binary.BigEndian.Uint64(at), value)
		if err != nil {
			t.Fatal(err)
		}
		rec, v.place = d.record, d.place()
	case bytes.Equal(v.bucket, bucketFlight):
		x := &txn{tx: tx, b: bucketsOf(tx)}
		var where []byte
		where, rec = x.locate(binary.BigEndian.Uint64(at))
		v.place, _ = queue.ParsePlaceKey(where)
	case bytes.Equal(v.bucket, bucketBacklog):
		v.place, _ = queue.ParsePlaceKey(at)
	}
	m, err := parseRecord(rec)
	if err != nil {
		t.Fatal(err)
	}
	v.seq, v.key, v.line = m.msg.Seq, m.msg.PartitionKey, m.msg.Line
}

// work is what a store did: what it handed out, in order, and of which key.
type work struct {
	delivered []uint64
	keys      map[uint64]string
	places    map[uint64]queue.Place
}

// worked takes a file into service, asks everything, settles everything that it is
// given, and stops it; twice, since what a start has seen the next one must not forget.
func worked(t *testing.T, path string, v *victim) (w work) {
	t.Helper()
	w = work{keys: map[uint64]string{}, places: map[uint64]queue.Place{}}
	now := time.Date(2026, 3, 9, 9, 0, 0, 0, time.UTC)
	for range 2 {
		o := damageOptions
		o.Path = path
		s, err := openLight(t, Open, o)
		if err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		if v != nil && len(s.Report().Warnings) == 0 && v.lasts() {
			t.Errorf("%+v: no warning", v)
		}
		w.through(t, s, now, v)
		if err := s.Close(); err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
		now = now.Add(24 * time.Hour)
	}
	return w
}

// lasts reports whether a start sees the damage: a scheduled message is read when it
// falls due.
func (v *victim) lasts() bool { return !bytes.Equal(v.bucket, bucketScheduled) }

// through is one life of the store.
func (w *work) through(t *testing.T, s *Store, now time.Time, v *victim) {
	t.Helper()
	ctx, act := context.Background(), queue.Action{Now: now, By: "alice"}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%+v: %v", v, err)
		}
	}
	policy := queue.Policy{MaxAttempts: 9, MaxDeliveries: 9, RetryInitial: time.Second, RetryMax: time.Hour}
	_, err := s.Start(ctx, queue.StartRequest{Now: now, Policy: policy, Version: "1", Config: []byte(`{"a":1}`)})
	must(err)
	must(s.Resume(ctx, act))
	_, err = s.ReleaseKeys(ctx, act, []string{"held"})
	must(err)
	w.ask(t, s, now, v)
	now = now.Add(3 * time.Hour) // what consumers held is over
	_, err = s.Reclaim(ctx, queue.ReclaimRequest{Now: now, Policy: policy, Max: 100})
	must(err)
	owner := queue.Owner{Kind: queue.Worker, Name: "w"}
	for {
		res, err := s.Claim(ctx, queue.ClaimRequest{Now: now, Wants: []queue.Want{{
			Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: 100, PerKey: 3, Lease: time.Hour,
		}}})
		must(err)
		if len(res.Deliveries[0]) == 0 && !res.More {
			break
		}
		r := queue.SettleRequest{Now: now}
		for _, d := range res.Deliveries[0] {
			w.delivered = append(w.delivered, d.Message.Seq)
			w.keys[d.Message.Seq] = d.Message.PartitionKey
			e, err := s.Exception(ctx, d.Message.Seq)
			must(err)
			w.places[d.Message.Seq] = e.Place
			r.Settlements = append(r.Settlements, queue.Settlement{Token: d.Token, Owner: owner, Verb: queue.Ack, At: now, Outcome: "DONE"})
		}
		_, err = s.Settle(ctx, r)
		must(err)
	}
	w.ask(t, s, now, v)
}

// ask asks everything that can be asked, and sends the spoilt line again.
func (w *work) ask(t *testing.T, s *Store, now time.Time, v *victim) {
	t.Helper()
	ctx := context.Background()
	st, err := s.Status(ctx, now)
	if err != nil {
		t.Fatalf("%+v: status: %v", v, err)
	}
	if open, err := s.Exceptions(ctx, 0, MaxPage); err != nil || int64(len(open)) != st.Backlog() {
		t.Fatalf("%+v: %d open ones are listed, %d counted: %v", v, len(open), st.Backlog(), err)
	}
	letters, err := s.DeadLetters(ctx, queue.LetterQuery{Limit: MaxPage})
	if err != nil || int64(len(letters.Letters)) != st.Dead {
		t.Fatalf("%+v: %d letters are listed, %d counted: %v", v, len(letters.Letters), st.Dead, err)
	}
	if v == nil {
		return
	}
	if v.lasts() && st.Damaged == 0 {
		t.Errorf("%+v: the status says of no damage", v)
	}
	e, err := s.Exception(ctx, v.seq)
	if err != nil || e.Seq != v.seq {
		t.Errorf("%+v: %+v, %v", v, e, err)
	}
	if unread := !bytes.Equal(v.bucket, bucketFlight) && v.lasts(); unread && (len(e.Line) > 0 || !strings.HasSuffix(e.HeldBy, "are damaged")) {
		t.Errorf("%s: it is shown as if it could be read: %+v", v, e)
	}
	m, err := queue.ParseLine(v.line)
	if err != nil {
		return // a line that no gate lets in
	}
	res, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: []queue.Submission{
		{Message: m, LineBytes: int64(len(v.line)), LineHash: queue.LineHash(v.line)},
	}})
	if err != nil || res.Receipts[0].Status != queue.Duplicate && res.Receipts[0].Status != queue.Conflict {
		t.Errorf("%+v: sent again it is answered %+v, %v", v, res, err)
	}
	v.operate(t, s, now)
}

// operate tries what an operator may try with a letter.
func (v *victim) operate(t *testing.T, s *Store, now time.Time) {
	t.Helper()
	if !bytes.Equal(v.bucket, bucketDead) {
		return
	}
	ctx, act := context.Background(), queue.Action{Now: now, By: "alice"}
	res, err := s.Replay(ctx, act, []uint64{v.seq})
	if err != nil || res[0].Code != queue.CodeInternal || !strings.Contains(res[0].Error, "damaged") {
		t.Errorf("%+v: replayed: %+v, %v", v, res, err)
	}
	edited, err := s.Edit(ctx, act, []queue.Edit{{Seq: v.seq, Was: queue.LineHash(v.line), Line: v.line}})
	if err != nil || edited[0].Code != queue.CodeInternal {
		t.Errorf("%+v: edited: %+v, %v", v, edited, err)
	}
}

// compare wants everything to have been handed out that is not of the victim's key, or
// comes before it there.
func (sp *specimen) compare(t *testing.T, sound *work, got work, v *victim) {
	t.Helper()
	blocked := v.place
	if bytes.Equal(v.bucket, bucketScheduled) { // its place it gets when it falls due
		blocked = queue.Place{}
	}
	for _, seq := range sound.delivered {
		of := sound.keys[seq] == v.key
		switch handed := slices.Contains(got.delivered, seq); {
		case of && bytes.Equal(v.bucket, bucketScheduled):
			if handed && seq == v.seq {
				t.Errorf("%s: it was handed out", v)
			}
		case of && (seq == v.seq || !blocked.IsZero() && !sound.places[seq].Less(blocked)) && !bytes.Equal(v.bucket, bucketFlight):
			if handed {
				t.Errorf("%s: seq %d was handed out, at or past it", v, seq)
			}
		case of: // whether it may go depends on what is not known
		case !handed:
			t.Errorf("%s: seq %d of key %q was not handed out", v, seq, sound.keys[seq])
		}
	}
	for _, seq := range got.delivered {
		if line, ok := sp.lines[seq]; !ok || line == "" {
			t.Errorf("%s: seq %d was handed out and is none of the specimen's", v, seq)
		}
	}
}

// String names a victim.
func (v *victim) String() string {
	return fmt.Sprintf("seq %d at place %s of key %q, spoilt in bucket %s", v.seq, v.place, v.key, v.bucket)
}

// TestDamaged_letter_can_be_discarded: that is the way out where nobody has a copy.
func TestDamaged_letter_can_be_discarded(t *testing.T) {
	sp := newSpecimen(t)
	path := filepath.Join(t.TempDir(), "breakwater.db")
	sp.write(t, path, sp.body)
	var v victim
	rng := rand.New(rand.NewPCG(1, 1))
	for v.key != "dead" {
		sp.write(t, path, sp.body)
		v = spoil(t, rng, path, bucketDead)
	}
	o := damageOptions
	o.Path = path
	s, err := openLight(t, Open, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, now := context.Background(), time.Date(2026, 3, 9, 9, 0, 0, 0, time.UTC)
	_, err = s.Start(ctx, queue.StartRequest{Now: now, Version: "1"})
	res, err2 := s.Discard(ctx, queue.Action{Now: now, By: "alice", Reason: "its bytes are lost"}, []uint64{v.seq})
	st, err3 := s.Status(ctx, now)
	e, err4 := s.Exception(ctx, v.seq)
	if err := errors.Join(err, err2, err3, err4); err != nil || res[0].Code != "" || st.Damaged != 0 || e.State != queue.Discarded {
		t.Fatalf("%+v, %+v, %+v, %v", res, st, e, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := sp.verify(t, path); len(got.Findings) > 0 {
		t.Errorf("%+v", got.Findings)
	}
}

// TestDamaged_beyond_what_the_trail_knows ends the start, in words.
func TestDamaged_beyond_what_the_trail_knows(t *testing.T) {
	sp := newSpecimen(t)
	path := filepath.Join(t.TempDir(), "breakwater.db")
	sp.write(t, path, sp.body)
	v := spoil(t, rand.New(rand.NewPCG(1, 1)), path, bucketBacklog)
	amendFile(t, path, func(tx *bolt.Tx) error { // and every block that names it
		audit := tx.Bucket(bucketAudit)
		bad := map[string][]byte{}
		err := audit.ForEach(func(at, data []byte) error {
			b, err := queue.ParseBlock(binary.BigEndian.Uint64(at), data)
			if err == nil && bytes.Contains(b.Plain, fmt.Appendf(nil, `"seq":%d,`, v.seq)) {
				data = bytes.Clone(data)
				data[len(data)-1] ^= 1
				bad[string(at)] = data
			}
			return nil
		})
		for at, data := range bad {
			err = errors.Join(err, audit.Put([]byte(at), data))
		}
		return err
	})
	o := damageOptions
	o.Path = path
	_, err := Open(o)
	if err == nil || !errors.Is(err, queue.ErrDamaged) && !strings.Contains(err.Error(), "damaged") ||
		!strings.Contains(err.Error(), fmt.Sprintf("does not say what seq %d was", v.seq)) {
		t.Fatalf("%v", err)
	}
}
