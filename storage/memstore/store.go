// Package memstore is the model of a store: the whole of queue.Store with one
// mutex, plain maps and sorted slices. It is written to be obviously right, not
// fast, and other stores are compared with it, call by call and record by record
// (package storetest). Tests of what stands above a store use it in place of a
// file.
//
// Nothing is on a disk, so P1 (durable at receipt) is the one promise it can only
// play: Reopen models a process that ended and a new one that opens the same
// store, and loses exactly what a process loses with its memory.
//
// Where a rule looks arbitrary, it is: two stores must do the same, so that one
// can be checked by the other. Every such rule has a test in storetest.
package memstore

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"sync"
	"time"

	"breakwater/queue"
)

// Options of a store. The zero value is ready to use.
type Options struct {
	// ID is which store it is; zero: a random one.
	ID [16]byte
	// Committed, if set, is told of each transaction that left records, in their
	// order, before the call that made it returns. It may read the store, but
	// must not write to it.
	Committed func(queue.Commit)
}

// Store is a queue.Store in memory. Make one with New.
type Store struct {
	options Options

	// writing is held for a whole write, the observer's call included, so that
	// commits are told in their order; mu only while the state is looked at.
	writing sync.Mutex
	mu      sync.Mutex
	closed  bool
	state
}

// state is everything that a store remembers. The second half would be lost with
// the process: Reopen rebuilds it.
type state struct {
	id       [16]byte // which store it is
	lastSeq  uint64
	restored uint64              // lastSeq when an older state was restored; 0: never
	fence    uint64              // the last one given
	duePlace queue.Place         // the last one given to a scheduled message
	open     map[uint64]*message // by seq; what is scheduled, ready, held or leased
	dead     map[uint64]*message // by seq; dead letters
	ledger   map[string]*entry   // by idempotency key
	aliases  map[string]alias    // by lines and contents that are a message's no more
	keys     map[string]*key     // by partition key: those with anything to remember
	openKeys int64               // of those, how many have open messages with a place
	holds    int                 // of those, how many an operator holds
	done     int64
	gone     int64 // discarded
	paused   *queue.Pause
	config   json.RawMessage
	archived queue.ArchiveMark
	clean    bool // the last process closed the store
	service  queue.Uptime
	epochs   []queue.Epoch // that have ended
	opening  queue.Opening // where the trail begins
	settled  int64         // keys, in the present epoch

	blocks []queue.Block // the trail, from the genesis
	lastN  uint64
	chain  queue.BlockWriter

	ended   queue.Ended    // for answers that come too late
	records []queue.Record // of the transaction under way
	turns   uint64         // the last turn given to a key
	began   uint64         // how many waits have begun
}

// New returns an empty store.
func New(o Options) *Store {
	if o.ID == ([16]byte{}) {
		o.ID = newID()
	}
	return &Store{options: o, state: state{
		id:      o.ID,
		open:    map[uint64]*message{},
		dead:    map[uint64]*message{},
		ledger:  map[string]*entry{},
		aliases: map[string]alias{},
		keys:    map[string]*key{},
		clean:   true, // nobody has left it in disorder

		service: queue.Uptime{Epoch: 1, Kept: 1},
	}}
}

// newID names a store. It is the one thing in which two stores that were given the
// same calls differ.
func newID() (id [16]byte) {
	_, _ = rand.Read(id[:]) // never fails
	return id
}

// Close ends the store; what is in it can only be reached by Reopen.
func (s *Store) Close() error {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
	}
	return nil
}

// Reopen returns the store as the next process finds it, and ends this one: after
// Close that is a clean start, else the start after a crash. As with any store,
// Start must be the first call.
func (s *Store) Reopen() *Store {
	s.writing.Lock()
	defer s.writing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	next := &Store{options: s.options, state: s.state}
	next.clean = s.closed
	next.forget()
	s.closed, s.state = true, state{}
	return next
}

// forget drops what only a living process knows: readings of the monotonic clock,
// who is set aside, and the turns of the keys (Start files them anew).
func (s *state) forget() {
	s.turns, s.began, s.ended = 0, 0, queue.Ended{}
	for _, k := range s.keys {
		k.filed, k.aside = false, nil
		if k.wait != nil {
			k.wait.due = micros(k.wait.due)
		}
	}
	for _, m := range s.open {
		if m.lease != nil {
			m.lease.deadline = micros(m.lease.deadline)
		}
	}
}

// write runs one transaction: apply changes the state and leaves records, which
// are then chained and told to the observer. apply cannot fail, so there is
// nothing to undo.
func (s *Store) write(ctx context.Context, apply func()) error {
	_, err := s.transact(ctx, apply)
	return err
}

// transact is write for a caller that wants to know the head it led to.
func (s *Store) transact(ctx context.Context, apply func()) (queue.Head, error) {
	s.writing.Lock()
	defer s.writing.Unlock()
	var told queue.Commit
	err := s.read(ctx, func() {
		apply()
		told = s.commit()
	})
	if err == nil && told.Count > 0 && s.options.Committed != nil {
		s.options.Committed(told)
	}
	return told.Head, err
}

// read runs fn while nobody else changes the state.
func (s *Store) read(ctx context.Context, fn func()) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return queue.ErrClosed
	}
	fn()
	return nil
}

// record adds to the trail of the transaction under way.
func (s *state) record(r queue.Record) { s.records = append(s.records, r) }

// commit appends the records of the transaction to the chain.
func (s *state) commit() queue.Commit {
	s.chain.Reset(s.head(), s.lastN)
	for i := range s.records {
		s.chain.Add(&s.records[i])
	}
	told := queue.Commit{FirstN: s.lastN + 1, Count: len(s.records)}
	for _, b := range s.chain.Blocks() {
		b.Plain = append([]byte(nil), b.Plain...) // the writer uses its memory again
		s.blocks = append(s.blocks, b)
		told.Records = append(told.Records, b.Plain...)
	}
	s.lastN += uint64(told.Count)
	s.records = s.records[:0]
	told.Head = s.head()
	return told
}

// head returns the head of the chain: that of its last block.
func (s *state) head() queue.Head {
	if len(s.blocks) == 0 {
		return queue.Head{}
	}
	return s.blocks[len(s.blocks)-1].Head()
}

// micros is t as it is stored: on the wall clock, UTC, in whole microseconds.
func micros(t time.Time) time.Time { return t.UTC().Truncate(time.Microsecond) }
