package boltstore

import (
	"encoding/binary"
	"errors"
	iofs "io/fs"
	"os"
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// Sight is what can be seen of a store's file from outside, without opening it, also
// while a process has it.
type Sight struct {
	FileSystem string // "ext4", or "0x…" for one that is not known
	Network    bool   // locks and syncs may not hold what they promise
	Volatile   bool   // gone with the power
	FSErr      error  // why the file system could not be asked

	FreeSpace int64 // bytes that this user may still write beside the file
	SpaceErr  error

	Witness    *queue.Head // what <store>.head has seen; nil: there is none, or WitnessErr
	Origin     string      // of which store
	WitnessErr error

	// Lost is why Open would make no store although there is none: its witness is there
	// (ErrRolledBack). nil: it would, or there is one.
	Lost error
}

// Look looks at the file at path, which need not be there yet. It takes no lock,
// and changes nothing.
func Look(path string) (s Sight) {
	dir := filepath.Dir(path)
	if _, err := os.Stat(dir); errors.Is(err, iofs.ErrNotExist) {
		dir = filepath.Dir(dir) // in which the start makes it
	}
	fs, err := dbfile.FilesystemOf(dir)
	s.FileSystem, s.Network, s.Volatile, s.FSErr = fs.Name, fs.Network, fs.Volatile, err
	s.FreeSpace, s.SpaceErr = dbfile.FreeSpace(dir)
	w, found, err := dbfile.ReadWitness(path + dbfile.WitnessSuffix)
	if s.WitnessErr = err; found {
		s.Witness, s.Origin = &queue.Head{Block: w.Block, Hash: w.Head}, queue.Origin(w.StoreID)
	}
	s.Lost = lost(path)
	return s
}

// Found is what opening a copy found besides what it holds.
type Found struct {
	Clean  bool   // whoever wrote it last has closed it in order
	Format uint32 // the version of its format; FormatVersion is this program's

	// Fallback is what is wrong with a meta page that cannot be used, so that the newest
	// commit may be missing; "": both can.
	Fallback string

	// Refused is why Open would not take the file without Restore: ErrRolledBack,
	// ErrArchive, or that its witness cannot be asked. nil: it would.
	Refused error
}

// Found returns what opening found. It asks the witness, and changes nothing.
func (s *Store) Found() (f Found, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		f.Clean = s.report.Clean
		if r := s.file.Report(); r.MetaFallback {
			f.Fallback = r.Fallback
		}
		f.Format = binary.BigEndian.Uint32(meta.Get(metaFormat)) // identify has seen that it is whole
		f.Refused = s.judgeOrigin(tx, meta.Get(metaArchive) != nil)
		if errors.Is(f.Refused, queue.ErrDamaged) {
			return f.Refused
		}
		return nil
	})
	return f, err
}
