package boltstore

import (
	"encoding/binary"
	"math"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// spanPage is how many spans one read transaction of a query looks at: 2.6 MB of
// filters, about 300 MiB of the trail.
const spanPage = 256

// sieve is what of a query the filters can tell.
type sieve struct {
	names        []uint64 // all of which a record must have
	event        uint64   // and this one, where the filter has events; 0: any
	since, until time.Time
}

// sieveOf returns a query's sieve, nil when the filters can tell nothing.
func sieveOf(q *queue.TrailQuery) *sieve {
	s := &sieve{since: q.Since, until: q.Until}
	if q.Seq != 0 {
		s.names = append(s.names, nameOfSeq(q.Seq))
	}
	if q.TraceID != "" {
		s.names = append(s.names, nameOf(nameTrace, q.TraceID))
	}
	if q.PartitionKey != "" {
		s.names = append(s.names, nameOf(namePartition, q.PartitionKey))
	}
	if q.IdempotencyKey != "" {
		s.names = append(s.names, nameOf(nameIdempotency, q.IdempotencyKey))
	}
	if q.Event != "" {
		s.event = nameOf(nameEvent, string(q.Event))
	}
	if len(s.names) == 0 && s.event == 0 && q.Since.IsZero() && q.Until.IsZero() {
		return nil
	}
	return s
}

// passes says whether a record that the query selects may be in the span.
func (s *sieve) passes(sp *span) bool {
	if len(sp.filter) == 0 {
		return true
	}
	if !s.since.IsZero() && time.UnixMicro(sp.latest).Before(s.since) {
		return false
	}
	if !s.until.IsZero() && !time.UnixMicro(sp.earliest).Before(s.until) {
		return false
	}
	if s.event != 0 && !sp.old && !mayHold(sp.filter, s.event) {
		return false
	}
	return sp.holds(s.names)
}

// blockRange is some consecutive blocks, both ends included.
type blockRange struct{ from, to uint64 }

// spanReader finds the blocks that may have what is asked for, in one transaction.
type spanReader struct {
	sieve *sieve
	c     *bolt.Cursor // nil: nothing can be told of any block
	left  int          // spans that it may still look at
	span  span
}

func newSpanReader(tx *bolt.Tx, s *sieve) *spanReader {
	r := &spanReader{sieve: s, left: spanPage}
	if b := tx.Bucket(bucketTrailIndex); b != nil && s != nil {
		r.c = b.Cursor()
	}
	return r
}

// seek returns the first blocks from a number on that must be read. When it has
// looked at enough for one transaction ok is false, and from is where to go on.
func (s *spanReader) seek(number uint64) (r blockRange, ok bool) {
	for s.left > 0 {
		s.left--
		r, must := s.judge(number)
		if must {
			return r, true
		}
		number = r.to + 1
	}
	return blockRange{from: number}, false
}

// judge returns the blocks from a number on of which the same can be told, and
// whether they must be read. Those that no span covers must: after the last one
// they are the newest, before another a version without filters wrote them.
func (s *spanReader) judge(number uint64) (r blockRange, must bool) {
	rest := blockRange{number, math.MaxUint64}
	if s.c == nil {
		return rest, true
	}
	key, value := s.c.Seek(seqKey(number))
	if key == nil {
		return rest, true
	}
	if err := s.span.parse(key, value); err != nil {
		if len(key) != 8 {
			return rest, true
		}
		return blockRange{number, binary.BigEndian.Uint64(key)}, true
	}
	if s.span.first > number {
		return blockRange{number, s.span.first - 1}, true
	}
	return blockRange{number, s.span.last}, s.sieve.passes(&s.span)
}
