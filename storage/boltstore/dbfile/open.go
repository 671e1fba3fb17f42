package dbfile

import (
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

// Report is what Open found and did, for the log and the audit trail.
type Report struct {
	Created bool // the file was absent and has been made
	Clean   bool // the last stop was clean: nothing was walked
	Meta    Meta // the meta page that the database stands on

	// MetaFallback: the other meta page cannot be used, so that the file may
	// stand one acknowledged commit back. The witness decides; without one it is
	// an alarm.
	MetaFallback bool
	// Fallback says in words what is wrong with the meta pages, if anything is.
	Fallback string

	Warnings []string      // lines for an operator: modes, owners, file systems
	Walk     WalkReport    // zero if nothing was walked
	Elapsed  time.Duration // of Open in all
}

// Open opens the store's file, or makes it if it is absent. The error is a
// [*FileError] of one of the kinds of the catalogue, or that of an ended Context;
// a refused file has not been changed. The caller owns the File, and must call
// Close or CloseClean.
func Open(o Options) (*File, error) {
	start := time.Now()
	f := &File{opts: o}
	if err := f.open(); err != nil {
		f.abandon(err)
		return nil, err
	}
	f.report.Elapsed = time.Since(start)
	return f, nil
}

// open does the steps in the order of the package comment. Whatever it acquires
// is in f, for abandon to give back.
func (f *File) open() error {
	o := f.opts
	exists, err := checkPath(o.Path)
	if err != nil {
		return err
	}
	if o.ReadOnly && !exists {
		return fileErr(ErrAbsent, o.Path, nil)
	}
	if !o.ReadOnly {
		if err := f.lockAndCreate(); err != nil {
			return err
		}
	}
	if err := f.acquire(); err != nil {
		return err
	}
	if err := f.judge(); err != nil {
		return err
	}
	if err := f.openBolt(); err != nil {
		return err
	}
	warnings, err := checkOwnership(f.file, o)
	f.report.Warnings = append(f.report.Warnings, warnings...)
	if fs, err := FilesystemOf(o.Path); err == nil && fs.Concern() != "" {
		f.report.Warnings = append(f.report.Warnings, fs.Concern())
	}
	return err
}

// lockAndCreate takes the side lock, and only then looks again whether there is
// a file.
func (f *File) lockAndCreate() (err error) {
	path := f.opts.Path
	if err := makeParent(path); err != nil {
		return err
	}
	if f.lock, err = takeSideLock(path, f.opts.lockTimeout()); err != nil {
		return err
	}
	if f.lock.warning != "" {
		f.report.Warnings = append(f.report.Warnings, f.lock.warning)
	}
	if err := sweep(path); err != nil {
		return err
	}
	exists, err := checkPath(path)
	if err != nil || exists {
		return err
	}
	f.report.Created = true
	return create(f.opts)
}

// acquire opens the file and takes bbolt's own lock on it, under which other
// bbolt programs and read-only openers respect us.
func (f *File) acquire() (err error) {
	if f.file, err = openExisting(f.opts); err != nil {
		return err
	}
	how := unix.LOCK_EX
	if f.opts.ReadOnly {
		how = unix.LOCK_SH
	}
	err = flock(f.file, how, f.opts.lockTimeout())
	if errors.Is(err, unix.EWOULDBLOCK) {
		pid := 0
		if f.opts.ReadOnly {
			_, pid = peekNote(f.opts.Path)
		}
		return lockedErr(f.opts.Path, pid)
	}
	if err != nil {
		return ioErr(f.opts.Path, "locking", err)
	}
	return nil
}

// judge reads the meta pages and, unless the last stop was clean, everything.
func (f *File) judge() error {
	newest, other, err := readMeta(f.file, f.opts.Path)
	if err != nil {
		return err
	}
	f.report.Clean = !f.opts.Distrust && (f.report.Created || f.stoppedClean(newest))
	if !f.report.Clean {
		if err := dropCache(f.file, f.opts.Path); err != nil {
			return err
		}
		// What the cache said may not be what the disk says.
		if newest, other, err = readMeta(f.file, f.opts.Path); err != nil {
			return err
		}
	}
	f.report.Meta = newest
	f.report.MetaFallback = other.Err != nil
	f.report.Fallback = fallback(newest, other)
	if err := f.readThrough(newest); err != nil || !f.opts.ReadOnly {
		return err
	}
	f.free, err = f.countFree(newest)
	return err
}

// countFree counts the free pages: a walk has met all others, and a clean stop has
// written a list.
func (f *File) countFree(newest Meta) (int64, error) {
	if !f.report.Clean {
		return f.report.Walk.Free, nil
	}
	l, err := openList(&pageReader{r: f.file, size: newest.PageSize, high: newest.HighWater}, newest)
	if err != nil {
		return 0, damaged(f.opts.Path, "%v", listErr(newest, err))
	}
	return l.count, nil
}

// stoppedClean compares the file with the note in the lock file.
func (f *File) stoppedClean(newest Meta) bool {
	last := cleanNote{}
	if f.lock != nil {
		last = f.lock.last
	} else {
		last, _ = peekNote(f.opts.Path)
	}
	if last == (cleanNote{}) {
		return false
	}
	now, err := noteOf(f.file, newest)
	return err == nil && last == now
}

// openBolt hands the judged descriptor to bbolt, with as much address space as
// the system grants. AllocSize can only be set afterwards: nothing has grown yet.
func (f *File) openBolt() (err error) {
	bytes := f.report.Meta.Bytes()
	f.opts.progress(StepOpen, 0, bytes)
	for _, size := range f.opts.mapSizes(bytes) {
		f.db, err = f.tryBolt(size)
		f.mapped = size
		if !errors.Is(err, unix.ENOMEM) {
			break
		}
		f.report.Warnings = append(f.report.Warnings, fmt.Sprintf(
			"no address space for %d bytes (ulimit -v?): readers may hold up growth", size))
	}
	if err != nil {
		return err
	}
	f.db.AllocSize = f.opts.allocStep()
	f.opts.progress(StepOpen, bytes, bytes)
	return nil
}

// tryBolt calls bolt.Open in such a way that a panic or a fault in this
// goroutine becomes an error. The fault that nothing can catch, in the goroutine
// that bbolt starts to rebuild its list, is what the walk before has excluded.
func (f *File) tryBolt(mapBytes int64) (db *bolt.DB, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var given *os.File
	defer func() {
		if p := recover(); p != nil {
			db, err = nil, damaged(f.opts.Path, "bbolt cannot open it: %v", p)
			if given != nil { // the mapping keeps the lock unless it is given back
				_ = unix.Flock(int(given.Fd()), unix.LOCK_UN)
				given.Close()
			}
		}
	}()
	opts := f.opts.boltOptions(mapBytes)
	opts.PageSize = int(f.report.Meta.PageSize)
	opts.OpenFile = func(string, int, os.FileMode) (*os.File, error) {
		fd, err := unix.FcntlInt(f.file.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return nil, os.NewSyscallError("dup", err)
		}
		given = os.NewFile(uintptr(fd), f.opts.Path)
		return given, nil
	}
	db, err = bolt.Open(f.opts.Path, fileMode, opts)
	return db, f.boltErr(err)
}

// boltErr files bbolt's errors under our kinds.
func (f *File) boltErr(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, berrors.ErrTimeout):
		return lockedErr(f.opts.Path, 0)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum),
		errors.Is(err, berrors.ErrVersionMismatch):
		return fileErr(ErrDamaged, f.opts.Path, err)
	}
	return ioErr(f.opts.Path, "opening with bbolt", err)
}
