package boltstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"runtime/debug"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// txn is one read-write transaction in the making: operations change the file
// through it and the tables beside it, and leave their records in its trail.
type txn struct {
	t      *tables
	tx     *bolt.Tx
	b      buckets
	trail  *queue.BlockWriter
	ended  *queue.Ended   // for answers that come too late
	ledger []ledger.Entry // entries to put, in order …
	// … and the newest of them by key, for who must see them before that.
	pending map[ledger.Key]ledger.Entry
	room    room                  // what limits compare with
	dirty   bool                  // something was written that leaves no record
	moved   int                   // entries put into bucket parked, and taken from it
	tidied  []*queue.ExpireResult // of requests: the ledger is tidied when it has its entries
	clocks  []clock               // of the flights whose lease or wait it ends, as they were

	// Duplicates answered in this transaction, for its one DUPLICATE_SKIPPED.
	skipped     int
	skippedSeqs []uint64
	skippedAt   time.Time
}

// seqKey is a message's key in buckets by seq.
func seqKey(seq uint64) []byte { return binary.BigEndian.AppendUint64(make([]byte, 0, 8), seq) }

// seqSum is the checksum of what is stored under a seq: with the seq, so that one
// that lies in another's place is noticed.
func seqSum(seq uint64, body []byte) uint32 { return keySum(seqKey(seq), body) }

// keySum is the checksum of what is stored under a key.
func keySum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

// record adds a record to the trail of this transaction, and to its index.
func (x *txn) record(r queue.Record) {
	before := x.trail.Size()
	x.trail.Add(&r)
	x.t.spans.add(&r, x.trail.OpenBlock(), x.trail.Size()-before)
}

// skip counts a duplicate.
func (x *txn) skip(of uint64, now time.Time) {
	x.skipped++
	x.skippedAt = now
	if len(x.skippedSeqs) < queue.MaxSkippedSeqs && !slices.Contains(x.skippedSeqs, of) {
		x.skippedSeqs = append(x.skippedSeqs, of)
	}
}

// remember queues a ledger entry; all are put together before the commit.
func (x *txn) remember(e ledger.Entry) {
	switch e.State {
	case ledger.StateDone, ledger.StateDiscarded:
		e.Epoch = uint32(x.t.service.Epoch)
		x.t.count.settled++
	case ledger.StateForgotten:
		x.t.count.remembered--
	}
	x.ledger = append(x.ledger, e)
	x.pending[e.Key] = e
}

// claimKey queues the first entry of an idempotency key that nobody has, or has any
// more; before is what recall said of it.
func (x *txn) claimKey(e, before ledger.Entry) {
	// The ledger counts the keys that it has, also those that have expired.
	e.New = before.Seq == 0 || before.State == ledger.StateForgotten
	x.t.count.remembered++
	x.remember(e)
}

// recall reads a ledger entry, those of this transaction included; its Seq is zero if
// there is none. Whether its key is still somebody's, taken says.
func (x *txn) recall(k ledger.Key) (e ledger.Entry, err error) {
	if e, ok := x.pending[k]; ok {
		return e, nil
	}
	e, _, err = x.t.ledger.Get(x.tx, k)
	return e, err
}

// inDoubt reports whether an error of recall or follow says that nobody can tell whose
// an idempotency key is, since what is stored of it may be in bytes that are damaged. It
// is no end of the store: who asked is refused, and nothing is changed.
func inDoubt(err error) bool {
	return errors.Is(err, errAlias) || errors.As(err, new(*ledger.DoubtError))
}

// doubtText is what is said of a key that is in doubt.
const doubtText = "what is remembered of its idempotency key may be in a part of the ledger that is damaged"

// taken reports whether the key of an entry is a message's: not one that was given up
// with its dead letter, or settled so long ago that it is forgotten.
func (t *tables) taken(e ledger.Entry) bool {
	switch e.State {
	case ledger.StateOpen, ledger.StateDead:
		return true
	case ledger.StateDone, ledger.StateDiscarded:
		return !t.service.Lapsed(uint64(e.Epoch))
	}
	return false
}

// ends notes the clock of a flight before its lease or wait ends, in case this
// transaction is undone.
func (x *txn) ends(f *flight) { x.clocks = append(x.clocks, f.clock()) }

// saveFlight writes a flight, or removes it when there is nothing left to store.
// Every change of one comes with a record.
func (x *txn) saveFlight(f *flight) error {
	if f.blank() {
		delete(x.t.flights, f.seq)
		return x.b.flight.Delete(seqKey(f.seq))
	}
	x.t.flights[f.seq] = f
	return x.b.flight.Put(seqKey(f.seq), appendFlight(nil, f))
}

// changed reports whether there is anything to commit.
func (x *txn) changed() bool {
	return x.dirty || x.trail.Len() > 0 || x.skipped > 0 || len(x.ledger) > 0
}

// finish writes what belongs to the transaction as a whole: ledger, blocks of the
// trail, counters.
func (x *txn) finish() error {
	if err := x.walk(); err != nil {
		return err
	}
	if !x.changed() {
		return nil
	}
	if err := x.t.ledger.Put(x.tx, x.ledger); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	if len(x.tidied) > 0 {
		if err := x.tidy(); err != nil {
			return err
		}
	}
	if x.skipped > 0 {
		x.record(queue.SkippedRecord(x.skippedAt, x.skipped, x.skippedSeqs))
	}
	for _, block := range x.trail.Blocks() {
		if err := x.b.audit.Put(seqKey(block.Number), queue.AppendBlock(nil, block, true)); err != nil {
			return fmt.Errorf("write block %d of the trail: %w", block.Number, err)
		}
	}
	if err := x.t.spans.write(x.tx); err != nil {
		return err
	}
	c := &x.t.count
	c.head, c.lastN = x.trail.Head(), x.trail.LastN()
	if err := x.b.meta.Put(metaTally, tally{lastN: c.lastN, flights: len(x.t.flights) + len(x.t.lostFlights)}.append(nil)); err != nil {
		return err
	}
	return x.b.meta.Put(metaCounters, c.append(nil))
}

// panicError is a panic of bbolt's, which it raises on pages that make no sense.
// Its stack is for the log of whoever debugs the store, never for a user.
type panicError struct {
	value any
	stack []byte
}

// Error names the panic's value.
func (e *panicError) Error() string {
	return fmt.Sprintf("the store's pages make no sense: %v", e.value)
}

// guard runs f and turns a panic into an error.
func guard(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %w", queue.ErrDamaged, &panicError{value: v, stack: debug.Stack()})
		}
	}()
	return f()
}
