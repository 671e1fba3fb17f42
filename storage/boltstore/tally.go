package boltstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"breakwater/queue"
)

// tally is what a start counts again. A checksum says that a row is as it was
// written, not that it is still there: a lease record that is gone would make a
// message that somebody works on look as if it had never been handed out.
//
// Messages need no number of their own: each seq that was given is open, dead, done
// or discarded.
type tally struct {
	lastN   uint64 // of the trail when it was written: what an older program wrote later is not judged by it
	flights int
}

const (
	tallyVersion = 1
	tallySize    = 1 + 4 + 2*8
)

// append encodes the tally: version, CRC-32C of the rest, the fields in order.
func (y tally) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, tallyVersion, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, y.lastN)
	dst = binary.BigEndian.AppendUint64(dst, uint64(y.flights))
	binary.BigEndian.PutUint32(dst[start+1:], crc32.Checksum(dst[start+5:], castagnoli))
	return dst
}

// parseTally decodes what append wrote.
func parseTally(b []byte) (y tally, err error) {
	if len(b) != tallySize || b[0] != tallyVersion || binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], castagnoli) {
		return y, fmt.Errorf("%w: the tally in bucket meta", queue.ErrDamaged)
	}
	return tally{lastN: binary.BigEndian.Uint64(b[5:]), flights: int(binary.BigEndian.Uint64(b[13:]))}, nil
}

// tally compares what was counted with what was written.
func (l *loader) tally() error {
	t := l.t
	if found := t.depth.open + t.scheduled + t.dead + t.count.done + t.count.discarded; found != int64(t.count.lastSeq) {
		return fmt.Errorf("%w: %d seqs were given, and what is open, dead, done and discarded makes %d", queue.ErrDamaged, t.count.lastSeq, found)
	}
	b := l.b.meta.Get(metaTally)
	if b == nil {
		return nil // of a program that did not count
	}
	y, err := parseTally(b)
	if err == nil && y.lastN == t.count.lastN && y.flights != len(t.flights)+len(t.lostFlights) {
		err = fmt.Errorf("%w: %d lease records were written, %d are there", queue.ErrDamaged, y.flights, len(t.flights)+len(t.lostFlights))
	}
	return err
}
