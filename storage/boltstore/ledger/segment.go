package ledger

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// segment is an immutable sorted file of records, so to speak: its blocks, and
// the filter that tells which keys need not be looked for there.
type segment struct {
	id      uint64
	tier    int
	records int
	blocks  int
	bytes   int64
	filter  filter
}

// add counts and files the piece of the segment's next run.
func (s *segment) add(p *piece, last Key) {
	s.filter.add(p, last)
	s.records += p.records
	s.blocks += p.blocks
	s.bytes += int64(p.bytes)
}

// find returns the record of k, or nil. It is valid during the transaction. A
// block is searched from its front: about 35 records of different lengths, and
// an index for them would cost more in every page than it saves in rare hits.
func (s *segment) find(tx *bolt.Tx, k Key) (record, error) {
	if !s.filter.may(k) {
		return nil, nil
	}
	key, value := tx.Bucket(bucketBlocks).Cursor().Seek(segmentKey(s.id, k))
	if !ofSegment(key, s.id) {
		return nil, nil // k is behind the last block
	}
	rest, err := body(bucketBlocks, key, value)
	if err != nil {
		return nil, err
	}
	for len(rest) > 0 {
		r, tail, ok := cutRecord(rest)
		if !ok {
			return nil, damage(bucketBlocks, key, "record cut short")
		}
		switch c := bytes.Compare(r[:len(k)], k[:]); {
		case c == 0:
			return r, nil
		case c > 0:
			return nil, nil
		}
		rest = tail
	}
	return nil, nil
}

// segmentSource walks a segment's records in key order. It holds a bbolt cursor,
// so the bucket must not change meanwhile.
type segmentSource struct {
	id     uint64
	cursor *bolt.Cursor
	key    []byte // of the current block
	rest   []byte // of the current block, behind the current record
	now    record
}

// newSegmentSource starts at the first key that is at least from.
func newSegmentSource(tx *bolt.Tx, id uint64, from Key) (*segmentSource, error) {
	s := &segmentSource{id: id, cursor: tx.Bucket(bucketBlocks).Cursor()}
	if err := s.enter(s.cursor.Seek(segmentKey(id, from))); err != nil {
		return nil, err
	}
	for s.now != nil && bytes.Compare(s.now[:len(from)], from[:]) < 0 {
		if err := s.advance(); err != nil {
			return nil, err
		}
	}
	return s, nil
}

func (s *segmentSource) current() record { return s.now }

func (s *segmentSource) advance() error {
	if len(s.rest) == 0 {
		return s.enter(s.cursor.Next())
	}
	return s.cut()
}

// enter begins a block; one of another segment is the end.
func (s *segmentSource) enter(key, value []byte) error {
	s.now = nil
	if !ofSegment(key, s.id) {
		s.rest = nil
		return nil
	}
	b, err := body(bucketBlocks, key, value)
	if err != nil {
		return err
	}
	s.key, s.rest = key, b
	return s.cut()
}

// cut makes the block's next record the current one.
func (s *segmentSource) cut() error {
	r, rest, ok := cutRecord(s.rest)
	if !ok {
		return damage(bucketBlocks, s.key, "record cut short")
	}
	s.now, s.rest = r, rest
	return nil
}

// load files the segment's stored filter pieces in order. A damaged one is
// rebuilt from its run of blocks and handed to repaired.
func (s *segment) load(tx *bolt.Tx, repaired repairFunc) error {
	var before []byte // the key of the piece before
	c := tx.Bucket(bucketFilters).Cursor()
	for key, value := c.Seek(segmentKey(s.id, Key{})); ofSegment(key, s.id); key, value = c.Next() {
		p, err := readPiece(key, value)
		if err != nil {
			rebuilt, broken := rebuildPiece(tx, s.id, before, key)
			if broken != nil {
				return broken
			}
			repaired(bytes.Clone(key), rebuilt, err)
			p = rebuilt
		}
		s.add(p, lastKey(key))
		before = key
	}
	return nil
}

// rebuildPiece makes the piece of a run anew: of the blocks behind the one with
// bucket key before (nil: from the first) up to and including the one with
// bucket key last (nil: to the segment's end).
func rebuildPiece(tx *bolt.Tx, id uint64, before, last []byte) (*piece, error) {
	p := &piece{}
	start := before
	if start == nil {
		start = segmentKey(id, Key{})
	}
	c := tx.Bucket(bucketBlocks).Cursor()
	for key, value := c.Seek(start); ofSegment(key, id); key, value = c.Next() {
		if last != nil && bytes.Compare(key, last) > 0 {
			break
		}
		if before != nil && bytes.Equal(key, before) {
			continue
		}
		if err := p.addBlock(key, value); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// addBlock adds a stored block's keys to the piece.
func (p *piece) addBlock(key, value []byte) error {
	rest, err := body(bucketBlocks, key, value)
	if err != nil {
		return err
	}
	for len(rest) > 0 {
		r, tail, ok := cutRecord(rest)
		if !ok {
			return damage(bucketBlocks, key, "record cut short")
		}
		p.add(r.key())
		rest = tail
	}
	p.blocks++
	p.bytes += len(value)
	return nil
}
