// Package storage picks a backend by name. It is the only place that knows more
// than one; all of them are [queue.Store], and storetest says what that means.
package storage

import (
	"context"
	"errors"
	"fmt"

	"breakwater/queue"
	"breakwater/storage/boltstore"
)

// Bbolt is the name of the default backend, as the configuration spells it.
const Bbolt = "bbolt"

// Options says which store to open and how. The zero value of all but Path is the
// default.
type Options struct {
	Backend string // "": Bbolt
	Path    string // of the store's file

	// Restore takes a copy, or a file older than its witness, into service. It makes none.
	Restore bool
	// Vouch is asked before a copy is taken into service; its error refuses it.
	Vouch func() error
	// Committed is told of each commit that left records; see [queue.Commit].
	Committed func(queue.Commit)
	// Damaged is told what is found damaged while the store runs and goes on running, once
	// each. It must not block and must not call the store.
	Damaged func(what string)
	// Context ends the opening of a large store; nil: nothing does.
	Context context.Context
	// Progress is told how far opening has come: a step, what is done of it, and of
	// how much (0: not known).
	Progress func(step string, done, total int64)
}

// Report is what opening found, for the log.
type Report struct {
	Created  bool     // the store was absent and has been made
	Restored bool     // Options.Restore was needed
	Why      string   // Restored: what the store was refused for otherwise
	Warnings []string // for an operator
}

// Why a store that is sound in itself is not taken into service without Restore.
var (
	ErrRolledBack = boltstore.ErrRolledBack
	ErrArchive    = boltstore.ErrArchive
)

// Open opens a store for writing, making it if it is absent. Its error says what,
// where and what to do about it.
func Open(o Options) (queue.Store, Report, error) {
	if err := known(o.Backend); err != nil {
		return nil, Report{}, err
	}
	s, err := boltstore.Open(boltstore.Options{
		Path: o.Path, Restore: o.Restore, Vouch: o.Vouch, Committed: o.Committed, Damaged: o.Damaged, Context: o.Context, Progress: o.Progress,
	})
	if err != nil {
		return nil, Report{}, err
	}
	r := s.Report()
	return s, Report{Created: r.Created, Restored: r.Restored, Why: r.Why, Warnings: r.Warnings}, nil
}

// Copy is a store's file that nobody writes to, opened for reading.
type Copy interface {
	queue.Reader
	// Found says how the file was left, and whether it would be taken into service.
	Found() (Found, error)
	Close() error
}

// Found is what opening a copy found besides what it holds.
type Found = boltstore.Found

// FormatVersion is the version of the format that this program writes.
const FormatVersion = boltstore.FormatVersion

// Sight is what can be seen of a store's file from outside.
type Sight = boltstore.Sight

// Look looks at a store's file without opening it, also while a process has it: at
// its file system, the room there, and its witness. It takes no lock, and changes
// nothing.
func Look(path string) Sight { return boltstore.Look(path) }

// OpenCopy opens a copy of a store, or a store whose process has ended, for reading.
func OpenCopy(o Options) (Copy, error) {
	if err := known(o.Backend); err != nil {
		return nil, err
	}
	s, err := boltstore.OpenCopy(boltstore.Options{Path: o.Path, Context: o.Context, Progress: o.Progress})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// CompactReport says what a compaction did.
type CompactReport struct {
	Before, After         int64 // length of the file, in bytes
	BeforeDisk, AfterDisk int64 // what it takes of the disk: less where it grew ahead of what is written
}

// Compact writes a store that nobody has open anew, without what is free in it, and puts
// it in the place of the old one. Whatever fails, and whenever, leaves the old one or the
// new one, whole. Only Path, Context and Progress count.
func Compact(o Options) (CompactReport, error) {
	if err := known(o.Backend); err != nil {
		return CompactReport{}, err
	}
	r, err := boltstore.Compact(boltstore.Options{Path: o.Path, Context: o.Context, Progress: o.Progress})
	return CompactReport(r), err
}

// ErrBackend: the configuration names a backend that this program does not have.
var ErrBackend = errors.New("no such storage backend")

func known(backend string) error {
	if backend != "" && backend != Bbolt {
		return fmt.Errorf("%w: %q (there is %q)", ErrBackend, backend, Bbolt)
	}
	return nil
}
