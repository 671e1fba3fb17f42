package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sort"
	"strconv"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// trailPage is how many blocks one read transaction of a trail query copies out:
// about a MiB of records. Readers are short, so that they keep no old pages alive.
const trailPage = 64

// Trail calls fn for records; see [queue.Reader]. It reads in transactions of its
// own, in the caller's goroutine, and disturbs nobody. A query for a message, a
// trace, a key, an event or a time reads only the spans of blocks that may have it.
func (s *Store) Trail(ctx context.Context, q queue.TrailQuery, fn func(queue.Record) bool) error {
	after := q.AfterN
	if q.Seq > 0 {
		after = max(after, q.Seq-1) // every seq before it left a record before its first
	}
	first, err := s.firstBlock(after)
	if err != nil {
		return err
	}
	w := trailWalk{s: s, q: q, needle: needleOf(&q), sieve: sieveOf(&q), next: first}
	for w.next != 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		page, err := w.page()
		if err != nil {
			return err
		}
		for _, b := range page {
			if err := w.scan(b, fn); errors.Is(err, errStop) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
	return nil
}

// trailWalk is one query under way.
type trailWalk struct {
	s      *Store
	q      queue.TrailQuery
	needle []byte
	sieve  *sieve
	next   uint64 // the block to go on with; 0: the end was reached
	opened uint64 // the last block of the span that was opened last
}

// page copies out the next blocks that may have what is asked for, as many as one
// transaction may. There may be none although the end is not reached.
func (w *trailWalk) page() (page []queue.Block, err error) {
	err = w.s.view(func(tx *bolt.Tx) error {
		blocks, spans := tx.Bucket(bucketAudit).Cursor(), newSpanReader(tx, w.sieve)
		for {
			r, ok := spans.seek(w.next)
			if w.next = r.from; !ok {
				return nil
			}
			w.count(r)
			at, data := blocks.Seek(seqKey(r.from))
			for ; at != nil && binary.BigEndian.Uint64(at) <= r.to; at, data = blocks.Next() {
				number := binary.BigEndian.Uint64(at)
				if len(page) == trailPage {
					w.next = number
					return nil
				}
				b, err := queue.ParseBlock(number, data)
				if err != nil {
					return fmt.Errorf("%w: %w", queue.ErrDamaged, err)
				}
				page = append(page, b)
			}
			if at == nil {
				w.next = 0
				return nil
			}
			w.next = r.to + 1
		}
	})
	return page, err
}

// count counts a range of blocks as opened, once.
func (w *trailWalk) count(r blockRange) {
	if r.to != w.opened {
		w.opened = r.to
		w.s.spansOpened.Add(1)
	}
}

// scan hands the block's records that the query selects to fn.
func (w *trailWalk) scan(b queue.Block, fn func(queue.Record) bool) error {
	if !bytes.Contains(b.Plain, w.needle) {
		return nil
	}
	for line := range b.Lines() {
		if !bytes.Contains(line, w.needle) {
			continue
		}
		r, err := queue.ParseRecord(line)
		if err != nil {
			return fmt.Errorf("block %d of the trail: %w: %w", b.Number, queue.ErrDamaged, err)
		}
		if w.q.Matches(&r) && !fn(r) {
			return errStop
		}
	}
	return nil
}

// needleOf returns bytes that the line of every record the query selects must
// contain, so that others need not be decoded: the rarest that there are; none if
// there is no such thing.
func needleOf(q *queue.TrailQuery) []byte {
	texts := []string{q.IdempotencyKey, q.TraceID, q.PartitionKey}
	if q.Event.OfKey() { // which is rarer than its key
		texts = texts[:2]
	}
	for _, text := range texts {
		// What has no character that needs an escape is spelled in one way only.
		if quoted := queue.AppendText(nil, text); text != "" && len(quoted) == len(text)+2 {
			return quoted
		}
	}
	if q.Seq != 0 {
		return strconv.AppendUint(nil, q.Seq, 10)
	}
	return []byte(q.Event)
}

// firstBlock finds the block that holds the record after afterN, by halving: the
// numbers of blocks have no gaps.
func (s *Store) firstBlock(afterN uint64) (from uint64, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketAudit).Cursor()
		first, _ := c.First()
		last, _ := c.Last()
		if first == nil {
			return nil
		}
		from = binary.BigEndian.Uint64(first)
		n := int(binary.BigEndian.Uint64(last)-from) + 1
		var bad error
		skip := sort.Search(n, func(i int) bool {
			number := from + uint64(i)
			b, err := queue.ParseBlock(number, tx.Bucket(bucketAudit).Get(seqKey(number)))
			if err != nil {
				bad = fmt.Errorf("%w: %w", queue.ErrDamaged, err)
				return true
			}
			return b.LastN() > afterN
		})
		if skip == n {
			from = 0
			return nil
		}
		from += uint64(skip)
		if skip == 0 {
			bad = nil // nothing was skipped: the scan itself will name what is damaged
		}
		return bad
	})
	return from, err
}
