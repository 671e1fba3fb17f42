package socket

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/queue"
)

// Conn is an accepted connection and who is at its other end. Closing it makes room
// for another.
type Conn struct {
	net.Conn
	id       uint64 // counts up from 1 for each listener
	peer     queue.Peer
	listener *Listener // nil in tests without one
}

// ID tells a listener's connections apart.
func (c *Conn) ID() uint64 { return c.id }

// Peer returns who connected.
func (c *Conn) Peer() queue.Peer { return c.peer }

// Close closes the connection. It may be called more than once.
func (c *Conn) Close() error {
	if c.listener != nil {
		c.listener.forget(c)
	}
	return c.Conn.Close()
}

// Serve accepts connections and runs handle for each in a goroutine of its own,
// closing the connection when handle returns. It returns when no more is accepted and
// the last handler has left: nil if that was asked for, else the error of accept.
//
// When ctx ends, accepting stops and the context of every handler ends with it: they
// finish what they have begun and leave. Close cuts them off.
func (l *Listener) Serve(ctx context.Context, handle func(context.Context, *Conn)) error {
	ctx, cancel := context.WithCancel(ctx)
	var handlers sync.WaitGroup
	defer handlers.Wait()
	defer cancel()
	unwatch := context.AfterFunc(ctx, func() { l.stop() }) // its error is Close's to return
	defer unwatch()
	for {
		c, err := l.acceptConn()
		if err != nil {
			cancel()
			l.stop()
			if errors.Is(err, net.ErrClosed) {
				return nil
			}
			return fmt.Errorf("accept on %s: %w", l.o.Path, err)
		}
		handlers.Go(func() {
			defer c.Close()
			handle(ctx, c)
		})
	}
}

// Accept waits for the next connection within the limit; it is for servers that
// bring their own loop. It returns net.ErrClosed once no more is accepted.
func (l *Listener) Accept() (net.Conn, error) {
	c, err := l.acceptConn()
	if err != nil {
		return nil, err
	}
	return c, nil
}

// acceptConn is called by one goroutine.
func (l *Listener) acceptConn() (*Conn, error) {
	for {
		inner, err := l.accept()
		if isShortage(err) {
			inner = l.outOfDescriptors(err)
		}
		switch {
		case inner != nil:
			l.backoff = 0
			if c := l.admit(inner); c != nil {
				return c, nil
			}
		case l.isClosing():
			return nil, net.ErrClosed
		case !isShortage(err):
			return nil, err
		}
	}
}

// admit makes a Conn of an accepted connection, or refuses it and returns nil.
func (l *Listener) admit(inner *net.UnixConn) *Conn {
	who, err := peerOf(inner)
	if err != nil {
		l.o.Log.Warn("connection without credentials closed", "socket", l.o.Path, "error", err)
		inner.Close()
		return nil
	}
	c := &Conn{Conn: inner, peer: who, listener: l}
	l.mu.Lock()
	open, limit := len(l.conns), l.limit
	full := open >= limit
	if !full {
		l.conns[c] = struct{}{}
		c.id = l.counts.accepted.Add(1)
	}
	l.mu.Unlock()
	switch {
	case full:
		if n, ok := l.refusals.now(); ok {
			l.o.Log.Warn("connection refused: too many are open", "socket", l.o.Path,
				"open", open, "limit", limit, "uid", who.UID, "pid", who.PID, "refused", n)
		}
		l.refuse(inner, fmt.Sprintf("%d connections are open, the limit is %d", open, limit))
		return nil
	case l.isClosing(): // Close may have looked before the connection was in the table
		c.Close()
		return nil
	}
	return c
}

func (l *Listener) forget(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.conns, c)
}

// refuse says why and closes. The one small write into an empty buffer does not
// block; if it fails nevertheless, the peer sees only the close.
func (l *Listener) refuse(c *net.UnixConn, text string) {
	l.counts.refused.Add(1)
	defer c.Close()
	why := l.o.Refusal
	if why == nil {
		why = appendError(nil, queue.CodeSaturated, text)
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return
	}
	raw.Write(func(fd uintptr) bool {
		unix.SendmsgN(int(fd), why, nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
		return true
	})
}

func (l *Listener) isClosing() bool {
	select {
	case <-l.closing:
		return true
	default:
		return false
	}
}

// isShortage reports whether accept failed for want of something that others may
// give back: descriptors of the process or the system, or the kernel's memory.
func isShortage(err error) bool {
	for _, e := range []error{unix.EMFILE, unix.ENFILE, unix.ENOBUFS, unix.ENOMEM} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// outOfDescriptors deals with the connection that waits although there is no
// descriptor for it. Left in the queue it would make accept fail again at once, and
// the loop spin. So it is accepted with the descriptor that is kept for this, told,
// and closed; only where that fails is there a pause. It returns a connection if there
// are descriptors again.
func (l *Listener) outOfDescriptors(err error) *net.UnixConn {
	l.counts.failed.Add(1)
	if n, tell := l.shortage.now(); tell {
		l.o.Log.Error("cannot accept connections", "socket", l.o.Path, "error", err, "times", n)
	}
	l.giveSpare()
	c, err := l.accept()
	if l.takeSpare() && err == nil {
		return c
	}
	if err != nil {
		l.pause()
		return nil
	}
	l.refuse(c, "the server has no descriptor left for another connection")
	l.takeSpare()
	return nil
}

// giveSpare frees the spare descriptor, for the connection that waits.
func (l *Listener) giveSpare() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare != nil {
		l.spare.Close()
		l.spare = nil
	}
}

// takeSpare sees to it that there is a spare descriptor, and reports whether there is.
func (l *Listener) takeSpare() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.spare == nil && !l.isClosing() {
		l.spare, _ = os.Open(os.DevNull)
	}
	return l.spare != nil
}

// pause waits before the next try, each time twice as long.
func (l *Listener) pause() {
	l.backoff = min(max(2*l.backoff, firstBackoff), maxBackoff)
	t := time.NewTimer(l.backoff)
	defer t.Stop()
	select {
	case <-t.C:
	case <-l.closing:
	}
}

const (
	firstBackoff = 5 * time.Millisecond
	maxBackoff   = time.Second
	// logInterval is how often the log hears of something that goes on and on.
	logInterval = 10 * time.Second
)

// occasionally lets one of many like events through, with how many there were. It
// belongs to one goroutine.
type occasionally struct {
	last  time.Time
	count int
}

// now counts an event. It reports true at most once in logInterval, with the number
// of events since it last did.
func (o *occasionally) now() (int, bool) {
	o.count++
	now := time.Now()
	if !o.last.IsZero() && now.Sub(o.last) < logInterval {
		return 0, false
	}
	n := o.count
	o.last, o.count = now, 0
	return n, true
}
