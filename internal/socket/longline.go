package socket

import (
	"crypto/sha256"
	"hash"

	"breakwater/queue"
)

// longLineHead is how much of an over-long line is kept: enough to see what it is
// and who sent it.
const longLineHead = 4096

// longLine is what is kept of a line over the limit: it passes by once, however
// long it is, and leaves its beginning, its length and its hash.
type longLine struct {
	length uint64     // in bytes, without the line's end
	sum    queue.Hash // SHA-256 of all of them

	head   []byte
	digest hash.Hash
	heldCR bool // the last byte was a CR, which belongs to the line only if no LF follows
}

func newLongLine() *longLine { return &longLine{digest: sha256.New()} }

// write takes the next bytes of the line.
func (l *longLine) write(p []byte) {
	if len(p) == 0 {
		return
	}
	if l.heldCR {
		l.heldCR = false
		l.keep([]byte{'\r'})
	}
	if last := len(p) - 1; p[last] == '\r' {
		l.heldCR = true
		p = p[:last]
	}
	l.keep(p)
}

func (l *longLine) keep(p []byte) {
	if room := longLineHead - len(l.head); room > 0 {
		l.head = append(l.head, p[:min(room, len(p))]...)
	}
	l.length += uint64(len(p))
	l.digest.Write(p)
}

// finish ends the line, sets length and sum, and returns the beginning. The digest's
// state is let go: a batch may hold many such lines.
func (l *longLine) finish(terminated bool) []byte {
	if l.heldCR && !terminated {
		l.keep([]byte{'\r'})
	}
	l.digest.Sum(l.sum[:0])
	l.digest = nil
	head := l.head
	l.head = nil
	return head
}
