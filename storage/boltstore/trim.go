package boltstore

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// This file removes the beginning of the trail (see queue/trim.go), a few blocks in
// each step. Blocks never change, so they are read and unpacked in the caller's
// goroutine; the committer only asks what of them still holds, and that in one
// transaction with everything else of the step: the blocks, the spans of them, the
// TRIMMED record, the copies, and where the trail begins now.

// Trim removes the first blocks of the trail; see [queue.Store]. While somebody verifies
// the trail, who began with its first block, it stays as it is.
func (s *Store) Trim(ctx context.Context, r queue.TrimRequest) (queue.TrimResult, error) {
	var goal trimGoal
	err := s.look(ctx, func(x *txn) (err error) {
		goal, err = x.trimGoal(&r)
		return err
	})
	if err != nil || goal.lastN == 0 {
		return queue.TrimResult{}, err
	}
	old, err := s.oldBlocks(goal)
	if err != nil || len(old) == 0 {
		return queue.TrimResult{}, err
	}
	var res queue.TrimResult
	err = s.do(ctx, &operation{apply: func(x *txn) error {
		res = queue.TrimResult{}
		if s.verifying.Load() > 0 || x.t.opening.Before.Block+1 != old[0].head.Block {
			return nil
		}
		res.More = len(old) == queue.TrimBlocks
		return x.trim(r.Now, old, &res)
	}})
	if err != nil {
		return queue.TrimResult{}, err
	}
	return res, nil
}

// trimGoal says how far the trail may be trimmed now.
type trimGoal struct {
	from  uint64 // the first block that there is
	head  uint64 // the last one: it stays
	lastN uint64 // up to this record; 0: nothing is to be trimmed
}

// trimGoal returns what retention allows: whole epochs, and if an archive is asked for
// only what is in one. It looks at no more epochs than one request may let go of: the
// step does not come further.
func (x *txn) trimGoal(r *queue.TrimRequest) (g trimGoal, err error) {
	o := &x.t.opening
	g = trimGoal{from: o.Before.Block + 1, head: x.t.count.head.Block}
	if r.Audit == 0 {
		return g, nil
	}
	looked := 0
	c := x.b.epochs.Cursor()
	for at, b := c.Seek(seqKey(x.t.untrimmed)); at != nil && looked < queue.MaxEpochs; at, b = c.Next() {
		e, err := parseEpoch(at, b)
		if err != nil {
			return g, err
		}
		if e.LastN <= o.LastN {
			x.t.untrimmed = e.Number + 1
			continue
		}
		if looked++; !x.t.service.Over(&e, r.Audit) {
			break
		}
		g.lastN = e.LastN
	}
	if r.RequireArchive {
		g.lastN = min(g.lastN, x.t.archived.N)
	}
	if g.lastN <= o.LastN {
		g.lastN = 0
	}
	return g, nil
}

// dropEpochs deletes the epochs that nothing depends on any more.
func (x *txn) dropEpochs() error {
	var over [][]byte
	c := x.b.epochs.Cursor()
	for at, b := c.First(); at != nil && len(over) < 2*queue.MaxEpochs; at, b = c.Next() {
		e, err := parseEpoch(at, b)
		if err != nil {
			return err
		}
		if e.Number >= x.t.service.Kept || e.LastN > x.t.opening.LastN {
			break
		}
		over = append(over, at)
	}
	for _, at := range over {
		if err := x.b.epochs.Delete(at); err != nil {
			return fmt.Errorf("forget an epoch: %w", err)
		}
	}
	return nil
}

// oldBlock is a block that is to be removed, unpacked.
type oldBlock struct {
	head    queue.Head
	records []queue.Record
}

// oldBlocks reads what one step may remove.
func (s *Store) oldBlocks(g trimGoal) (old []oldBlock, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketAudit).Cursor()
		for at, data := c.Seek(seqKey(g.from)); at != nil && len(old) < queue.TrimBlocks; at, data = c.Next() {
			number := binary.BigEndian.Uint64(at)
			b, err := queue.ParseBlock(number, data)
			if err != nil {
				return fmt.Errorf("%w: %w", queue.ErrDamaged, err)
			}
			if number >= g.head || b.LastN() > g.lastN {
				return nil
			}
			one := oldBlock{head: b.Head()}
			for r, err := range b.Records() {
				if err != nil {
					return fmt.Errorf("%w: %w", queue.ErrDamaged, err)
				}
				one.records = append(one.records, r)
			}
			old = append(old, one)
		}
		return nil
	})
	return old, err
}

// trim removes blocks, and leaves the record of it and copies of what still holds.
func (x *txn) trim(now time.Time, old []oldBlock, res *queue.TrimResult) error {
	t := queue.Trimming{Opening: x.t.opening}
	holds := stillHolds{txn: x, known: map[uint64]*queue.Unfinished{}}
	for _, b := range old {
		for i := range b.records {
			t.Count(&b.records[i])
			if holds.record(&b.records[i]) {
				t.Copy(b.records[i])
			}
		}
		t.Before = b.head
		res.Records += len(b.records)
		if err := x.b.audit.Delete(seqKey(b.head.Block)); err != nil {
			return fmt.Errorf("remove block %d of the trail: %w", b.head.Block, err)
		}
	}
	if err := dropSpans(x.tx, t.Before.Block); err != nil {
		return err
	}
	res.Copies += len(t.Copies)
	x.record(queue.TrimmedRecord(now, t.Told()))
	t.Record = x.trail.LastN()
	for _, c := range t.Copies {
		x.record(c)
	}
	x.t.opening = t.Opening
	if err := x.b.meta.Put(metaOpening, appendOpening(nil, &t.Opening)); err != nil {
		return err
	}
	return x.dropEpochs()
}

// dropSpans deletes the spans of blocks up to a number. One that goes on behind it
// stays, and tells of more than there is.
func dropSpans(tx *bolt.Tx, last uint64) error {
	b := tx.Bucket(bucketTrailIndex)
	if b == nil {
		return nil
	}
	var over [][]byte
	c := b.Cursor()
	for at, _ := c.First(); len(at) == 8 && binary.BigEndian.Uint64(at) <= last; at, _ = c.Next() {
		over = append(over, at)
	}
	for _, at := range over {
		if err := b.Delete(at); err != nil {
			return fmt.Errorf("remove the filter of blocks that were trimmed: %w", err)
		}
	}
	return nil
}

// stillHolds asks the store what of old records still holds.
type stillHolds struct {
	*txn
	known map[uint64]*queue.Unfinished // by seq; nil: it is over
}

// record reports whether what a record tells holds now.
func (h *stillHolds) record(r *queue.Record) bool {
	switch r.Event {
	case queue.EventPaused, queue.EventRestored:
		return r.StillPaused(h.t.pause)
	case queue.EventKeyHeld:
		var hold keyHold
		stored := h.b.held.Get([]byte(r.PartitionKey))
		if stored == nil || json.Unmarshal(stored, &hold) != nil {
			return stored != nil // one that cannot be read may be this one
		}
		return r.StillHeld(&queue.KeyHold{Since: hold.Since})
	}
	if !r.MayHold() {
		return false
	}
	m, ok := h.known[r.Seq]
	if !ok {
		m = h.standing(r.Seq)
		h.known[r.Seq] = m
	}
	return r.StillHolds(m)
}

// standing is where a message stands; nil: it is over.
func (x *txn) standing(seq uint64) *queue.Unfinished {
	var out queue.Unfinished
	rec := x.b.dead.Get(seqKey(seq))
	if rec != nil {
		d, err := parseDead(seq, rec)
		if err != nil {
			return &queue.Unfinished{Damaged: true}
		}
		out.Place, out.DeadAt, out.Door = d.place(), d.meta.DeadAt, !d.ordered()
		rec = d.record
	} else {
		var at []byte
		if at, rec = x.locate(seq); rec == nil {
			return nil
		}
		out.Place, _ = queue.ParsePlaceKey(at)
		if f := x.t.flights[seq]; f != nil && f.leased() {
			out.Worker, out.Delivery = f.owner.Name, f.deliveries
		}
	}
	m, err := parseRecord(rec)
	if err != nil {
		return &queue.Unfinished{Damaged: true}
	}
	if m.past.edited {
		out.Edited = queue.LineHash(m.msg.Line)
	}
	return &out
}

// Where the trail begins, under "opening" in bucket meta: version, CRC-32C of the rest,
// then in big-endian 64-bit numbers, but for the hash, the fields in order.
const (
	openingVersion = 1
	openingSize    = 1 + 4 + 8 + 32 + 3*8 + 8*8
)

// appendOpening encodes where the trail begins.
func appendOpening(dst []byte, o *queue.Opening) []byte {
	start := len(dst)
	dst = append(dst, openingVersion, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, o.Before.Block)
	dst = append(dst, o.Before.Hash[:]...)
	b := &o.Sums
	for _, n := range [...]uint64{
		o.LastN, o.LastSeq, o.Record,
		b.Accepted, b.Decided, b.Discarded, b.Quarantined, b.QuarantinedAccepted, b.QuarantinedDiscarded, b.Duplicates, b.Deliveries,
	} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	binary.BigEndian.PutUint32(dst[start+1:], crc32.Checksum(dst[start+5:], castagnoli))
	return dst
}

// parseOpening decodes what appendOpening wrote; nothing is a trail that is whole.
func parseOpening(b []byte) (o queue.Opening, err error) {
	if b == nil {
		return o, nil
	}
	if len(b) != openingSize || b[0] != openingVersion || binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], castagnoli) {
		return o, fmt.Errorf("%w: where the trail begins, in bucket meta", queue.ErrDamaged)
	}
	b = b[5:]
	o.Before.Block = binary.BigEndian.Uint64(b)
	b = b[8+copy(o.Before.Hash[:], b[8:]):]
	s := &o.Sums
	for _, field := range [...]*uint64{
		&o.LastN, &o.LastSeq, &o.Record,
		&s.Accepted, &s.Decided, &s.Discarded, &s.Quarantined, &s.QuarantinedAccepted, &s.QuarantinedDiscarded, &s.Duplicates, &s.Deliveries,
	} {
		*field = binary.BigEndian.Uint64(b)
		b = b[8:]
	}
	return o, nil
}

func (l *loader) opening() (err error) {
	l.t.opening, err = parseOpening(l.b.meta.Get(metaOpening))
	return err
}
