package boltstore

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// TestFound: what a reader is told of a file is what the next Open would do with it.
func TestFound(t *testing.T) {
	now := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "breakwater.db")
	serve := func() {
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(t.Context(), queue.StartRequest{Now: now, Version: "1"}); err != nil {
			t.Fatal(err)
		}
		head, err := s.Head(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		seen := Look(path)
		if seen.WitnessErr != nil || seen.Witness == nil || *seen.Witness != head || seen.Origin != queue.Origin(s.id) {
			t.Errorf("the witness: %+v, the head is %v of %s", seen, head, queue.Origin(s.id))
		}
		if seen.FSErr != nil || seen.FileSystem == "" || seen.SpaceErr != nil || seen.FreeSpace <= 0 {
			t.Errorf("the disk: %+v", seen)
		}
	}
	found := func() Found {
		c, err := OpenCopy(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		f, err := c.Found()
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if s := Look(path); s.Witness != nil || s.WitnessErr != nil {
		t.Errorf("before there is a store: %+v", s)
	}
	if s := Look(filepath.Join(filepath.Dir(path), "var", "x.db")); s.FSErr != nil || s.SpaceErr != nil {
		t.Errorf("before there is a folder: %+v", s)
	}
	serve()
	if f := found(); !f.Clean || f.Format != FormatVersion || f.Refused != nil {
		t.Errorf("after a clean stop: %+v", f)
	}
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	serve()
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	if f := found(); f.Clean || !errors.Is(f.Refused, ErrRolledBack) {
		t.Errorf("with an older file: %+v", f)
	}
	if err := os.WriteFile(path+dbfile.WitnessSuffix, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	if s := Look(path); s.Witness != nil || !errors.Is(s.WitnessErr, dbfile.ErrWitness) {
		t.Errorf("a witness that is torn: %+v", s)
	}
	if f := found(); f.Refused != nil { // as Open, which makes it anew
		t.Errorf("with a witness that is torn: %+v", f)
	}
}

// TestOpen_a_lost_file: where a witness lies and no store no store is made, with Restore
// neither, and whoever looks from outside is told the same.
func TestOpen_a_lost_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breakwater.db")
	if s := Look(path); s.Lost != nil {
		t.Fatalf("before the first start: %v", s.Lost)
	}
	if _, err := Open(Options{Path: path, Restore: true}); !errors.Is(err, dbfile.ErrAbsent) {
		t.Errorf("nothing was ever there, and is restored: %v", err)
	}
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s := Look(path); s.Lost != nil {
		t.Errorf("the file is there: %v", s.Lost)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		for _, restore := range []bool{false, true} {
			s, err := Open(Options{Path: path, Restore: restore})
			var f *dbfile.FileError
			if !errors.As(err, &f) || f.Kind != dbfile.ErrRolledBack || !strings.Contains(f.Hint, dbfile.WitnessSuffix) {
				t.Errorf("%s, restore %v: %v", when, restore, err)
			}
			if seen := Look(path).Lost; seen == nil || f != nil && seen.Error() != f.Error() {
				t.Errorf("%s, from outside: %v", when, seen)
			}
			if err == nil {
				_ = s.Close()
			}
		}
		if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a file was made: %v", when, err)
		}
	}
	refused("its witness is there")
	if err := os.WriteFile(path+dbfile.WitnessSuffix, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused("its witness is torn")
}
