package dbfile

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// windowBytes is how much of a leaf with overflow pages is in memory at once:
// a value of gigabytes is skipped, not read.
const windowBytes = 64 << 10

// span is a page with its overflow, as bytes that can be asked for anywhere.
// Bounds are the caller's to check.
type span struct {
	r    *pageReader
	base int64 // in the file
	size int64
	win  []byte // what is in memory: the first page, later buf
	off  int64  // of win in the span
	buf  []byte // ours, reused from span to span
}

// reset makes the span that of another page. first is its first page, which the
// caller has read.
func (s *span) reset(r *pageReader, h header, first []byte) {
	s.r, s.base, s.size = r, int64(h.id)*r.size, (int64(h.overflow)+1)*r.size
	s.win, s.off = first, 0
}

// bytes returns n bytes at off; valid until the next call.
func (s *span) bytes(off, n int64) ([]byte, error) {
	if off < s.off || off+n > s.off+int64(len(s.win)) {
		want := min(max(n, windowBytes), s.size-off)
		if int64(cap(s.buf)) < want {
			s.buf = make([]byte, want)
		}
		s.win, s.off = s.buf[:want], off
		if err := s.r.read(s.win, s.base+off); err != nil {
			s.win = nil
			return nil, err
		}
	}
	return s.win[off-s.off : off-s.off+n], nil
}

// leaf checks a leaf page. Table and keys have a window each: they lie apart.
func (w *walker) leaf(h header, first, low, high []byte) error {
	w.table.reset(w.pages, h, first)
	w.keys.reset(w.pages, h, first)
	return w.elements(int(h.count), &w.table, &w.keys, low, high)
}

// elements checks the table of a leaf, and with it all that the table points to.
func (w *walker) elements(count int, table, keys *span, low, high []byte) error {
	tableEnd := int64(pageHeaderSize + count*elementSize)
	if tableEnd > table.size {
		return errOutside
	}
	if count == 0 && low != nil {
		return errors.New("an empty page that is not a root")
	}
	order := keyBounds{low: low, high: high, prev: w.prev[:0]}
	for i := range count {
		at := int64(pageHeaderSize + i*elementSize)
		raw, err := table.bytes(at, elementSize)
		if err != nil {
			return err
		}
		e := parseElement(raw)
		if err := w.element(e, at, tableEnd, keys, &order); err != nil {
			return fmt.Errorf("element %d: %w", i, err)
		}
	}
	w.prev = order.prev
	w.report.Keys += int64(count)
	return nil
}

// element checks one entry: its place, its key's order, and what a bucket's
// entry points to. Sums are taken in 64 bits, so that no length wraps around.
//
// The root's entries must be buckets: bbolt can make no others, and whoever asks
// it for the bucket of a plain record gets nil.
func (w *walker) element(e element, at, tableEnd int64, keys *span, order *keyBounds) error {
	start := at + int64(e.pos)
	switch {
	case e.flags&^bucketElement != 0:
		return errFlags
	case e.flags != bucketElement && w.nesting == 0:
		return errPlain
	case e.keyLen == 0 || e.keyLen > maxKeyBytes:
		return errKeySize
	case e.valueLen > maxValueBytes:
		return errOutside
	case start < tableEnd || start+int64(e.keyLen)+int64(e.valueLen) > keys.size:
		return errOutside
	}
	key, err := keys.bytes(start, int64(e.keyLen))
	if err != nil {
		return err
	}
	if err := order.next(key); err != nil {
		return err
	}
	order.prev = append(order.prev[:0], key...) // the window may move
	if e.flags&bucketElement != 0 {
		return w.bucket(keys, start+int64(e.keyLen), int64(e.valueLen))
	}
	return nil
}

// bucket checks the value of a bucket's entry: the number of its root page, or
// the page itself, inline, when it is small. Inline pages hold no buckets, and
// bbolt keeps them under a quarter of a page; a whole one bounds what is read.
func (w *walker) bucket(s *span, off, n int64) error {
	if n < bucketHeader {
		return errBucket
	}
	head, err := s.bytes(off, bucketHeader)
	if err != nil {
		return err
	}
	if root := binary.LittleEndian.Uint64(head); root != 0 {
		return w.enqueue(root, w.nesting+1)
	}
	if n < bucketHeader+pageHeaderSize || n > w.m.PageSize {
		return errBucket
	}
	value, err := s.bytes(off, n)
	if err != nil {
		return err
	}
	return w.inline(value[bucketHeader:])
}

// inline checks a page that lives inside a value.
func (w *walker) inline(page []byte) error {
	h := parseHeader(page)
	if h.flags != flagLeaf || h.overflow != 0 {
		return fmt.Errorf("inline bucket is no leaf (flags %#x)", h.flags)
	}
	w.report.Buckets++
	w.report.Keys += int64(h.count)
	tableEnd := int64(pageHeaderSize) + int64(h.count)*elementSize
	if tableEnd > int64(len(page)) {
		return fmt.Errorf("inline bucket: %w", errOutside)
	}
	var order keyBounds
	for i := range int64(h.count) {
		at := pageHeaderSize + i*elementSize
		e := parseElement(page[at:])
		start, end := at+int64(e.pos), at+int64(e.pos)+int64(e.keyLen)
		switch {
		case e.flags != 0:
			return fmt.Errorf("inline bucket: %w", errFlags)
		case e.keyLen == 0 || e.keyLen > maxKeyBytes:
			return fmt.Errorf("inline bucket: %w", errKeySize)
		case start < tableEnd || end+int64(e.valueLen) > int64(len(page)):
			return fmt.Errorf("inline bucket: %w", errOutside)
		}
		if err := order.next(page[start:end]); err != nil {
			return fmt.Errorf("inline bucket: %w", err)
		}
		order.prev = page[start:end]
	}
	return nil
}
