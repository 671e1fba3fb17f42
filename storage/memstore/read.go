package memstore

import (
	"bytes"
	"cmp"
	"context"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"breakwater/queue"
)

// Status counts. The walk over everything is the one thing here that another
// store must not copy.
func (s *Store) Status(ctx context.Context, now time.Time) (queue.StoreStatus, error) {
	var st queue.StoreStatus
	err := s.read(ctx, func() {
		st = s.status()
		s.countLetters(&st, now)
		st.AtRisk = s.atRisk()
	})
	return st, err
}

func (s *state) status() queue.StoreStatus {
	st := queue.StoreStatus{
		Done: s.done, Dead: int64(len(s.dead)), Discarded: s.gone,
		OpenKeys: s.openKeys, LedgerKeys: int64(len(s.ledger)),
		LastSeq: s.lastSeq, Head: s.head(), Records: s.lastN, Opening: s.opening, Origin: queue.Origin(s.id),
		ArchivedN: s.archived.N, ArchivedBlock: s.archived.Head.Block, ArchivedAt: s.archived.At,
		DiskFree: -1, Paused: s.pause(),
		Oldest: s.oldest(),
	}
	s.countStates(&st)
	return st
}

func (s *state) countStates(st *queue.StoreStatus) {
	for _, m := range s.open {
		switch s.stateOf(m) {
		case queue.Ready:
			st.Ready++
		case queue.Scheduled:
			st.Scheduled++
		case queue.Leased:
			st.Leased++
		case queue.Held:
			st.Held++
		}
	}
	for _, k := range s.keys {
		if len(k.order) > 0 && k.waits() {
			st.HeldKeys++
		}
		if k.blocking > 0 {
			st.BlockedKeys++
		}
		if k.held != nil {
			st.OperatorHolds++
		}
	}
}

// countLetters counts the dead letters, and how old they and the open messages are.
func (s *state) countLetters(st *queue.StoreStatus, now time.Time) {
	for _, m := range s.open {
		st.OpenAges.Count(1, queue.Minute(m.came), now)
	}
	for _, m := range s.dead {
		if m.isQuarantined() {
			st.Quarantined++
		}
		if st.DeadByCode == nil {
			st.DeadByCode = map[queue.Code]int64{}
		}
		st.DeadByCode[m.letter.code]++
		if _, known := worth(m); !known {
			st.DeadUnvalued++
		}
		st.DeadAges.Count(1, queue.Minute(m.came), now)
	}
}

// worth is what a message's amount is worth without its sign. It knows nothing of
// minor units: it is a fraction, like every sum of them.
func worth(m *message) (*big.Rat, bool) {
	if _, err := queue.CheckAmount(m.Amount, m.Currency); err != nil {
		return nil, false
	}
	amount, ok := new(big.Rat).SetString(m.Amount)
	return amount.Abs(amount), ok
}

// atRisk sums up what waits, by currency.
func (s *state) atRisk() (out []queue.AtRisk) {
	sums := map[string]*[3]big.Rat{} // open, held, dead
	add := func(m *message, into ...int) {
		amount, known := worth(m)
		if !known || amount.Sign() == 0 {
			return
		}
		if sums[m.Currency] == nil {
			sums[m.Currency] = new([3]big.Rat)
		}
		for _, i := range into {
			sum := &sums[m.Currency][i]
			sum.Add(sum, amount)
		}
	}
	for _, m := range s.open {
		if s.stateOf(m) == queue.Held {
			add(m, 0, 1)
		} else {
			add(m, 0)
		}
	}
	for _, m := range s.dead {
		add(m, 2)
	}
	for _, code := range slices.Sorted(maps.Keys(sums)) {
		minor, _ := queue.MinorUnits(code)
		of := sums[code]
		out = append(out, queue.AtRisk{
			Currency: cmp.Or(code, queue.NoCurrency),
			Open:     of[0].FloatString(minor), Held: of[1].FloatString(minor), Dead: of[2].FloatString(minor), // exact
		})
	}
	return out
}

// oldest returns of each route the claimable head with the smallest place.
func (s *state) oldest() []queue.OldestReady {
	var out []queue.OldestReady
	for _, route := range queue.Routes {
		var first *message
		for _, k := range s.keys {
			if k.filed && k.route == route && (first == nil || k.order[0].place.Less(first.place)) {
				first = k.order[0]
			}
		}
		if first != nil {
			out = append(out, queue.OldestReady{Route: route, AcceptedAt: first.acceptedAt, Message: first.Summary()})
		}
	}
	return out
}

// Exception returns one message. One that has ended is derived from its records.
func (s *Store) Exception(ctx context.Context, seq uint64) (queue.Exception, error) {
	var x queue.Exception
	found, given := false, false
	err := s.read(ctx, func() {
		given = seq > 0 && seq <= s.lastSeq
		m := s.open[seq]
		if m == nil {
			m = s.dead[seq]
		}
		if m != nil {
			x, found = s.exception(m), true
		}
	})
	if err != nil || found {
		return x, err
	}
	if !given {
		return x, queue.ErrNotFound
	}
	err = s.Trail(ctx, queue.TrailQuery{Seq: seq}, func(r queue.Record) bool {
		if r.Seq == seq { // not a conflict with it, nor a list that names it
			x.Fold(&r)
		}
		return true
	})
	if err == nil && x.Seq == 0 {
		err = queue.ErrTrimmed
	}
	return x, err
}

// exception shows a message that is open or dead.
func (s *state) exception(m *message) queue.Exception {
	x := queue.Exception{
		Stored: ownStored(m.Stored), State: s.stateOf(m), Place: m.place,
		Route: m.route, Priority: m.priority, NotBefore: m.notBefore, AcceptedAt: m.acceptedAt,
		LineBytes: m.lineBytes, LineHash: m.lineHash, Deaths: m.deaths,
		Deliveries: m.deliveries, FailedAttempts: m.failed, Unanswered: m.unanswered,
	}
	if m.sent != nil {
		x.Sent, x.EditedHash = bytes.Clone(m.sent), m.content().LineHash
	}
	switch x.State {
	case queue.Leased:
		x.Owner, x.Deadline = m.lease.owner.Name, m.lease.deadline
	case queue.Scheduled:
		x.DueAt = m.notBefore
	case queue.Held:
		k := s.keys[m.PartitionKey]
		x.HeldBy = strings.Join(k.reasons(), "; ")
		if k.wait != nil {
			x.DueAt = k.wait.due
		}
	case queue.Dead:
		x.Code, x.Reason, x.Field = m.letter.code, m.letter.reason, m.letter.field
		x.Of, x.DeadAt = m.letter.of, m.letter.at
	}
	return x
}

// reasons says in words why the key waits.
func (k *key) reasons() []string {
	var out []string
	if k.held != nil {
		out = append(out, "an operator holds its key")
	}
	if k.blocking > 0 {
		out = append(out, "a dead letter holds its key")
	}
	if k.wait != nil && k.wait.backoff {
		out = append(out, "its key waits before the next attempt")
	} else if k.wait != nil {
		out = append(out, "a handler holds its key until a time")
	}
	return out
}

// Find returns the seq of the message that used an idempotency key.
func (s *Store) Find(ctx context.Context, idempotencyKey string) (uint64, error) {
	var seq uint64
	err := s.read(ctx, func() {
		if e := s.ledger[idempotencyKey]; e != nil {
			seq = e.first.Seq
		}
	})
	if err == nil && seq == 0 {
		err = queue.ErrNotFound
	}
	return seq, err
}

// Exceptions lists open messages by seq.
func (s *Store) Exceptions(ctx context.Context, after uint64, limit int) ([]queue.Exception, error) {
	return s.list(ctx, func() map[uint64]*message { return s.open }, after, limit)
}

// DeadLetters lists dead letters in the order of their ranks.
func (s *Store) DeadLetters(ctx context.Context, q queue.LetterQuery) (queue.LetterPage, error) {
	var page queue.LetterPage
	err := s.read(ctx, func() {
		var all []queue.Exception
		for _, m := range s.dead {
			if x := s.exception(m); q.Matches(&x) && q.After.Less(x.Rank()) {
				all = append(all, x)
			}
		}
		slices.SortFunc(all, func(a, b queue.Exception) int { return a.Rank().Compare(b.Rank()) })
		page.Letters = all[:min(len(all), q.Limit)]
		if n := len(page.Letters); n > 0 && n < len(all) {
			page.Next = page.Letters[n-1].Rank()
		}
		for i := range page.Letters {
			if q.NoLines {
				page.Letters[i].Line, page.Letters[i].Sent = nil, nil
			}
		}
	})
	return page, err
}

func (s *Store) list(ctx context.Context, of func() map[uint64]*message, after uint64, limit int) ([]queue.Exception, error) {
	var out []queue.Exception
	err := s.read(ctx, func() {
		var seqs []uint64
		for seq := range of() {
			if seq > after {
				seqs = append(seqs, seq)
			}
		}
		slices.Sort(seqs)
		for _, seq := range seqs[:max(0, min(len(seqs), limit))] {
			out = append(out, s.exception(of()[seq]))
		}
	})
	return out, err
}

// Leases lists what somebody holds, by seq.
func (s *Store) Leases(ctx context.Context, after uint64, limit int) ([]queue.Lease, error) {
	var out []queue.Lease
	err := s.read(ctx, func() {
		held := slices.DeleteFunc(s.leased(), func(m *message) bool { return m.Seq <= after })
		slices.SortFunc(held, func(a, b *message) int { return cmp.Compare(a.Seq, b.Seq) })
		for _, m := range held[:max(0, min(len(held), limit))] {
			st := ownStored(m.Stored)
			st.Line = nil
			out = append(out, queue.Lease{
				Token: m.token(), Owner: ownOwner(m.lease.owner), Route: m.route, Number: m.deliveries,
				Since: m.lease.deadline.Add(-m.lease.length), Deadline: m.lease.deadline, Message: st,
			})
		}
	})
	return out, err
}

// Trail calls fn for the records that q selects. Blocks never change once they
// are written, so fn runs with nothing locked.
func (s *Store) Trail(ctx context.Context, q queue.TrailQuery, fn func(queue.Record) bool) error {
	var blocks []queue.Block
	if err := s.read(ctx, func() { blocks = slices.Clone(s.blocks) }); err != nil {
		return err
	}
	for _, b := range blocks {
		if err := ctx.Err(); err != nil {
			return err
		}
		if b.LastN() <= q.AfterN {
			continue
		}
		for r, err := range b.Records() {
			if err != nil {
				return err
			}
			if q.Matches(&r) && !fn(r) {
				return nil
			}
		}
	}
	return nil
}

// Head returns the chain's present head.
func (s *Store) Head(ctx context.Context) (queue.Head, error) {
	var h queue.Head
	err := s.read(ctx, func() { h = s.head() })
	return h, err
}
