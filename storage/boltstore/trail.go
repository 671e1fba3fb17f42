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
// own, in the caller's goroutine, and disturbs nobody.
func (s *Store) Trail(ctx context.Context, q queue.TrailQuery, fn func(queue.Record) bool) error {
	needle := needleOf(&q)
	after := q.AfterN
	if q.Seq > 0 {
		after = max(after, q.Seq-1) // every seq before it left a record before its first
	}
	next, err := s.firstBlock(after)
	for err == nil && next != 0 {
		if err = ctx.Err(); err != nil {
			break
		}
		var blocks []queue.Block
		if blocks, next, err = s.blocks(next); err != nil {
			break
		}
		for _, b := range blocks {
			if needle != nil && !bytes.Contains(b.Plain, needle) {
				continue
			}
			if err = scanBlock(b, &q, fn); err != nil {
				break
			}
		}
	}
	if errors.Is(err, errStop) {
		return nil
	}
	return err
}

// needleOf returns bytes that every record the query selects must contain, so
// that whole blocks can be passed over without decoding; nil if there are none.
func needleOf(q *queue.TrailQuery) []byte {
	switch {
	case q.Seq != 0:
		return strconv.AppendUint(nil, q.Seq, 10)
	case q.Event != "":
		return []byte(q.Event)
	}
	return nil
}

// scanBlock hands the records that the query selects to fn.
func scanBlock(b queue.Block, q *queue.TrailQuery, fn func(queue.Record) bool) error {
	for r, err := range b.Records() {
		if err != nil {
			return fmt.Errorf("block %d of the trail: %w: %w", b.Number, queue.ErrDamaged, err)
		}
		if q.Matches(&r) && !fn(r) {
			return errStop
		}
	}
	return nil
}

// blocks copies one page of blocks from number from on; next is where the page
// after it begins, 0 at the end.
func (s *Store) blocks(from uint64) (page []queue.Block, next uint64, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketAudit).Cursor()
		for at, data := c.Seek(seqKey(from)); at != nil; at, data = c.Next() {
			number := binary.BigEndian.Uint64(at)
			if len(page) == trailPage {
				next = number
				return nil
			}
			b, err := queue.ParseBlock(number, data)
			if err != nil {
				return fmt.Errorf("%w: %w", queue.ErrDamaged, err)
			}
			b.Plain = bytes.Clone(b.Plain)
			page = append(page, b)
		}
		return nil
	})
	return page, next, err
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
