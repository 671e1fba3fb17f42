package ledger

import (
	"cmp"
	"slices"

	bolt "go.etcd.io/bbolt"
)

// The pace
//
// Count in heads: tier 0 segments are one head each, tier t segments are up to
// fanIn^t heads. Jobs are served lowest level first, which is nearest deadline
// first, since a level t job arises once in fanIn^(t+1) heads.
//
// Each record is written once per level, so on average a head put makes 1 head
// of sealing and at most 1 head of merging on each of 4 levels, a quarter more
// with clearing. The worst moment is the start of a top merge: for the number
// of segments to stay at 16 it must end while 64 more heads are put. In that
// time there is the merge itself, at most about 260 heads at 50 million keys,
// and 64 heads on each of the four levels below: (260+256)·1.25/64 ≈ 10. So
// twelve bytes of work for each byte put, while there is work, always suffice;
// and a seal, which goes first, is over when the active head is a tenth full.
// Then there are at most 4 segments under the top merge, 3 on each level
// between, and 4+1 on level 0, which is 15.
//
// Should it ever not suffice (limits changed, a ledger far beyond 50 million
// keys), freeze does what is missing at once: slow for one call, but bounded
// memory and 16 segments hold in any case.

// Maintain does about budget bytes of sealing, merging and clearing, and says
// whether there is more to do. Put does what is necessary on its own; Maintain
// is for idle moments, so that less is left for busy ones. After an error the
// transaction must be rolled back and the ledger reloaded.
func (l *Ledger) Maintain(tx *bolt.Tx, budget int) (busy bool, err error) {
	_, err = l.work(tx, budget)
	return len(l.jobs) > 0, err
}

// work does budget bytes of jobs, lowest level first, or all there is.
func (l *Ledger) work(tx *bolt.Tx, budget int) (spent int, err error) {
	if err := l.storeRepairs(tx); err != nil {
		return 0, err
	}
	if l.unsaved { // before anything is written that only the new manifest knows of
		if err := l.save(tx); err != nil {
			return 0, err
		}
	}
	for len(l.jobs) > 0 && spent < budget {
		j := l.jobs[0]
		n, err := l.step(tx, j, budget-spent)
		if err != nil {
			err = l.stumble(tx, j, err)
		}
		if err != nil {
			return spent, err
		}
		spent += n
	}
	return spent, nil
}

// payOwed does the work that Put owes, when it is worth a step.
func (l *Ledger) payOwed(tx *bolt.Tx) error {
	if l.owed >= l.sizes.minStep {
		spent, err := l.work(tx, l.owed)
		if err != nil {
			return err
		}
		l.owed = max(0, l.owed-spent)
	}
	if len(l.jobs) == 0 {
		l.owed = 0
	}
	return nil
}

// freeze makes room in the active head by freezing it. The head frozen before
// must be sealed, and there must be room for one more segment; by the pace both
// is so, otherwise it is brought about here.
func (l *Ledger) freeze(tx *bolt.Tx) error {
	for len(l.jobs) > 0 && (l.jobs[0].level == sealing || l.young() >= l.sizes.maxSegments) {
		if _, err := l.work(tx, l.sizes.headBytes); err != nil {
			return err
		}
	}
	l.active, l.frozen = l.frozen, l.active
	l.frozenEnd = l.nextLog
	l.begin(sealing, 0, nil)
	return l.save(tx)
}

// plan begins the merges that are due: on each level without a job, of all
// segments of that tier when there are enough. They are neighbours in age,
// because tiers ascend with age; damaged ones part them.
func (l *Ledger) plan() {
	for level := 0; level <= l.sizes.topTier; level++ {
		for _, g := range l.groups() {
			if g.tier == level && l.jobOf(level) == nil && (len(g.inputs) >= l.sizes.fanIn || g.behind && len(g.inputs) > 1) {
				l.begin(level, min(level+1, l.sizes.topTier), g.inputs)
			}
		}
	}
	if seal := l.jobOf(sealing); l.sweep && (seal == nil || seal.clearing) {
		l.beginSweep()
	}
}

// beginSweep rewrites the oldest tier, where most of what has expired lies; of several
// stretches the one where most lies. It waits while that is merged in any case.
func (l *Ledger) beginSweep() {
	n := len(l.segments)
	if n == 0 || l.merging(l.segments[n-1].id) {
		return
	}
	var most group
	groups := l.groups()
	for i, g := range groups {
		last := i == len(groups)-1 || groups[i+1].behind && !g.behind // of its stretch
		if (last || g.behind) && g.records > most.records {
			most = g
		}
	}
	if most.records > 0 && l.jobOf(most.tier) == nil {
		l.begin(most.tier, most.tier, most.inputs)
		l.sweep = false
	}
}

// jobOf returns the job of a level, or nil.
func (l *Ledger) jobOf(level int) *job {
	for _, j := range l.jobs {
		if j.level == level {
			return j
		}
	}
	return nil
}

// begin adds a job. The caller saves the manifest.
func (l *Ledger) begin(level, tier int, inputs []uint64) {
	j := &job{level: level, out: &segment{id: l.nextID, tier: tier}, inputs: inputs}
	for _, s := range l.segments {
		if slices.Contains(inputs, s.id) {
			j.out.filter.grow(s.records)
		}
	}
	l.nextID++
	l.jobs = append(l.jobs, j)
	slices.SortFunc(l.jobs, func(a, b *job) int { return cmp.Compare(a.level, b.level) })
}

// sweepShare and sweepHeads say when a sweep is worth its writing: when an eighth of
// the keys, and as many as a quarter of a head holds, have expired since the last one.
const (
	sweepShare = 8
	sweepHeads = 4
)

// Tidy is Maintain for a ledger of which only so many keys are remembered, and, when
// there is nothing else to do and enough of the others, begins to sweep them out.
func (l *Ledger) Tidy(tx *bolt.Tx, budget int, remembered int64) (busy bool, err error) {
	if busy, err = l.Maintain(tx, budget); busy || err != nil {
		return busy, err
	}
	expired := l.live - remembered
	l.swept = min(l.swept, expired) // what a sweep did not come to, it need not be asked for again
	if expired-l.swept <= max(l.live/sweepShare, int64(l.sizes.headKeys/sweepHeads)) {
		return false, nil
	}
	l.swept = expired
	return true, l.Sweep(tx)
}

// Sweep asks for a round of retention without waiting for the next merge: the
// head is sealed, and the oldest tier, where most of what has expired lies, is
// rewritten, all in the bounded steps of Put and Maintain. It costs as much as a
// merge of that tier; a crash before the rewriting begins forgets the request.
func (l *Ledger) Sweep(tx *bolt.Tx) error {
	l.sweep = true
	if l.active.keys > 0 {
		return l.freeze(tx)
	}
	l.plan()
	return l.save(tx)
}

// repair is a piece of filter that was rebuilt in memory and is to be stored.
type repair struct {
	key   []byte
	piece *piece
}

// Repaired returns what was found damaged at the last Open or Reload and could
// be made anew: pieces of filters, and segments that were being written. Worth a word
// to the operator, since it says something about the disk.
func (l *Ledger) Repaired() []error { return slices.Clone(l.mended) }

// storeRepairs writes rebuilt pieces back, before any job may clear them.
func (l *Ledger) storeRepairs(tx *bolt.Tx) error {
	b := appendBucket(tx, bucketFilters)
	for _, r := range l.repairs {
		if err := r.piece.put(b, r.key); err != nil {
			return err
		}
	}
	l.repairs = nil
	return nil
}
