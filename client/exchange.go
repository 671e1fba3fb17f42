package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"time"
)

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
	w, again := newWindow(r.waiting), slices.Clone(r.waiting)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		r.sendAll(c, w, again)
	}()
	end, readErr := r.receive(c, w)
	if !end {
		_ = c.Close() // so that the sender ends
	}
	w.close()
	<-sent
	if errors.Is(readErr, ErrRefused) {
		c.written = 0 // nothing was read
	}
	r.waiting = w.left(c.written)
	var h *hopeless
	switch {
	case errors.As(readErr, &h):
		return false, h
	case w.answered > 0:
		return false, r.refused
	case end && r.ended && len(r.waiting) == 0:
		return true, nil
	case end:
		return false, errStopped
	}
	return false, readErr
}

// sendAll sends what an earlier connection left without a last receipt, then the input,
// and half-closes. Where nothing more is to be sent it stops, at the end of a line. What
// cannot be written is not told: the receiver hears what the server says, or how it left,
// which is the cause.
func (r *run) sendAll(c *countedConn, w *window, again []pending) {
	out := bufio.NewWriterSize(c, 64<<10)
	for i := range again {
		if w.isClosed() {
			break
		}
		_, _ = out.Write(again[i].line)
	}
	for {
		p, ok := r.next(out, w)
		if !ok || !w.put(p) {
			break
		}
		_, _ = out.Write(p.line)
	}
	_ = out.Flush()
	_ = c.CloseWrite()
	w.halfClose()
}

// next returns the next line of the input; none when that has ended, or nothing more is
// to be sent. Where the input is slow, what there is is sent first.
func (r *run) next(out *bufio.Writer, w *window) (p pending, ok bool) {
	if r.ended {
		return p, false
	}
	select {
	case p, ok = <-r.in.lines:
	default:
		_ = out.Flush() // an error comes again
		select {
		case p, ok = <-r.in.lines:
		case <-w.ended:
			return p, false
		}
	}
	r.ended = !ok
	return p, ok
}

// receipt is what is read of an answer.
type receipt struct {
	Line    int    `json:"line"`
	Seq     uint64 `json:"seq"`
	Status  string `json:"status"`
	Event   string `json:"event"`
	Code    string `json:"code"`
	Error   string `json:"error"`
	AfterMs int64  `json:"retry_after_ms"`
	Audit   *Head  `json:"audit"`
}

// receive reads receipts until the end line.
func (r *run) receive(c net.Conn, w *window) (end bool, err error) {
	in := bufio.NewReaderSize(c, 64<<10)
	silence := r.listen(w)
	defer silence.end()
	for {
		line, err := in.ReadBytes('\n')
		silence.broken()
		if err != nil {
			return false, fmt.Errorf("read receipts: %w", err)
		}
		var rc receipt
		if err := json.Unmarshal(line, &rc); err != nil && !isHTTP(line) {
			return false, &hopeless{fmt.Errorf("a receipt that is not JSON: %.80q", line)}
		}
		switch {
		case isHTTP(line):
			return false, &hopeless{fmt.Errorf("%w: it is the control socket, which speaks HTTP; nothing was stored", ErrOtherSocket)}
		case rc.Event != "" && rc.Code == codeUsage:
			return false, &hopeless{fmt.Errorf("%w: it is the consume socket, which hands exceptions out and takes none; nothing was stored", ErrOtherSocket)}
		case rc.Event == "end":
			r.res.Audit = rc.Audit
			return true, r.tellCut(w)
		case rc.Event == "receipts_dropped":
			return false, errors.New("receipts were dropped, as they were not taken in time")
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

// account takes one receipt. From the first one on that says "not now" nothing is settled
// on this connection: what comes behind is sent again, and is not ahead of it then.
func (r *run) account(w *window, rc *receipt, line []byte) error {
	if err := r.tellCut(w); err != nil {
		return err
	}
	rejected := rc.Status == "rejected"
	if w.answered > 0 || rejected {
		if w.answered == 0 {
			r.refused = &rejection{code: rc.Code, text: rc.Error, after: time.Duration(rc.AfterMs) * time.Millisecond}
		}
		if !w.refuse(line, rejected) {
			return errUnasked
		}
		return nil
	}
	p, ok := w.take()
	if !ok {
		return errUnasked
	}
	r.tries = 0
	if r.Progress != nil {
		r.Progress(len(p.line))
	}
	return r.tell(&p, rc.Status, line)
}

var errUnasked = &hopeless{errors.New("a receipt for a line that was not sent")}

// tellCut settles the lines that come next and are not sent.
func (r *run) tellCut(w *window) error {
	for {
		p, ok := w.takeCut()
		if !ok {
			return nil
		}
		if err := r.tell(&p, "rejected", p.refusal); err != nil {
			return err
		}
	}
}

// tell adds up the last receipt of a line and hands it on under the input's line number.
func (r *run) tell(p *pending, status string, line []byte) error {
	r.res.Lines++
	if p.sent {
		r.res.Resent++
	}
	if p.cut {
		r.res.Incomplete = append(r.res.Incomplete, p.at)
	}
	switch status {
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
	if r.Receipt == nil {
		return nil
	}
	if _, rest, ok := bytes.Cut(line, []byte(",")); ok {
		line = append(strconv.AppendInt([]byte(`{"line":`), int64(p.number), 10), ',')
		line = append(line, rest...)
	}
	if err := r.Receipt(line); err != nil {
		r.deaf = true
		return &hopeless{fmt.Errorf("keep a receipt: %w", err)}
	}
	return nil
}
