package memstore

import (
	"context"
	"slices"

	"breakwater/queue"
)

// Admit stores what is new, and answers what is known.
func (s *Store) Admit(ctx context.Context, r queue.AdmitRequest) (queue.AdmitResult, error) {
	res := queue.AdmitResult{Receipts: make([]queue.Receipt, 0, len(r.Lines))}
	head, err := s.transact(ctx, func() {
		a := admission{state: &s.state, r: &r}
		for i := range r.Lines {
			res.Receipts = append(res.Receipts, a.line(&r.Lines[i]))
		}
		if a.skipped > 0 {
			s.record(queue.SkippedRecord(r.Now, a.skipped, a.seqs))
		}
	})
	if err != nil {
		return queue.AdmitResult{}, err
	}
	res.Head = head
	return res, nil
}

// admission is one Admit under way.
type admission struct {
	*state
	r       *queue.AdmitRequest
	full    queue.Saturation // the first limit that refused a line, for all later ones
	skipped int              // duplicates
	seqs    []uint64         // of their firsts, in order of appearance
}

// line judges one line.
func (a *admission) line(l *queue.Submission) queue.Receipt {
	if l.Fault != nil {
		if of := a.edited(l); of != nil {
			return a.duplicate(of)
		}
		if repeat, ok := a.repeat(l.LineHash); ok {
			return repeat
		}
		return a.quarantine(l, &letter{code: queue.CodePoison, field: l.Fault.Field, reason: l.Fault.Reason})
	}
	known := a.ledger[l.Message.IdempotencyKey]
	if known != nil && sameContent(&known.first, &l.Message) {
		return a.duplicate(known)
	}
	if of := a.edited(l); of != nil {
		return a.duplicate(of)
	}
	if known == nil {
		return a.accept(l)
	}
	if repeat, ok := a.repeat(l.LineHash); ok {
		return repeat
	}
	why := differs(&known.first, &l.Message) + " differs"
	return a.quarantine(l, &letter{code: queue.CodeConflict, of: known.first.Seq, reason: why})
}

// repeat returns the receipt of an open letter from the door with the same bytes.
func (a *admission) repeat(hash queue.Hash) (queue.Receipt, bool) {
	for _, m := range a.dead {
		if !m.inOrder() && m.sent == nil && m.lineHash == hash {
			r := letterReceipt(m)
			r.Repeat = true
			return r, true
		}
	}
	return queue.Receipt{}, false
}

// letterReceipt answers a line that became a letter at the door.
func letterReceipt(m *message) queue.Receipt {
	r := queue.Receipt{
		Status: queue.Quarantined, Seq: m.Seq, Of: m.letter.of,
		Code: m.letter.code, Field: m.letter.field, Error: m.letter.reason,
	}
	if r.Code == queue.CodeConflict {
		r.Status = queue.Conflict
	}
	return r
}

// duplicate answers with what became of the first (P2). It never refuses.
func (a *admission) duplicate(known *entry) queue.Receipt {
	a.skipped++
	seq := known.first.Seq
	if len(a.seqs) < queue.MaxSkippedSeqs && !slices.Contains(a.seqs, seq) {
		a.seqs = append(a.seqs, seq)
	}
	r := queue.Receipt{Status: queue.Duplicate, Seq: seq, State: known.state}
	if m := a.open[seq]; m != nil {
		r.State = a.stateOf(m)
	}
	if known.state == queue.Done {
		r.Outcome, r.SettledAt = known.outcome, known.settledAt
	}
	return r
}

// accept stores a new message and gives it its place, unless it is scheduled.
func (a *admission) accept(l *queue.Submission) queue.Receipt {
	if full := a.fullForMessage(l); full != "" {
		return a.reject(full)
	}
	a.lastSeq++
	m := newMessage(a.lastSeq, l)
	a.admit(a.r.Now, m, m.content(), a.r.Peer)
	return queue.Receipt{Status: queue.Accepted, Seq: m.Seq}
}

// quarantine keeps a line as a dead letter that never enters the order (P8).
func (a *admission) quarantine(l *queue.Submission, why *letter) queue.Receipt {
	if full := a.fullForLetter(); full != "" {
		return a.reject(full)
	}
	a.lastSeq++
	m := newMessage(a.lastSeq, l)
	why.at, m.came = micros(a.r.Now), micros(a.r.Now)
	m.letter, m.deaths = why, 1
	a.dead[m.Seq] = m
	a.record(queue.QuarantinedRecord(a.r.Now, &m.Stored, why.code, why.of, why.field, why.reason, m.lineBytes, m.lineHash, a.r.Peer))
	return letterReceipt(m)
}

// reject refuses a line. All later lines that would be stored are refused for the
// same reason: taking one would overtake.
func (a *admission) reject(full queue.Saturation) queue.Receipt {
	a.full = full
	return queue.Receipt{
		Status: queue.Rejected, Code: queue.CodeSaturated, Reason: full,
		Error: "the limit " + string(full) + " is reached",
	}
}

// fullForMessage returns the limit that refuses a new message, if one does. The
// limits of a file do not apply: there is none.
func (a *admission) fullForMessage(l *queue.Submission) queue.Saturation {
	lim := &a.r.Limits
	k := a.keys[l.Message.PartitionKey]
	newKey := k == nil || len(k.order) == 0
	switch {
	case a.full != "":
		return a.full
	case reached(lim.MaxBacklog, int64(len(a.open))):
		return queue.FullBacklog
	case newKey && reached(lim.MaxOpenKeys, a.openKeys):
		return queue.FullOpenKeys
	case reached(lim.MaxLedgerKeys, int64(len(a.ledger))):
		return queue.FullLedger
	}
	return ""
}

func (a *admission) fullForLetter() queue.Saturation {
	if a.full == "" && reached(a.r.Limits.MaxDeadLetters, int64(len(a.dead))) {
		return queue.FullDeadLetters
	}
	return a.full
}

// reached reports whether a limit is used up; 0 is no limit.
func reached(limit, used int64) bool { return limit > 0 && used >= limit }
