package client

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
)

// pending is a line that has no last receipt yet.
type pending struct {
	number  int // among all lines
	at      Position
	line    []byte // with its end; nil if it is not sent
	cut     bool   // its input ends within it: it is not sent
	end     int64  // where it ends in what this connection is sent
	sent    bool   // whole, on an earlier connection, and perhaps stored
	refusal []byte // its last receipt, if that says that it is stored nowhere
}

// size is what it counts for in a window, in bytes.
func (p *pending) size() int { return len(p.line) + len(p.refusal) }

// input is what is to be sent: the lines of one reader after the other.
type input struct {
	lines  chan pending // closed at the end
	failed error        // why it ended early; read it when lines is closed

	mu sync.Mutex
	at Position // of the next line
}

// next is where the first line stands that was not taken out of lines.
func (in *input) next() *Position {
	in.mu.Lock()
	defer in.mu.Unlock()
	at := in.at
	return &at
}

func (in *input) goTo(at Position) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.at = at
}

// read reads lines that are not blank, until ctx ends. It holds one of them besides what
// bufio does.
func read(ctx context.Context, readers []io.Reader) *input {
	in := &input{lines: make(chan pending), at: Position{Line: 1}}
	go func() {
		defer close(in.lines)
		b, number := bufio.NewReaderSize(nil, 64<<10), 0
		for _, r := range readers {
			b.Reset(r)
			more, err := in.readOne(ctx, b, nameOf(r), &number)
			if err != nil {
				in.failed = err
			}
			if !more {
				return
			}
		}
	}()
	return in
}

// nameOf is what files call themselves.
func nameOf(r io.Reader) string {
	if named, ok := r.(interface{ Name() string }); ok {
		return named.Name()
	}
	return ""
}

// byteOrderMark may stand at the beginning of an input, and belongs to no line.
const byteOrderMark = "\xef\xbb\xbf"

// readOne reads one input to its end. more: another one may follow.
func (in *input) readOne(ctx context.Context, b *bufio.Reader, name string, number *int) (more bool, err error) {
	for at := (Position{Input: name, Line: 1}); ; at.Line++ {
		in.goTo(at)
		line, err := readLine(b)
		if err != nil && !errors.Is(err, io.EOF) {
			return false, fmt.Errorf("read %v: %w", at, err)
		}
		if *number++; at.Line == 1 {
			line = bytes.TrimPrefix(line, []byte(byteOrderMark))
		}
		if len(bytes.TrimSpace(line)) > 0 {
			select {
			case in.lines <- newPending(*number, at, line):
			case <-ctx.Done():
				return false, nil
			}
		}
		if err != nil {
			if len(line) == 0 {
				*number-- // there was no line
			}
			return true, nil
		}
	}
}

// newPending is a line as it is sent. The last one of an input may have no end: it counts
// if it is one complete object; whatever else it is may be the beginning of something.
func newPending(number int, at Position, line []byte) pending {
	p := pending{number: number, at: at, line: line}
	switch {
	case line[len(line)-1] == '\n':
	case isObject(line):
		p.line = append(line, '\n')
	default:
		p.line, p.cut = nil, true
		p.refusal = fmt.Appendf(nil, `{"line":%d,"status":"rejected","code":%q,"error":"the input ended before the line did: send it again, whole"}`+"\n",
			number, codeIncomplete)
	}
	return p
}

// isObject reports whether text is one complete JSON object, good or bad.
func isObject(text []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(text, " \t\r"), []byte("{")) && json.Valid(text)
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
