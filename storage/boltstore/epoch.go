package boltstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"breakwater/queue"
)

// What retention counts by (see queue.Uptime) is two things in the file. Under
// "service" in bucket meta, big-endian:
//
//	offset  0  version
//	        1  CRC-32C of the rest
//	        5  time in service, microseconds
//	       13  wall clock when it was counted last, microseconds since 1970; 0: never
//	       21  number of the present epoch
//	       29  time in service when it began
//	       37  number of the last record before it
//	       45  keys settled in epochs before this one are forgotten
//
// and in bucket epochs, under the number of each epoch that has ended and something
// still depends on:
//
//	offset  0  version
//	        1  CRC-32C of the number and of the rest
//	        5  time in service when it ended
//	       13  number of its last record
//	       21  how many keys were settled in it
const (
	serviceVersion = 1
	serviceSize    = 1 + 4 + 6*8
	epochVersion   = 1
	epochSize      = 1 + 4 + 3*8
)

// appendService encodes a store's time in service.
func appendService(dst []byte, s *queue.Uptime) []byte {
	start := len(dst)
	dst = append(dst, serviceVersion, 0, 0, 0, 0)
	seen := int64(0)
	if !s.Seen.IsZero() {
		seen = s.Seen.UnixMicro()
	}
	for _, n := range [...]uint64{
		uint64(s.Total.Microseconds()), uint64(seen), s.Epoch, uint64(s.Began.Microseconds()), s.LastN, s.Kept,
	} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	binary.BigEndian.PutUint32(dst[start+1:], crc32.Checksum(dst[start+5:], castagnoli))
	return dst
}

// parseService decodes what appendService wrote; nothing is a store that has never
// been asked to expire anything.
func parseService(b []byte) (s queue.Uptime, err error) {
	if b == nil {
		return queue.Uptime{Epoch: 1, Kept: 1}, nil
	}
	if len(b) != serviceSize || b[0] != serviceVersion || binary.BigEndian.Uint32(b[1:]) != crc32.Checksum(b[5:], castagnoli) {
		return s, fmt.Errorf("%w: the time in service in bucket meta", queue.ErrDamaged)
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[5+8*i:]) }
	s = queue.Uptime{Total: inMicros(n(0)), Epoch: n(2), Began: inMicros(n(3)), LastN: n(4), Kept: n(5)}
	if n(1) != 0 {
		s.Seen = micros(n(1))
	}
	return s, nil
}

// inMicros is a stored duration.
func inMicros(n uint64) time.Duration { return time.Duration(n) * time.Microsecond }

// appendEpoch encodes an epoch that has ended.
func appendEpoch(dst []byte, e *queue.Epoch) []byte {
	start := len(dst)
	dst = append(dst, epochVersion, 0, 0, 0, 0)
	for _, n := range [...]uint64{uint64(e.Ended.Microseconds()), e.LastN, uint64(e.Settled)} {
		dst = binary.BigEndian.AppendUint64(dst, n)
	}
	binary.BigEndian.PutUint32(dst[start+1:], seqSum(e.Number, dst[start+5:]))
	return dst
}

// parseEpoch decodes what appendEpoch wrote.
func parseEpoch(at, b []byte) (e queue.Epoch, err error) {
	if len(at) != 8 || len(b) != epochSize || b[0] != epochVersion ||
		binary.BigEndian.Uint32(b[1:]) != seqSum(binary.BigEndian.Uint64(at), b[5:]) {
		return e, fmt.Errorf("%w: key %x in bucket epochs does not match its checksum", queue.ErrDamaged, at)
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(b[5+8*i:]) }
	return queue.Epoch{Number: binary.BigEndian.Uint64(at), Ended: inMicros(n(0)), LastN: n(1), Settled: int64(n(2))}, nil
}

func (l *loader) service() (err error) {
	l.t.service, err = parseService(l.b.meta.Get(metaService))
	return err
}
