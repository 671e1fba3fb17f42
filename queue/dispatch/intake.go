package dispatch

import (
	"context"
	"errors"
	"time"

	"breakwater/queue"
)

const (
	// retryAfter is what a producer is told to wait before it sends a refused line
	// again, and how often waiting lines try again without a sign of room: disks
	// are freed without telling us.
	retryAfter = 500 * time.Millisecond
	// MaxSubmit bounds the lines of one Submit, so that one producer's burst does
	// not keep the others out of a commit.
	MaxSubmit = 1024
)

// RetryAfter is the retry_after_ms of a rejected line.
const RetryAfter = retryAfter

// Submit stores lines of one producer, in order, and returns their receipts after
// the commit. While there is no room it does not return, unless RejectWhenFull is
// set, the drain begins or ctx ends: the lines that still wait are then rejected.
// The error is the store's failure, after which no receipt may be given.
func (r *Runner) Submit(ctx context.Context, peer queue.Peer, lines []queue.Submission) (queue.AdmitResult, error) {
	res, err := r.admit(ctx, peer, lines)
	if err != nil {
		return queue.AdmitResult{}, err
	}
	for done := firstRejected(res.Receipts); done >= 0; {
		r.raiseSaturated(&lines[done], res.Receipts[done].Reason)
		if r.settings.Load().RejectWhenFull || !r.awaitRoom(ctx) {
			break
		}
		again, err := r.admit(ctx, peer, lines[done:])
		if err != nil {
			return queue.AdmitResult{}, err
		}
		copy(res.Receipts[done:], again.Receipts)
		res.Head = again.Head
		next := firstRejected(again.Receipts)
		if next < 0 {
			return res, nil
		}
		done += next
	}
	if r.Draining() {
		markDraining(res.Receipts)
	}
	return res, nil
}

// admit stores lines as far as there is room.
func (r *Runner) admit(ctx context.Context, peer queue.Peer, lines []queue.Submission) (queue.AdmitResult, error) {
	start := r.now()
	res, err := r.store.Admit(ctx, queue.AdmitRequest{Now: start, Peer: peer, Limits: r.settings.Load().Limits, Lines: lines})
	switch {
	case errors.Is(err, queue.ErrNoRoom), err != nil && ctx.Err() != nil:
		return rejectAll(len(lines), err), nil
	case err != nil:
		r.fail("admit", err)
		return res, err
	}
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

// firstRejected returns the index of the first line that waits for room, or -1.
func firstRejected(receipts []queue.Receipt) int {
	for i := range receipts {
		if receipts[i].Status == queue.Rejected && receipts[i].Code == queue.CodeSaturated {
			return i
		}
	}
	return -1
}

// markDraining makes the lines that still wait refused for the drain.
func markDraining(receipts []queue.Receipt) {
	for i := range receipts {
		if receipts[i].Status == queue.Rejected && receipts[i].Code == queue.CodeSaturated {
			receipts[i].Code, receipts[i].Reason = queue.CodeDraining, ""
			receipts[i].Error = "shutting down: send it again after the restart"
		}
	}
}

// awaitRoom waits until there may be room; false: it is not worth waiting.
func (r *Runner) awaitRoom(ctx context.Context) bool {
	retry := time.NewTimer(retryAfter)
	defer retry.Stop()
	select {
	case <-r.room.wait():
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

// raise logs a code with the ids of the message it concerns, and tells the
// observer.
func (r *Runner) raise(code queue.Code, route queue.Route, what string, m *queue.Summary, args ...any) {
	fields := []any{"code", string(code)}
	if route != "" {
		fields = append(fields, "route", string(route))
	}
	if m != nil {
		fields = append(fields, "seq", m.Seq, "trace_id", m.TraceID, "source_hash", m.SourceHash.String(),
			"match_decision", string(m.Decision))
	}
	r.log.Warn(what, append(fields, args...)...)
	if r.observer.Raised != nil {
		r.observer.Raised(code, route)
	}
}
