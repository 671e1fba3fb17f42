package ledger

import (
	"bytes"

	bolt "go.etcd.io/bbolt"
)

// This file walks over the blocks of a segment so that none can be missed. A block's
// checksum covers its bucket key, so a damaged key is noticed where the block is
// read; but bbolt looks for keys by halving, and one that is out of its order leads
// it elsewhere: past a block that is sound, or to the next segment as if this one
// had ended. The pieces of the filter say for each run how many blocks it has, of
// how many bytes, and where it ends. What does not agree with them is damage.

// pair is a block as stored.
type pair struct{ key, value []byte }

// blocksOf returns the blocks of run i in order. An error says that they are not
// those that were written; then blocks are what is there in their place. Their
// checksums are for the caller to check.
func (s *segment) blocksOf(tx *bolt.Tx, i int) (blocks []pair, err error) {
	want := &s.filter.runs[i]
	start := segmentKey(s.id, Key{})
	if i > 0 {
		start = segmentKey(s.id, s.filter.runs[i-1].last)
	}
	c := tx.Bucket(bucketBlocks).Cursor()
	key, value := c.Seek(start)
	if i > 0 && bytes.Equal(key, start) {
		key, value = c.Next()
	}
	// A neighbour whose key is out of its order may be what was found.
	for range maxStrayed {
		if _, broken := body(bucketBlocks, key, value); key == nil || ofSegment(key, s.id) && broken == nil {
			break
		}
		key, value = c.Next()
	}
	if i == 0 {
		start = nil // the key of all zeros is one, too
	}
	size, before := 0, start
	blocks = make([]pair, 0, want.blocks)
	for len(blocks) < want.blocks && key != nil {
		if !ofSegment(key, s.id) || bytes.Compare(before, key) >= 0 {
			err = damage(bucketBlocks, key, "it is not in its order")
		}
		if ofSegment(key, s.id) {
			size, before = size+len(value), key
		}
		blocks = append(blocks, pair{key, value})
		key, value = c.Next()
	}
	if err == nil && (len(blocks) < want.blocks || size != want.bytes || lastKey(before) != want.last) {
		err = damage(bucketBlocks, segmentKey(s.id, want.last), "the blocks up to it are not those that were written")
	}
	return blocks, err
}

// maxStrayed is how many damaged entries are stepped over to find where a run begins.
const maxStrayed = 2

// lookIn looks for k in a block. covers says whether the block is where k must be: it
// is sound, and k neither before its first record nor behind its last.
func lookIn(key, value []byte, k Key) (r record, covers bool, err error) {
	rest, err := body(bucketBlocks, key, value)
	if err != nil {
		return nil, false, err
	}
	if last := lastKey(key); bytes.Compare(last[:], k[:]) < 0 {
		return nil, false, nil
	}
	for len(rest) > 0 {
		r, tail, ok := cutRecord(rest)
		if !ok {
			return nil, false, damage(bucketBlocks, key, "record cut short")
		}
		switch c := bytes.Compare(r[:len(k)], k[:]); {
		case c == 0:
			return r, true, nil
		case c > 0:
			return nil, covers, nil
		}
		covers, rest = true, tail
	}
	return nil, covers, nil
}

// findInRun looks for k among all blocks of its run: where the block that bbolt found
// does not cover it, k lies between two blocks, or in one that is damaged.
func (s *segment) findInRun(tx *bolt.Tx, k Key) (record, error) {
	i := s.filter.runOf(k)
	if i == len(s.filter.runs) {
		return nil, nil // behind the last key
	}
	blocks, err := s.blocksOf(tx, i)
	for _, b := range blocks {
		if !ofSegment(b.key, s.id) {
			continue
		}
		r, covers, broken := lookIn(b.key, b.value, k)
		if covers {
			return r, nil
		}
		if broken != nil {
			err = broken
		}
	}
	if err == nil && s.filter.runs[i].doubtful {
		err = damage(bucketBlocks, segmentKey(s.id, s.filter.runs[i].last), "blocks up to it are missing")
	}
	return nil, err
}

// segmentSource walks a segment's records in key order, run by run. What bbolt gave
// is valid as long as the transaction and the bucket does not change.
type segmentSource struct {
	tx     *bolt.Tx
	seg    *segment
	run    int    // the next one
	blocks []pair // of the run before it, behind the current one
	key    []byte // of the current block
	rest   []byte // of the current block, behind the current record
	now    record
}

// newSegmentSource starts at the first key that is at least from. The errors of a
// source are a *DoubtError.
func newSegmentSource(tx *bolt.Tx, seg *segment, from Key) (*segmentSource, error) {
	s := &segmentSource{tx: tx, seg: seg, run: seg.filter.runOf(from)}
	if err := s.nextRun(); err != nil {
		return nil, err
	}
	for len(s.blocks) > 0 && bytes.Compare(s.blocks[0].key[8:], from[:]) < 0 {
		s.blocks = s.blocks[1:]
	}
	if err := s.enter(); err != nil {
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
		return s.enter()
	}
	return s.cut()
}

// nextRun reads the next run's list of blocks; there are none at the end.
func (s *segmentSource) nextRun() (err error) {
	if s.blocks = nil; s.run == len(s.seg.filter.runs) {
		return nil
	}
	if s.seg.filter.runs[s.run].doubtful {
		return s.seg.doubt(damage(bucketBlocks, segmentKey(s.seg.id, s.seg.filter.runs[s.run].last), "blocks up to it are damaged"))
	}
	s.blocks, err = s.seg.blocksOf(s.tx, s.run)
	s.run++
	return s.seg.doubt(err)
}

// enter begins the next block.
func (s *segmentSource) enter() error {
	s.now, s.rest = nil, nil
	if len(s.blocks) == 0 {
		if err := s.nextRun(); err != nil || len(s.blocks) == 0 {
			return err
		}
	}
	b := s.blocks[0]
	rest, err := body(bucketBlocks, b.key, b.value)
	if err != nil {
		return s.seg.doubt(err)
	}
	s.key, s.rest, s.blocks = b.key, rest, s.blocks[1:]
	return s.cut()
}

// cut makes the block's next record the current one.
func (s *segmentSource) cut() error {
	r, rest, ok := cutRecord(s.rest)
	if !ok {
		return s.seg.doubt(damage(bucketBlocks, s.key, "record cut short"))
	}
	s.now, s.rest = r, rest
	return nil
}
