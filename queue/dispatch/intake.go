package dispatch

import (
	"context"
	"errors"
	"time"

	"breakwater/queue"
)

// retryAfter is what a producer is told to wait before it sends a refused line
// again, and how often waiting lines try again without a sign of room: disks
// are freed without telling us.
const retryAfter = 500 * time.Millisecond

// Stream stores lines of one producer, in order. While there is no room it does not
// return, unless RejectWhenFull is set, the drain begins or ctx ends: the lines that
// still wait are then rejected. answered is called with the receipts of the next lines,
// in order, as soon as they are due (while lines wait for room, those before them have
// been told), and the trail's head after their commit; it must not keep the slice. The
// error is the store's failure, after which no receipt may be given. How many lines
// there are is the caller's to bound: one producer's burst must not keep the others out
// of a commit.
func (r *Runner) Stream(ctx context.Context, peer queue.Peer, lines []queue.Submission,
	answered func([]queue.Receipt, queue.Head),
) error {
	o := newOffer(lines)
	var met queue.Saturation // the limit that keeps this producer waiting
	defer func() { r.waiters.move(met, "") }()
	for told, waited := 0, false; ; {
		head, err := r.ask(ctx, peer, o)
		if err != nil {
			return err
		}
		if first := o.firstWaiting(); first >= 0 {
			if !waited {
				waited = true
				r.raiseSaturated(&lines[first], o.receipts[first].Reason)
			}
			met = r.nowMeets(met, o.receipts[first].Reason)
			if first > told && !r.settings.Load().RejectWhenFull {
				answered(o.receipts[told:first], head)
				told = first
			}
			if r.awaitRoom(ctx) {
				continue
			}
			if r.Draining() {
				markDraining(o.receipts[told:])
			}
		} else if waited {
			r.room.raise() // there may be more of it than these lines needed
		}
		if told < len(lines) {
			answered(o.receipts[told:], head)
		}
		return nil
	}
}

// nowMeets notes that a producer waits at a limit, and returns which.
func (r *Runner) nowMeets(before, reason queue.Saturation) queue.Saturation {
	if r.settings.Load().RejectWhenFull {
		return before // nobody waits: it is told at once
	}
	r.waiters.move(before, reason)
	return reason
}

// offer is a run of lines on its way to its receipts.
type offer struct {
	lines    []queue.Submission
	receipts []queue.Receipt // one for each line; of those that wait, why
	waiting  []int           // the lines whose receipts are not final, in order
}

func newOffer(lines []queue.Submission) *offer {
	o := &offer{lines: lines, receipts: make([]queue.Receipt, len(lines)), waiting: make([]int, len(lines))}
	for i := range o.waiting {
		o.waiting[i] = i
	}
	return o
}

// firstWaiting returns the first line whose receipt is not final, or -1.
func (o *offer) firstWaiting() int {
	if len(o.waiting) == 0 {
		return -1
	}
	return o.waiting[0]
}

// ask asks the store once for all lines that wait. What has its receipt is not asked
// for again: a duplicate behind a line that waits would leave a record each time.
func (r *Runner) ask(ctx context.Context, peer queue.Peer, o *offer) (queue.Head, error) {
	asked := o.lines
	if len(o.waiting) < len(o.lines) {
		asked = make([]queue.Submission, len(o.waiting))
		for i, line := range o.waiting {
			asked[i] = o.lines[line]
		}
	}
	res, err := r.admit(ctx, peer, asked)
	if err != nil {
		return queue.Head{}, err
	}
	still := o.waiting[:0]
	for i, line := range o.waiting {
		o.receipts[line] = res.Receipts[i]
		if waitsForRoom(&res.Receipts[i]) {
			still = append(still, line)
		}
	}
	o.waiting = still
	return res.Head, nil
}

// admit stores lines as far as there is room.
func (r *Runner) admit(ctx context.Context, peer queue.Peer, lines []queue.Submission) (queue.AdmitResult, error) {
	start := r.now()
	res, err := r.store.Admit(ctx, queue.AdmitRequest{Now: start, Peer: peer, Limits: r.settings.Load().Limits, Lines: lines})
	switch {
	case errors.Is(err, queue.ErrNoRoom), err != nil && !fatal(err) && ctx.Err() != nil:
		return rejectAll(len(lines), err), nil
	case err != nil:
		r.fail("admit", err)
		return res, err
	}
	r.noteScheduled(lines, res.Receipts)
	r.wake.raise()
	r.logQuarantined(lines, res.Receipts)
	if r.observer.Admitted != nil {
		r.observer.Admitted(res.Receipts, r.now().Sub(start))
	}
	return res, nil
}

// rejectAll answers lines of which certainly nothing was stored.
func rejectAll(n int, err error) queue.AdmitResult {
	res := queue.AdmitResult{Receipts: make([]queue.Receipt, n)}
	for i := range res.Receipts {
		res.Receipts[i] = queue.Receipt{
			Status: queue.Rejected, Code: queue.CodeStorageUnavailable, Error: "not stored: " + err.Error(),
		}
	}
	return res
}

// waitsForRoom reports whether a receipt is a refusal that room would undo.
func waitsForRoom(r *queue.Receipt) bool {
	return r.Status == queue.Rejected && r.Code == queue.CodeSaturated
}

// markDraining makes the lines that still wait refused for the drain.
func markDraining(receipts []queue.Receipt) {
	for i := range receipts {
		if waitsForRoom(&receipts[i]) {
			receipts[i].Code, receipts[i].Reason = queue.CodeDraining, ""
			receipts[i].Error = "shutting down: send it again after the restart"
		}
	}
}

// awaitRoom waits until there may be room; false: it is not worth waiting.
//
// Each sign of room wakes one of those who wait, who passes it on if there was
// enough: waking all would make a hundred producers ask for each place that comes
// free. Since one may wait for room of another kind than the one that came, each
// asks by itself as well, seldom.
func (r *Runner) awaitRoom(ctx context.Context) bool {
	if r.settings.Load().RejectWhenFull {
		return false
	}
	retry := time.NewTimer(retryAfter)
	defer retry.Stop()
	select {
	case <-r.room:
		return true
	case <-retry.C:
		return true
	case <-r.draining:
	case <-r.failed:
	case <-ctx.Done():
	}
	return false
}

// raiseSaturated says that lines wait, with the ids of the first one.
func (r *Runner) raiseSaturated(first *queue.Submission, reason queue.Saturation) {
	m := &first.Message
	r.raise(queue.CodeSaturated, m.Route, "no room for new lines", &queue.Summary{
		TraceID: m.TraceID, SourceHash: m.SourceHash, Decision: m.Decision, PartitionKey: m.PartitionKey,
	}, "reason", string(reason))
}

// logQuarantined says of every line that the gates refused who it was.
func (r *Runner) logQuarantined(lines []queue.Submission, receipts []queue.Receipt) {
	for i := range receipts {
		rc := &receipts[i]
		if (rc.Status != queue.Quarantined && rc.Status != queue.Conflict) || rc.Repeat {
			continue
		}
		m := &lines[i].Message
		r.raise(rc.Code, m.Route, "line quarantined", &queue.Summary{
			Seq: rc.Seq, TraceID: m.TraceID, SourceHash: m.SourceHash, Decision: m.Decision, PartitionKey: m.PartitionKey,
		}, "field", rc.Field, "error", rc.Error)
	}
}

// appendIDs adds what is known of a message: a line that waits has no seq yet, and of one
// that cannot be read nothing may be known.
func appendIDs(fields []any, m *queue.Summary) []any {
	if m.Seq != 0 {
		fields = append(fields, "seq", m.Seq)
	}
	if m.TraceID != "" {
		fields = append(fields, "trace_id", m.TraceID)
	}
	if m.SourceHash != (queue.Hash{}) {
		fields = append(fields, "source_hash", m.SourceHash.String())
	}
	if m.Decision != "" {
		fields = append(fields, "match_decision", string(m.Decision))
	}
	return fields
}

// raise logs a code with the ids of the message it concerns, and tells the
// observer.
func (r *Runner) raise(code queue.Code, route queue.Route, what string, m *queue.Summary, args ...any) {
	fields := []any{"code", string(code)}
	if route != "" {
		fields = append(fields, "route", string(route))
	}
	if m != nil {
		fields = appendIDs(fields, m)
	}
	r.log.Warn(what, append(fields, args...)...)
	if r.observer.Raised != nil {
		r.observer.Raised(code, route)
	}
}
