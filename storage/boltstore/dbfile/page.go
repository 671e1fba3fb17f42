package dbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Flags in a page's header; exactly one is set.
const (
	flagBranch   = 0x01
	flagLeaf     = 0x02
	flagMeta     = 0x04
	flagFreelist = 0x10
)

// The layout of a page as bbolt writes it: the header, a table of elements, then
// keys and values. An element's position counts from the element itself.
const (
	elementSize   = 16
	bucketElement = 0x01 // flag of a leaf element: the value is a bucket
	bucketHeader  = 16   // root page and sequence; root 0: the page follows inline

	// bbolt's own limits. It asserts the first when it reads a page to change it.
	maxKeyBytes   = 32768
	maxValueBytes = 1<<31 - 2
)

// header is the first 16 bytes of every page.
type header struct {
	id       uint64
	flags    uint16
	count    uint16
	overflow uint32 // pages that belong to this one and follow it
}

func parseHeader(b []byte) header {
	le := binary.LittleEndian
	return header{le.Uint64(b), le.Uint16(b[8:]), le.Uint16(b[10:]), le.Uint32(b[12:])}
}

// element is one entry of a leaf's table.
//
// In a branch the table's entries have the same size and another meaning: pos,
// keyLen, and the child's page number; see branch.
type element struct {
	flags, pos, keyLen, valueLen uint32
}

func parseElement(b []byte) element {
	le := binary.LittleEndian
	return element{le.Uint32(b), le.Uint32(b[4:]), le.Uint32(b[8:]), le.Uint32(b[12:])}
}

var (
	errOutside  = errors.New("an element points outside its page")
	errKeyOrder = errors.New("keys are out of order")
	errKeySize  = errors.New("a key has an impossible length")
	errFlags    = errors.New("an element has unknown flags")
	errPlain    = errors.New("a plain record among the root's buckets")
	errBucket   = errors.New("a bucket's entry is too short")
)

// keyBounds holds the order that keys must keep: each greater than the one
// before, the first equal to low, none at or above high. nil is no bound.
//
// bbolt's own check lets the first key be greater than low. But a commit finds
// the entry of a page in the page above by that key: where they differ it adds a
// second one, and panics when it frees the page twice.
type keyBounds struct {
	low, high []byte
	prev      []byte
	started   bool
}

func (k *keyBounds) next(key []byte) error {
	switch {
	case k.started && bytes.Compare(k.prev, key) >= 0,
		!k.started && k.low != nil && !bytes.Equal(k.low, key),
		k.high != nil && bytes.Compare(key, k.high) >= 0:
		return errKeyOrder
	}
	k.started = true
	return nil
}

// branch is a branch page on the walker's stack: the whole of it, and where we
// are in it.
type branch struct {
	id    uint64
	buf   []byte
	high  []byte // the bound that the page's last child inherits
	count int
	next  int
}

// load copies the page into the frame's buffer, its overflow included. A copy,
// because the reader's chunk moves on while the children are visited, and they
// are compared with keys that lie here.
func (b *branch) load(r *pageReader, h header, first []byte) error {
	span := (int64(h.overflow) + 1) * r.size
	if span > maxBranchBytes {
		return fmt.Errorf("a branch of %d bytes", span)
	}
	b.buf = append(b.buf[:0], first...)
	if span > r.size {
		b.buf = append(b.buf, make([]byte, span-r.size)...)
		if err := r.read(b.buf[r.size:], int64(h.id+1)*r.size); err != nil {
			return err
		}
	}
	b.id, b.count, b.next = h.id, int(h.count), 0
	if b.count == 0 {
		return errors.New("a branch without children")
	}
	if pageHeaderSize+b.count*elementSize > len(b.buf) {
		return errOutside
	}
	return nil
}

// check tests all elements, so that step need not.
func (b *branch) check(low, high []byte) error {
	b.high = high
	order := keyBounds{low: low, high: high}
	for i := range b.count {
		at := pageHeaderSize + i*elementSize
		pos, n := int64(b.u32(at)), int64(b.u32(at+4))
		switch {
		case n == 0 || n > maxKeyBytes:
			return fmt.Errorf("element %d: %w", i, errKeySize)
		case int64(at)+pos < int64(pageHeaderSize+b.count*elementSize) || int64(at)+pos+n > int64(len(b.buf)):
			return fmt.Errorf("element %d: %w", i, errOutside)
		}
		key := b.key(i)
		if err := order.next(key); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
		order.prev = key
	}
	return nil
}

// step gives the next child and the bounds of its keys. The last child is bounded
// by the page above, whose frame outlives this one: nothing needs to be copied.
func (b *branch) step() (child uint64, low, high []byte) {
	i := b.next
	b.next++
	high = b.high
	if b.next < b.count {
		high = b.key(b.next)
	}
	at := pageHeaderSize + i*elementSize
	return binary.LittleEndian.Uint64(b.buf[at+8:]), b.key(i), high
}

func (b *branch) u32(at int) uint32 { return binary.LittleEndian.Uint32(b.buf[at:]) }

func (b *branch) key(i int) []byte {
	at := pageHeaderSize + i*elementSize
	start := at + int(b.u32(at))
	return b.buf[start : start+int(b.u32(at+4))]
}

// pageReader reads pages by pread. A mapping would be faster by a system call
// per page, and would turn a read error of the disk into a fatal signal.
type pageReader struct {
	r    io.ReaderAt
	size int64
	high uint64

	chunk []byte // pages start..start+len/size-1
	start uint64
	last  uint64 // the page that was asked for last
}

// page returns one page; valid until the next call. Pages that follow each
// other in the file, as in a store that only appends, are read many at once.
func (p *pageReader) page(id uint64) ([]byte, error) {
	n := uint64(len(p.chunk)) / uint64(p.size)
	if id < p.start || id >= p.start+n {
		want := uint64(1)
		if id > p.last && id-p.last <= chunkPages/4 {
			want = min(chunkPages, p.high-id)
		}
		if p.chunk == nil {
			p.chunk = make([]byte, chunkPages*p.size)
		}
		p.chunk = p.chunk[:want*uint64(p.size)]
		if err := p.read(p.chunk, int64(id)*p.size); err != nil {
			p.chunk = p.chunk[:0]
			return nil, err
		}
		p.start = id
	}
	p.last = id
	at := int64(id-p.start) * p.size
	return p.chunk[at : at+p.size], nil
}

func (p *pageReader) read(b []byte, off int64) error {
	_, err := p.r.ReadAt(b, off)
	return err
}
