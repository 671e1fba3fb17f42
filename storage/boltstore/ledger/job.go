package ledger

import (
	"bytes"
	"encoding/binary"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// job writes one segment out of older parts of the ledger, in steps: it builds
// the segment, publishes it in place of what it was made of, and clears that
// away. Until it is published nobody reads the new segment; from then on nobody
// reads the old parts.
//
// All of a job that matters is in the file: the blocks and pieces written, and
// in the manifest the rest. So a job is resumed after a crash, never discarded.
type job struct {
	level    int // tier of the inputs; sealing for the frozen head
	out      *segment
	inputs   []uint64 // segment ids, newest first; none when sealing
	clearing bool     // published

	begun     bool  // something is done
	cursor    Key   // the last record that is done, written or dropped
	lastBlock Key   // the last record of the last block written
	run       piece // of blocks written since the last piece
}

// sealing is the level of the job that turns the frozen head into a segment.
const sealing = -1

// resume restores a job from the manifest and the blocks it has written.
func resume(tx *bolt.Tx, line jobLine, repaired repairFunc) (*job, error) {
	j := &job{level: line.Level, out: &segment{id: line.Out, tier: line.Tier}, inputs: line.Inputs, clearing: line.Clearing}
	if j.clearing {
		return j, nil
	}
	if err := j.out.load(tx, repaired); err != nil {
		return nil, err
	}
	run, err := rebuildPiece(tx, j.out.id, lastOf(tx.Bucket(bucketFilters), j.out.id), nil)
	if err != nil {
		return nil, err
	}
	j.run = *run
	if line.Cursor != nil {
		j.advance(*line.Cursor)
	}
	if key := lastOf(tx.Bucket(bucketBlocks), j.out.id); key != nil {
		j.lastBlock = lastKey(key)
		j.advance(j.lastBlock)
	}
	return j, nil
}

// advance moves the cursor forward to k, never back.
func (j *job) advance(k Key) {
	if !j.begun || bytes.Compare(j.cursor[:], k[:]) < 0 {
		j.begun, j.cursor = true, k
	}
}

// lastOf returns a segment's last key in the blocks or filters bucket, or nil.
func lastOf(b *bolt.Bucket, id uint64) []byte {
	c := b.Cursor()
	key, _ := c.Seek(segmentKey(id+1, Key{}))
	if key == nil {
		key, _ = c.Last()
	} else {
		key, _ = c.Prev()
	}
	if !ofSegment(key, id) {
		return nil
	}
	return key
}

// step does about budget bytes of a job's work and returns how many it was.
// Every step either moves on or ends the job.
func (l *Ledger) step(tx *bolt.Tx, j *job, budget int) (int, error) {
	if j.clearing {
		return l.clear(tx, j, budget)
	}
	return l.build(tx, j, budget)
}

// build merges the job's inputs from its cursor on, and publishes the segment
// when they are used up. It reads first and writes afterwards, because a bbolt
// cursor may lose its place when its bucket changes.
func (l *Ledger) build(tx *bolt.Tx, j *job, budget int) (int, error) {
	m, err := l.inputsOf(tx, j)
	if err != nil {
		return 0, err
	}
	w := &writer{l: l, job: j}
	done, err := w.fill(m, max(budget, l.sizes.block))
	if err != nil {
		return 0, err
	}
	if err := w.store(tx); err != nil {
		return 0, err
	}
	switch {
	case done:
		return w.spent, l.publish(tx, j)
	case w.dropped:
		// Neither cursor nor count can be seen from the blocks.
		return w.spent, l.save(tx)
	}
	return w.spent, nil
}

// inputsOf opens what the job merges, from its cursor on, newest first.
func (l *Ledger) inputsOf(tx *bolt.Tx, j *job) (*merged, error) {
	if j.level == sealing {
		return &merged{sources: []source{newHeadSource(l.frozen, j.cursor)}}, nil
	}
	m := &merged{}
	for _, id := range j.inputs {
		s, err := newSegmentSource(tx, id, j.cursor)
		if err != nil {
			return nil, err
		}
		m.sources = append(m.sources, s)
	}
	return m, nil
}

// letsGo says whether a merge drops r. Retention must want it, and r must be
// the only entry of its key: with an older one left, dropping r would bring
// that back to life; with a newer one, the key lives and stays counted. Filters
// answer for the other segments; if they err, r stays until the next merge.
func (l *Ledger) letsGo(j *job, r record) bool {
	if l.keep == nil || j.level == sealing {
		return false
	}
	if s := r.state(); s == StateOpen || s == StateDead {
		return false
	}
	if l.keep(r.entry()) {
		return false
	}
	k := r.key()
	if l.active.get(k) != nil || l.frozen.get(k) != nil {
		return false
	}
	for _, s := range l.segments {
		if !slices.Contains(j.inputs, s.id) && s.filter.may(k) {
			return false
		}
	}
	return true
}

// publish puts the new segment in the place of the job's inputs.
func (l *Ledger) publish(tx *bolt.Tx, j *job) error {
	at := 0
	if j.level == sealing {
		l.floor = l.frozenEnd
		l.frozen.reset()
	} else {
		// New segments have come at the front since the job began, none between.
		at = slices.IndexFunc(l.segments, func(s *segment) bool { return s.id == j.inputs[0] })
		l.segments = slices.Delete(l.segments, at, at+len(j.inputs))
	}
	if j.out.records > 0 {
		l.segments = slices.Insert(l.segments, at, j.out)
	}
	j.clearing = true
	l.plan()
	return l.save(tx)
}

// clear deletes what the published segment has replaced: the log up to the
// floor, or the inputs. Deleting costs a quarter of writing.
func (l *Ledger) clear(tx *bolt.Tx, j *job, budget int) (int, error) {
	const discount = 4
	left := budget * discount // bytes that may be deleted
	var err error
	if j.level == sealing {
		left, err = deleteWhile(tx.Bucket(bucketLog), logKey(0), left, func(key []byte) bool {
			return binary.BigEndian.Uint64(key) < l.floor
		})
	}
	for _, id := range j.inputs {
		for _, name := range [][]byte{bucketBlocks, bucketFilters} {
			if err == nil && left > 0 {
				left, err = deleteWhile(tx.Bucket(name), segmentKey(id, Key{}), left, func(key []byte) bool {
					return ofSegment(key, id)
				})
			}
		}
	}
	if err != nil || left <= 0 {
		return budget, err
	}
	l.jobs = slices.DeleteFunc(l.jobs, func(other *job) bool { return other == j })
	l.plan() // the level is free again
	return budget - left/discount, l.save(tx)
}

// deleteWhile deletes keys from start on while they are in range and bytes are
// left, and returns the bytes left; more than none means that nothing is left
// in range.
func deleteWhile(b *bolt.Bucket, start []byte, left int, inRange func([]byte) bool) (int, error) {
	var keys [][]byte
	c := b.Cursor()
	for key, value := c.Seek(start); key != nil && inRange(key) && left > 0; key, value = c.Next() {
		keys = append(keys, key)
		left -= len(key) + len(value)
	}
	for _, key := range keys {
		if err := b.Delete(key); err != nil {
			return left, err
		}
	}
	return left, nil
}
