package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"
)

const (
	// attachTime is how long the server may take to answer who asks to be attached.
	attachTime = 30 * time.Second
	// maxEvent bounds a line of the server, in bytes: the longest exception there can
	// be, and what stands around it.
	maxEvent = MaxLine + 64<<10
)

// codes of an attachment that is refused.
const (
	codeNameInUse = "NAME_IN_USE"
	codeDraining  = "DRAINING"
	codeNoRoom    = "STORAGE_UNAVAILABLE"
	codeUsage     = "USAGE"
)

// ErrNameInUse: another connection is attached under the name.
var ErrNameInUse = errors.New("the name is in use")

// ErrUsage: what is asked for cannot be had, as the server says, or as is known before
// anything is sent. Asking again does not help.
var ErrUsage = errors.New("what is asked for is refused")

// link is one connection to a consume socket.
type link struct {
	conn    net.Conn
	in      *bufio.Reader
	part    []byte // of a line that has not ended yet
	written int    // how many lines of the session's queue were handed to it; under its lock
}

// open connects and attaches. lease is how long leases are.
func open(ctx context.Context, c *Consumer) (l *link, lease time.Duration, err error) {
	ask, err := c.attach()
	if err != nil {
		return nil, 0, err
	}
	conn, err := dial(ctx, c.Path)
	if err != nil {
		return nil, 0, err
	}
	l = &link{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	defer func() {
		if err != nil {
			_ = conn.Close() // the error says it all
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	if _, err := conn.Write(ask); err != nil {
		// Who is refused at the door is told before it can say anything.
		if refused := l.refusal(ctx); refused != nil {
			return nil, 0, refused
		}
		return nil, 0, err
	}
	line, err := l.read(ctx)
	if err != nil {
		return nil, 0, err
	}
	if lease, err = granted(line); err != nil {
		return nil, 0, err
	}
	return l, lease, nil
}

// refusal returns why a connection was refused, if the server has said so.
func (l *link) refusal(ctx context.Context) error {
	line, err := l.read(ctx)
	if err != nil {
		return nil
	}
	_, err = granted(line)
	return err
}

// attach spells the first line. The error is ErrUsage.
func (c *Consumer) attach() ([]byte, error) {
	texts := []text{{"the name", c.Name}}
	for _, route := range c.Routes {
		texts = append(texts, text{"a route", route})
	}
	if err := mustBeText(texts...); err != nil {
		return nil, err
	}
	prefetch := max(c.Prefetch, 1)
	if c.Max > 0 { // what it will not work on is better with somebody else
		prefetch = min(prefetch, c.Max)
	}
	ask := struct {
		Attach   string   `json:"attach"`
		Prefetch int      `json:"prefetch"`
		Routes   []string `json:"routes,omitempty"`
		LeaseMs  int64    `json:"lease_timeout_ms,omitempty"`
	}{c.Name, prefetch, c.Routes, c.Lease.Milliseconds()}
	line, err := json.Marshal(ask)
	return append(line, '\n'), err // strings and numbers always marshal
}

// granted reads the answer to the first line.
func granted(line []byte) (lease time.Duration, err error) {
	if err := otherThanConsume(line); err != nil {
		return 0, err
	}
	var h heard
	if err := json.Unmarshal(line, &h); err != nil {
		return 0, fmt.Errorf("%w: its answer is not JSON: %.80q", ErrUsage, line)
	}
	switch {
	case h.Event == string(Attached):
		return time.Duration(h.LeaseMs) * time.Millisecond, nil
	case h.Code == codeSaturated:
		return 0, fmt.Errorf("%w: %s: %s", ErrRefused, h.Code, h.Error)
	case h.Code == codeNameInUse:
		return 0, fmt.Errorf("%w: %s: %s", ErrNameInUse, h.Code, h.Error)
	case h.Code == codeUsage:
		return 0, fmt.Errorf("%w: %s: %s", ErrUsage, h.Code, h.Error)
	}
	return 0, fmt.Errorf("not attached: %s: %s", h.Code, h.Error)
}

// read returns the next line of the server, without its end, valid until the next
// call. When ctx ends before one is complete, nothing is lost.
func (l *link) read(ctx context.Context) ([]byte, error) {
	defer l.interruptible(ctx)()
	if n := len(l.part); n > 0 && l.part[n-1] == '\n' {
		l.part = l.part[:0] // it was returned
	}
	for {
		piece, err := l.in.ReadSlice('\n')
		l.part = append(l.part, piece...)
		switch {
		case err == nil:
			return l.part[:len(l.part)-1], nil
		case len(l.part) > maxEvent:
			return nil, fmt.Errorf("the server sent a line of more than %d bytes", maxEvent)
		case errors.Is(err, bufio.ErrBufferFull):
		case ctx.Err() != nil:
			return nil, ctx.Err()
		default:
			return nil, fmt.Errorf("the connection was lost: %w", err)
		}
	}
}

// interruptible lets the end of ctx end a read that waits, until the function that it
// returns is called.
func (l *link) interruptible(ctx context.Context) (end func()) {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		_ = l.conn.SetReadDeadline(time.Unix(1, 0)) // a connection that is gone says so when it is read
	})
	return func() {
		if !stop() {
			<-ended
			_ = l.conn.SetReadDeadline(time.Time{})
		}
	}
}
