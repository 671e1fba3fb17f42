package ledger

import (
	"encoding/binary"
	"math/bits"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// A filter says which keys a segment does not hold. It is a bloom filter in
// pieces: one piece for each run of neighbouring blocks, written when the run
// is complete. So it grows with the segment (a merge does not know beforehand
// how many records it will leave), survives a crash half-made, and is rebuilt,
// when damaged, from one run of blocks and not from the whole segment.
//
// Within a piece all bits of a key lie in one cache line ("blocked bloom
// filter", Putze, Sanders and Singler 2007): a key that is absent costs one
// cache miss a segment. A library's filter was the road not taken: it would
// hash again what is a hash already, and spread its probes over the memory.
type filter struct {
	bits []uint64 // pieceWords for each run
	last []uint64 // high half of each run's last key, ascending
}

const (
	lineWords  = 8  // a cache line: 512 bits
	pieceLines = 31 // so that two pieces with their bbolt overhead fill a 4 KiB page
	pieceWords = pieceLines * lineWords
	// runRecords closes a run: 10 bits a record, about 1 % false positives.
	runRecords = pieceWords * 64 / 10
	probes     = 6 // bits set per key; 9 bits of the key's low half choose each
)

// piece is the filter of one run, with what is known of the run.
type piece struct {
	bits    [pieceWords]uint64
	records int
	blocks  int
	bytes   int // of the blocks' values
}

// line returns the cache line of k. It must not depend on the leading bits,
// which all keys of a run share.
func line(words []uint64, k Key) *[lineWords]uint64 {
	spread := uint64(uint32(k.high()))
	return (*[lineWords]uint64)(words[int(spread*pieceLines>>32)*lineWords:])
}

func (p *piece) add(k Key) {
	words := line(p.bits[:], k)
	for i, low := 0, k.low(); i < probes; i, low = i+1, low>>9 {
		words[low>>6%lineWords] |= 1 << (low & 63)
	}
	p.records++
}

// mayHold says whether k can be among the keys added to the piece. It looks at
// all bits without a branch: to stop at the first zero would be a guess that
// the processor gets wrong half the time, just when it waits for memory. This
// way it goes ahead to the next segment's filter meanwhile: measured with ten
// million keys in 8 segments, half the time.
func mayHold(words []uint64, k Key) bool {
	bits, low := line(words, k), k.low()
	all := bits[low>>6%lineWords] >> (low & 63)
	for range probes - 1 {
		low >>= 9
		all &= bits[low>>6%lineWords] >> (low & 63)
	}
	return all&1 != 0
}

// grow makes room for so many more records, so that a large filter is not
// copied while it grows.
func (f *filter) grow(records int) {
	runs := records/runRecords + 1
	f.bits, f.last = slices.Grow(f.bits, runs*pieceWords), slices.Grow(f.last, runs)
}

// add appends the piece of the next run.
func (f *filter) add(p *piece, last Key) {
	f.bits = append(f.bits, p.bits[:]...)
	f.last = append(f.last, last.high())
}

// may says whether k can be in the segment.
func (f *filter) may(k Key) bool {
	h := k.high()
	for i := f.run(h); i < len(f.last); i++ {
		if mayHold(f.bits[i*pieceWords:][:pieceWords], k) {
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

// memory returns the bytes held.
func (f *filter) memory() int64 { return int64(8 * (cap(f.bits) + cap(f.last))) }

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
