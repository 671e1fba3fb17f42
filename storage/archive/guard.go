package archive

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/storage/boltstore"
)

// Limits are the store's own limits on bytes, which an archive must not make it reach.
type Limits struct {
	MinFreeBytes  int64 // on the store's disk
	MaxStoreBytes int64 // of its file; 0: none
}

const (
	// growthPart and growthFixed say how much room must be left for what the store's
	// file grows by while it is copied: it takes an eighth of the copy's size at full
	// load where the disk writes a few times as fast as the store does.
	growthPart  = 8
	growthFixed = 16 << 20
	// slowest is the pace that a copy must keep, looked at every paceWindow: pages that
	// are freed meanwhile are not used again before its end.
	slowest    = 1 << 20 // bytes a second
	paceWindow = 10 * time.Second
	// besides is room for the manifest.
	besides = 1 << 20
)

// guard decides, piece by piece, whether a copy may go on.
type guard struct {
	to     *os.File
	store  string // path of the store's file
	limits Limits
	now    func() time.Time
	space  func(dir string) (int64, error) // how much is free on its disk

	floor int64 // what must stay free for the store
	full  bool  // its file had come to its limit before: there is no intake to protect
	since time.Time
	done  int64 // at that moment
}

// step is called before the first byte and after each piece.
func (g *guard) step(s boltstore.SnapshotStep) error {
	if s.Done == 0 {
		return g.begin(s)
	}
	free, err := g.free(s)
	if err != nil {
		return err
	}
	if free < g.floor {
		return refuse(NoRoom, "make room on the store's disk, or archive when less is written",
			"the store's disk has %s left while it is copied, and needs %s", size(free), size(g.floor))
	}
	if err := g.belowMost(s); err != nil {
		return err
	}
	now := g.now()
	if passed := now.Sub(g.since); passed >= paceWindow {
		if float64(s.Done-g.done) < slowest*passed.Seconds() {
			return refuse(TooSlow, "archive to a local disk, and copy the archive on from there",
				"the destination takes less than %s a second", size(slowest))
		}
		g.since, g.done = now, s.Done
	}
	return nil
}

// begin refuses what will not fit, and takes the room that the copy needs, so that
// nobody else can have it meanwhile.
func (g *guard) begin(s boltstore.SnapshotStep) error {
	g.since = g.now()
	free, err := g.free(s)
	if err != nil {
		return err
	}
	// A disk that is below the limit already has no intake to protect. It may be
	// archived elsewhere, and what settling needs is left to it.
	g.floor = min(g.limits.MinFreeBytes, free/2)
	same, err := sameDisk(g.to, g.store)
	if err != nil {
		return systemErr("look at the disks", err)
	}
	there, err := g.space(filepath.Dir(g.to.Name()))
	if err != nil {
		return systemErr("look for room", err)
	}
	need := s.Total + besides
	if there < need {
		return refuse(NoRoom, "make room there, or choose another disk", "the archive needs %s, and its disk has %s", size(need), size(there))
	}
	left := free
	if same {
		left -= need
		g.floor = g.limits.MinFreeBytes // never go below it for a copy on the same disk
	}
	if growth := s.Total/growthPart + growthFixed; left < g.floor+growth {
		return refuse(NoRoom, "make room, or choose another disk",
			"with the archive the store's disk would have %s left, and it needs %s: min_free_bytes, and %s for what is written meanwhile",
			size(max(left, 0)), size(g.floor+growth), size(growth))
	}
	g.full = g.belowMost(s) != nil
	err = unix.Fallocate(int(g.to.Fd()), 0, 0, s.Total)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) { // a sandbox
		return systemErr("take room for the archive", err)
	}
	return nil
}

// free is what the store can still write: on its disk, and inside its file.
func (g *guard) free(s boltstore.SnapshotStep) (int64, error) {
	free, err := g.space(filepath.Dir(g.store))
	if err != nil {
		return 0, systemErr("look for room", err)
	}
	return free + s.Inside, nil
}

// belowMost: a file that may not grow any more would stop the intake for as long as
// the copy keeps its pages.
func (g *guard) belowMost(s boltstore.SnapshotStep) error {
	if g.limits.MaxStoreBytes == 0 || g.full {
		return nil
	}
	st, err := os.Stat(g.store)
	if err != nil {
		return systemErr("look at the store's file", err)
	}
	if st.Size()-s.Inside >= g.limits.MaxStoreBytes {
		return refuse(NoRoom, "raise max_store_bytes, or archive when less is written",
			"the store's file has come to max_store_bytes (%s) while it is copied", size(g.limits.MaxStoreBytes))
	}
	return nil
}

// sameDisk reports whether both files are on one file system.
func sameDisk(f *os.File, path string) (bool, error) {
	var a, b unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &a); err != nil {
		return false, err
	}
	if err := unix.Stat(path, &b); err != nil {
		return false, err
	}
	return a.Dev == b.Dev, nil
}

// size is a number of bytes as people read it.
func size(n int64) string {
	const mib = 1 << 20
	if n < mib {
		return fmt.Sprintf("%d bytes", n)
	}
	return fmt.Sprintf("%d MiB", n/mib)
}
