package dispatch

import (
	"context"
	"errors"
	"time"

	"breakwater/queue"
)

const (
	// renewParts is how many times a lease is renewed in its length.
	renewParts = 3
	// reclaimEvery is how often expired leases are looked for, reclaimMax how many
	// are taken back in one transaction.
	reclaimEvery = time.Second
	reclaimMax   = 1024
)

// keepLeases renews the leases of what workers hold and takes back what expired,
// until ctx ends: after the last worker has left.
func (r *Runner) keepLeases(ctx context.Context) {
	reclaim := time.NewTicker(reclaimEvery)
	defer reclaim.Stop()
	renewed := r.now()
	for {
		select {
		case <-reclaim.C:
		case <-r.failed:
			return
		case <-ctx.Done():
			return
		}
		if lease := r.settings.Load().Lease; r.now().Sub(renewed) >= min(lease/renewParts, time.Minute) {
			r.renew(ctx, lease)
			renewed = r.now()
		}
		r.reclaim(ctx)
	}
}

// renew extends the leases of every worker.
func (r *Runner) renew(ctx context.Context, lease time.Duration) {
	for _, w := range r.workers {
		tokens := w.tokens()
		if len(tokens) == 0 {
			continue
		}
		_, err := r.store.Extend(ctx, queue.ExtendRequest{Now: r.now(), Owner: w.owner(), Tokens: tokens, Lease: lease})
		if err != nil && ctx.Err() == nil {
			r.fail("renew leases", err)
			return
		}
	}
}

// reclaim takes back expired leases and says of each whose it was.
func (r *Runner) reclaim(ctx context.Context) {
	back, err := r.store.Reclaim(ctx, queue.ReclaimRequest{Now: r.now(), Policy: r.settings.Load().Policy, Max: reclaimMax})
	switch {
	case errors.Is(err, queue.ErrNoRoom):
		return
	case err != nil && ctx.Err() == nil:
		r.fail("reclaim leases", err)
		return
	}
	for i := range back {
		b := &back[i]
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
