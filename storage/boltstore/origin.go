package boltstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// This file asks whether a sound file is the one that was last in service here. A
// file that lost its newest commits (the disk lost a meta page), an older copy put
// in its place, or an archive: each is sound in itself, and each would hand out
// again what has been settled. The witness beside the file, <store>.head, has seen
// the newest head and remembers.

// checkOrigin compares the file with its witness. With Restore the answer is only
// noted.
func (s *Store) checkOrigin(tx *bolt.Tx, archive bool) error {
	err := s.judgeOrigin(tx, archive)
	if err == nil || !s.options.Restore {
		return err
	}
	if archive && s.options.Vouch != nil {
		if err := s.options.Vouch(); err != nil {
			return &unvouchedError{err}
		}
	}
	s.report.Restored, s.report.Why = true, withoutPath(err)
	s.report.Warnings = append(s.report.Warnings, "taken into service on request: "+err.Error())
	return nil
}

// unvouchedError is why a copy that was to be taken into service is not.
type unvouchedError struct{ err error }

// Error is what Options.Vouch said.
func (u *unvouchedError) Error() string { return u.err.Error() }

// withoutPath is the error for the trail, where a path of this host means nothing to
// whoever reads it elsewhere.
func withoutPath(err error) string {
	var f *dbfile.FileError
	switch {
	case !errors.As(err, &f):
		return err.Error()
	case f.Err == nil:
		return f.Kind.Error()
	}
	return f.Kind.Error() + ": " + f.Err.Error()
}

func (s *Store) judgeOrigin(tx *bolt.Tx, archive bool) error {
	if archive {
		return dbfile.Fault(dbfile.ErrCopy, s.options.Path, nil)
	}
	w, found, err := dbfile.ReadWitness(s.witnessPath())
	switch {
	case errors.Is(err, dbfile.ErrWitness) && !s.file.Report().MetaFallback:
		// An unreadable witness says nothing, and a host without anybody watching
		// must start; it is made anew.
		s.report.Warnings = append(s.report.Warnings, err.Error())
		return nil
	case err != nil:
		return err
	case !found:
		return nil
	case w.StoreID != s.id:
		return s.rolledBack("it is another store altogether")
	}
	count, err := parseCounters(tx.Bucket(bucketMeta).Get(metaCounters))
	if err != nil {
		return err
	}
	return s.compareWitness(tx, count.head, queue.Head{Block: w.Block, Hash: w.Head})
}

// refuseLost refuses to make a new file where there was one: an empty store knows no
// key of what was done, and everything that is sent again would be done again. Restore
// takes a file that is there, so it makes none either.
func refuseLost(o *Options) error {
	if o.readOnly {
		return nil
	}
	if err := lost(o.Path); err != nil || !o.Restore {
		return err
	}
	if _, err := os.Lstat(o.Path); errors.Is(err, fs.ErrNotExist) {
		f := dbfile.Fault(dbfile.ErrAbsent, o.Path, errors.New("there is nothing to restore"))
		f.Hint = "put the archive in its place, then start with --restore; a new, empty store is made without it"
		return f
	}
	return nil
}

// lost is why no new file may be made at path: there is none, but its witness, whose
// store was removed, or lies on a disk that is not mounted. nil: it may, or there is one.
func lost(path string) error {
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	witness := path + dbfile.WitnessSuffix
	w, found, err := dbfile.ReadWitness(witness)
	var what error
	switch {
	case errors.Is(err, dbfile.ErrWitness): // somebody's, of whatever block
		what = errors.New("there is no such file, but a witness of it, which cannot be read")
	case err != nil:
		return err
	case !found:
		return nil
	default:
		what = fmt.Errorf("there is no such file, and the witness has seen block %d of it", w.Block)
	}
	f := dbfile.Fault(dbfile.ErrRolledBack, path, what)
	f.Hint = fmt.Sprintf("see that its disk is mounted, and put the file back, or the newest archive, which \"breakwater serve --restore\" takes; "+
		"only if everything that was ever done may be forgotten and done again, move %q away, and a new, empty store is made", witness)
	return f
}

// rolledBack says how the file differs from what its witness has seen.
func (s *Store) rolledBack(format string, args ...any) error {
	return dbfile.Fault(dbfile.ErrRolledBack, s.options.Path, fmt.Errorf(format, args...))
}

// compareWitness looks for the head that the witness has seen in the trail.
func (s *Store) compareWitness(tx *bolt.Tx, head, seen queue.Head) error {
	if seen.Block > head.Block {
		return s.rolledBack("its trail ends at block %d, the witness has seen block %d", head.Block, seen.Block)
	}
	hash := head.Hash
	if seen.Block < head.Block && seen.Block > 0 {
		begins, err := parseOpening(tx.Bucket(bucketMeta).Get(metaOpening))
		if err != nil {
			return err
		}
		if seen.Block < begins.Before.Block {
			return nil // trimmed
		}
		b := queue.Block{Hash: begins.Before.Hash}
		if seen.Block > begins.Before.Block {
			b, err = queue.ParseBlock(seen.Block, tx.Bucket(bucketAudit).Get(seqKey(seen.Block)))
		}
		if err != nil {
			return fmt.Errorf("%w: block %d of the trail: %w", queue.ErrDamaged, seen.Block, err)
		}
		hash = b.Hash
	}
	if seen.Block > 0 && hash != seen.Hash {
		return s.rolledBack("block %d of its trail is not the one that the witness has seen", seen.Block)
	}
	return nil
}

func (s *Store) witnessPath() string { return s.options.Path + dbfile.WitnessSuffix }

// callWitness opens the witness, making it (anew) if it is absent, cannot be read,
// or has seen what was restored over.
func (s *Store) callWitness() (err error) {
	now := s.testimony()
	s.head, err = dbfile.OpenWitness(s.witnessPath(), now)
	if errors.Is(err, dbfile.ErrWitness) {
		if err = os.Remove(s.witnessPath()); err == nil {
			s.head, err = dbfile.OpenWitness(s.witnessPath(), now)
		}
	}
	if err == nil && s.head.Warning != "" {
		s.report.Warnings = append(s.report.Warnings, s.head.Warning)
	}
	if err == nil && s.report.Restored {
		err = errors.Join(s.head.Write(now), s.head.Write(now)) // over both slots
	}
	return err
}

// testimony is the head as it stands.
func (s *Store) testimony() dbfile.Witness {
	c := &s.t.count
	return dbfile.Witness{StoreID: s.id, Block: c.head.Block, Head: c.head.Hash, Txid: s.txid, Seq: c.lastSeq}
}

// testify writes the head beside the file, after its commit. A witness that can't
// be written gets old, which makes it a weaker witness, not a false one: no reason
// to stop a store whose own commits succeed.
func (s *Store) testify() { _ = s.head.Write(s.testimony()) }
