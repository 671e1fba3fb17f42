package ledger

import (
	"bytes"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
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
	damaged error // nil: none of its blocks is known to be; see damage.go
}

// add counts and files the piece of the segment's next run.
func (s *segment) add(p *piece, last Key) {
	s.filter.add(p, last)
	s.records += p.records
	s.blocks += p.blocks
	s.bytes += int64(p.bytes)
}

// find returns the record of k, or nil if it certainly is not there; a *DoubtError if
// it may be in a block that is damaged. The record is valid during the transaction. A
// block is searched from its front: about 35 records of different lengths, and an
// index for them would cost more in every page than it saves in rare hits.
func (s *segment) find(tx *bolt.Tx, k Key) (record, error) {
	if !s.filter.may(k) {
		return nil, nil
	}
	key, value := tx.Bucket(bucketBlocks).Cursor().Seek(segmentKey(s.id, k))
	if ofSegment(key, s.id) {
		if r, covers, err := lookIn(key, value, k); covers && err == nil {
			return r, nil
		}
	}
	// Once in some thousand looks: the filter errs, and k is between two blocks.
	r, err := s.findInRun(tx, k)
	return r, s.doubt(err)
}

// load files the segment's stored filter pieces in order. A damaged one is rebuilt from
// its run of blocks and is to be stored. Pieces that do not make up the number of
// records, -1 if nobody knows it, are all made anew.
func (s *segment) load(tx *bolt.Tx, l *Ledger, records int) error {
	s.filter.grow(max(records, 0))
	end, err := s.loadPieces(tx, l)
	if err == nil && records < 0 && end != nil {
		err = end // perhaps a piece of this segment whose key is damaged
	}
	if err == nil && records >= 0 && s.records != records {
		err = fmt.Errorf("%w: segment %d has pieces for %d records, the manifest says %d",
			queue.ErrDamaged, s.id, s.records, records)
	}
	if err == nil || records < 0 || !errors.Is(err, queue.ErrDamaged) {
		return err
	}
	return s.scan(tx, l, records, err)
}

// loadPieces files the stored pieces one by one. end is what is wrong with the next entry
// of the bucket behind them.
func (s *segment) loadPieces(tx *bolt.Tx, l *Ledger) (end, err error) {
	var repairs []repair
	var mended []error
	var before []byte // the key of the piece before
	c := tx.Bucket(bucketFilters).Cursor()
	key, value := c.Seek(segmentKey(s.id, Key{}))
	for ; ofSegment(key, s.id); key, value = c.Next() {
		if bytes.Compare(before, key) >= 0 {
			return nil, damage(bucketFilters, key, "it is not in its order")
		}
		p, err := readPiece(key, value)
		if err != nil {
			rebuilt, last, broken := rebuildPiece(tx, s.id, before, key)
			if broken == nil && !bytes.Equal(last, key) {
				broken = err // what is damaged of it is its key
			}
			if broken != nil {
				return nil, broken
			}
			repairs = append(repairs, repair{key: bytes.Clone(key), piece: rebuilt})
			mended = append(mended, err)
			p = rebuilt
		}
		s.add(p, lastKey(key))
		before = key
	}
	if key != nil {
		_, end = readPiece(key, value)
	}
	l.repairs, l.mended = append(l.repairs, repairs...), append(l.mended, mended...)
	return end, nil
}

// rebuildPiece makes the piece of a run anew: of the blocks behind the one with
// bucket key before (nil: from the first) up to and including the one with
// bucket key last (nil: to the segment's end). end is the key of the last of them, or
// before.
func rebuildPiece(tx *bolt.Tx, id uint64, before, last []byte) (p *piece, end []byte, err error) {
	p = &piece{}
	start := before
	if start == nil {
		start = segmentKey(id, Key{})
	}
	c := tx.Bucket(bucketBlocks).Cursor()
	key, value := c.Seek(start)
	if before != nil && !bytes.Equal(key, before) {
		return nil, nil, damage(bucketBlocks, before, "there is no such block")
	}
	if before == nil {
		err = begins(tx, start)
	} else {
		key, value = c.Next()
	}
	if err != nil {
		return nil, nil, err
	}
	for ; ofSegment(key, id); key, value = c.Next() {
		if last != nil && bytes.Compare(key, last) > 0 {
			break
		}
		if bytes.Compare(before, key) >= 0 {
			return nil, nil, damage(bucketBlocks, key, "it is not in its order")
		}
		if err := p.addBlock(key, value); err != nil {
			return nil, nil, err
		}
		before = key
	}
	if last == nil && key != nil {
		if _, err := body(bucketBlocks, key, value); err != nil {
			return nil, nil, err // perhaps one of this segment
		}
	}
	return p, before, nil
}

// begins makes sure that a search for the first block of a segment has not gone past it:
// then it, or one that leads searches astray, is the entry before.
func begins(tx *bolt.Tx, start []byte) error {
	c := tx.Bucket(bucketBlocks).Cursor()
	step := c.Prev
	if found, _ := c.Seek(start); found == nil {
		step = c.Last
	}
	key, value := step()
	if key == nil {
		return nil
	}
	if _, err := body(bucketBlocks, key, value); err != nil {
		return err
	}
	if bytes.Compare(key, start) >= 0 {
		return damage(bucketBlocks, key, "it is not in its order")
	}
	return nil
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
