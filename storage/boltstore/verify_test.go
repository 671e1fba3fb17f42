package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// TestVerify_a_copy_s_buckets_are_what_its_trail_says takes a message out of the
// backlog, and puts a settled one back: each record is sound in itself, only the
// comparison with the trail tells, and with what was counted when it was loaded.
func TestVerify_a_copy_s_buckets_are_what_its_trail_says(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	s := openAt(t, t.TempDir()+"/breakwater.db", now)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	lines := make([]queue.Submission, 4)
	for i := range lines {
		lines[i] = submission(t, i, 4)
	}
	if _, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: lines}); err != nil {
		t.Fatal(err)
	}
	change := func(f func(b *bolt.Bucket) error) {
		t.Helper()
		if err := s.file.DB().Update(func(tx *bolt.Tx) error { return f(tx.Bucket(bucketBacklog)) }); err != nil {
			t.Fatal(err)
		}
	}
	wants := func(parts ...string) {
		t.Helper()
		v, err := s.Verify(ctx, queue.VerifyOptions{Buckets: true})
		if err != nil || len(v.Findings) != len(parts) {
			t.Fatalf("%+v (%v), want %q", v.Findings, err, parts)
		}
		for i, part := range parts {
			if !strings.Contains(v.Findings[i].What, part) {
				t.Errorf("%+v, want %q", v.Findings[i], part)
			}
		}
	}
	wants()

	var kept []byte
	change(func(b *bolt.Bucket) error {
		kept = append(kept, b.Get(seqKey(2))...)
		return b.Delete(seqKey(2))
	})
	const amounts, ages = "the counters differ from what is stored: the amounts of open", "the counters differ from what is stored: the ages of open"
	wants(amounts, ages, "it is not stored")
	change(func(b *bolt.Bucket) error { return b.Put(seqKey(2), kept) })
	wants()

	acks := claimSome(t, s, now, 1)
	change(func(b *bolt.Bucket) error {
		kept = append(kept[:0], b.Get(seqKey(acks[0].Token.Seq))...)
		return nil
	})
	if _, err := s.Settle(ctx, queue.SettleRequest{Now: now, Settlements: acks}); err != nil {
		t.Fatal(err)
	}
	change(func(b *bolt.Bucket) error { return b.Put(seqKey(acks[0].Token.Seq), kept) })
	wants("the trail says that it is settled", amounts, ages)
	change(func(b *bolt.Bucket) error { return b.Delete(seqKey(acks[0].Token.Seq)) })
	wants()
}

// TestVerify_a_copy_without_one_of_its_meta_pages_may_be_a_commit_old spoils one of the
// two pages that name the newest commit. If it was the newer one, the file that is left is
// sound in itself, a commit older, and nobody beside a copy knows better.
func TestVerify_a_copy_without_one_of_its_meta_pages_may_be_a_commit_old(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	path := t.TempDir() + "/breakwater.db"
	s := openAt(t, path, now)
	if _, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: []queue.Submission{submission(t, 0, 1)}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []int{0, 1, -1} {
		body := bytes.Clone(whole)
		if page >= 0 {
			clear(body[page*os.Getpagesize()+16:][:64]) // behind the page's header
		}
		path := t.TempDir() + "/copy.db"
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := OpenCopy(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Verify(ctx, queue.VerifyOptions{Buckets: true})
		if err != nil {
			t.Fatal(err)
		}
		found, err := c.Found()
		if err != nil {
			t.Fatal(err)
		}
		if page < 0 {
			if len(v.Findings) > 0 || found.Fallback != "" {
				t.Errorf("a whole copy: %+v, %q", v.Findings, found.Fallback)
			}
		} else if want := fmt.Sprintf("meta page %d cannot be used", page); len(v.Findings) != 1 || !strings.HasPrefix(v.Findings[0].What, want) || !strings.HasPrefix(found.Fallback, want) {
			t.Errorf("page %d: %+v, %q", page, v.Findings, found.Fallback)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
