package ledger

import bolt "go.etcd.io/bbolt"

// writer collects the blocks and pieces of one step of a job, to be stored
// together at its end.
type writer struct {
	l       *Ledger
	job     *job
	spent   int    // record bytes used up, dropped ones included
	dropped bool   // retention has let go of something
	block   []byte // being filled
	last    Key    // in the block
	blocks  []pair
	pieces  []keyedPiece
}

type keyedPiece struct {
	key   []byte
	piece *piece
}

// fill takes records from m until the budget is used up and the block full, or
// until there are no more: then it is done.
func (w *writer) fill(m *merged, budget int) (done bool, err error) {
	for w.spent < 2*budget { // a long stretch of dropped records fills no block
		r, err := m.next()
		if err != nil {
			return false, err
		}
		if r == nil {
			w.flush()
			w.closeRun()
			return true, nil
		}
		if w.job.begun && r.key() == w.job.cursor {
			continue // sources start at the cursor, which is done
		}
		drop := w.l.letsGo(w.job, r)
		if !drop && !w.fits(r) {
			w.flush()
			if w.spent >= budget {
				return false, nil // r is read again by the next step
			}
		}
		if drop {
			w.drop(r)
		} else {
			w.add(r)
		}
		w.spent += len(r)
		w.job.advance(r.key())
	}
	w.flush()
	return false, nil
}

// drop leaves r out, and with it its key, which nothing else holds. A Forgotten
// key was uncounted when it was put.
func (w *writer) drop(r record) {
	w.dropped = true
	if r.state() != StateForgotten {
		w.l.live--
		w.job.gone++
	}
}

// fits says whether r still goes into the block.
func (w *writer) fits(r record) bool {
	return len(w.block) == 0 || len(w.block)+len(r) <= w.l.sizes.block
}

// add appends r, which fits, to the block.
func (w *writer) add(r record) {
	if len(w.block) == 0 {
		// A value put into bbolt must stay as it is until the commit: each
		// block is its own allocation.
		w.block = make([]byte, crcLen, w.l.sizes.block)
	}
	w.block = append(w.block, r...)
	w.last = r.key()
	w.job.run.add(w.last)
}

// flush ends the block, and the run when it is long enough.
func (w *writer) flush() {
	if len(w.block) == 0 {
		return
	}
	key := segmentKey(w.job.out.id, w.last)
	sign(key, w.block)
	w.blocks = append(w.blocks, pair{key, w.block})
	w.job.run.blocks++
	w.job.run.bytes += len(w.block)
	w.block = nil
	w.job.lastBlock = w.last
	if w.job.run.records >= w.l.sizes.runRecords {
		w.closeRun()
	}
}

// closeRun files the piece of the blocks since the last piece. The block being
// filled must have been flushed: a piece's key is its last block's.
func (w *writer) closeRun() {
	j := w.job
	if j.run.records == 0 {
		return
	}
	p := j.run
	j.run = piece{}
	j.out.add(&p, j.lastBlock)
	w.pieces = append(w.pieces, keyedPiece{segmentKey(j.out.id, j.lastBlock), &p})
}

// store writes what was collected.
func (w *writer) store(tx *bolt.Tx) error {
	if len(w.blocks) > 0 {
		if err := w.l.appendable(tx, bucketBlocks); err != nil {
			return err
		}
	}
	if len(w.pieces) > 0 {
		if err := w.l.appendable(tx, bucketFilters); err != nil {
			return err
		}
	}
	b := appendBucket(tx, bucketBlocks)
	for _, p := range w.blocks {
		if err := b.Put(p.key, p.value); err != nil {
			return err
		}
		w.l.written += int64(len(p.value))
	}
	b = appendBucket(tx, bucketFilters)
	for _, p := range w.pieces {
		if err := p.piece.put(b, p.key); err != nil {
			return err
		}
	}
	return nil
}
