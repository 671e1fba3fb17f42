package boltstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// This file is about records that cannot be read back. What is damaged is one message,
// and it must hold up no other but those of its key: not the start, not the walk, not
// a list. It must not be handed out, and nothing of its key past it (P5); but which key
// that is stands in the bytes that are damaged. The trail knows: from its records a
// stand-in is made, which has everything of the message but its line. With it tables
// are built and questions answered as if it were the record; the claim, which wants the
// line, reads the record itself, finds the damage and holds the key.
//
// What is damaged in the structure (counters, the ledger's log, the chain's end), or
// what the trail knows nothing of, still ends the start or the store: there nobody
// could say what may go on.

// maxDamaged bounds the stand-ins. Where there are more, the disk is not to be trusted
// with anything.
const maxDamaged = 1000

// standIn is what is known of a message or a dead letter without its record.
type standIn struct {
	record []byte          // sealed, with an empty line
	told   queue.Exception // by the trail
}

// standInFor returns the stand-in of a message that is open or a dead letter; why is
// what is wrong with its record.
func (x *txn) standInFor(seq uint64, why error) (s standIn, err error) {
	if s, ok := x.t.standIns[seq]; ok {
		return s, nil
	}
	if !errors.Is(why, queue.ErrDamaged) {
		return s, why
	}
	if len(x.t.standIns) >= maxDamaged {
		return s, fmt.Errorf("more than %d records are damaged: %w", maxDamaged, why)
	}
	if s.told, err = toldOf(x.tx, seq); err != nil {
		return s, err
	}
	if state := s.told.State; s.told.Seq == 0 || state == queue.Done || state == queue.Discarded {
		return s, fmt.Errorf("%w; the trail does not say what seq %d was", why, seq)
	}
	m := &s.told.Stored
	s.record = appendRecord(nil, &queue.Message{
		IdempotencyKey: m.IdempotencyKey, TraceID: m.TraceID, PartitionKey: m.PartitionKey, LedgerEntity: m.LedgerEntity,
		Decision: m.Decision, Amount: m.Amount, Currency: m.Currency, SourceHash: m.SourceHash,
		Route: s.told.Route, Priority: queue.DefaultPriority, NotBefore: s.told.NotBefore,
	}, hashKey(x.t.secret, m.PartitionKey))
	sealRecord(s.record, seq, s.told.AcceptedAt)
	x.t.standIns[seq] = s
	return s, nil
}

// readable returns the record of a message, or what stands in for it.
func (x *txn) readable(seq uint64, rec []byte) ([]byte, error) {
	_, err := parseHeader(rec)
	if err == nil {
		return rec, nil
	}
	s, err := x.standInFor(seq, err)
	return s.record, err
}

// readableAt is readable for a message of the backlog, by its place.
func (x *txn) readableAt(place queue.Place, rec []byte) (h header, out []byte, err error) {
	if h, err = parseHeader(rec); err == nil {
		return h, rec, nil
	}
	seq, ok := x.seqAt(place)
	if !ok {
		return h, nil, fmt.Errorf("message at place %s: %w", place, err)
	}
	s, err := x.standInFor(seq, err)
	if err != nil {
		return h, nil, fmt.Errorf("message at place %s: %w", place, err)
	}
	h, err = parseHeader(s.record)
	return h, s.record, err
}

// seqAt finds the seq of what lies at a place: the place itself, unless it was
// scheduled; then bucket timed leads there.
func (x *txn) seqAt(place queue.Place) (seq uint64, ok bool) {
	if place.Sub == 0 {
		return place.Seq, true
	}
	want := place.AppendKey([]byte{timedPlaced})
	c := x.b.timed.Cursor()
	for at, to := c.First(); at != nil; at, to = c.Next() {
		if len(at) == 8 && bytes.Equal(to, want) {
			return binary.BigEndian.Uint64(at), true
		}
	}
	return 0, false
}

// damagedAt is the seq of a message that was met and could not be read. If its stand-in
// can't be made, the key is held all the same: nothing of it is handed out.
func (x *txn) damagedAt(place queue.Place) uint64 {
	_, _, _ = x.readableAt(place, x.b.backlog.Get(place.AppendKey(nil)))
	if seq, ok := x.seqAt(place); ok {
		return seq
	}
	return place.Seq
}

// toldOf folds what the trail says of a message. A block that is damaged itself says
// nothing.
func toldOf(tx *bolt.Tx, seq uint64) (e queue.Exception, err error) {
	q := queue.TrailQuery{Seq: seq}
	needle, blocks, spans := needleOf(&q), tx.Bucket(bucketAudit).Cursor(), newSpanReader(tx, sieveOf(&q))
	spans.left = math.MaxInt
	at, data := blocks.First()
	for at != nil {
		number := binary.BigEndian.Uint64(at)
		r, _ := spans.seek(number)
		if r.from > number {
			at, data = blocks.Seek(seqKey(r.from))
		}
		for ; at != nil && binary.BigEndian.Uint64(at) <= r.to; at, data = blocks.Next() {
			b, err := queue.ParseBlock(binary.BigEndian.Uint64(at), data)
			if err != nil || !bytes.Contains(b.Plain, needle) {
				continue
			}
			for rec, err := range b.Records() {
				if err != nil {
					break
				}
				if rec.Seq == seq {
					e.Fold(&rec)
				}
			}
		}
	}
	return e, nil
}

// deadStandIn is a dead letter that cannot be read, as the trail tells of it. It holds
// its key in any case: that its policy was to skip it is not written there.
func (x *txn) deadStandIn(seq uint64, why error) (d deadLetter, err error) {
	s, err := x.standInFor(seq, why)
	if err != nil {
		return d, err
	}
	t := &s.told
	d = deadLetter{seq: seq, damaged: true, line: t.LineHash, record: s.record, meta: deadMeta{
		Code: t.Code, Reason: t.Reason, Field: t.Field, Of: t.Of, DeadAt: t.DeadAt, LineBytes: t.LineBytes,
		Deliveries: t.Deliveries, FailedAttempts: t.FailedAttempts, Unanswered: t.Unanswered,
	}}
	switch {
	case !t.Place.IsZero():
		d.flags, d.meta.Place = deadBlocks, t.Place.String()
	case t.Code == queue.CodeConflict:
		d.flags = deadDiffers
	default:
		d.flags = deadAtDoor
	}
	if t.EditedHash != (queue.Hash{}) {
		d.flags |= deadEdited
	}
	return d, nil
}

// damagedBytes says what a key waits for whose message can't be read, or why a letter
// has no line.
func damagedBytes(seq uint64) string {
	return fmt.Sprintf("the stored bytes of seq %d are damaged", seq)
}

// refuseDamaged is what an operator is told who wants to do something with a letter
// whose bytes are damaged.
const refuseDamaged = "its stored bytes are damaged: discard it, or restore a copy that has them"

// newDamage lists what is damaged of the ledger, or of what is parked, and has not been
// told.
func (s *Store) newDamage() (texts []string) {
	for _, err := range s.t.ledger.Damaged() {
		// One report for a segment: a transaction that is undone may find another of its
		// blocks first, the next time.
		if name := fmt.Sprint("segment ", err.Segment); !s.told[name] {
			s.told[name] = true
			texts = append(texts, fmt.Sprintf("the ledger: %v; lines whose idempotency key may be there are rejected, all others are stored", err))
		}
	}
	for _, seq := range s.t.strayed {
		text := fmt.Sprintf("an entry of bucket parked for place %d is damaged: its key waits until the next start, which files its messages anew", seq)
		if !s.told[text] {
			s.told[text] = true
			texts = append(texts, text)
		}
	}
	return texts
}

// tellDamage tells of it.
func (s *Store) tellDamage() {
	for _, text := range s.newDamage() {
		if s.options.Damaged != nil {
			s.options.Damaged(text)
		}
	}
}

// damaged lists what could not be read so far, for a person; the rest is counted.
func (t *tables) damaged() (warnings []string) {
	const most = 10
	var seqs []uint64
	for seq := range t.standIns {
		seqs = append(seqs, seq)
	}
	seqs = append(seqs, t.lostFlights...)
	slices.Sort(seqs)
	for i, seq := range slices.Compact(seqs) {
		if i == most {
			return append(warnings, fmt.Sprintf("and %d more", len(seqs)-most))
		}
		warnings = append(warnings, fmt.Sprintf("what is stored of seq %d is damaged: it is not handed out, and its key waits for it", seq))
	}
	return warnings
}
