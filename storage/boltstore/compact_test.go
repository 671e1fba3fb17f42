package boltstore

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// drained makes a store that was large once, and is closed in good order.
func drained(t *testing.T, path string, now time.Time) {
	t.Helper()
	ctx := context.Background()
	s := openAt(t, path, now)
	for i := range 4 {
		lines := make([]queue.Submission, 250)
		for k := range lines {
			lines[k] = submission(t, i*250+k, 100)
		}
		if _, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: lines}); err != nil {
			t.Fatal(err)
		}
	}
	for range 8 {
		if _, err := s.Settle(ctx, queue.SettleRequest{Now: now, Settlements: claimSome(t, s, now, 100)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.HoldKeys(ctx, queue.Action{Now: now}, []string{"entity-7"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// told is everything that a store tells of itself, but for the size of its file.
func told(t *testing.T, path string) (all []string, status queue.StoreStatus, v queue.Verification) {
	t.Helper()
	ctx, now := context.Background(), time.Now()
	s, err := openLight(t, OpenCopy, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Trail(ctx, queue.TrailQuery{}, func(r queue.Record) bool {
		all = append(all, string(r.AppendNDJSON(nil)))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if status, err = s.Status(ctx, now); err != nil {
		t.Fatal(err)
	}
	if v, err = s.Verify(ctx, queue.VerifyOptions{Buckets: true}); err != nil || len(v.Findings) > 0 {
		t.Fatal(v.Findings, err)
	}
	status.FileBytes, status.FreeBytes, status.DiskFree = 0, 0, 0
	return all, status, v
}

func TestCompact_makes_the_file_smaller_and_changes_nothing_else(t *testing.T) {
	t.Parallel()
	now, path := time.Now(), t.TempDir()+"/breakwater.db"
	drained(t, path, now)
	all, status, verified := told(t, path)
	steps := 0
	report, err := Compact(Options{Path: path, Progress: func(string, int64, int64) { steps++ }})
	if err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(path)
	if err != nil || st.Size() != report.After || st.Mode().Perm() != 0o600 || report.After*2 > report.Before ||
		report.AfterDisk >= report.BeforeDisk || report.BeforeDisk >= report.Before || steps == 0 { // it was longer than what it took

		t.Errorf("%+v, the file is %v (%v), %d steps", report, st, err, steps)
	}
	all2, status2, verified2 := told(t, path)
	if d := cmp.Diff([]any{all, status, verified}, []any{all2, status2, verified2}); d != "" {
		t.Errorf("(-before +after):\n%s", d)
	}
	if names, err := filepath.Glob(filepath.Dir(path) + "/.*"); err != nil || len(names) > 0 {
		t.Errorf("left behind: %q (%v)", names, err)
	}
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Report(); !r.Clean || r.Restored {
		t.Errorf("the next start finds %+v", r)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestCompact_after_a_kill_leaves_the_next_start_to_look(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), t.TempDir()
	drained(t, dir+"/breakwater.db", now)
	copyFile(t, dir+"/breakwater.db", dir+"/copied.db") // as a crash leaves it: nothing says how it ended
	if _, err := Compact(Options{Path: dir + "/copied.db"}); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Path: dir + "/copied.db"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if s.Report().Clean {
		t.Error("a file of which nobody knows how it was left counts as closed")
	}
}

func TestCompact_refuses_and_leaves_the_file_alone(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), t.TempDir()
	good := dir + "/breakwater.db"
	drained(t, good, now)
	want, err := os.ReadFile(good)
	if err != nil {
		t.Fatal(err)
	}
	refused := func(what string, o Options, kind error) {
		t.Helper()
		before, _ := os.ReadFile(o.Path)
		_, err := Compact(o)
		if !errors.Is(err, kind) {
			t.Errorf("%s: %v", what, err)
		}
		after, _ := os.ReadFile(o.Path)
		if !bytes.Equal(before, after) {
			t.Errorf("%s: the file was changed", what)
		}
		if _, err := os.Lstat(dbfile.CompactingPath(o.Path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: left behind (%v)", what, err)
		}
	}
	refused("nothing there", Options{Path: dir + "/none.db"}, dbfile.ErrAbsent)
	stopped, cancel := context.WithCancel(context.Background())
	cancel()
	refused("told to stop", Options{Path: good, Context: stopped}, context.Canceled)

	s, err := Open(Options{Path: good})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compact(Options{Path: good})
	if !errors.Is(err, dbfile.ErrLocked) {
		t.Errorf("in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	older := filepath.Join(dir, "older", "breakwater.db")
	if err := os.Mkdir(filepath.Dir(older), 0o700); err != nil {
		t.Fatal(err)
	}
	copyFile(t, good, older)
	copyFile(t, good+dbfile.WitnessSuffix, older+dbfile.WitnessSuffix)
	s = openAt(t, older, now)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(older, want, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("older than its witness", Options{Path: older}, ErrRolledBack)

	damaged := dir + "/damaged.db"
	bad := bytes.Clone(want)
	for at := 8192; at < len(bad); at++ { // all but the meta pages
		bad[at] ^= 0x55
	}
	if err := os.WriteFile(damaged, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("damaged", Options{Path: damaged}, dbfile.ErrDamaged)

	if os.Geteuid() == 0 {
		if err := os.Chown(damaged, 65534, 65534); err != nil {
			t.Fatal(err)
		}
		_, err := Compact(Options{Path: damaged})
		if !errors.Is(err, dbfile.ErrPermission) || !strings.Contains(err.Error(), "belongs to user 65534") {
			t.Errorf("of another user: %v", err)
		}
	}
}

func TestCompact_a_leftover_goes_with_the_next_opening(t *testing.T) {
	t.Parallel()
	now, path := time.Now(), t.TempDir()+"/breakwater.db"
	drained(t, path, now)
	left := dbfile.CompactingPath(path)
	if err := os.WriteFile(left, []byte("half of it"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := os.Lstat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there (%v)", left, err)
	}
}

func TestCompact_without_room(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), smallDisk(t, "8m")
	path := dir + "/breakwater.db"
	drained(t, path, now)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Compact(Options{Path: path})
	if !errors.Is(err, dbfile.ErrNoSpace) {
		t.Errorf("got %v", err)
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("the store was changed (%v)", err)
	}
}

// TestCompact_does_not_follow_what_has_its_name: what lies under the temporary name and is
// no file of ours is named, and stays what it is.
func TestCompact_does_not_follow_what_has_its_name(t *testing.T) {
	t.Parallel()
	now, dir := time.Now(), t.TempDir()
	path, victim := dir+"/breakwater.db", dir+"/victim"
	drained(t, path, now)
	if err := os.WriteFile(victim, []byte("somebody's"), 0o600); err != nil {
		t.Fatal(err)
	}
	temp := dbfile.CompactingPath(path)
	for what, put := range map[string]func() error{
		"a link":   func() error { return os.Symlink(victim, temp) },
		"a folder": func() error { return os.Mkdir(temp, 0o700) },
		"a pipe":   func() error { return syscall.Mkfifo(temp, 0o600) },
	} {
		if err := put(); err != nil {
			t.Fatal(err)
		}
		_, err := Compact(Options{Path: path})
		var fe *dbfile.FileError
		if !errors.As(err, &fe) || fe.Kind != dbfile.ErrNotRegular || fe.Path != temp || !strings.Contains(fe.Hint, "move it away") {
			t.Errorf("%s: %v", what, err)
		}
		if text, err := os.ReadFile(victim); string(text) != "somebody's" || err != nil {
			t.Errorf("%s: followed: %q, %v", what, text, err)
		}
		if err := os.Remove(temp); err != nil {
			t.Errorf("%s: it is gone: %v", what, err)
		}
	}
	if _, err := Compact(Options{Path: path}); err != nil {
		t.Errorf("with nothing in the way: %v", err)
	}
}
