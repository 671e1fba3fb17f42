package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// Walk calls fn with the newest entry of every key that is at least from, in
// key order, until fn returns false. The ledger must not change meanwhile. To
// go on where fn stopped, pass the last key again: it comes first.
func (l *Ledger) Walk(tx *bolt.Tx, from Key, fn func(Entry) bool) error {
	m := &merged{sources: []source{newHeadSource(l.active, from), newHeadSource(l.frozen, from)}}
	for _, seg := range l.segments {
		s, err := newSegmentSource(tx, seg, from)
		if err != nil {
			return err
		}
		m.sources = append(m.sources, s)
	}
	for {
		// An error comes with the record before it, which may be the newest of
		// its key or not: it is not given out.
		r, err := m.next()
		if r == nil || err != nil {
			return err
		}
		if !fn(r.entry()) {
			return nil
		}
	}
}

// maxProblems bounds what one Check reports.
const maxProblems = 20

// Check reads everything the ledger has in the file and returns what is wrong
// with it, joined, at most 20 problems; each matches queue.ErrDamaged. It verifies
// every checksum, the order of records, that filters answer for their segments,
// and that nothing is there that the manifest does not account for. It takes as
// long as reading the ledger does, some seconds at 10 million keys.
func (l *Ledger) Check(tx *bolt.Tx) error {
	c := &checker{l: l, tx: tx}
	if _, err := readManifest(tx); err != nil {
		c.found(err)
	}
	c.log()
	for _, s := range l.segments {
		c.segment(s)
	}
	for _, j := range l.jobs {
		if !j.clearing {
			c.blocks(j.out.id, func(record) bool { return true }) // its filter is not complete
		}
	}
	for _, err := range l.rewritten {
		c.found(err)
	}
	c.pieces()
	c.strays()
	return errors.Join(c.problems...)
}

type checker struct {
	l        *Ledger
	tx       *bolt.Tx
	problems []error
}

// found notes a problem, nil for none.
func (c *checker) found(err error) {
	if err != nil && len(c.problems) < maxProblems {
		c.problems = append(c.problems, err)
	}
}

// log verifies the log values that count, and those that wait to be deleted.
func (c *checker) log() {
	cur := c.tx.Bucket(bucketLog).Cursor()
	for key, value := cur.First(); key != nil; key, value = cur.Next() {
		_, err := body(bucketLog, key, value)
		c.found(err)
	}
}

// segment verifies a published segment.
func (c *checker) segment(s *segment) {
	records := c.blocks(s.id, func(r record) bool { return s.filter.may(r.key()) })
	if records != s.records {
		c.found(fmt.Errorf("%w: segment %d has %d records, the manifest says %d", queue.ErrDamaged, s.id, records, s.records))
	}
}

// blocks verifies a segment's blocks: checksums, order within and between them,
// that each is stored under its last key, and that may admits every record. It
// returns the number of records.
func (c *checker) blocks(id uint64, may func(record) bool) int {
	var before record
	records := 0
	cur := c.tx.Bucket(bucketBlocks).Cursor()
	for key, value := cur.Seek(segmentKey(id, Key{})); ofSegment(key, id); key, value = cur.Next() {
		rest, err := body(bucketBlocks, key, value)
		for err == nil && len(rest) > 0 {
			r, tail, ok := cutRecord(rest)
			switch {
			case !ok:
				err = damage(bucketBlocks, key, "record cut short")
			case before != nil && bytes.Compare(before[:16], r[:16]) >= 0:
				err = damage(bucketBlocks, key, "records out of order")
			case !may(r):
				err = damage(bucketBlocks, key, "a record that the filter denies")
			case len(tail) == 0 && r.key() != lastKey(key):
				err = damage(bucketBlocks, key, "stored under another key than its last")
			}
			records++
			before, rest = r, tail
		}
		c.found(err)
	}
	return records
}

// pieces verifies the checksums of all filter pieces.
func (c *checker) pieces() {
	cur := c.tx.Bucket(bucketFilters).Cursor()
	for key, value := cur.First(); key != nil; key, value = cur.Next() {
		_, err := readPiece(key, value)
		c.found(err)
	}
}

// strays looks for blocks and pieces of segments that nobody knows.
func (c *checker) strays() {
	var known []uint64
	for _, s := range c.l.segments {
		known = append(known, s.id)
	}
	for _, j := range c.l.jobs {
		known = append(append(known, j.out.id), j.inputs...)
	}
	for _, name := range [][]byte{bucketBlocks, bucketFilters} {
		cur := c.tx.Bucket(name).Cursor()
		for key, _ := cur.First(); key != nil; {
			if len(key) != 8+len(Key{}) {
				c.found(damage(name, key, "not a segment's key"))
				key, _ = cur.Next()
				continue
			}
			id := binary.BigEndian.Uint64(key)
			if !slices.Contains(known, id) {
				c.found(damage(name, key, "of a segment that is in no manifest"))
			}
			key, _ = cur.Seek(segmentKey(id+1, Key{})) // one look at each segment is enough
		}
	}
}
