package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
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
	gone      int64 // keys that it has let go of, as far as this process knows
}

// sealing is the level of the job that turns the frozen head into a segment.
const sealing = -1

// resume restores the jobs of the manifest from what they have written. If that is
// damaged, the job begins again: all that it was made of is still there.
func (l *Ledger) resume(tx *bolt.Tx, lines []jobLine) error {
	var spoilt []*job
	for _, line := range lines {
		j := &job{level: line.Level, out: &segment{id: line.Out, tier: line.Tier}, inputs: line.Inputs, clearing: line.Clearing}
		l.jobs = append(l.jobs, j)
		if j.clearing {
			continue
		}
		err := j.restore(tx, l, line.Cursor)
		switch {
		case errors.Is(err, queue.ErrDamaged):
			l.mended, l.rewritten = append(l.mended, err), append(l.rewritten, err)
			spoilt = append(spoilt, j)
		case err != nil:
			return err
		}
	}
	for _, j := range spoilt {
		l.giveUp(j)
	}
	if len(spoilt) > 0 {
		l.plan()
	}
	return nil
}

// restore finds out how far a job has come.
func (j *job) restore(tx *bolt.Tx, l *Ledger, cursor *Key) error {
	if err := j.out.load(tx, l, -1); err != nil {
		return err
	}
	var before []byte
	if n := len(j.out.filter.runs); n > 0 {
		before = segmentKey(j.out.id, j.out.filter.runs[n-1].last)
		if _, err := j.out.blocksOf(tx, 0); err != nil {
			return err // its first pieces are missing
		}
	}
	run, last, err := rebuildPiece(tx, j.out.id, before, nil)
	if err != nil {
		return err
	}
	j.run = *run
	if cursor != nil {
		j.advance(*cursor)
	}
	if last != nil {
		j.lastBlock = lastKey(last)
		j.advance(j.lastBlock)
	}
	return nil
}

// advance moves the cursor forward to k, never back.
func (j *job) advance(k Key) {
	if !j.begun || bytes.Compare(j.cursor[:], k[:]) < 0 {
		j.begun, j.cursor = true, k
	}
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
	for _, seg := range l.segments {
		if !slices.Contains(j.inputs, seg.id) {
			continue
		}
		s, err := newSegmentSource(tx, seg, j.cursor)
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
	if at > 0 { // the newer ones may have been raised since the job began: see damage.go
		j.out.tier = max(j.out.tier, l.segments[at-1].tier)
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
		left, err = deleteBelow(tx.Bucket(bucketLog), l.floor, left)
	}
	for _, id := range j.inputs {
		for _, name := range [][]byte{bucketBlocks, bucketFilters} {
			if err == nil && left > 0 {
				left, err = l.clearSegment(tx, name, id, left)
			}
		}
	}
	if err != nil || left <= 0 {
		return budget, err
	}
	if j.level == debris {
		l.rewritten = nil
	}
	l.jobs = slices.DeleteFunc(l.jobs, func(other *job) bool { return other == j })
	l.plan() // the level is free again
	return budget - left/discount, l.save(tx)
}

// deleteBelow deletes log values with numbers below floor while bytes are left, and
// returns the bytes left; more than none means that there are no more such.
func deleteBelow(b *bolt.Bucket, floor uint64, left int) (int, error) {
	var keys [][]byte
	c := b.Cursor()
	for key, value := c.First(); key != nil && binary.BigEndian.Uint64(key) < floor && left > 0; key, value = c.Next() {
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
