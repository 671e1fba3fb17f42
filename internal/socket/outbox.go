package socket

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// unsentLimit is how many bytes may wait for a peer to read them before nothing more
// is done for it. What is in flight at that moment still adds its own.
const unsentLimit = 64 << 10

// sendPiece is what one write hands over. A Unix socket takes so little as a whole or
// not at all, so that the time-out of a write counts from the last progress.
const sendPiece = 16 << 10

// sendAll writes text, and gives up when nothing was taken before the deadline that
// arm sets for each write. It returns how much was.
func sendAll(c net.Conn, text []byte, arm func()) (sent int, err error) {
	for sent < len(text) {
		arm()
		n, err := c.Write(text[sent:min(sent+sendPiece, len(text))])
		sent += n
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return sent, err
		}
	}
	return sent, nil
}

// waitWhile waits on c, whose lock is held, as long as hold says so and ctx lasts.
func waitWhile(ctx context.Context, c *sync.Cond, hold func() bool) {
	if !hold() {
		return // as nearly always
	}
	stop := context.AfterFunc(ctx, func() {
		c.L.Lock()
		defer c.L.Unlock()
		c.Broadcast()
	})
	defer stop()
	for hold() && ctx.Err() == nil {
		c.Wait()
	}
}

// outbox sends lines to a consumer. Who has one adds it, which takes no time; who may
// wait asks for room first. A peer that takes nothing for the length of the time-out
// is given up: what it holds has run out by then, and nobody else waits for it.
type outbox struct {
	conn net.Conn

	mu      sync.Mutex
	changed sync.Cond // of what mu guards
	pending []byte
	timeout time.Duration
	closing bool // no more will be added
	gone    bool // nothing more is sent
}

func newOutbox(conn net.Conn, timeout time.Duration) *outbox {
	o := &outbox{conn: conn, timeout: timeout}
	o.changed.L = &o.mu
	return o
}

// setTimeout sets how long the peer may take nothing, from the next write on.
func (o *outbox) setTimeout(d time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.timeout = d
}

// arm sets the deadline of the next write.
func (o *outbox) arm() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.conn.SetWriteDeadline(time.Now().Add(o.timeout))
}

// add appends a line to what is to be sent, by a function that is quick.
func (o *outbox) add(appendLine func(dst []byte) []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.gone {
		return
	}
	o.pending = appendLine(o.pending)
	o.changed.Broadcast()
}

// waitForRoom returns when little enough is unsent, when the peer is gone, or when ctx
// ends.
func (o *outbox) waitForRoom(ctx context.Context) {
	o.mu.Lock()
	defer o.mu.Unlock()
	waitWhile(ctx, &o.changed, func() bool { return len(o.pending) >= unsentLimit && !o.gone })
}

// finish says that nothing more will be added, and how long the peer may now take
// nothing. run then sends what is left and returns.
func (o *outbox) finish(patience time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closing, o.timeout = true, min(o.timeout, patience)
	o.conn.SetWriteDeadline(time.Now().Add(o.timeout)) // of the write that waits for the peer
	o.changed.Broadcast()
}

// run sends until finish, or until the peer is gone. It reports whether the peer is
// still there and takes nothing.
func (o *outbox) run() (stuck bool) {
	var current []byte
	for o.take(&current) {
		if _, err := sendAll(o.conn, current, o.arm); err != nil {
			return o.giveUp() && errors.Is(err, os.ErrDeadlineExceeded)
		}
	}
	return false
}

// take swaps what is pending for what was sent and its memory. It waits for some, and
// returns false when there will be none.
func (o *outbox) take(current *[]byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	for len(o.pending) == 0 && !o.closing {
		o.changed.Wait()
	}
	if len(o.pending) == 0 {
		return false
	}
	sent := (*current)[:0]
	if cap(sent) > unsentLimit {
		sent = nil // an unusual burst is not kept for ever
	}
	*current, o.pending = o.pending, sent
	o.changed.Broadcast() // there is room
	return true
}

// giveUp ends the sending. It reports whether anybody still wanted to send.
func (o *outbox) giveUp() (wanted bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.gone, o.pending = true, nil
	o.changed.Broadcast()
	return !o.closing
}
