package boltstore

import (
	"context"
	"fmt"

	"breakwater/queue"
)

// tidyBytes is how much of the ledger one Expire seals and merges at most: some
// milliseconds of the committer's time.
const tidyBytes = 256 << 10

// Expire forgets what has been kept for long enough; see [queue.Store].
func (s *Store) Expire(ctx context.Context, r queue.ExpireRequest) (queue.ExpireResult, error) {
	var res queue.ExpireResult
	err := s.do(ctx, &operation{apply: func(x *txn) error {
		res = queue.ExpireResult{}
		x.tidied = append(x.tidied, &res)
		return x.expire(&r, &res)
	}})
	if err != nil {
		return queue.ExpireResult{}, err
	}
	return res, nil
}

func (x *txn) expire(r *queue.ExpireRequest, res *queue.ExpireResult) error {
	s := &x.t.service
	s.Advance(r)
	if e, ended := s.End(r, x.trail.LastN(), x.t.count.settled); ended {
		x.t.count.settled = 0
		if err := x.b.epochs.Put(seqKey(e.Number), appendEpoch(nil, &e)); err != nil {
			return fmt.Errorf("end epoch %d: %w", e.Number, err)
		}
	}
	if err := x.forgetKeys(r, res); err != nil {
		return err
	}
	x.dirty = true
	return x.b.meta.Put(metaService, appendService(nil, s))
}

// forgetKeys lets go of the keys that were settled in epochs that are over. They are
// forgotten at once; the ledger drops them when it merges.
func (x *txn) forgetKeys(r *queue.ExpireRequest, res *queue.ExpireResult) error {
	over, more, err := x.epochsOver(r)
	if err != nil {
		return err
	}
	var gone queue.Trimmed
	for _, e := range over {
		x.t.service.Kept = e.Number + 1
		gone.Keys += e.Settled
		gone.SettledTo = e.LastN
	}
	res.More = more
	if err := x.dropEpochs(); err != nil || gone.Keys == 0 {
		return err
	}
	x.t.count.remembered -= gone.Keys
	res.Keys = gone.Keys
	x.record(queue.TrimmedRecord(r.Now, gone))
	return nil
}

// epochsOver returns the epochs whose keys have been remembered for long enough, as many
// as one request may let go of.
func (x *txn) epochsOver(r *queue.ExpireRequest) (over []queue.Epoch, more bool, err error) {
	c := x.b.epochs.Cursor()
	for at, b := c.Seek(seqKey(x.t.service.Kept)); at != nil; at, b = c.Next() {
		e, err := parseEpoch(at, b)
		if err != nil {
			return nil, false, err
		}
		if !x.t.service.Over(&e, r.Ledger) {
			break
		}
		if len(over) == queue.MaxEpochs {
			return over, true, nil
		}
		over = append(over, e)
	}
	return over, false, nil
}

// tidy works on the ledger for a while.
func (x *txn) tidy() error {
	busy, err := x.t.ledger.Tidy(x.tx, tidyBytes, x.t.count.remembered)
	if err != nil {
		return fmt.Errorf("tidy the ledger: %w", err)
	}
	for _, res := range x.tidied {
		res.More = res.More || busy
	}
	return nil
}
