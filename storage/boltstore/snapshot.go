package boltstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

const (
	// snapshotPiece is what is read, written and waited for at a time. A disk gets to the
	// committer's sync only after what was given to it before, which is one piece, since
	// none is begun while a commit is written. Measured beside commits of 60 pages every
	// few ms (an idle machine; median and 99 % of their writing, three runs): alone 3.3 and
	// 6 ms, beside pieces that give no way 10 and 12 to 47, that do 7 and 8 to 22. The
	// copy takes no longer by it; pieces of 128 KiB make a commit 5 % faster. With 8 MiB
	// it took five times as long as alone.
	snapshotPiece = 256 << 10
	// piecePatience is how long a piece waits for the end of a commit: with it a copy
	// beside commits that take for ever still makes 2.5 MiB a second, more than it must.
	piecePatience = 100 * time.Millisecond
	// flushEvery is how much of a copy may lie in the disk's own cache, which a commit has
	// to wait for when it has it flushed. Commits that are frequent flush it often enough;
	// one every 200 ms took up to 90 to 211 ms without this, in three runs, and up to 13
	// with it (32 MiB: 48).
	flushEvery = 8 << 20
	// mapReserve is how much of the file's address space must be left while a copy
	// reads: growth beyond it would make the committer wait for the copy's end.
	mapReserve = 64 << 20
)

// ErrMapFull: the file has nearly outgrown its address space, and a copy that goes on
// would hold up the store.
var ErrMapFull = errors.New("the store has no address space left to grow beside a reader (ulimit -v?)")

// SnapshotStep is how far a copy has come.
type SnapshotStep struct {
	Done, Total int64 // bytes of the copy
	Inside      int64 // free bytes in the store's file, for what is written meanwhile
	InUse       int64 // the others of it, as max_store_bytes counts them
}

// SnapshotInfo says of what moment a copy is.
type SnapshotInfo struct {
	StoreID [16]byte
	Head    queue.Head
	Records uint64 // number of the last record
	Bytes   int64
}

// Snapshot copies the store, as it is at one moment, into an empty file, page by page
// at the speed of the disks. Nobody waits for it: it reads in a transaction of its own
// beside the committer. The price is that pages which are freed meanwhile are not used
// again before its end, so that the file grows by what is written meanwhile. Hence
// step: it is told of each piece, first before anything is written, and an error from
// it ends the copy. So does ctx. The copy is not synced, and not yet marked as one: see
// [Seal].
func (s *Store) Snapshot(ctx context.Context, to *os.File, step func(SnapshotStep) error) (info SnapshotInfo, err error) {
	err = s.view(func(tx *bolt.Tx) error {
		count, err := parseCounters(tx.Bucket(bucketMeta).Get(metaCounters))
		if err != nil {
			return err
		}
		info = SnapshotInfo{StoreID: s.id, Head: count.head, Records: count.lastN, Bytes: tx.Size()}
		w := &snapshotWriter{ctx: ctx, s: s, to: to, total: tx.Size(), step: step}
		w.flush.commits = s.way.ended.Load()
		if err := w.told(); err != nil {
			return err
		}
		if _, err := tx.WriteTo(w); err != nil && w.failed == nil {
			w.failed = fmt.Errorf("copy the store: %w", err)
		}
		return w.failed
	})
	return info, err
}

// snapshotWriter writes a copy in pieces.
type snapshotWriter struct {
	ctx    context.Context
	s      *Store
	to     *os.File
	step   func(SnapshotStep) error
	total  int64
	done   int64
	synced int64
	flush  flushing
	failed error // the first one, as it was: bbolt keeps only texts
}

// Write writes one piece.
func (w *snapshotWriter) Write(b []byte) (n int, err error) {
	n, err = w.to.Write(b)
	w.done += int64(n)
	if err == nil && (w.done-w.synced >= snapshotPiece || w.done == w.total) {
		err = w.settle()
	}
	if err != nil && w.failed == nil {
		w.failed = err
	}
	return n, err
}

// ReadFrom takes the pages.
func (w *snapshotWriter) ReadFrom(r io.Reader) (n int64, err error) {
	buf := make([]byte, snapshotPiece)
	for {
		k, err := io.ReadFull(r, buf)
		if k > 0 {
			if _, werr := w.Write(buf[:k]); werr != nil {
				return n, werr
			}
			n += int64(k)
		}
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return n, nil
		case err != nil:
			return n, err
		}
	}
}

// settle sends what was written to the disk and waits for it, without a sync of the
// file system's journal, which the committer would have to wait for too.
func (w *snapshotWriter) settle() error {
	const all = unix.SYNC_FILE_RANGE_WAIT_BEFORE | unix.SYNC_FILE_RANGE_WRITE | unix.SYNC_FILE_RANGE_WAIT_AFTER
	err := unix.SyncFileRange(int(w.to.Fd()), w.synced, w.done-w.synced, all)
	if err != nil && !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.EPERM) { // a sandbox
		return fmt.Errorf("write out the copy: %w", err)
	}
	w.synced = w.done
	if w.flush.due(w.done, w.s.way.ended.Load()) {
		if err := unix.Fdatasync(int(w.to.Fd())); err != nil {
			return fmt.Errorf("write out the copy: %w", err)
		}
	}
	w.s.way.give(w.ctx, piecePatience)
	return w.told()
}

// flushing says when a copy must have the disk flush its cache.
type flushing struct {
	at      int64  // what was written when it was flushed last
	commits uint64 // each of which flushes it, too
}

// due reports whether so much was written since the last flush that the next one, which
// may be a commit's, would take long; if so, it counts as done.
func (f *flushing) due(written int64, commits uint64) bool {
	switch {
	case commits != f.commits:
		f.at, f.commits = written, commits
	case written-f.at >= flushEvery:
		f.at = written
		return true
	}
	return false
}

// told asks whether the copy may go on.
func (w *snapshotWriter) told() error {
	if err := context.Cause(w.ctx); err != nil {
		return err
	}
	room, err := w.s.file.MapRoom()
	if err != nil {
		return err
	}
	if room < mapReserve {
		return ErrMapFull
	}
	return w.step(SnapshotStep{Done: w.done, Total: w.total, Inside: w.s.file.FreeInside(), InUse: w.s.inUse.Load()})
}

// Seal makes a finished copy an archive: it marks it, so that it is not taken for the
// store that it was copied from, and syncs it. The file is open in to under path,
// and is locked through it: to must have no lock of another kind. A copy that is damaged
// may end the process with a signal, since bbolt maps it unchecked: call it in a process
// of its own.
func Seal(to *os.File, path string, note []byte) error {
	err := guard(func() error {
		return dbfile.Amend(to, path, func(tx *bolt.Tx) error {
			if _, err := identify(tx); err != nil {
				return err
			}
			return tx.Bucket(bucketMeta).Put(metaArchive, note)
		})
	})
	if err != nil {
		return fmt.Errorf("seal the copy: %w", err)
	}
	return nil
}
