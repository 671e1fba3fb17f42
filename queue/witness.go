package queue

// Witness is what somebody was shown of the trail and kept outside the store: a
// head and, if they know it, the number of its last record (a checkpoint says it, an
// end line does not).
type Witness struct {
	Head
	N uint64 // 0: not known
}

// Verdict is what a trail says to a witness.
type Verdict string

// The verdicts. The words are the API's.
const (
	WitnessFound    Verdict = "found"    // the chain has it: so far nothing was changed, added or left out
	WitnessDiffers  Verdict = "differs"  // the chain has another block of its number: it was written anew
	WitnessCut      Verdict = "cut"      // the chain is whole and ends before it: its end is gone
	WitnessUnproven Verdict = "unproven" // the chain breaks before it: nothing can be said
	WitnessTrimmed  Verdict = "trimmed"  // it lies before the first block that was kept: it can't be looked for
)

// Contradicts reports whether the trail is not the one that the witness saw, or
// can't be shown to be.
func (v Verdict) Contradicts() bool { return v != WitnessFound && v != WitnessTrimmed }

// MaxWitnesses bounds the witnesses of one verification. Some 3 MB of them are held.
const MaxWitnesses = 1 << 16

// witnesses are looked for while a chain is checked.
type witnesses struct {
	all      []Witness
	verdicts []Verdict
	waiting  map[uint64][]int // by block: indexes into all
}

// add watches for one more.
func (ws *witnesses) add(w Witness, v Verdict) {
	if ws.waiting == nil {
		ws.waiting = map[uint64][]int{}
	}
	if v == "" {
		ws.waiting[w.Block] = append(ws.waiting[w.Block], len(ws.all))
	}
	ws.all, ws.verdicts = append(ws.all, w), append(ws.verdicts, v)
}

// judge compares with a head that the chain has, and the number of its last record.
func (w Witness) judge(head Head, lastN uint64) Verdict {
	if w.Hash == head.Hash && (w.N == 0 || w.N == lastN) {
		return WitnessFound
	}
	return WitnessDiffers
}

// pass tells them that the chain has come to a head.
func (ws *witnesses) pass(head Head, lastN uint64) {
	for _, i := range ws.waiting[head.Block] {
		ws.verdicts[i] = ws.all[i].judge(head, lastN)
	}
	delete(ws.waiting, head.Block)
}

// end returns the verdicts for a chain that ends here, or breaks.
func (ws *witnesses) end(broken bool) []Verdict {
	out := make([]Verdict, len(ws.verdicts))
	for i, v := range ws.verdicts {
		switch {
		case v != "":
			out[i] = v
		case broken:
			out[i] = WitnessUnproven
		default:
			out[i] = WitnessCut
		}
	}
	return out
}
