package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// damaged returns a machine whose file holds every kind of value: log of both
// heads, sealed log not yet deleted or a half-made segment, segments of two
// tiers, merged inputs not yet deleted.
func damaged(t *testing.T) *machine {
	s := smallSizes()
	s.pace, s.fanIn = 0, 2
	m := newMachine(t, s)
	for n := range 330 {
		m.put(t, []Entry{m.next(n, State(1+n%5))})
		if n < 280 {
			for m.maintain(t, 1000) {
			}
		}
	}
	for len(m.l.jobs) < 2 {
		m.maintain(t, 1)
	}
	m.maintain(t, 700)
	m.commit(t)
	return m
}

// flipped calls fn with one byte of one value flipped, for several bytes of
// every value of the ledger, and puts it right again.
func flipped(t *testing.T, m *machine, fn func(bucket, key []byte, at int)) {
	for _, name := range [][]byte{bucketManifest, bucketLog, bucketBlocks, bucketFilters} {
		values := 0
		b := m.tx.Bucket(name)
		var keys [][]byte
		b.ForEach(func(k, _ []byte) error { keys = append(keys, bytes.Clone(k)); return nil })
		for _, key := range keys {
			sound := bytes.Clone(b.Get(key))
			values++
			for at := values % 7; at < len(sound); at += 1 + len(sound)/5 {
				bad := bytes.Clone(sound)
				bad[at] ^= 1 << (at % 8)
				put(t, b, key, bad)
				fn(name, key, at)
			}
			put(t, b, key, sound)
		}
		if values == 0 {
			t.Fatalf("nothing in bucket %s to damage", name)
		}
	}
}

func put(t *testing.T, b *bolt.Bucket, key, value []byte) {
	t.Helper()
	if err := b.Put(key, value); err != nil {
		t.Fatal(err)
	}
}

// rightOrDamaged reads everything: each answer is the model's or an error that
// says what is damaged.
func rightOrDamaged(t *testing.T, m *machine, l *Ledger, where string) {
	t.Helper()
	for n := range 400 {
		k := numbered(n)
		got, ok, err := l.Get(m.tx, k)
		want, wanted := m.model[k]
		switch {
		case errors.Is(err, queue.ErrDamaged):
		case err != nil || ok != wanted || got != want:
			t.Fatalf("%s: Get = %+v, %v, %v, want %+v, %v", where, got, ok, err, want, wanted)
		}
	}
	seen := 0
	err := l.Walk(m.tx, Key{}, func(e Entry) bool {
		if m.model[e.Key] != e {
			t.Fatalf("%s: Walk gives %+v, want %+v", where, e, m.model[e.Key])
		}
		seen++
		return true
	})
	if !errors.Is(err, queue.ErrDamaged) && (err != nil || seen != len(m.model)) {
		t.Fatalf("%s: Walk saw %d of %d keys: %v", where, seen, len(m.model), err)
	}
}

func TestDamage(t *testing.T) {
	t.Run("never_gives_a_wrong_answer_and_is_always_found", func(t *testing.T) {
		m := damaged(t)
		found := map[string]int{}
		flipped(t, m, func(bucket, key []byte, at int) {
			where := fmt.Sprintf("byte %d of %s %x", at, bucket, key)
			rightOrDamaged(t, m, m.l, where) // flipped under an open ledger
			l, err := openSized(m.tx, m.sizes)
			if err != nil {
				if !errors.Is(err, queue.ErrDamaged) || !bytes.Contains([]byte(err.Error()), bucket) {
					t.Fatalf("%s: Open fails with %v", where, err)
				}
				found["by Open"]++
				return
			}
			rightOrDamaged(t, m, l, where)
			switch err := l.Check(m.tx); {
			case len(l.Repaired()) > 0:
				found["and rebuilt"]++
			case errors.Is(err, queue.ErrDamaged) && bytes.Contains([]byte(err.Error()), bucket):
				found["by Check"]++
			case cleared(m, bucket, key):
				found["after it had ceased to matter"]++
			default:
				t.Fatalf("%s: Check says %v", where, err)
			}
		})
		for _, how := range []string{"by Open", "and rebuilt", "by Check"} {
			if found[how] < 20 {
				t.Errorf("%d flips found %s: %v", found[how], how, found)
			}
		}
	})

	t.Run("of_a_filter_is_mended_in_the_file", func(t *testing.T) {
		m := damaged(t)
		b := m.tx.Bucket(bucketFilters)
		key, sound := b.Cursor().Last()
		sound = bytes.Clone(sound)
		bad := bytes.Clone(sound)
		bad[len(bad)/2] ^= 1
		put(t, b, key, bad)
		m.reopen(t)
		if n := len(m.l.Repaired()); n != 1 {
			t.Fatalf("%d repairs reported, want 1", n)
		}
		m.maintain(t, 1)
		if !bytes.Equal(b.Get(key), sound) {
			t.Error("the piece in the file is not what it was")
		}
		m.reopen(t)
		if n := len(m.l.Repaired()); n != 0 {
			t.Errorf("%d repairs reported after the repair", n)
		}
		m.compare(t)
	})

	t.Run("a_missing_log_value_or_bucket_is_found_by_Open", func(t *testing.T) {
		m := damaged(t)
		if err := m.tx.Bucket(bucketLog).Delete(logKey(m.l.nextLog - 2)); err != nil {
			t.Fatal(err)
		}
		if _, err := openSized(m.tx, m.sizes); !errors.Is(err, queue.ErrDamaged) {
			t.Errorf("a log value is gone and Open says %v", err)
		}
		if err := m.tx.DeleteBucket(bucketFilters); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(m.tx); !errors.Is(err, queue.ErrDamaged) {
			t.Errorf("a bucket is gone and Open says %v", err)
		}
	})
}

// forge stores a value with a right checksum.
func forge(t *testing.T, b *bolt.Bucket, key []byte, body []byte) {
	t.Helper()
	value := append(make([]byte, crcLen), body...)
	sign(key, value)
	put(t, b, key, value)
}

func TestCheck(t *testing.T) {
	// What no flipped bit makes, but a fault of this program might: every
	// checksum is right.
	cases := map[string]func(t *testing.T, m *machine, s *segment){
		"records out of order": func(t *testing.T, m *machine, s *segment) {
			b := m.tx.Bucket(bucketBlocks)
			key, value := b.Cursor().Seek(segmentKey(s.id, Key{}))
			first, rest, _ := cutRecord(value[crcLen:])
			second, rest, _ := cutRecord(rest)
			forge(t, b, key, slices.Concat(second, first, rest))
		},
		"stored under another key": func(t *testing.T, m *machine, s *segment) {
			b := m.tx.Bucket(bucketBlocks)
			key, value := b.Cursor().Seek(segmentKey(s.id, Key{}))
			other := bytes.Clone(key)
			other[len(other)-1]--
			text := bytes.Clone(value[crcLen:])
			if err := b.Delete(key); err != nil {
				t.Fatal(err)
			}
			forge(t, b, other, text)
		},
		"the filter denies": func(t *testing.T, m *machine, s *segment) {
			clear(s.filter.bits)
		},
		"the manifest says": func(t *testing.T, m *machine, s *segment) {
			b := m.tx.Bucket(bucketBlocks)
			key, _ := b.Cursor().Seek(segmentKey(s.id, Key{}))
			if err := b.Delete(key); err != nil {
				t.Fatal(err)
			}
		},
		"in no manifest": func(t *testing.T, m *machine, s *segment) {
			forge(t, m.tx.Bucket(bucketFilters), segmentKey(12345, numbered(1)), make([]byte, pieceLen-crcLen))
		},
		"not a segment's key": func(t *testing.T, m *machine, s *segment) {
			forge(t, m.tx.Bucket(bucketBlocks), []byte("x"), nil)
		},
		"record cut short": func(t *testing.T, m *machine, s *segment) {
			b := m.tx.Bucket(bucketBlocks)
			key, value := b.Cursor().Seek(segmentKey(s.id, Key{}))
			forge(t, b, key, bytes.Clone(value[crcLen:len(value)-1]))
		},
	}
	for what, harm := range cases {
		t.Run("finds_"+strings.ReplaceAll(what, " ", "_"), func(t *testing.T) {
			m := damaged(t)
			if err := m.l.Check(m.tx); err != nil {
				t.Fatal(err)
			}
			harm(t, m, m.l.segments[len(m.l.segments)-1])
			err := m.l.Check(m.tx)
			if !errors.Is(err, queue.ErrDamaged) || !strings.Contains(err.Error(), what) {
				t.Errorf("Check says %v", err)
			}
		})
	}
}

func TestManifest(t *testing.T) {
	for name, text := range map[string]string{
		"not_JSON":                          `{`,
		"of_a_later_format":                 `{"version":2}`,
		"with_too_many_records":             `{"version":1,"segments":[{"id":1,"records":1000000000}]}`,
		"with_fewer_than_no_records":        `{"version":1,"segments":[{"id":1,"records":-1}]}`,
		"with_records_that_are_not_there":   `{"version":1,"segments":[{"id":1,"records":9}]}`,
		"with_a_merge_of_nothing":           `{"version":1,"jobs":[{"level":1}]}`,
		"with_a_merge_of_unknown_segments":  `{"version":1,"segments":[{"id":1}],"jobs":[{"level":1,"inputs":[2]}]}`,
		"with_a_merge_of_strangers":         `{"version":1,"segments":[{"id":3},{"id":2},{"id":1}],"jobs":[{"level":1,"inputs":[3,1]}]}`,
		"with_a_merge_beyond_the_last":      `{"version":1,"segments":[{"id":1}],"jobs":[{"level":1,"inputs":[1,0]}]}`,
		"with_a_frozen_head_beyond_the_log": `{"version":1,"frozen":7}`,
		"with_a_count_beyond_the_log":       `{"version":1,"live_at":7}`,
	} {
		t.Run(name+"_is_refused", func(t *testing.T) {
			m := newMachine(t, smallSizes())
			forge(t, m.tx.Bucket(bucketManifest), manifestKey, []byte(text))
			if l, err := Open(m.tx); err == nil {
				t.Errorf("opened: %+v", l)
			}
		})
	}
}

// cleared says whether a key belongs to what a job is about to delete: nothing
// reads it any more.
func cleared(m *machine, bucket, key []byte) bool {
	for _, j := range m.l.jobs {
		for _, id := range j.inputs {
			if j.clearing && bytes.Equal(bucket, bucketBlocks) && ofSegment(key, id) {
				return true
			}
		}
	}
	return false
}
