package ledger

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// The buckets. They are top-level ones, because a nested bucket would add a
// page to every commit.
var (
	bucketManifest = []byte("ledger_manifest") // one key, the manifest
	bucketLog      = []byte("ledger_log")      // log number → records
	bucketBlocks   = []byte("ledger_blocks")   // segment id ‖ last key → records
	bucketFilters  = []byte("ledger_filters")  // segment id ‖ last key of a run → filter
)

// castagnoli is CRC-32C, which the usual processors compute in hardware.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// crcLen is the length of the checksum that begins every value.
const crcLen = 4

// checksum covers the bucket key too: a sound value in the wrong place is
// damage as well.
func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// sign fills in the checksum of a value built with crcLen bytes in front.
func sign(key, value []byte) {
	binary.BigEndian.PutUint32(value, checksum(key, value[crcLen:]))
}

// body returns what follows a value's checksum, if the checksum is right.
func body(bucket, key, value []byte) ([]byte, error) {
	if len(value) < crcLen || binary.BigEndian.Uint32(value) != checksum(key, value[crcLen:]) {
		return nil, damage(bucket, key, "checksum")
	}
	return value[crcLen:], nil
}

// damage returns an error that matches queue.ErrDamaged.
func damage(bucket, key []byte, what string) error {
	return fmt.Errorf("%w: bucket %s, key %x: %s", queue.ErrDamaged, bucket, key, what)
}

// logKey is a log number as a bucket key.
func logKey(number uint64) []byte { return binary.BigEndian.AppendUint64(nil, number) }

// segmentKey is the key of a block, or of a piece of filter: the segment's id,
// then the LAST key inside. By the last, one Seek finds the only block that can
// hold a key, and the last block says how far a half-made segment has come.
func segmentKey(id uint64, last Key) []byte {
	b := make([]byte, 0, 8+len(last))
	return append(binary.BigEndian.AppendUint64(b, id), last[:]...)
}

// ofSegment says whether a key of the blocks or filters bucket is of a segment.
func ofSegment(key []byte, id uint64) bool {
	return len(key) == 8+len(Key{}) && binary.BigEndian.Uint64(key) == id
}

// lastKey is the second part of a segmentKey.
func lastKey(key []byte) Key { return Key(key[8:]) }

// appendBucket returns a bucket that is written in ascending key order: pages
// are filled whole instead of half, since nothing will be put between.
func appendBucket(tx *bolt.Tx, name []byte) *bolt.Bucket {
	b := tx.Bucket(name)
	b.FillPercent = 1
	return b
}
