package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// probeTime is how long a socket may take to show what it is. One that takes longer is
// believed to be what it was named as.
const probeTime = 2 * time.Second

// ErrOtherSocket: what answers is not the socket that is needed: the path is that of
// another one.
var ErrOtherSocket = errors.New("it is another socket")

// notEnqueue returns ErrOtherSocket if path is an enqueue socket. That one would take
// whatever it is sent for an exception, and keep it as a dead letter. Who sends it nothing
// and half-closes is answered with an end line, which no other socket says: so one
// connection tells, and leaves nothing behind.
func notEnqueue(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	conn, err := dial(ctx, path)
	if err != nil {
		return nil // the connection that is meant will say so
	}
	defer conn.Close()
	if conn.CloseWrite() != nil {
		return nil // it has gone already
	}
	l := link{conn: conn, in: bufio.NewReader(conn)}
	line, err := l.read(ctx)
	var r receipt
	if err != nil || json.Unmarshal(line, &r) != nil || r.Event != "end" {
		return nil
	}
	return fmt.Errorf("%w: %s is the enqueue socket, which takes exceptions and hands none out; nothing was sent to it", ErrOtherSocket, path)
}

// otherThanConsume says what the answer to an attachment tells of a socket that is no
// consume socket; nil if it is one.
func otherThanConsume(line []byte) error {
	var r receipt
	switch {
	case isHTTP(line):
		return fmt.Errorf("%w: it is the control socket, which speaks HTTP; it has done nothing", ErrOtherSocket)
	case json.Unmarshal(line, &r) != nil || r.Status == "":
		return nil
	case r.Seq == 0:
		return fmt.Errorf("%w: it is the enqueue socket, which took the attachment for an exception and has %s it", ErrOtherSocket, r.Status)
	}
	return fmt.Errorf("%w: it is the enqueue socket, which took the attachment for an exception and keeps it as dead letter %d: breakwater dlq discard %d --reason WHY",
		ErrOtherSocket, r.Seq, r.Seq)
}

// isHTTP reports whether an answer is one of HTTP's.
func isHTTP(line []byte) bool { return bytes.HasPrefix(line, []byte("HTTP/")) }
