package boltstore

import (
	"context"
	"errors"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// TestReaders_hold_up_neither_the_writer_nor_the_end: somebody reads the trail and
// stops in the middle, as a pager does. The file grows meanwhile, which in bbolt waits
// for every open read transaction, and in the end the store closes. Nothing may wait
// for the reader; without that this test hangs.
func TestReaders_hold_up_neither_the_writer_nor_the_end(t *testing.T) {
	t.Parallel()
	ctx, now := context.Background(), time.Now()
	s := openAt(t, t.TempDir()+"/breakwater.db", now)
	admitLong(t, s, now, 0, 200, 8<<10)

	paused, goOn, ended := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		seen := 0
		ended <- s.Trail(ctx, queue.TrailQuery{}, func(queue.Record) bool {
			if seen++; seen == 1 {
				close(paused)
				<-goOn
			}
			return true
		})
	}()
	<-paused
	before, err := s.Status(ctx, now)
	if err != nil {
		t.Fatal(err)
	}
	for batch := 1; batch <= 20; batch++ {
		admitLong(t, s, now, batch*200, 200, 8<<10)
		if _, err := s.Exceptions(ctx, 0, 10); err != nil {
			t.Fatal(err)
		}
	}
	after, err := s.Status(ctx, now)
	if err != nil || after.FileBytes < before.FileBytes+(16<<20) {
		t.Fatalf("the file grew from %d to %d bytes only (%v)", before.FileBytes, after.FileBytes, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	close(goOn)
	if err := <-ended; err != nil && !errors.Is(err, queue.ErrClosed) {
		t.Fatal(err)
	}
}

// TestOrigin_an_archive_copy_is_refused_unless_it_is_meant: a copy that carries the
// archive's mark is not taken for the store; taken into service, it loses the mark,
// starts paused and says so.
func TestOrigin_an_archive_copy_is_refused_unless_it_is_meant(t *testing.T) {
	path, now := t.TempDir()+"/breakwater.db", time.Now()
	s := openAt(t, path, now)
	err := s.file.DB().Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(metaArchive, []byte{1}) })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Options{Path: path}); !errors.Is(err, ErrArchive) {
		t.Fatalf("opened without being asked to: %v", err)
	}
	s, err = Open(Options{Path: path, Restore: true})
	if err != nil {
		t.Fatal(err)
	}
	if r := s.Report(); !r.Restored || r.Why == "" {
		t.Fatalf("%+v", r)
	}
	if _, err := s.Start(context.Background(), queue.StartRequest{Now: now, Restored: true}); err != nil {
		t.Fatal(err)
	}
	if st, err := s.Status(context.Background(), now); err != nil || st.Paused == nil {
		t.Fatalf("%+v (%v)", st, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s, err = Open(Options{Path: path})
	if err != nil {
		t.Fatalf("the next ordinary start: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
