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

// entrySize is one page number in the list.
const entrySize = 8

// freeList is the list of free pages that a clean stop wrote: page numbers of
// eight bytes, rising, on one page and its overflow.
type freeList struct {
	span  span
	off   int64 // of the first entry
	count int64 // of entries
	pages uint64
	high  uint64
}

// openList reads the list's header. bbolt takes the length that stands there on
// trust, and would read as far past the page as it says.
func openList(r *pageReader, m Meta) (*freeList, error) {
	first, err := r.page(m.Freelist)
	if err != nil {
		return nil, err
	}
	h := parseHeader(first)
	switch {
	case h.id != m.Freelist:
		return nil, fmt.Errorf("says that it is page %d", h.id)
	case h.flags != flagFreelist:
		return nil, fmt.Errorf("is no list of free pages (flags %#x)", h.flags)
	case uint64(h.overflow) >= m.HighWater-m.Freelist:
		return nil, fmt.Errorf("with %d overflow pages: %w", h.overflow, errOutOfRange)
	}
	l := &freeList{off: pageHeaderSize, count: int64(h.count), pages: uint64(h.overflow) + 1, high: m.HighWater}
	l.span.reset(r, h, first)
	if l.count == manyFree {
		b, err := l.span.bytes(l.off, entrySize)
		if err != nil {
			return nil, err
		}
		l.off, l.count = l.off+entrySize, int64(binary.LittleEndian.Uint64(b))
	}
	if l.count < 0 || l.count > (l.span.size-l.off)/entrySize {
		return nil, errors.New("counts more entries than it has room for")
	}
	return l, nil
}

// each gives every entry to use, in order. A page number twice would be handed
// out twice; the order rules that out, without remembering any.
func (l *freeList) each(use func(id uint64) error) error {
	prev := uint64(1) // the meta pages are never free
	for i := range l.count {
		b, err := l.span.bytes(l.off+i*entrySize, entrySize)
		if err != nil {
			return err
		}
		id := binary.LittleEndian.Uint64(b)
		if id <= prev || id >= l.high {
			return fmt.Errorf("lists page %d after page %d", id, prev)
		}
		if err := use(id); err != nil {
			return err
		}
		prev = id
	}
	return nil
}

// claimList claims the pages of the list itself, before any other page can, and
// counts its entries.
func (w *walker) claimList() (int64, error) {
	l, err := openList(w.pages, w.m)
	if err == nil {
		err = w.claim(w.m.Freelist, l.pages)
	}
	if err != nil {
		return 0, listErr(w.m, err)
	}
	return l.count, nil
}

// freeIsFree makes sure, after the walk, that no page in use is in the list: the
// next commit would write over it.
func (w *walker) freeIsFree() error {
	l, err := openList(w.pages, w.m)
	if err == nil {
		err = l.each(func(id uint64) error {
			if w.isSeen(id) {
				return fmt.Errorf("lists page %d, which is in use", id)
			}
			return nil
		})
	}
	return listErr(w.m, err)
}

func listErr(m Meta, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("list of free pages (page %d): %w", m.Freelist, err)
}

// freelistSum is a checksum over the list of free pages. A file that was stopped
// cleanly is not walked, and this list is what its first commit writes by.
func freelistSum(f io.ReaderAt, m Meta) (uint64, error) {
	if !m.HasFreelist() {
		return 0, errors.New("the last commit wrote no list of free pages")
	}
	l, err := openList(&pageReader{r: f, size: m.PageSize, high: m.HighWater}, m)
	if err != nil {
		return 0, err
	}
	sum := fnv.New64a()
	err = l.each(func(id uint64) error {
		var b [entrySize]byte
		binary.LittleEndian.PutUint64(b[:], id)
		_, err := sum.Write(b[:])
		return err
	})
	return sum.Sum64(), err
}
