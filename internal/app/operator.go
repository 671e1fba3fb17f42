package app

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"time"

	"breakwater/internal/control"
	"breakwater/internal/metrics"
	"breakwater/queue"
	"breakwater/queue/dispatch"
)

// operated is the store as operators use it: what they change may make work
// claimable or room for lines, so the core is told to look again.
type operated struct {
	queue.Store
	runner *dispatch.Runner
}

// Resume lets claims go on.
func (o operated) Resume(ctx context.Context, a queue.Action) error {
	defer o.runner.Wake()
	return o.Store.Resume(ctx, a)
}

// Replay puts dead letters back.
func (o operated) Replay(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	defer o.runner.Wake()
	return o.Store.Replay(ctx, a, seqs)
}

// Discard ends dead letters.
func (o operated) Discard(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	defer o.runner.Wake()
	return o.Store.Discard(ctx, a, seqs)
}

// Revoke takes leases back, from those who hold them too.
func (o operated) Revoke(ctx context.Context, a queue.Action, p queue.Policy, leases []queue.LeaseRef) ([]queue.Revoked, error) {
	revoked, err := o.Store.Revoke(ctx, a, p, leases)
	o.runner.Revoked(revoked)
	return revoked, err
}

// ReleaseKeys undoes an operator's hold, or ends a wait.
func (o operated) ReleaseKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error) {
	defer o.runner.Wake()
	return o.Store.ReleaseKeys(ctx, a, keys)
}

// readiness is what the process says of itself for /readyz.
func (a *appliance) readiness(st *queue.StoreStatus, now time.Time) control.Readiness {
	r := control.Readiness{Draining: a.runner.Draining(), Consumers: a.runner.Consumers()}
	for _, o := range a.runner.Unavailable() {
		r.Unavailable = append(r.Unavailable, control.Outage(o))
	}
	r.Waiting, r.Saturated = a.runner.Waiting()
	r.Serving, r.MaxAttempts = a.runner.Serving(), a.config().Queue.MaxAttempts
	if st != nil {
		if recent, known := a.runner.Recent(st, now); known {
			r.Recent = (*control.Recent)(&recent)
		}
		r.Stuck = a.runner.Stuck(st, now)
		if r.Saturated == "" {
			r.Saturated = saturated(st, settingsOf(a.config()).Limits)
		}
	}
	return r
}

// saturated names the limit that new lines meet now, if any.
func saturated(st *queue.StoreStatus, l queue.Limits) queue.Saturation {
	switch {
	case l.MaxBacklog > 0 && st.Backlog() >= l.MaxBacklog:
		return queue.FullBacklog
	case l.MaxOpenKeys > 0 && st.OpenKeys >= l.MaxOpenKeys:
		return queue.FullOpenKeys
	case l.MaxDeadLetters > 0 && st.Dead >= l.MaxDeadLetters:
		return queue.FullDeadLetters
	case l.MaxLedgerKeys > 0 && st.LedgerKeys >= l.MaxLedgerKeys:
		return queue.FullLedger
	case l.MaxStoreBytes > 0 && st.FileBytes-st.FreeBytes >= l.MaxStoreBytes:
		return queue.FullStore
	case l.MinFreeBytes > 0 && st.DiskFree >= 0 && st.DiskFree+st.FreeBytes < l.MinFreeBytes:
		return queue.FullDisk
	}
	return ""
}

// health is what the process says of itself for a scrape.
func (a *appliance) health(st *queue.StoreStatus, at time.Time) metrics.Health {
	h := metrics.Health{Draining: a.runner.Draining(), Stuck: a.runner.Stuck(st, at), Limits: settingsOf(a.config()).Limits}
	if h.Waiting, h.Saturated = a.runner.Waiting(); h.Saturated == "" {
		h.Saturated = saturated(st, h.Limits)
	}
	return h
}

// drainFor begins the drain because an operator asked for it.
func (a *appliance) drainFor(by queue.Action) {
	a.log.Info("drain asked for", "by", by.By, "reason", by.Reason)
	a.draining(&ordered{by})
}

// ordered is why a drain began that an operator asked for.
type ordered struct{ by queue.Action }

// Error says so; nobody is shown it.
func (*ordered) Error() string { return "an operator asked for the drain" }

// processUser is who started the process, as far as the host says.
func processUser() string {
	u, err := user.Current()
	if err != nil {
		return fmt.Sprintf("uid %d", os.Getuid())
	}
	return u.Username
}
