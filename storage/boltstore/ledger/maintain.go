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
	for len(l.jobs) > 0 && spent < budget {
		n, err := l.step(tx, l.jobs[0], budget-spent)
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
	for len(l.jobs) > 0 && (l.jobs[0].level == sealing || len(l.segments) >= l.sizes.maxSegments) {
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
// because tiers ascend with age.
func (l *Ledger) plan() {
	for level := 0; level <= l.sizes.topTier; level++ {
		if inputs := l.ofTier(level); len(inputs) >= l.sizes.fanIn && l.jobOf(level) == nil {
			l.begin(level, min(level+1, l.sizes.topTier), inputs)
		}
	}
	if seal := l.jobOf(sealing); l.sweep && len(l.segments) > 0 && (seal == nil || seal.clearing) {
		oldest := l.segments[len(l.segments)-1].tier
		if l.jobOf(oldest) == nil {
			l.begin(oldest, oldest, l.ofTier(oldest))
			l.sweep = false
		}
	}
}

// ofTier returns the ids of a tier's segments, newest first.
func (l *Ledger) ofTier(tier int) []uint64 {
	var ids []uint64
	for _, s := range l.segments {
		if s.tier == tier {
			ids = append(ids, s.id)
		}
	}
	return ids
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

// repair is a piece of filter that was found damaged and rebuilt in memory.
type repair struct {
	key    []byte
	piece  *piece
	damage error
	stored bool
}

type repairFunc func(key []byte, p *piece, damage error)

// repaired notes a repair, to be stored by the next work.
func (l *Ledger) repaired(key []byte, p *piece, damage error) {
	l.repairs = append(l.repairs, repair{key: key, piece: p, damage: damage})
}

// Repaired returns what was found damaged at the last Open or Reload and could
// be rebuilt: pieces of filters. Worth a word to the operator, since it says
// something about the disk.
func (l *Ledger) Repaired() []error {
	var errs []error
	for _, r := range l.repairs {
		errs = append(errs, r.damage)
	}
	return errs
}

// storeRepairs writes rebuilt pieces back, before any job may clear them.
func (l *Ledger) storeRepairs(tx *bolt.Tx) error {
	for i := range l.repairs {
		r := &l.repairs[i]
		if r.stored {
			continue
		}
		if err := r.piece.put(appendBucket(tx, bucketFilters), r.key); err != nil {
			return err
		}
		r.stored = true
	}
	return nil
}
