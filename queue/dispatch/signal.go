package dispatch

import "context"

// signal tells one goroutine to look again. Raised many times before it looks, it
// looks once; raised while nobody waits, the next one to wait looks at once.
type signal chan struct{}

func newSignal() signal { return make(signal, 1) }

func (s signal) raise() {
	select {
	case s <- struct{}{}:
	default:
	}
}

// turn is a mutex whose waiting a test's fake time sees through: the holder may be
// waiting for the store.
type turn chan struct{}

func newTurn() turn { return make(turn, 1) }

// take returns false, without the turn, when ctx ends first.
func (t turn) take(ctx context.Context) bool {
	select {
	case t <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t turn) end() { <-t }
