package boltstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// quarantine stores a line that no gate lets in, and returns its letter.
func quarantine(t *testing.T, s *Store, now time.Time, line string) queue.Exception {
	t.Helper()
	ctx := context.Background()
	sub := queue.Submission{Message: queue.Message{Line: []byte(line)}, Fault: &queue.Fault{Reason: "no"},
		LineBytes: int64(len(line)), LineHash: queue.LineHash([]byte(line))}
	res, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: []queue.Submission{sub}})
	if err != nil {
		t.Fatal(err)
	}
	x, err := s.Exception(ctx, res.Receipts[0].Seq)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// editTo gives a letter the content of the i-th line.
func editTo(t *testing.T, s *Store, now time.Time, x *queue.Exception, i int) {
	t.Helper()
	edits := []queue.Edit{{Seq: x.Seq, Was: x.LineHash, Line: submission(t, i, 4).Message.Line}}
	res, err := s.Edit(context.Background(), queue.Action{Now: now, By: "olga"}, edits)
	if err != nil || res[0].Code != "" {
		t.Fatalf("%+v, %v", res, err)
	}
}

// TestVerify_an_edited_letter_is_what_its_trail_says changes either of the two lines of
// an edited letter, each time with a checksum that is right: only the trail tells.
func TestVerify_an_edited_letter_is_what_its_trail_says(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	s := openAt(t, t.TempDir()+"/breakwater.db", now)
	defer s.Close()
	x := quarantine(t, s, now, "not JSON")
	editTo(t, s, now, &x, 1)
	change := func(f func(*record)) {
		t.Helper()
		err := s.file.DB().Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketDead)
			d, err := parseDead(x.Seq, b.Get(seqKey(x.Seq)))
			if err != nil {
				return err
			}
			m, err := parseRecord(d.record)
			if err != nil {
				return err
			}
			f(&m)
			end := recordHeader + int(binary.BigEndian.Uint32(d.record[offStrings:]))
			rec := append(append([]byte(nil), d.record[:end]...), m.msg.Line...)
			if rec[0] = recordVersion; m.past.edited {
				rec[0] = recordReturns
				rec = append(appendPast(append([]byte(nil), rec[:end]...), &m.past), m.msg.Line...)
			}
			sumRecord(rec)
			d.record = rec
			value, err := appendDead(nil, &d)
			if err != nil {
				return err
			}
			return b.Put(seqKey(x.Seq), value)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wants := func(copied bool, parts ...string) {
		t.Helper()
		v, err := s.Verify(ctx, queue.VerifyOptions{Buckets: copied})
		if err != nil || len(v.Findings) != len(parts) {
			t.Fatalf("copy %v: %+v (%v), want %q", copied, v.Findings, err, parts)
		}
		for i, part := range parts {
			if f := v.Findings[i]; !strings.Contains(f.What, part) || f.Seq != x.Seq {
				t.Errorf("%+v, want %q", f, part)
			}
		}
	}
	wants(true)
	wants(false)

	other := submission(t, 2, 4).Message.Line
	var sound record
	change(func(m *record) { sound = *m; m.msg.Line = other })
	wants(true, "the one that the trail says it was edited to")
	wants(false) // it may have been edited again since the trail was read
	change(func(m *record) { *m = sound; m.past.sent.line = []byte("not json") })
	wants(true, "is not the one that was sent")
	wants(false, "is not the one that was sent")
	change(func(m *record) {
		*m = sound
		m.past.sent = sentLine{hash: queue.LineHash(other), bytes: int64(len(other)), line: other}
	})
	wants(false, "is not the one that was sent")
	change(func(m *record) { *m = sound; m.past = past{} })
	wants(true, "the line that was sent is not stored")
	change(func(m *record) { *m = sound })
	wants(true)
}

// TestAliases_that_lead_nowhere_are_dropped edits and forgets more letters than there
// may be aliases left.
func TestAliases_that_lead_nowhere_are_dropped(t *testing.T) {
	ctx, now := context.Background(), time.Now()
	s := openAt(t, t.TempDir()+"/breakwater.db", now)
	defer s.Close()
	kept := quarantine(t, s, now, "not JSON")
	editTo(t, s, now, &kept, 0)
	aliases := func() (n int) {
		if err := s.view(func(tx *bolt.Tx) error { n = tx.Bucket(bucketAliases).Stats().KeyN; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	most := 0
	for i := range 5 * aliasSweep {
		x := quarantine(t, s, now, fmt.Sprintf("not JSON %d", i))
		editTo(t, s, now, &x, i+1)
		most = max(most, aliases())
		if _, err := s.Discard(ctx, queue.Action{Now: now, Forget: true}, []uint64{x.Seq}); err != nil {
			t.Fatal(err)
		}
	}
	if most > aliasSweep+4 {
		t.Errorf("there were %d aliases at a time", most)
	}
	res, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: []queue.Submission{{
		Message: queue.Message{Line: kept.Line}, Fault: &queue.Fault{Reason: "no"}, LineBytes: kept.LineBytes, LineHash: kept.LineHash,
	}}})
	if err != nil || res.Receipts[0].Status != queue.Duplicate || res.Receipts[0].Seq != kept.Seq {
		t.Errorf("%+v, %v", res, err)
	}
}
