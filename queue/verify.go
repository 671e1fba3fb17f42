package queue

import (
	"container/heap"
	"fmt"
)

// Verifier checks a trail and what is stored beside it: that the chain is whole,
// and that its records, read one after the other, keep the promises. It holds the
// open messages of the moment it has come to, never the whole history.
//
// What it proves is that the records agree with each other and with the stored
// lines. It can't prove that nothing was cut off at the end (a head that somebody
// else was shown does: VerifyOptions.Witness), nor that the host was honest when
// it wrote.
type Verifier struct {
	// Visit, if set, is called for each record of the chain as far as it is proven,
	// in order: for what a store keeps beside the trail.
	Visit func(Record)

	chain ChainVerifier
	out   Verification
	head  Head
	last  uint64 // the seq given last
	seq   uint64 // the seq that the trail has come to
	live  map[uint64]*traced
	keys  map[string]*tracedKey

	witness bool // a head is watched for
	buckets bool // what is stored must be what the trail says is open
}

// traced is an open message or dead letter, as the trail tells of it.
type traced struct {
	key    string
	place  Place
	line   Hash
	state  State // Ready, Scheduled, Leased, Dead
	worker string
	stored bool // found in the buckets
}

// tracedKey is a partition key with open messages.
type tracedKey struct {
	open    int    // messages with a place that are not dead
	leased  int    // of them
	holder  string // who has the leases
	waiting placeHeap
}

// placeHeap is a heap of messages by place. A message that is not Ready any more,
// or that is there twice, is passed over when it comes up.
type placeHeap []*traced

// Len, Less, Swap, Push and Pop are what container/heap asks for.
func (h placeHeap) Len() int           { return len(h) }
func (h placeHeap) Less(i, j int) bool { return h[i].place.Less(h[j].place) }
func (h placeHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *placeHeap) Push(m any)        { *h = append(*h, m.(*traced)) }
func (h *placeHeap) Pop() any {
	last := len(*h) - 1
	m := (*h)[last]
	*h = (*h)[:last]
	return m
}

// first returns the ready message that comes first, nil if there is none.
func (k *tracedKey) first() *traced {
	for len(k.waiting) > 0 && k.waiting[0].state != Ready {
		heap.Pop(&k.waiting)
	}
	if len(k.waiting) == 0 {
		return nil
	}
	return k.waiting[0]
}

// NewVerifier returns a verifier of a trail that ends in head, for a store that
// has given seqs up to last.
func NewVerifier(o VerifyOptions, head Head, last uint64) *Verifier {
	v := &Verifier{head: head, last: last, buckets: o.Buckets, live: map[uint64]*traced{}, keys: map[string]*tracedKey{}}
	v.out.Events = map[Event]uint64{}
	v.chain.Visit = v.record
	if o.Witness.Block != 0 {
		v.witness = true
		v.chain.Watch(o.Witness)
	}
	return v
}

// Report adds a finding of the caller's own.
func (v *Verifier) Report(f Finding) {
	if len(v.out.Findings) == MaxFindings {
		v.out.More = true
		return
	}
	v.out.Findings = append(v.out.Findings, f)
}

// Block checks the next block of the trail.
func (v *Verifier) Block(number uint64, data []byte) {
	if v.chain.Broken() != nil {
		return
	}
	if err := v.chain.AddStored(number, data); err != nil {
		broken := v.chain.Broken()
		v.Report(Finding{What: err.Error(), Block: broken.Block, N: broken.N})
	}
}

// Stored compares the stored bytes of an open message or a dead letter with the hash
// that its first record has of them; a nil line, of which only a part is kept, is
// not compared. On a live store a message may have come or gone since the trail was
// read, and is passed over; on a copy (VerifyOptions.Buckets) that is a finding.
func (v *Verifier) Stored(s *Stored) {
	if v.chain.Broken() != nil {
		return
	}
	m := v.live[s.Seq]
	if m == nil {
		if v.buckets {
			v.Report(Finding{Seq: s.Seq, What: "it is stored, but the trail says that it is settled or was never accepted"})
		}
		return
	}
	m.stored = true
	if s.Line != nil && LineHash(s.Line) != m.line {
		v.Report(Finding{Seq: s.Seq, What: "its stored line is not the one that was accepted"})
	}
}

// Result ends the verification.
func (v *Verifier) Result() Verification {
	out := v.out
	out.Head, out.Blocks, out.Records = v.chain.Head(), v.chain.Head().Block, v.chain.Records()
	if v.buckets && v.chain.Broken() == nil {
		for seq, m := range v.live {
			if !m.stored {
				v.Report(Finding{Seq: seq, What: fmt.Sprintf("the trail says that it is %s, but it is not stored", m.state)})
			}
		}
	}
	for _, h := range v.chain.Missing() {
		v.Report(Finding{Block: h.Block, What: fmt.Sprintf("the head %s that was witnessed is not in the chain", h)})
	}
	out.WitnessFound = v.witness && len(v.chain.Missing()) == 0
	if v.chain.Broken() == nil && out.Head != v.head {
		v.Report(Finding{Block: out.Head.Block, What: fmt.Sprintf("the trail ends at %s, the store says %s", out.Head, v.head)})
	}
	out.Findings, out.More = v.out.Findings, v.out.More
	return out
}

// wrong reports a record that breaks a promise.
func (v *Verifier) wrong(r *Record, format string, args ...any) {
	v.Report(Finding{N: r.N, Seq: r.Seq, What: string(r.Event) + ": " + fmt.Sprintf(format, args...)})
}

// record plays one record.
func (v *Verifier) record(r Record) {
	v.out.Events[r.Event]++
	if v.Visit != nil {
		v.Visit(r)
	}
	switch {
	case r.Event == EventAccepted || r.Event == EventQuarantined:
		v.first(&r)
	case r.Event == EventRefused || !r.Event.OfMessage() || r.Seq == 0:
		return
	default:
		m := v.live[r.Seq]
		if m == nil {
			v.wrong(&r, "the message was not open")
			return
		}
		v.step(&r, m)
	}
}

// first plays the record by which a message gets its seq, or, after a replay, its
// place.
func (v *Verifier) first(r *Record) {
	m := v.live[r.Seq]
	if m == nil {
		if v.seq++; r.Seq != v.seq {
			v.wrong(r, "seq %d was due", v.seq)
			v.seq = r.Seq
		}
		m = &traced{}
		v.live[r.Seq] = m
	} else if r.Event == EventQuarantined || m.state != Ready || !m.place.IsZero() {
		v.wrong(r, "the message was accepted before")
	}
	m.key, m.line = r.PartitionKey, r.LineSHA256
	switch {
	case r.Event == EventQuarantined:
		m.state = Dead
	case r.NotBefore.After(r.TS):
		m.state = Scheduled
	default:
		v.enter(m, Place{Seq: r.Seq})
	}
}

// enter gives a message its place in the order of its key.
func (v *Verifier) enter(m *traced, p Place) {
	m.state, m.place = Ready, p
	k := v.keys[m.key]
	if k == nil {
		k = &tracedKey{}
		v.keys[m.key] = k
	}
	k.open++
	heap.Push(&k.waiting, m)
}

// leave takes a message out of the order of its key.
func (v *Verifier) leave(m *traced) {
	k := v.keys[m.key]
	if k == nil {
		return
	}
	if k.open--; k.open == 0 {
		delete(v.keys, m.key)
	}
}

// step plays a record of a message that is open or a dead letter.
func (v *Verifier) step(r *Record, m *traced) {
	switch r.Event {
	case EventDue:
		if m.state != Scheduled {
			v.wrong(r, "the message was %s", m.state)
		}
		v.enter(m, r.Place)
	case EventDispatched:
		v.dispatch(r, m)
	case EventDecided:
		v.answer(r, m)
		v.leave(m)
		m.state = Done
		delete(v.live, r.Seq)
	case EventRetried, EventHeld, EventReleased, EventReclaimed:
		v.answer(r, m)
		v.putBack(m)
	case EventExtended:
		v.holder(r, m)
	case EventDeadLettered:
		if m.state == Leased {
			v.answer(r, m)
		}
		v.leave(m)
		m.state = Dead
	case EventReplayed, EventDiscarded:
		v.revive(r, m)
	}
}

// dispatch checks P4 and P5: nobody else holds the key, nothing open of it comes
// before but what the same owner holds.
func (v *Verifier) dispatch(r *Record, m *traced) {
	k := v.keys[m.key]
	if m.state != Ready || k == nil {
		v.wrong(r, "the message was %s", m.state)
		return
	}
	if k.leased > 0 && k.holder != r.Worker {
		v.wrong(r, "%s held the key", k.holder)
	}
	if first := k.first(); first != nil && first.place.Less(m.place) {
		v.wrong(r, "the message at place %s of its key comes before and was open", first.place)
	}
	m.state, m.worker = Leased, r.Worker
	k.leased++
	k.holder = r.Worker
}

// holder checks that a record comes from who holds the message (P4).
func (v *Verifier) holder(r *Record, m *traced) {
	switch {
	case m.state != Leased:
		v.wrong(r, "nobody held the message, it was %s", m.state)
	case m.worker != r.Worker:
		v.wrong(r, "%s held the message, not %s", m.worker, r.Worker)
	}
}

// answer ends a lease.
func (v *Verifier) answer(r *Record, m *traced) {
	v.holder(r, m)
	if k := v.keys[m.key]; k != nil && m.state == Leased {
		k.leased--
	}
}

// putBack makes a message ready again at its place.
func (v *Verifier) putBack(m *traced) {
	m.state = Ready
	if k := v.keys[m.key]; k != nil {
		heap.Push(&k.waiting, m)
	}
}

// revive plays what ends a dead letter.
func (v *Verifier) revive(r *Record, m *traced) {
	if m.state != Dead {
		v.wrong(r, "the message was %s", m.state)
	}
	switch {
	case r.Event == EventDiscarded:
		delete(v.live, r.Seq)
	case m.place.IsZero():
		m.state = Ready // its ACCEPTED follows
	default:
		v.enter(m, m.place)
	}
}
