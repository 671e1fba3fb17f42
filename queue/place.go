package queue

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"strconv"
	"strings"
)

// Place is a message's place in the order of its key (P5). For a message that
// could run at once it is {its seq, 0}. A scheduled message gets its place when
// it falls due: {the last seq given until then, n}, n counting from 1, so that it
// comes after everything accepted before that moment and before everything
// accepted later, however long ago it was sent.
//
// The zero Place is no place: a message that never entered the order, or one that
// is not due yet.
type Place struct {
	Seq uint64
	Sub uint32
}

// MaxPlaceKey is the length of the longer form of a place's key, in bytes.
const MaxPlaceKey = 8 + 4

// IsZero reports whether p is no place.
func (p Place) IsZero() bool { return p == Place{} }

// Compare returns -1, 0 or +1 as p comes before, is, or comes after q.
func (p Place) Compare(q Place) int {
	return cmp.Or(cmp.Compare(p.Seq, q.Seq), cmp.Compare(p.Sub, q.Sub))
}

// Less reports whether p comes before q.
func (p Place) Less(q Place) bool { return p.Compare(q) < 0 }

// AppendKey appends the place as a store's key: seq as eight big-endian bytes,
// followed by sub as four where it is not zero. The byte order of keys is the
// order of places, since a key that is a prefix of another sorts first. Ordinary
// messages are nearly all there are; they pay eight bytes.
func (p Place) AppendKey(dst []byte) []byte {
	dst = binary.BigEndian.AppendUint64(dst, p.Seq)
	if p.Sub != 0 {
		dst = binary.BigEndian.AppendUint32(dst, p.Sub)
	}
	return dst
}

// ParsePlaceKey reads what AppendKey wrote; ok is false for anything else, the
// long form of a place with sub 0 included: one place has one key.
func ParsePlaceKey(key []byte) (p Place, ok bool) {
	switch len(key) {
	case 8:
		return Place{Seq: binary.BigEndian.Uint64(key)}, true
	case MaxPlaceKey:
		p = Place{Seq: binary.BigEndian.Uint64(key), Sub: binary.BigEndian.Uint32(key[8:])}
		return p, p.Sub != 0
	}
	return Place{}, false
}

// String returns "42", or "42.3" for the third scheduled message that fell due
// after message 42.
func (p Place) String() string { return string(p.appendText(nil)) }

func (p Place) appendText(dst []byte) []byte {
	dst = strconv.AppendUint(dst, p.Seq, 10)
	if p.Sub != 0 {
		dst = append(dst, '.')
		dst = strconv.AppendUint(dst, uint64(p.Sub), 10)
	}
	return dst
}

// ParsePlace reads what String wrote; ok is false for anything else, other
// spellings of the same numbers included.
func ParsePlace(s string) (p Place, ok bool) {
	seq, sub, dotted := strings.Cut(s, ".")
	n, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		return Place{}, false
	}
	p.Seq = n
	if dotted {
		n, err = strconv.ParseUint(sub, 10, 32)
		if err != nil {
			return Place{}, false
		}
		p.Sub = uint32(n)
	}
	var buf [32]byte
	if !bytes.Equal(p.appendText(buf[:0]), []byte(s)) {
		return Place{}, false
	}
	return p, true
}
