package dispatch

import (
	"sync"

	"breakwater/queue"
)

// waiters counts the producers whose lines wait for room, by the limit that the
// first of these lines met when it was last asked for. It is the one place that
// knows a disk is full of other people's files: the store's status does not say.
type waiters struct {
	mu sync.Mutex
	by map[queue.Saturation]int
}

// move counts one producer at another limit than before; "": at none.
func (w *waiters) move(from, to queue.Saturation) {
	if from == to {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.by == nil {
		w.by = map[queue.Saturation]int{}
	}
	if from != "" {
		if w.by[from]--; w.by[from] == 0 {
			delete(w.by, from)
		}
	}
	if to != "" {
		w.by[to]++
	}
}

// most returns how many wait, and the limit that most of them met; of several, the
// first by name, so that two who ask at once are told the same.
func (w *waiters) most() (all int, reason queue.Saturation) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for at, n := range w.by {
		all += n
		if n > w.by[reason] || n == w.by[reason] && at < reason {
			reason = at
		}
	}
	return all, reason
}

// Waiting returns how many producers have lines that wait for room now, and the
// limit that most of them met; 0 and "": none. With RejectWhenFull nobody waits.
func (r *Runner) Waiting() (producers int, reason queue.Saturation) { return r.waiters.most() }
