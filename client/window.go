package client

import (
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

// window is the lines that have no receipt yet, shared by sender and receiver.
type window struct {
	room   *sync.Cond
	lines  []pending
	bytes  int
	queued int64 // bytes of all lines of this connection so far
	closed bool
	ended  chan struct{} // closed when closed is set
}

// put adds a line once there is room; false: the connection has ended.
func (w *window) put(p pending) bool {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	for !w.closed && len(w.lines) > 0 && (len(w.lines) >= maxPendingLines || w.bytes+len(p.line) > maxPendingBytes) {
		w.room.Wait()
	}
	w.queued += int64(len(p.line))
	p.end = w.queued
	w.lines = append(w.lines, p)
	w.bytes += len(p.line)
	return !w.closed
}

// take removes the first line, whose receipt has come.
func (w *window) take() (p pending, ok bool) {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	if len(w.lines) == 0 {
		return p, false
	}
	p = w.lines[0]
	w.lines = w.lines[1:]
	w.bytes -= len(p.line)
	w.room.Signal()
	return p, true
}

func (w *window) close() {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	w.closed = true
	close(w.ended)
	w.room.Broadcast()
}

// again returns the lines to send again.
func (w *window) again() []pending {
	w.room.L.Lock()
	defer w.room.L.Unlock()
	for i := range w.lines {
		p := &w.lines[i]
		w.bytes += len(p.line)
		w.queued += int64(len(p.line))
		p.end = w.queued
	}
	return append([]pending(nil), w.lines...)
}
