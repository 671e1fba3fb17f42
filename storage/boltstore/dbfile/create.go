package dbfile

import (
	"errors"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// creatingPath is the name under which a new file is filled. One fixed name in
// the same folder, so that a leftover is known for certain to be ours and the
// rename never crosses a file system; the lock makes it belong to one process.
func creatingPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".creating")
}

// sweep removes what a killed creation or compaction left, each in one go: nothing is
// served yet that could be held up. The caller holds the side lock.
func sweep(path string) error {
	for _, tmp := range []string{creatingPath(path), CompactingPath(path)} {
		if err := sweepFile(tmp); err != nil {
			return err
		}
	}
	return nil
}

func sweepFile(tmp string) error {
	exists, err := checkOwn(tmp)
	if err != nil || !exists {
		return err
	}
	if err := os.Remove(tmp); err != nil {
		return ioErr(tmp, "removing a file that was never finished", err)
	}
	return nil
}

// create makes the file so that its name never stands for less than all of it.
// bbolt alone does not: of the crash states of its first write most cannot be
// opened again. The caller holds the side lock and has swept.
func create(o Options) (err error) {
	tmp := creatingPath(o.Path)
	made, err := fill(tmp, o.Init)
	defer func() {
		if err != nil && made {
			_ = os.Remove(tmp) // the first error is the one to report
		}
	}()
	if err != nil {
		return ioErr(o.Path, "creating", err)
	}
	if err := syncFile(tmp); err != nil {
		return ioErr(o.Path, "creating", err)
	}
	if err := renameNew(tmp, o.Path); err != nil {
		return ioErr(o.Path, "giving the new store its name", err)
	}
	return syncDir(filepath.Dir(o.Path))
}

// fill writes a database with what init puts into it. It keeps bbolt's list of
// free pages in the file, so that a new store counts as cleanly stopped. made: there is
// a file, also with an error.
func fill(tmp string, init func(*bolt.Tx) error) (made bool, err error) {
	db, made, err := newBolt(tmp, bolt.Options{})
	if err != nil {
		return made, err
	}
	if init != nil {
		err = db.Update(init)
	}
	return made, errors.Join(err, db.Close())
}

// newBolt makes a database at tmp, a file that was not there: a link is not followed, and
// nothing is overwritten. made: there is a file, also with an error.
func newBolt(tmp string, o bolt.Options) (db *bolt.DB, made bool, err error) {
	o.Timeout, o.FreelistType = DefaultLockTimeout, bolt.FreelistMapType
	o.OpenFile = func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag|os.O_EXCL|unix.O_NOFOLLOW, mode)
		made = err == nil
		return f, err
	}
	db, err = bolt.Open(tmp, fileMode, &o)
	return db, made, err
}

// syncFile makes a closed file's contents, size and mode durable.
func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Chmod(fileMode), f.Sync(), f.Close())
}

// renameNew gives the file its name only if the name is free: whoever put a file
// there in spite of our lock, perhaps a restore by hand, must not lose it. File
// systems that cannot rename so (some network ones) can link.
func renameNew(from, to string) error {
	err := unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if err := os.Link(from, to); err != nil {
		return err
	}
	return os.Remove(from)
}
