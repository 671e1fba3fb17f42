package dispatch

import (
	"sync"
	"time"

	"breakwater/queue"
)

// recentWindow is how far back Recent looks.
const recentWindow = time.Minute

// samples are the store's totals at some moments, taken when the lag is watched: what
// happened lately is a difference of two of them.
type samples struct {
	mu  sync.Mutex
	all []sample // the oldest first; all but the first within the window
}

type sample struct {
	at              time.Time
	stored          uint64
	done, discarded int64
}

func sampleOf(st *queue.StoreStatus, now time.Time) sample {
	return sample{at: now, stored: st.LastSeq, done: st.Done, discarded: st.Discarded}
}

// take adds a sample, and drops those that are not needed any more.
func (s *samples) take(one sample) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, one)
	for len(s.all) > 1 && one.at.Sub(s.all[1].at) >= recentWindow {
		s.all = s.all[1:]
	}
}

// oldest returns the sample to compare with.
func (s *samples) oldest() (sample, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) == 0 {
		return sample{}, false
	}
	return s.all[0], true
}

// Recent is what happened in a length of time up to now: lines that were stored,
// exceptions that were settled.
type Recent struct {
	Window                  time.Duration
	Stored, Done, Discarded int64
}

// Recent returns what happened in the last minute or so, or since Run began; false: it
// has just begun.
func (r *Runner) Recent(st *queue.StoreStatus, now time.Time) (Recent, bool) {
	from, ok := r.samples.oldest()
	window := now.Sub(from.at)
	if !ok || window < time.Second {
		return Recent{}, false
	}
	return Recent{
		Window: window, Stored: int64(st.LastSeq - from.stored), Done: st.Done - from.done, Discarded: st.Discarded - from.discarded,
	}, true
}

// Serving says who works on each route, as far as this process knows.
func (r *Runner) Serving() (all []queue.Serving) {
	for _, name := range queue.Routes {
		s := queue.Serving{Route: name}
		if h := r.served(name); h != nil {
			s.InProcess = true
			var o Outage
			o, s.Down = h.health.outage()
			s.Since, s.Next, s.Text = o.Since, o.Next, o.Reason
		} else { // consumers get nothing of a route that the process serves
			s.Consumers, s.Room = r.ConsumersOf(name)
		}
		all = append(all, s)
	}
	return all
}
