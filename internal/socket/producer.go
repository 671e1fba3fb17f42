package socket

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// producer is one connection to the enqueue socket.
type producer struct {
	server   *EnqueueServer
	conn     net.Conn
	peer     queue.Peer
	log      hclog.Logger
	drain    context.Context // its end begins the drain
	receipts *receiptWriter
	batches  chan *judgedBatch // from read to store, in order; closed at the end of lines

	// Of the goroutine that stores.
	count   tally
	head    queue.Head
	stored  bool           // head is of an answer
	broken  bool           // nobody knows what was stored: nothing is answered any more
	drained *queue.Receipt // of the line that a drain has rejected: what comes behind would overtake it when it is sent again
}

// judgedBatch is a batch of lines that the gates have looked at.
type judgedBatch struct {
	batch *lineBatch
	lines []judgedLine
	cost  int64 // of the shared budget
}

// judgedLine is a line on its way to its receipt. Either it still has to be stored, or
// it has its receipt.
type judgedLine struct {
	number     uint64
	submission queue.Submission
	receipt    queue.Receipt
	pending    bool
}

// read takes lines from the connection, judges them and passes them on, until the
// stream ends or may no longer be read. It is where back-pressure ends: it waits for
// the peer to take its receipts, for its share of the memory, and for the store.
func (p *producer) read(maxLine int) {
	lines := newLineReader(p.conn, &p.server.pool, maxLine, batchLines)
	defer lines.close()
	var parser queue.Parser
	for {
		p.receipts.waitForRoom(p.drain)
		batch, err := lines.next()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, net.ErrClosed) {
				p.log.Warn("reading lines ended early", "error", err)
			}
			return
		}
		j := p.server.judged()
		j.batch = batch
		late := p.drain.Err() != nil
		for i := range batch.lines {
			j.lines = append(j.lines, judge(&parser, &batch.lines[i], maxLine, late))
		}
		p.hold(j)
		p.batches <- j
	}
}

// hold takes the batch's share of the budget. It does not end with the drain: the lines
// are read, and whoever holds the rest is stored or rejected before long.
func (p *producer) hold(j *judgedBatch) {
	j.cost = p.server.budget.take(j.batch.size() + int64(len(j.lines))*lineOverhead)
}

// let gives the batch's memory and its share of the budget back.
func (p *producer) let(j *judgedBatch) {
	cost := j.cost
	j.batch.release()
	clear(j.lines) // what the lines point to must not live as long as the pool
	*j = judgedBatch{lines: j.lines[:0]}
	p.server.spent.Put(j)
	p.server.budget.give(cost)
}

// judge lets a line pass the gates of the door, or answers it where no gate is needed.
func judge(parser *queue.Parser, l *line, maxLine int, late bool) judgedLine {
	j := judgedLine{number: l.number}
	if late {
		j.receipt = drainingReceipt()
		return j
	}
	if l.long != nil {
		j.submission = queue.Submission{
			Message:   queue.Message{Line: l.bytes},
			Fault:     &queue.Fault{Reason: fmt.Sprintf("line of %d bytes is over max_line_bytes, %d", l.long.length, maxLine)},
			LineBytes: int64(l.long.length),
			LineHash:  l.long.sum,
		}
	} else {
		j.submission = submission(parser, l.bytes)
	}
	if l.unterminated && j.submission.Fault != nil && !(l.long == nil && isObject(l.bytes)) {
		j.submission = queue.Submission{}
		j.receipt = queue.Receipt{
			Status: queue.Rejected,
			Code:   queue.CodeIncompleteLine,
			Error:  "the stream ended before the line did: send it again, whole",
		}
		return j
	}
	j.pending = true
	return j
}

// submission reads a line. One that fails a gate is submitted too, with what could be
// read of it and the reason: it is quarantined, not refused (P8).
func submission(parser *queue.Parser, text []byte) queue.Submission {
	m, err := parser.Parse(text)
	// What is hashed and measured is what is kept: the parser leaves out a CR at the
	// end, which a last line without LF may still have.
	s := queue.Submission{Message: m, LineBytes: int64(len(m.Line)), LineHash: queue.LineHash(m.Line)}
	if err == nil {
		return s
	}
	s.Fault = &queue.Fault{Reason: err.Error()}
	if gate := (*queue.GateError)(nil); errors.As(err, &gate) {
		s.Fault.Field, s.Fault.Reason = gate.Field, gate.Reason
	}
	return s
}

// isObject reports whether text is one complete JSON object, good or bad: the rule for
// a last line without LF, where a cut-off line must never be taken for a whole one.
func isObject(text []byte) bool {
	for _, c := range text {
		switch c {
		case ' ', '\t', '\r':
			continue
		}
		return c == '{' && json.Valid(text)
	}
	return false
}

func drainingReceipt() queue.Receipt {
	return queue.Receipt{
		Status: queue.Rejected,
		Code:   queue.CodeDraining,
		Error:  "the server is about to stop: send the line again when it is back",
	}
}
