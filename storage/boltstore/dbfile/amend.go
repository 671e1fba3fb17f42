package dbfile

import (
	"errors"
	"os"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"
)

// Amend makes one change to a file that is nobody's yet: a copy that was just written
// through the descriptor file, under a name that only its maker knows. It leaves the
// list of free pages in it, so that it opens at once, and syncs it. There is no lock
// file and no witness.
//
// Only the meta pages are looked at before bbolt maps the file: one that is damaged
// further down may end the process with a signal.
func Amend(file *os.File, path string, change func(*bolt.Tx) error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	f := &File{opts: Options{Path: path}, file: file}
	if f.report.Meta, _, err = readMeta(file, path); err != nil {
		return err
	}
	// bbolt looks at every page for those that are free, one fault after the other.
	if err := preread(file, f.report.Meta.Bytes(), f.opts); err != nil {
		return err
	}
	if f.db, err = f.tryBolt(0); err != nil {
		return err
	}
	if err := errors.Join(f.inTurn(), f.commitClean(change), f.db.Close()); err != nil {
		return err
	}
	if err := file.Sync(); err != nil {
		return ioErr(path, "syncing", err)
	}
	return nil
}

// inTurn commits nothing where the next transaction would be written over the newest meta
// page: bbolt's copies have that in page 0, whatever its number. Left so, the two pages
// would not follow each other, which is what a lost commit looks like.
func (f *File) inTurn() error {
	if f.report.Meta.Txid%2 == uint64(f.report.Meta.Slot) {
		return nil
	}
	return f.commitClean(nil)
}
