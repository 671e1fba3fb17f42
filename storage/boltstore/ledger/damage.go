package ledger

import (
	"errors"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// Damaged segments
//
// A damaged block puts in doubt what it may have held, and nothing else: a look-up
// that ends there is a *DoubtError, all others are answered as ever.
//
// A segment with such a block is never merged: what the block held would be gone
// for good, and an older entry of one of its keys would come back to life. Nor is
// anything merged across it, for the result would have to be both newer and older
// than it. It parts the others into stretches, which are merged within themselves. The
// newest stretch lives on as if it were a ledger of its own, with at most 16 segments.
// The ones behind get no more: two segments are enough there for a merge, so each
// comes to one. With at most 8 damaged segments (sizes.maxDamaged) that makes 16+8+8.
//
// It is never dropped either, since nobody knows what of it is still remembered.
//
// That a segment is damaged is known from when it is met until the ledger is opened
// again, then from when it is met again: the format has no place for it. Meanwhile a
// merge may begin that it is part of, and is given up when it comes to the block. Its
// tier, and that of all older ones, becomes the top tier, so that tiers go on ascending
// with age: a program that knows nothing of damage merges neighbours in any case.

// DoubtError says that a key may be in a block that is damaged. It wraps what is wrong
// with the block, which matches queue.ErrDamaged.
type DoubtError struct {
	Segment uint64
	err     error
}

// Error says what is damaged.
func (e *DoubtError) Error() string { return e.err.Error() }

// Unwrap is what is wrong with the block.
func (e *DoubtError) Unwrap() error { return e.err }

// doubt is err, if it is damage, as one of this segment. A segment that is known to be
// damaged says so of itself.
func (s *segment) doubt(err error) error {
	if err == nil || !errors.Is(err, queue.ErrDamaged) {
		return err
	}
	return &DoubtError{s.id, err}
}

// Damaged returns what is wrong with the damaged segments met since Open or Reload, an
// error for each, newest segment first.
func (l *Ledger) Damaged() (errs []*DoubtError) {
	for _, s := range l.segments {
		if s.damaged != nil {
			errs = append(errs, &DoubtError{s.id, fmt.Errorf("segment %d, of %d keys: %w", s.id, s.records, s.damaged)})
		}
	}
	return errs
}

// met notes that a segment is damaged, if that is what err says. It returns err, or,
// when more segments are damaged than the ledger can live with, another one, which is
// no *DoubtError.
func (l *Ledger) met(err error) error {
	var doubt *DoubtError
	if !errors.As(err, &doubt) {
		return err
	}
	damaged := 0
	for _, s := range l.segments {
		if s.id == doubt.Segment && s.damaged == nil {
			s.damaged = doubt.err
		}
		if s.damaged != nil {
			damaged++
		}
	}
	if damaged > l.sizes.maxDamaged {
		return fmt.Errorf("more than %d segments of the ledger are damaged: %w", l.sizes.maxDamaged, doubt.err)
	}
	l.raiseTiers()
	return err
}

// raiseTiers makes the newest damaged segment and all older ones top tier.
func (l *Ledger) raiseTiers() {
	for _, s := range l.segments[l.young():] {
		s.tier = max(s.tier, l.sizes.topTier)
	}
}

// young returns how many segments are newer than the newest damaged one.
func (l *Ledger) young() int {
	at := slices.IndexFunc(l.segments, func(s *segment) bool { return s.damaged != nil })
	if at < 0 {
		return len(l.segments)
	}
	return at
}

// group is a run of neighbours of one tier that may be merged.
type group struct {
	inputs  []uint64 // newest first
	tier    int
	records int
	behind  bool // a damaged segment
}

// groups returns the groups, newest first. Segments that a job is merging are in none.
func (l *Ledger) groups() (list []group) {
	behind, joined := false, false
	for _, s := range l.segments {
		behind = behind || s.damaged != nil
		if s.damaged != nil || l.merging(s.id) {
			joined = false
			continue
		}
		if !joined || list[len(list)-1].tier != s.tier {
			list = append(list, group{tier: s.tier, behind: behind})
			joined = true
		}
		g := &list[len(list)-1]
		g.inputs, g.records = append(g.inputs, s.id), g.records+s.records
	}
	return list
}

// merging reports whether a job has a segment as an input.
func (l *Ledger) merging(id uint64) bool {
	return slices.ContainsFunc(l.jobs, func(j *job) bool { return !j.clearing && slices.Contains(j.inputs, id) })
}

// debris is the level of the job that clears away what given up jobs have written.
const debris = 1 << 10

// giveUp ends a job that cannot be carried through. What it was to replace is as it
// was; what it has written nobody has read, and is cleared away.
func (l *Ledger) giveUp(j *job) {
	l.live += j.gone
	l.jobs = slices.DeleteFunc(l.jobs, func(other *job) bool { return other == j })
	if d := l.jobOf(debris); d != nil {
		d.inputs = append(d.inputs, j.out.id)
	} else {
		l.jobs = append(l.jobs, &job{level: debris, out: &segment{id: j.out.id}, inputs: []uint64{j.out.id}, clearing: true})
	}
	if j.level == sealing {
		l.begin(sealing, 0, nil)
	}
	l.unsaved = true
}

// stumble deals with an error of a job's step: damage of one of its inputs ends the job
// and no more.
func (l *Ledger) stumble(tx *bolt.Tx, j *job, err error) error {
	var doubt *DoubtError
	if err = l.met(err); !errors.As(err, &doubt) {
		return err
	}
	l.giveUp(j)
	l.plan()
	return l.save(tx)
}
