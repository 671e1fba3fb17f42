package boltstore

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"breakwater/queue"
)

// TestSnapshot_is_of_one_moment copies a store while it is written to, and opens each
// copy: its trail ends where the store's was at that moment, its counts are what that
// trail says, and the commits went on meanwhile.
func TestSnapshot_is_of_one_moment(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	dir := t.TempDir()
	s := openAt(t, dir+"/breakwater.db", now)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	ended := make(chan struct{})
	var working sync.WaitGroup
	working.Go(func() {
		for i := 0; ; i += 20 {
			select {
			case <-ended:
				return
			default:
			}
			lines := make([]queue.Submission, 20)
			for k := range lines {
				lines[k] = submission(t, i+k, 10)
			}
			if _, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: lines}); err != nil {
				t.Error(err)
				return
			}
			if _, err := s.Settle(ctx, queue.SettleRequest{Now: now, Settlements: claimSome(t, s, now, 10)}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for i := range 4 {
		during := 0
		to, err := os.Create(filepath.Join(dir, "copy"))
		if err != nil {
			t.Fatal(err)
		}
		info, err := s.Snapshot(ctx, to, func(p SnapshotStep) error {
			if p.Done > 0 && during == 0 { // the copy waits for commits, and they do not wait for it
				before, err := s.Head(ctx)
				for err == nil && during < 3 {
					var h queue.Head
					if h, err = s.Head(ctx); h.Block > before.Block {
						before = h
						during++
					}
				}
				return err
			}
			return nil
		})
		if err != nil || during < 3 {
			t.Fatalf("copy %d: %v, %d commits meanwhile", i, err, during)
		}
		if err := Seal(to, to.Name(), []byte("{}")); err != nil {
			t.Fatal(err)
		}
		_ = to.Close()
		c, err := OpenCopy(Options{Path: to.Name()})
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Verify(ctx, queue.VerifyOptions{Buckets: true})
		if err != nil || len(v.Findings) > 0 || v.Head != info.Head || v.Records != info.Records {
			t.Errorf("copy %d of %s, record %d: %+v (%v)", i, info.Head, info.Records, v, err)
		}
		st, err := c.Status(ctx, now)
		if err != nil || st.Done != int64(v.Events[queue.EventDecided]) || st.Done+st.Backlog() != int64(v.Events[queue.EventAccepted]) {
			t.Errorf("copy %d: %+v, the trail has %v (%v)", i, st, v.Events, err)
		}
		if live, err := s.Verify(ctx, queue.VerifyOptions{Witnesses: []queue.Witness{{Head: info.Head}}}); err != nil || live.Verdicts[0] != queue.WitnessFound {
			t.Errorf("copy %d is not of this store: %+v (%v)", i, live.Findings, err)
		}
		if err := errors.Join(c.Close(), os.Remove(to.Name())); err != nil {
			t.Error(err)
		}
	}
	close(ended)
	working.Wait()
}

func TestSnapshot_ends_when_it_is_told_to(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	dir := t.TempDir()
	s := openAt(t, dir+"/breakwater.db", now)
	defer s.Close()
	stop := errors.New("enough")
	stopped, cancel := context.WithCancelCause(ctx)
	for name, c := range map[string]struct {
		ctx  context.Context
		step func(SnapshotStep) error
	}{
		"before the first byte": {ctx, func(SnapshotStep) error { return stop }},
		"on the way": {ctx, func(p SnapshotStep) error {
			if p.Done > 0 {
				return stop
			}
			return nil
		}},
		"by the context": {stopped, func(SnapshotStep) error { cancel(stop); return nil }},
	} {
		to, err := os.Create(filepath.Join(dir, "copy"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Snapshot(c.ctx, to, c.step); !errors.Is(err, stop) {
			t.Errorf("%s: %v", name, err)
		}
		_ = to.Close()
	}
	if err := s.Probe(ctx); err != nil { // nobody holds anything
		t.Error(err)
	}
}
