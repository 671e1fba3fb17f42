package ledger

import (
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// sizes are the ledger's limits. Only tests use others than the defaults; a
// file written under other limits can be read.
type sizes struct {
	headKeys    int // keys in a head
	headBytes   int // record bytes in a head
	logValue    int // bytes of a log value
	block       int // bytes of a block
	runRecords  int // records before a filter piece is closed
	fanIn       int // segments of a tier that are merged
	topTier     int // segments of this tier are merged into one of the same tier
	maxSegments int
	maxDamaged  int // damaged segments with which the ledger lives on
	pace        int // bytes of work done per byte put, while there is work
	minStep     int // bytes of work worth the seeks of a step
}

// defaultSizes returns the limits in force.
//
// bbolt never splits a leaf of four values or fewer, and rewrites the whole leaf
// when one is appended: with 16 KiB values each append would write 64 KiB. So
// values are small enough for four (log) or two (blocks, pieces) to fill a
// 4 KiB page exactly, overhead included.
func defaultSizes() sizes {
	return sizes{
		headKeys:    1 << 18,
		headBytes:   12 << 20,
		logValue:    996,
		block:       2000,
		runRecords:  runRecords,
		fanIn:       4,
		topTier:     3,
		maxSegments: 16,
		maxDamaged:  8,
		pace:        12,
		minStep:     16 << 10,
	}
}

// smallSizes make a few hundred entries go through every kind of step.
func smallSizes() sizes {
	return sizes{
		headKeys: 40, headBytes: 4096, logValue: 300, block: 300, runRecords: 20,
		fanIn: 4, topTier: 3, maxSegments: 16, maxDamaged: 8, pace: 12, minStep: 1,
	}
}

// Ledger is the idempotency ledger of one open file. It is not safe for
// concurrent use: it belongs to the committer.
type Ledger struct {
	sizes     sizes
	keep      func(Entry) bool
	active    *head
	frozen    *head      // empty unless a job seals it
	segments  []*segment // newest first, tiers ascending
	jobs      []*job     // lowest tier first, at most one a tier
	repairs   []repair   // to be stored
	mended    []error    // see Repaired
	rewritten []error    // of those, damage of segments that only jobs knew
	unsaved   bool       // the manifest in the file lists jobs that were given up

	nextID    uint64
	nextLog   uint64 // number of the next log value
	floor     uint64 // log values below are sealed
	frozenEnd uint64 // log values in [floor, frozenEnd) are in the frozen head
	live      int64
	sweep     bool  // asked for and not begun
	swept     int64 // keys that had expired when it was asked for last
	owed      int   // bytes of work that Put owes, see pace
	written   int64 // bytes of blocks written since Open
}

// Buckets are the names of the ledger's buckets.
func Buckets() [][]byte { return [][]byte{bucketManifest, bucketLog, bucketBlocks, bucketFilters} }

// Init creates the ledger's buckets and an empty manifest. It fails if there
// is a ledger already.
func Init(tx *bolt.Tx) error {
	for _, name := range Buckets() {
		if _, err := tx.CreateBucket(name); err != nil {
			return fmt.Errorf("create bucket %s: %w", name, err)
		}
	}
	return (&manifest{Version: manifestVersion}).put(tx)
}

// Open loads the ledger: manifest, filters and log, but no blocks. A damaged
// manifest or log value is an error that matches queue.ErrDamaged. tx may be
// read-only as long as only Get, Walk and Check are called.
func Open(tx *bolt.Tx) (*Ledger, error) { return openSized(tx, defaultSizes()) }

// OpenSmall is Open with limits so small that a few hundred entries are sealed and
// merged: for tests of what stands above it.
func OpenSmall(tx *bolt.Tx) (*Ledger, error) { return openSized(tx, smallSizes()) }

// OpenLean is Open with heads for some thousands of keys: for tests that open many stores
// of a few messages, where the memory of the usual heads takes longer than the rest.
func OpenLean(tx *bolt.Tx) (*Ledger, error) {
	s := defaultSizes()
	s.headKeys, s.headBytes = s.headKeys/64, s.headBytes/64
	return openSized(tx, s)
}

func openSized(tx *bolt.Tx, s sizes) (*Ledger, error) {
	l := &Ledger{sizes: s}
	if err := l.Reload(tx); err != nil {
		return nil, err
	}
	return l, nil
}

// SetKeep sets the rule of retention: keep is asked about Done, Discarded and
// Forgotten entries when their segment is merged, and false lets the key be
// forgotten altogether. A key let go must not be Put again as what it was,
// only as new. nil, the default, keeps everything.
func (l *Ledger) SetKeep(keep func(Entry) bool) { l.keep = keep }

// Get returns the newest entry of a key. A Forgotten entry is returned like any
// other; to the gates it means that the key is free. The entry shares no memory
// with the file. A *DoubtError: nobody can say, since its newest entry may be in a block
// that is damaged.
func (l *Ledger) Get(tx *bolt.Tx, k Key) (Entry, bool, error) {
	r, err := l.find(tx, k)
	if r == nil || err != nil {
		return Entry{}, false, err
	}
	return r.entry(), true, nil
}

// find returns the newest record of k, or nil.
func (l *Ledger) find(tx *bolt.Tx, k Key) (record, error) {
	if r := l.active.get(k); r != nil {
		return r, nil
	}
	if r := l.frozen.get(k); r != nil {
		return r, nil
	}
	for _, s := range l.segments {
		// An older entry is no answer while a newer one may be where nobody can read.
		if r, err := s.find(tx, k); r != nil || err != nil {
			return r, l.met(err)
		}
	}
	return nil, nil
}

// Put appends entries, the later of one key being the newer. It also does the
// share of maintenance that keeps memory and segments bounded: about twelve
// bytes of work for each byte put, while there is work (see pace). After an
// error the transaction must be rolled back and the ledger reloaded.
func (l *Ledger) Put(tx *bolt.Tx, entries []Entry) error {
	for i := range entries {
		if err := entries[i].check(); err != nil {
			return fmt.Errorf("ledger: put: %w", err)
		}
	}
	for len(entries) > 0 {
		n, err := l.putValue(tx, entries)
		if err != nil {
			return fmt.Errorf("ledger: put: %w", err)
		}
		entries = entries[n:]
	}
	return l.payOwed(tx)
}

// putValue writes as many entries as fit one log value, and returns how many.
// A log value belongs to one head as a whole: that is what lets the log be
// deleted by ranges of numbers.
func (l *Ledger) putValue(tx *bolt.Tx, entries []Entry) (int, error) {
	if l.active.keys+l.sizes.logValue/recordFixed > l.sizes.headKeys ||
		len(l.active.slab)+l.sizes.logValue > l.sizes.headBytes {
		if err := l.freeze(tx); err != nil {
			return 0, err
		}
	}
	l.active.reserve(l.sizes.headKeys, l.sizes.headBytes)
	value := make([]byte, crcLen, l.sizes.logValue)
	n := 0
	for n < len(entries) && (n == 0 || len(value)+recordFixed+recordTail+len(entries[n].Outcome) <= l.sizes.logValue) {
		at := len(value)
		value = appendRecord(value, &entries[n])
		l.active.put(value[at:])
		l.live += record(value[at:]).counts()
		n++
	}
	key := logKey(l.nextLog)
	sign(key, value)
	l.nextLog++
	l.owed += l.sizes.pace * len(value)
	return n, appendBucket(tx, bucketLog).Put(key, value)
}

// Reload rebuilds everything in memory from the file. It is needed after a
// transaction that was rolled back, and after any error of Put or Maintain.
func (l *Ledger) Reload(tx *bolt.Tx) error {
	m, err := readManifest(tx)
	if err != nil {
		return err
	}
	l.nextID, l.floor, l.frozenEnd, l.owed = m.NextID, m.Floor, m.Frozen, 0
	l.nextLog, l.live = m.Floor, m.Live
	l.segments, l.jobs, l.sweep, l.swept = nil, nil, false, 0
	l.repairs, l.mended, l.rewritten, l.unsaved = nil, nil, nil, false
	for _, line := range m.Segments {
		s := &segment{id: line.ID, tier: line.Tier}
		if err := s.load(tx, l, line.Records); err != nil {
			return err
		}
		l.segments = append(l.segments, s)
		if err := l.met(s.doubt(s.damaged)); err != nil && !errors.As(err, new(*DoubtError)) {
			return err
		}
	}
	l.raiseTiers()
	if err := l.resume(tx, m.Jobs); err != nil {
		return err
	}
	return l.replay(tx, m.LiveAt)
}

// replay fills both heads from the log. Numbers ascend without a gap; a missing
// one would be a forgotten key, so it is damage.
func (l *Ledger) replay(tx *bolt.Tx, liveAt uint64) error {
	l.active, l.frozen = l.emptied(l.active), l.emptied(l.frozen)
	c := tx.Bucket(bucketLog).Cursor()
	for key, value := c.Seek(logKey(l.floor)); key != nil; key, value = c.Next() {
		rest, err := body(bucketLog, key, value)
		if err != nil {
			return err
		}
		if len(key) != 8 || binary.BigEndian.Uint64(key) != l.nextLog {
			return damage(bucketLog, key, fmt.Sprintf("expected log number %d", l.nextLog))
		}
		h := l.active
		if l.nextLog < l.frozenEnd {
			h = l.frozen
		}
		for len(rest) > 0 {
			r, tail, ok := cutRecord(rest)
			if !ok {
				return damage(bucketLog, key, "record cut short")
			}
			h.put(r)
			if l.nextLog >= liveAt {
				l.live += r.counts()
			}
			rest = tail
		}
		l.nextLog++
	}
	if l.nextLog < max(liveAt, l.frozenEnd) {
		return fmt.Errorf("%w: bucket %s ends at number %d, the manifest says %d",
			queue.ErrDamaged, bucketLog, l.nextLog, max(liveAt, l.frozenEnd))
	}
	return nil
}

// replayKeys is for how many keys a head has room before its first record.
const replayKeys = 64

// emptied returns h without its records, or a new head.
func (l *Ledger) emptied(h *head) *head {
	if h == nil {
		return newHead(replayKeys, 0)
	}
	h.reset()
	return h
}

// Len returns how much is stored: entries (superseded ones included), segments,
// and the bytes of both in the file, without bbolt's own overhead.
func (l *Ledger) Len() (entries, segments int, bytes int64) {
	entries = l.active.keys + l.frozen.keys
	bytes = int64(len(l.active.slab) + len(l.frozen.slab))
	for _, s := range l.segments {
		entries += s.records
		bytes += s.bytes
	}
	return entries, len(l.segments), bytes
}

// Live returns the number of distinct keys that are remembered and not
// Forgotten: keys put as New, less those Forgotten, less those that retention
// let go. It survives a crash exactly.
func (l *Ledger) Live() int64 { return l.live }

// Memory returns the bytes held for heads and filters.
func (l *Ledger) Memory() int64 {
	n := l.active.memory() + l.frozen.memory()
	for _, s := range l.segments {
		n += s.filter.memory()
	}
	for _, j := range l.jobs {
		n += j.out.filter.memory()
	}
	return n
}
