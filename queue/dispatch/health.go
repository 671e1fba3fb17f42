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
	next     time.Time // when to probe
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
		h.failures, h.next = 0, time.Time{}
		return 0
	}
	if h.next.After(now) {
		return 0
	}
	h.failures++
	wait = p.RetryDelay(h.failures, random, a.After)
	h.next = now.Add(wait)
	return wait
}
