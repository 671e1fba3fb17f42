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
	other bool  // which is another one
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
		},
		same: func(*os.File, string) (bool, error) { return !w.other, nil }}
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
	w.free, begin.Inside = 85*mib, 5*mib
	w.wants(t, "free pages in the file are room", begin, fine)
}

// TestGuard_another_disk_needs_room_for_the_archive_only: however full the store's own
// disk is, what is on it can be brought to another one.
func TestGuard_another_disk_needs_room_for_the_archive_only(t *testing.T) {
	begin := boltstore.SnapshotStep{Total: 1000 * mib}
	next := boltstore.SnapshotStep{Done: 1, Total: 1000 * mib}
	for _, c := range []struct {
		what  string
		free  int64 // at first, on the store's disk
		least int64 // what may be left of it
	}{
		{"room for all that could be written", 500 * mib, 64*mib + ahead},
		{"room for little", 90 * mib, 64*mib + ahead},
		{"hardly any room", 68 * mib, 66 * mib},
		{"none above the reserve", 64 * mib, 32 * mib},
		{"a disk that was full before", 10 * mib, 5 * mib},
		{"one without a free byte", 0, 0},
	} {
		w := newWatched(t, Limits{MinFreeBytes: 64 * mib})
		w.other, w.there, w.free = true, 1001*mib, c.free
		w.wants(t, c.what, begin, fine)
		w.free = c.least
		w.wants(t, c.what+", and as much as is left to it", next, fine)
		if w.free--; c.least > 0 {
			w.wants(t, c.what+", and a byte less", next, NoRoom)
		}
	}
	w := newWatched(t, Limits{MinFreeBytes: 64 * mib})
	w.other, w.there, w.free = true, 1001*mib-1, 1000*mib
	w.wants(t, "no room for the archive", begin, NoRoom)
}

// TestGuard_stops_before_the_store_s_disk_is_full: a copy ends before the intake, which
// waits at 64 MiB, has to.
func TestGuard_stops_before_the_store_s_disk_is_full(t *testing.T) {
	w := newWatched(t, Limits{MinFreeBytes: 64 * mib})
	w.wants(t, "at first", boltstore.SnapshotStep{Total: 100 * mib}, fine)
	w.free = 60*mib + ahead
	w.wants(t, "free pages in the file are room", boltstore.SnapshotStep{Done: 8 * mib, Total: 100 * mib, Inside: 4 * mib}, fine)
	w.wants(t, "no more", boltstore.SnapshotStep{Done: 16 * mib, Total: 100 * mib, Inside: 4*mib - 1}, NoRoom)
}

// TestGuard_stops_before_the_file_comes_to_its_limit, for the same reason.
func TestGuard_stops_before_the_file_comes_to_its_limit(t *testing.T) {
	w := newWatched(t, Limits{MaxStoreBytes: 100 * mib})
	w.wants(t, "at first", boltstore.SnapshotStep{Total: mib, InUse: 50 * mib}, fine)
	w.wants(t, "it grows", boltstore.SnapshotStep{Done: 1, Total: mib, InUse: 100*mib - ahead - 1}, fine)
	w.wants(t, "it nearly came to it", boltstore.SnapshotStep{Done: 1, Total: mib, InUse: 100*mib - ahead}, NoRoom)
	w = newWatched(t, Limits{MaxStoreBytes: 100 * mib})
	w.wants(t, "a store that is nearly full", boltstore.SnapshotStep{Total: mib, InUse: 98 * mib}, fine)
	w.wants(t, "has half of what is left", boltstore.SnapshotStep{Done: 1, Total: mib, InUse: 99*mib - 1}, fine)
	w.wants(t, "and no more", boltstore.SnapshotStep{Done: 1, Total: mib, InUse: 99 * mib}, NoRoom)
	w = newWatched(t, Limits{MaxStoreBytes: 100 * mib})
	w.wants(t, "one that is full already", boltstore.SnapshotStep{Total: mib, InUse: 100 * mib}, fine)
	w.wants(t, "may be archived", boltstore.SnapshotStep{Done: 1, Total: mib, InUse: 101 * mib}, fine)
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
