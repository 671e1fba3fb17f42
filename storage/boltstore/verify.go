package boltstore

import (
	"context"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// Verify checks the chain and every stored record's checksum, and that the trail
// keeps the promises; see [queue.Reader]. It reads in pages, beside the running
// store.
func (s *Store) Verify(ctx context.Context, o queue.VerifyOptions) (queue.Verification, error) {
	s.verifying.Add(1)
	defer s.verifying.Add(-1)
	var at queue.StoreStatus
	if err := s.look(ctx, func(x *txn) error {
		at = s.counts(x)
		return nil
	}); err != nil {
		return queue.Verification{}, err
	}
	v := queue.NewVerifier(o, at)
	if err := s.verifyTrail(ctx, v, at.Opening.Before.Block+1, at.Head.Block, o.Progress); err != nil {
		return queue.Verification{}, err
	}
	for _, check := range []func(context.Context, *queue.Verifier) error{s.verifySmall, s.verifyBacklog, s.verifyDead, s.verifyLedger, s.verifyMark} {
		if err := check(ctx, v); err != nil {
			return queue.Verification{}, err
		}
	}
	if o.Buckets { // else they change while they are counted
		if r := s.file.Report(); r.MetaFallback { // a running store has written others since
			v.Report(queue.Finding{What: r.Fallback})
		}
		if err := s.verifyCounters(ctx, v); err != nil {
			return queue.Verification{}, err
		}
		if err := s.verifyCopy(ctx, v); err != nil {
			return queue.Verification{}, err
		}
	}
	return v.Result(), nil
}

// verifyTrail feeds the chain to the verifier, from the first block that was kept up to
// the one that was its head when the verification began.
func (s *Store) verifyTrail(ctx context.Context, v *queue.Verifier, first, last uint64, progress func(done, total int64)) error {
	spans := newSpanCheck(v)
	for next := first; next != 0 && next <= last; {
		if err := ctx.Err(); err != nil {
			return err
		}
		from := next
		next = 0
		err := s.view(func(tx *bolt.Tx) error {
			c := tx.Bucket(bucketAudit).Cursor()
			n := 0
			for at, data := c.Seek(seqKey(from)); at != nil; at, data = c.Next() {
				number := binary.BigEndian.Uint64(at)
				if number > last {
					return nil
				}
				if n++; n > trailPage {
					next = number
					return nil
				}
				spans.enter(tx, number)
				v.Block(number, data)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("read the trail: %w", err)
		}
		if progress != nil {
			progress(int64(min(from+trailPage, last)), int64(last))
		}
	}
	return nil
}

// verifyPage is how many records one read transaction of a verification checks.
const verifyPage = 4096

// pages calls f for every entry of a bucket, a page per transaction.
func (s *Store) pages(ctx context.Context, bucket []byte, f func(key, value []byte)) error {
	var from []byte
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		done := true
		err := s.view(func(tx *bolt.Tx) error {
			c := tx.Bucket(bucket).Cursor()
			n := 0
			for at, value := c.Seek(from); at != nil; at, value = c.Next() {
				if n++; n > verifyPage {
					from, done = append(from[:0], at...), false
					return nil
				}
				f(at, value)
			}
			return nil
		})
		if err != nil || done {
			return err
		}
	}
}

// verifyBacklog checks every open message.
func (s *Store) verifyBacklog(ctx context.Context, v *queue.Verifier) error {
	for _, bucket := range [][]byte{bucketBacklog, bucketScheduled} {
		err := s.pages(ctx, bucket, func(at, rec []byte) {
			m, err := parseRecord(rec)
			if err != nil {
				v.Report(queue.Finding{Seq: seqAt(at), What: fmt.Sprintf("bucket %s, key %x: %v", bucket, at, err)})
				return
			}
			verifyLines(v, &m)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// seqAt is the seq of what lies at a place or under a time, where its key has it: of a
// message that was scheduled and has its place now, only the record and the trail do.
func seqAt(at []byte) uint64 {
	switch len(at) {
	case 8:
		return binary.BigEndian.Uint64(at)
	case 16:
		return binary.BigEndian.Uint64(at[8:])
	}
	return 0
}

// verifyDead checks every dead letter.
func (s *Store) verifyDead(ctx context.Context, v *queue.Verifier) error {
	return s.pages(ctx, bucketDead, func(at, b []byte) {
		if len(at) != 8 {
			v.Report(queue.Finding{What: fmt.Sprintf("bucket %s, key %x: it is no seq", bucketDead, at)})
			return
		}
		seq := binary.BigEndian.Uint64(at)
		d, err := parseDead(seq, b)
		var m record
		if err == nil {
			m, err = parseRecord(d.record)
		}
		if err != nil {
			v.Report(queue.Finding{Seq: seq, What: fmt.Sprintf("dead letter %d: %v", seq, err)})
			return
		}
		if d.flags&deadCut != 0 && !m.past.edited {
			m.msg.Line = nil // its hash is of more than is kept
		}
		verifyLines(v, &m)
	})
}

// verifyLines compares the line of a message, and what it was edited from.
func verifyLines(v *queue.Verifier, m *record) {
	if !m.past.edited {
		v.Stored(&m.msg)
		return
	}
	sent := m.past.sent
	if sent.bytes > int64(len(sent.line)) {
		sent.line = nil
	}
	v.StoredEdit(&m.msg, sent.hash, sent.line)
}

// verifyLedger checks the ledger's blocks on a ledger of its own, opened on the
// reader's transaction.
func (s *Store) verifyLedger(_ context.Context, v *queue.Verifier) error {
	return s.view(func(tx *bolt.Tx) error {
		l, err := ledger.Open(tx)
		if err == nil {
			err = l.Check(tx)
		}
		if err != nil {
			v.Report(queue.Finding{What: fmt.Sprintf("the ledger: %v", err)})
		}
		return nil
	})
}
