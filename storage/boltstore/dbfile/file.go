package dbfile

import (
	"errors"
	"fmt"
	"os"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// File is an open store file: bbolt's database on it, and the locks that keep
// others away. Its methods may be called from several goroutines, except Close
// and CloseClean, which are the owner's and come last.
type File struct {
	opts   Options
	lock   *sideLock // nil when read-only
	file   *os.File  // the descriptor that was judged; bbolt has a duplicate
	db     *bolt.DB
	report Report
	mapped int64 // address space that bbolt was given; it may have taken more since
	free   int64 // free pages, which bbolt does not count when it only reads
	closed bool  // the owner's alone
}

// DB is the database. It is open until Close.
func (f *File) DB() *bolt.DB { return f.db }

// ExtentOf is how long the file at path is, and how much of the disk it takes, in bytes. A
// store grows ahead of what is written to it, so it is often longer than what it takes.
func ExtentOf(path string) (bytes, disk int64, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, 0, ioErr(path, "looking at the file", err)
	}
	return st.Size, st.Blocks * statBlock, nil
}

// statBlock is the unit of st_blocks, whatever the file system's blocks are (stat(2)).
const statBlock = 512

// Path is the file's path as it was given.
func (f *File) Path() string { return f.opts.Path }

// Report is what Open found.
func (f *File) Report() Report { return f.report }

// Txid is the newest transaction that a reader sees now. Around a commit it
// tells [Classify] whether anything of it became visible.
func (f *File) Txid() (uint64, error) {
	tx, err := f.db.Begin(false)
	if err != nil {
		return 0, fmt.Errorf("read the transaction id: %w", err)
	}
	id := tx.ID()
	return uint64(id), tx.Rollback()
}

// Size is the file's size, and how much of it is free for new data: free pages
// inside, and what lies above the pages in use. The free pages are as of the
// last transaction that ended. Zero, zero once the file is closed.
func (f *File) Size() (bytes, freeBytes int64) {
	st, err := f.file.Stat()
	if err != nil {
		return 0, 0
	}
	used, err := f.used()
	if err != nil {
		return st.Size(), 0
	}
	pending := int64(f.db.Stats().PendingPageN) * f.report.Meta.PageSize
	return st.Size(), f.FreeInside() + pending + max(0, st.Size()-used)
}

// FreeInside is how many bytes of the file are free pages: as of the last transaction
// that ended, or of a file that is only read, as it was found.
func (f *File) FreeInside() int64 {
	pages := f.free
	if !f.opts.ReadOnly {
		pages = int64(f.db.Stats().FreePageN)
	}
	return pages * f.report.Meta.PageSize
}

// MapRoom is by how much the file can still grow before bbolt must map it anew. For
// that it waits until every reader has ended, and the writer with it: whoever reads
// for long must end before this comes to nothing.
func (f *File) MapRoom() (int64, error) {
	st, err := f.file.Stat()
	if err != nil {
		return 0, ioErr(f.opts.Path, "looking at the file", err)
	}
	return max(f.mapped, boltMap(st.Size())) - st.Size(), nil
}

// boltMap is how much address space bbolt takes for a file of this size: a power of
// two, from 1 GiB on in steps of that.
func boltMap(size int64) int64 {
	for n := int64(32 << 10); n < smallMap; n *= 2 {
		if size <= n {
			return n
		}
	}
	return (size + smallMap - 1) / smallMap * smallMap
}

// used is where the pages in use end, free ones among them included.
func (f *File) used() (int64, error) {
	tx, err := f.db.Begin(false)
	if err != nil {
		return 0, err
	}
	return tx.Size(), tx.Rollback()
}

// Present checks that the path still leads to the open file, and that the file
// is not shorter than its pages in use; anything else is ErrGone. A store that
// goes on after that writes into a file that no restart will find.
func (f *File) Present() error {
	var named, open unix.Stat_t
	if err := unix.Lstat(f.opts.Path, &named); err != nil {
		return fileErr(ErrGone, f.opts.Path, err)
	}
	if err := unix.Fstat(int(f.file.Fd()), &open); err != nil {
		return ioErr(f.opts.Path, "looking at the open file", err)
	}
	if named.Dev != open.Dev || named.Ino != open.Ino {
		return fileErr(ErrGone, f.opts.Path, errors.New("another file has its name"))
	}
	used, err := f.used()
	if err == nil && open.Size < used {
		return fileErr(ErrGone, f.opts.Path, fmt.Errorf("%d bytes are left of %d", open.Size, used))
	}
	return err
}

// Close gives the file back without the clean mark, as after a crash. It waits
// for open transactions. Closing twice is harmless.
func (f *File) Close() error {
	if f.closed {
		return nil
	}
	f.closed = true
	var errs []error
	if f.db != nil {
		errs = append(errs, f.db.Close())
	}
	if f.file != nil {
		errs = append(errs, f.file.Close())
	}
	// The side lock last: whoever gets it must find the file free.
	return errors.Join(append(errs, f.lock.release())...)
}

// CloseClean ends the store's life in an orderly way: mark runs in the last
// transaction, which also writes the list of free pages, so that the next open
// is a matter of a millisecond. A nil mark writes only the list.
//
// If that commit is refused for want of room, or mark returns an error, the
// file is closed as by Close, intact, and the error is ErrUnclean: the next
// start takes longer, nothing is lost. Any other failure is also ErrUnclean and
// closes the file; the next start then trusts nothing it finds in the cache.
func (f *File) CloseClean(mark func(tx *bolt.Tx) error) error {
	if f.opts.ReadOnly {
		return f.Close()
	}
	err := f.commitClean(mark)
	if err == nil {
		err = f.noteClean()
	}
	if err != nil {
		err = &FileError{Kind: ErrUnclean, Path: f.opts.Path, Err: err,
			Hint: "nothing to do: the next start checks the whole file and takes longer"}
	}
	return errors.Join(err, f.Close())
}

// commitClean is the last transaction. NoFreelistSync is changed while it holds
// the writer's lock: nobody else reads the field then.
func (f *File) commitClean(mark func(tx *bolt.Tx) error) error {
	tx, err := f.db.Begin(true)
	if err != nil {
		return err
	}
	if mark != nil {
		if err := mark(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	f.db.NoFreelistSync = false
	return tx.Commit()
}

// noteClean writes into the lock file which state the file was left in.
func (f *File) noteClean() error {
	newest, other, err := readMeta(f.file, f.opts.Path)
	if err != nil {
		return err
	}
	if text := fallback(newest, other); text != "" {
		return errors.New(text) // let the next start look at it with care
	}
	note, err := noteOf(f.file, newest)
	if err != nil {
		return err
	}
	return f.lock.leaveClean(note)
}

// abandon undoes a failed Open. The file was not changed, so what the lock file
// said about it still holds; unless the device failed, when nothing is certain.
func (f *File) abandon(why error) {
	if f.lock != nil && !f.report.Created && !errors.Is(why, ErrIO) {
		f.lock.keepNote()
	}
	_ = f.Close() // why is the error to report
}
