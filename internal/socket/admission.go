package socket

import (
	"context"
	"errors"
	"time"

	"breakwater/queue"
)

// admission is a run of batches of one connection on its way through the store. There
// is one at a time: two at once could be stored in the other order, and the order in
// which lines are accepted is that of their key (P5).
type admission struct {
	*producer
	batches []*judgedBatch
	lines   []*judgedLine // of all batches
	sent    int           // how many of lines have their receipt on its way
	out     receiptRun
	request []queue.Submission
}

// store has the lines stored and their receipts sent, batch by batch; then the end.
func (p *producer) store() {
	a := admission{producer: p}
	for a.take() {
		if !p.broken {
			a.admit()
		}
		a.finish()
	}
	p.receipts.finish(p.end())
}

// take waits for a batch and takes all that have come by then: while one commit was
// under way the next ones gathered, and share the next commit.
func (a *admission) take() bool {
	j, ok := <-a.producer.batches
	for ok {
		a.batches = append(a.batches, j)
		for i := range j.lines {
			a.lines = append(a.lines, &j.lines[i])
		}
		select {
		case j, ok = <-a.producer.batches:
		default:
			return true
		}
	}
	return len(a.batches) > 0
}

// admit asks the store until every line has its receipt. Lines that the store has no
// room for are asked for again, in order, when there is room, unless they are to be
// refused. A drain refuses them.
func (a *admission) admit() {
	for {
		pending := a.pending()
		if len(pending) > 0 {
			if err := a.ask(pending); err != nil {
				a.breakOff(err)
				return
			}
			a.noteSaturation(pending)
			if !a.server.options.Load().RejectWhenFull {
				a.keepWaiting(pending)
			}
		}
		a.answer()
		if a.sent == len(a.lines) {
			return
		}
		a.waitForRoom()
	}
}

// pending returns the lines that have no receipt yet.
func (a *admission) pending() []*judgedLine {
	var pending []*judgedLine
	for _, l := range a.lines[a.sent:] {
		if l.pending {
			pending = append(pending, l)
		}
	}
	return pending
}

// ask makes one request and files the receipts. A refusal of the whole request that
// changed nothing is a receipt for each of its lines; any other error is returned.
func (a *admission) ask(pending []*judgedLine) error {
	a.request = a.request[:0]
	for _, l := range pending {
		a.request = append(a.request, l.submission)
	}
	// The drain must not take their turn from lines that were read before it.
	result, err := a.server.intake.Admit(context.WithoutCancel(a.drain), a.peer, a.request)
	refused, clean := refusal(err)
	switch {
	case err != nil && !clean:
		return err
	case err == nil:
		if len(result.Receipts) != len(pending) {
			return errors.New("the store has not answered every line")
		}
		a.head, a.stored = result.Head, true
	}
	for i, l := range pending {
		l.pending = false
		l.receipt = refused
		if err == nil {
			l.receipt = result.Receipts[i]
		}
	}
	return nil
}

// refusal returns the receipt for lines of a request that failed and changed nothing;
// clean is false if that is not certain.
func refusal(err error) (r queue.Receipt, clean bool) {
	switch {
	case errors.Is(err, queue.ErrNoRoom):
		return queue.Receipt{
			Status: queue.Rejected,
			Code:   queue.CodeStorageUnavailable,
			Error:  "the disk has no room: send the line again later",
		}, true
	case errors.Is(err, queue.ErrClosed), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return drainingReceipt(), true
	}
	return queue.Receipt{}, false
}

func refusedForRoom(r *queue.Receipt) bool {
	return r.Status == queue.Rejected && r.Code == queue.CodeSaturated
}

// noteSaturation tells of the first line that found no room.
func (a *admission) noteSaturation(asked []*judgedLine) {
	for _, l := range asked {
		if !refusedForRoom(&l.receipt) {
			continue
		}
		m := &l.submission.Message
		a.server.options.Load().Events.Saturated(m, l.receipt.Reason)
		if n, tell := a.server.saturation.now(); tell {
			a.log.Warn("no room for more lines", "code", queue.CodeSaturated, "reason", l.receipt.Reason, "times", n,
				"trace_id", m.TraceID, "source_hash", m.SourceHash, "match_decision", m.Decision)
		}
		return
	}
}

// keepWaiting makes the lines that found no room pending again. A drain answers them.
func (a *admission) keepWaiting(asked []*judgedLine) {
	draining := a.drain.Err() != nil
	for _, l := range asked {
		switch {
		case !refusedForRoom(&l.receipt):
		case draining:
			l.receipt = drainingReceipt()
		default:
			l.pending = true
		}
	}
}

// waitForRoom waits until it is worth while to ask again, or the drain begins. Room may
// return at once, and others may be quicker: without the pause this would be a busy loop
// of commits.
func (a *admission) waitForRoom() {
	ctx, cancel := context.WithTimeout(a.drain, roomPoll)
	defer cancel()
	a.server.intake.Room(ctx)
	pause := time.NewTimer(roomPause)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-a.drain.Done():
	}
}

// answer sends the receipts up to the first line that has none.
func (a *admission) answer() {
	var by [queue.Rejected + 1]int
	for ; a.sent < len(a.lines) && !a.lines[a.sent].pending; a.sent++ {
		l := a.lines[a.sent]
		a.out.text = appendReceipt(a.out.text, l.number, l.submission.Message.IdempotencyKey, &l.receipt)
		a.out.mark(l.number)
		a.count.add(l.receipt.Status)
		by[l.receipt.Status]++
	}
	a.receipts.add(&a.out)
	a.out.reset()
	for s, n := range by {
		if n > 0 {
			a.server.options.Load().Events.Answered(queue.Status(s), n)
		}
	}
}

// breakOff ends the connection without another word. The producer sends again what was
// not answered, and the ledger settles what was in doubt.
func (a *admission) breakOff(err error) {
	a.broken = true
	a.log.Error("lines not answered: it is not known whether they are stored", "lines", len(a.lines)-a.sent, "error", err)
	a.conn.Close()
}

// finish gives back what the batches held.
func (a *admission) finish() {
	for _, j := range a.batches {
		a.let(j)
	}
	clear(a.batches)
	clear(a.lines)
	clear(a.request)
	a.batches, a.lines, a.request, a.sent = a.batches[:0], a.lines[:0], a.request[:0], 0
}

// end returns the line that closes the connection, or nil if there is nothing to say.
func (p *producer) end() []byte {
	if p.broken {
		return nil
	}
	if !p.stored {
		head, err := p.server.intake.Head(context.WithoutCancel(p.drain))
		if err != nil {
			p.log.Warn("no end line: the trail's head is not known", "error", err)
			return nil
		}
		p.head = head
	}
	return appendEnd(nil, &p.count, p.head)
}
