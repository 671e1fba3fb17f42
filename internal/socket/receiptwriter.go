package socket

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// receiptLimit is how many bytes of receipts may wait for a peer to read them before
// no more of its lines are read. What is in flight at that moment still adds its own:
// at most one receipt per line of the batches that a connection may have under way.
const receiptLimit = 64 << 10

// receiptRun is a run of receipts and where each of them ends.
type receiptRun struct {
	text  []byte
	marks []mark
}

// mark says that the receipt for a line ends at an offset. Line 0 is none: an event.
type mark struct {
	line uint64
	end  int
}

func (r *receiptRun) mark(line uint64) {
	r.marks = append(r.marks, mark{line: line, end: len(r.text)})
}

func (r *receiptRun) reset() { r.text, r.marks = r.text[:0], r.marks[:0] }

// receiptWriter sends receipts without ever making others wait for the peer. Three
// parties meet here:
//
//   - who has receipts adds them, which takes no time;
//   - who reads lines asks for room first, and waits while too much is unsent;
//   - run sends, in a goroutine of its own.
//
// When the peer takes nothing for the length of the time-out, what is unsent and
// whatever comes after is dropped, and there is room again: its lines go on. When it
// takes something again, one event stands for all that it missed.
type receiptWriter struct {
	conn    net.Conn
	timeout time.Duration
	events  receiptEvents

	mu      sync.Mutex
	changed sync.Cond // of what mu guards
	pending receiptRun
	lost    missed
	behind  bool   // the peer has been too slow: add drops
	gone    bool   // the peer cannot be written to any more
	closing bool   // no more will be added
	end     []byte // the last line, sent when all else is
}

// receiptEvents hears of receipts that were not sent: stalled each time that a peer
// falls behind, dropped of how many receipts were dropped. Both are called under the
// writer's lock and must be quick.
type receiptEvents struct {
	stalled func()
	dropped func(receipts int)
}

// missed is a run of lines whose receipts were dropped.
type missed struct{ from, to uint64 }

func newReceiptWriter(conn net.Conn, timeout time.Duration, events receiptEvents) *receiptWriter {
	w := &receiptWriter{conn: conn, timeout: timeout, events: events}
	w.changed.L = &w.mu
	return w
}

// add takes the next receipts. It never waits, and copies what it keeps.
func (w *receiptWriter) add(r *receiptRun) {
	if len(r.marks) == 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone || w.behind {
		w.drop(r.marks)
		return
	}
	base := len(w.pending.text)
	w.pending.text = append(w.pending.text, r.text...)
	for _, m := range r.marks {
		w.pending.marks = append(w.pending.marks, mark{line: m.line, end: base + m.end})
	}
	w.changed.Broadcast()
}

// drop is called with the lock held.
func (w *receiptWriter) drop(marks []mark) {
	n := 0
	for _, m := range marks {
		if m.line == 0 {
			continue
		}
		if w.lost.from == 0 {
			w.lost.from = m.line
		}
		w.lost.to = m.line
		n++
	}
	if n > 0 {
		w.events.dropped(n)
	}
}

// waitForRoom returns when few enough receipts are unsent, or when ctx ends. It never
// takes much longer than the time-out.
func (w *receiptWriter) waitForRoom(ctx context.Context) {
	w.mu.Lock()
	defer w.mu.Unlock()
	waitWhile(ctx, &w.changed, func() bool { return len(w.pending.text) >= receiptLimit })
}

// finish says that nothing more will be added, and what the last line is. run then
// sends what is left and returns, after at most one more time-out without progress.
func (w *receiptWriter) finish(end []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closing, w.end = true, end
	if w.behind {
		w.conn.SetWriteDeadline(time.Now().Add(w.timeout)) // of the write that waits for the peer
	}
	w.changed.Broadcast()
}

// run sends until finish, or until the peer is gone; then it only drops.
func (w *receiptWriter) run() {
	var current receiptRun
	for w.take(&current) {
		if sent, err := w.send(current.text); err != nil {
			w.recover(&current, sent, err)
		}
	}
	w.mu.Lock()
	end, gone := w.end, w.gone
	w.mu.Unlock()
	if !gone {
		w.send(end) // a peer that does not take it has no use for it
	}
}

// take swaps the pending receipts for the sent ones and their memory. It waits for
// some, and returns false when there will be none.
func (w *receiptWriter) take(current *receiptRun) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.pending.text) == 0 && !w.closing {
		w.changed.Wait()
	}
	if len(w.pending.text) == 0 {
		return false
	}
	current.reset()
	if cap(current.text) > receiptLimit {
		*current = receiptRun{} // an unusual burst is not kept for ever
	}
	*current, w.pending = w.pending, *current
	w.changed.Broadcast() // there is room
	return true
}

// send writes text, and gives up when nothing was taken for the length of the
// time-out. It returns how much was.
func (w *receiptWriter) send(text []byte) (sent int, err error) {
	return sendAll(w.conn, text, func() { w.conn.SetWriteDeadline(time.Now().Add(w.timeout)) })
}

// recover deals with a write that failed after sent bytes of current. It returns when
// the peer reads again and knows what it missed, or when it is gone.
func (w *receiptWriter) recover(current *receiptRun, sent int, err error) {
	begun, unsent := current.split(sent)
	for errors.Is(err, os.ErrDeadlineExceeded) {
		w.fallBehind(unsent)
		if begun, err = w.catchUp(begun); err == nil {
			return
		}
		unsent = nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone, w.behind = true, false
	w.drop(unsent)
	w.dropPending()
}

// split says what is left of a run of which so many bytes were sent: the rest of a
// receipt that was begun, which must be sent before anything else can be, and the
// marks of those that were not.
func (r *receiptRun) split(sent int) (begun []byte, unsent []mark) {
	start := 0
	for i, m := range r.marks {
		if sent == start {
			return nil, r.marks[i:]
		}
		if sent < m.end {
			return r.text[sent:m.end], r.marks[i+1:]
		}
		start = m.end
	}
	return nil, nil
}

func (w *receiptWriter) fallBehind(unsent []mark) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind = true
	w.events.stalled()
	w.drop(unsent)
	w.dropPending()
}

// dropPending is called with the lock held.
func (w *receiptWriter) dropPending() {
	w.drop(w.pending.marks)
	w.pending.reset()
	w.changed.Broadcast()
}

// catchUp waits until the peer reads again and tells it what it missed. If that fails
// it returns what must still be sent of a line that was begun.
func (w *receiptWriter) catchUp(begun []byte) ([]byte, error) {
	if err := w.sendPatiently(begun); err != nil {
		return nil, err
	}
	if w.missedNothing() {
		return nil, nil
	}
	// Every event begins with this byte. While it waits to be taken, more may be
	// missed: the event's numbers are fixed only when the peer has taken it.
	if err := w.sendPatiently([]byte{'{'}); err != nil {
		return nil, err
	}
	rest := w.appendMissed(nil)[1:]
	sent, err := w.send(rest)
	return rest[sent:], err
}

// missedNothing ends being behind, if no receipt was dropped so far.
func (w *receiptWriter) missedNothing() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind = w.lost.from != 0
	return !w.behind
}

// appendMissed ends being behind: receipts that are added from now on follow the
// event it returns.
func (w *receiptWriter) appendMissed(dst []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	dst = appendDropped(dst, w.lost.from, w.lost.to)
	w.lost, w.behind = missed{}, false
	return dst
}

// sendPatiently waits for the peer as long as the connection is in use. Once finish
// was called it has the time-out, like every other write.
func (w *receiptWriter) sendPatiently(text []byte) error {
	for len(text) > 0 {
		w.mu.Lock()
		deadline := time.Time{}
		if w.closing {
			deadline = time.Now().Add(w.timeout)
		}
		w.conn.SetWriteDeadline(deadline)
		w.mu.Unlock()
		n, err := w.conn.Write(text)
		text = text[n:]
		if err != nil && (n == 0 || !errors.Is(err, os.ErrDeadlineExceeded)) {
			return errPeerGone // it had its chance, whatever the error says
		}
	}
	return nil
}

// errPeerGone ends the sending of receipts; it is never shown.
var errPeerGone = errors.New("peer takes no more receipts")
