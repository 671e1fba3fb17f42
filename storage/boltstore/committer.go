package boltstore

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// Bounds of one group commit. More operations wait in the channel; more callers
// than that wait on it.
const (
	maxGroupOps = 256
	// A group of this size takes some ten times as long to apply as to sync: a larger
	// one would gain nothing, and everybody in it would wait longer.
	maxGroupBytes = 1 << 20
	maxWaitingOps = 256
	// maxAhead is how many groups without admissions may go before one with them,
	// while both wait.
	maxAhead = 4
	// maxYields is how often callers that are about to ask get the chance to, before a
	// group without admissions is closed. It is no delay: with nobody about to ask it
	// costs microseconds.
	maxYields = 3
)

// operation is one caller's part of a transaction.
type operation struct {
	// apply does the work. It runs in the committer, possibly a second time in
	// another transaction after the first one was refused and undone, so it must
	// set its results and not add to them. An error of one that writes is the end of
	// the store: what can be refused is refused in the results.
	apply func(x *txn) error
	// read marks an operation that changes nothing in the file. Its error is its
	// caller's alone.
	read bool
	// admits marks one that is given up when there is no room, so that
	// settlements still fit.
	admits bool
	bytes  int
	head   queue.Head // of the trail after the commit; set before done
	done   chan error
}

// do hands an operation to the committer and waits for its commit. A context only
// bounds the wait for a turn.
func (s *Store) do(ctx context.Context, op *operation) error {
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the store: %w", context.Cause(ctx))
	}
	op.done = make(chan error, 1)
	turn := s.operations
	if op.admits {
		turn = s.admissions
	}
	select {
	case turn <- op:
	case <-s.ended:
		return s.endedErr()
	case <-ctx.Done():
		return fmt.Errorf("wait for the store: %w", context.Cause(ctx))
	}
	select {
	case err := <-op.done:
		return err
	case <-s.ended:
	}
	// The committer has left. It answered what it took before that; what came
	// after its last look lies in the channel for ever.
	select {
	case err := <-op.done:
		return err
	default:
		return s.endedErr()
	}
}

// endedErr is what a call on an ended store returns.
func (s *Store) endedErr() error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return queue.ErrClosed
}

// commitLoop is the committer: it owns tables, ledger and the only read-write
// transaction. It is tied to its thread, so that a test can count and break its
// system calls, and so that a page that can't be read is a panic, which guard
// catches, and not a signal.
func (s *Store) commitLoop() {
	defer close(s.ended)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	debug.SetPanicOnFault(true)
	for ahead := 0; ; {
		group := s.nextGroup(ahead)
		if group == nil {
			s.refuseWaiting(queue.ErrClosed)
			return
		}
		if ahead++; group[len(group)-1].admits {
			ahead = 0
		}
		if err := s.commitGroup(group); err != nil {
			s.failure.Store(&err)
			s.refuseWaiting(err)
			return
		}
	}
}

// nextGroup waits for work and returns what goes into the next transaction; nil
// when the store is closed.
//
// Admissions are long, a claim or a settlement is short, and a worker waits for
// both before it can go on: so these have their own channel and go first, in
// groups of their own while there are any, but not more than maxAhead before
// admissions have their turn. Without that a busy intake would slow the handlers
// down to one round for two of its commits.
func (s *Store) nextGroup(ahead int) []*operation {
	s.group = s.group[:0]
	select {
	case op := <-s.operations:
		s.group = append(s.group, op)
	default:
		select {
		case op := <-s.operations:
			s.group = append(s.group, op)
		case op := <-s.admissions:
			s.group = append(s.group, op)
		case <-s.closing:
			return nil
		}
	}
	if !s.group[0].admits {
		s.collect(s.operations)
		for range maxYields {
			runtime.Gosched()
			s.collect(s.operations)
		}
		if ahead < maxAhead {
			return s.group
		}
	}
	s.collect(s.admissions)
	return s.group
}

// collect adds what else waits in a channel to the group, up to its bounds.
func (s *Store) collect(from <-chan *operation) {
	bytes := 0
	for _, op := range s.group {
		bytes += op.bytes
	}
	for len(s.group) < maxGroupOps && bytes < maxGroupBytes {
		select {
		case op := <-from:
			s.group = append(s.group, op)
			bytes += op.bytes
		default:
			return
		}
	}
}

// refuseWaiting answers operations that got no turn. Callers that come later find
// the store ended.
func (s *Store) refuseWaiting(err error) {
	for {
		select {
		case op := <-s.operations:
			op.done <- err
		case op := <-s.admissions:
			op.done <- err
		default:
			return
		}
	}
}

// commitGroup applies a group and answers it: what only looks first, for it needs
// no sync, and a question that has no answer must not end a transaction. The error
// it returns is the end of the store: its callers have got it too.
func (s *Store) commitGroup(group []*operation) error {
	reads, writes := apart(group)
	if len(reads) > 0 {
		if err := s.readGroup(reads); err != nil {
			s.answer(writes, err)
			return err
		}
	}
	if len(writes) == 0 {
		return nil
	}
	err := s.commitOnce(writes)
	s.tellDamage()
	if errors.Is(err, queue.ErrNoRoom) {
		return s.commitWithoutAdmits(writes, err)
	}
	if err == nil {
		s.publish()
	}
	s.answer(writes, err)
	return err
}

func (s *Store) answer(group []*operation, err error) {
	for _, op := range group {
		op.head = s.t.count.head
		op.done <- err
	}
}

// apart divides a group, in whose memory the writes stay.
func apart(group []*operation) (reads, writes []*operation) {
	writes = group[:0]
	for _, op := range group {
		if op.read {
			reads = append(reads, op)
		} else {
			writes = append(writes, op)
		}
	}
	return reads, writes
}

// commitWithoutAdmits deals with a clean refusal for want of room: what would
// store new messages is answered ErrNoRoom, the rest is applied alone. If there is
// no room even for that, each caller may ask again; nothing was changed.
func (s *Store) commitWithoutAdmits(group []*operation, refused error) error {
	var rest []*operation
	for _, op := range group {
		if op.admits {
			op.done <- refused
		} else {
			rest = append(rest, op)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	if len(rest) < len(group) {
		if refused = s.commitOnce(rest); refused == nil {
			s.publish()
			s.answer(rest, nil)
			return nil
		}
	}
	s.answer(rest, refused)
	if errors.Is(refused, queue.ErrNoRoom) {
		return nil
	}
	return refused
}

// readGroup answers operations that only look.
func (s *Store) readGroup(group []*operation) error {
	x, err := s.begin(false)
	if err != nil {
		err = failed("begin to read", err)
		s.answer(group, err)
		return err
	}
	defer func() { _ = x.tx.Rollback() }() // of a read transaction: nothing can fail
	for _, op := range group {
		op.done <- guard(func() error { return op.apply(x) })
	}
	s.tellDamage()
	return nil
}

// begin begins a transaction. bbolt looks at pages here already, and panics on those
// that make no sense.
func (s *Store) begin(writable bool) (x *txn, err error) {
	err = guard(func() error {
		tx, err := s.file.DB().Begin(writable)
		if err == nil {
			x = s.newTxn(tx)
		}
		return err
	})
	return x, err
}

// newTxn starts an operation's view of a transaction.
func (s *Store) newTxn(tx *bolt.Tx) *txn {
	s.trail.Reset(s.t.count.head, s.t.count.lastN)
	clear(s.pending)
	return &txn{t: s.t, tx: tx, b: bucketsOf(tx), trail: &s.trail, ended: &s.over, pending: s.pending, room: s.room(tx)}
}

// commitOnce applies a group to one transaction. A nil error: it is on the disk.
// ErrNoRoom: it certainly is not, and the tables are as before. ErrFailed: nobody
// knows, or the tables are spoilt; the store is over.
func (s *Store) commitOnce(group []*operation) error {
	x, err := s.begin(true)
	if err != nil {
		return failed("begin a transaction", err)
	}
	tx := x.tx
	before := uint64(tx.ID()) - 1
	err = guard(func() error {
		for _, op := range group {
			if err := op.apply(x); err != nil {
				return err
			}
		}
		return x.finish()
	})
	if err != nil {
		_ = tx.Rollback() // the store is over; err says why
		return failed("apply operations", err)
	}
	if !x.changed() {
		return tx.Rollback() // of nothing; who asked for work and got none costs no sync
	}
	end := s.way.take()
	err = guard(func() error { return s.options.commit(tx) })
	end()
	if err != nil {
		return s.judgeCommit(err, before, x.clocks)
	}
	s.txid = before + 1
	// A file that was removed, replaced or cut short under us takes commits, and no
	// start will ever find them.
	if err := guard(s.file.Present); err != nil {
		return failed("look for the store's file", err)
	}
	return nil
}

// judgeCommit decides what a failed commit means; clocks is what it would have
// ended.
func (s *Store) judgeCommit(err error, before uint64, clocks []clock) error {
	var after uint64
	txErr := guard(func() (err error) {
		after, err = s.file.Txid()
		return err
	})
	if txErr != nil {
		return failed("commit", errors.Join(err, txErr))
	}
	if dbfile.Classify(err, before, after) != dbfile.CleanRefusal {
		return failed("commit", err)
	}
	if loadErr := s.reload(clocks); loadErr != nil {
		return failed("rebuild the tables after a refused commit", errors.Join(err, loadErr))
	}
	return fmt.Errorf("%w: %w", queue.ErrNoRoom, err)
}

// failed wraps the end of the store.
func failed(doing string, err error) error {
	return fmt.Errorf("%w: %s: %w", queue.ErrFailed, doing, err)
}

// publish tells the world of a commit: the witness beside the file first, then
// the observer.
func (s *Store) publish() {
	if s.trail.Len() == 0 {
		return
	}
	s.testify()
	if s.options.Committed != nil {
		n := s.trail.Len()
		s.options.Committed(queue.Commit{
			Head: s.t.count.head, FirstN: s.t.count.lastN - uint64(n) + 1, Count: n, Records: s.trail.Plain(),
		})
	}
}
