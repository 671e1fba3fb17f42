package dbfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// manyFree in a list's header says that its length stands in the first entry.
const manyFree = 0xFFFF

// eachFree reads the list of free pages that a clean stop wrote, and gives every
// entry to use, in order. bbolt takes the list's length on trust.
func eachFree(r *pageReader, m Meta, use func(id uint64) error) (n int64, overflow uint64, err error) {
	first, err := r.page(m.Freelist)
	if err != nil {
		return 0, 0, err
	}
	h := parseHeader(first)
	switch {
	case h.id != m.Freelist:
		return 0, 0, fmt.Errorf("says that it is page %d", h.id)
	case h.flags != flagFreelist:
		return 0, 0, fmt.Errorf("is no list of free pages (flags %#x)", h.flags)
	case uint64(h.overflow) >= m.HighWater-m.Freelist:
		return 0, 0, fmt.Errorf("with %d overflow pages: %w", h.overflow, errOutOfRange)
	}
	var s span
	s.reset(r, h, first)
	off, count := int64(pageHeaderSize), int64(h.count)
	if count == manyFree {
		b, err := s.bytes(off, 8)
		if err != nil {
			return 0, 0, err
		}
		off, count = off+8, int64(binary.LittleEndian.Uint64(b))
	}
	if count < 0 || count > (s.size-off)/8 {
		return 0, 0, errors.New("counts more entries than it has room for")
	}
	prev := uint64(1)
	for range count {
		b, err := s.bytes(off, 8)
		if err != nil {
			return 0, 0, err
		}
		id := binary.LittleEndian.Uint64(b)
		if id <= prev || id >= m.HighWater {
			return 0, 0, fmt.Errorf("lists page %d after page %d", id, prev)
		}
		if err := use(id); err != nil {
			return 0, 0, err
		}
		off, prev = off+8, id
	}
	return count, uint64(h.overflow), nil
}

// freelistSpan claims the pages of the list itself and counts its entries.
func (w *walker) freelistSpan() (int64, error) {
	n, overflow, err := eachFree(w.pages, w.m, func(uint64) error { return nil })
	if err == nil {
		err = w.claim(w.m.Freelist, overflow+1)
	}
	if err != nil {
		return 0, fmt.Errorf("list of free pages (page %d): %w", w.m.Freelist, err)
	}
	return n, nil
}

// freeIsFree makes sure, after the walk, that no page in use is in the list: the
// next commit would write over it.
func (w *walker) freeIsFree() error {
	_, _, err := eachFree(w.pages, w.m, func(id uint64) error {
		if w.isSeen(id) {
			return fmt.Errorf("lists page %d, which is in use", id)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("list of free pages (page %d): %w", w.m.Freelist, err)
	}
	return nil
}

// freelistSum is a checksum over the list of free pages. A file that was stopped
// cleanly is not walked, and this list is what its first commit writes by.
func freelistSum(f io.ReaderAt, m Meta) (uint64, error) {
	if !m.HasFreelist() {
		return 0, errors.New("the last commit wrote no list of free pages")
	}
	sum := fnv.New64a()
	r := &pageReader{r: f, size: m.PageSize, high: m.HighWater}
	_, _, err := eachFree(r, m, func(id uint64) error {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], id)
		_, err := sum.Write(b[:])
		return err
	})
	return sum.Sum64(), err
}
