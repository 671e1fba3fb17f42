package queue

import (
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// This file is how the beginning of a trail is let go of (audit.retention_h), so that
// the rest can still be verified on its own.
//
// Whole blocks are removed from the front, some in each step. The step leaves one
// TRIMMED record: where the trail begins now, the head before that, what the records
// before it amount to, and how much of what they told still holds. That much is copied
// right behind it, record by record (see [Record.StillHolds]): of each message that is
// open or a dead letter its ACCEPTED or QUARANTINED, which have the hashes of its bytes,
// and besides what gave it its place, who has it, or what it died of. So a message's
// evidence is in the trail for as long as the message is in the store, however old it
// is, and the history of what is over goes.
//
// A copy is removed like any other record when its time has come, and copied again if
// it still holds.

// TrimBlocks is how many blocks one step of trimming removes at most, so that neither
// the step nor the copies that it leaves are long.
const TrimBlocks = 32

// Opening says where a trail begins whose beginning was trimmed, and what the records
// before it amount to. The zero Opening is that of a whole trail.
type Opening struct {
	Before  Head    // the head before the first block that is kept
	LastN   uint64  // number of the last record before it
	LastSeq uint64  // the seq given last before it
	Sums    Balance // of the records before it; what was open or dead is not counted
	Record  uint64  // number of the TRIMMED that says so; 0: nothing was trimmed
}

// Count takes in one more record that comes before the opening. Copies count for
// nothing: their firsts were counted.
func (o *Opening) Count(r *Record) {
	o.LastN = r.N
	if r.CopyOf != 0 {
		return
	}
	switch b := &o.Sums; r.Event {
	case EventAccepted:
		b.Accepted++
		if r.Seq <= o.LastSeq {
			b.QuarantinedAccepted++ // a line from the door that was replayed
		}
		o.LastSeq = max(o.LastSeq, r.Seq)
	case EventQuarantined:
		b.Quarantined++
		o.LastSeq = max(o.LastSeq, r.Seq)
	case EventDispatched:
		b.Deliveries++
	case EventDecided:
		b.Decided++
	case EventDiscarded:
		if atDoor(r.Code) {
			b.QuarantinedDiscarded++
		} else {
			b.Discarded++
		}
	case EventDuplicateSkipped:
		b.Duplicates += uint64(r.Count)
	}
}

// atDoor reports whether a dead letter with this code never entered the order.
func atDoor(c Code) bool { return c == CodePoison || c == CodeConflict }

// Unfinished is where a message stands that is open or a dead letter, as far as old
// records of it are concerned.
type Unfinished struct {
	Place    Place     // zero: none, or not yet
	Worker   string    // who has it; "": nobody
	Delivery int       // which one that is
	DeadAt   time.Time // zero: it is no dead letter
	Door     bool      // it is a dead letter that never entered the order
	Edited   Hash      // of the line that it was edited to; zero: it is as it was sent
	Damaged  bool      // it cannot be read: whatever may hold counts as if it did
}

// MayHold reports whether a record is of the kind that can still hold when it is old.
func (r *Record) MayHold() bool {
	switch r.Event {
	case EventAccepted, EventQuarantined, EventEdited, EventDue, EventDispatched, EventDeadLettered:
		return true
	}
	return false
}

// StillHolds reports whether what the record tells of a message holds now, so that the
// record is copied when it is trimmed. m is where the message stands; nil: it is over.
func (r *Record) StillHolds(m *Unfinished) bool {
	if m == nil || !r.MayHold() || m.Damaged {
		return m != nil && r.MayHold()
	}
	switch r.Event {
	case EventAccepted:
		return !m.Door
	case EventQuarantined:
		return true // its line is what was sent, whatever became of it
	case EventEdited:
		return m.Edited != Hash{} && r.LineSHA256 == m.Edited
	case EventDue:
		return r.Place == m.Place
	case EventDispatched:
		return m.Worker != "" && r.Worker == m.Worker && r.Delivery == m.Delivery
	case EventDeadLettered:
		return r.TS.Equal(m.DeadAt)
	}
	return false
}

// StillHeld reports whether the record is what holds its key now; h is nil while no
// operator does.
func (r *Record) StillHeld(h *KeyHold) bool {
	return h != nil && r.Event == EventKeyHeld && r.TS.Equal(h.Since)
}

// StillPaused reports whether the record is what pauses the claims now; p is nil while
// nothing does.
func (r *Record) StillPaused(p *Pause) bool {
	return p != nil && (r.Event == EventPaused || r.Event == EventRestored) && r.TS.Equal(p.Since)
}

// Trimming is one step of trimming under way.
type Trimming struct {
	Opening          // as it is after the blocks so far
	Copies  []Record // of what still holds, in order
	Open    int      // first records among them
	digest  []byte   // of these
}

// Copy keeps a copy of a record that still holds.
func (t *Trimming) Copy(r Record) {
	if r.CopyOf == 0 {
		r.CopyOf = r.N
	}
	r.N = 0
	if r.Event == EventAccepted || r.Event == EventQuarantined {
		t.Open++
		t.digest = appendOpen(t.digest, &r)
	}
	t.Copies = append(t.Copies, r)
}

// openDomain begins what a digest of open messages is made of.
const openDomain = "breakwater open v1\n"

// appendOpen appends what the digest of a TRIMMED covers of one first record that is
// copied behind it.
func appendOpen(dst []byte, r *Record) []byte {
	if len(dst) == 0 {
		dst = append(dst, openDomain...)
	}
	dst = binary.BigEndian.AppendUint64(dst, r.Seq)
	return append(dst, r.LineSHA256[:]...)
}

// openDigest is the digest of first records that appendOpen was given; zero for none.
func openDigest(b []byte) (h Hash) {
	if len(b) == 0 {
		return h
	}
	return sha256.Sum256(b)
}

// Told is what the TRIMMED of this step says.
func (t *Trimming) Told() Trimmed {
	b := &t.Sums
	told := TrimmedTrail{
		First: t.LastN + 1, Before: t.Before.String(), LastSeq: t.LastSeq, Copies: len(t.Copies), Open: t.Open,
		Accepted: b.Accepted, Decided: b.Decided, Discarded: b.Discarded,
		Quarantined: b.Quarantined, QuarantinedAccepted: b.QuarantinedAccepted, QuarantinedDiscarded: b.QuarantinedDiscarded,
		Duplicates: b.Duplicates, Deliveries: b.Deliveries,
	}
	if t.Open > 0 {
		told.OpenSHA256 = openDigest(t.digest).String()
	}
	return Trimmed{TrimmedTrail: told}
}

// opening is what a TRIMMED says about where the trail begins; ok is false when it
// says nothing, or nothing that can be read.
func (t *TrimmedTrail) opening(record uint64) (o Opening, ok bool) {
	before, ok := ParseHead(t.Before)
	if !ok || t.First == 0 {
		return Opening{}, false
	}
	return Opening{
		Before: before, LastN: t.First - 1, LastSeq: t.LastSeq, Record: record,
		Sums: Balance{
			Accepted: t.Accepted, Decided: t.Decided, Discarded: t.Discarded,
			Quarantined: t.Quarantined, QuarantinedAccepted: t.QuarantinedAccepted, QuarantinedDiscarded: t.QuarantinedDiscarded,
			Duplicates: t.Duplicates, Deliveries: t.Deliveries,
		},
	}, true
}
