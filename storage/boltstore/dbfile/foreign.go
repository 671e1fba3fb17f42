package dbfile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"
)

// sniffBytes is how much of a file is looked at to say what it is.
const sniffBytes = 512

// foreignMagics are the kinds of file that end up under a store's name by
// mistake: other databases, backups, and archives of it.
var foreignMagics = [...]struct{ magic, name string }{
	{"SQLite format 3\x00", "an SQLite database"},
	{"\x1f\x8b", "a gzip archive"},
	{"\x28\xb5\x2f\xfd", "a zstd archive"},
	{"\xfd7zXZ\x00", "an xz archive"},
	{"PK\x03\x04", "a zip archive"},
	{"age-encryption.org/v1", "a file encrypted with age"},
	{"-----BEGIN", "a PEM file"},
	{"\x7fELF", "a program"},
}

// judgeUnreadable says why neither meta page can be used: a file of another
// kind, one cut off within its first pages, a later format, or damage.
func judgeUnreadable(f io.ReaderAt, path string, size int64, m0, m1 Meta) error {
	for _, m := range []Meta{m0, m1} {
		if errors.Is(m.Err, ErrNewer) {
			return fileErr(ErrNewer, path, m.Err)
		}
	}
	head := make([]byte, sniffBytes)
	n, err := f.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return ioErr(path, "reading its first bytes", err)
	}
	head = head[:n]
	if len(bytes.Trim(head, "\x00")) == 0 {
		// What some file systems leave after a power cut, not another kind of file.
		return damaged(path, "it begins with zeros")
	}
	if !looksLikeBolt(head, m0, m1) {
		return fileErr(ErrForeign, path, errors.New(describe(head)))
	}
	if size < 2*minPageSize || (m0.Err == errChecksum && m1.Err == errNoMagic && size < 2*m0.PageSize) {
		return fileErr(ErrTruncated, path, fmt.Errorf("%d bytes, less than its two meta pages", size))
	}
	return damaged(path, "neither meta page can be used (page 0: %v; page 1: %v)", m0.Err, m1.Err)
}

// looksLikeBolt: a magic number in either place, or page 0's header as bbolt
// writes it (number 0, the meta flag, nothing else) over a spoilt rest.
func looksLikeBolt(head []byte, m0, m1 Meta) bool {
	if m0.Err != errNoMagic || m1.Err != errNoMagic {
		return true
	}
	return len(head) >= pageHeaderSize &&
		binary.LittleEndian.Uint64(head) == 0 &&
		binary.LittleEndian.Uint64(head[8:]) == flagMeta
}

// describe says in words what a foreign file seems to be.
func describe(head []byte) string {
	for _, k := range foreignMagics {
		if bytes.HasPrefix(head, []byte(k.magic)) {
			return "it looks like " + k.name
		}
	}
	if isText(head) {
		return "it looks like a text file"
	}
	return fmt.Sprintf("it begins with % x", head[:min(len(head), 8)])
}

// isText: UTF-8 (a rune may be cut at the end) without control characters.
func isText(b []byte) bool {
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			return len(b) < utf8.UTFMax
		}
		if r < ' ' && r != '\n' && r != '\r' && r != '\t' {
			return false
		}
		b = b[n:]
	}
	return true
}
