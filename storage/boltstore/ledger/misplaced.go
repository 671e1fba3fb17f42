package ledger

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// A damaged key is more than a damaged value: bbolt's tree is made of keys. Where the
// first key of a page is not what the page above has for it, writing that page anew
// leaves two entries for it above, and one of them leads to a page that is free (see
// ADR 0009). So nothing is written where bbolt would write such a page: it writes
// pages whole, and joins one that has become small with the one beside it. What should
// be deleted there stays, and is found by Check; what should be appended there is an
// error. Keys of the pages above are beyond what can be seen from here: those a start
// after an unclean stop looks at.

// nearPages is how many pages' worth of entries on both sides of a damaged key are left
// alone.
const nearPages = 4

// misplaced says whether an entry of the blocks or filters bucket has a damaged key. A
// block that is sound under the key that its last record gives it has one. A piece
// whose value is damaged has been mended when the ledger was opened.
func (l *Ledger) misplaced(bucket, key, value []byte) bool {
	if _, err := body(bucket, key, value); err == nil {
		return false
	}
	if bytes.Equal(bucket, bucketFilters) || len(key) != 8+len(Key{}) {
		return true
	}
	if len(value) < crcLen {
		return false
	}
	var last record
	for rest := value[crcLen:]; len(rest) > 0; {
		var ok bool
		if last, rest, ok = cutRecord(rest); !ok {
			return false
		}
	}
	if last == nil {
		return false
	}
	want, id := binary.BigEndian.Uint32(value), binary.BigEndian.Uint64(key)
	if last.key() != lastKey(key) {
		return want == checksum(segmentKey(id, last.key()), value[crcLen:])
	}
	for shift := 0; shift < 64; shift += 8 { // some other byte in the id
		for b := range uint64(256) {
			other := id&^(0xff<<shift) | b<<shift
			if other < l.nextID && want == checksum(segmentKey(other, last.key()), value[crcLen:]) {
				return true
			}
		}
	}
	return false
}

// nearMisplaced says whether an entry with a damaged key is near: the one given, or one of
// those that next leads to.
func (l *Ledger) nearMisplaced(tx *bolt.Tx, bucket []byte, key, value []byte, next func() ([]byte, []byte)) bool {
	near := nearPages * tx.DB().Info().PageSize
	for ; key != nil && near > 0; key, value = next() {
		if l.misplaced(bucket, key, value) {
			return true
		}
		near -= len(key) + len(value)
	}
	return false
}

// appendable says whether entries can be appended to a bucket.
func (l *Ledger) appendable(tx *bolt.Tx, bucket []byte) error {
	c := tx.Bucket(bucket).Cursor()
	key, value := c.Last()
	if l.nearMisplaced(tx, bucket, key, value, c.Prev) {
		return fmt.Errorf("%w: bucket %s: a key near its end is damaged, and nothing can be written there", queue.ErrDamaged, bucket)
	}
	return nil
}

// clearSegment deletes what a bucket has of a segment, while bytes are left, and
// returns those; more than none means that nothing is left that can be deleted.
func (l *Ledger) clearSegment(tx *bolt.Tx, bucket []byte, id uint64, left int) (int, error) {
	b := tx.Bucket(bucket)
	near := nearPages * tx.DB().Info().PageSize
	var keys [][]byte // to be deleted
	var sizes []int   // of the last of them, that are near to what comes
	kept := 0         // bytes that are to be kept for what was met last
	c := b.Cursor()
	key, value := c.Seek(segmentKey(id, Key{}))
	if before := b.Cursor(); key != nil {
		before.Seek(key)
		if k, v := before.Prev(); l.nearMisplaced(tx, bucket, k, v, before.Prev) {
			kept = near
		}
	}
	for beyond := near; key != nil && (left > 0 || beyond > 0); key, value = c.Next() {
		size := len(key) + len(value)
		mine := ofSegment(key, id) && b.Get(key) != nil
		if left <= 0 || !mine {
			beyond -= size
		}
		if l.misplaced(bucket, key, value) {
			keys, sizes, left = takeBack(keys, sizes, near, left)
			kept, beyond = near, near
			continue
		}
		if !ofSegment(key, id) && beyond <= 0 {
			break
		}
		if kept -= size; kept <= 0 && mine && left > 0 {
			keys, sizes = append(keys, key), append(sizes, size)
			left -= size
		}
	}
	for _, key := range keys {
		if err := b.Delete(key); err != nil {
			return left, err
		}
	}
	return left, nil
}

// takeBack takes the last keys off the list that are near to what follows.
func takeBack(keys [][]byte, sizes []int, near, left int) ([][]byte, []int, int) {
	for len(keys) > 0 && near > 0 {
		n := len(keys) - 1
		near -= sizes[n]
		left += sizes[n]
		keys, sizes = slices.Delete(keys, n, n+1), sizes[:n]
	}
	return keys, sizes, left
}
