package storetest

import (
	"time"
	"unsafe"

	"breakwater/queue"
)

// Clock is a machine's clock in a test. Like a real one it has two hands: the
// wall clock, which somebody may set, and elapsed time, which nobody can. Its
// times carry both, as those of time.Now do.
type Clock struct {
	wall    time.Time
	elapsed time.Duration
}

// NewClock returns a clock that stands at a fixed moment.
func NewClock() *Clock {
	return &Clock{wall: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC), elapsed: time.Hour}
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.wall = c.wall.Add(d)
	c.elapsed += d
}

// Step sets the wall clock forward, or back when d is negative. No time passes.
func (c *Clock) Step(d time.Duration) { c.wall = c.wall.Add(d) }

// Boot is what a new process sees: its monotonic clock begins anew. A store that
// kept a reading of the old one shows.
func (c *Clock) Boot() { c.elapsed = time.Minute }

// expire makes the request that a process makes at this moment; last is the elapsed
// time at its last one, 0 if there was none, and is moved.
func (c *Clock) expire(last *time.Duration) queue.ExpireRequest {
	r := queue.ExpireRequest{Now: c.Now(), First: *last == 0, Passed: c.elapsed - *last}
	*last = c.elapsed
	return r
}

// Now returns the time with a reading of the monotonic clock.
//
// There is no constructor for such a time whose two readings were stepped apart,
// which is what a person who sets the clock does; so this one is made by hand. It
// is the layout of time.Time in every Go version since 1.9 (see time/time.go):
// flag, seconds since 1885 and nanoseconds in wall, the monotonic reading in ext.
// TestClock holds it against the library.
func (c *Clock) Now() time.Time {
	const hasMonotonic = 1 << 63
	since1885 := c.wall.Unix() - time.Date(1885, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	raw := struct {
		wall uint64
		ext  int64
		loc  *time.Location
	}{
		wall: hasMonotonic | uint64(since1885)<<30 | uint64(c.wall.Nanosecond()),
		ext:  int64(c.elapsed),
	}
	return *(*time.Time)(unsafe.Pointer(&raw))
}
