package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"breakwater/queue"
)

// Verify checks the trail, and with Buckets also that what is stored is what the
// trail says, message by message.
func (s *Store) Verify(ctx context.Context, o queue.VerifyOptions) (queue.Verification, error) {
	var out queue.Verification
	err := s.read(ctx, func() {
		v := queue.NewVerifier(o, s.status())
		told := map[uint64]*queue.Exception{} // what the trail says of each message
		v.Visit = func(r queue.Record) {
			if r.Seq == 0 {
				return
			}
			if told[r.Seq] == nil {
				told[r.Seq] = &queue.Exception{}
			}
			told[r.Seq].Fold(&r)
		}
		for i, b := range s.blocks {
			v.Add(b)
			if o.Progress != nil {
				o.Progress(int64(i+1), int64(len(s.blocks)))
			}
		}
		s.show(v)
		if o.Buckets {
			s.compare(v, told)
		}
		out = v.Result()
	})
	return out, err
}

// show shows every stored message to the verifier.
func (s *state) show(v *queue.Verifier) {
	for _, messages := range []map[uint64]*message{s.open, s.dead} {
		for _, m := range messages {
			stored := m.Stored
			if m.sent != nil {
				sent := m.sent
				if m.lineBytes != int64(len(sent)) {
					sent = nil
				}
				v.StoredEdit(&stored, m.lineHash, sent)
				continue
			}
			if m.lineBytes != int64(len(m.Line)) {
				stored.Line = nil // its hash is of more than is kept
			}
			v.Stored(&stored)
		}
	}
}

// compare holds each message against what its records say.
func (s *state) compare(v *queue.Verifier, told map[uint64]*queue.Exception) {
	for _, seq := range slices.Sorted(maps.Keys(told)) {
		if what := differsFromTrail(s, seq, told[seq]); what != "" {
			v.Report(queue.Finding{What: what, Seq: seq})
		}
	}
}

// differsFromTrail says in what the stored message is not what its records say;
// "" if in nothing.
func differsFromTrail(s *state, seq uint64, told *queue.Exception) string {
	m := cmp.Or(s.open[seq], s.dead[seq])
	ended := told.State == queue.Done || told.State == queue.Discarded
	switch {
	case m == nil && (ended || told.Seq == 0):
		return ""
	case m == nil:
		return fmt.Sprintf("it is %s, says the trail, and it is not stored", told.State)
	case ended:
		return fmt.Sprintf("it is %s, says the trail, and it is still stored", told.State)
	case (m.letter != nil) != (told.State == queue.Dead):
		return fmt.Sprintf("it is %s, says the trail, and stored as %s", told.State, s.stateOf(m))
	case m.lineHash != told.LineHash || m.lineBytes != told.LineBytes:
		return "its line is not the one that was received"
	case m.sent == nil && m.lineBytes == int64(len(m.Line)) && queue.LineHash(m.Line) != m.lineHash:
		return "its bytes are not those of its hash"
	case (m.sent != nil) != (told.EditedHash != queue.Hash{}) || m.sent != nil && m.content().LineHash != told.EditedHash:
		return "its line is not the one that it was edited to"
	case told.Trimmed && m.place == told.Place:
		return "" // its counts are gone with its first records
	case m.deaths != told.Deaths:
		return "it died more or less often than the trail says"
	case m.place != told.Place || m.deliveries != told.Deliveries || m.failed != told.FailedAttempts || m.unanswered != told.Unanswered:
		return "its place or its counts are not those of the trail"
	}
	return ""
}
