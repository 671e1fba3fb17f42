package dispatch

import (
	"context"
	"time"

	"breakwater/queue"
)

const (
	// expireEvery is how often retention looks for what has been kept for long enough.
	expireEvery = time.Minute
	// A step of retention is one commit of some milliseconds. While there is more to
	// do, the next one comes after expireRest times what it took, and after
	// expirePause at least: lines and answers are not to notice.
	expireRest  = 9
	expirePause = 50 * time.Millisecond
)

// expirer is who asks the store for retention.
type expirer struct {
	r    *Runner
	last time.Time // when a step was taken last; zero: not yet
}

// expire forgets what has been kept for long enough, until stop ends.
func (r *Runner) expire(stop context.Context) {
	e := expirer{r: r}
	for {
		e.round(stop)
		if !r.rests(stop, expireEvery) {
			return
		}
	}
}

// rests waits for a while; it returns false when the taking ends meanwhile.
func (r *Runner) rests(stop context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.draining:
	case <-r.failed:
	case <-stop.Done():
	}
	return false
}

// round takes steps until there is nothing left to do for now, and says what was done
// in all.
func (e *expirer) round(stop context.Context) {
	var total queue.ExpireResult
	for {
		began := e.r.now()
		did, err := e.step(stop, began)
		if err != nil {
			break
		}
		total.Keys += did.Keys
		if !did.More || !e.r.rests(stop, max(expirePause, expireRest*e.r.now().Sub(began))) {
			break
		}
	}
	if total.Keys > 0 {
		e.r.log.Info("retention", "keys_forgotten", total.Keys)
		e.r.room.raise() // for lines that wait because of max_ledger_keys
	}
}

// step takes one step.
func (e *expirer) step(stop context.Context, now time.Time) (queue.ExpireResult, error) {
	r := queue.ExpireRequest{
		Now: now, First: e.last.IsZero(), Epoch: queue.EpochLength, Ledger: e.r.settings.Load().Retention.Ledger,
	}
	if !r.First {
		r.Passed = now.Sub(e.last)
	}
	did, err := e.r.store.Expire(stop, r)
	switch {
	case err == nil:
		e.last = now
	case fatal(err):
		e.r.fail("expire", err)
	case stop.Err() == nil:
		// No room, say. What time has passed is not lost: the next step counts it.
		e.r.log.Warn("retention could do nothing; it tries again", "error", err.Error())
	}
	if told := e.r.observer.Expired; told != nil && (err == nil || stop.Err() == nil) {
		told(did, err)
	}
	return did, err
}
