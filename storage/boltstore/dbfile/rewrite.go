package dbfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// CompactingPath is the name under which a file is written anew. As with a creation it
// is one fixed name beside the store, so that a leftover is known to be ours, and the
// store's lock makes it belong to one process.
func CompactingPath(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".compacting")
}

// OwnerOf is the user that the file at path belongs to.
func OwnerOf(path string) (uid int, err error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, ioErr(path, "looking at the file", err)
	}
	return int(st.Uid), nil
}

// Rewrite makes a new file at temp and has it filled; it has the page size of f, and a
// list of free pages. Nothing of it is synced before the end, so a crash leaves rubbish
// there. The caller has f open for writing, and with it the store's lock.
func Rewrite(f *File, temp string, fill func(*bolt.DB) error) error {
	if err := sweepFile(temp); err != nil {
		return err
	}
	db, made, err := newBolt(temp, bolt.Options{PageSize: int(f.report.Meta.PageSize), NoSync: true})
	finished := false
	defer func() { // also when fill panics
		if made && !finished {
			_ = os.Remove(temp) // the first error is the one to report
		}
	}()
	if err != nil {
		return noRoomErr(temp, ioErr(temp, "creating", err))
	}
	db.AllocSize = maxAlloc
	if err = errors.Join(fill(db), db.Close()); err == nil {
		err = finish(temp)
	}
	if err != nil {
		return noRoomErr(temp, err)
	}
	finished = true
	return nil
}

// finish cuts off what bbolt took of the disk beyond its last page, and makes the file
// durable.
func finish(temp string) error {
	f, err := openExisting(Options{Path: temp})
	if err != nil {
		return err
	}
	defer f.Close() // after the sync there is nothing to lose
	m, _, err := readMeta(f, temp)
	if err != nil {
		return err
	}
	return errors.Join(f.Truncate(m.Bytes()), f.Chmod(fileMode), f.Sync())
}

// noRoomErr names the want of room, which is what a person can do something about.
func noRoomErr(path string, err error) error {
	for _, e := range noRoom {
		if errors.Is(err, e) || grewWithoutRoom(err) {
			return ioErr(path, "writing", e)
		}
	}
	return err
}

// ReplaceBy puts the file at temp, which [Rewrite] has made and nobody has open, in the
// place of this one, which is closed by it. The name stands for the old file or for the
// new one at any moment.
func (f *File) ReplaceBy(temp string) error {
	newest, _, err := ReadMeta(temp)
	if err != nil {
		return err
	}
	if err := f.Present(); err != nil {
		return err
	}
	if err := f.db.Close(); err != nil {
		return ioErr(f.opts.Path, "closing", err)
	}
	f.db = nil
	if err := os.Rename(temp, f.opts.Path); err != nil {
		return ioErr(f.opts.Path, "putting the new file in its place", err)
	}
	f.lock.last = cleanNote{} // of the old file
	if err := syncDir(filepath.Dir(f.opts.Path)); err != nil {
		return err
	}
	if !f.report.Clean {
		return nil
	}
	return f.noteReplaced(newest)
}

// noteReplaced carries the note of a clean stop over to the new file, which was synced
// and checked.
func (f *File) noteReplaced(m Meta) error {
	file, err := openExisting(Options{Path: f.opts.Path, ReadOnly: true})
	if err != nil {
		return err
	}
	defer file.Close()
	note, err := noteOf(file, m)
	if err != nil {
		return fmt.Errorf("note the clean stop: %w", err)
	}
	f.lock.last = note
	return nil
}

// CloseUnchanged gives the file back as it was found: what the lock file said of the
// last stop still holds.
func (f *File) CloseUnchanged() error {
	if f.lock != nil {
		f.lock.keepNote()
	}
	return f.Close()
}
