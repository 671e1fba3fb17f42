package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"breakwater/queue"
)

// keyHash stands for a partition key in tables and buckets: the first half of
// SHA-256 over the file's secret and the key.
type keyHash [16]byte

// record is a message as the backlog keeps it.
//
// Its stored form is fixed fields, then the strings, each with a 16-bit length,
// then, of one that has been a dead letter, its past, then the line:
//
//	offset 0  version: 1, or 2 if there is a past
//	       1  CRC-32C of all that follows
//	       5  seq, 64 bits
//	      13  accepted at, microseconds since 1970
//	      21  not before, the same; 0 for none
//	      29  route (index into queue.Routes), priority, decision: one byte each
//	      32  key hash, 16 bytes
//	      48  source hash, 32 bytes
//	      80  length of the strings, 32 bits
//	      84  trace id, idempotency key, partition key, ledger entity, amount, currency
//	       …  version 2: see past
//	       …  the line
//
// Seq and time are known only to the committer, which patches them into what the
// caller's goroutine has encoded.
type record struct {
	route      queue.Route
	priority   uint8
	key        keyHash
	acceptedAt time.Time
	notBefore  time.Time
	past       past
	msg        queue.Stored
}

const (
	recordVersion = 1
	recordReturns = 2 // the version of a record that has a past
	offCRC        = 1
	offSeq        = 5
	offAccepted   = 13
	offNotBefore  = 21
	offRoute      = 29
	offPriority   = 30
	offDecision   = 31
	offKey        = 32
	offSource     = 48
	offStrings    = 80
	recordHeader  = 84
)

var decisions = [...]queue.MatchDecision{"", queue.Matched, queue.Partial, queue.Unmatched}

// appendRecord encodes a message that has no seq yet.
func appendRecord(dst []byte, m *queue.Message, key keyHash) []byte {
	start := len(dst)
	dst = append(dst, make([]byte, recordHeader)...)
	h := dst[start:]
	h[0] = recordVersion
	if !m.NotBefore.IsZero() {
		binary.BigEndian.PutUint64(h[offNotBefore:], uint64(m.NotBefore.UnixMicro()))
	}
	h[offRoute], h[offPriority] = routeByte(m.Route), m.Priority
	for i, d := range decisions {
		if d == m.Decision {
			h[offDecision] = byte(i)
		}
	}
	copy(h[offKey:], key[:])
	copy(h[offSource:], m.SourceHash[:])
	for _, s := range [...]string{m.TraceID, m.IdempotencyKey, m.PartitionKey, m.LedgerEntity, m.Amount, m.Currency} {
		dst = binary.BigEndian.AppendUint16(dst, uint16(len(s)))
		dst = append(dst, s...)
	}
	binary.BigEndian.PutUint32(dst[start+offStrings:], uint32(len(dst)-start-recordHeader))
	return append(dst, m.Line...)
}

// routeByte is a route's index, or 0xff for a line that has none.
func routeByte(r queue.Route) byte { return byte(queue.RouteIndex(r)) }

// sealRecord patches in what the committer knows, and the checksum.
func sealRecord(rec []byte, seq uint64, acceptedAt time.Time) {
	binary.BigEndian.PutUint64(rec[offSeq:], seq)
	binary.BigEndian.PutUint64(rec[offAccepted:], uint64(acceptedAt.UnixMicro()))
	sumRecord(rec)
}

// sumRecord sets the checksum.
func sumRecord(rec []byte) { binary.BigEndian.PutUint32(rec[offCRC:], recordSum(rec)) }

// recordSum is the checksum of a record. It includes the version where that is not 1,
// or one changed byte would make a past part of the line, or a line a past.
func recordSum(rec []byte) uint32 {
	sum := uint32(0)
	if rec[0] != recordVersion {
		sum = crc32.Checksum(rec[:1], castagnoli)
	}
	return crc32.Update(sum, castagnoli, rec[offSeq:])
}

// header is the fixed part of a record: what a walk needs.
type header struct {
	seq      uint64
	route    uint8
	priority uint8
	key      keyHash
}

// parseHeader checks the whole record and decodes its fixed part.
func parseHeader(rec []byte) (h header, err error) {
	if len(rec) < recordHeader || rec[0] != recordVersion && rec[0] != recordReturns ||
		binary.BigEndian.Uint32(rec[offCRC:]) != recordSum(rec) {
		return h, fmt.Errorf("%w: a record of %d bytes does not match its checksum", queue.ErrDamaged, len(rec))
	}
	h.seq, h.route, h.priority = binary.BigEndian.Uint64(rec[offSeq:]), rec[offRoute], rec[offPriority]
	copy(h.key[:], rec[offKey:])
	return h, nil
}

// parseRecord checks and decodes a record. Nothing of it shares memory with rec:
// the strings are one copy, the line another.
func parseRecord(rec []byte) (r record, err error) {
	h, err := parseHeader(rec)
	if err != nil {
		return r, err
	}
	end := recordHeader + int(binary.BigEndian.Uint32(rec[offStrings:]))
	if end > len(rec) || int(rec[offDecision]) >= len(decisions) {
		return r, fmt.Errorf("%w: a record's lengths", queue.ErrDamaged)
	}
	text := string(rec[recordHeader:end])
	var strs [6]string
	for i := range strs {
		if len(text) < 2 || len(text)-2 < int(text[0])<<8|int(text[1]) {
			return r, fmt.Errorf("%w: a record's strings", queue.ErrDamaged)
		}
		n := int(text[0])<<8 | int(text[1])
		strs[i], text = text[2:2+n], text[2+n:]
	}
	before, line, err := parsePast(rec, end)
	if err != nil {
		return r, err
	}
	r = record{key: h.key, past: before, priority: h.priority, acceptedAt: micros(binary.BigEndian.Uint64(rec[offAccepted:]))}
	if int(h.route) < len(queue.Routes) {
		r.route = queue.Routes[h.route]
	}
	if nb := binary.BigEndian.Uint64(rec[offNotBefore:]); nb != 0 {
		r.notBefore = micros(nb)
	}
	r.msg = queue.Stored{
		Seq: h.seq, TraceID: strs[0], IdempotencyKey: strs[1], PartitionKey: strs[2],
		LedgerEntity: strs[3], Amount: strs[4], Currency: strs[5],
		Decision: decisions[rec[offDecision]], Line: bytes.Clone(line),
	}
	copy(r.msg.SourceHash[:], rec[offSource:])
	return r, nil
}

// micros is the time that many microseconds after 1970, in UTC.
func micros(us uint64) time.Time { return time.UnixMicro(int64(us)).UTC() }
