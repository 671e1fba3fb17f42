package socket

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"breakwater/queue"
)

// refusal is the first line of a connection that was rejected and has not come again. Its
// sender learns of it later, and has sent more by then: to store any of that would let it
// overtake (P5), whether or not there is room for it. So nothing of the connection is
// stored until that line comes again, and what is stored of a connection is always the
// beginning of what it has sent, in order. Another connection begins anew.
type refusal struct {
	receipt queue.Receipt
	behind  string // what the lines behind it are told

	key  string // its idempotency key; "" where a gate has refused it
	hash queue.Hash
}

func newRefusal(l *judgedLine) *refusal {
	f := &refusal{
		receipt: l.receipt, hash: l.submission.LineHash,
		behind: fmt.Sprintf("line %d was rejected before it: send that one again first", l.number),
	}
	if l.submission.Fault == nil {
		f.key = strings.Clone(l.submission.Message.IdempotencyKey) // the line's memory is used again
	}
	return f
}

// is reports whether s is the refused line: the same unit of work, or the same bytes.
func (f *refusal) is(s *queue.Submission) bool {
	return s.LineHash == f.hash || s.Fault == nil && s.Message.IdempotencyKey == f.key && f.key != ""
}

// behind is how many of the lines that the store is to be asked for come behind a refused
// one.
func (a *admission) behind() int {
	if a.refused == nil {
		return 0
	}
	for i := range a.request {
		if a.refused.is(&a.request[i]) {
			return i
		}
	}
	return len(a.request)
}

// refuse answers the first n lines that the store is to be asked for, which come behind a
// refused one. Where that was for want of room, what is known is answered as always.
func (a *admission) refuse(ctx context.Context, n int) error {
	if n == 0 {
		return nil
	}
	why := a.refused.receipt
	if why.Code == queue.CodeSaturated {
		res, err := a.server.intake.Refuse(ctx, a.peer, a.request[:n], why.Reason)
		if err != nil {
			return err
		}
		a.note(res.Receipts, res.Head)
		return nil
	}
	a.note(slices.Repeat([]queue.Receipt{why}, n), queue.Head{})
	return nil
}

// rejected notes that a line was.
func (a *admission) rejected(l *judgedLine) {
	if a.refused == nil {
		a.refused = newRefusal(l)
		return
	}
	l.receipt.Error = a.refused.behind
}
