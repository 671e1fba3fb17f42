package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// This file holds what is stored in a copy against what its trail says, bucket by
// bucket. A checksum says that a value is as it was written; only the trail says that
// it is the one that belongs here, and that none is missing.

// copyCheck is that comparison under way. Buckets are read in one transaction: nobody
// writes to a copy.
type copyCheck struct {
	*queue.Verifier
	s      *Store
	b      buckets
	ledger *ledger.Ledger // nil: it cannot be opened, which has been reported
	tx     *bolt.Tx
	timed  int // messages that bucket timed must have
}

// verifyCopy compares every bucket with the trail. Where the messages were not
// followed there is nothing to compare with.
func (s *Store) verifyCopy(ctx context.Context, v *queue.Verifier) error {
	if !v.Traced() {
		return nil
	}
	return s.view(func(tx *bolt.Tx) error {
		c := &copyCheck{Verifier: v, s: s, b: bucketsOf(tx), tx: tx}
		c.ledger, _ = ledger.Open(tx) // verifyLedger says what is wrong with it
		for _, check := range []func() error{c.backlog, c.scheduled, c.letters, c.timedOnes, c.flights, c.parked, c.holds, c.pause} {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := check(); err != nil {
				return err
			}
		}
		return nil
	})
}

// wrong reports what is stored of a message and is not what the trail says.
func (c *copyCheck) wrong(seq uint64, format string, args ...any) {
	c.Report(queue.Finding{Seq: seq, What: fmt.Sprintf(format, args...)})
}

// entry reports an entry of a bucket that cannot be what it is.
func (c *copyCheck) entry(bucket, at []byte, format string, args ...any) {
	c.Report(queue.Finding{What: fmt.Sprintf("bucket %s, key %x: ", bucket, at) + fmt.Sprintf(format, args...)})
}

// backlog compares the places, and what else a record says of its message.
func (c *copyCheck) backlog() error {
	return c.b.backlog.ForEach(func(at, rec []byte) error {
		m, err := parseRecord(rec)
		if err != nil {
			return nil // it has been reported
		}
		place, ok := queue.ParsePlaceKey(at)
		if !ok {
			c.entry(bucketBacklog, at, "it is no place")
			return nil
		}
		if place.Sub != 0 {
			c.timed++
		}
		told, ok := c.message(&m)
		switch {
		case !ok: // which has been reported
			return nil
		case told.State != queue.Ready && told.State != queue.Leased:
			c.wrong(m.msg.Seq, "the trail says that it is %s, and it lies in bucket %s", told.State, bucketBacklog)
		case told.Place != place:
			c.wrong(m.msg.Seq, "it lies at place %s, the trail says %s", place, told.Place)
		case c.b.flight.Get(seqKey(m.msg.Seq)) == nil: // else flights looks at it
			c.unanswered(m.msg.Seq, m.past.unanswered, &told)
		}
		c.remembered(&m, ledger.StateOpen)
		return nil
	})
}

// scheduled compares messages that wait for their time.
func (c *copyCheck) scheduled() error {
	return c.b.scheduled.ForEach(func(at, rec []byte) error {
		m, err := parseRecord(rec)
		if err != nil {
			return nil
		}
		c.timed++
		if !bytes.Equal(at, scheduleKey(m.notBefore, m.msg.Seq)) {
			c.entry(bucketScheduled, at, "it is not that of seq %d", m.msg.Seq)
		}
		told, ok := c.message(&m)
		if !ok {
			return nil
		}
		if told.State != queue.Scheduled {
			c.wrong(m.msg.Seq, "the trail says that it is %s, and it lies in bucket %s", told.State, bucketScheduled)
		}
		c.remembered(&m, ledger.StateOpen)
		return nil
	})
}

// letters compares dead letters.
func (c *copyCheck) letters() error {
	return c.b.dead.ForEach(func(at, b []byte) error {
		if len(at) != 8 {
			c.entry(bucketDead, at, "it is no seq")
			return nil
		}
		d, err := parseDead(binary.BigEndian.Uint64(at), b)
		if err != nil {
			return nil
		}
		m, err := parseRecord(d.record)
		if err != nil {
			return nil
		}
		told, ok := c.Told(d.seq)
		switch {
		case !ok: // which has been reported
			return nil
		case told.State != queue.Dead:
			c.wrong(d.seq, "the trail says that it is %s, and it is stored as a dead letter", told.State)
		case told.Accepted != d.ordered() || told.Place != d.place():
			c.wrong(d.seq, "its dead letter is of place %s, the trail says %s", d.place(), told.Place)
		default:
			c.unanswered(d.seq, d.meta.Unanswered, &told)
		}
		if d.ordered() {
			c.remembered(&m, ledger.StateDead)
		}
		return nil
	})
}

// message compares what a record says of its message, and returns what the trail does.
func (c *copyCheck) message(m *record) (queue.Told, bool) {
	told, ok := c.Told(m.msg.Seq)
	if ok && told.PartitionKey != m.msg.PartitionKey {
		c.wrong(m.msg.Seq, "its stored partition key is not the one that was accepted")
	}
	if hashKey(c.s.secret, m.msg.PartitionKey) != m.key {
		c.wrong(m.msg.Seq, "the hash of its partition key is another key's")
	}
	return told, ok
}

// remembered wants the ledger to know the idempotency key of a message, in its state:
// else a repeat of the line would run again (P2).
func (c *copyCheck) remembered(m *record, state ledger.State) {
	if c.ledger == nil {
		return
	}
	e, ok, err := c.ledger.Get(c.tx, ledger.KeyOf(c.s.secret, m.msg.IdempotencyKey))
	switch {
	case err != nil: // its block has been reported
	case !ok:
		c.wrong(m.msg.Seq, "the ledger does not know its idempotency key")
	case e.Seq != m.msg.Seq || e.State != state:
		c.wrong(m.msg.Seq, "the ledger has its idempotency key for seq %d in state %d", e.Seq, e.State)
	}
}

// timedOnes wants bucket timed to lead to every message that was scheduled, and to no
// other.
func (c *copyCheck) timedOnes() error {
	n := 0
	err := c.b.timed.ForEach(func(at, to []byte) error {
		n++
		var rec []byte
		switch {
		case len(at) != 8 || len(to) < 1:
		case to[0] == timedWaits:
			rec = c.b.scheduled.Get(to[1:])
		case to[0] == timedPlaced:
			rec = c.b.backlog.Get(to[1:])
		}
		if h, err := parseHeader(rec); err != nil || h.seq != binary.BigEndian.Uint64(at) {
			c.entry(bucketTimed, at, "it does not lead to a message of that seq")
		}
		return nil
	})
	if n != c.timed {
		c.Report(queue.Finding{What: fmt.Sprintf("bucket %s has %d messages, %d were scheduled", bucketTimed, n, c.timed)})
	}
	return err
}

// flights compares leases and counts, and looks for those that are missing.
func (c *copyCheck) flights() error {
	err := c.b.flight.ForEach(func(at, b []byte) error {
		if len(at) != 8 {
			c.entry(bucketFlight, at, "it is no seq")
			return nil
		}
		f, err := parseFlight(binary.BigEndian.Uint64(at), b)
		if err != nil {
			return nil
		}
		told, ok := c.Told(f.seq)
		switch {
		case !ok || told.State != queue.Ready && told.State != queue.Leased:
			c.wrong(f.seq, "it has a lease record, and the trail does not say that it is open")
		case f.leased() != (told.State == queue.Leased):
			c.wrong(f.seq, "the trail says that it is %s, its lease record says otherwise", told.State)
		case f.leased() && f.owner.Name != told.Holder:
			c.wrong(f.seq, "it is leased to %s, the trail says to %s", f.owner.Name, told.Holder)
		case !told.Uncounted && (f.deliveries != told.Deliveries || f.failed != told.FailedAttempts):
			c.wrong(f.seq, "it was delivered %d times and failed %d times, the trail says %d and %d",
				f.deliveries, f.failed, told.Deliveries, told.FailedAttempts)
		default:
			c.unanswered(f.seq, f.unanswered, &told)
		}
		return nil
	})
	c.EachTold(func(seq uint64, t queue.Told) {
		known := t.State == queue.Leased || t.State == queue.Ready && !t.Uncounted && (t.Deliveries > 0 || t.FailedAttempts > 0)
		if known && c.b.flight.Get(seqKey(seq)) == nil {
			c.wrong(seq, "the trail says that it was handed out, and it has no lease record")
		}
	})
	return err
}

// unanswered compares whether deliveries ended without an answer: the next one says so.
func (c *copyCheck) unanswered(seq uint64, stored int, told *queue.Told) {
	if !told.Untold && stored > 0 != told.Unanswered {
		c.wrong(seq, "it says that %d of its deliveries ended without an answer, the trail says otherwise", stored)
	}
}

// parked wants every entry to be of a message that is there, under its key.
func (c *copyCheck) parked() error {
	n := len(keyHash{})
	return c.b.parked.ForEach(func(at, _ []byte) error {
		if len(at) < n {
			c.entry(bucketParked, at, "it is no key and place")
			return nil
		}
		if h, err := parseHeader(c.b.backlog.Get(at[n:])); err != nil || h.key != keyHash(at[:n]) {
			c.entry(bucketParked, at, "no message of that key is at that place")
		}
		return nil
	})
}

// holds compares the keys that operators hold.
func (c *copyCheck) holds() error {
	told := c.KeyHolds()
	err := c.b.held.ForEach(func(name, b []byte) error {
		by, ok := told[string(name)]
		var hold keyHold
		switch {
		case !ok && c.Whole():
			c.entry(bucketHeld, name, "the trail does not say that an operator holds the key")
		case !ok: // it was held before the trail that is left
		case json.Unmarshal(b, &hold) != nil || !sameOrder(hold.By, hold.Reason, hold.Since, &by):
			c.entry(bucketHeld, name, "who holds the key, since when and why is not what the trail says")
		}
		return nil
	})
	for _, name := range slices.Sorted(maps.Keys(told)) {
		if c.b.held.Get([]byte(name)) == nil {
			c.entry(bucketHeld, []byte(name), "the trail says that an operator holds the key, and it is not there")
		}
	}
	return err
}

// pause compares the pause.
func (c *copyCheck) pause() error {
	told, stored := c.Pause(), c.s.t.pause
	switch {
	case told == nil && stored == nil, told == nil && !c.Whole():
	case told == nil || stored == nil:
		c.Report(queue.Finding{What: "the pause in bucket meta: the trail does not agree on whether claims are paused"})
	case !sameOrder(stored.By, stored.Reason, stored.Since, &queue.Action{Now: told.Since, By: told.By, Reason: told.Reason}):
		c.Report(queue.Finding{What: "the pause in bucket meta: who paused, since when and why is not what the trail says"})
	}
	return nil
}

// sameOrder reports whether an operator's order is the one that the trail tells of. A
// text that a record cannot carry as it is, is not compared.
func sameOrder(by, reason string, since time.Time, told *queue.Action) bool {
	return sameText(by, told.By, queue.MaxRecordID) && sameText(reason, told.Reason, queue.MaxRecordText) && since.Equal(told.Now)
}

func sameText(stored, told string, limit int) bool {
	return stored == told || len(stored) > limit || !utf8.ValidString(stored)
}
