package client

import (
	"context"
	"errors"
	"net"
	"time"
)

const (
	dialTime     = 5 * time.Second
	firstRetry   = 100 * time.Millisecond
	longestRetry = 5 * time.Second
	// maxFirst is how often a first connection is tried again where none was ever
	// had: some 6 s, in which a daemon that was just started opens its socket. A path
	// that is wrong should not take longer to be told.
	maxFirst = 6
)

// Codes of the server that mean something here.
const (
	codeSaturated  = "QUEUE_SATURATED"
	codeIncomplete = "INCOMPLETE_LINE"
)

// ErrLost: the connection could not be had, or not be had again.
var ErrLost = errors.New("no connection to the socket")

// ErrRefused: the server has as many connections as it takes; nothing was read.
var ErrRefused = errors.New("the connection was refused")

// dial connects to the socket at path.
func dial(ctx context.Context, path string) (*net.UnixConn, error) {
	d := net.Dialer{Timeout: dialTime}
	c, err := d.DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

// pause is how long to wait before the n-th try after a failure, n from 1.
func pause(n int) time.Duration { return min(firstRetry<<min(n-1, 10), longestRetry) }

// sleep waits; false: ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
