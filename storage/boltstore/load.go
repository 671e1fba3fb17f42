package boltstore

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// load builds the tables from the file, in a read-only transaction: the small
// buckets first, then one walk over the backlog, which counts every key's messages
// and fills the window as far as it reaches. progress may be nil.
func load(tx *bolt.Tx, secret [32]byte, o *Options, progress func(done int64)) (*tables, error) {
	t := newTables(secret, o)
	l := loader{txn: &txn{t: t, tx: tx, b: bucketsOf(tx)}, openLedger: o.ledger, progress: progress}
	for _, step := range [...]func() error{
		l.counters, l.service, l.opening, l.archived, l.ledgerHead, l.pause, l.holds, l.letters, l.parked, l.flights, l.backlog, l.scheduled, l.finish, l.tally, l.spans,
	} {
		if err := step(); err != nil {
			return nil, fmt.Errorf("load: %w", err)
		}
	}
	return t, nil
}

// loader is one load. It uses a txn for the steps that it shares with the running
// store; none of those that it calls writes.
type loader struct {
	*txn
	progress   func(done int64)
	openLedger func(*bolt.Tx) (*ledger.Ledger, error)
	order      []*key // keys in the order of their heads
	filling
}

func (l *loader) counters() (err error) {
	if l.t.count, err = parseCounters(l.b.meta.Get(metaCounters)); err != nil {
		return err
	}
	return checkConfig(l.b.meta)
}

func (l *loader) archived() (err error) {
	l.t.archived, err = parseArchiveMark(l.b.meta.Get(metaArchived))
	return err
}

func (l *loader) ledgerHead() (err error) {
	if l.t.ledger, err = l.openLedger(l.tx); err != nil {
		return fmt.Errorf("the ledger: %w", err)
	}
	l.t.ledger.SetKeep(l.t.taken)
	return nil
}

func (l *loader) pause() error {
	b := l.b.meta.Get(metaPause)
	if b == nil {
		return nil
	}
	l.t.pause = new(queue.Pause)
	if err := json.Unmarshal(b, l.t.pause); err != nil {
		return fmt.Errorf("%w: the pause in bucket meta: %w", queue.ErrDamaged, err)
	}
	return nil
}

func (l *loader) holds() error {
	return l.b.held.ForEach(func(name, _ []byte) error {
		k := l.t.keyOf(hashKey(l.t.secret, string(name)), partition.SlotOfBytes(name))
		k.opHold = true
		l.t.holds[k.hash] = string(name)
		return nil
	})
}

// letters counts the dead letters and finds out which keys they block.
func (l *loader) letters() error {
	err := l.b.dead.ForEach(func(at, b []byte) error {
		if len(at) != 8 {
			return fmt.Errorf("%w: a key of %d bytes in bucket dead", queue.ErrDamaged, len(at))
		}
		d, place, err := l.letter(binary.BigEndian.Uint64(at), b)
		if err != nil {
			return err
		}
		l.t.countLetter(&d, 1)
		if d.repeats() {
			l.t.letters[letterOf(d.line)] = int64(d.seq)
		}
		if place.Sub != 0 {
			l.t.late = append(l.t.late, lateLetter{place, d.seq})
		}
		if d.flags&deadBlocks == 0 {
			return nil
		}
		h, err := parseHeader(d.record)
		if err != nil {
			return fmt.Errorf("dead letter %d: %w", d.seq, err)
		}
		k := l.t.keyOf(h.key, slotOf(d.record))
		k.blockers = append(k.blockers, d.seq)
		return nil
	})
	slices.SortFunc(l.t.late, func(a, b lateLetter) int { return a.place.Compare(b.place) })
	return err
}

// letter reads as much of a dead letter as a start needs, and its place where that is
// not its seq.
func (l *loader) letter(seq uint64, b []byte) (d deadLetter, place queue.Place, err error) {
	d, err = parseDeadHeader(seq, b)
	if err == nil {
		d.meta.Code, err = deadCode(&d, b)
	}
	if err == nil {
		_, err = parseHeader(d.record)
	}
	if err != nil {
		d, err = l.deadStandIn(seq, err)
		return d, d.place(), err
	}
	return d, placeIn(b[deadHeader : len(b)-len(d.record)]), nil
}

func (l *loader) flights() error {
	return l.b.flight.ForEach(func(at, b []byte) error {
		if len(at) != 8 {
			return fmt.Errorf("%w: a key of %d bytes in bucket flight", queue.ErrDamaged, len(at))
		}
		f, err := parseFlight(binary.BigEndian.Uint64(at), b)
		switch {
		case err == nil:
			l.t.flights[f.seq] = &f
		case len(l.t.lostFlights) == maxDamaged:
			return fmt.Errorf("more than %d lease records are damaged: %w", maxDamaged, err)
		default: // who holds the message, and how often it was tried, nobody knows: it waits
			l.t.lostFlights = append(l.t.lostFlights, binary.BigEndian.Uint64(at))
		}
		return nil
	})
}

// backlog walks over all messages that have a place.
func (l *loader) backlog() error {
	l.filing = true
	n := int64(0)
	err := l.b.backlog.ForEach(func(at, rec []byte) error {
		if n++; l.progress != nil && n%(1<<16) == 0 {
			l.progress(n)
		}
		place, ok := queue.ParsePlaceKey(at)
		if !ok {
			return fmt.Errorf("%w: a key of %d bytes in bucket backlog", queue.ErrDamaged, len(at))
		}
		h, rec, err := l.readableAt(place, rec)
		if err != nil {
			return err
		}
		return l.message(place, h, rec)
	})
	if err != nil {
		return err
	}
	return l.filled()
}

// message counts one message of the backlog and files it while there is room.
func (l *loader) message(place queue.Place, h header, rec []byte) error {
	t := l.t
	k := t.keyOf(h.key, 0)
	if k.open == 0 {
		k.slot = slotOf(rec)
		l.order = append(l.order, k)
	}
	w := worthIn(rec)
	k.come(place, w)
	t.openAges.add(minuteIn(rec), 1)
	ref := refOf(place, h)
	if int(h.route) >= len(queue.Routes) || h.priority > queue.MaxPriority {
		return fmt.Errorf("%w: message at place %s has no such route or priority", queue.ErrDamaged, place)
	}
	f := t.flights[h.seq]
	if slices.Contains(t.lostFlights, h.seq) && k.damaged == 0 {
		k.damaged = h.seq
	}
	if f != nil {
		f.ref, f.key = ref, k
		if f.leased() {
			m, err := parseRecord(rec)
			if err != nil {
				return fmt.Errorf("message at place %s: %w", place, err)
			}
			k.lend(w)
			f.msg, f.acceptedAt = m.msg, m.acceptedAt
			f.msg.Line = nil
		}
	}
	l.fill(k, ref, f != nil && f.leased())
	return nil
}

func (l *loader) scheduled() error {
	c := l.b.scheduled.Cursor()
	for at, rec := c.First(); at != nil; at, rec = c.Next() {
		if len(at) != 16 {
			return fmt.Errorf("%w: a key of %d bytes in bucket scheduled", queue.ErrDamaged, len(at))
		}
		l.t.scheduledWorth.change(worthIn(rec), 1)
		l.t.openAges.add(minuteIn(rec), 1)
		if l.t.scheduled++; l.t.scheduled == 1 {
			l.t.nextDue = scheduledFor(at)
		}
	}
	return nil
}

// finish begins the waits, adds up the counts and files the keys.
func (l *loader) finish() error {
	for _, f := range l.t.flights {
		if f.key == nil {
			return fmt.Errorf("%w: a lease record of seq %d, which is not open", queue.ErrDamaged, f.seq)
		}
	}
	for _, f := range l.t.flights {
		if !f.waitUntil.IsZero() {
			l.t.waits.start(f.key, f.seq, f.waitUntil, f.waitWall)
		}
	}
	for k := range l.t.keys.all() {
		l.t.countKey(k, 1)
	}
	for _, k := range l.order {
		if k.movable() {
			l.t.file(k)
		}
	}
	return nil
}

// slotOf is the slot of the partition key in a record that has been checked.
func slotOf(rec []byte) partition.Slot {
	b := rec[recordHeader:]
	for range 2 { // trace id, idempotency key
		b = b[2+int(binary.BigEndian.Uint16(b)):]
	}
	return partition.SlotOfBytes(b[2 : 2+int(binary.BigEndian.Uint16(b))])
}

// identity is what a file says of itself before anything else is read.
type identity struct {
	id     [16]byte
	secret [32]byte
}

// identify checks that the file is ours and of a version that we know.
func identify(tx *bolt.Tx) (id identity, err error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || len(meta.Get(metaFormat)) != 4 {
		return id, errNotOurs
	}
	switch v := binary.BigEndian.Uint32(meta.Get(metaFormat)); {
	case v > FormatVersion:
		return id, fmt.Errorf("%w: its format is %d, this program knows %d", errNewer, v, FormatVersion)
	case v == 0: // there never was one
		return id, fmt.Errorf("%w: the format in bucket meta is 0", queue.ErrDamaged)
	}
	for _, name := range allBuckets {
		if tx.Bucket(name) == nil {
			return id, fmt.Errorf("%w: bucket %s is missing", queue.ErrDamaged, name)
		}
	}
	stored, secret := meta.Get(metaID), meta.Get(metaSecret)
	if len(stored) != len(id.id) || len(secret) != len(id.secret)+4 {
		return id, fmt.Errorf("%w: the identity in bucket meta", queue.ErrDamaged)
	}
	copy(id.id[:], stored)
	copy(id.secret[:], secret)
	// With another secret every known key would be unknown, so it must be the right one.
	sum := crc32.Update(crc32.Checksum(id.id[:], castagnoli), castagnoli, id.secret[:])
	if binary.BigEndian.Uint32(secret[len(id.secret):]) != sum {
		return id, fmt.Errorf("%w: the identity in bucket meta does not match its checksum", queue.ErrDamaged)
	}
	return id, nil
}
