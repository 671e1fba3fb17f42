package dbfile

import (
	"errors"
	"os"
	"path/filepath"
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

func TestOpen(t *testing.T) {
	t.Run("an absent file is created with what Init puts into it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "sub", "store.db")
		f := mustOpen(t, storeOptions(path))
		if r := f.Report(); !r.Created || !r.Clean || r.MetaFallback {
			t.Errorf("report: %+v", r)
		}
		addRecords(t, f, 0, 10)
		mustClose(t, f)
		f = mustOpen(t, Options{Path: path})
		if r := f.Report(); r.Created || r.Clean {
			t.Errorf("report after a crash: %+v", r)
		}
		if n := countRecords(t, f); n != 10 {
			t.Errorf("%d records, want 10", n)
		}
	})
	t.Run("an open store is locked, and the message names file and process", func(t *testing.T) {
		path := newStore(t, 1)
		mustOpen(t, Options{Path: path})
		for _, ro := range []bool{false, true} {
			_, err := Open(Options{Path: path, ReadOnly: ro, LockTimeout: 1})
			wantKind(t, err, ErrLocked, path, "process")
		}
	})
	t.Run("an empty file is refused and stays empty", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Open(storeOptions(path))
		wantKind(t, err, ErrEmpty, path)
	})
}

func wantKind(t *testing.T, err error, kind Kind, parts ...string) {
	t.Helper()
	var fe *FileError
	if !errors.Is(err, kind) || !errors.As(err, &fe) || fe.Hint == "" {
		t.Fatalf("error %v (%T), want %s with a hint", err, err, kind)
	}
	for _, p := range parts {
		if !contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
}
