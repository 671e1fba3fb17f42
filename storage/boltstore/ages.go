package boltstore

import (
	"maps"
	"slices"
	"time"

	"breakwater/queue"
)

const (
	// maxMinutes bounds the minutes of acceptance that are counted apart. When there
	// are more, the oldest of them, minutesAtOnce, are counted together from then on.
	maxMinutes    = 16 << 10
	minutesAtOnce = 4 << 10
)

// ageing counts messages by the minute of their first acceptance, so that their ages
// can be told at any moment without a walk. Even when there is a message of each
// minute, those that are counted together are at least eight and a half days older
// than the newest one: of over seven days, unless the clock is set back by more than
// a day.
type ageing struct {
	minutes map[int64]int64
	before  int64 // minutes below are counted together, in old
	old     int64
}

func newAgeing() ageing { return ageing{minutes: map[int64]int64{}} }

// add counts n messages of a minute in, or with n < 0 out.
func (a *ageing) add(minute, n int64) {
	if minute < a.before {
		a.old += n
		return
	}
	left := a.minutes[minute] + n
	if left == 0 {
		delete(a.minutes, minute)
		return
	}
	if a.minutes[minute] = left; len(a.minutes) > maxMinutes {
		a.fold()
	}
}

// fold counts the oldest minutes together.
func (a *ageing) fold() {
	for _, m := range slices.Sorted(maps.Keys(a.minutes))[:minutesAtOnce] {
		a.old += a.minutes[m]
		a.before = m + 1
		delete(a.minutes, m)
	}
}

// ages are the ages of what is counted, as of now.
func (a *ageing) ages(now time.Time) (out queue.Ages) {
	for minute, n := range a.minutes {
		out.Count(n, minute, now)
	}
	out.Over7d += a.old
	return out
}
