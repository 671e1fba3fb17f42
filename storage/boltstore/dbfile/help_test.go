package dbfile

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

var testBucket = []byte("things")

// newStore makes a store with one bucket and n records, and closes it without
// the clean mark.
func newStore(t testing.TB, n int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "store.db")
	f := mustOpen(t, storeOptions(path))
	addRecords(t, f, 0, n)
	mustClose(t, f)
	return path
}

func storeOptions(path string) Options {
	return Options{Path: path, Init: func(tx *bolt.Tx) error {
		_, err := tx.CreateBucket(testBucket)
		return err
	}}
}

func mustOpen(t testing.TB, o Options) *File {
	t.Helper()
	f, err := Open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func mustClose(t testing.TB, f *File) {
	t.Helper()
	if err := f.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
}

func contains(s, part string) bool { return strings.Contains(s, part) }

// addRecords commits records from..to-1, a hundred to a transaction, with
// values of several sizes: some pages of a real store overflow.
func addRecords(t testing.TB, f *File, from, to int) {
	t.Helper()
	for from < to {
		end := min(from+100, to)
		err := f.DB().Update(func(tx *bolt.Tx) error {
			for i := from; i < end; i++ {
				value := strings.Repeat(fmt.Sprintf("value %d;", i), 1+i%50)
				if i%97 == 0 {
					value = strings.Repeat(value, 200)
				}
				if err := tx.Bucket(testBucket).Put(fmt.Appendf(nil, "key %08d", i), []byte(value)); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("add records: %v", err)
		}
		from = end
	}
}

func countRecords(t testing.TB, f *File) int {
	t.Helper()
	n := 0
	err := f.DB().View(func(tx *bolt.Tx) error {
		return tx.Bucket(testBucket).ForEach(func(_, _ []byte) error { n++; return nil })
	})
	if err != nil {
		t.Fatalf("count records: %v", err)
	}
	return n
}
