package socket

import (
	"context"
	"errors"

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

	request []queue.Submission // the lines that the store is asked for,
	asked   []*judgedLine      // and the same lines here
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

// take waits for a batch and takes what else has come by then: while one commit was
// under way the next batches gathered, and share the next commit.
func (a *admission) take() bool {
	j, ok := <-a.producer.batches
	for ok {
		a.batches = append(a.batches, j)
		for i := range j.lines {
			a.lines = append(a.lines, &j.lines[i])
		}
		if len(a.lines) >= batchLines {
			return true
		}
		select {
		case j, ok = <-a.producer.batches:
		default:
			return true
		}
	}
	return len(a.batches) > 0
}

// admit sends the receipts of all lines, each when it is due: at once where the store
// has no part in it, else after the commit.
func (a *admission) admit() {
	for _, l := range a.lines {
		if l.pending {
			a.asked = append(a.asked, l)
			a.request = append(a.request, l.submission)
		}
	}
	a.answer()
	if len(a.asked) == 0 {
		return
	}
	if a.drained != nil {
		for _, l := range a.asked {
			l.receipt, l.pending = *a.drained, false
		}
		a.answer()
		return
	}
	next := 0
	// The drain must not take their turn from lines that were read before it.
	err := a.server.intake.Stream(context.WithoutCancel(a.drain), a.peer, a.request,
		func(receipts []queue.Receipt, head queue.Head) {
			for i := range receipts {
				a.asked[next].receipt, a.asked[next].pending = receipts[i], false
				next++
				if receipts[i].Code == queue.CodeDraining {
					drained := receipts[i]
					a.drained = &drained
				}
			}
			if head.Block > 0 { // none comes with lines that were refused for want of a disk
				a.head, a.stored = head, true
			}
			a.answer()
		})
	if err == nil && next < len(a.asked) {
		err = errors.New("the store has not answered every line")
	}
	if err != nil {
		a.breakOff(err)
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
	// Cleared, so that they keep nothing alive until the next lines come.
	clear(a.batches)
	clear(a.lines)
	clear(a.request)
	clear(a.asked)
	a.batches, a.lines, a.sent = a.batches[:0], a.lines[:0], 0
	a.request, a.asked = a.request[:0], a.asked[:0]
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
