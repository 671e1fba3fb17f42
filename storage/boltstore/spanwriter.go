package boltstore

import (
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// spanWriter makes the spans of the trail while its records are written. It knows
// the records that the committer is adding anyway, and sets their bits at once, so
// the unfinished span is one filter in memory, whatever it has seen, and a finished
// one costs the transaction that finishes it one value.
//
// Spans are whole blocks. A block is only seen to be complete when the next one
// begins, so a span ends when the first record after it comes.
type spanWriter struct {
	limits spanLimits
	open   span // from the block after the last finished span; first 0: nothing yet
	bytes  int  // plain bytes in it
	keys   int  // names in it that differ, as far as the filter can tell
	done   []finishedSpan
	names  []uint64 // scratch
}

// finishedSpan is a span to be written with the transaction.
type finishedSpan struct {
	last  uint64
	value []byte
}

func newSpanWriter(limits spanLimits) spanWriter {
	w := spanWriter{limits: limits}
	w.open.filter = make([]uint64, spanWords)
	w.open.clear()
	return w
}

// add takes in a record, whose line has so many bytes and lies in this block.
// Blocks come in order.
func (w *spanWriter) add(r *queue.Record, block uint64, bytes int) {
	if block != w.open.last {
		if w.full() {
			w.finish()
		}
		if w.open.first == 0 {
			w.open.first = block
		}
		w.open.last = block
	}
	w.bytes += bytes
	ts := r.TS.UnixMicro()
	w.open.earliest, w.open.latest = min(w.open.earliest, ts), max(w.open.latest, ts)
	w.names = appendNames(w.names[:0], r)
	for _, name := range w.names {
		if !mayHold(w.open.filter, name) {
			w.open.filter.Add(uint32(name>>32), name)
			w.keys++
		}
	}
}

// full says whether the span has enough.
func (w *spanWriter) full() bool {
	return w.bytes >= w.limits.bytes || w.keys >= spanKeys || w.open.first != 0 && w.open.last-w.open.first+1 >= w.limits.blocks
}

// finish hands the span on and begins the next one.
func (w *spanWriter) finish() {
	w.done = append(w.done, finishedSpan{last: w.open.last, value: w.open.append(make([]byte, 0, spanHeader+8*spanWords))})
	w.open.clear()
	w.bytes, w.keys = 0, 0
}

// write puts the finished spans into the file.
func (w *spanWriter) write(tx *bolt.Tx) error {
	if len(w.done) == 0 {
		return nil
	}
	b, err := spanBucket(tx)
	if err != nil {
		return err
	}
	for _, f := range w.done {
		if err := b.Put(seqKey(f.last), f.value); err != nil {
			return fmt.Errorf("write the filter of the blocks up to %d: %w", f.last, err)
		}
	}
	w.done = w.done[:0]
	return nil
}

// spanBucket makes bucket trail_index where it is absent: in a new file, and in one
// of a version that had none.
func spanBucket(tx *bolt.Tx) (*bolt.Bucket, error) {
	b, err := tx.CreateBucketIfNotExists(bucketTrailIndex)
	if err != nil {
		return nil, fmt.Errorf("create bucket %s: %w", bucketTrailIndex, err)
	}
	b.FillPercent = appendFill
	return b, nil
}

// lastSpan is the number of the last block that a stored span covers.
func lastSpan(tx *bolt.Tx) uint64 {
	b := tx.Bucket(bucketTrailIndex)
	if b == nil {
		return 0
	}
	last, _ := b.Cursor().Last()
	if len(last) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(last)
}

// indexTrail makes the bucket, and if there are blocks that the load has left out,
// it says so in it, once: they get no filter any more, and no start need look at
// them again.
func (x *txn) indexTrail() error {
	b, err := spanBucket(x.tx)
	if err != nil {
		return err
	}
	head, last := x.t.count.head.Block, max(lastSpan(x.tx), x.t.opening.Before.Block)
	if x.t.spans.open.first != 0 || len(x.t.spans.done) > 0 || last >= head {
		return nil
	}
	blind := span{first: last + 1, last: head}
	return b.Put(seqKey(head), blind.append(nil))
}

// spans takes the blocks after the last finished span into a new one. A load must
// not fail for them, nor take long: what can't be read goes without, and so does
// what is far more than the rest of a span, which an older version wrote.
func (l *loader) spans() error {
	w := &l.t.spans
	last, head := max(lastSpan(l.tx), l.t.opening.Before.Block), l.t.count.head.Block
	if head <= last || head-last > w.limits.blocks {
		return nil
	}
	err := guard(func() error {
		c := l.b.audit.Cursor()
		for at, data := c.Seek(seqKey(last + 1)); at != nil; at, data = c.Next() {
			if err := w.addBlock(binary.BigEndian.Uint64(at), data); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		*w = newSpanWriter(w.limits) // whoever reads or verifies the trail will say so
	}
	return nil
}

// addBlock takes in the records of a stored block.
func (w *spanWriter) addBlock(number uint64, data []byte) error {
	b, err := queue.ParseBlock(number, data)
	if err != nil {
		return err
	}
	for line := range b.Lines() {
		r, err := queue.ParseRecord(line)
		if err != nil {
			return err
		}
		w.add(&r, number, len(line))
	}
	return nil
}
