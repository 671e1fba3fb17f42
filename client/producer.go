package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// Limits of a producer. Lines that were sent and have no receipt yet are kept, so
// that a lost connection can be made good.
const (
	maxPendingLines = 8192
	maxPendingBytes = 32 << 20
	// MaxLine is the longest line that is sent, in bytes: what a server can be
	// configured to take at most.
	MaxLine = 16 << 20

	maxReconnects = 20 // in a row, without a single receipt between them: some 76 s
)

// Counts adds up receipts by status. Resent lines had been written, whole, to a
// connection that was lost: one of them that is a duplicate may be one of ours.
type Counts struct {
	Lines       int `json:"lines"`
	Accepted    int `json:"accepted"`
	Duplicate   int `json:"duplicate"`
	Conflict    int `json:"conflict"`
	Quarantined int `json:"quarantined"`
	Rejected    int `json:"rejected"`
	Resent      int `json:"resent"`
}

// Head is the trail's head from the last end line: what makes its reader a witness.
type Head struct {
	Block uint64 `json:"block"`
	Head  string `json:"head"`
}

// Producer sends lines to an enqueue socket.
type Producer struct {
	Path string // of the socket
	// Receipt gets each receipt as it was received, its line number being that of
	// the input; nil: nobody wants them. It must not keep the slice.
	Receipt func(receipt []byte) error
	// Progress gets the bytes of lines whose receipts have come.
	Progress func(bytes int)
	// Waiting is told of each lost or refused connection that will be tried again.
	Waiting func(err error, after time.Duration)
}

// Result is what became of everything that was sent.
type Result struct {
	Counts
	Audit *Head `json:"audit,omitempty"`
}

// ErrLongLine: a line is longer than any server takes.
var ErrLongLine = errors.New("line is too long")

// errStopped: the server said its last word before all was sent.
var errStopped = errors.New("the server has ended the connection, as it does when it stops")

// pending is a line that has no receipt yet.
type pending struct {
	number int // in the input
	line   []byte
	end    int64 // where it ends in what this connection is sent
	sent   bool  // whole, on an earlier connection
}

// run is one Send.
type run struct {
	*Producer
	lines   <-chan pending // the input; closed at its end
	failed  *error         // why it ended early; read it when lines is closed
	waiting []pending      // in order
	ended   bool           // the input is used up
	res     Result
	tries   int  // connections in a row that brought no receipt
	had     bool // a connection, at any time
}

// Send sends every line of in and returns when each has its receipt. After a lost
// connection it connects again and sends what has no receipt; what was stored is
// then answered as a duplicate, never stored twice. The Result is valid also with
// an error: ErrLost, ErrRefused, ErrLongLine, ErrOtherSocket, that of ctx, or of the
// input.
//
// in is read by a goroutine of its own, because it may be a terminal where nobody
// types while the connection is lost or ctx ends. Then a Read may still be waiting
// when Send returns; it ends with the next byte, and whatever it got is dropped.
func (p *Producer) Send(ctx context.Context, in io.Reader) (Result, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	lines, failed := read(reading, in)
	r := &run{Producer: p, lines: lines, failed: failed}
	for {
		done, err := r.connection(ctx)
		var in *inputError
		switch {
		case done:
			return r.res, nil
		case ctx.Err() != nil:
			return r.res, context.Cause(ctx)
		case errors.As(err, &in):
			return r.res, in.err
		}
		most := maxFirst
		if r.had {
			most = maxReconnects
		}
		if r.tries++; r.tries > most {
			return r.res, fmt.Errorf("%w: %w", ErrLost, err)
		}
		wait := pause(r.tries)
		if p.Waiting != nil {
			p.Waiting(err, wait)
		}
		if !sleep(ctx, wait) {
			return r.res, context.Cause(ctx)
		}
	}
}

// inputError is trouble with what is to be sent, with the receipts' taker or with the
// socket: no other connection would help.
type inputError struct{ err error }

// Error is the trouble's text.
func (e *inputError) Error() string { return e.err.Error() }

// connection sends over one connection; done: every line has its receipt.
func (r *run) connection(ctx context.Context) (done bool, err error) {
	uc, err := dial(ctx, r.Path)
	if err != nil {
		return false, err
	}
	r.had = true
	c := &countedConn{UnixConn: uc}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })() // the reader then ends too
	w := &window{room: sync.NewCond(new(sync.Mutex)), ended: make(chan struct{})}
	w.lines, r.waiting = r.waiting, nil

	sent := make(chan error, 1)
	go func() { sent <- r.sendAll(c, w) }()
	end, readErr := r.receive(c, w)
	if !end {
		_ = c.Close() // so that the sender ends
	}
	w.close()
	sendErr := <-sent
	r.waiting = w.lines
	for i := range r.waiting {
		if p := &r.waiting[i]; p.end <= c.written && !errors.Is(readErr, ErrRefused) {
			p.sent = true
		}
	}
	var in *inputError
	if errors.As(sendErr, &in) {
		return false, sendErr
	}
	if end && r.ended && len(r.waiting) == 0 {
		return true, nil
	}
	if end {
		return false, errStopped
	}
	// What the server says, or how it left, is the cause; that nothing can be written
	// to it any more only follows.
	return false, readErr
}

// sendAll sends what an earlier connection left without a receipt, then the input,
// and half-closes.
func (r *run) sendAll(c *countedConn, w *window) error {
	out := bufio.NewWriterSize(c, 64<<10)
	for _, p := range w.again() {
		if _, err := out.Write(p.line); err != nil {
			return err
		}
	}
	for !r.ended {
		p, err := r.next(out, w)
		switch {
		case err != nil:
			return err
		case r.ended:
			continue
		case p.line == nil || !w.put(p):
			return nil // the connection has ended
		}
		if _, err := out.Write(p.line); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	return c.CloseWrite()
}

// next returns the next line of the input; no line when the connection has ended
// before one came. Where the input is slow, what there is is sent first.
func (r *run) next(out *bufio.Writer, w *window) (p pending, err error) {
	more := true
	select {
	case p, more = <-r.lines:
	default:
		if err := out.Flush(); err != nil {
			return p, err
		}
		select {
		case p, more = <-r.lines:
		case <-w.ended:
			return p, nil
		}
	}
	if !more {
		r.ended, err = true, *r.failed
	}
	return p, err
}

// read reads lines that are not blank, until ctx ends. It holds one of them besides
// what bufio does.
func read(ctx context.Context, in io.Reader) (<-chan pending, *error) {
	lines, failed := make(chan pending), new(error)
	go func() {
		defer close(lines)
		b := bufio.NewReaderSize(in, 64<<10)
		for number := 1; ; number++ {
			line, err := readLine(b)
			if len(bytes.TrimSpace(line)) > 0 {
				select {
				case lines <- pending{number: number, line: line}:
				case <-ctx.Done():
					return
				}
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				*failed = &inputError{fmt.Errorf("read line %d: %w", number, err)}
				return
			}
		}
	}()
	return lines, failed
}

// readLine reads one line, with its end if it has one. With an error other than
// io.EOF there is no line: a part of one must not be sent.
func readLine(b *bufio.Reader) (line []byte, err error) {
	for {
		part, err := b.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > MaxLine+1:
			return nil, fmt.Errorf("%w: it has more than %d bytes", ErrLongLine, MaxLine)
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		return line, err
	}
}

// receipt is what is read of an answer.
type receipt struct {
	Line   int    `json:"line"`
	Seq    uint64 `json:"seq"`
	Status string `json:"status"`
	Event  string `json:"event"`
	Code   string `json:"code"`
	Error  string `json:"error"`
	Audit  *Head  `json:"audit"`
}

// receive reads receipts until the end line.
func (r *run) receive(c net.Conn, w *window) (end bool, err error) {
	in := bufio.NewReaderSize(c, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return false, fmt.Errorf("read receipts: %w", err)
		}
		var rc receipt
		if err := json.Unmarshal(line, &rc); err != nil && !isHTTP(line) {
			return false, &inputError{fmt.Errorf("a receipt that is not JSON: %.80q", line)}
		}
		switch {
		case isHTTP(line):
			return false, &inputError{fmt.Errorf("%w: it is the control socket, which speaks HTTP; nothing was stored", ErrOtherSocket)}
		case rc.Event != "" && rc.Code == codeUsage:
			return false, &inputError{fmt.Errorf("%w: it is the consume socket, which hands exceptions out and takes none; nothing was stored", ErrOtherSocket)}
		case rc.Event == "end":
			r.res.Audit = rc.Audit
			return true, nil
		case rc.Event != "" && rc.Code == codeSaturated:
			return false, fmt.Errorf("%w: %s: %s", ErrRefused, rc.Code, rc.Error)
		case rc.Event != "":
			return false, fmt.Errorf("%s: %s", rc.Code, rc.Error)
		}
		if err := r.account(w, &rc, line); err != nil {
			return false, err
		}
	}
}

// account adds up one receipt and hands it on under the input's line number.
func (r *run) account(w *window, rc *receipt, line []byte) error {
	p, ok := w.take()
	if !ok {
		return &inputError{errors.New("a receipt for a line that was not sent")}
	}
	r.tries = 0
	r.res.Lines++
	if p.sent {
		r.res.Resent++
	}
	switch rc.Status {
	case "accepted":
		r.res.Accepted++
	case "duplicate":
		r.res.Duplicate++
	case "conflict":
		r.res.Conflict++
	case "quarantined":
		r.res.Quarantined++
	case "rejected":
		r.res.Rejected++
	}
	if r.Progress != nil {
		r.Progress(len(p.line))
	}
	if r.Receipt == nil {
		return nil
	}
	if _, rest, ok := bytes.Cut(line, []byte(",")); ok {
		line = append(strconv.AppendInt([]byte(`{"line":`), int64(p.number), 10), ',')
		line = append(line, rest...)
	}
	if err := r.Receipt(line); err != nil {
		return &inputError{fmt.Errorf("keep a receipt: %w", err)}
	}
	return nil
}
