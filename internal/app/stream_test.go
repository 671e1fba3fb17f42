package app

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"breakwater/queue"
)

// commitOf is a commit of one record that reads text.
func commitOf(text string) queue.Commit {
	return queue.Commit{Count: 1, Records: []byte(text + "\n")}
}

func noFailure(t *testing.T) func(error) {
	return func(err error) { t.Error(err) }
}

func TestAuditStream_nowhere_costs_nothing(t *testing.T) {
	s, err := openStream("", nil, noFailure(t))
	if err != nil || s != nil {
		t.Fatal(s, err)
	}
	s.committed(commitOf("a")) // a nil stream takes everything
	if s.skippedRecords() != 0 || s.close() != nil {
		t.Fatal("a stream to nowhere skipped or failed")
	}
}

func TestAuditStream_writes_every_commit_in_order(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trail.ndjson")
	s, err := openStream(path, nil, noFailure(t))
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for i := range 500 {
		fmt.Fprintf(&want, "record %d\n", i)
		s.committed(commitOf(fmt.Sprintf("record %d", i)))
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want.String() || s.skippedRecords() != 0 {
		t.Fatalf("%d bytes, %d skipped (%v)", len(got), s.skippedRecords(), err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v (%v)", info.Mode(), err)
	}
}

// TestAuditStream_waits_for_nobody: what is no file is an error with a hint, not a start
// that hangs. A FIFO that somebody reads is none either: its records end with its reader.
func TestAuditStream_waits_for_nobody(t *testing.T) {
	dir := t.TempDir()
	alone, read := filepath.Join(dir, "alone"), filepath.Join(dir, "read")
	for _, fifo := range []string{alone, read} {
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := os.OpenFile(read, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, path := range []string{alone, read, dir, os.DevNull, filepath.Join(dir, "absent", "trail")} {
		s, err := openStream(path, nil, noFailure(t))
		var u *unusableError
		if s != nil || !errors.As(err, &u) || u.hint == "" || !strings.Contains(u.what, path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestAuditStream_follows_a_rotation renames the file between two commits, as
// logrotate does: no record is lost, doubled or split.
func TestAuditStream_follows_a_rotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "trail.ndjson")
	s, err := openStream(path, nil, noFailure(t))
	if err != nil {
		t.Fatal(err)
	}
	var want, got strings.Builder
	for i := range 20 {
		fmt.Fprintf(&want, "record %d\n", i)
		s.committed(commitOf(fmt.Sprintf("record %d", i)))
		if i%5 == 4 {
			if err := os.Rename(path, fmt.Sprintf("%s.%02d", path, i)); err != nil && !errors.Is(err, os.ErrNotExist) {
				t.Fatal(err)
			}
		}
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	// The rotated ones first; their names sort after the present one's, which is not
	// there when the last rotation came after the last record.
	if files[0] == path {
		files = append(files[1:], path)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got.Write(b)
	}
	if got.String() != want.String() {
		t.Fatalf("in %v:\n%s", files, got.String())
	}
}

// A file that was removed, and cannot be made again, takes nothing for anybody: what is
// left out is counted, and the next file begins where there is one.
func TestAuditStream_whose_folder_is_gone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "trail")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "trail.ndjson")
	f, _, err := openAppend(path)
	if err != nil {
		t.Fatal(err)
	}
	s := &auditStream{path: path, out: f, failed: func(error) {}}
	put := func(records string) {
		s.unwritten = append(s.unwritten, records...)
		s.flush()
		_ = s.followRename() // as write does; its error is told, and tried again
	}
	put("a\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	put("b\n") // nobody knew yet
	put("c1\nc2\n")
	if got := s.skippedRecords(); got != 2 {
		t.Errorf("%d records were left out, want 2", got)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	put("d\n")
	put("e\n")
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "e\n" || s.skippedRecords() != 3 {
		t.Errorf("%q, %v, %d left out", got, err, s.skippedRecords())
	}
	if err := s.out.Close(); err != nil {
		t.Error(err)
	}
}

// stuck is a stream's end that takes nothing until it is let go.
type stuck struct {
	bytes.Buffer
	begun, letGo chan struct{}
}

// Write waits.
func (s *stuck) Write(b []byte) (int, error) {
	select {
	case s.begun <- struct{}{}:
	default:
	}
	<-s.letGo
	return s.Buffer.Write(b)
}

func TestAuditStream_that_is_stuck_is_skipped_and_never_waited_for(t *testing.T) {
	out := &stuck{begun: make(chan struct{}, 1), letGo: make(chan struct{})}
	s, err := openStream("stdout", out, noFailure(t))
	if err != nil {
		t.Fatal(err)
	}
	s.committed(commitOf("first"))
	<-out.begun
	for range streamQueue + 100 {
		s.committed(commitOf("more"))
	}
	if got := s.skippedRecords(); got != 100 {
		t.Errorf("%d records were skipped, want 100", got)
	}
	close(out.letGo)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != streamQueue+1 {
		t.Errorf("%d lines came through, want %d", lines, streamQueue+1)
	}
}

func TestAuditStream_bounds_the_bytes_that_wait(t *testing.T) {
	out := &stuck{begun: make(chan struct{}, 1), letGo: make(chan struct{})}
	s, err := openStream("stdout", out, noFailure(t))
	if err != nil {
		t.Fatal(err)
	}
	s.committed(commitOf("first"))
	<-out.begun
	big := strings.Repeat("x", streamMaxBytes/4)
	for range 6 {
		s.committed(commitOf(big))
	}
	if s.skippedRecords() < 2 {
		t.Errorf("%d skipped; more than streamMaxBytes waits", s.skippedRecords())
	}
	close(out.letGo)
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
}

// broken is a stream's end that refuses.
type broken struct{}

// Write fails.
func (broken) Write([]byte) (int, error) { return 0, errors.New("no such pipe") }

func TestAuditStream_says_that_it_cannot_write_and_goes_on(t *testing.T) {
	failures := make(chan error, 10)
	s, err := openStream("stdout", broken{}, func(err error) { failures <- err })
	if err != nil {
		t.Fatal(err)
	}
	s.committed(commitOf("a"))
	if err := <-failures; err == nil || !strings.Contains(err.Error(), "no such pipe; so far 1 records were left out") {
		t.Fatalf("told: %v", err)
	}
	for range 50 { // a full disk refuses each commit: the log must not be filled by it, too
		s.committed(commitOf("b"))
	}
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	if len(failures) > 0 || s.skippedRecords() != 51 {
		t.Errorf("told again at once: %d times; %d records left out", len(failures), s.skippedRecords())
	}
}

// narrow is a stream's end that takes so many bytes more and refuses the rest, as a full
// disk does.
type narrow struct {
	bytes.Buffer
	room int
}

// Write takes what there is room for.
func (n *narrow) Write(b []byte) (int, error) {
	took := min(len(b), n.room)
	n.room -= took
	n.Buffer.Write(b[:took])
	if took < len(b) {
		return took, syscall.ENOSPC
	}
	return took, nil
}

// Whatever is refused in between, a line is a record, and what is no record in the
// stream is counted. A line that was cut off on stdout is one by itself.
func TestAuditStream_of_which_a_piece_was_refused(t *testing.T) {
	out := new(narrow)
	s := &auditStream{out: nopCloser{out}, failed: func(error) {}}
	put := func(room int, records string) {
		out.room = room
		s.unwritten = append(s.unwritten, records...)
		s.flush()
	}
	put(100, "a1\na2\n")
	put(4, "b1\nb2\nb3\n") // b1, and the beginning of b2
	put(0, "c1\n")
	put(1, "d1\n") // no more than the end of b2's line
	put(100, "e1\ne2\n")
	if got, want := out.String(), "a1\na2\nb1\nb\ne1\ne2\n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := s.skippedRecords(); got != 4 {
		t.Errorf("%d records were left out, want 4", got)
	}
}

// In a file nothing stays of a line that was cut off: by a limit here, as by a full disk,
// and by the kill of the process before, which nobody could take back.
func TestAuditStream_ends_in_whole_lines_in_a_file(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trail.ndjson")
	if err := os.WriteFile(path, []byte("a1\na2, cut o"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := openStream(path, nil, noFailure(t))
	if err != nil {
		t.Fatal(err)
	}
	s.committed(commitOf("b1"))
	if err := s.close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("c1\nc2, cut"); err != nil {
		t.Fatal(err)
	}
	s = &auditStream{path: path, out: f}
	if !s.takeBack(len("c2, cut")) {
		t.Error("it cannot be taken back")
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "a1\na2, cut o\nb1\nc1\n" {
		t.Errorf("%q, %v", got, err)
	}
}
