package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"
)

const (
	// probeTime is how long a socket may take to show what it is. One that takes longer
	// is believed to be what it was named as.
	probeTime = 2 * time.Second
	// maxEnd bounds the line that an enqueue socket ends with.
	maxEnd = 4 << 10
)

// ErrOtherSocket: what answers is not a control socket: the path is that of another one.
var ErrOtherSocket = errors.New("it is another socket")

// door connects to a socket that a person has named, and who names the wrong one must not
// leave anything there.
type door struct {
	path  string
	known atomic.Bool // that it is not the enqueue socket
}

// dial connects.
func (d *door) dial(ctx context.Context) (net.Conn, error) {
	if !d.known.Load() {
		if d.takesLines(ctx) {
			return nil, fmt.Errorf("%w: %s is the enqueue socket, which takes exceptions; nothing was sent to it", ErrOtherSocket, d.path)
		}
		d.known.Store(true)
	}
	c, err := d.connect(ctx)
	if err != nil {
		return nil, err
	}
	return &doorConn{Conn: c, path: d.path}, nil
}

func (d *door) connect(ctx context.Context) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTime}).DialContext(ctx, "unix", d.path)
}

// takesLines reports whether it is the enqueue socket. That one would take each line of a
// request for an exception, and keep it as a dead letter. Who sends it nothing and
// half-closes is answered with an end line, which no other socket says.
func (d *door) takesLines(ctx context.Context) bool {
	c, err := d.connect(ctx)
	if err != nil {
		return false // the connection that is meant will say so
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // which ends the read
	if c.(*net.UnixConn).CloseWrite() != nil || c.SetReadDeadline(time.Now().Add(probeTime)) != nil {
		return false
	}
	line, err := bufio.NewReaderSize(c, maxEnd).ReadSlice('\n')
	var said struct {
		Event string `json:"event"`
	}
	return err == nil && json.Unmarshal(line, &said) == nil && said.Event == "end"
}

// doorConn is a connection of which the first answer shows what it leads to.
type doorConn struct {
	net.Conn
	path string
	read bool
}

// Read reads; an answer that is not HTTP's is ErrOtherSocket. One goroutine calls it.
func (c *doorConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.read && n > 0 && bytes.HasPrefix(b[:n], []byte("{")) {
		return 0, fmt.Errorf("%w: %s does not speak HTTP: %.200q", ErrOtherSocket, c.path, b[:n])
	}
	c.read = c.read || n > 0
	return n, err
}
