package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"time"
)

// Limits of a producer. Lines that were sent and have no receipt yet are kept, so
// that a lost connection or a rejection can be made good.
const (
	maxPendingLines = 8192
	maxPendingBytes = 32 << 20
	// MaxLine is the longest line that is sent, in bytes: what a server can be
	// configured to take at most.
	MaxLine = 16 << 20

	maxReconnects = 20 // in a row, without a single line stored between them: some 76 s
)

// Counts adds up receipts by status, one for each line: of a line that was rejected and
// sent again the last one counts. Resent lines had been written, whole, to a connection
// that was lost: one of them that is a duplicate may be one of ours.
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

// Position is a place in what was to be sent.
type Position struct {
	Input string `json:"input,omitempty"` // its name, if it has a method Name as files have
	Line  int    `json:"line"`            // of that input, from 1
}

// String spells it for people.
func (p Position) String() string {
	line := "line " + strconv.Itoa(p.Line)
	if p.Input == "" {
		return line
	}
	return p.Input + ", " + line
}

// Producer sends lines to an enqueue socket.
type Producer struct {
	Path string // of the socket
	// Receipt gets the receipt of each line, in their order, its line number counting
	// the lines of all inputs from 1: the last receipt, if the line was rejected and sent
	// again. nil: nobody wants them. It must not keep the slice.
	Receipt func(receipt []byte) error
	// Progress gets the bytes of lines that are settled: they have a receipt, and it is
	// not that they were rejected.
	Progress func(bytes int)
	// Waiting is told of each lost or refused connection, and of each rejection
	// (ErrRejected), after which what is not stored will be sent again.
	Waiting func(err error, after time.Duration)
	// Silent is told, from a goroutine of its own, that the server has answered nothing for
	// that long, while so many lines (0: only the end) wait for it: after 10 to 20 s, then
	// once a minute. It has no room and makes its producers wait, or it hangs. Send goes on waiting.
	// It must not block, nor wait for Send to return.
	Silent func(waited time.Duration, lines int)
	// NoWait has Send end when the server rejects a line, instead of sending it again.
	NoWait bool
}

// Result is what became of everything that was sent.
type Result struct {
	Counts
	// Next is where to go on after an error: the first line that is not known to be
	// stored. Whatever comes before it is stored, or in Incomplete.
	Next *Position `json:"next,omitempty"`
	// Incomplete are the last lines of inputs that end within a line: without a line's
	// end, and no complete JSON object. They count as rejected, and were not sent.
	Incomplete []Position `json:"incomplete,omitempty"`
	Audit      *Head      `json:"audit,omitempty"`
}

// ErrLongLine: a line is longer than any server takes.
var ErrLongLine = errors.New("line is too long")

// ErrRejected: the server has rejected lines, which are stored nowhere.
var ErrRejected = errors.New("lines are rejected")

// errStopped: the server said its last word before all was sent.
var errStopped = errors.New("the server has ended the connection, as it does when it stops")

// rejection is the first receipt of a connection that says "not now".
type rejection struct {
	code, text string
	after      time.Duration // when the server would like the line again; 0: it does not say
}

// Error is the code and its text.
func (e *rejection) Error() string { return fmt.Sprintf("%v: %s: %s", ErrRejected, e.code, e.text) }

// Unwrap is ErrRejected.
func (e *rejection) Unwrap() error { return ErrRejected }

// hopeless is trouble with the receipts' taker or with the socket: no other connection
// would help.
type hopeless struct{ err error }

// Error is the trouble's text.
func (e *hopeless) Error() string { return e.err.Error() }

// run is one Send.
type run struct {
	*Producer
	in      *input
	waiting []pending // lines that have no last receipt, in order
	ended   bool      // the input is used up
	res     Result
	tries   int        // connections in a row after which no line was settled
	had     bool       // a connection, at any time
	refused *rejection // the last one
	deaf    bool       // the taker of receipts has failed
}

// Send sends every line of the inputs, one input after the other, and returns when each
// has its receipt. After a lost connection it connects again and sends what has no
// receipt; what was stored is then answered as a duplicate, never stored twice.
//
// A line that the server rejects, as it is full (with on_saturated = "reject"), stops or has
// no room on its disk, is taken like a lost connection: nothing behind it is sent, it waits
// (as long as the server asks for, at most 5 s), connects again, and goes on from that
// line. So the order of the input is the order in which it is stored. Only with
// on_saturated = "reject" may lines that were on their way behind it have found room before.
//
// It gives up when 20 connections in a row, over some 76 s, have settled no line; after
// some 6 s if nobody ever listened. The Result is valid also with an error: ErrRejected if
// the next line was rejected when it was last sent, else ErrLost or ErrRefused; ErrLongLine,
// ErrOtherSocket, that of ctx, or of an input.
//
// The inputs are read by a goroutine of its own, because one may be a terminal where nobody
// types while the connection is lost or ctx ends. Then a Read may still be waiting
// when Send returns; it ends with the next byte, and whatever it got is dropped.
func (p *Producer) Send(ctx context.Context, inputs ...io.Reader) (Result, error) {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	r := &run{Producer: p, in: read(reading, inputs)}
	err := r.send(ctx)
	if err == nil {
		return r.res, nil
	}
	if more := r.conclude(); more != nil {
		err = errors.Join(err, more)
	}
	return r.res, err
}

// send connects until every line has its receipt.
func (r *run) send(ctx context.Context) error {
	for {
		done, err := r.connection(ctx)
		var h *hopeless
		switch {
		case done: // all that could be read is settled
			return r.in.failed
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &h):
			return h.err
		case r.NoWait && errors.Is(err, ErrRejected):
			return err
		}
		most := maxFirst
		if r.had {
			most = maxReconnects
		}
		if r.tries++; r.tries > most {
			return r.gaveUp(err)
		}
		wait := pause(r.tries)
		if errors.Is(err, ErrRejected) {
			wait = max(wait, min(r.refused.after, longestRetry))
		}
		if r.Waiting != nil {
			r.Waiting(err, wait)
		}
		if !sleep(ctx, wait) {
			return context.Cause(ctx)
		}
	}
}

// gaveUp is the error after the last try, which ended with err.
func (r *run) gaveUp(err error) error {
	switch {
	case errors.Is(err, ErrRejected):
		return err
	case len(r.waiting) > 0 && r.waiting[0].refusal != nil: // and it could not be sent since
		return fmt.Errorf("%w; then %w: %w", r.refused, ErrLost, err)
	}
	return fmt.Errorf("%w: %w", ErrLost, err)
}

// conclude says of what is not settled where it begins, and hands out the receipts of
// what was rejected when it was last sent. The error is that of their taker.
func (r *run) conclude() error {
	r.res.Next = r.in.next()
	for i := range r.waiting {
		if p := &r.waiting[i]; !p.cut {
			r.res.Next = &p.at
			break
		}
	}
	for i := range r.waiting {
		p := &r.waiting[i]
		if p.refusal == nil || r.deaf {
			continue
		}
		if err := r.tell(p, "rejected", p.refusal); err != nil {
			return err
		}
	}
	return nil
}
