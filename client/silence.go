package client

import (
	"sync"
	"time"
)

const (
	// firstSilence is how long a server may owe an answer before Producer.Silent is told,
	// and how often it is looked whether it does; nextSilence how long until it is told again.
	firstSilence = 10 * time.Second
	nextSilence  = time.Minute
)

// silence is the time for which a server has answered nothing.
type silence struct {
	tell func(waited time.Duration, lines int)
	w    *window

	mu    sync.Mutex
	since time.Time   // when it was last looked and an answer was owed; zero: none was
	timer *time.Timer // nil: nobody wants to know, or it is over
}

// listen begins one for a connection.
func (r *run) listen(w *window) *silence {
	s := &silence{tell: r.Silent, w: w}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tell != nil {
		s.timer = time.AfterFunc(firstSilence, s.lasts)
	}
	return s
}

// lasts tells how long it has lasted, if an answer is owed at all: where the input is
// slow, there is nothing to answer.
func (s *silence) lasts() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return
	}
	lines, owed := s.w.waits()
	switch {
	case !owed:
		s.since = time.Time{}
		s.timer.Reset(firstSilence)
	case s.since.IsZero(): // since when, nobody knows: from now on
		s.since = time.Now()
		s.timer.Reset(firstSilence)
	default:
		s.tell(time.Since(s.since), lines)
		s.timer.Reset(nextSilence)
	}
}

// broken says that something was answered.
func (s *silence) broken() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.since = time.Time{}
		s.timer.Reset(firstSilence)
	}
}

// end ends it. Nobody is told anything when it has returned.
func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}
