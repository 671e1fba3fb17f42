package boltstore

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// spanCheck holds the spans against the records that a verification reads anyway: a
// filter that denies a record would hide it from everybody who asks for it. One
// finding a span is enough.
type spanCheck struct {
	v     *queue.Verifier
	span  span
	until uint64 // the last block of which span, or the lack of one, is what there is
	blind bool   // nothing can be told of the blocks up to there
	names []uint64
}

// newSpanCheck makes v hand over its records.
func newSpanCheck(v *queue.Verifier) *spanCheck {
	s := &spanCheck{v: v}
	v.Visit = s.record
	return s
}

// enter turns to the span of a block. Blocks come in order.
func (s *spanCheck) enter(tx *bolt.Tx, block uint64) {
	if block <= s.until {
		return
	}
	s.until, s.blind = block, true
	b := tx.Bucket(bucketTrailIndex)
	if b == nil {
		return
	}
	key, value := b.Cursor().Seek(seqKey(block))
	if key == nil {
		return
	}
	if err := s.span.parse(key, value); err != nil {
		s.v.Report(queue.Finding{Block: block, What: fmt.Sprintf("bucket trail_index, key %x: %v", key, err)})
		if len(key) == 8 {
			s.until = binary.BigEndian.Uint64(key)
		}
		return
	}
	if s.span.first > block {
		s.until = s.span.first - 1
		return
	}
	s.until, s.blind = s.span.last, len(s.span.filter) == 0
}

// record looks for a record in the span.
func (s *spanCheck) record(r queue.Record) {
	if s.blind {
		return
	}
	s.names = appendNames(s.names[:0], &r)
	if s.span.old {
		s.names = s.names[:len(s.names)-1]
	}
	if ts := r.TS.UnixMicro(); ts < s.span.earliest || ts > s.span.latest || !s.span.holds(s.names) {
		s.blind = true
		s.v.Report(queue.Finding{N: r.N, Seq: r.Seq, What: fmt.Sprintf(
			"bucket trail_index denies the record: queries for it miss it (blocks %d to %d)", s.span.first, s.span.last)})
	}
}
