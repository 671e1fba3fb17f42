package boltstore

import (
	"testing"
	"time"

	"breakwater/queue"
)

// TestAgeing_stays_small: a message of every minute of two months. What is counted
// together is of over seven days, so the answer is that of counting each.
func TestAgeing_stays_small(t *testing.T) {
	const minutes = 60 * 24 * 60
	start := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	first := queue.Minute(start)
	a, most := newAgeing(), 0
	for m := range int64(minutes) {
		a.add(first+m, 2)
		most = max(most, len(a.minutes))
	}
	if most > maxMinutes {
		t.Errorf("%d minutes are counted apart, more than %d", most, maxMinutes)
	}
	now := start.Add((minutes - 1) * time.Minute)
	var want queue.Ages
	for m := range int64(minutes) {
		want.Count(2, first+m, now)
	}
	if got := a.ages(now); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	for m := range int64(minutes) {
		a.add(first+m, -2)
	}
	if got := a.ages(now); got != (queue.Ages{}) {
		t.Errorf("%+v are left of none", got)
	}
}
