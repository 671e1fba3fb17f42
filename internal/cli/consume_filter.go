package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"breakwater/client"
)

const (
	// maxAnswer is the longest line of stdin that is read as one answer, in bytes: far
	// more than a server takes, so that it is the server that refuses it.
	maxAnswer = 1 << 20
	// leaveTime is how long a filter waits for its last answers to be confirmed.
	leaveTime = 10 * time.Second
)

// filter prints what is handed out and takes answers from stdin.
type filter struct {
	*consuming
	session *client.Session
	open    map[string]bool // leases that were printed and not answered
	surplus map[string]bool // leases that came when --max were printed already
	printed int
	refused int
}

// run filters until stdin ends, ctx does, or enough was answered.
func (f *filter) run(ctx context.Context) (err error) {
	f.open, f.surplus = map[string]bool{}, map[string]bool{}
	if f.session, err = f.Attach(ctx); err != nil {
		return err
	}
	defer f.session.Close()
	reading, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(f.answers(reading)) }()
	for reading.Err() == nil && !f.enough() {
		e, err := f.session.Next(reading)
		if err == nil {
			err = f.heed(e)
		}
		if err != nil && reading.Err() == nil {
			_ = f.leave(ctx) // the first error counts
			return err
		}
	}
	if err := f.leave(ctx); err != nil {
		return err
	}
	if cause := context.Cause(reading); ctx.Err() == nil && cause != nil && !errors.Is(cause, io.EOF) {
		return cause
	}
	if f.refused > 0 {
		return quiet(exitFindings)
	}
	return nil
}

// leave has the answers that were read confirmed and the rest put back.
func (f *filter) leave(ctx context.Context) error {
	ctx, end := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer end()
	err := f.session.Detach(ctx, func(e client.Event) {
		if e.Kind != client.Delivered { // it is put back, and nobody has seen it
			_ = f.heed(e)
		}
	})
	if n := f.session.Unconfirmed(); err != nil && n > 1 {
		f.say("%d answers are not confirmed", n-1)
		return errors.Join(client.ErrLost, err)
	}
	return nil
}

// enough reports whether what was to be taken at most is answered.
func (f *filter) enough() bool {
	return f.Max > 0 && f.printed >= f.Max && len(f.open) == 0 && f.session.Unconfirmed() == 0
}

// heed does what an event asks for.
func (f *filter) heed(e client.Event) error {
	switch e.Kind {
	case client.Delivered:
		if f.Max > 0 && f.printed >= f.Max {
			f.surplus[e.Lease] = true // put back when it leaves: now, the next would come in its place
			return nil
		}
		f.printed++
		f.open[e.Lease] = true
		return write(f.Stdout, append(e.Line, '\n'))
	case client.Settled:
		delete(f.open, e.Lease)
		delete(f.surplus, e.Lease)
	case client.Refused:
		if f.surplus[e.Lease] {
			delete(f.surplus, e.Lease) // it came too late to be put back by us
			return nil
		}
		if e.Resent && e.Code == client.CodeAlreadySettled {
			delete(f.open, e.Lease) // by the same answer, whose confirmation was lost
			return nil
		}
		f.refused++
		delete(f.open, e.Lease)
		f.say("refused: lease %s: %s: %s", e.Lease, e.Code, e.Error)
	case client.Faulty:
		f.refused++
		f.say("not understood: %s: %s", e.Code, e.Error)
	case client.LeaseEnding:
		if f.surplus[e.Lease] { // nobody has seen it: the end of its lease would count as a delivery
			return f.session.Send(context.Background(), e.Lease, client.Answer{Verb: client.Release, Reason: "not shown"})
		}
		f.say("lease %s ends at %s", e.Lease, e.Deadline.UTC().Format(time.RFC3339))
	case client.Draining:
		f.say("breakwater is stopping; answers are still taken")
	}
	return nil
}

// answers gives the server what is on stdin, until its end, which is the error io.EOF.
// It is a goroutine of its own, because stdin may be a terminal where nobody types.
func (f *filter) answers(ctx context.Context) error {
	in := bufio.NewReaderSize(f.Stdin, 64<<10)
	for {
		line, err := boundedLine(in)
		if len(bytes.TrimSpace(line)) > 0 {
			signed, leaves := f.sign(line)
			if leaves {
				return io.EOF
			}
			if err := f.session.SendLine(ctx, signed); err != nil {
				return err
			}
		}
		if err != nil {
			return err
		}
	}
}

// boundedLine reads a line. Of one that is too long it keeps the beginning.
func boundedLine(in *bufio.Reader) (line []byte, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if len(line) < maxAnswer {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}

// sign adds who decided to an answer that does not say. A line that is no answer is
// left as it is: the server says what is wrong with it. leaves: it asks to be detached.
func (f *filter) sign(line []byte) (signed []byte, leaves bool) {
	var said map[string]json.RawMessage
	if json.Unmarshal(line, &said) != nil || said == nil {
		return line, false
	}
	if string(said["detach"]) == "true" && len(said) == 1 {
		return nil, true
	}
	_, has := said["by"]
	_, extends := said["extend"]
	if f.by == "" || has || extends {
		return line, false
	}
	end := bytes.LastIndexByte(line, '}')
	who, err := json.Marshal(f.by)
	if err != nil {
		return line, false
	}
	signed = append(signed, line[:end]...)
	if len(said) > 0 {
		signed = append(signed, ',')
	}
	signed = append(append(signed, `"by":`...), who...)
	return append(signed, line[end:]...), false
}
