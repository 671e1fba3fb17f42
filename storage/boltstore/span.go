package boltstore

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"breakwater/queue"
	"breakwater/storage/boltstore/bloom"
)

// span is what bucket trail_index knows of some consecutive blocks of the trail:
// between which times its records lie, and a filter over the messages, traces, keys
// and events that they name. What asks for one of these reads the blocks of the spans
// that may have it, and no others.
//
// Its key is the number of its last block, so that the span of any block is found
// by one seek. Its stored form, big-endian:
//
//	offset  0  version: 1 has no events in its filter
//	        1  CRC-32C of the key, of the version if it is not 1, and of all that follows
//	        5  number of its first block, 64 bits
//	       13  the earliest time of its records, microseconds since 1970
//	       21  the latest one
//	       29  the filter: lines of eight 64-bit words; none: nothing is known
//
// It only ever saves reading. Where a span is missing, damaged, or without a
// filter, its blocks are read.
type span struct {
	old         bool   // version 1: its filter has no events
	first, last uint64 // numbers of its blocks
	// The clock may step back between two records, so neither is that of an end.
	earliest, latest int64
	filter           bloom.Filter
}

const (
	spanVersion = 2
	spanHeader  = 1 + 4 + 8 + 8 + 8
	// spanLines is how many cache lines a filter has: 10,176 bytes, so that the two
	// values that bbolt puts into a leaf at least fill five pages of 4 KiB.
	spanLines = 159
	spanWords = spanLines * bloom.LineWords
	// spanKeys closes a span: more would make its filter say "may be" too often. A
	// MiB of the trail names 5,000 to 8,000 messages, traces and keys.
	spanKeys = spanWords * 64 / bloom.BitsPerKey
	// spanBytes closes a span: so much of the trail, as plain text. The filter is
	// 1 % of that, and 5 to 10 % of what is stored of it, compressed.
	spanBytes = 1 << 20
	// spanBlocks closes a span of many small commits: a start reads the blocks of the
	// last, unfinished span again.
	spanBlocks = 4096
)

// spanLimits are spanBytes and spanBlocks, or less in a test.
type spanLimits struct {
	bytes  int
	blocks uint64
}

var defaultSpans = spanLimits{bytes: spanBytes, blocks: spanBlocks}

// append encodes the span.
func (sp *span) append(dst []byte) []byte {
	start := len(dst)
	version := byte(spanVersion)
	if sp.old {
		version = 1
	}
	dst = append(dst, version, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint64(dst, sp.first)
	dst = binary.BigEndian.AppendUint64(dst, uint64(sp.earliest))
	dst = binary.BigEndian.AppendUint64(dst, uint64(sp.latest))
	for _, word := range sp.filter {
		dst = binary.BigEndian.AppendUint64(dst, word)
	}
	binary.BigEndian.PutUint32(dst[start+1:], spanSum(sp.last, dst[start:]))
	return dst
}

// spanSum is the checksum of a stored span. It includes the version from 2 on, or a
// changed byte would make a filter without events one that denies them all.
func spanSum(last uint64, stored []byte) uint32 {
	sum := crc32.Checksum(seqKey(last), castagnoli)
	if stored[0] != 1 {
		sum = crc32.Update(sum, castagnoli, stored[:1])
	}
	return crc32.Update(sum, castagnoli, stored[5:])
}

// parse decodes what append wrote, into the memory that the span has. After an
// error only its last block is known.
func (sp *span) parse(key, value []byte) error {
	filter := sp.filter[:0]
	*sp = span{filter: filter}
	if len(key) != 8 {
		return fmt.Errorf("%w: a key of %d bytes in bucket trail_index", queue.ErrDamaged, len(key))
	}
	sp.last = binary.BigEndian.Uint64(key)
	if len(value) < spanHeader || value[0] == 0 || value[0] > spanVersion || (len(value)-spanHeader)%(8*bloom.LineWords) != 0 ||
		binary.BigEndian.Uint32(value[1:]) != spanSum(sp.last, value) {
		return fmt.Errorf("%w: the filter of the blocks up to %d does not match its checksum", queue.ErrDamaged, sp.last)
	}
	sp.old, sp.first = value[0] == 1, binary.BigEndian.Uint64(value[5:])
	sp.earliest, sp.latest = int64(binary.BigEndian.Uint64(value[13:])), int64(binary.BigEndian.Uint64(value[21:]))
	for words := value[spanHeader:]; len(words) > 0; words = words[8:] {
		sp.filter = append(sp.filter, binary.BigEndian.Uint64(words))
	}
	return nil
}

// clear makes the span hold nothing, keeping its memory.
func (sp *span) clear() {
	clear(sp.filter)
	*sp = span{filter: sp.filter, earliest: math.MaxInt64, latest: math.MinInt64}
}

// holds says whether a record of the span may name all of these.
func (sp *span) holds(names []uint64) bool {
	for _, name := range names {
		if len(sp.filter) > 0 && !mayHold(sp.filter, name) {
			return false
		}
	}
	return true
}

// A name is 64 bits for something that a query asks for; high and low half of it
// choose line and bits.
func mayHold(f bloom.Filter, name uint64) bool { return f.May(uint32(name>>32), name) }

// The kinds of names.
const (
	nameSeq         = 's'
	nameTrace       = 't'
	namePartition   = 'p'
	nameIdempotency = 'i'
	nameEvent       = 'e' // from version 2 on
)

// nameOf is the name of a text; two kinds of the same text are two names.
func nameOf(kind byte, text string) uint64 {
	var buf [1 + queue.MaxRecordID]byte
	return xxhash.Sum64(append(append(buf[:0], kind), text...))
}

func nameOfSeq(seq uint64) uint64 {
	return xxhash.Sum64(binary.BigEndian.AppendUint64(append(make([]byte, 0, 9), nameSeq), seq))
}

// appendNames appends the names of all that a record tells of, as its line tells
// it: that is what a query compares with.
func appendNames(dst []uint64, r *queue.Record) []uint64 {
	if !asRecorded(r.TraceID) || !asRecorded(r.PartitionKey) || !asRecorded(r.IdempotencyKey) {
		if read, err := queue.ParseRecord(r.AppendNDJSON(nil)); err == nil {
			r = &read
		}
	}
	for _, seq := range [...]uint64{r.Seq, r.Of} {
		if seq != 0 {
			dst = append(dst, nameOfSeq(seq))
		}
	}
	for _, seq := range r.Seqs {
		dst = append(dst, nameOfSeq(seq))
	}
	if r.TraceID != "" {
		dst = append(dst, nameOf(nameTrace, r.TraceID))
	}
	if r.PartitionKey != "" {
		dst = append(dst, nameOf(namePartition, r.PartitionKey))
	}
	if r.IdempotencyKey != "" {
		dst = append(dst, nameOf(nameIdempotency, r.IdempotencyKey))
	}
	return append(dst, nameOf(nameEvent, string(r.Event))) // last, see spanCheck
}

// asRecorded says whether a record's line will have the text unchanged: only the
// quarantined have one that is too long or is not UTF-8.
func asRecorded(text string) bool { return len(text) <= queue.MaxRecordID && utf8.ValidString(text) }
