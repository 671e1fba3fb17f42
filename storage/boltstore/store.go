package boltstore

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
	"breakwater/storage/boltstore/ledger"
)

// Options says which file to open and how. The zero value of all but Path is the
// default.
type Options struct {
	// Path is the file; its folder is made if it is absent.
	Path string
	// Restore takes a copy, or a file older than its witness, into
	// service. Without it both are refused. It makes no file.
	Restore bool
	// Gentle opens a copy without getting in the way of a store on the same disk.
	Gentle bool
	// Vouch is asked before a copy is taken into service; its error refuses the file, and
	// is returned. nil: nobody is asked.
	Vouch func() error
	// Window is how many messages are kept at hand in memory; 0: 65,536.
	Window int
	// Committed is told of every commit that left records, after it, in the
	// committer's goroutine: it must not block and must not call the store.
	Committed func(queue.Commit)
	// Damaged is told what is found damaged while the store runs and goes on running,
	// once each, in the committer's goroutine, of which the same holds. What is found by
	// opening is in the report.
	Damaged func(what string)
	// Context ends the opening of a large file; nil: nothing does.
	Context context.Context
	// Progress is told how far opening has come, in bytes, then in messages.
	Progress func(step string, done, total int64)

	readOnly bool
	spans    spanLimits                             // zero: defaultSpans
	ledger   func(*bolt.Tx) (*ledger.Ledger, error) // nil: ledger.Open
	commit   func(*bolt.Tx) error                   // nil: its Commit; a test puts a full disk in between
}

// Report is what opening found, for the log.
type Report struct {
	Created  bool
	Clean    bool     // the last process closed the store
	Restored bool     // Restore was needed
	Why      string   // Restored: what the file was refused for otherwise
	Warnings []string // for an operator
}

// What can be wrong with a file that is sound in itself; the rest of the catalogue
// is dbfile's.
var (
	errNotOurs = errors.New("it holds no breakwater store")
	errNewer   = errors.New("it was written by a newer version")

	// ErrRolledBack: the file is older than, or not the same as, what its witness
	// has seen. Open it with Restore if that is meant.
	ErrRolledBack error = dbfile.ErrRolledBack
	// ErrArchive: the file is marked as a copy. Open it with Restore if that is
	// meant.
	ErrArchive error = dbfile.ErrCopy
)

// closePatience is how long closing may take when the store has failed.
const closePatience = 2 * time.Second

// Store is a [queue.Store] in a bbolt file. Its methods may be called from several
// goroutines.
type Store struct {
	options Options
	file    *dbfile.File
	head    *dbfile.WitnessFile // nil on a copy
	id      [16]byte
	secret  [32]byte
	report  Report

	operations chan *operation
	admissions chan *operation // operations that store new messages
	closing    chan struct{}   // closed by Close
	ended      chan struct{}   // closed when the committer has left
	failure    atomic.Pointer[error]
	closeOnce  sync.Once
	closeErr   error

	// readers is held for reading by transactions outside the committer; gone says
	// that the file is closed.
	readers sync.RWMutex
	gone    bool

	way         rightOfWay   // of commits, before a copy
	inUse       atomic.Int64 // bytes of the file that are no free page, when the newest transaction began
	verifying   atomic.Int32 // verifications under way: the trail is not trimmed meanwhile
	spansOpened atomic.Int64 // by queries, so that a test can count

	// The committer's own.
	txid    uint64 // of the last commit
	t       *tables
	trail   queue.BlockWriter
	group   []*operation
	pending map[ledger.Key]ledger.Entry
	over    queue.Ended
	told    map[string]bool // what Damaged knows
}

var _ queue.Store = (*Store)(nil)

// Open opens the store for writing, making it if it is absent. Until Start it only
// answers reads.
func Open(o Options) (*Store, error) { return open(o, false) }

// OpenCopy opens a file that nobody writes to, for reading: an archive, or a store
// whose process has ended. Only the methods of [queue.Reader] and Close work.
func OpenCopy(o Options) (*Store, error) { return open(o, true) }

func open(o Options, readOnly bool) (*Store, error) {
	if o.Window <= 0 {
		o.Window = defaultWindow
	}
	if o.spans == (spanLimits{}) {
		o.spans = defaultSpans
	}
	if o.ledger == nil {
		o.ledger = ledger.Open
	}
	if o.commit == nil {
		o.commit = (*bolt.Tx).Commit
	}
	o.readOnly = readOnly
	if err := refuseLost(&o); err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	f, err := dbfile.Open(dbfile.Options{
		Path: o.Path, ReadOnly: readOnly, Init: initFile, Context: o.Context, Gentle: o.Gentle,
		Progress: func(step dbfile.Step, done, total int64) {
			if o.Progress != nil {
				o.Progress(string(step), done, total)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open the store: %w", err)
	}
	txid, err := f.Txid()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open the store: %w", err), f.Close())
	}
	s := &Store{
		txid:    txid,
		options: o, file: f, operations: make(chan *operation, maxWaitingOps), admissions: make(chan *operation, maxWaitingOps),
		closing: make(chan struct{}), ended: make(chan struct{}),
		pending: map[ledger.Key]ledger.Entry{}, told: map[string]bool{},
	}
	if err := guard(func() error { return s.admitFile(readOnly) }); err != nil {
		return nil, errors.Join(fileError(o.Path, err), f.Close())
	}
	go s.commitLoop()
	return s, nil
}

// admitFile decides whether the open file may be used, and builds the tables.
func (s *Store) admitFile(readOnly bool) error {
	found := s.file.Report()
	s.report = Report{Created: found.Created, Warnings: found.Warnings}
	if found.Fallback != "" {
		s.report.Warnings = append(s.report.Warnings, found.Fallback)
	}
	err := s.file.DB().View(func(tx *bolt.Tx) error {
		id, err := identify(tx)
		if err != nil {
			return err
		}
		s.id, s.secret = id.id, id.secret
		meta := tx.Bucket(bucketMeta)
		s.report.Clean = meta.Get(metaClean) != nil && (found.Clean || found.Created)
		if !readOnly {
			if err := s.checkOrigin(tx, meta.Get(metaArchive) != nil); err != nil {
				return err
			}
		}
		if s.t, err = load(tx, s.secret, &s.options, s.loadProgress); err != nil {
			return err
		}
		for _, damage := range s.t.ledger.Repaired() {
			s.report.Warnings = append(s.report.Warnings, "the ledger: "+damage.Error()+"; it was made anew")
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.report.Warnings = append(s.report.Warnings, s.t.damaged()...)
	s.report.Warnings = append(s.report.Warnings, s.newDamage()...)
	if readOnly {
		return nil
	}
	return s.callWitness()
}

func (s *Store) loadProgress(done int64) {
	if s.options.Progress != nil {
		s.options.Progress("loading", done, 0)
	}
}

// fileError names the file in what is wrong with it, with the hint that helps.
func fileError(path string, err error) error {
	e := &dbfile.FileError{Kind: dbfile.ErrDamaged, Path: path, Err: err,
		Hint: "put your last good copy in its place and start with \"breakwater serve --restore\""}
	var unvouched *unvouchedError
	switch {
	case errors.As(err, &unvouched):
		return fmt.Errorf("open the store: %w", unvouched.err)
	case errors.Is(err, errNotOurs):
		e.Kind, e.Hint = dbfile.ErrForeign, "set store.path to another file"
	case errors.Is(err, errNewer):
		e.Kind, e.Hint = dbfile.ErrNewer, "run the version that wrote it, or a later one"
	case errors.As(err, new(*dbfile.FileError)): // of this file, or one beside it
		return fmt.Errorf("open the store: %w", err) // which has its path and its hint
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("open the store: %w", dbfile.Fault(dbfile.ErrIO, path, err))
	}
	return e
}

// initFile fills a new file: buckets, identity, counters at zero.
func initFile(tx *bolt.Tx) error {
	for _, name := range allBuckets {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	if err := ledger.Init(tx); err != nil {
		return err
	}
	random := make([]byte, 16+32)
	if _, err := rand.Read(random); err != nil {
		return fmt.Errorf("make the identity: %w", err)
	}
	meta := tx.Bucket(bucketMeta)
	return errors.Join(
		meta.Put(metaFormat, binary.BigEndian.AppendUint32(nil, FormatVersion)),
		meta.Put(metaID, random[:16]),
		meta.Put(metaSecret, binary.BigEndian.AppendUint32(random[16:], crc32.Checksum(random, castagnoli))),
		meta.Put(metaCounters, new(counters).append(nil)),
		meta.Put(metaClean, []byte{1}),
	)
}

// reload builds the tables again after a transaction that was undone. Clocks, which
// the file does not have, are those before it: the tables', unless it ended them.
func (s *Store) reload(ended []clock) error {
	clocks := make(map[uint64]clock, len(s.t.flights))
	for seq, f := range s.t.flights {
		clocks[seq] = f.clock()
	}
	for _, c := range slices.Backward(ended) { // the first of a seq counts
		clocks[c.seq] = c
	}
	err := guard(func() error {
		return s.file.DB().View(func(tx *bolt.Tx) (err error) {
			s.t, err = load(tx, s.secret, &s.options, nil)
			return err
		})
	})
	if err != nil {
		return err
	}
	for seq, f := range s.t.flights {
		was, ok := clocks[seq]
		if !ok || was.fence != f.fence {
			continue
		}
		if f.leased() {
			f.deadline = was.deadline
		} else if f.key.wait != nil && f.key.wait.seq == seq && !was.waitUntil.IsZero() {
			f.waitUntil = was.waitUntil
			s.t.waits.start(f.key, seq, was.waitUntil, was.waitWall)
		}
	}
	s.t.waits.sweep()
	return nil
}

// Report returns what opening found.
func (s *Store) Report() Report { return s.report }

// view runs a read transaction in the caller's goroutine.
func (s *Store) view(f func(*bolt.Tx) error) error {
	s.readers.RLock()
	defer s.readers.RUnlock()
	if s.gone {
		return s.endedErr()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // of this goroutine, for guard to catch
	return guard(func() error { return s.file.DB().View(f) })
}

// letGo closes the file of a store that has failed. A panic in the middle of bbolt
// leaves its locks taken, and then closing would wait for ever; the process is about
// to end, which closes the file as well.
func (s *Store) letGo() error {
	closed := make(chan error, 1)
	go func() { closed <- guard(s.file.Close) }()
	select {
	case err := <-closed:
		return err
	case <-time.After(closePatience):
		return errors.New("the file of a failed store could not be closed")
	}
}

// Close ends the store; see [queue.Store]. A second call returns what the first did.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		close(s.closing)
		<-s.ended
		s.readers.Lock()
		s.gone = true
		s.readers.Unlock()
		s.closeErr = s.closeFile()
	})
	return s.closeErr
}

// closeFile marks a clean stop, unless the store has failed: then nothing may be
// written any more.
func (s *Store) closeFile() error {
	if s.options.readOnly {
		return s.file.Close()
	}
	if s.failure.Load() != nil {
		return errors.Join(s.head.Close(), s.letGo())
	}
	err := errors.Join(s.head.Sync(), s.head.Close())
	err = errors.Join(err, s.file.CloseClean(func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(metaClean, []byte{1})
	}))
	if err != nil {
		return fmt.Errorf("close the store: %w", err)
	}
	return nil
}
