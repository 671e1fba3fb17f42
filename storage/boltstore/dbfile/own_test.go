package dbfile

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// strangers are what may lie under a name that we give to a file of our own.
var strangers = map[string]func(path, victim string) error{
	"a link":         func(path, victim string) error { return os.Symlink(victim, path) },
	"a broken link":  func(path, _ string) error { return os.Symlink(path+".nowhere", path) },
	"a folder":       func(path, _ string) error { return os.Mkdir(path, 0o700) },
	"a pipe":         func(path, _ string) error { return unix.Mkfifo(path, 0o600) },
	"a socket":       func(path, _ string) error { return listenAt(path) },
	"a link to null": func(path, _ string) error { return os.Symlink(os.DevNull, path) },
}

// listenAt leaves a socket that nobody listens on.
func listenAt(path string) error {
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	return l.Close()
}

// TestOwnNames: what has the name of a file of ours and is no file is named, with a hint
// that fits, and is neither waited for, followed, overwritten nor removed.
func TestOwnNames(t *testing.T) {
	inTemp := func(t *testing.T) string {
		dir, err := os.MkdirTemp("", "bw") // t.TempDir is too long for a socket
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		return dir
	}
	opened := func(path string) error {
		f, err := Open(storeOptions(path))
		if err == nil {
			err = errors.Join(f.Close(), errors.New("it was opened"))
		}
		return err
	}
	witnessed := func(path string) error {
		w, err := OpenWitness(path+WitnessSuffix, someWitness(1))
		if err == nil {
			err = errors.Join(w.Close(), errors.New("it was opened"))
		}
		return err
	}
	for _, own := range []struct {
		what string
		name func(store string) string
		meet func(store string) error
	}{
		{"the lock", func(s string) string { return s + lockSuffix }, opened},
		{"a new store", creatingPath, opened},
		{"a compaction, met by a start", CompactingPath, opened},
		{"the witness", func(s string) string { return s + WitnessSuffix }, witnessed},
		{"a new witness", func(s string) string { return creatingPath(s + WitnessSuffix) }, witnessed},
	} {
		for stranger, put := range strangers {
			t.Run(own.what+"/"+stranger, func(t *testing.T) {
				dir := inTemp(t)
				store, victim := filepath.Join(dir, "s.db"), filepath.Join(dir, "victim")
				if err := os.WriteFile(victim, []byte("somebody's"), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := put(own.name(store), victim); err != nil {
					t.Fatal(err)
				}
				before := mustStatLink(t, own.name(store))
				err := own.meet(store)
				wantKind(t, err, ErrNotRegular, own.name(store))
				var fe *FileError
				if errors.As(err, &fe); !contains(fe.Hint, "move it away") {
					t.Errorf("hint: %s", fe.Hint)
				}
				if !os.SameFile(before, mustStatLink(t, own.name(store))) {
					t.Error("it was replaced")
				}
				if text, err := os.ReadFile(victim); string(text) != "somebody's" || err != nil {
					t.Errorf("followed: %q, %v", text, err)
				}
				if left := names(t, dir); slices.Contains(left, "s.db") {
					t.Errorf("made: %v", left)
				}
			})
		}
	}
}

// TestOwnNames_that_come_in_between: the last look was before somebody put something
// there. It is not followed, and not taken for a leftover of ours.
func TestOwnNames_that_come_in_between(t *testing.T) {
	for stranger, put := range strangers {
		if stranger == "a folder" || stranger == "a socket" || stranger == "a pipe" {
			continue // O_EXCL knows them like a file
		}
		t.Run(stranger, func(t *testing.T) {
			dir := t.TempDir()
			tmp, victim := filepath.Join(dir, "tmp"), filepath.Join(dir, "victim")
			if err := os.WriteFile(victim, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := put(tmp, victim); err != nil {
				t.Fatal(err)
			}
			db, made, err := newBolt(tmp, bolt.Options{})
			if err == nil || made {
				t.Errorf("made %v, %v", made, errors.Join(err, db.Close()))
			}
			if mustStat(t, victim).Size() > 0 {
				t.Error("it was followed")
			}
			if _, err := os.Stat(tmp + ".nowhere"); err == nil {
				t.Error("it was followed")
			}
		})
	}
}

func mustStatLink(t *testing.T, path string) os.FileInfo {
	t.Helper()
	st, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// TestExtentOf: a file that is longer than what was written to it takes less of the disk.
func TestExtentOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sparse")
	if err := os.WriteFile(path, []byte("a page's worth"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 1<<20); err != nil {
		t.Fatal(err)
	}
	bytes, disk, err := ExtentOf(path)
	if err != nil || bytes != 1<<20 || disk >= bytes {
		t.Errorf("%d bytes, %d of the disk, %v", bytes, disk, err)
	}
	if _, _, err := ExtentOf(path + "x"); !errors.Is(err, ErrAbsent) {
		t.Errorf("%v", err)
	}
}
