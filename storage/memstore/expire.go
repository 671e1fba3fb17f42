package memstore

import (
	"context"
	"time"

	"breakwater/queue"
)

// Expire forgets keys that were settled long enough ago.
func (s *Store) Expire(ctx context.Context, r queue.ExpireRequest) (queue.ExpireResult, error) {
	var res queue.ExpireResult
	err := s.write(ctx, func() {
		s.service.Advance(&r)
		if e, ended := s.service.End(&r, s.lastN, s.settled); ended {
			s.settled = 0
			s.epochs = append(s.epochs, e)
		}
		s.forgetKeys(&r, &res)
	})
	if err != nil {
		return queue.ExpireResult{}, err
	}
	return res, nil
}

// endKey notes that a key is settled, from when on its age counts.
func (s *state) endKey(e *entry, as queue.State, now time.Time) {
	e.state, e.settledAt, e.epoch = as, micros(now), s.service.Epoch
	s.settled++
}

// forgetKeys lets go of the keys that were settled in epochs that are over.
func (s *state) forgetKeys(r *queue.ExpireRequest, res *queue.ExpireResult) {
	var gone queue.Trimmed
	looked := 0
	for _, e := range s.epochs {
		if s.service.Lapsed(e.Number) {
			continue
		}
		if !s.service.Over(&e, r.Ledger) {
			break
		}
		if looked++; looked > queue.MaxEpochs {
			res.More = true
			break
		}
		s.service.Kept = e.Number + 1
		gone.Keys += e.Settled
		gone.SettledTo = e.LastN
	}
	if gone.Keys == 0 {
		return
	}
	for key, e := range s.ledger {
		if (e.state == queue.Done || e.state == queue.Discarded) && s.service.Lapsed(e.epoch) {
			delete(s.ledger, key)
		}
	}
	res.Keys = gone.Keys
	s.record(queue.TrimmedRecord(r.Now, gone))
}
