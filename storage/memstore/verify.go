package memstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"breakwater/queue"
)

// Verify checks the chain, and with Buckets also that what is stored is what the
// trail says, message by message.
func (s *Store) Verify(ctx context.Context, o queue.VerifyOptions) (queue.Verification, error) {
	v := verification{Verification: queue.Verification{Events: map[queue.Event]uint64{}}, told: map[uint64]*queue.Exception{}}
	err := s.read(ctx, func() {
		v.readTrail(s.blocks, o)
		if o.Buckets {
			v.compare(&s.state)
		}
	})
	return v.Verification, err
}

// verification is one Verify under way.
type verification struct {
	queue.Verification
	told map[uint64]*queue.Exception // what the trail says of each message
}

// find notes what is wrong, up to the limit.
func (v *verification) find(f queue.Finding) {
	if len(v.Findings) == queue.MaxFindings {
		v.More = true
		return
	}
	v.Findings = append(v.Findings, f)
}

// readTrail checks the chain and folds its records.
func (v *verification) readTrail(blocks []queue.Block, o queue.VerifyOptions) {
	chain := queue.ChainVerifier{Visit: v.fold}
	if o.Witness.Block != 0 {
		chain.Watch(o.Witness)
	}
	for i, b := range blocks {
		if chain.Add(b) != nil {
			break // what follows proves nothing
		}
		if o.Progress != nil {
			o.Progress(int64(i+1), int64(len(blocks)))
		}
	}
	if broken := chain.Broken(); broken != nil {
		v.find(queue.Finding{What: broken.Error(), Block: broken.Block, N: broken.N})
	}
	v.Head, v.Blocks, v.Records = chain.Head(), chain.Head().Block, chain.Records()
	v.WitnessFound = o.Witness.Block != 0 && len(chain.Missing()) == 0
	if o.Witness.Block != 0 && !v.WitnessFound {
		v.find(queue.Finding{What: "the witness " + o.Witness.String() + " is not in the chain", Block: o.Witness.Block})
	}
}

// fold takes one record into the account of its message.
func (v *verification) fold(r queue.Record) {
	v.Events[r.Event]++
	if r.Seq == 0 {
		return
	}
	if v.told[r.Seq] == nil {
		v.told[r.Seq] = &queue.Exception{}
	}
	v.told[r.Seq].Fold(&r)
}

// compare holds the trail against what is stored, both ways.
func (v *verification) compare(s *state) {
	var seqs []uint64
	for seq := range v.told {
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	for i, seq := range seqs {
		if seq != uint64(i+1) {
			v.find(queue.Finding{What: fmt.Sprintf("message %d has no record", i+1), Seq: uint64(i + 1)})
			break // every later one would be found again
		}
	}
	if n := uint64(len(seqs)); n != s.lastSeq {
		v.find(queue.Finding{What: fmt.Sprintf("the trail tells of %d messages, %d seqs were given", n, s.lastSeq)})
	}
	for _, seq := range seqs {
		if what := differsFromTrail(s, seq, v.told[seq]); what != "" {
			v.find(queue.Finding{What: what, Seq: seq})
		}
	}
}

// differsFromTrail says in what the stored message is not what its records say;
// "" if in nothing.
func differsFromTrail(s *state, seq uint64, told *queue.Exception) string {
	m := cmp.Or(s.open[seq], s.dead[seq])
	ended := told.State == queue.Done || told.State == queue.Discarded
	switch {
	case m == nil && ended:
		return ""
	case m == nil:
		return fmt.Sprintf("it is %s, says the trail, and it is not stored", told.State)
	case ended:
		return fmt.Sprintf("it is %s, says the trail, and it is still stored", told.State)
	case (m.letter != nil) != (told.State == queue.Dead):
		return fmt.Sprintf("it is %s, says the trail, and stored as %s", told.State, s.stateOf(m))
	case m.lineHash != told.LineHash || m.lineBytes != told.LineBytes:
		return "its line is not the one that was received"
	case m.lineBytes == int64(len(m.Line)) && queue.LineHash(m.Line) != m.lineHash:
		return "its bytes are not those of its hash"
	case m.place != told.Place || m.deliveries != told.Deliveries || m.failed != told.FailedAttempts:
		return "its place or its counts are not those of the trail"
	}
	return ""
}
