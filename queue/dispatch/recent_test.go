package dispatch

import (
	"testing"
	"time"

	"breakwater/queue"
)

func TestRecent(t *testing.T) {
	at := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	r := &Runner{}
	st := func(n int64) *queue.StoreStatus {
		return &queue.StoreStatus{LastSeq: uint64(n * 3), Done: n * 2, Discarded: n}
	}
	if _, known := r.Recent(st(0), at); known {
		t.Error("known before the first sample")
	}
	r.samples.take(sampleOf(st(0), at))
	if _, known := r.Recent(st(1), at.Add(time.Second/2)); known {
		t.Error("known at once")
	}
	for n := range int64(100) {
		r.samples.take(sampleOf(st(n), at.Add(time.Duration(n)*5*time.Second)))
	}
	got, known := r.Recent(st(100), at.Add(500*time.Second))
	want := Recent{Window: 65 * time.Second, Stored: 13 * 3, Done: 13 * 2, Discarded: 13}
	if !known || got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if n := len(r.samples.all); n > 14 {
		t.Errorf("%d samples are kept", n)
	}
}
