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
	// ahead is how long before a limit of the store's a copy is given up: more than is
	// written between two looks, so that it ends before the intake has to wait.
	ahead = 8 << 20
	// slowest is the pace that a copy must keep, looked at every paceWindow: pages that
	// are freed meanwhile are not used again before its end.
	slowest    = 1 << 20 // bytes a second
	paceWindow = 10 * time.Second
	// besides is room for the manifest.
	besides = 1 << 20
)

// guard decides, piece by piece, whether a copy may go on. What has to fit where:
//
//   - The copy and its manifest fit on the archive's disk. Their room is taken at once.
//   - What the store's file grows by, since the copy keeps its free pages, fits on the
//     store's disk, above what the intake leaves free. Where the copy goes there, too, it
//     would take that room for good, so it is asked for before. Where it goes elsewhere
//     nothing is: the disk that is nearly full is the one that an operator has to get
//     things off, and how much is written meanwhile may be nothing. Whatever was asked
//     for, a copy is given up before the store comes to its limit.
//   - A store that is at its limit already takes nothing in, so there is no intake to
//     protect, but settling needs room: half of what it has is left to it.
type guard struct {
	to     *os.File
	store  string // path of the store's file
	limits Limits
	now    func() time.Time
	space  func(dir string) (int64, error) // how much is free on its disk
	same   func(to *os.File, store string) (bool, error)

	floor int64 // what must stay free for the store
	most  int64 // what its file may have in use; 0: it is not looked at
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
	there, err := g.space(filepath.Dir(g.to.Name()))
	if err != nil {
		return systemErr("look for room", err)
	}
	need := s.Total + besides
	if there < need {
		return refuse(NoRoom, "make room there, or choose another disk", "the archive needs %s, and its disk has %s", size(need), size(there))
	}
	if err := g.leave(s, need); err != nil {
		return err
	}
	g.most = g.mostInUse(s)
	err = unix.Fallocate(int(g.to.Fd()), 0, 0, s.Total)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EPERM) { // a sandbox
		return systemErr("take room for the archive", err)
	}
	return nil
}

// leave decides what has to stay free for the store, and refuses an archive of need
// bytes that would not leave it.
func (g *guard) leave(s boltstore.SnapshotStep, need int64) error {
	free, err := g.free(s)
	if err != nil {
		return err
	}
	same, err := g.same(g.to, g.store)
	if err != nil {
		return systemErr("look at the disks", err)
	}
	reserve := g.limits.MinFreeBytes
	if !same {
		if g.floor = free / 2; free > reserve {
			g.floor = reserve + min((free-reserve)/2, ahead)
		}
		return nil
	}
	left, growth := free-need, s.Total/growthPart+growthFixed
	if left < reserve+growth {
		return refuse(NoRoom, "choose another disk, where only the archive itself needs room; or make room",
			"with the archive the store's disk would have %s left, and it needs %s: min_free_bytes, and %s for what is written meanwhile",
			size(max(left, 0)), size(reserve+growth), size(growth))
	}
	g.floor = reserve + ahead
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

// mostInUse is how much of the store's file may be in use while it is copied: a file
// that may not grow any more would stop the intake for as long as the copy keeps its
// pages. 0: it has come to its limit before, or has none.
func (g *guard) mostInUse(s boltstore.SnapshotStep) int64 {
	limit := g.limits.MaxStoreBytes
	if s.InUse >= limit {
		return 0
	}
	return limit - min((limit-s.InUse)/2, ahead)
}

// belowMost refuses to go on with a copy that keeps so many pages.
func (g *guard) belowMost(s boltstore.SnapshotStep) error {
	if g.most == 0 || s.InUse < g.most {
		return nil
	}
	return refuse(NoRoom, "raise max_store_bytes, or archive when less is written",
		"the store's file has %s in use while it is copied, and would come to max_store_bytes (%s)", size(s.InUse), size(g.limits.MaxStoreBytes))
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
