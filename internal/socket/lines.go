package socket

import (
	"bytes"
	"errors"
	"io"
	"syscall"
)

// The framing, one rule per case (B22, B23):
//
//   - A line ends with LF or CR LF. Neither is part of it: not of its bytes, its
//     length, its hash, nor of what max_line_bytes counts. A CR elsewhere is.
//   - One UTF-8 byte order mark at the very start of the stream is skipped, and is
//     part of nothing either.
//   - A line of nothing but ASCII white space is blank: counted, and yields nothing.
//   - A line longer than max_line_bytes, whatever is in it, yields its beginning, its
//     length and its hash (see longLine), and the stream goes on with the next line.
//   - Bytes after the last LF are a line that is marked as unterminated.
const byteOrderMark = "\xef\xbb\xbf"

// maxEmptyReads is how often a source may return neither bytes nor an error.
const maxEmptyReads = 100

// line is one line of a stream that is not blank.
type line struct {
	number uint64 // in the stream, from 1, blank lines included
	// bytes is the line without its end; of an over-long one the beginning. It is
	// valid until the batch is released.
	bytes        []byte
	unterminated bool      // the stream ended before the line did
	long         *longLine // nil unless the line is over the limit
}

// lineBatch is a run of lines that came in together, so that one read becomes one
// request to the store. It owns the memory of its lines.
type lineBatch struct {
	lines []line
	buf   []byte
	pool  *bufferPool
}

// size is the memory that the batch keeps from others, in bytes: what the shared
// bound on intake counts. It is the size of the buffer, not of the lines in it,
// because the bound is there for the memory's sake.
func (b *lineBatch) size() int64 {
	n := int64(len(b.buf))
	for i := range b.lines {
		if b.lines[i].long != nil {
			n += int64(len(b.lines[i].bytes))
		}
	}
	return n
}

// release gives the batch's memory back. Neither the batch nor the bytes of its
// lines may be used afterwards.
func (b *lineBatch) release() {
	clear(b.lines)
	b.lines = b.lines[:0]
	if b.buf != nil {
		b.pool.put(b.buf)
		b.buf = nil
	}
	b.pool.batches.Put(b)
}

// lineReader cuts a stream into lines with bounded memory: a buffer that grows
// with the line at hand up to the limit and shrinks again when the stream is quiet.
// It belongs to one goroutine.
type lineReader struct {
	src      io.Reader
	pool     *bufferPool
	maxLine  int // bytes of a line, its end not counted
	maxLines int // lines of a batch

	buf        []byte // nil while nothing is buffered
	start, end int    // the unread part of buf
	scanned    int    // how much of the unread part is known to hold no LF
	want       int    // size of the next buffer
	begun      bool   // past the place where a byte order mark may stand
	skipping   *longLine
	number     uint64 // lines that ended so far, blank ones included
	err        error  // what the source said last
}

func newLineReader(src io.Reader, pool *bufferPool, maxLine, maxLines int) *lineReader {
	return &lineReader{src: src, pool: pool, maxLine: maxLine, maxLines: maxLines, want: idleBuffer}
}

// next waits for at least one line and returns all that are complete by then, up to
// the limit of a batch. At the stream's end it returns io.EOF; a peer that was reset
// ended its stream too, since what it had sent before still comes first. Any other
// error, such as a read deadline, leaves the reader as it was: next may be called
// again and loses nothing.
func (r *lineReader) next() (*lineBatch, error) {
	b := r.pool.batch()
	for {
		r.split(b)
		if len(b.lines) == 0 && isEnd(r.err) {
			r.finish(b)
		}
		if len(b.lines) > 0 {
			r.detach(b)
			return b, nil
		}
		if err := r.err; err != nil {
			b.release()
			if isEnd(err) {
				return nil, io.EOF
			}
			r.err = nil
			return nil, err
		}
		r.fill()
	}
}

func isEnd(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET)
}

// split moves the complete lines of the buffer to b.
func (r *lineReader) split(b *lineBatch) {
	if !r.begun && !r.begin() {
		return
	}
	for len(b.lines) < r.maxLines {
		unread := r.buf[r.start:r.end]
		i := bytes.IndexByte(unread[r.scanned:], '\n')
		if i < 0 {
			r.scanned = len(unread)
			r.spill()
			return
		}
		i += r.scanned
		r.start += i + 1
		r.scanned = 0
		r.take(b, unread[:i])
	}
}

// begin skips the byte order mark and reports whether enough was read to know.
func (r *lineReader) begin() bool {
	unread := r.buf[r.start:r.end]
	if len(unread) < len(byteOrderMark) && bytes.HasPrefix([]byte(byteOrderMark), unread) {
		return false
	}
	if bytes.HasPrefix(unread, []byte(byteOrderMark)) {
		r.start += len(byteOrderMark)
	}
	r.begun = true
	return true
}

// take files one line, or the last part of an over-long one, without its LF.
func (r *lineReader) take(b *lineBatch, text []byte) {
	r.number++
	if r.skipping != nil {
		r.skipping.write(text)
		r.endLong(b, true)
		return
	}
	content := bytes.TrimSuffix(text, []byte{'\r'})
	switch {
	case len(content) > r.maxLine:
		r.skipping = newLongLine()
		r.skipping.write(text)
		r.endLong(b, true)
	case !isBlank(content):
		b.lines = append(b.lines, line{number: r.number, bytes: content})
	}
}

// spill turns a line that can no longer be short enough into an over-long one, and
// makes the buffer free for the rest of it. The slack is for a CR that would belong
// to the line's end.
func (r *lineReader) spill() {
	unread := r.buf[r.start:r.end]
	if r.skipping == nil {
		if len(unread) <= r.maxLine+len("\r") {
			return
		}
		r.skipping = newLongLine()
	}
	r.skipping.write(unread)
	r.start, r.end, r.scanned = 0, 0, 0
}

func (r *lineReader) endLong(b *lineBatch, terminated bool) {
	long := r.skipping
	r.skipping = nil
	head := long.finish(terminated)
	b.lines = append(b.lines, line{number: r.number, bytes: head, unterminated: !terminated, long: long})
}

// finish files what follows the last LF when the stream has ended.
func (r *lineReader) finish(b *lineBatch) {
	tail := r.buf[r.start:r.end]
	r.start, r.scanned = r.end, 0
	switch {
	case r.skipping != nil:
		r.number++
		r.skipping.write(tail)
		r.endLong(b, false)
	case len(tail) > r.maxLine:
		r.number++
		r.skipping = newLongLine()
		r.skipping.write(tail)
		r.endLong(b, false)
	case len(tail) > 0:
		r.number++
		if !isBlank(tail) {
			b.lines = append(b.lines, line{number: r.number, bytes: tail, unterminated: true})
		}
	}
}

// detach hands the buffer over to the batch whose lines lie in it, and moves the
// beginning of the next line to a buffer of its own. Copying it costs less than
// counting who still uses which part.
func (r *lineReader) detach(b *lineBatch) {
	b.buf = r.buf
	tail := r.buf[r.start:r.end]
	r.buf, r.start, r.end = nil, 0, 0
	if len(tail) > 0 {
		r.buf = r.pool.get(max(r.want, len(tail)))
		r.end = copy(r.buf, tail)
	}
}

// fill reads once. How much came decides the size of the next buffer: a full one
// asks for more, a nearly empty one for little, so that only those who send much
// hold much.
func (r *lineReader) fill() {
	r.makeRoom()
	room := len(r.buf) - r.end
	for range maxEmptyReads {
		n, err := r.src.Read(r.buf[r.end:])
		r.end += n
		r.err = err
		switch {
		case n == room:
			r.want = chunkBuffer
		case n < room/4:
			r.want = idleBuffer
		}
		if n > 0 || err != nil {
			return
		}
	}
	r.err = io.ErrNoProgress
}

// makeRoom leaves at least one free byte in the buffer. It is called only when the
// buffer holds no complete line, so nothing but the reader points into it.
func (r *lineReader) makeRoom() {
	switch {
	case r.buf == nil:
		r.buf = r.pool.get(r.want)
	case r.start == r.end && len(r.buf) < r.want:
		r.replace(r.want)
	case r.end < len(r.buf):
	case r.start > 0:
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	default:
		// What spill lets stand is at most maxLine and a CR; one more byte decides.
		r.replace(min(max(r.want, 2*len(r.buf)), max(r.maxLine+2, idleBuffer)))
	}
}

// replace moves the unread part to a buffer of another size.
func (r *lineReader) replace(size int) {
	old := r.buf
	r.buf = r.pool.get(size)
	r.end = copy(r.buf, old[r.start:r.end])
	r.start = 0
	r.pool.put(old)
}

// close gives the buffer back. What was buffered is lost.
func (r *lineReader) close() {
	if r.buf != nil {
		r.pool.put(r.buf)
	}
	r.buf, r.start, r.end, r.scanned = nil, 0, 0, 0
	r.err = io.EOF
}

// isBlank reports whether there is nothing but ASCII white space in p.
func isBlank(p []byte) bool {
	for _, c := range p {
		switch c {
		case ' ', '\t', '\r', '\v', '\f':
		default:
			return false
		}
	}
	return true
}
