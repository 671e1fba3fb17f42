package client

import (
	"bytes"
	"net"
	"sync"
)

// countedConn counts what it could write. Only its sender asks, or whoever comes
// after the sender has left.
type countedConn struct {
	*net.UnixConn
	written int64
}

// Write writes b and counts what was taken.
func (c *countedConn) Write(b []byte) (int, error) {
	n, err := c.UnixConn.Write(b)
	c.written += int64(n)
	return n, err
}

// window is the lines of one connection that have no last receipt yet, shared by sender
// and receiver.
type window struct {
	room   *sync.Cond
	lines  []pending
	bytes  int
	queued int64 // bytes of all lines of this connection so far
	closed bool
	over   bool          // all is written, and the connection half-closed
	ended  chan struct{} // closed when closed is set: nothing more is to be sent

	// answered is how many of lines, from the first on, have a receipt that is not their
	// last: they were rejected, or come behind one that was.
	answered int
}

// newWindow begins with what an earlier connection has left.
func newWindow(left []pending) *window {
	w := &window{room: sync.NewCond(new(sync.Mutex)), ended: make(chan struct{}), lines: left}
	for i := range w.lines {
		w.add(&w.lines[i])
	}
	return w
}

func (w *window) add(p *pending) {
	w.bytes += p.size()
	w.queued += int64(len(p.line))
	p.end = w.queued
}

// put adds a line once there is room; false: nothing more is to be sent, but the line is
// kept for the next connection.
func (w *window) put(p pending) bool {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	for !w.closed && len(w.lines) > 0 && (len(w.lines) >= maxPendingLines || w.bytes+p.size() > maxPendingBytes) {
		w.room.Wait()
	}
	w.add(&p)
	w.lines = append(w.lines, p)
	return !w.closed
}

// take removes the first line, which has its last receipt.
func (w *window) take() (p pending, ok bool) {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	if len(w.lines) == 0 {
		return p, false
	}
	return w.pop(), true
}

// takeCut removes the first line if it is not sent: nothing is waited for.
func (w *window) takeCut() (p pending, ok bool) {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	if len(w.lines) == 0 || !w.lines[0].cut || w.answered > 0 {
		return p, false
	}
	return w.pop(), true
}

// pop is called with the lock held.
func (w *window) pop() pending {
	p := w.lines[0]
	w.lines = w.lines[1:]
	w.bytes -= p.size()
	w.room.Signal()
	return p
}

// refuse notes the receipt of the next line: it was rejected, or comes behind one that was
// and will be sent again in any case. Nothing more is sent on this connection. false: no
// line is without a receipt.
func (w *window) refuse(receipt []byte, rejected bool) bool {
	w.close()
	w.room.L.Lock()
	defer w.room.L.Unlock()
	for w.answered < len(w.lines) && w.lines[w.answered].cut {
		w.answered++
	}
	if w.answered == len(w.lines) {
		return false
	}
	p := &w.lines[w.answered]
	w.answered++
	if p.refusal = nil; rejected {
		p.refusal = bytes.Clone(receipt)
	}
	return true
}

// halfClose notes that all is written.
func (w *window) halfClose() {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	w.over = true
}

// waits reports whether the server owes an answer, and for how many lines: it does if
// there are any, or if it was told that there are no more.
func (w *window) waits() (lines int, owed bool) {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	return len(w.lines), len(w.lines) > 0 || w.over
}

// close says that nothing more is to be sent. It may be called more than once.
func (w *window) close() {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	if !w.closed {
		w.closed = true
		close(w.ended)
		w.room.Broadcast()
	}
}

func (w *window) isClosed() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// left returns the lines to send again, of which so many bytes were written.
func (w *window) left(written int64) []pending {
	for i := range w.lines {
		switch p := &w.lines[i]; {
		case p.cut || i < w.answered && p.refusal != nil:
		case p.end <= written:
			p.sent, p.refusal = true, nil // nobody knows what became of it
		}
	}
	return w.lines
}
