package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// expired makes everything in a store old enough to be trimmed, and returns the request
// that trims it.
func expired(t testing.TB, s *Store, now time.Time) queue.TrimRequest {
	t.Helper()
	r := queue.ExpireRequest{Now: now, Passed: time.Hour, Ledger: time.Hour}
	for range 6 {
		if err := s.Note(t.Context(), now, []queue.Record{{Event: queue.EventAttached}}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Expire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	return queue.TrimRequest{Now: now, Audit: time.Hour}
}

// trimAll trims as much as there is to trim.
func trimAll(t testing.TB, s *Store, r queue.TrimRequest) (removed int) {
	t.Helper()
	for {
		res, err := s.Trim(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		if removed += res.Records; !res.More {
			return removed
		}
	}
}

// verified wants a verification without findings.
func verified(t testing.TB, s *Store) queue.Verification {
	t.Helper()
	v, err := s.Verify(context.Background(), queue.VerifyOptions{Buckets: true})
	if err != nil || len(v.Findings) > 0 {
		t.Errorf("verify: %+v, %v", v.Findings, err)
	}
	return v
}

func TestTrim_takes_its_share_of_the_index_and_the_file_with_it(t *testing.T) {
	h, began := livedIn(t, Options{spans: spanLimits{bytes: 8000, blocks: 4}}, 60, 40)
	defer h.close()
	keys := func(bucket []byte) (n int) {
		if err := h.store.view(func(tx *bolt.Tx) error { n = tx.Bucket(bucket).Stats().KeyN; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	blocks, spans := keys(bucketAudit), keys(bucketTrailIndex)
	removed := trimAll(t, h.store, expired(t, h.store, began.Add(48*time.Hour)))
	if removed < 3*60*40-200 || keys(bucketAudit) > blocks/2 || keys(bucketTrailIndex) > spans/2 {
		t.Errorf("%d records were removed; of %d blocks there are %d, of %d spans %d",
			removed, blocks, keys(bucketAudit), spans, keys(bucketTrailIndex))
	}
	verified(t, h.store)
	h.reopen()
	if _, err := h.store.Start(t.Context(), queue.StartRequest{Now: began.Add(49 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	verified(t, h.store)
	all := recordsOf(t, h.store, queue.TrailQuery{})
	for _, q := range []queue.TrailQuery{{Seq: 1}, {Seq: all[0].Seq}, {Since: all[len(all)/2].TS}, {AfterN: 5}} {
		compareQuery(t, h.store, all, q)
	}
	if err := h.store.view(func(tx *bolt.Tx) error {
		first, _ := tx.Bucket(bucketTrailIndex).Cursor().First()
		if block, _ := tx.Bucket(bucketAudit).Cursor().First(); first != nil && binary.BigEndian.Uint64(first) < binary.BigEndian.Uint64(block) {
			t.Errorf("there is a filter of blocks up to %d, the first block is %d", binary.BigEndian.Uint64(first), binary.BigEndian.Uint64(block))
		}
		if n := tx.Bucket(bucketEpochs).Stats().KeyN; n > 2 {
			t.Errorf("%d epochs are kept, on which nothing depends", n)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
}

// A verification began with a block that trimming would remove under it.
func TestTrim_waits_for_who_verifies(t *testing.T) {
	h, began := livedIn(t, Options{}, 100, 1)
	defer h.close()
	r := expired(t, h.store, began.Add(48*time.Hour))
	calls := 0
	v, err := h.store.Verify(t.Context(), queue.VerifyOptions{Progress: func(int64, int64) {
		calls++
		if res, err := h.store.Trim(t.Context(), r); err != nil || res != (queue.TrimResult{}) {
			t.Errorf("trimmed meanwhile: %+v, %v", res, err)
		}
	}})
	if err != nil || len(v.Findings) > 0 || calls < 2 {
		t.Errorf("verify: %+v, %v, told of its progress %d times", v.Findings, err, calls)
	}
	if trimAll(t, h.store, r) == 0 {
		t.Error("and nothing was trimmed afterwards")
	}
}

// The witness may be of a head whose block was trimmed since: it is judged by what is
// known of that.
func TestTrim_and_the_witness(t *testing.T) {
	h, began := livedIn(t, Options{}, 50, 1)
	defer func() { h.close() }()
	trimAll(t, h.store, expired(t, h.store, began.Add(48*time.Hour)))
	var opening queue.Opening
	if err := h.store.look(t.Context(), func(x *txn) error { opening = x.t.opening; return nil }); err != nil {
		t.Fatal(err)
	}
	other := opening.Before
	other.Hash[3]++
	for name, c := range map[string]struct {
		seen    queue.Head
		refused bool
	}{
		"the last head before":             {opening.Before, false},
		"another block in its place":       {other, true},
		"one long before":                  {queue.Head{Block: opening.Before.Block - 3}, false},
		"one that is kept, but is another": {queue.Head{Block: opening.Before.Block + 1}, true},
	} {
		err := h.store.file.DB().View(func(tx *bolt.Tx) error { return h.store.compareWitness(tx, h.store.t.count.head, c.seen) })
		if refused := errors.Is(err, dbfile.ErrRolledBack); refused != c.refused || !refused && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What the file says of where its trail begins must be what the trail says.
func TestTrim_an_opening_that_was_changed_is_found(t *testing.T) {
	h, began := livedIn(t, Options{}, 50, 1)
	defer h.close()
	r := expired(t, h.store, began.Add(48*time.Hour))
	trimAll(t, h.store, r)
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*queue.Opening){
		"a later head":  func(o *queue.Opening) { o.Before.Hash[0]++ },
		"a later seq":   func(o *queue.Opening) { o.LastSeq++ },
		"fewer decided": func(o *queue.Opening) { o.Sums.Decided-- },
		"no trimming":   func(o *queue.Opening) { *o = queue.Opening{} },
		"another record that says so": func(o *queue.Opening) {
			o.Record--
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := h.options
			o.Path = t.TempDir() + "/copy.db"
			copyFile(t, h.options.Path, o.Path)
			harmFile(t, o.Path, func(tx *bolt.Tx) error {
				meta := tx.Bucket(bucketMeta)
				opening, err := parseOpening(meta.Get(metaOpening))
				change(&opening)
				return errors.Join(err, meta.Put(metaOpening, appendOpening(nil, &opening)))
			})
			s, err := openLight(t, OpenCopy, o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if v, err := s.Verify(t.Context(), queue.VerifyOptions{}); err != nil || len(v.Findings) == 0 {
				t.Errorf("no findings (%v)", err)
			}
		})
	}
}

// BenchmarkTrim measures one step on a trail whose messages are all over, and on one
// whose messages are all open, so that every ACCEPTED is copied.
func BenchmarkTrim(b *testing.B) {
	for name, settle := range map[string]bool{"over": true, "open": false} {
		b.Run(name, func(b *testing.B) {
			h := newHarness(b, Options{})
			defer h.close()
			now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
			if _, err := h.store.Start(b.Context(), queue.StartRequest{Now: now}); err != nil {
				b.Fatal(err)
			}
			for i := 0; i < 40_000; i += 500 {
				lines := make([]queue.Submission, 500)
				for j := range lines {
					lines[j] = submission(b, i+j, 1000)
				}
				if _, err := h.store.Admit(b.Context(), queue.AdmitRequest{Now: now, Lines: lines}); err != nil {
					b.Fatal(err)
				}
				if settle {
					w := parkWant(1000)
					if err := ackSome(h.store, now, w); err != nil {
						b.Fatal(err)
					}
				}
			}
			r := expired(b, h.store, now)
			steps, records, copies := 0, 0, 0
			var longest time.Duration
			for b.Loop() {
				began := time.Now()
				res, err := h.store.Trim(b.Context(), r)
				if err != nil {
					b.Fatal(err)
				}
				if res.Records == 0 {
					b.Skip("all is trimmed: run it with -benchtime 50x")
				}
				longest = max(longest, time.Since(began))
				steps, records, copies = steps+1, records+res.Records, copies+res.Copies
			}
			b.ReportMetric(float64(records)/float64(steps), "records/step")
			b.ReportMetric(float64(copies)/float64(steps), "copies/step")
			b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest")
		})
	}
}

// parkWant asks for as many messages as there are.
func parkWant(n int) queue.Want {
	return queue.Want{
		Owner: parkOwner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: n, PerKey: n, Lease: time.Hour,
	}
}
