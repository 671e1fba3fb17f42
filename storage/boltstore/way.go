package boltstore

import (
	"context"
	"sync/atomic"
	"time"
)

// rightOfWay is the commits': while one is being written, a copy begins no piece. The
// committer itself waits for nothing here, whatever a copy does.
type rightOfWay struct {
	under atomic.Pointer[chan struct{}] // closed when the commit under way has ended; nil: none is
	ended atomic.Uint64                 // commits
}

// take notes that a commit begins; the committer calls what it returns at its end.
func (w *rightOfWay) take() (end func()) {
	ended := make(chan struct{})
	w.under.Store(&ended)
	return func() {
		w.under.Store(nil)
		w.ended.Add(1)
		close(ended)
	}
}

// give waits for the end of the commit that is under way, if one is, but not for longer
// than patience: then whoever gives way has its turn, too. So it has one after each
// commit at least, and is not held up for ever by a store that never rests.
func (w *rightOfWay) give(ctx context.Context, patience time.Duration) {
	ended := w.under.Load()
	if ended == nil {
		return
	}
	enough := time.NewTimer(patience)
	defer enough.Stop()
	select {
	case <-*ended:
	case <-enough.C:
	case <-ctx.Done():
	}
}
