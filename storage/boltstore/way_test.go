package boltstore

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

func TestRightOfWay_one_commit_at_a_time_is_waited_for(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w rightOfWay
		w.give(t.Context(), time.Hour) // nobody is in the way
		end := w.take()
		var gone atomic.Bool
		give := func(ctx context.Context, patience time.Duration) {
			gone.Store(false)
			go func() {
				w.give(ctx, patience)
				gone.Store(true)
			}()
			synctest.Wait()
		}
		give(t.Context(), time.Hour)
		if gone.Load() {
			t.Error("it did not wait for the commit")
		}
		end()
		end = w.take() // the next one follows at once
		synctest.Wait()
		if !gone.Load() {
			t.Error("it waits for a second commit, too: a store that never rests would hold it up for ever")
		}
		begun := time.Now()
		w.give(t.Context(), time.Second)
		if waited := time.Since(begun); waited != time.Second {
			t.Errorf("its patience ended after %s", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		give(ctx, time.Hour)
		cancel()
		synctest.Wait()
		if !gone.Load() {
			t.Error("it waits for a commit although nobody wants the copy any more")
		}
		end()
	})
}

// TestSnapshot_begins_no_piece_while_a_commit_is_written: after every fifth piece of a copy
// a commit begins, in which the test waits until the copy can do nothing more by itself.
// By then it has ended the piece that was under way, and no more.
func TestSnapshot_begins_no_piece_while_a_commit_is_written(t *testing.T) {
	warm(t)
	synctest.Test(t, func(t *testing.T) {
		ctx, now := t.Context(), time.Now()
		dir := t.TempDir()
		var copying atomic.Bool
		var pieces, commits atomic.Int64
		begin, begun := make(chan struct{}), make(chan struct{})
		s, err := Open(Options{Path: dir + "/breakwater.db", commit: func(tx *bolt.Tx) error {
			if copying.Load() {
				before := pieces.Load()
				begun <- struct{}{}
				synctest.Wait()
				if n := pieces.Load() - before; n > 1 {
					t.Errorf("the copy wrote %d pieces during a commit", n)
				}
				commits.Add(1)
			}
			return tx.Commit()
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		if _, err := s.Start(ctx, queue.StartRequest{Now: now}); err != nil {
			t.Fatal(err)
		}
		admit(t, s, now, 0, 10000)
		to, err := os.Create(filepath.Join(dir, "copy"))
		if err != nil {
			t.Fatal(err)
		}
		defer to.Close()
		var committing sync.WaitGroup
		copying.Store(true)
		committing.Go(func() {
			for range begin {
				if err := s.Probe(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
		info, err := s.Snapshot(ctx, to, func(p SnapshotStep) error {
			if p.Done > 0 && pieces.Add(1)%5 == 0 {
				begin <- struct{}{}
				<-begun
			}
			return nil
		})
		close(begin)
		committing.Wait()
		copying.Store(false)
		if want := (info.Bytes + snapshotPiece - 1) / snapshotPiece; err != nil || pieces.Load() != want || want < 20 || commits.Load() != want/5 {
			t.Errorf("%d pieces of %d, %d commits meanwhile (%v)", pieces.Load(), want, commits.Load(), err)
		}
	})
}

// warm has the trail's blocks packed and unpacked once outside of any bubble: what does
// that is made at its first use, for all tests, with channels of the bubble that it is
// made in.
func warm(t *testing.T) {
	t.Helper()
	path, now := t.TempDir()+"/warm.db", time.Now()
	s := openAt(t, path, now)
	admit(t, s, now, 0, 1000)
	if _, err := s.Verify(t.Context(), queue.VerifyOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// admit stores messages, a thousand at a time.
func admit(t *testing.T, s *Store, now time.Time, from, n int) {
	t.Helper()
	admitLong(t, s, now, from, n, 0)
}

// admitLong stores messages whose lines have so many bytes, at least.
func admitLong(t *testing.T, s *Store, now time.Time, from, n, bytes int) {
	t.Helper()
	for i := 0; i < n; i += 1000 {
		lines := make([]queue.Submission, min(1000, n-i))
		for k := range lines {
			lines[k] = longSubmission(t, from+i+k, 100, bytes)
		}
		if _, err := s.Admit(t.Context(), queue.AdmitRequest{Now: now, Lines: lines}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFlushing_a_disk_s_cache_never_holds_much_of_a_copy(t *testing.T) {
	var f flushing
	flushed, commits, own := int64(0), uint64(0), 0
	for written := int64(0); written < 20*flushEvery; written += snapshotPiece {
		if written > 10*flushEvery { // the store is busy from here on
			commits++
			flushed = written
		}
		if f.due(written, commits) {
			own++
			flushed = written
		}
		if written-flushed > flushEvery {
			t.Fatalf("at %d bytes the disk may hold %d that are not flushed", written, written-flushed)
		}
	}
	if own != 10 {
		t.Errorf("it was flushed %d times, want 10: commits do the rest", own)
	}
}

// TestSnapshot_lets_the_file_grow: a copy that stands still in its middle keeps pages and
// the mapping of the file. The file grows beside it, by several steps, and no commit
// waits.
func TestSnapshot_lets_the_file_grow(t *testing.T) {
	now := time.Now()
	dir := t.TempDir()
	s := openAt(t, dir+"/breakwater.db", now)
	defer s.Close()
	admit(t, s, now, 0, 1000)
	to, err := os.Create(filepath.Join(dir, "copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	grown := 0
	_, err = s.Snapshot(t.Context(), to, func(p SnapshotStep) error {
		if p.Done == 0 || grown > 0 {
			return nil
		}
		size := func() int64 {
			st, err := os.Stat(dir + "/breakwater.db")
			if err != nil {
				t.Fatal(err)
			}
			return st.Size()
		}
		for last, n := size(), 1000; grown < 3; n += 200 {
			admitLong(t, s, now, n, 200, 8<<10)
			if now := size(); now > last {
				last = now
				grown++
			}
		}
		return nil
	})
	if err != nil || grown < 3 {
		t.Errorf("the file grew %d times (%v)", grown, err)
	}
}
