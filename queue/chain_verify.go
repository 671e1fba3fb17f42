package queue

import (
	"bytes"
	"fmt"
	"iter"
)

// Lines walks the block's records as they are written, each with its newline. The
// slices are the block's memory.
func (b Block) Lines() iter.Seq[[]byte] { return bytes.Lines(b.Plain) }

// Records walks the block's records, parsed. It ends with the first error.
func (b Block) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for line := range b.Lines() {
			r, err := ParseRecord(line)
			if err != nil {
				yield(Record{}, fmt.Errorf("audit block %d: %w", b.Number, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// ChainBreak says where the trail stops being proof and why: what is before Block
// is as it was written, nothing can be said of what follows.
type ChainBreak struct {
	Block  uint64 // the first block that is wrong or missing
	N      uint64 // the record, where it is a single one
	Reason string
}

// Error returns the break in words.
func (e *ChainBreak) Error() string {
	if e.N != 0 {
		return fmt.Sprintf("audit chain breaks at block %d, record %d: %s", e.Block, e.N, e.Reason)
	}
	return fmt.Sprintf("audit chain breaks at block %d: %s", e.Block, e.Reason)
}

// ChainVerifier checks a trail, block by block in order. The zero value starts at
// the genesis; StartAfter starts a trail whose beginning was trimmed. It reads
// every record, so a caller that wants them need not parse twice: see Visit.
type ChainVerifier struct {
	// Visit, if set, is called for each record of each sound block, in order.
	// The record may be kept; it is not used again.
	Visit func(Record)

	head    Head
	lastN   uint64
	records uint64
	broken  *ChainBreak
	watched witnesses
}

// StartAfter makes the chain begin after head, whose last record has the number
// lastN. The caller vouches for both: a trimmed trail is as good as the anchor
// that was kept for it.
func (v *ChainVerifier) StartAfter(head Head, lastN uint64) { v.head, v.lastN = head, lastN }

// Watch asks for a head that somebody was shown; Verdicts tells afterwards what the
// chain says to it. It is for before the first block: a head that v has passed is not
// looked for backwards, and nothing can be said of one before StartAfter's.
func (v *ChainVerifier) Watch(w Witness) {
	switch {
	case w.Block > v.head.Block:
		v.watched.add(w, "")
	case w.Block == v.head.Block:
		v.watched.add(w, w.judge(v.head, v.lastN))
	default:
		v.watched.add(w, WitnessTrimmed)
	}
}

// Verdicts returns what the chain, as far as it has been read, says to each head
// that was watched for, in the order of the calls.
func (v *ChainVerifier) Verdicts() []Verdict { return v.watched.end(v.broken != nil) }

// Head returns the head that is proven so far.
func (v *ChainVerifier) Head() Head { return v.head }

// LastN returns the number of the last record that is proven so far.
func (v *ChainVerifier) LastN() uint64 { return v.lastN }

// Records returns how many records were checked, those of a trimmed beginning
// not counted.
func (v *ChainVerifier) Records() uint64 { return v.records }

// Broken returns the first break, nil as long as there is none.
func (v *ChainVerifier) Broken() *ChainBreak { return v.broken }

// AddStored is Add for the stored form of a block.
func (v *ChainVerifier) AddStored(number uint64, data []byte) error {
	if v.broken != nil {
		return v.broken
	}
	b, err := ParseBlock(number, data)
	if err != nil {
		return v.fail(number, 0, err.Error())
	}
	return v.Add(b)
}

// Add checks the next block. Its error is a *ChainBreak, and stays the first one:
// after a break nothing is proof any more.
func (v *ChainVerifier) Add(b Block) error {
	if v.broken != nil {
		return v.broken
	}
	switch next := v.head.Next(b.FirstN, b.Count, b.Plain); {
	case b.Number > next.Block:
		return v.fail(next.Block, 0, fmt.Sprintf("missing; the next block is %d", b.Number))
	case b.Number < next.Block:
		return v.fail(b.Number, 0, fmt.Sprintf("out of order; block %d was due", next.Block))
	case b.FirstN != v.lastN+1:
		return v.fail(b.Number, b.FirstN, fmt.Sprintf("begins with record %d; record %d was due", b.FirstN, v.lastN+1))
	case b.Hash != next.Hash:
		return v.fail(b.Number, 0, "hash differs: the block or one before it is not what was written")
	}
	records, err := v.parse(b)
	if err != nil {
		return err
	}
	v.head, v.lastN, v.records = b.Head(), b.LastN(), v.records+uint64(b.Count)
	v.watched.pass(v.head, v.lastN)
	if v.Visit != nil {
		for _, r := range records {
			v.Visit(r)
		}
	}
	return nil
}

// parse reads the records of a block whose hash is right. One that does not parse
// or is misnumbered was written so, which is a defect and no less a finding.
func (v *ChainVerifier) parse(b Block) ([]Record, error) {
	var records []Record
	n := b.FirstN
	for r, err := range b.Records() {
		switch {
		case err != nil:
			return nil, v.fail(b.Number, n, err.Error())
		case r.N != n:
			return nil, v.fail(b.Number, n, fmt.Sprintf("record is numbered %d", r.N))
		}
		records = append(records, r)
		n++
	}
	if len(records) != int(b.Count) {
		return nil, v.fail(b.Number, 0, fmt.Sprintf("holds %d records, says %d", len(records), b.Count))
	}
	return records, nil
}

func (v *ChainVerifier) fail(block, n uint64, reason string) error {
	v.broken = &ChainBreak{Block: block, N: n, Reason: reason}
	return v.broken
}
