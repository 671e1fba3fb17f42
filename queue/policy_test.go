package queue

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The arithmetic of delays (B49): a shift of one second by 34 is negative, by 63 it
// is zero, and what retries without a delay spins.
func TestRetryDelay_never_falls_and_never_overflows(t *testing.T) {
	policies := []Policy{
		{RetryInitial: time.Second, RetryMax: time.Second},
		{RetryInitial: time.Millisecond, RetryMax: 10_000 * time.Hour},
		{RetryInitial: 10_000 * time.Hour, RetryMax: 10_000 * time.Hour},
		{RetryInitial: 7 * time.Millisecond, RetryMax: 5 * time.Minute},
		{RetryInitial: 1, RetryMax: math.MaxInt64 / 2},
		{},
	}
	for _, p := range policies {
		for _, die := range []uint32{0, 1, 1 << 31, math.MaxUint32} {
			last := time.Duration(0)
			for n := 1; n <= 100; n++ {
				d := p.RetryDelay(n, die, 0)
				if d < last || d > p.RetryMax || d < min(p.RetryInitial, p.RetryMax)/2 {
					t.Fatalf("%+v, die %d: failure %d waits %v after %v", p, die, n, d, last)
				}
				last = d
			}
			if low := p.RetryMax / 2; last < low {
				t.Errorf("%+v, die %d: after 100 failures it waits %v, want at least %v", p, die, last, low)
			}
		}
	}
}

func TestRetryDelay_is_no_less_than_was_asked_for_and_no_more_than_the_cap(t *testing.T) {
	p := Policy{RetryInitial: time.Second, RetryMax: time.Minute}
	for _, c := range []struct{ after, least, most time.Duration }{
		{0, time.Second / 2, time.Second},
		{-time.Hour, time.Second / 2, time.Second},
		{time.Second / 4, time.Second / 2, time.Second},
		{30 * time.Second, 30 * time.Second, 30 * time.Second},
		{time.Hour, time.Minute, time.Minute},
		{math.MaxInt64, time.Minute, time.Minute},
	} {
		for _, die := range []uint32{0, 1 << 31, math.MaxUint32} {
			if d := p.RetryDelay(1, die, c.after); d < c.least || d > c.most {
				t.Errorf("asked for %v, die %d: %v, want %v to %v", c.after, die, d, c.least, c.most)
			}
		}
	}
}

// What failed together does not come back together (B49): the half of a delay that is
// random spreads a thousand over all of it.
func TestRetryDelay_spreads_what_failed_together(t *testing.T) {
	p := Policy{RetryInitial: time.Minute, RetryMax: time.Hour}
	die := rand.New(rand.NewPCG(1, 2))
	const n, parts = 1000, 10
	var in [parts]int
	for range n {
		d := p.RetryDelay(1, die.Uint32(), 0) - 30*time.Second
		in[min(parts-1, int(d*parts/(30*time.Second)))]++
	}
	for i, got := range in {
		if got < n/parts/2 || got > n/parts*2 {
			t.Errorf("part %d of %d of the window has %d of %d", i+1, parts, got, n)
		}
	}
}
