package dispatch

import (
	"sync"
	"time"

	"breakwater/queue"
)

// health says whether a route's handler can be had. While it can't, the whole
// route backs off, and one message at a time probes it: a restart of the review
// API must not dead-letter anything.
type health struct {
	mu       sync.Mutex
	failures int       // in a row; 0: up
	since    time.Time // the first of them
	next     time.Time // when to probe
	reason   string    // of the latest, as the handler's side words it
	claimed  bool      // a probe was claimed and has not begun
	running  int       // deliveries of the route that run
}

// up reports whether the handler may be used freely.
func (h *health) up() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures == 0
}

// probeDue reports whether a probe may be claimed.
func (h *health) probeDue(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failures > 0 && !h.claimed && h.running == 0 && !h.next.After(now)
}

// probeClaimed notes that a probe is on its way to a worker.
func (h *health) probeClaimed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.claimed = true
}

// retryAt is when a probe may be claimed; zero: the handler is up, or is being
// probed.
func (h *health) retryAt() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures == 0 || h.claimed || h.running > 0 {
		return time.Time{}
	}
	return h.next
}

// begin reports whether a delivery of the route may be started, and notes that it
// is. While the handler is down only one may, and only when its time has come;
// what else is queued for the route goes back.
func (h *health) begin(now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failures > 0 {
		h.claimed = false
		if h.running > 0 || h.next.After(now) {
			return false
		}
	}
	h.running++
	return true
}

// answered notes what became of a delivery that was started. When its handler
// could not be had it returns how long the route waits now; zero if that was known
// already, because another worker had met the same failure.
func (h *health) answered(a *queue.Answer, p queue.Policy, now time.Time, random uint32) (wait time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.running--
	if !a.Unavailable {
		h.failures, h.since, h.next, h.reason = 0, time.Time{}, time.Time{}, ""
		return 0
	}
	h.reason = a.Reason
	if h.failures == 0 {
		h.since = now
	}
	if h.next.After(now) {
		// It may ask for longer than the one before it did: a Retry-After is obeyed
		// whichever of the requests that were on their way has it.
		if until := now.Add(min(a.After, p.RetryMax)); until.After(h.next) {
			h.next = until
		}
		return 0
	}
	h.failures++
	wait = p.RetryDelay(h.failures, random, a.After)
	h.next = now.Add(wait)
	return wait
}

// outage returns what is known of a handler that is down; false: it is up.
func (h *health) outage() (Outage, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Outage{Since: h.since, Next: h.next, Reason: h.reason}, h.failures > 0
}

// Outage is a handler that could not be had when it was last tried. What is for its
// route waits and counts no attempt. Next may be past: then the next exception that
// is claimable tries it. Reason is the latest failure, not escaped.
type Outage struct {
	Route       queue.Route
	Since, Next time.Time
	Reason      string
}

// Unavailable lists the in-process routes whose handler is down, in the order of
// [queue.Routes]; none: all are up, or have not been tried yet.
func (r *Runner) Unavailable() (down []Outage) {
	for _, name := range queue.Routes {
		if h := r.served(name); h != nil {
			if o, is := h.health.outage(); is {
				o.Route = name
				down = append(down, o)
			}
		}
	}
	return down
}

// Available reports whether a route has a handler here, and whether that one may be
// used: a handler that was never tried is up.
func (r *Runner) Available(name queue.Route) (up, inProcess bool) {
	h := r.served(name)
	return h != nil && h.health.up(), h != nil
}
