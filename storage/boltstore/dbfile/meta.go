package dbfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// The layout of a meta page as bbolt writes it: a 16-byte page header, then 64
// bytes, little-endian on every machine that we build for.
const (
	metaMagic      = 0xED0CDAED
	metaVersion    = 2
	pageHeaderSize = 16
	metaSize       = 64
	metaPageBytes  = pageHeaderSize + metaSize

	minPageSize = 1 << 10
	maxPageSize = 64 << 10

	// noFreelist in the freelist's place says that none was written.
	noFreelist = ^uint64(0)
)

// Meta is one of the two meta pages: where the tree starts, and up to where the
// file is used. bbolt writes them in turn, one per commit.
type Meta struct {
	Slot      int    // the page that it was read from, 0 or 1
	Txid      uint64 // rises by one with every commit
	PageSize  int64
	Root      uint64 // page of the root bucket
	Freelist  uint64 // page of the list of free pages; see HasFreelist
	HighWater uint64 // number of pages in use, free ones below it included
	Err       error  // why it is not valid; nil if it is

	// Odd: bbolt would take the page, but the header around it is not what bbolt
	// writes. Harmless, and a sign that something else has written here.
	Odd bool
}

// HasFreelist says that the last commit wrote the list of free pages: a new
// file, or a clean stop.
func (m Meta) HasFreelist() bool { return m.Freelist != noFreelist }

// Bytes is the least size of a file with this meta page.
func (m Meta) Bytes() int64 { return int64(m.HighWater) * m.PageSize }

var (
	errNoMagic  = errors.New("no magic number")
	errChecksum = errors.New("checksum differs")
)

// parseMeta decodes a meta page; buf is at least metaPageBytes long. Validity is
// what bbolt itself checks, and that the page size is one it can have.
func parseMeta(buf []byte, slot int) Meta {
	le := binary.LittleEndian
	b := buf[pageHeaderSize:metaPageBytes]
	m := Meta{
		Slot:      slot,
		PageSize:  int64(le.Uint32(b[8:])),
		Root:      le.Uint64(b[16:]),
		Freelist:  le.Uint64(b[32:]),
		HighWater: le.Uint64(b[40:]),
		Txid:      le.Uint64(b[48:]),
	}
	head := parseHeader(buf)
	m.Odd = head.id != uint64(slot) || head.flags != flagMeta
	h := fnv.New64a()
	h.Write(b[:56])
	switch {
	case le.Uint32(b) != metaMagic:
		m.Err = errNoMagic
	case le.Uint64(b[56:]) != h.Sum64():
		m.Err = errChecksum
	case le.Uint32(b[4:]) != metaVersion:
		m.Err = fmt.Errorf("%w: bbolt format %d, this program knows %d", ErrNewer, le.Uint32(b[4:]), metaVersion)
	case !sanePageSize(m.PageSize):
		m.Err = fmt.Errorf("page size %d", m.PageSize)
	}
	return m
}

// sanePageSize: a power of two between 1 and 64 KiB.
func sanePageSize(n int64) bool { return n >= minPageSize && n <= maxPageSize && n&(n-1) == 0 }

// ReadMeta reads both meta pages of the file at path without opening it as a
// database: newest is the one that bbolt will use, other the one before (or,
// with Err set, one that cannot be used). It takes no lock: on a live file the
// answer is of the moment.
func ReadMeta(path string) (newest, other Meta, err error) {
	if exists, err := checkPath(path); err != nil {
		return Meta{}, Meta{}, err
	} else if !exists {
		return Meta{}, Meta{}, fileErr(ErrAbsent, path, nil)
	}
	f, err := openExisting(Options{Path: path, ReadOnly: true})
	if err != nil {
		return Meta{}, Meta{}, err
	}
	defer f.Close()
	return readMeta(f, path)
}

// readMeta judges the file by its meta pages and its size alone.
func readMeta(f *os.File, path string) (newest, other Meta, err error) {
	st, err := f.Stat()
	if err != nil {
		return Meta{}, Meta{}, ioErr(path, "looking at the file", err)
	}
	if st.Size() == 0 {
		return Meta{}, Meta{}, fileErr(ErrEmpty, path, nil)
	}
	m0, m1, err := bothMetas(f)
	if err != nil {
		return Meta{}, Meta{}, ioErr(path, "reading the meta pages", err)
	}
	if m0.Err != nil && m1.Err != nil {
		return Meta{}, Meta{}, judgeUnreadable(f, path, st.Size(), m0, m1)
	}
	newest, other = m0, m1
	if m0.Err != nil || (m1.Err == nil && m1.Txid > m0.Txid) {
		newest, other = m1, m0
	}
	return newest, other, checkBounds(newest, path, st.Size())
}

// bothMetas reads page 0, and page 1 at the place where page 0 says, or, if
// page 0 is unreadable, where any page size would put it.
func bothMetas(f io.ReaderAt) (m0, m1 Meta, err error) {
	m0, err = metaAt(f, 0, 0)
	if err != nil {
		return m0, m1, err
	}
	if m0.Err == nil {
		m1, err = metaAt(f, m0.PageSize, 1)
		if err == nil && m1.Err == nil && m1.PageSize != m0.PageSize {
			m1.Err = fmt.Errorf("page size %d, but page 0 says %d", m1.PageSize, m0.PageSize)
		}
		return m0, m1, err
	}
	m1 = Meta{Slot: 1, Err: errNoMagic}
	for size := int64(minPageSize); size <= maxPageSize; size *= 2 {
		m, err := metaAt(f, size, 1)
		if err != nil {
			return m0, m1, err
		}
		if m.Err == nil && m.PageSize == size {
			return m0, m, nil
		}
		if m1.Err == errNoMagic { // keep the most telling reason
			m1 = m
		}
	}
	if m1.Err == nil { // valid, but at a place where its page size does not put it
		m1.Err = fmt.Errorf("page size %d does not fit its place", m1.PageSize)
	}
	return m0, m1, nil
}

// metaAt reads one meta page. What lies beyond the end of the file is not an
// error of reading but a page without its magic number.
func metaAt(f io.ReaderAt, off int64, slot int) (Meta, error) {
	var buf [metaPageBytes]byte
	if _, err := f.ReadAt(buf[:], off); err != nil && err != io.EOF {
		return Meta{}, err
	}
	return parseMeta(buf[:], slot), nil
}

// checkBounds compares the file's real size with what the meta page promises.
// bbolt does not: it maps the file and dies from SIGBUS.
func checkBounds(m Meta, path string, size int64) error {
	switch {
	case m.HighWater < 3 || m.HighWater > maxPages:
		return damaged(path, "its meta page counts %d pages", m.HighWater)
	case size < m.Bytes():
		return fileErr(ErrTruncated, path, fmt.Errorf(
			"%d bytes, and its meta page (transaction %d) needs %d", size, m.Txid, m.Bytes()))
	case m.Root < 2 || m.Root >= m.HighWater:
		return damaged(path, "its root is page %d of %d", m.Root, m.HighWater)
	case m.HasFreelist() && (m.Freelist < 2 || m.Freelist >= m.HighWater):
		return damaged(path, "its list of free pages is page %d of %d", m.Freelist, m.HighWater)
	}
	return nil
}

// fallback describes what is wrong with the pair of meta pages, of which one can
// be used; "" if both are as bbolt leaves them.
//
// A torn write of the commit in flight at a power cut looks the same as an
// acknowledged commit whose page rotted away; only a witness outside the file
// can tell the two apart.
func fallback(newest, other Meta) string {
	if other.Err != nil {
		return fmt.Sprintf("meta page %d cannot be used (%v): the file stands at transaction %d; "+
			"either the commit after it was cut off before it was answered, or an answered one is lost",
			other.Slot, other.Err, newest.Txid)
	}
	if newest.Txid-other.Txid != 1 {
		return fmt.Sprintf("the meta pages are of transactions %d and %d, which should follow each other",
			other.Txid, newest.Txid)
	}
	if newest.Odd || other.Odd {
		return "the header of a meta page is spoilt; the next commits write it anew"
	}
	return ""
}

// dropCache makes sure that what is read next comes from the disk. After a
// failed sync the kernel calls pages clean that the disk never got: they would
// be believed, built upon, and gone at the next loss of power.
func dropCache(f *os.File, path string) error {
	if err := f.Sync(); err != nil {
		return ioErr(path, "syncing before the first read", err)
	}
	err := unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return ioErr(path, "dropping the page cache", err)
	}
	return nil
}
