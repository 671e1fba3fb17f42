package boltstore

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// TestArchived_a_damaged_mark_is_found: one that does not match its checksum refuses
// the file, one that names another block is found by a verification. Either would let
// go of records that no archive holds.
func TestArchived_a_damaged_mark_is_found(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	path := t.TempDir() + "/breakwater.db"
	s := openAt(t, path, now)
	st, err := s.Status(ctx, now)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Archived(ctx, queue.Action{Now: now}, queue.ArchiveInfo{Head: st.Head, Records: st.Records}); err != nil {
		t.Fatal(err)
	}
	wants := func(finding string) {
		t.Helper()
		v, err := s.Verify(ctx, queue.VerifyOptions{})
		if err != nil || (len(v.Findings) > 0) != (finding != "") {
			t.Fatalf("%+v (%v), want %q", v.Findings, err, finding)
		}
		if finding != "" && !strings.Contains(v.Findings[0].What, finding) {
			t.Fatalf("%+v, want %q", v.Findings, finding)
		}
	}
	wants("")
	put := func(b []byte) {
		t.Helper()
		err := s.file.DB().Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketMeta).Put(metaArchived, b) })
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	put(appendArchiveMark(nil, &queue.ArchiveMark{Head: st.Head, N: st.Records + 1, At: now}))
	s = openAt(t, path, now)
	wants("the mark of what is archived")

	mark := appendArchiveMark(nil, &queue.ArchiveMark{Head: st.Head, N: st.Records, At: now})
	mark[7]++
	put(mark)
	if _, err := Open(Options{Path: path}); !errors.Is(err, queue.ErrDamaged) {
		t.Fatalf("with a damaged mark: %v", err)
	}
}
