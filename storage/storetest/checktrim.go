package storetest

import (
	"reflect"

	"breakwater/queue"
)

// This file is the part of CheckTrail that is about trimming. It is given the trail
// from its very first record, as an observer of the commits has it; so it knows what
// the records were that a store has removed, and what of them still held.

// trimming is what the picture knows of trimmed records.
type trimming struct {
	trail  []queue.Record // all of it
	first  uint64         // number of the first record that is kept
	copies []uint64       // numbers of the records of which copies are still to follow, zero for any
	due    map[uint64]bool
}

// trimTrail takes a TRIMMED of records.
func (p *picture) trimTrail(r *queue.Record, t *queue.TrimmedTrail) {
	if t.First <= p.trim.first || t.First > r.N {
		p.broken(r, "keeps records from %d on, after %d", t.First, p.trim.first)
		return
	}
	p.require(len(p.trim.copies) == 0, r, "comes before copies that were announced")
	var was queue.Opening
	for i := range p.trim.trail[:t.First-1] {
		was.Count(&p.trim.trail[i])
	}
	b, lastSeq := p.tally(t.First)
	p.require(was.Sums == b && was.LastSeq == lastSeq, r, "counts are kept otherwise: %+v and %d, %+v and %d", was.Sums, was.LastSeq, b, lastSeq)
	says := queue.Balance{
		Accepted: t.Accepted, Decided: t.Decided, Discarded: t.Discarded, Quarantined: t.Quarantined,
		QuarantinedAccepted: t.QuarantinedAccepted, QuarantinedDiscarded: t.QuarantinedDiscarded,
		Duplicates: t.Duplicates, Deliveries: t.Deliveries,
	}
	p.require(says == b && t.LastSeq == lastSeq, r, "says %+v and seq %d, the records before %d make %+v and seq %d", says, t.LastSeq, t.First, b, lastSeq)
	due := p.firstsDue(t.First)
	p.require(t.Open == len(due), r, "says that copies of %d first records follow, %d are due", t.Open, len(due))
	p.trim.first, p.trim.due = t.First, due
	p.trim.copies = make([]uint64, t.Copies)
}

// tally counts the records before number first, in its own way: it looks at whole lives.
func (p *picture) tally(first uint64) (b queue.Balance, lastSeq uint64) {
	quarantined, accepted := map[uint64]bool{}, map[uint64]bool{}
	for _, r := range p.trim.trail[:first-1] {
		if r.CopyOf != 0 {
			continue
		}
		switch r.Event {
		case queue.EventQuarantined:
			b.Quarantined++
			quarantined[r.Seq] = true
			lastSeq = max(lastSeq, r.Seq)
		case queue.EventAccepted:
			b.Accepted++
			accepted[r.Seq] = true
			if quarantined[r.Seq] {
				b.QuarantinedAccepted++
			}
			lastSeq = max(lastSeq, r.Seq)
		case queue.EventDispatched:
			b.Deliveries++
		case queue.EventDecided:
			b.Decided++
		case queue.EventDiscarded:
			if accepted[r.Seq] {
				b.Discarded++
			} else {
				b.QuarantinedDiscarded++
			}
		case queue.EventDuplicateSkipped:
			b.Duplicates += uint64(r.Count)
		}
	}
	return b, lastSeq
}

// firstsDue returns the numbers of the first records of messages that are not over
// among those that are removed now: each must be copied.
func (p *picture) firstsDue(first uint64) map[uint64]bool {
	due := map[uint64]bool{}
	for _, r := range p.trim.trail[max(p.trim.first, 1)-1 : first-1] {
		firsts := r.Event == queue.EventAccepted || r.Event == queue.EventQuarantined
		if m := p.messages[r.Seq]; firsts && m.state != ended {
			n := r.N
			if r.CopyOf != 0 {
				n = r.CopyOf
			}
			due[n] = true
		}
	}
	return due
}

// copied takes a copy, which must be as its original was, and of something that holds.
func (p *picture) copied(r *queue.Record) {
	if len(p.trim.copies) == 0 {
		p.broken(r, "is a copy that was not announced")
		return
	}
	p.trim.copies = p.trim.copies[1:]
	if r.CopyOf >= p.trim.first {
		p.broken(r, "is a copy of %d, which was not removed", r.CopyOf)
		return
	}
	original, copied := p.trim.trail[r.CopyOf-1], *r
	original.N, copied.N, copied.CopyOf = 0, 0, 0
	p.require(reflect.DeepEqual(original, copied), r, "is no copy of record %d", r.CopyOf)
	if m := p.messages[r.Seq]; m != nil {
		p.require(m.state != ended, r, "is of a message that is over")
		p.require(r.Event != queue.EventDispatched || m.state == leased && m.owner == r.Worker, r, "is of a lease that is over")
		p.require(r.Event != queue.EventDeadLettered || m.state == dead, r, "is of a message that is no dead letter")
		p.require(r.Event != queue.EventDue || m.place == r.Place, r, "is of another place")
	}
	switch r.Event {
	case queue.EventKeyHeld:
		p.require(p.key(r.PartitionKey).held, r, "is of a key that nobody holds")
	case queue.EventPaused, queue.EventRestored:
		p.require(p.paused, r, "is of a pause that is over")
	case queue.EventAccepted, queue.EventQuarantined:
		p.require(p.trim.due[r.CopyOf], r, "is of a record that was copied before, or need not be")
		delete(p.trim.due, r.CopyOf)
	}
	p.require(len(p.trim.copies) > 0 || len(p.trim.due) == 0, r, "is the last copy, and those of %v are missing", p.trim.due)
}
