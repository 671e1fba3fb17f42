package memstore

import (
	"context"
	"fmt"
	"slices"

	"breakwater/queue"
)

// Replay puts dead letters back at their own place, or quarantined lines through
// the gates and the ledger again.
func (s *Store) Replay(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error) {
	res := make([]queue.ActionResult, len(seqs))
	err := s.write(ctx, func() {
		r := replay{state: &s.state, a: &a, stopped: map[string]*queue.ActionResult{}, back: map[uint64]string{}, taken: map[string]uint64{}}
		for _, i := range s.byRank(seqs) {
			r.one(seqs[i], &res[i])
		}
		if a.DryRun {
			r.waits(res)
		}
	})
	if err != nil {
		return nil, err
	}
	return res, nil
}

// byRank returns the indexes of a list of seqs in the order of their letters' ranks;
// what is not dead comes first.
func (s *state) byRank(seqs []uint64) []int {
	order := make([]int, len(seqs))
	for i := range order {
		order[i] = i
	}
	rank := func(i int) queue.Place {
		if m := s.dead[seqs[i]]; m != nil {
			x := s.exception(m)
			return x.Rank()
		}
		return queue.Place{}
	}
	slices.SortStableFunc(order, func(i, j int) int { return rank(i).Compare(rank(j)) })
	return order
}

// replay is one list of dead letters being put back, or, in a dry run, rehearsed.
type replay struct {
	*state
	a       *queue.Action
	stopped map[string]*queue.ActionResult // the first of a partition key that was refused
	back    map[uint64]string              // rehearsed: what would be back, and under which key
	taken   map[string]uint64              // rehearsed: idempotency keys that lines would have taken
}

// one puts one letter back, unless an earlier one of its key was refused.
func (r *replay) one(seq uint64, res *queue.ActionResult) {
	res.Seq = seq
	m := r.dead[seq]
	if _, again := r.back[seq]; m == nil || again {
		*res = notDead(seq)
		return
	}
	if first := r.stopped[m.PartitionKey]; first != nil {
		res.Stops(first)
		return
	}
	if m.inOrder() {
		r.ordered(m, res)
	} else {
		r.line(m, res)
	}
	if res.Code != "" && m.PartitionKey != "" {
		r.stopped[m.PartitionKey] = res
	}
}

func (r *replay) ordered(m *message, res *queue.ActionResult) {
	res.Place = m.place
	if r.a.DryRun {
		r.back[m.Seq] = m.PartitionKey
		return
	}
	r.revive(m, r.a)
}

func (r *replay) line(m *message, res *queue.ActionResult) {
	l := m.describe()
	parsed := l.Admissible(res)
	if res.Code != "" {
		return
	}
	of := r.taken[parsed.IdempotencyKey]
	if e := r.ledger[parsed.IdempotencyKey]; e != nil && e.first.Seq != m.Seq {
		of = e.first.Seq
	}
	if of != 0 {
		res.Code, res.Error = queue.CodeConflict, fmt.Sprintf("its idempotency key is that of seq %d", of)
		return
	}
	if !parsed.NotBefore.After(r.a.Now) {
		res.Place = queue.Place{Seq: m.Seq}
	}
	if !r.a.DryRun {
		r.readmit(m, &parsed, r.a)
		return
	}
	r.taken[parsed.IdempotencyKey], r.back[m.Seq] = m.Seq, parsed.PartitionKey
	if res.Place.IsZero() {
		res.Waits = "its not_before"
	}
}

// waits says of each letter that would be put back what it would wait for, when all of
// them are.
func (r *replay) waits(res []queue.ActionResult) {
	for i := range res {
		if x := &res[i]; x.Code == "" && !x.Place.IsZero() {
			x.Waits = r.waitOf(r.keys[r.back[x.Seq]])
		}
	}
}

func (r *replay) waitOf(k *key) string {
	switch {
	case r.paused != nil:
		return queue.WaitsPaused
	case k == nil:
		return ""
	case k.held != nil:
		return queue.WaitsOperator
	}
	for seq, m := range r.dead {
		if _, back := r.back[seq]; m.letter.blocks && !back && r.keys[m.PartitionKey] == k {
			return "a dead letter holds its key"
		}
	}
	switch {
	case k.leased():
		return "a message of its key is leased"
	case k.wait != nil:
		return "its key waits"
	}
	return ""
}
