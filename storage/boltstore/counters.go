package boltstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	"breakwater/queue"
)

// counters is what must never go back: written with every transaction, as one
// small value.
type counters struct {
	lastSeq   uint64     // the seq given last
	fence     uint64     // the fence given last
	dueSeq    uint64     // lastSeq when the last scheduled message fell due …
	dueSub    uint32     // … and how many did since then
	head      queue.Head // of the trail
	lastN     uint64     // number of the last record
	done      int64
	discarded int64

	remembered int64 // idempotency keys, without those that have expired
	settled    int64 // of them: settled in the present epoch

	restored uint64 // the seq given last when an older state was restored; 0: never
}

const (
	countersVersion = 1
	countersSize    = 1 + 4 + 3*8 + 4 + 8 + 32 + 6*8
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// append encodes the counters: version, CRC-32C of the rest, the fields in order,
// big-endian.
func (c *counters) append(dst []byte) []byte {
	start := len(dst)
	dst = append(dst, countersVersion, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, c.lastSeq)
	dst = binary.BigEndian.AppendUint64(dst, c.fence)
	dst = binary.BigEndian.AppendUint64(dst, c.dueSeq)
	dst = binary.BigEndian.AppendUint32(dst, c.dueSub)
	dst = binary.BigEndian.AppendUint64(dst, c.head.Block)
	dst = append(dst, c.head.Hash[:]...)
	dst = binary.BigEndian.AppendUint64(dst, c.lastN)
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.done))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.discarded))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.remembered))
	dst = binary.BigEndian.AppendUint64(dst, uint64(c.settled))
	dst = binary.BigEndian.AppendUint64(dst, c.restored)
	binary.BigEndian.PutUint32(dst[start+1:], crc32.Checksum(dst[start+5:], castagnoli))
	return dst
}

// parseCounters decodes what append wrote.
func parseCounters(b []byte) (c counters, err error) {
	if len(b) != countersSize || b[0] != countersVersion ||
		binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], castagnoli) {
		return c, fmt.Errorf("%w: the counters in bucket meta", queue.ErrDamaged)
	}
	b = b[5:]
	next := func() uint64 {
		n := binary.BigEndian.Uint64(b)
		b = b[8:]
		return n
	}
	c.lastSeq, c.fence, c.dueSeq = next(), next(), next()
	c.dueSub = binary.BigEndian.Uint32(b)
	b = b[4:]
	c.head.Block = next()
	b = b[copy(c.head.Hash[:], b):]
	c.lastN, c.done, c.discarded = next(), int64(next()), int64(next())
	c.remembered, c.settled, c.restored = int64(next()), int64(next()), next()
	return c, nil
}
