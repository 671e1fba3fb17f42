package archive

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"breakwater/storage/boltstore"
)

// watched is a guard over a disk of which the test says how much is free.
type watched struct {
	*guard
	free  int64
	there int64 // on the archive's disk
	clock time.Time
}

const mib = 1 << 20

func newWatched(t *testing.T, l Limits) *watched {
	t.Helper()
	store := filepath.Join(t.TempDir(), "breakwater.db")
	if err := os.WriteFile(store, make([]byte, mib), 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = to.Close() })
	w := &watched{clock: time.Unix(1_000_000, 0), free: 1000 * mib, there: 1000 * mib}
	w.guard = &guard{to: to, store: store, limits: l, now: func() time.Time { return w.clock },
		space: func(dir string) (int64, error) {
			if dir == filepath.Dir(store) {
				return w.free, nil
			}
			return w.there, nil
		}}
	return w
}

func (w *watched) wants(t *testing.T, what string, s boltstore.SnapshotStep, want Kind) {
	t.Helper()
	err := w.step(s)
	var e *Error
	switch {
	case want < 0 && err != nil:
		t.Errorf("%s: %v", what, err)
	case want >= 0 && (!errors.As(err, &e) || e.Kind != want):
		t.Errorf("%s: got %v, want kind %d", what, err, want)
	}
}

const fine Kind = -1

func TestGuard_leaves_room_for_the_copy_and_for_what_is_written_meanwhile(t *testing.T) {
	begin := boltstore.SnapshotStep{Total: 8 * mib}
	w := newWatched(t, Limits{MinFreeBytes: 64 * mib})
	w.there = 8 * mib
	w.wants(t, "a destination without room for the manifest", begin, NoRoom)
	w.there = 9 * mib
	w.free = 9 * mib
	w.wants(t, "one disk for both", begin, NoRoom)
	// 64 MiB stay free, 9 are for the archive, 17 for growth: an eighth of 8, and 16.
	w.free, w.there = 90*mib-1, 1000*mib
	w.wants(t, "a byte too little", begin, NoRoom)
	w.free++
	w.wants(t, "just enough", begin, fine)
}

func TestGuard_stops_when_the_store_s_disk_fills(t *testing.T) {
	w := newWatched(t, Limits{MinFreeBytes: 64 * mib})
	w.wants(t, "at first", boltstore.SnapshotStep{Total: 100 * mib}, fine)
	w.free = 60 * mib
	w.wants(t, "free pages in the file are room", boltstore.SnapshotStep{Done: 8 * mib, Total: 100 * mib, Inside: 4 * mib}, fine)
	w.wants(t, "no more", boltstore.SnapshotStep{Done: 16 * mib, Total: 100 * mib, Inside: 4*mib - 1}, NoRoom)
}

func TestGuard_stops_before_the_file_comes_to_its_limit(t *testing.T) {
	w := newWatched(t, Limits{MaxStoreBytes: mib})
	w.wants(t, "at first", boltstore.SnapshotStep{Total: mib, Inside: 1}, fine)
	w.wants(t, "it came to it", boltstore.SnapshotStep{Done: mib / 2, Total: mib}, NoRoom)
	w = newWatched(t, Limits{MaxStoreBytes: mib})
	w.wants(t, "a store that is full already", boltstore.SnapshotStep{Total: mib}, fine)
	w.wants(t, "may be archived", boltstore.SnapshotStep{Done: mib / 2, Total: mib}, fine)
}

func TestGuard_a_copy_keeps_a_pace(t *testing.T) {
	w := newWatched(t, Limits{})
	step := func(done int64) boltstore.SnapshotStep { return boltstore.SnapshotStep{Done: done, Total: 500 * mib} }
	w.wants(t, "at first", step(0), fine)
	w.clock = w.clock.Add(paceWindow - 1)
	w.wants(t, "before the first look", step(1), fine)
	w.clock = w.clock.Add(1)
	w.wants(t, "a MiB a second", step(10*mib), fine)
	w.clock = w.clock.Add(paceWindow)
	w.wants(t, "less in the window after it", step(20*mib-1), TooSlow)
}
