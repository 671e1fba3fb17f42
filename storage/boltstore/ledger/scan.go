package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// scan makes all pieces of a segment anew from its blocks, where the stored ones do not
// add up; why says what is wrong with them. If every block is sound and none is missing,
// nothing is lost. The new pieces are not stored: it was a key that was damaged, and
// see misplaced.go. Otherwise pieces and blocks are damaged
// both. Where a damaged block is, the segment is damaged, and in doubt is what may be in
// the run of it; blocks that are missing without a trace are an error. It reads the
// whole segment.
func (s *segment) scan(tx *bolt.Tx, l *Ledger, records int, why error) error {
	*s = segment{id: s.id, tier: s.tier}
	sc := &scanner{s: s, runRecords: l.sizes.runRecords}
	c := tx.Bucket(bucketBlocks).Cursor()
	for key, value := c.Seek(segmentKey(s.id, Key{})); key != nil && sc.block(key, value); key, value = c.Next() {
	}
	sc.end()
	switch {
	case s.damaged != nil:
		s.records = records // as the manifest will have to say
		return nil
	case s.records != records:
		return fmt.Errorf("%w: segment %d has %d records, the manifest says %d", queue.ErrDamaged, s.id, s.records, records)
	}
	l.mended = append(l.mended, why)
	return nil
}

// scanner is a scan under way.
type scanner struct {
	s          *segment
	runRecords int
	run        piece
	before     []byte // the last sound block
}

// block takes one entry of the bucket; false: the segment has ended.
func (sc *scanner) block(key, value []byte) bool {
	_, err := body(bucketBlocks, key, value)
	if err == nil && !ofSegment(key, sc.s.id) {
		// Of another segment, and sound. One with a smaller id is where bbolt was led
		// astray by one that is not.
		return len(key) >= 8 && binary.BigEndian.Uint64(key) < sc.s.id
	}
	if err == nil && bytes.Compare(sc.before, key) < 0 {
		err = sc.run.addBlock(key, value)
	} else if err == nil {
		err = damage(bucketBlocks, key, "it is not in its order")
	}
	if err != nil {
		// Perhaps one of another segment: then this one is in doubt for nothing.
		sc.run.blocks++
		sc.run.doubtful = true
		sc.s.damaged = err
		return true
	}
	if sc.before = key; sc.run.records >= sc.runRecords {
		sc.close(lastKey(key))
	}
	return true
}

// close ends a run.
func (sc *scanner) close(last Key) {
	p := sc.run
	if sc.run = (piece{}); p.doubtful {
		p.fill()
	}
	sc.s.add(&p, last)
}

// end closes the last run. Behind the last sound block there may be anything.
func (sc *scanner) end() {
	switch {
	case sc.run.doubtful:
		sc.close(maxKey)
	case sc.run.blocks > 0:
		sc.close(lastKey(sc.before))
	}
}

// maxKey is behind all keys.
var maxKey = Key(bytes.Repeat([]byte{0xff}, len(Key{})))

// fill sets all bits: the filter denies nothing.
func (p *piece) fill() {
	for i := range p.bits {
		p.bits[i] = ^uint64(0)
	}
}
