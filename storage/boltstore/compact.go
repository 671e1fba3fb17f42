package boltstore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// compactStep is how much one transaction of a compaction writes, and about what memory
// it takes.
const compactStep = 8 << 20

// CompactReport says what a compaction did.
type CompactReport struct {
	Before, After         int64 // length of the file, in bytes
	BeforeDisk, AfterDisk int64 // what it takes of the disk: less where it grew ahead of what is written
}

// Compact writes a store that nobody has open anew, without its free pages, and puts it
// in the place of the old file: head, identity, witness and everything that is stored
// stay as they are. A crash at any moment leaves the old file or the new one, whole, under
// the store's name; what else it leaves, the next opener removes.
//
// The file must be there, be the one that its witness has seen last, and belong to this
// user. Only Path, Context and Progress of the options count; Progress is told of bytes.
func Compact(o Options) (report CompactReport, err error) {
	if err := mayCompact(o.Path); err != nil {
		return report, err
	}
	s, err := Open(Options{Path: o.Path, Context: o.Context, Progress: o.Progress, ledger: o.ledger})
	if err != nil {
		return report, err
	}
	// Nothing is written to the old file: it is closed as it was found.
	s.stop()
	defer func() { err = errors.Join(err, s.head.Close(), s.file.CloseUnchanged()) }()
	c := compaction{s: s, o: o, temp: dbfile.CompactingPath(o.Path)}
	if report, err = c.run(); err != nil && c.wrote {
		// In one go, as the old file goes after a success: however long a disk takes to
		// hear what is free (mount option discard), this store has no intake to hold up.
		_ = os.Remove(c.temp) // err is the one to tell
	}
	return report, err
}

// mayCompact refuses what opening would go past.
func mayCompact(path string) error {
	uid, err := dbfile.OwnerOf(path)
	if err != nil {
		return err
	}
	if me := os.Geteuid(); uid != me {
		e := dbfile.Fault(dbfile.ErrPermission, path, fmt.Errorf("it belongs to user %d, and what user %d writes anew would not", uid, me))
		e.Hint = "run it as the owner of the file: sudo -u USER breakwater compact"
		return e
	}
	return nil
}

// stop ends the committer of a store that was only opened, and leaves its file open.
func (s *Store) stop() {
	s.closeOnce.Do(func() {
		close(s.closing)
		<-s.ended
		s.closeErr = queue.ErrClosed
	})
}

// compaction is one under way.
type compaction struct {
	s     *Store
	o     Options
	temp  string
	wrote bool // temp is there, and ours

	done, total int64 // bytes of keys and values
}

func (c *compaction) run() (report CompactReport, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	if report.Before, report.BeforeDisk, err = dbfile.ExtentOf(c.o.Path); err != nil {
		return report, err
	}
	err = guard(func() error {
		if err := c.room(); err != nil {
			return err
		}
		want, err := c.write()
		if err != nil {
			return fmt.Errorf("write the store anew: %w", err)
		}
		c.wrote = true
		return c.check(want)
	})
	if err != nil {
		return report, err
	}
	if report.After, report.AfterDisk, err = dbfile.ExtentOf(c.temp); err != nil {
		return report, err
	}
	return report, c.s.file.ReplaceBy(c.temp)
}

// room refuses a compaction that would not fit: beside the old file the new one takes
// what is in use of it.
func (c *compaction) room() error {
	err := c.s.file.DB().View(func(tx *bolt.Tx) error {
		inside := int64(c.s.file.DB().Stats().FreePageN) * int64(c.s.file.DB().Info().PageSize)
		c.total = tx.Size() - inside
		return nil
	})
	if err != nil {
		return err
	}
	free, err := dbfile.FreeSpace(filepath.Dir(c.o.Path))
	if err != nil {
		return fmt.Errorf("look for room: %w", err)
	}
	if need := c.total + compactStep; free < need {
		e := dbfile.Fault(dbfile.ErrNoSpace, c.temp, fmt.Errorf("the new file needs %d bytes beside the old one, and %d are free", need, free))
		e.Hint = "make room; the store is as it was"
		return e
	}
	return nil
}

// write copies everything into a new file, in transactions of a bounded size, and
// returns the digest of what was copied. No step is synced but the last.
func (c *compaction) write() (sum []byte, err error) {
	err = dbfile.Rewrite(c.s.file, c.temp, func(to *bolt.DB) error {
		return c.s.file.DB().View(func(from *bolt.Tx) error {
			digest := sha256.New()
			w := rewriter{c: c, to: to, digest: digest}
			err := w.all(from)
			sum = digest.Sum(nil)
			return err
		})
	})
	return sum, err
}

// rewriter fills the new file.
type rewriter struct {
	c      *compaction
	to     *bolt.DB
	digest hash.Hash
	tx     *bolt.Tx
	size   int64 // of what this transaction has written
}

func (w *rewriter) all(from *bolt.Tx) (err error) {
	if w.tx, err = w.to.Begin(true); err != nil {
		return err
	}
	err = from.ForEach(w.bucket)
	if err != nil {
		_ = w.tx.Rollback() // of a file that will be removed
		return err
	}
	return w.tx.Commit()
}

func (w *rewriter) bucket(name []byte, b *bolt.Bucket) error {
	to, err := w.tx.CreateBucket(name)
	if err != nil {
		return err
	}
	if err := to.SetSequence(b.Sequence()); err != nil {
		return err
	}
	digestItem(w.digest, name, nil)
	cursor := b.Cursor()
	for k, v := cursor.First(); k != nil; k, v = cursor.Next() {
		if v == nil {
			return fmt.Errorf("%w: bucket %s has a bucket in it, which no version writes", queue.ErrDamaged, name)
		}
		if w.size >= compactStep {
			if to, err = w.next(name); err != nil {
				return err
			}
		}
		to.FillPercent = 1 // in the order of the keys: nothing comes between
		if err := to.Put(k, v); err != nil {
			return err
		}
		digestItem(w.digest, k, v)
		w.size += int64(len(k) + len(v))
	}
	return nil
}

// next commits what was written and goes on with the bucket in another transaction.
func (w *rewriter) next(name []byte) (*bolt.Bucket, error) {
	if w.c.o.Context != nil && w.c.o.Context.Err() != nil {
		return nil, context.Cause(w.c.o.Context)
	}
	if err := w.tx.Commit(); err != nil {
		return nil, err
	}
	w.c.done, w.size = w.c.done+w.size, 0
	if w.c.o.Progress != nil {
		w.c.o.Progress("writing", min(w.c.done, w.c.total), w.c.total)
	}
	var err error
	if w.tx, err = w.to.Begin(true); err != nil {
		return nil, err
	}
	return w.tx.Bucket(name), nil
}

// digestItem adds an item, with its lengths, so that no two lists of items are alike.
func digestItem(h hash.Hash, k, v []byte) {
	var lengths [9]byte
	binary.BigEndian.PutUint32(lengths[:], uint32(len(k)))
	binary.BigEndian.PutUint32(lengths[4:], uint32(len(v)))
	if v == nil {
		lengths[8] = 1
	}
	h.Write(lengths[:])
	h.Write(k)
	h.Write(v)
}

// check opens the new file as any reader would, which checks its tree, and compares
// what is in it with what was copied, and what it tells of itself with the old one.
func (c *compaction) check(want []byte) error {
	n, err := OpenCopy(Options{Path: c.temp, Context: c.o.Context, Progress: c.o.Progress})
	if err != nil {
		return fmt.Errorf("open the new file: %w", err)
	}
	got := sha256.New()
	err = n.view(func(tx *bolt.Tx) error {
		return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
			digestItem(got, name, nil)
			return b.ForEach(func(k, v []byte) error {
				digestItem(got, k, v)
				return nil
			})
		})
	})
	if err == nil && !bytes.Equal(got.Sum(nil), want) {
		err = errors.New("it does not hold what was copied")
	}
	if err == nil {
		err = n.sameAs(c.s)
	}
	if err = errors.Join(err, n.Close()); err != nil {
		return fmt.Errorf("check the new file: %w", err)
	}
	return nil
}

// sameAs compares the tables of two stores that nobody writes to.
func (s *Store) sameAs(o *Store) error {
	type facts struct {
		id       [16]byte
		secret   [32]byte
		count    counters
		archived queue.ArchiveMark
		depth    depths
		dead     int64
		ledger   int64
	}
	of := func(s *Store) facts {
		return facts{s.id, s.secret, s.t.count, s.t.archived, s.t.depth, s.t.dead, s.t.ledger.Live()}
	}
	if !reflect.DeepEqual(of(s), of(o)) {
		return errors.New("it does not count what the old one does")
	}
	return nil
}
