package ledger

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/storage/boltstore/bloom"
)

// A filter says which keys a segment does not hold. It is a bloom filter in
// pieces: one piece for each run of neighbouring blocks, written when the run
// is complete. So it grows with the segment (a merge does not know beforehand
// how many records it will leave), survives a crash half-made, and is rebuilt,
// when damaged, from one run of blocks and not from the whole segment.
//
// Neighbouring runs hold neighbouring keys, so a key is looked for in one piece
// only. What a piece is made of, and why, package bloom says.
type filter struct {
	bits []uint64 // pieceWords for each run
	last []uint64 // high half of each run's last key, ascending
	runs []run
}

// run is what a piece says of its run of blocks. The pieces of a segment have its
// whole number of records, so together they are a directory of its blocks: what is
// missing among the blocks is noticed.
type run struct {
	last     Key
	records  int
	blocks   int
	bytes    int  // of the blocks' values
	doubtful bool // made of blocks of which some are damaged: any key may be there
}

// runBytes is what a run takes in memory, besides its piece.
const runBytes = 48

const (
	pieceLines = 31 // so that two pieces with their bbolt overhead fill a 4 KiB page
	pieceWords = pieceLines * bloom.LineWords
	// runRecords closes a run: about 1 % false positives.
	runRecords = pieceWords * 64 / bloom.BitsPerKey
)

// piece is the filter of one run, with what is known of the run.
type piece struct {
	bits    [pieceWords]uint64
	records int
	blocks  int
	bytes   int // of the blocks' values

	doubtful bool // see run; never stored
}

// spreadOf chooses the key's cache line in a piece. It must not depend on the
// leading bits, which all keys of a run share.
func spreadOf(k Key) uint32 { return uint32(k.high()) }

func (p *piece) add(k Key) {
	bloom.Filter(p.bits[:]).Add(spreadOf(k), k.low())
	p.records++
}

// grow makes room for so many more records, so that a large filter is not
// copied while it grows.
func (f *filter) grow(records int) {
	runs := records/runRecords + 1
	f.bits, f.last, f.runs = slices.Grow(f.bits, runs*pieceWords), slices.Grow(f.last, runs), slices.Grow(f.runs, runs)
}

// add appends the piece of the next run.
func (f *filter) add(p *piece, last Key) {
	f.bits = append(f.bits, p.bits[:]...)
	f.last = append(f.last, last.high())
	f.runs = append(f.runs, run{last: last, records: p.records, blocks: p.blocks, bytes: p.bytes, doubtful: p.doubtful})
}

// may says whether k can be in the segment.
func (f *filter) may(k Key) bool {
	h := k.high()
	for i := f.run(h); i < len(f.last); i++ {
		if bloom.Filter(f.bits[i*pieceWords:][:pieceWords]).May(spreadOf(k), k.low()) {
			return true
		}
		if f.last[i] != h { // runs may meet within one high half
			return false
		}
	}
	return false
}

// run returns the first run whose last key is not below h. Keys are spread
// evenly, so the first guess is off by a run or two at most.
func (f *filter) run(h uint64) int {
	guess, _ := bits.Mul64(h, uint64(len(f.last)))
	i := int(guess)
	for i > 0 && f.last[i-1] >= h {
		i--
	}
	for i < len(f.last) && f.last[i] < h {
		i++
	}
	return i
}

// runOf returns the run whose blocks can hold k, or the number of runs if k is
// behind the last one.
func (f *filter) runOf(k Key) int {
	i := f.run(k.high())
	for i < len(f.runs) && bytes.Compare(f.runs[i].last[:], k[:]) < 0 {
		i++
	}
	return i
}

// memory returns the bytes held.
func (f *filter) memory() int64 {
	return int64(8*(cap(f.bits)+cap(f.last))) + int64(runBytes*cap(f.runs))
}

// A piece as stored: crc 4 | records 2 | blocks 2 | bytes 4 | bits.
const (
	pieceHeader = 8
	pieceLen    = crcLen + pieceHeader + 8*pieceWords
)

// put stores the piece under its bucket key.
func (p *piece) put(b *bolt.Bucket, key []byte) error {
	v := make([]byte, crcLen, pieceLen)
	v = binary.BigEndian.AppendUint16(v, uint16(p.records))
	v = binary.BigEndian.AppendUint16(v, uint16(p.blocks))
	v = binary.BigEndian.AppendUint32(v, uint32(p.bytes))
	for _, w := range p.bits {
		v = binary.BigEndian.AppendUint64(v, w)
	}
	sign(key, v)
	return b.Put(key, v)
}

// readPiece decodes a stored piece.
func readPiece(key, value []byte) (*piece, error) {
	b, err := body(bucketFilters, key, value)
	if err != nil {
		return nil, err
	}
	if len(value) != pieceLen {
		return nil, damage(bucketFilters, key, "length")
	}
	p := &piece{
		records: int(binary.BigEndian.Uint16(b)),
		blocks:  int(binary.BigEndian.Uint16(b[2:])),
		bytes:   int(binary.BigEndian.Uint32(b[4:])),
	}
	for i := range p.bits {
		p.bits[i] = binary.BigEndian.Uint64(b[pieceHeader+8*i:])
	}
	return p, nil
}
