package dbfile

import (
	"context"
	"time"

	bolt "go.etcd.io/bbolt"
)

// Limits and defaults of opening.
const (
	// DefaultLockTimeout is how long Open waits for another process to let go.
	DefaultLockTimeout = time.Second
	// lockPoll is how often it asks; flock has no waiting with a deadline.
	lockPoll = 20 * time.Millisecond

	// fileMode and dirMode are what we create, and what an existing file is
	// tightened to.
	fileMode = 0o600
	dirMode  = 0o700

	// minMap is the least address space reserved for a store without a largest
	// size. It costs nothing (no page table until touched), and spares both the
	// reader that blocks growth and the refault of every page at each remapping,
	// which bbolt would otherwise do at every GiB.
	minMap = int64(64) << 30
	// maxMap is what the address space of a 64-bit Linux process has room for
	// beside everything else; bbolt refuses more.
	maxMap = int64(1) << 46
	// smallMap is tried when the address space is limited (ulimit -v).
	smallMap = int64(1) << 30

	// maxAlloc is the step in which bbolt grows the file; each step costs an
	// fsync. A store with a largest size takes smaller ones (1/growthParts of
	// it), since bbolt counts a whole step against that size.
	maxAlloc    = 16 << 20
	minAlloc    = 32 << 10
	growthParts = 16
)

// Step names what Open is busy with, for its Progress.
type Step string

// The steps that take time in proportion to the file.
const (
	StepRead Step = "reading" // from the disk, in file order
	StepWalk Step = "checking"
	StepOpen Step = "opening" // bbolt rebuilds its list of free pages
)

// Options says which file to open and how. The zero value of everything but
// Path is the default.
type Options struct {
	// Path is the file. Its folder is created (0700, one level) if absent.
	Path string
	// MaxBytes is the largest size that the file may reach; 0: none. A commit
	// that would need more fails with bbolt's ErrMaxSizeReached, see [Classify].
	MaxBytes int64
	// ReadOnly opens an existing file under a shared lock, and writes nothing:
	// not even a lock file or a tightened mode.
	ReadOnly bool
	// LockTimeout: 0 is DefaultLockTimeout.
	LockTimeout time.Duration
	// Init fills a new file, in the one transaction that is there when the file
	// appears under its name. nil leaves it without buckets.
	Init func(tx *bolt.Tx) error
	// Context ends the reading and checking of a large file early, with its error;
	// nil never does. It does not outlive the call that it is given to.
	Context context.Context
	// Progress is called from Open's goroutine, at least once per MiB or so,
	// with bytes done and in all.
	Progress func(step Step, done, total int64)
	// Distrust treats the last stop as unclean whatever the file says: the page
	// cache is dropped, the file read from the disk, every page checked.
	Distrust bool
	// Gentle leaves the disk to others for half of the time in which the file is read.
	Gentle bool
	// ReadBudget is how much of the file is pulled into the page cache before
	// it is mapped; 0 is half of the memory that is available now.
	ReadBudget int64
}

func (o Options) lockTimeout() time.Duration {
	if o.LockTimeout > 0 {
		return o.LockTimeout
	}
	return DefaultLockTimeout
}

// goOn is the error of a context that has ended.
func (o Options) goOn() error {
	if o.Context == nil {
		return nil
	}
	return context.Cause(o.Context)
}

func (o Options) progress(step Step, done, total int64) {
	if o.Progress != nil {
		o.Progress(step, done, total)
	}
}

// boltOptions are the options of every database that this package opens.
//
// NoFreelistSync: with a synced list one open reader makes the file grow
// exponentially, and after a big drain each commit rewrites the list of all
// that is free. The price is the walk after an unclean stop.
func (o Options) boltOptions(mapBytes int64) *bolt.Options {
	return &bolt.Options{
		Timeout:         o.lockTimeout(),
		NoFreelistSync:  true,
		FreelistType:    bolt.FreelistMapType,
		ReadOnly:        o.ReadOnly,
		InitialMmapSize: int(mapBytes),
		MaxSize:         int(o.MaxBytes),
	}
}

// allocStep is the growth step for the store's largest size.
func (o Options) allocStep() int {
	if o.MaxBytes <= 0 {
		return maxAlloc
	}
	return int(max(minAlloc, min(maxAlloc, o.MaxBytes/growthParts)))
}

// mapSizes are the sizes of address space to try, largest first. The first one
// lets the file reach its largest size without remapping.
func (o Options) mapSizes(fileBytes int64) []int64 {
	if o.ReadOnly {
		return []int64{0}
	}
	if o.MaxBytes > 0 {
		most := max(o.MaxBytes, fileBytes) + int64(o.allocStep())
		return []int64{min(most, maxMap), 0}
	}
	return []int64{max(minMap, 4*fileBytes), max(smallMap, 2*fileBytes), 0}
}
