package dbfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

func TestOpen(t *testing.T) {
	t.Run("an absent file is created with what Init puts into it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "sub", "store.db")
		f := mustOpen(t, storeOptions(path))
		if r := f.Report(); !r.Created || !r.Clean || r.MetaFallback {
			t.Errorf("report: %+v", r)
		}
		addRecords(t, f, 0, 10)
		mustClose(t, f)
		wantMode(t, path, fileMode)
		wantMode(t, path+lockSuffix, fileMode)
		wantMode(t, filepath.Dir(path), dirMode)
		f = mustOpen(t, Options{Path: path})
		if r := f.Report(); r.Created || r.Clean || r.Walk.Keys != 11 {
			t.Errorf("report after a crash: %+v", r)
		}
		if n := countRecords(t, f); n != 10 {
			t.Errorf("%d records, want 10", n)
		}
	})
	t.Run("modes do not depend on the umask", func(t *testing.T) {
		defer unix.Umask(unix.Umask(0))
		path := filepath.Join(t.TempDir(), "sub", "store.db")
		mustClose(t, mustOpen(t, storeOptions(path)))
		wantMode(t, path, fileMode)
		wantMode(t, path+lockSuffix, fileMode)
		wantMode(t, filepath.Dir(path), dirMode)
	})
	t.Run("a failing Init leaves nothing behind", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		boom := errors.New("boom")
		_, err := Open(Options{Path: path, Init: func(*bolt.Tx) error { return boom }})
		if !errors.Is(err, boom) {
			t.Fatalf("error %v", err)
		}
		if left := names(t, filepath.Dir(path)); strings.Join(left, " ") != "store.db.lock" {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("only one level of folders is created", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "mistyped", "sub", "store.db")
		_, err := Open(storeOptions(path))
		wantKind(t, err, ErrAbsent, filepath.Dir(path))
	})
	t.Run("an open store is locked, and the message names file and process", func(t *testing.T) {
		path := newStore(t, 1)
		mustOpen(t, Options{Path: path})
		for _, ro := range []bool{false, true} {
			_, err := Open(Options{Path: path, ReadOnly: ro, LockTimeout: 1})
			wantKind(t, err, ErrLocked, path, "process")
		}
	})
	t.Run("another bbolt program on the file is respected", func(t *testing.T) {
		path := newStore(t, 1)
		db, err := bolt.Open(path, 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		_, err = Open(Options{Path: path, LockTimeout: 1})
		wantKind(t, err, ErrLocked, path)
	})
	t.Run("a refused opener takes nothing from the one that has it", func(t *testing.T) {
		path := newStore(t, 1)
		f := mustOpen(t, Options{Path: path})
		for range 3 {
			if _, err := Open(Options{Path: path, LockTimeout: 1}); !errors.Is(err, ErrLocked) {
				t.Fatalf("error %v", err)
			}
		}
		addRecords(t, f, 1, 5)
	})
	t.Run("progress is told for each step", func(t *testing.T) {
		path := newStore(t, 3000)
		seen := map[Step]int64{}
		o := Options{Path: path, Progress: func(s Step, done, total int64) {
			if done < seen[s] || done > total {
				t.Errorf("%s: %d of %d after %d", s, done, total, seen[s])
			}
			seen[s] = done
		}}
		mustOpen(t, o)
		for _, s := range []Step{StepRead, StepWalk, StepOpen} {
			if seen[s] == 0 {
				t.Errorf("no progress of %s", s)
			}
		}
	})
	t.Run("a map that the address space has no room for is made smaller, with a warning", func(t *testing.T) {
		path := newStore(t, 1)
		var was unix.Rlimit
		if err := unix.Getrlimit(unix.RLIMIT_AS, &was); err != nil {
			t.Fatal(err)
		}
		if err := unix.Setrlimit(unix.RLIMIT_AS, &unix.Rlimit{Cur: 16 << 30, Max: was.Max}); err != nil {
			t.Fatal(err)
		}
		f, err := Open(Options{Path: path})
		if err := unix.Setrlimit(unix.RLIMIT_AS, &was); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if w := strings.Join(f.Report().Warnings, "\n"); !contains(w, "address space") {
			t.Errorf("warnings: %q", w)
		}
		addRecords(t, f, 1, 200)
	})
	t.Run("a largest size beyond any address space is no obstacle", func(t *testing.T) {
		f := mustOpen(t, Options{Path: newStore(t, 1), MaxBytes: 1 << 60})
		addRecords(t, f, 1, 20)
	})
}

func TestPathChecks(t *testing.T) {
	dir := t.TempDir()
	real := newStore(t, 1)
	link, fifo := filepath.Join(dir, "link.db"), filepath.Join(dir, "fifo.db")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, path, says string }{
		{"a link", link, "symbolic link"},
		{"a folder", dir, "folder"},
		{"a pipe", fifo, "pipe"},
		{"a device", "/dev/null", "device"},
		{"a file as folder", filepath.Join(real, "store.db"), ""},
	} {
		t.Run(c.name+" is refused", func(t *testing.T) {
			for _, ro := range []bool{false, true} {
				_, err := Open(Options{Path: c.path, ReadOnly: ro})
				var fe *FileError
				if !errors.As(err, &fe) || !contains(err.Error(), c.says) {
					t.Errorf("read-only %v: %v", ro, err)
				}
			}
		})
	}
	t.Run("no path", func(t *testing.T) {
		if _, err := Open(Options{}); !errors.Is(err, ErrAbsent) {
			t.Errorf("%v", err)
		}
	})
	t.Run("a link in the place of a half-made file is not removed", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.Symlink(real, creatingPath(path)); err != nil {
			t.Fatal(err)
		}
		_, err := Open(storeOptions(path))
		wantKind(t, err, ErrNotRegular, creatingPath(path))
		if _, err := os.Lstat(creatingPath(path)); err != nil {
			t.Error(err)
		}
	})
	t.Run("a link in the place of the lock is not followed", func(t *testing.T) {
		path := newStore(t, 1)
		os.Remove(path + lockSuffix)
		if err := os.Symlink(real, path+lockSuffix); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Path: path})
		wantKind(t, err, ErrNotRegular, path+lockSuffix)
	})
}

// TestModes: B16.
func TestModes(t *testing.T) {
	path := newStore(t, 1)
	loose := func() {
		if err := os.Chmod(path, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("a looser file is tightened, with a warning", func(t *testing.T) {
		loose()
		f := mustOpen(t, Options{Path: path})
		defer f.Close()
		wantMode(t, path, 0o600)
		if w := strings.Join(f.Report().Warnings, "\n"); !contains(w, "0644") || !contains(w, path) {
			t.Errorf("warnings: %q", w)
		}
	})
	t.Run("so is what lies beside it", func(t *testing.T) {
		witness := path + ".head"
		for _, own := range []string{path + lockSuffix, witness} {
			if wf, err := OpenWitness(witness, Witness{}); err != nil || wf.Warning != "" || wf.Close() != nil {
				t.Fatalf("%v, %q", err, wf.Warning)
			}
			if err := os.Chmod(own, 0o666); err != nil {
				t.Fatal(err)
			}
			f := mustOpen(t, Options{Path: path})
			wf, err := OpenWitness(witness, Witness{})
			if err != nil {
				t.Fatal(err)
			}
			wantMode(t, own, 0o600)
			if w := strings.Join(append(f.Report().Warnings, wf.Warning), "\n"); !contains(w, "0666") || !contains(w, own) {
				t.Errorf("warnings: %q", w)
			}
			if err := errors.Join(wf.Close(), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
	})
	t.Run("read-only only warns", func(t *testing.T) {
		loose()
		f := mustOpen(t, Options{Path: path, ReadOnly: true})
		defer f.Close()
		wantMode(t, path, 0o644)
		if w := strings.Join(f.Report().Warnings, "\n"); !contains(w, "0644") {
			t.Errorf("warnings: %q", w)
		}
	})
	t.Run("another owner and another name are told", func(t *testing.T) {
		if err := os.Link(path, path+".second"); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path + ".second")
		owner := ""
		if os.Geteuid() == 0 {
			if err := os.Chown(path, 65534, -1); err != nil {
				t.Fatal(err)
			}
			owner = "user 65534"
		}
		f := mustOpen(t, Options{Path: path})
		defer f.Close()
		if w := strings.Join(f.Report().Warnings, "\n"); !contains(w, "2 names") || !contains(w, owner) {
			t.Errorf("warnings: %q", w)
		}
	})
}

func TestReadOnly(t *testing.T) {
	t.Run("creates nothing", func(t *testing.T) {
		dir := t.TempDir()
		_, err := Open(Options{Path: filepath.Join(dir, "store.db"), ReadOnly: true})
		wantKind(t, err, ErrAbsent)
		if left := names(t, dir); len(left) != 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	t.Run("reads a copy in a folder of its own, and writes nothing there", func(t *testing.T) {
		raw, err := os.ReadFile(newStore(t, 20))
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		path := filepath.Join(dir, "copy.db")
		if err := os.WriteFile(path, raw, 0o400); err != nil {
			t.Fatal(err)
		}
		f := mustOpen(t, Options{Path: path, ReadOnly: true})
		second := mustOpen(t, Options{Path: path, ReadOnly: true}) // shared
		if n := countRecords(t, f); n != 20 || countRecords(t, second) != 20 {
			t.Errorf("%d records", n)
		}
		if err := f.DB().Update(func(*bolt.Tx) error { return nil }); err == nil {
			t.Error("an update went through")
		}
		if err := f.CloseClean(nil); err != nil {
			t.Error(err)
		}
		mustClose(t, second)
		now, err := os.ReadFile(path)
		if left := names(t, dir); err != nil || !bytes.Equal(raw, now) || len(left) != 1 {
			t.Errorf("changed, or left behind: %v %v", left, err)
		}
	})
	t.Run("a read-only file system is named as such", func(t *testing.T) {
		path := newStore(t, 5)
		dir := filepath.Dir(path)
		if err := unix.Mount(dir, dir, "", unix.MS_BIND, ""); err != nil {
			skipFault(t, "bind mount: "+err.Error())
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		if err := unix.Mount("", dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
			skipFault(t, "read-only bind mount: "+err.Error())
		}
		_, err := Open(Options{Path: path})
		wantKind(t, err, ErrReadOnlyFS)
		f := mustOpen(t, Options{Path: path, ReadOnly: true})
		if countRecords(t, f) != 5 {
			t.Error("records are missing")
		}
		mustClose(t, f)
	})
}

// TestRefusalChangesNothing: every kind of refusal leaves bytes and time of the
// file, and the clean note, as they were. (That of damage: see TestDamage.)
func TestRefusalChangesNothing(t *testing.T) {
	path := newStore(t, 200)
	f := mustOpen(t, Options{Path: path})
	if err := f.CloseClean(nil); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	old := time.Unix(1_700_000_000, 12345)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int64{0, 3, 4096, 8192, 20000} {
		if err := os.WriteFile(path, raw[:size], fileMode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, old, old); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(storeOptions(path)); err == nil {
			t.Fatalf("%d bytes: opened", size)
		}
		st := mustStat(t, path)
		now, err := os.ReadFile(path)
		if err != nil || !bytes.Equal(now, raw[:size]) || !st.ModTime().Equal(old) || st.Mode().Perm() != 0o640 {
			t.Errorf("%d bytes: now %d, %v, %v (%v)", size, len(now), st.ModTime(), st.Mode(), err)
		}
	}
}

func wantKind(t *testing.T, err error, kind Kind, parts ...string) {
	t.Helper()
	var fe *FileError
	if !errors.Is(err, kind) || !errors.As(err, &fe) || fe.Hint == "" || fe.Code() != string(kind) {
		t.Fatalf("error %v (%T), want %s with a hint", err, err, kind)
	}
	for _, p := range parts {
		if !contains(err.Error(), p) {
			t.Errorf("%q does not say %q", err, p)
		}
	}
}

func wantMode(t *testing.T, path string, want os.FileMode) {
	t.Helper()
	if got := mustStat(t, path).Mode().Perm(); got != want {
		t.Errorf("%s has mode %o, want %o", path, got, want)
	}
}

func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}
