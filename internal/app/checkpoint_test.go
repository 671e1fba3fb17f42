package app

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/checkpoint"
	"breakwater/internal/config"
	"breakwater/queue"
	"breakwater/storage/archive"
	"breakwater/storage/memstore"
)

// signing is some checkpoints under test, with a store whose head a test moves.
type signing struct {
	*checkpoints
	t     *testing.T
	store *memstore.Store
	keys  *checkpoint.Keys

	mu     sync.Mutex // of what the writer and the test share
	out    []byte
	refuse error
	log    bytes.Buffer
}

// refuses lets whatever is written fail with err; nil: no more.
func (g *signing) refuses(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.refuse = err
}

// said returns the log so far.
func (g *signing) said() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.log.String()
}

// logOf writes to the log of a test.
type logOf struct{ g *signing }

func (l logOf) Write(b []byte) (int, error) {
	l.g.mu.Lock()
	defer l.g.mu.Unlock()
	return l.g.log.Write(b)
}

func newSigning(t *testing.T, interval time.Duration) *signing {
	t.Helper()
	path := filepath.Join(t.TempDir(), "k")
	public, _, err := checkpoint.WriteKey(path, "branch-7/breakwater")
	if err != nil {
		t.Fatal(err)
	}
	g := &signing{t: t, store: memstore.New(memstore.Options{})}
	if g.keys, err = checkpoint.ReadKeys(public); err != nil {
		t.Fatal(err)
	}
	a := &appliance{log: hclog.New(&hclog.LoggerOptions{Output: logOf{g}}), o: Options{Config: config.Config{
		Checkpoint: config.Checkpoint{Key: path, Output: config.Stdout, Interval: interval},
	}}}
	if g.checkpoints, err = a.openCheckpoints(); err != nil {
		t.Fatal(err)
	}
	g.write = func(signed []byte) error {
		g.mu.Lock()
		defer g.mu.Unlock()
		if g.refuse == nil {
			g.out = append(append(g.out, signed...), '\n')
		}
		return g.refuse
	}
	g.move()
	return g
}

// move adds a record to the trail.
func (g *signing) move() {
	g.t.Helper()
	if err := g.store.Note(context.Background(), time.Now(), []queue.Record{{Event: queue.EventAttached}}); err != nil {
		g.t.Fatal(err)
	}
}

// signed are the records that the checkpoints so far cover, each of the store's own.
func (g *signing) signed() (covered []uint64) {
	g.t.Helper()
	st, err := g.store.Status(context.Background(), time.Now())
	if err != nil {
		g.t.Fatal(err)
	}
	g.mu.Lock()
	out := bytes.Clone(g.out)
	g.mu.Unlock()
	err = checkpoint.Read(bytes.NewReader(out), g.keys, func(e checkpoint.Entry) error {
		if e.Err != nil || e.Checkpoint.Origin != st.Origin {
			g.t.Errorf("%+v", e)
		}
		covered = append(covered, e.Checkpoint.N)
		return nil
	})
	if err != nil {
		g.t.Fatal(err)
	}
	return covered
}

func (g *signing) want(covered ...uint64) {
	g.t.Helper()
	if got := g.signed(); !slices.Equal(got, covered) {
		g.t.Errorf("checkpoints of records %v, want %v", got, covered)
	}
}

// pass lets time pass in a bubble, and everything happen that was due by then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestCheckpoints_are_signed_when_the_head_has_moved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSigning(t, time.Minute)
		g.begin(g.store.Status)
		defer g.end()
		synctest.Wait()
		g.want(1) // at the start
		pass(5 * time.Minute)
		g.want(1)
		g.move()
		g.move()
		pass(time.Minute)
		g.want(1, 3)
		g.move()
		g.farewell()
		g.want(1, 3, 4)
		if r := g.report(); r.N != 4 || r.Written != 3 || r.Failed != 0 || !r.FailingSince.IsZero() || r.At.IsZero() || r.Key != g.signer.Name() {
			t.Errorf("%+v", r)
		}
	})
}

// TestCheckpoints_of_an_archive_are_of_its_head, which the trail has left behind.
func TestCheckpoints_of_an_archive_are_of_its_head(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSigning(t, time.Hour)
		st, err := g.store.Status(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		g.move()
		g.begin(g.store.Status)
		defer g.end()
		synctest.Wait()
		if err := g.ask(t.Context(), &queue.Witness{Head: st.Head, N: st.Records}); err != nil {
			t.Fatal(err)
		}
		g.want(2, 1)
		pass(2 * time.Hour)
		g.want(2, 1) // the head has not moved
	})
}

// TestCheckpoints_that_fail_are_tried_again_and_told_once.
func TestCheckpoints_that_fail_are_tried_again_and_told_once(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSigning(t, time.Hour)
		g.refuses(syscall.ENOSPC)
		g.begin(g.store.Status)
		defer g.end()
		pass(10*checkpointRetry + time.Second)
		r := g.report()
		if r.Failed != 11 || r.Failing != 11 || r.N != 0 || r.FailingSince.IsZero() || !strings.Contains(r.Error, "no space") {
			t.Errorf("%+v", r)
		}
		if n := strings.Count(g.said(), "no checkpoint could be written"); n != 1 {
			t.Errorf("told %d times:\n%s", n, g.said())
		}
		g.refuses(nil)
		pass(checkpointRetry)
		g.want(1)
		if r := g.report(); r.Failed != 11 || r.Failing != 0 || r.Written != 1 || r.Error != "" {
			t.Errorf("%+v", r)
		}
		if !strings.Contains(g.said(), "written again: failures=11") && !strings.Contains(g.said(), "failures=11") {
			t.Errorf("nothing says that it works again:\n%s", g.said())
		}
	})
}

// TestCheckpoints_do_not_hold_up_a_stop: an output that takes nothing costs the drain
// its patience, and no more.
func TestCheckpoints_do_not_hold_up_a_stop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSigning(t, time.Minute)
		blocked := make(chan struct{})
		g.write = func([]byte) error { <-blocked; return nil }
		g.begin(g.store.Status)
		synctest.Wait()
		before := time.Now()
		g.farewell()
		g.end()
		if d := time.Since(before); d > 3*checkpointPatience {
			t.Errorf("the stop took %v", d)
		}
		close(blocked)
		<-g.ended
	})
}

// TestCheckpoints_do_not_hold_up_an_archive either: it is there, and that is what whoever
// asked for it is told.
func TestCheckpoints_do_not_hold_up_an_archive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newSigning(t, time.Minute)
		blocked := make(chan struct{})
		g.write = func([]byte) error { <-blocked; return nil }
		g.begin(g.store.Status)
		synctest.Wait()
		a := &appliance{checkpoints: g.checkpoints, log: g.checkpoints.log}
		m := &archive.Manifest{}
		m.Audit.Block, m.Audit.Head = 1, strings.Repeat("ab", 32)
		before := time.Now()
		a.checkpointArchive(t.Context(), m)
		if d := time.Since(before); d != checkpointPatience || !strings.Contains(g.said(), "the archive has no checkpoint") {
			t.Errorf("the archive took %v longer:\n%s", d, g.said())
		}
		close(blocked)
		g.end()
		<-g.ended
	})
}

func TestCheckpoints_nowhere_cost_nothing(t *testing.T) {
	a := &appliance{}
	c, err := a.openCheckpoints()
	if err != nil || c != nil {
		t.Fatal(c, err)
	}
	c.begin(nil)
	if c.report() != nil || c.counts().Written != 0 || c.ask(t.Context(), nil) != nil {
		t.Error("a nil one does something")
	}
	c.farewell()
	c.end()
}

func TestOpenCheckpoints_refuses_a_key_that_others_can_read(t *testing.T) {
	path := filepath.Join(t.TempDir(), "k")
	if _, _, err := checkpoint.WriteKey(path, "k"); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	a := &appliance{o: Options{Config: config.Config{Checkpoint: config.Checkpoint{Key: path}}}}
	if _, err := a.openCheckpoints(); !IsConfig(err) || !strings.Contains(err.Error(), "can be read by others") {
		t.Errorf("%v", err)
	}
}

func TestAppendCheckpoint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "checkpoints")
	read := func(path string) string {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for range 2 {
		if err := appendCheckpoint(path, []byte("one\n")); err != nil {
			t.Fatal(err)
		}
	}
	if got := read(path); got != "one\n\none\n\n" {
		t.Errorf("%q", got)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm()&^0o640 != 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if err := os.Rename(path, path+".1"); err != nil { // a rotation
		t.Fatal(err)
	}
	if err := appendCheckpoint(path, []byte("two\n")); err != nil || read(path) != "two\n\n" {
		t.Errorf("%q, %v", read(path), err)
	}
	for torn, want := range map[string]string{"half": "half\n\ntwo\n\n", "line\n": "line\n\ntwo\n\n", "": "two\n\n"} {
		if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := appendCheckpoint(path, []byte("two\n")); err != nil || read(path) != want {
			t.Errorf("after %q: %q, %v", torn, read(path), err)
		}
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if err := appendCheckpoint(link, nil); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a link: %v", err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := appendCheckpoint(fifo, nil); err == nil || !strings.Contains(err.Error(), "is not a file") {
		t.Errorf("a FIFO: %v", err)
	}
	if err := appendCheckpoint(filepath.Join(dir, "absent", "checkpoints"), nil); err == nil {
		t.Error("a folder that is not there")
	}
}
