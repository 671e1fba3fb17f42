package dispatch

import (
	"context"
	"errors"
	"time"

	"breakwater/queue"
)

const (
	// renewParts is how many times a lease is renewed in its length, renewEvery
	// the longest time between two renewals.
	renewParts = 3
	renewEvery = time.Minute
	// reclaimEvery is how often expired leases are looked for, reclaimMax how many
	// are taken back in one transaction.
	reclaimEvery = time.Second
	reclaimMax   = 1024
)

// keepLeases renews the leases of what workers hold and takes back what expired,
// until ctx ends: after the last worker has left.
//
// Each round asks by the time at which it began. A store that keeps its callers
// waiting (a slow disk) must not find leases expired that were renewed in time.
func (r *Runner) keepLeases(ctx context.Context) {
	renewed, reclaimed := r.now(), r.now()
	for {
		every := min(r.settings.Load().Lease/renewParts, renewEvery)
		timer := time.NewTimer(min(every, reclaimEvery))
		select {
		case <-timer.C:
		case <-r.failed:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil || r.hasFailed() {
			return
		}
		now := r.now()
		if now.Sub(renewed) >= every {
			r.renew(ctx, now, func(time.Time) bool { return true })
			renewed = now
		}
		if now.Sub(reclaimed) >= reclaimEvery {
			r.reclaim(ctx, now)
			r.putBackUnread(ctx, now)
			reclaimed = now
		}
	}
}

// renew extends the leases of workers whose first deadline is due, and reports whether it
// could.
//
// A worker lives in this process, so nobody else can have got what it holds unless
// reclaim gave it away, and that comes after. So a renewal that is late, because
// the process was stopped or the store was slow, is judged by the last moment at
// which the leases were good, and reaches a full length from now all the same.
func (r *Runner) renew(ctx context.Context, now time.Time, due func(deadline time.Time) bool) bool {
	lease := r.settings.Load().Lease
	for _, w := range r.crew.holders() {
		tokens, deadline := w.tokens()
		if len(tokens) == 0 || !due(deadline) {
			continue
		}
		judged := now
		if deadline.Before(now) {
			judged = deadline
		}
		results, err := r.store.Extend(ctx, queue.ExtendRequest{
			Now: judged, Owner: w.owner(), Tokens: tokens, Lease: lease + now.Sub(judged),
		})
		switch {
		case err == nil:
			w.extended(tokens, results)
		case errors.Is(err, queue.ErrNoRoom):
			return false
		case fatal(err) || ctx.Err() == nil:
			r.fail("renew leases", err)
			return false
		}
	}
	return true
}

// reclaim takes back expired leases and says of each whose it was.
func (r *Runner) reclaim(ctx context.Context, now time.Time) {
	if !r.moving.take(ctx) {
		return
	}
	defer r.moving.end()
	// A claim that was waited for has given leases out whose time may be over by now, as its
	// commit took longer than they are long. Their worker is at work, and is known only now.
	if !r.renew(ctx, now, now.After) {
		return
	}
	back, err := r.store.Reclaim(ctx, queue.ReclaimRequest{Now: now, Policy: r.settings.Load().Policy, Max: reclaimMax})
	if err != nil {
		if !errors.Is(err, queue.ErrNoRoom) && (fatal(err) || ctx.Err() == nil) {
			r.fail("reclaim leases", err)
		}
		return
	}
	for i := range back {
		b := &back[i]
		if s := r.desk.find(b.Owner); s != nil {
			s.lapse(b.Token)
		}
		r.raise(queue.CodeExpired, "", "lease expired; the message goes back to its place", &b.Message,
			"worker", b.Owner.Name, "counted", b.Counted)
		if b.DeadCode != "" {
			r.raise(b.DeadCode, "", "dead letter", &b.Message)
		}
	}
	if len(back) > 0 {
		r.wake.raise()
	}
}
