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
// in all. What cannot be done keeps nothing else from being done.
func (e *expirer) round(stop context.Context) {
	var keys int64
	var trimmed queue.TrimResult
	e.steps(stop, func(now time.Time) (more bool, err error) {
		did, err := e.expire(stop, now)
		keys += did.Keys
		return did.More, err
	})
	e.steps(stop, func(now time.Time) (more bool, err error) {
		did, err := e.trim(stop, now)
		trimmed.Records, trimmed.Copies = trimmed.Records+did.Records, trimmed.Copies+did.Copies
		return did.More, err
	})
	if keys > 0 || trimmed.Records > 0 {
		e.r.log.Info("retention", "keys_forgotten", keys, "records_removed", trimmed.Records, "records_copied", trimmed.Copies)
	}
	if keys > 0 {
		e.r.room.raise() // for lines that wait because of max_ledger_keys
	}
}

// steps takes one step after the other, with pauses.
func (e *expirer) steps(stop context.Context, step func(now time.Time) (more bool, err error)) {
	for {
		began := e.r.now()
		more, err := step(began)
		switch {
		case err != nil && fatal(err):
			e.r.fail("retention", err)
			return
		case err != nil && stop.Err() == nil:
			e.r.log.Warn("retention could do nothing; it tries again", "error", err.Error())
		}
		if err != nil || !more || !e.r.rests(stop, max(expirePause, expireRest*e.r.now().Sub(began))) {
			return
		}
	}
}

// expire counts the time that has passed, and forgets keys. Time in which it could not
// (no room, say) is not lost: the next step counts it.
func (e *expirer) expire(stop context.Context, now time.Time) (queue.ExpireResult, error) {
	r := queue.ExpireRequest{
		Now: now, First: e.last.IsZero(), Epoch: queue.EpochLength, Ledger: e.r.settings.Load().Retention.Ledger,
	}
	if !r.First {
		r.Passed = now.Sub(e.last)
	}
	did, err := e.r.store.Expire(stop, r)
	if err == nil {
		e.last = now
	}
	if told := e.r.observer.Expired; told != nil && (err == nil || stop.Err() == nil) {
		told(did, err)
	}
	return did, err
}

// trim removes records from the beginning of the trail.
func (e *expirer) trim(stop context.Context, now time.Time) (queue.TrimResult, error) {
	keep := e.r.settings.Load().Retention
	did, err := e.r.store.Trim(stop, queue.TrimRequest{Now: now, Audit: keep.Audit, RequireArchive: keep.RequireArchive})
	if told := e.r.observer.Trimmed; told != nil && (err == nil || stop.Err() == nil) {
		told(did, err)
	}
	return did, err
}
