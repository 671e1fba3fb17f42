package storetest

import (
	"fmt"

	"breakwater/queue"
)

// CheckTrail proves from a whole trail, and from nothing else, that the promises
// were kept; it returns what was broken, nothing for a good trail. It knows no
// store: it plays the records back over a picture of its own, which is so simple
// that it can be read at once.
//
//   - records are numbered without gaps, and seqs given in order without gaps;
//   - an idempotency key is accepted once, until a discard has freed it or TRIMMED says
//     that it was forgotten (P2);
//   - a message is decided at most once, and nothing follows (P3);
//   - only who holds a lease answers, and a message has one holder (P4);
//   - all leases of a key have one owner, and nothing is dispatched or decided
//     past an earlier open message of its key that this owner does not hold (P5);
//   - a message falls due once, behind everything that was accepted before;
//   - whoever is given a message is told whether a delivery of it ended without an answer,
//     from then on and for good;
//   - dead letters, and they only, are replayed, discarded or edited (P8), each edit
//     of the line that the last one left;
//   - while claims are paused, or its key is held, nothing is dispatched;
//   - every record of a message names it as its first one did (P10);
//   - when records are trimmed, what of them still holds is copied, and only that.
//
// Of a trail that was trimmed it needs the removed records, too: an observer of the
// commits has them.
func CheckTrail(records []queue.Record) []string {
	p := picture{
		messages: map[uint64]*traced{}, keys: map[string]*tracedKey{},
		accepted: map[string]uint64{}, trim: trimming{trail: records},
	}
	for i := range records {
		r := &records[i]
		if r.N != uint64(i+1) {
			p.broken(r, "is record %d of the trail", i+1)
		}
		p.play(r)
	}
	return p.found
}

// lifeState is where a message is, as far as a trail tells.
type lifeState int

const (
	waiting lifeState = iota + 1 // scheduled
	placed
	leased
	dead
	ended
)

// traced is one message of the picture.
type traced struct {
	first      *queue.Record
	state      lifeState
	place      queue.Place
	owner      string
	opened     uint64 // the record that gave it its place, or gave it back by a replay
	leased     uint64 // the record of its present or last lease
	delivery   int    // the number of the present or last one
	counted    int    // deliveries that count so far
	failed     int
	unanswered int  // deliveries that ended without an answer
	waits      bool // it was put back until a time, and not handed out since
	decisions  int
	settled    uint64 // the record that ended it
	edits      int
}

// tracedKey is a partition key of the picture.
type tracedKey struct {
	held     bool
	messages []*traced
}

// picture is what the records played so far amount to.
type picture struct {
	found    []string
	lastSeq  uint64
	restored uint64 // the last seq when an older state was restored
	lastDue  queue.Place
	paused   bool
	messages map[uint64]*traced
	keys     map[string]*tracedKey
	accepted map[string]uint64 // by idempotency key
	trim     trimming
}

func (p *picture) broken(r *queue.Record, format string, args ...any) {
	p.found = append(p.found, fmt.Sprintf("record %d, %s of seq %d: ", r.N, r.Event, r.Seq)+fmt.Sprintf(format, args...))
}

// require notes a broken promise unless ok.
func (p *picture) require(ok bool, r *queue.Record, format string, args ...any) {
	if !ok {
		p.broken(r, format, args...)
	}
}

func (p *picture) key(name string) *tracedKey {
	if p.keys[name] == nil {
		p.keys[name] = &tracedKey{}
	}
	return p.keys[name]
}

// play applies one record.
func (p *picture) play(r *queue.Record) {
	if r.CopyOf != 0 {
		p.copied(r)
		return
	}
	p.require(len(p.trim.copies) == 0, r, "comes before copies that were announced")
	switch r.Event {
	case queue.EventPaused, queue.EventRestored:
		p.paused = true
		if r.Event == queue.EventRestored {
			p.restored = p.lastSeq
		}
	case queue.EventResumed:
		p.require(p.paused, r, "nothing was paused")
		p.paused = false
	case queue.EventKeyHeld:
		p.require(!p.key(r.PartitionKey).held, r, "the key was held already")
		p.key(r.PartitionKey).held = true
	case queue.EventKeyReleased:
		p.require(p.key(r.PartitionKey).held || r.Seq != 0, r, "the key was not held")
		p.key(r.PartitionKey).held = false
		if r.Seq != 0 {
			p.ofMessage(r)
		}
	case queue.EventDuplicateSkipped:
		for _, seq := range r.Seqs {
			p.require(p.messages[seq] != nil, r, "names seq %d, which was never given", seq)
		}
	case queue.EventTrimmed:
		p.trimmed(r)
	case queue.EventAccepted:
		p.accept(r)
	case queue.EventQuarantined:
		p.quarantine(r)
	default:
		if r.Seq != 0 {
			p.ofMessage(r)
		}
	}
}

// first takes the first record of a seq.
func (p *picture) first(r *queue.Record, state lifeState) *traced {
	p.lastSeq++
	p.require(r.Seq == p.lastSeq, r, "seq %d was due", p.lastSeq)
	m := &traced{first: r, state: state}
	p.messages[r.Seq] = m
	return m
}

func (p *picture) accept(r *queue.Record) {
	if seq := p.accepted[r.IdempotencyKey]; seq != 0 && (seq != r.Seq || p.messages[seq].edits == 0) {
		p.broken(r, "idempotency key %q was accepted as %d", r.IdempotencyKey, seq)
	}
	p.accepted[r.IdempotencyKey] = r.Seq
	m := p.messages[r.Seq]
	if m == nil {
		m = p.first(r, placed)
	} else {
		// A quarantined line that was replayed: it keeps its seq.
		p.require(m.state == placed && m.place.IsZero() && m.counted == 0, r, "it was not a replayed line")
		m.first, m.state = r, placed
	}
	if r.NotBefore.After(r.TS) {
		m.state = waiting
		return
	}
	p.place(r, m, queue.Place{Seq: r.Seq})
}

func (p *picture) quarantine(r *queue.Record) {
	p.first(r, dead)
	p.require(r.Code == queue.CodePoison || r.Code == queue.CodeConflict, r, "has code %q", r.Code)
	if r.Code == queue.CodeConflict {
		p.require(r.Of == p.accepted[r.IdempotencyKey] && r.Of != 0, r, "is of %d, whose key it did not use", r.Of)
	}
}

// trimmed frees the keys that were forgotten.
func (p *picture) trimmed(r *queue.Record) {
	t, ok := queue.ReadTrimmed(r)
	p.require(ok, r, "does not say of what")
	if t.Before != "" {
		p.trimTrail(r, &t.TrimmedTrail)
	}
	p.require(t.SettledTo < r.N, r, "is of records to come")
	gone := int64(0)
	for key, seq := range p.accepted {
		if m := p.messages[seq]; m.state == ended && m.settled <= t.SettledTo {
			delete(p.accepted, key)
			gone++
		}
	}
	p.require(gone == t.Keys, r, "says that %d keys were forgotten, it were %d", t.Keys, gone)
}

// place gives a message its place in its key.
func (p *picture) place(r *queue.Record, m *traced, place queue.Place) {
	m.place, m.opened = place, r.N
	k := p.key(r.PartitionKey)
	for len(k.messages) > 0 && k.messages[0].state == ended {
		k.messages = k.messages[1:] // nothing waits for it any more
	}
	k.messages = append(k.messages, m)
}

// ofMessage applies a record to the message that it concerns.
func (p *picture) ofMessage(r *queue.Record) {
	m := p.messages[r.Seq]
	if m == nil {
		p.broken(r, "the seq was never given")
		return
	}
	if r.Event == queue.EventRefused {
		return // changes nothing, which the next records show
	}
	if r.Event == queue.EventEdited {
		p.edit(r, m)
		return
	}
	f := m.first
	p.require(r.TraceID == f.TraceID && r.SourceHash == f.SourceHash && r.MatchDecision == f.MatchDecision &&
		r.PartitionKey == f.PartitionKey, r, "does not name the message as record %d did", f.N)
	switch r.Event {
	case queue.EventDue:
		p.due(r, m)
	case queue.EventDispatched:
		p.dispatch(r, m)
	case queue.EventKeyReleased:
		p.require(m.state == placed && m.waits, r, "its key did not wait for it")
		p.require(!r.Until.IsZero() && (r.FailedAttempts == 0 || r.FailedAttempts == m.failed), r, "does not say which wait ended")
		m.waits = false
	case queue.EventDeadLettered:
		p.require(m.state == leased || m.state == placed, r, "it was not open")
		p.require(r.Unanswered == m.unanswered, r, "says %d of %d deliveries without an answer", r.Unanswered, m.unanswered)
		m.state = dead
	case queue.EventReplayed:
		p.require(m.state == dead, r, "it was not dead")
		m.state, m.counted, m.failed, m.opened = placed, 0, 0, r.N
	case queue.EventDiscarded:
		p.require(m.state == dead, r, "it was not dead")
		m.state, m.settled = ended, r.N
		if r.Note != "" && p.accepted[m.first.IdempotencyKey] == r.Seq {
			delete(p.accepted, m.first.IdempotencyKey)
		}
	default:
		p.answer(r, m)
	}
}

// edit takes other content for a dead letter, which names it from then on. Its
// idempotency key is its own then, as if it had been accepted; what gives it its place
// stays.
func (p *picture) edit(r *queue.Record, m *traced) {
	p.require(m.state == dead, r, "it was not dead")
	was, ok := r.EditOf()
	p.require(ok && was == m.first.LineSHA256, r, "is an edit of another line")
	p.require(r.LineSHA256 != m.first.LineSHA256, r, "changes nothing")
	if !m.place.IsZero() {
		p.require(r.IdempotencyKey == m.first.IdempotencyKey && r.PartitionKey == m.first.PartitionKey, r, "changes a key that gave it its place")
	} else if m.edits > 0 {
		delete(p.accepted, m.first.IdempotencyKey)
	}
	if of := p.accepted[r.IdempotencyKey]; of != 0 && of != r.Seq {
		p.broken(r, "idempotency key %q is that of %d", r.IdempotencyKey, of)
	}
	p.accepted[r.IdempotencyKey] = r.Seq
	m.first = r
	m.edits++
}

func (p *picture) due(r *queue.Record, m *traced) {
	p.require(m.state == waiting, r, "it was not scheduled")
	p.require(!p.paused, r, "claims were paused")
	p.require(r.Place.Seq == p.lastSeq && p.lastDue.Less(r.Place), r, "place %s after place %s and seq %d", r.Place, p.lastDue, p.lastSeq)
	p.lastDue = r.Place
	m.state = placed
	p.place(r, m, r.Place)
}

// dispatch takes a lease.
func (p *picture) dispatch(r *queue.Record, m *traced) {
	p.require(m.state == placed && !m.place.IsZero(), r, "it was not ready")
	p.require(!p.paused, r, "claims were paused")
	p.require(!p.key(r.PartitionKey).held, r, "its key was held")
	p.require(r.Delivery == m.counted+1, r, "is delivery %d after %d that count", r.Delivery, m.counted)
	m.state, m.owner, m.delivery, m.leased = leased, r.Worker, r.Delivery, r.N
	m.counted++
	m.waits = false
	if r.Seq <= p.restored && m.unanswered == 0 {
		m.unanswered = 1 // nobody knows
	}
	p.require(r.Unanswered == m.unanswered, r, "says %d of %d deliveries without an answer", r.Unanswered, m.unanswered)
	p.nothingBefore(r, m)
	for _, o := range p.key(r.PartitionKey).messages {
		p.require(o.state != leased || o.owner == m.owner, r, "its key is leased to %s", o.owner)
	}
}

// nothingBefore checks that this owner holds whatever is open before m in its key,
// but for what was replayed while m was out already: that waits for m.
func (p *picture) nothingBefore(r *queue.Record, m *traced) {
	for _, o := range p.key(r.PartitionKey).messages {
		if !o.place.Less(m.place) || o.opened > m.leased {
			continue
		}
		p.require(o.state != placed, r, "seq %d before it is open", o.first.Seq)
		p.require(o.state != leased || o.owner == m.owner, r, "seq %d before it is leased to %s", o.first.Seq, o.owner)
	}
}

// answer ends a lease, or prolongs it.
func (p *picture) answer(r *queue.Record, m *traced) {
	if m.state != leased || m.owner != r.Worker {
		p.broken(r, "%s does not hold it", r.Worker)
		return
	}
	p.require(r.Delivery == m.delivery, r, "answers delivery %d, delivered was %d", r.Delivery, m.delivery)
	if r.Unanswered > 0 {
		m.unanswered++
		p.require(r.Unanswered == m.unanswered, r, "says %d of %d deliveries without an answer", r.Unanswered, m.unanswered)
	}
	switch r.Event {
	case queue.EventExtended:
		return
	case queue.EventDecided:
		p.nothingBefore(r, m)
		m.decisions++
		p.require(m.decisions == 1, r, "it was decided before")
		m.state, m.settled = ended, r.N
		return
	case queue.EventRetried:
		m.failed++
		p.require(r.FailedAttempts == m.failed, r, "says %d failures of %d", r.FailedAttempts, m.failed)
	case queue.EventReleased, queue.EventHeld:
		m.counted--
	case queue.EventReclaimed:
		if r.Unanswered == 0 {
			m.counted--
		}
	default:
		p.broken(r, "is no event of a lease")
	}
	m.waits = !r.Until.IsZero()
	m.state = placed
}
