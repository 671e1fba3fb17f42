package dispatch

import (
	"sync"
	"time"

	"breakwater/queue"
)

// soonest is the earliest time of what was scheduled since the feeder asked for it.
// The zero value is ready.
type soonest struct {
	mu sync.Mutex
	at time.Time
}

// note takes a time in.
func (s *soonest) note(at time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at.IsZero() || at.Before(s.at) {
		s.at = at
	}
}

// earlier returns the earlier of what was noted and other, where zero is never, and
// forgets what was noted.
func (s *soonest) earlier(other time.Time) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.at
	s.at = time.Time{}
	if at.IsZero() || !other.IsZero() && other.Before(at) {
		return other
	}
	return at
}

// noteScheduled tells the feeder when messages that were just accepted fall due: it
// claims nothing, and so would not hear of them, while nobody has room.
func (r *Runner) noteScheduled(lines []queue.Submission, receipts []queue.Receipt) {
	for i := range receipts {
		if at := lines[i].Message.NotBefore; !at.IsZero() && receipts[i].Status == queue.Accepted {
			r.soonest.note(at)
		}
	}
}
