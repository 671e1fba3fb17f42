package queue

import (
	_ "embed" // for the dictionary
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"sync"

	"github.com/klauspost/compress/zstd"
)

// The stored form of a block, one for every backend:
//
//	offset  0  format byte, 1
//	        1  codec byte, 0 plain or 1 zstd
//	        2  firstN, 64 bits
//	       10  count, 32 bits
//	       14  length of the plain bytes, 32 bits
//	       18  hash of the chain after this block, 32 bytes
//	       50  payload: the plain bytes, or one zstd frame of them
//	   end-4  CRC-32C of the block's number (64 bits) and of all bytes before
//
// Integers are big-endian. The number itself is the store's key; taking it into
// the checksum tells a block that lies in another's place from a sound one. The
// previous hash is not stored: a verification recomputes it, and two copies of
// one truth could differ.
const (
	blockFormat   = 1
	codecPlain    = 0
	codecZstd     = 1
	blockHeader   = 1 + 1 + 8 + 4 + 4 + len(Hash{})
	blockTrailer  = 4
	compressFloor = 128 // no record is shorter; what is, gains nothing
)

// trailDict is the raw-content dictionary of codec 1: a record of every kind with
// its variable parts left out. It is part of the format and must never change;
// a better one would be codec 2. It is for hosts that commit one message at a
// time: the three records of a message's life, each a block of its own, take 486
// bytes with it and 1,077 without (1,297 plain). Full blocks shrink to a fifth
// either way; with it they are 8 % smaller and cost 3 µs more per block.
//
// It has no id, so that "zstd -d -D trail_v1.dict" reads a payload.
//
//go:embed trail_v1.dict
var trailDict []byte

// MaxStoredBlock bounds the stored form of any block, in bytes. A compressed form
// is only kept when it is shorter than the plain one.
const MaxStoredBlock = blockHeader + MaxRecordBytes + blockTrailer

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// The coders keep no state between calls and start no goroutine: EncodeAll and
// DecodeAll run in their caller. Both are safe for use by several goroutines. One
// encoder is enough, there is one committer; two decoders bound what readers hold.
var (
	blockEncoder = sync.OnceValue(func() *zstd.Encoder {
		e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
			zstd.WithLowerEncoderMem(true), zstd.WithWindowSize(64<<10), zstd.WithEncoderCRC(false), zstd.WithEncoderDictRaw(0, trailDict))
		if err != nil {
			panic(err) // options are constants: only a change of this line can fail
		}
		return e
	})
	blockDecoder = sync.OnceValue(func() *zstd.Decoder {
		d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(2), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderMaxMemory(MaxRecordBytes), zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderDictRaw(0, trailDict))
		if err != nil {
			panic(err)
		}
		return d
	})
)

// AppendBlock appends the stored form of b to dst. With compress the payload is
// compressed when that makes it shorter. ParseBlock reads it.
func AppendBlock(dst []byte, b Block, compress bool) []byte {
	start := len(dst)
	if compress { // a third is what most blocks shrink to, or below
		dst = slices.Grow(dst, blockHeader+len(b.Plain)/3+blockTrailer)
	} else {
		dst = slices.Grow(dst, blockHeader+len(b.Plain)+blockTrailer)
	}
	dst = append(dst, blockFormat, codecPlain)
	dst = binary.BigEndian.AppendUint64(dst, b.FirstN)
	dst = binary.BigEndian.AppendUint32(dst, b.Count)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(b.Plain)))
	dst = append(dst, b.Hash[:]...)
	payload := len(dst)
	if compress && len(b.Plain) >= compressFloor {
		dst = blockEncoder().EncodeAll(b.Plain, dst)
		dst[start+1] = codecZstd
	}
	if len(dst) == payload || len(dst)-payload >= len(b.Plain) {
		dst = append(dst[:payload], b.Plain...)
		dst[start+1] = codecPlain
	}
	return binary.BigEndian.AppendUint32(dst, blockSum(b.Number, dst[start:]))
}

// blockSum is the checksum of a stored block without its trailer.
func blockSum(number uint64, body []byte) uint32 {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], number)
	return crc32.Update(crc32.Checksum(n[:], castagnoli), castagnoli, body)
}

// ParseBlock reads the stored form of block number. Its errors wrap ErrDamaged
// and name the block. It trusts nothing: lengths are checked before anything is
// allocated or decompressed, and memory is bounded by MaxRecordBytes. That the
// hash is right is not its business but the ChainVerifier's. The block shares no
// memory with data.
func ParseBlock(number uint64, data []byte) (Block, error) {
	damaged := func(format string, args ...any) (Block, error) {
		return Block{}, fmt.Errorf("audit block %d: %s: %w", number, fmt.Sprintf(format, args...), ErrDamaged)
	}
	if len(data) < blockHeader+blockTrailer || len(data) > MaxStoredBlock {
		return damaged("%d bytes", len(data))
	}
	body := data[:len(data)-blockTrailer]
	if binary.BigEndian.Uint32(data[len(body):]) != blockSum(number, body) {
		return damaged("checksum differs")
	}
	if body[0] != blockFormat {
		return damaged("format %d is not known", body[0])
	}
	b := Block{
		Number: number,
		FirstN: binary.BigEndian.Uint64(body[2:]),
		Count:  binary.BigEndian.Uint32(body[10:]),
		Hash:   Hash(body[18:blockHeader]),
	}
	size := binary.BigEndian.Uint32(body[14:])
	if !plausible(b, size) {
		return damaged("%d records from %d in %d bytes", b.Count, b.FirstN, size)
	}
	plain, err := plainBytes(body[1], body[blockHeader:], int(size))
	if err != nil {
		return damaged("%v", err)
	}
	b.Plain = plain
	return b, nil
}

// plausible reports whether a block's numbers can be those of a block at all.
func plausible(b Block, size uint32) bool {
	return b.Number > 0 && b.FirstN > 0 && b.Count > 0 && b.LastN() >= b.FirstN &&
		b.Count <= size && size <= MaxRecordBytes && (b.Count == 1 || size <= MaxBlockBytes)
}

// plainBytes returns a payload's plain bytes, which must be exactly size.
func plainBytes(codec byte, payload []byte, size int) ([]byte, error) {
	plain := make([]byte, 0, size)
	switch codec {
	case codecPlain:
		if len(payload) != size {
			return nil, fmt.Errorf("%d bytes instead of %d", len(payload), size)
		}
		return append(plain, payload...), nil
	case codecZstd:
		plain, err := blockDecoder().DecodeAll(payload, plain)
		if err != nil {
			return nil, err
		}
		if len(plain) != size {
			return nil, fmt.Errorf("%d bytes instead of %d", len(plain), size)
		}
		return plain, nil
	}
	return nil, fmt.Errorf("codec %d is not known", codec)
}
