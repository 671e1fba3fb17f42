package queue

import "fmt"

// Verifier checks a trail and what is stored beside it: that the chain is whole,
// and that its records, read one after the other, keep the promises. It holds the
// open messages and dead letters of the moment it has come to, 100 to 250 bytes each,
// never the history; VerifyOptions.MaxOpen bounds them.
//
// What it proves is that the records agree with each other and with the stored
// lines. It can't prove that nothing was cut off at the end (a head that somebody
// else was shown does: VerifyOptions.Witnesses), nor that the host was honest when
// it wrote.
type Verifier struct {
	// Visit, if set, is called for each record of the chain as far as it is proven,
	// in order: for what a store keeps beside the trail.
	Visit func(Record)

	o     VerifyOptions
	at    StoreStatus // what the store says of itself at the trail's end
	chain ChainVerifier
	out   Verification
	story story

	opened bool   // the TRIMMED that says where the trail begins has been read
	copies copies // that the last TRIMMED has announced
}

// NewVerifier returns a verifier of the trail of a store that, where the trail ends,
// says this of itself: its head, its counts, the seq given last.
func NewVerifier(o VerifyOptions, at StoreStatus) *Verifier {
	v := &Verifier{o: o, at: at}
	v.out.Origin, v.out.Events = at.Origin, map[Event]uint64{}
	v.story.begin(v.wrong)
	v.chain.Visit = v.record
	if o := &at.Opening; o.Record != 0 {
		v.chain.StartAfter(o.Before, o.LastN)
		v.story.open(o)
	}
	for _, w := range o.Witnesses {
		v.chain.Watch(w)
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

// Block checks the next block of the trail, in its stored form.
func (v *Verifier) Block(number uint64, data []byte) {
	if v.chain.Broken() == nil {
		v.broke(v.chain.AddStored(number, data))
	}
}

// Add is Block for a block that was read already.
func (v *Verifier) Add(b Block) {
	if v.chain.Broken() == nil {
		v.broke(v.chain.Add(b))
	}
}

// broke reports where the chain has broken.
func (v *Verifier) broke(err error) {
	if err == nil {
		return
	}
	broken := v.chain.Broken()
	v.Report(Finding{What: err.Error(), Block: broken.Block, N: broken.N})
}

// record plays one record of the chain.
func (v *Verifier) record(r Record) {
	v.out.Events[r.Event]++
	if v.out.First.N == 0 {
		v.out.First = Stamp{N: r.N, TS: r.TS}
	}
	v.out.Last = Stamp{N: r.N, TS: r.TS}
	if v.Visit != nil {
		v.Visit(r)
	}
	v.expect(&r)
	if v.out.Untraced != 0 {
		return
	}
	v.story.play(&r)
	if v.opened && v.story.old != 0 && v.copies.left == 0 {
		v.story.settle(&r)
	}
	if v.o.MaxOpen > 0 && len(v.story.live) > v.o.MaxOpen {
		v.out.Untraced = r.N
		v.story.begin(v.wrong) // what it held
	}
}

// wrong reports a record that breaks a promise.
func (v *Verifier) wrong(r *Record, format string, args ...any) {
	v.Report(Finding{N: r.N, Seq: r.Seq, What: string(r.Event) + ": " + fmt.Sprintf(format, args...)})
}

// traces reports whether the messages were followed to the end of the trail.
func (v *Verifier) traces() bool { return v.chain.Broken() == nil && v.out.Untraced == 0 }

// Stored compares the stored bytes of an open message or a dead letter with the hash
// that its first record has of them; a nil line, of which only a part is kept, is
// not compared. On a live store a message may have come or gone since the trail was
// read, and is passed over; on a copy (VerifyOptions.Buckets) that is a finding.
func (v *Verifier) Stored(s *Stored) {
	m := v.found(s)
	if m == nil {
		return
	}
	if v.o.Buckets && m.flags&tracedEdited != 0 {
		v.Report(Finding{Seq: s.Seq, What: "it was edited, but the line that was sent is not stored"})
	} else if s.Line != nil && lineMark(LineHash(s.Line)) != m.line {
		v.Report(Finding{Seq: s.Seq, What: "its stored line is not the one that was accepted"})
	}
}

// StoredEdit is Stored for a message that was edited: sent is the line as it was sent,
// nil if only a part of it is kept, and hash what is stored as its SHA-256. What it
// was edited to is only compared on a copy: it may have been edited again since the
// trail was read.
func (v *Verifier) StoredEdit(s *Stored, hash Hash, sent []byte) {
	m := v.found(s)
	if m == nil {
		return
	}
	first, edited := m.line, m.flags&tracedEdited != 0
	if edited {
		first = v.story.sent[s.Seq]
	}
	switch {
	case lineMark(hash) != first || sent != nil && LineHash(sent) != hash:
		v.Report(Finding{Seq: s.Seq, What: "the line kept beside its edited one is not the one that was sent"})
	case v.o.Buckets && (!edited || lineMark(LineHash(s.Line)) != m.line):
		v.Report(Finding{Seq: s.Seq, What: "its stored line is not the one that the trail says it was edited to"})
	}
}

// found is what the trail says of a message that is stored; nil if it is not to be
// compared.
func (v *Verifier) found(s *Stored) *traced {
	if !v.traces() {
		return nil
	}
	m := v.story.live[s.Seq]
	switch {
	case m != nil:
		m.flags |= tracedStored
	case v.o.Buckets:
		v.Report(Finding{Seq: s.Seq, What: "it is stored, but the trail says that it is settled or was never accepted"})
	}
	return m
}

// Result ends the verification.
func (v *Verifier) Result() Verification {
	if o := &v.at.Opening; o.Record != 0 && !v.opened && v.chain.Broken() == nil {
		v.Report(Finding{N: o.Record, What: "the record that says what was trimmed is not in the trail"})
	}
	v.out.Head, v.out.Blocks, v.out.Records = v.chain.Head(), v.chain.Head().Block-v.at.Opening.Before.Block, v.chain.Records()
	if v.chain.Broken() == nil && v.out.Head != v.at.Head {
		v.Report(Finding{Block: v.out.Head.Block, What: fmt.Sprintf("the trail ends at %s, the store says %s", v.out.Head, v.at.Head)})
	}
	if v.out.Untraced == 0 {
		v.out.Balance = v.story.count()
	}
	if v.traces() {
		v.audit()
	}
	v.out.Verdicts = v.chain.Verdicts()
	return v.out
}

// audit holds the store against its trail.
func (v *Verifier) audit() {
	b := v.out.Balance
	if !b.Even() {
		v.Report(Finding{What: fmt.Sprintf("the counts do not add up: %+v", b)})
	}
	if v.o.Buckets {
		v.unstored()
	}
	for _, c := range []struct {
		what         string
		store, trail uint64
	}{
		{"the seq given last", v.at.LastSeq, v.story.seq},
		{"records", v.at.Records, v.chain.LastN()},
		{"open", uint64(v.at.Backlog()), b.Open},
		{"dead letters", uint64(v.at.Dead), b.Dead + b.QuarantinedDead},
		{"done", uint64(v.at.Done), b.Decided},
		{"discarded", uint64(v.at.Discarded), b.Discarded + b.QuarantinedDiscarded},
	} {
		if c.store != c.trail {
			v.Report(Finding{What: fmt.Sprintf("%s: the store counts %d, the trail %d", c.what, c.store, c.trail)})
		}
	}
}

// unstored finds what the trail says is open, or a dead letter, and is not stored.
func (v *Verifier) unstored() {
	for seq, m := range v.story.live {
		if m.flags&tracedStored == 0 {
			v.Report(Finding{Seq: seq, What: fmt.Sprintf("the trail says that it is %s, but it is not stored", m.state)})
		}
	}
}
