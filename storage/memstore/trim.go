package memstore

import (
	"context"

	"breakwater/queue"
)

// Trim removes the first blocks of the trail that have been kept for long enough.
func (s *Store) Trim(ctx context.Context, r queue.TrimRequest) (queue.TrimResult, error) {
	var res queue.TrimResult
	err := s.write(ctx, func() {
		t := queue.Trimming{Opening: s.opening}
		blocks := 0
		for lastN := s.trimmable(&r); blocks < queue.TrimBlocks && blocks < len(s.blocks)-1 && s.blocks[blocks].LastN() <= lastN; blocks++ {
			for rec, err := range s.blocks[blocks].Records() {
				if err != nil {
					panic(err) // we wrote it
				}
				t.Count(&rec)
				if s.stillHolds(&rec) {
					t.Copy(rec)
				}
				res.Records++
			}
			t.Before = s.blocks[blocks].Head()
		}
		if blocks == 0 {
			return
		}
		s.blocks = s.blocks[blocks:]
		res.Copies, res.More = len(t.Copies), blocks == queue.TrimBlocks
		s.record(queue.TrimmedRecord(r.Now, t.Told()))
		t.Record = s.lastN + 1
		for _, c := range t.Copies {
			s.record(c)
		}
		s.opening = t.Opening
	})
	if err != nil {
		return queue.TrimResult{}, err
	}
	return res, nil
}

// trimmable returns the number of the last record that retention lets go of.
func (s *state) trimmable(r *queue.TrimRequest) (lastN uint64) {
	looked := 0
	for _, e := range s.epochs {
		if e.LastN <= s.opening.LastN {
			continue
		}
		if looked++; looked > queue.MaxEpochs || !s.service.Over(&e, r.Audit) {
			break
		}
		lastN = e.LastN
	}
	if r.RequireArchive {
		lastN = min(lastN, s.archived.N)
	}
	return lastN
}

// stillHolds reports whether what an old record tells holds now.
func (s *state) stillHolds(r *queue.Record) bool {
	switch r.Event {
	case queue.EventPaused, queue.EventRestored:
		return r.StillPaused(s.paused)
	case queue.EventKeyHeld:
		k := s.keys[r.PartitionKey]
		return k != nil && r.StillHeld(k.held)
	}
	return r.StillHolds(s.standing(r.Seq))
}

// standing is where a message stands; nil: it is over.
func (s *state) standing(seq uint64) *queue.Unfinished {
	m := s.open[seq]
	if m == nil {
		m = s.dead[seq]
	}
	if m == nil {
		return nil
	}
	out := &queue.Unfinished{Place: m.place}
	if m.sent != nil {
		out.Edited = m.content().LineHash
	}
	if m.letter != nil {
		out.DeadAt, out.Door = m.letter.at, !m.inOrder()
	}
	if m.lease != nil {
		out.Worker, out.Delivery = m.lease.owner.Name, m.deliveries
	}
	return out
}
