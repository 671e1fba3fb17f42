package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/queue"
	"breakwater/storage/boltstore"
)

// The test's binary is its own child, as the program is.
func TestMain(m *testing.M) {
	if len(os.Args) == 4 {
		switch os.Args[1] {
		case "seal":
			if err := Seal(context.Background(), os.Args[2], os.Args[3], os.Stdout); err != nil {
				panic(err)
			}
			os.Exit(0)
		case "sigbus":
			_ = syscall.Kill(os.Getpid(), syscall.SIGBUS)
			select {}
		case "sigkill":
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		case "sigterm":
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
			select {}
		case "memory": // as Go's runtime says it
			_, _ = os.Stderr.WriteString("fatal error: runtime: out of memory\n\nruntime stack:\n")
			os.Exit(2)
		case "silent":
			os.Exit(0)
		case "strange":
			fmt.Println("hello")
			os.Exit(0)
		case "hang":
			_ = syscall.Pause()
		}
	}
	os.Exit(m.Run())
}

// rig is a store and what makes archives of it.
type rig struct {
	testing.TB
	store  *boltstore.Store
	maker  *Maker
	dir    string // of the archives
	limits Limits
	now    time.Time
}

func newRig(t testing.TB) *rig {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir(), now: time.Date(2026, 11, 30, 17, 0, 0, 0, time.UTC)}
	path := filepath.Join(t.TempDir(), "breakwater.db")
	s, err := boltstore.Open(boltstore.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	if _, err := s.Start(t.Context(), queue.StartRequest{Now: r.now, Policy: queue.Policy{MaxAttempts: 3, MaxDeliveries: 6}}); err != nil {
		t.Fatal(err)
	}
	r.store = s
	r.maker = New(Options{
		Store: s, Path: path, Version: "1.2.3", Limits: func() Limits { return r.limits },
		Config: func() json.RawMessage { return json.RawMessage(`{"queue":{}}`) },
		Now:    func() time.Time { return r.now }, Child: []string{os.Args[0], "seal"},
	})
	return r
}

// admit stores n more messages.
func (r *rig) admit(from, n int) {
	r.Helper()
	lines := make([]queue.Submission, n)
	for i := range lines {
		line := fmt.Appendf(nil, `{"idempotency_key":"k%d","trace_id":"t%d","partition_key":"P%d","ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"1.00"}`, from+i, from+i, i%7)
		m, err := queue.ParseLine(line)
		if err != nil {
			r.Fatal(err)
		}
		lines[i] = queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)}
	}
	if _, err := r.store.Admit(r.Context(), queue.AdmitRequest{Now: r.now, Lines: lines}); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) dest(name string) string { return filepath.Join(r.dir, name) }

func (r *rig) make(ctx context.Context, dest string) (*Manifest, error) {
	return r.maker.Make(ctx, queue.Action{Now: r.now, By: "olga", Reason: "month end"}, dest)
}

// names lists the folder of the archives.
func (r *rig) names() (names []string) {
	r.Helper()
	entries, err := os.ReadDir(r.dir)
	if err != nil {
		r.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// refused expects that no archive is made, for this reason, and that nothing is left.
func (r *rig) refused(err error, kind Kind, text string) {
	r.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Kind != kind || !strings.Contains(err.Error(), text) {
		r.Errorf("got %v (kind %v), want kind %d and %q", err, e, kind, text)
	}
	if names := r.names(); len(names) > 0 {
		r.Errorf("left behind: %q", names)
	}
	st, err := r.store.Status(r.Context(), r.now)
	if err != nil || st.ArchivedN != 0 {
		r.Errorf("record %d counts as archived (%v)", st.ArchivedN, err)
	}
}

func TestMake_an_archive_is_whole_and_says_what_is_in_it(t *testing.T) {
	r := newRig(t)
	r.admit(0, 100)
	before, err := r.store.Status(t.Context(), r.now)
	if err != nil {
		t.Fatal(err)
	}
	dest := r.dest("one.db")
	m, err := r.make(t.Context(), dest)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"one.db", "one.db" + ManifestSuffix}; !slices.Equal(r.names(), want) {
		t.Errorf("the folder has %q, want %q", r.names(), want)
	}
	for _, name := range r.names() {
		if st, err := os.Stat(r.dest(name)); err != nil || st.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v (%v)", name, st.Mode(), err)
		}
	}
	written, err := ReadManifest(dest)
	if err != nil {
		t.Fatal(err)
	}
	if a, b := asText(t, written), asText(t, m); a != b {
		t.Errorf("the manifest is\n%s\nand Make returned\n%s", a, b)
	}
	audit := Audit{Block: before.Head.Block, Head: before.Head.Hash.String(), Records: before.Records, Origin: before.Origin}
	if m.Format != 1 || m.Archive != "one.db" || m.By != "olga" || m.Version != "1.2.3" || m.Audit != audit ||
		m.Counts.Ready != 100 || m.Counts.LastSeq != 100 || m.Counts.LedgerKeys != 100 || m.Events["ACCEPTED"] != 100 {
		t.Errorf("the manifest says %s", asText(t, m))
	}
	if found, err := Check(dest); !found || err != nil {
		t.Errorf("checked against its manifest: %v, %v", found, err)
	}
	if _, err := boltstore.Open(boltstore.Options{Path: dest}); !errors.Is(err, boltstore.ErrArchive) {
		t.Errorf("taken for a store: %v", err)
	}
	after, err := r.store.Status(t.Context(), r.now)
	if err != nil || after.ArchivedN != before.Records || after.ArchivedBlock != before.Head.Block {
		t.Errorf("archived up to record %d, block %d (%v), want %d, %d", after.ArchivedN, after.ArchivedBlock, err, before.Records, before.Head.Block)
	}
	if r.maker.Progress() != nil {
		t.Error("it still counts as being made")
	}
}

// TestMake_an_archive_raises_no_alarm of a lost commit when it is taken into service,
// whichever transaction it was copied at.
func TestMake_an_archive_raises_no_alarm(t *testing.T) {
	r := newRig(t)
	for i := range 4 {
		for n := range i%2 + 1 {
			r.admit(2*i+n, 1)
		}
		dest := r.dest(fmt.Sprint(i))
		if _, err := r.make(t.Context(), dest); err != nil {
			t.Fatal(err)
		}
		s, err := boltstore.Open(boltstore.Options{Path: dest, Restore: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range s.Report().Warnings {
			if !strings.Contains(w, "on request") && !strings.Contains(w, "in memory") {
				t.Errorf("archive %d: %s", i, w)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func asText(t testing.TB, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestMake_refuses_a_destination_in_words(t *testing.T) {
	r := newRig(t)
	store := r.maker.o.Path
	linked := filepath.Join(t.TempDir(), "linked")
	if err := os.Symlink(filepath.Dir(store), linked); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dest string
		kind Kind
		text string
	}{
		{"", BadDest, "has no path"},
		{"one.db", BadDest, "not an absolute path"},
		{r.dir + "/", BadDest, "path of a folder"},
		{r.dest("no/such/one.db"), BadDest, "does not exist"},
		{store, BadDest, "live store itself"},
		{filepath.Dir(store) + "/./" + filepath.Base(store), BadDest, "live store itself"},
		{store + ".head", BadDest, "belongs to the live store"},
		{store + ".lock", BadDest, "belongs to the live store"},
		{filepath.Dir(store) + "/." + filepath.Base(store) + ".compacting", BadDest, "belongs to the live store"},
		{filepath.Dir(store) + "/." + filepath.Base(store) + ".creating", BadDest, "belongs to the live store"},
		{linked + "/" + filepath.Base(store) + ".old", BadDest, "belongs to the live store"},
		{store + "/one.db", BadDest, "not in a folder"},
		{r.dest("a" + ManifestSuffix), BadDest, "ends like a file"},
		{r.dest("a\xff"), BadDest, "not UTF-8"},
		{r.dest(strings.Repeat("n", 240)), BadDest, "longer than"},
	} {
		_, err := r.make(t.Context(), c.dest)
		r.refused(err, c.kind, c.text)
	}
}

func TestMake_never_replaces_anything(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct {
		name string
		make func(path string) error
		text string
	}{
		{"a file", func(p string) error { return os.WriteFile(p, []byte("kept"), 0o600) }, "exists already"},
		{"a folder", func(p string) error { return os.Mkdir(p, 0o700) }, "is a folder"},
		{"a link", func(p string) error { return os.Symlink("/nowhere", p) }, "is a symbolic link"},
		{"a link to the store", func(p string) error { return os.Link(r.maker.o.Path, p) }, "is the live store itself"},
		{"somebody's manifest", func(p string) error { return os.WriteFile(p+ManifestSuffix, []byte("{}"), 0o600) }, "exists already"},
	} {
		dest := r.dest("one.db")
		if err := c.make(dest); err != nil {
			t.Skip(err) // another file system for temporary folders: no hard link
		}
		kept := r.names()
		_, err := r.make(t.Context(), dest)
		var e *Error
		if !errors.As(err, &e) || e.Kind != Exists || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
		if !slices.Equal(r.names(), kept) {
			t.Errorf("%s: the folder had %q and has %q", c.name, kept, r.names())
		}
		_ = os.Remove(dest)
		_ = os.Remove(dest + ManifestSuffix)
	}
}

// TestMake_replaces_nothing_that_comes_meanwhile: what gets a name of the archive's while it
// is made stays, and there is no archive.
func TestMake_replaces_nothing_that_comes_meanwhile(t *testing.T) {
	for _, suffix := range []string{"", ManifestSuffix} {
		for what, put := range map[string]func(path string) error{
			"a file":   func(p string) error { return os.WriteFile(p, []byte("kept"), 0o600) },
			"a folder": func(p string) error { return os.Mkdir(p, 0o700) },
			"a link":   func(p string) error { return os.Symlink("/nowhere", p) },
			"a pipe":   func(p string) error { return unix.Mkfifo(p, 0o600) },
		} {
			r := newRig(t)
			r.admit(0, 10)
			dest, config := r.dest("one.db"), r.maker.o.Config
			r.maker.o.Config = func() json.RawMessage { // the copy is there, its names are not
				if err := put(dest + suffix); err != nil {
					t.Error(err)
				}
				return config()
			}
			_, err := r.make(t.Context(), dest)
			var e *Error
			if !errors.As(err, &e) || e.Kind != Exists || e.Hint == "" || !slices.Equal(r.names(), []string{"one.db" + suffix}) {
				t.Errorf("%s as %q: %v, the folder has %q", what, suffix, err, r.names())
			}
			if st, err := os.Lstat(dest + suffix); err != nil || what == "a file" && st.Size() != 4 {
				t.Errorf("%s as %q: %v, %v", what, suffix, st, err)
			}
		}
	}
}

// TestMake_goes_past_what_a_kill_left: temporary files of a process that is gone are
// removed, those of one that lives are not; a manifest without its archive is replaced.
func TestMake_goes_past_what_a_kill_left(t *testing.T) {
	r := newRig(t)
	left := []string{".one.db.0123456789abcdef.archiving", ".one.db.0123456789abcdee.manifest.json.archiving"}
	others := []string{".one.db.0123456789abcdff.archiving", ".one.db.note.archiving", ".two.db.0123456789abcdef.archiving"}
	for _, name := range append(left, others...) {
		if err := os.WriteFile(r.dest(name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	alive, err := os.Open(r.dest(others[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	if err := unix.Flock(int(alive.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	orphan := asText(t, Manifest{Format: 1, Archive: "one.db", SHA256: "00"})
	if err := os.WriteFile(r.dest("one.db"+ManifestSuffix), []byte(orphan), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.make(t.Context(), r.dest("one.db")); err != nil {
		t.Fatal(err)
	}
	want := append(others, "one.db", "one.db"+ManifestSuffix)
	slices.Sort(want)
	if !slices.Equal(r.names(), want) {
		t.Errorf("the folder has\n%q, want\n%q", r.names(), want)
	}
	if found, err := Check(r.dest("one.db")); !found || err != nil {
		t.Error(found, err)
	}
}

func TestMake_a_copy_that_cannot_be_checked_is_none(t *testing.T) {
	for child, text := range map[string]string{
		"sigbus": "bus error", "silent": "without a result", "strange": "something strange",
	} {
		r := newRig(t)
		r.admit(0, 10)
		r.maker.o.Child[1] = child
		_, err := r.make(t.Context(), r.dest("one.db"))
		r.refused(err, Unsound, text)
	}
}

// TestMake_a_check_that_is_killed_says_nothing_of_the_copy: the kernel when memory is
// short, or a person. That is no damage, and the next archive may well be made.
func TestMake_a_check_that_is_killed_says_nothing_of_the_copy(t *testing.T) {
	for child, want := range map[string]struct{ text, hint string }{
		"sigkill": {"ended by SIGKILL", "memory was short"},
		"sigterm": {"ended by SIGTERM", "ask again"},
		"memory":  {"no memory left: fatal error: ", "make room in memory"},
	} {
		r := newRig(t)
		r.admit(0, 10)
		r.maker.o.Child[1] = child
		_, err := r.make(t.Context(), r.dest("one.db"))
		r.refused(err, Ended, want.text)
		var e *Error
		if !errors.As(err, &e) || !strings.Contains(e.Hint, want.hint) {
			t.Errorf("%s: the hint is %q, want %q in it", child, e.Hint, want.hint)
		}
		r.maker.o.Child[1] = "seal"
		if _, err := r.make(t.Context(), r.dest("one.db")); err != nil {
			t.Errorf("%s: the next one: %v", child, err)
		}
	}
}

// TestMake_a_damaged_store_gives_no_archive changes one byte of a stored line: the store
// goes on, since it does not read it, and the copy of it is found out.
func TestMake_a_damaged_store_gives_no_archive(t *testing.T) {
	r := newRig(t)
	r.admit(0, 10)
	path := r.maker.o.Path
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := strings.LastIndex(string(data), `"ledger_entity":"E"`)
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("X"), int64(at)+3); err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
	_, err = r.make(t.Context(), r.dest("one.db"))
	r.refused(err, Unsound, "the copy is not sound")
	r.admit(10, 10)
}

// leaving is a store whose client leaves as soon as the copy is there.
type leaving struct {
	*boltstore.Store
	leave func()
}

func (l leaving) Snapshot(ctx context.Context, to *os.File, step func(boltstore.SnapshotStep) error) (boltstore.SnapshotInfo, error) {
	defer l.leave()
	return l.Store.Snapshot(ctx, to, step)
}

func TestMake_ends_when_nobody_wants_it_any_more(t *testing.T) {
	for _, step := range []string{"copying", "copied", "sealing"} {
		r := newRig(t)
		r.admit(0, 100)
		if step == "sealing" {
			r.maker.o.Child[1] = "hang"
		}
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the client has left")
		if step == "copied" {
			r.maker.o.Store = leaving{r.store, func() { cancel(left) }}
		}
		r.maker.o.Limits = func() Limits {
			switch step {
			case "copying":
				cancel(left)
			case "sealing":
				time.AfterFunc(50*time.Millisecond, func() { cancel(left) })
			}
			return Limits{}
		}
		_, err := r.make(ctx, r.dest("one.db"))
		r.refused(err, Stopped, left.Error())
	}
	r := newRig(t)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	_, err := r.make(ctx, r.dest("one.db"))
	r.refused(err, Stopped, "whoever asked for the archive has left")
}

func TestMake_one_at_a_time(t *testing.T) {
	r := newRig(t)
	var second error
	r.maker.o.Limits = func() Limits {
		if p := r.maker.Progress(); p == nil || p.Path != r.dest("one.db") || p.By != "olga" {
			t.Errorf("under way: %+v", p)
		}
		_, second = r.make(t.Context(), r.dest("two.db"))
		return Limits{}
	}
	if _, err := r.make(t.Context(), r.dest("one.db")); err != nil {
		t.Fatal(err)
	}
	var e *Error
	if !errors.As(second, &e) || e.Kind != Busy {
		t.Errorf("a second one: %v", second)
	}
}

// refusing is a store that cannot record an archive.
type refusing struct{ *boltstore.Store }

func (refusing) Archived(context.Context, queue.Action, queue.ArchiveInfo) error {
	return queue.ErrNoRoom
}

func TestMake_an_archive_that_cannot_be_recorded_is_none(t *testing.T) {
	r := newRig(t)
	r.maker.o.Store = refusing{r.store}
	_, err := r.make(t.Context(), r.dest("one.db"))
	r.refused(err, NotStored, "record the archive")
	var e *Error
	if !errors.Is(err, queue.ErrNoRoom) || !errors.As(err, &e) || !strings.Contains(e.Hint, "make a little") {
		t.Error(err)
	}
}

func TestMake_no_room(t *testing.T) {
	r := newRig(t)
	r.admit(0, 100)
	r.limits.MinFreeBytes = 1 << 60
	_, err := r.make(t.Context(), r.dest("one.db"))
	r.refused(err, NoRoom, "it needs")
}

// TestMake_a_full_destination is a disk of its own that is too small: refused before
// anything is written.
func TestMake_a_full_destination(t *testing.T) {
	r := newRig(t)
	r.admit(0, 100)
	if err := unix.Mount("tmpfs", r.dir, "tmpfs", 0, "size=64k"); err != nil {
		t.Skip("mount tmpfs: ", err)
	}
	defer func() { _ = unix.Unmount(r.dir, unix.MNT_DETACH) }()
	_, err := r.make(t.Context(), r.dest("one.db"))
	r.refused(err, NoRoom, "the archive needs")
	r.admit(100, 100)
}

// TestRetire: a manifest is put away once, over the one before, and none is no error.
func TestRetire(t *testing.T) {
	path := filepath.Join(t.TempDir(), "breakwater.db")
	name := path + ManifestSuffix
	if retired, err := Retire(path); retired != "" || err != nil {
		t.Errorf("nothing is there: %q, %v", retired, err)
	}
	for _, text := range []string{"one", "two"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		retired, err := Retire(path)
		if retired != name+RetiredSuffix || err != nil {
			t.Fatalf("%q, %v", retired, err)
		}
		if kept, err := os.ReadFile(retired); string(kept) != text || err != nil {
			t.Errorf("kept is %q, %v", kept, err)
		}
		if found, err := Check(path); found || err != nil {
			t.Errorf("it is still there: %v, %v", found, err)
		}
	}
}

func TestCheck_notices_what_is_not_the_archive(t *testing.T) {
	r := newRig(t)
	dest := r.dest("one.db")
	if _, err := r.make(t.Context(), dest); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(dest)
	if err != nil {
		t.Fatal(err)
	}
	note, err := os.ReadFile(dest + ManifestSuffix)
	if err != nil {
		t.Fatal(err)
	}
	put := func(path string, b []byte) {
		t.Helper()
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	changed := slices.Clone(good)
	changed[len(changed)-1]++
	for text, prepare := range map[string]func(){
		"its SHA-256 is another": func() { put(dest, changed) },
		"the archive had":        func() { put(dest, good[:len(good)-1]) },
		"cannot be read":         func() { put(dest+ManifestSuffix, note[:len(note)/2]) },
		"is no manifest":         func() { put(dest+ManifestSuffix, []byte("{}")) },
		"has format 9": func() {
			put(dest+ManifestSuffix, []byte(strings.Replace(string(note), `"manifest": 1`, `"manifest": 9`, 1)))
		},
	} {
		put(dest, good)
		put(dest+ManifestSuffix, note)
		prepare()
		if _, err := Check(dest); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("want %q, got %v", text, err)
		}
	}
	if err := os.Remove(dest + ManifestSuffix); err != nil {
		t.Fatal(err)
	}
	for what, put := range map[string]func(path string) error{
		"a folder": func(p string) error { return os.Mkdir(p, 0o700) },
		"a pipe":   func(p string) error { return unix.Mkfifo(p, 0o600) },
		"a link":   func(p string) error { return os.Symlink(dest, p) },
	} {
		if err := put(dest + ManifestSuffix); err != nil {
			t.Fatal(err)
		}
		var m *Mismatch
		if _, err := Check(dest); !errors.As(err, &m) || m.What != noFile {
			t.Errorf("%s in its place: %v", what, err)
		}
		if err := os.Remove(dest + ManifestSuffix); err != nil {
			t.Fatal(err)
		}
	}
	if found, err := Check(dest); found || err != nil {
		t.Errorf("without a manifest: %v, %v", found, err)
	}
}
