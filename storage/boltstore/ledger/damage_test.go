package ledger

import (
	"bytes"
	"errors"
	"fmt"
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
			for at := values % 7; at < len(sound); at += 1 + len(sound)/13 {
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
