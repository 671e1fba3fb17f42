package boltstore

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// MaxPage bounds a page of any list.
const MaxPage = 1000

// look runs an operation that changes nothing: in the committer of a store that
// is written to, in the caller's goroutine on a copy.
func (s *Store) look(ctx context.Context, f func(x *txn) error) error {
	return s.do(ctx, &operation{read: true, apply: f})
}

// Status returns the counts; see [queue.Reader].
func (s *Store) Status(ctx context.Context, now time.Time) (st queue.StoreStatus, err error) {
	err = s.look(ctx, func(x *txn) error {
		st = s.counts(x)
		t := x.t
		st.AtRisk = atRisk(t.depth.worth, t.scheduledWorth, t.depth.heldWorth, t.deadWorth)
		st.OpenAges, st.DeadAges = t.openAges.ages(now), t.deadAges.ages(now)
		if len(t.byCode) > 0 {
			st.DeadByCode = maps.Clone(t.byCode)
		}
		st.Oldest, err = x.oldest()
		return err
	})
	return st, err
}

// counts are the parts of the status that need no look into the file.
func (s *Store) counts(x *txn) queue.StoreStatus {
	t := x.t
	return queue.StoreStatus{
		Ready: t.depth.ready(), Scheduled: t.scheduled, Leased: t.depth.leased, Held: t.depth.held,
		Done: t.count.done, Dead: t.dead, Discarded: t.count.discarded, Quarantined: t.quarantined,
		OpenKeys: t.depth.keys, HeldKeys: t.depth.heldKeys, LedgerKeys: t.count.remembered,
		BlockedKeys: t.depth.blockedKeys, OperatorHolds: t.depth.operatorHolds, DeadUnvalued: t.unvalued,
		LastSeq: t.count.lastSeq, Head: t.count.head, Records: t.count.lastN, Opening: t.opening, Origin: queue.Origin(s.id), Paused: t.paused(),
		Damaged: int64(len(t.standIns) + len(t.lostFlights) + len(t.strayed)), DamagedSegments: int64(len(t.ledger.Damaged())),
		ArchivedN: t.archived.N, ArchivedBlock: t.archived.Head.Block, ArchivedAt: t.archived.At,
		FileBytes: x.room.file, FreeBytes: x.room.inside, DiskFree: x.room.disk,
	}
}

// oldest finds the oldest claimable message of each route.
func (x *txn) oldest() (out []queue.OldestReady, err error) {
	for r, route := range queue.Routes {
		first := x.t.heads[r].first()
		if first.IsZero() {
			continue
		}
		_, rec, err := x.readableAt(first, x.b.backlog.Get(first.AppendKey(nil)))
		if err != nil {
			return nil, err
		}
		m, err := parseRecord(rec)
		if err != nil {
			return nil, fmt.Errorf("message at place %s: %w", first, err)
		}
		out = append(out, queue.OldestReady{Route: route, AcceptedAt: m.acceptedAt, Message: m.msg.Summary()})
	}
	return out, nil
}

// Head returns the trail's head; see [queue.Reader].
func (s *Store) Head(ctx context.Context) (h queue.Head, err error) {
	err = s.look(ctx, func(x *txn) error {
		h = x.t.count.head
		return nil
	})
	return h, err
}

// Find returns the seq of an idempotency key; see [queue.Reader].
func (s *Store) Find(ctx context.Context, idempotencyKey string) (seq uint64, err error) {
	err = s.look(ctx, func(x *txn) error {
		e, err := x.recall(ledger.KeyOf(s.secret, idempotencyKey))
		if err == nil && !x.t.taken(e) {
			return queue.ErrNotFound
		}
		seq = e.Seq
		return err
	})
	return seq, err
}

// Exception returns one message; see [queue.Reader].
func (s *Store) Exception(ctx context.Context, seq uint64) (e queue.Exception, err error) {
	gone := false
	err = s.look(ctx, func(x *txn) (err error) {
		e, gone, err = x.lookUp(seq)
		return err
	})
	if err == nil && gone {
		e, err = s.settled(ctx, seq)
	}
	if err != nil {
		return queue.Exception{}, err
	}
	return e, nil
}

// lookUp reads a message that is open or dead; gone says that it is neither.
func (x *txn) lookUp(seq uint64) (e queue.Exception, gone bool, err error) {
	if seq == 0 || seq > x.t.count.lastSeq {
		return e, false, queue.ErrNotFound
	}
	d, ok, err := x.letter(seq)
	if err != nil {
		return e, false, err
	}
	if ok {
		e, err = d.exception()
		return e, false, err
	}
	at, rec := x.locate(seq)
	if rec == nil {
		return e, true, nil
	}
	e, err = x.exception(seq, at, rec)
	return e, false, err
}

// settled derives a message that is not stored any more from its records.
func (s *Store) settled(ctx context.Context, seq uint64) (e queue.Exception, err error) {
	err = s.Trail(ctx, queue.TrailQuery{Seq: seq}, func(r queue.Record) bool {
		if r.Seq == seq {
			e.Fold(&r)
		}
		// What comes after its end tells of answers that changed nothing.
		return e.State != queue.Done && e.State != queue.Discarded && ctx.Err() == nil
	})
	if err == nil && e.Seq == 0 {
		err = queue.ErrTrimmed
	}
	return e, err
}

// locate returns the key in bucket backlog (nil while it is scheduled) and the
// record of an open message; no record: it is not open.
func (x *txn) locate(seq uint64) (at, rec []byte) {
	timed := x.b.timed.Get(seqKey(seq))
	switch {
	case timed == nil:
		at = seqKey(seq)
		return at, x.b.backlog.Get(at)
	case timed[0] == timedPlaced:
		return timed[1:], x.b.backlog.Get(timed[1:])
	}
	return nil, x.b.scheduled.Get(timed[1:])
}

// openState is the state of an open message.
func (x *txn) openState(seq uint64) (queue.State, error) {
	if f := x.t.flights[seq]; f != nil && f.leased() {
		return queue.Leased, nil
	}
	at, rec := x.locate(seq)
	rec, err := x.readable(seq, rec)
	if err != nil {
		return 0, fmt.Errorf("message %d: %w", seq, err)
	}
	h, err := parseHeader(rec)
	if err != nil {
		return 0, err
	}
	if at == nil {
		return queue.Scheduled, nil
	}
	if k := x.t.keys.get(h.key); k != nil && k.held() {
		return queue.Held, nil
	}
	return queue.Ready, nil
}

// exception describes an open message; of one that cannot be read, what the trail
// says of it.
func (x *txn) exception(seq uint64, at, rec []byte) (e queue.Exception, err error) {
	in, err := x.readable(seq, rec)
	if err != nil {
		return e, err
	}
	m, err := parseRecord(in)
	if err != nil {
		return e, err
	}
	e = m.exception()
	if s, damaged := x.t.standIns[seq]; damaged {
		e.LineBytes, e.LineHash = s.told.LineBytes, s.told.LineHash
		defer func() {
			if e.HeldBy = damagedBytes(seq); e.State == queue.Ready {
				e.State = queue.Held
			}
		}()
	}
	if at == nil {
		e.State, e.DueAt = queue.Scheduled, m.notBefore
		return e, nil
	}
	e.Place, _ = queue.ParsePlaceKey(at)
	e.State = queue.Ready
	f, k := x.t.flights[m.msg.Seq], x.t.keys.get(m.key)
	if f != nil {
		e.Deliveries, e.FailedAttempts, e.Unanswered = f.deliveries, f.failed, f.unanswered
	}
	switch {
	case f != nil && f.leased():
		e.State, e.Owner, e.Deadline = queue.Leased, f.owner.Name, wall(f.deadline)
	case k != nil && k.held():
		e.State = queue.Held
		x.whyHeld(&e, k)
	}
	return e, nil
}

// wall is a moment as people see it: UTC, without a monotonic reading.
func wall(m moment) time.Time { return m.Round(0).UTC() }

// whyHeld says in words what a key waits for.
func (x *txn) whyHeld(e *queue.Exception, k *key) {
	if k.wait != nil {
		e.DueAt = wall(k.wait.until)
	}
	switch {
	case k.damaged != 0:
		e.HeldBy = damagedBytes(k.damaged)
	case len(k.blockers) > 0:
		e.HeldBy = fmt.Sprintf("dead letter %d", slices.Min(k.blockers))
	case k.opHold:
		e.HeldBy = "an operator"
	case k.wait.wall:
		e.HeldBy = fmt.Sprintf("hold of seq %d", k.wait.seq)
	default:
		e.HeldBy = fmt.Sprintf("retry of seq %d", k.wait.seq)
	}
}

// exception is the part of a description that a record alone gives.
func (m *record) exception() queue.Exception {
	sent := m.sent()
	e := queue.Exception{
		Stored: m.msg, Route: m.route, Priority: m.priority, NotBefore: m.notBefore, AcceptedAt: m.acceptedAt,
		LineBytes: sent.bytes, LineHash: sent.hash, Deaths: m.past.returns, Unanswered: m.past.unanswered,
	}
	if m.past.edited {
		e.Sent, e.EditedHash = sent.line, queue.LineHash(m.msg.Line)
	}
	return e
}

// exception describes a dead letter.
func (d *deadLetter) exception() (e queue.Exception, err error) {
	m, err := parseRecord(d.record)
	if err != nil {
		return e, fmt.Errorf("dead letter %d: %w", d.seq, err)
	}
	e = m.exception()
	if !d.ordered() {
		e.AcceptedAt = time.Time{}
	}
	e.State, e.Place = queue.Dead, d.place()
	e.LineBytes, e.LineHash = d.meta.LineBytes, d.line
	e.Deaths++
	e.Code, e.Reason, e.Field, e.Of, e.DeadAt = d.meta.Code, d.meta.Reason, d.meta.Field, d.meta.Of, d.meta.DeadAt
	e.Deliveries, e.FailedAttempts, e.Unanswered = d.meta.Deliveries, d.meta.FailedAttempts, d.meta.Unanswered
	if d.damaged {
		e.HeldBy = damagedBytes(d.seq)
	}
	return e, nil
}

// Exceptions lists open messages by seq; see [queue.Reader]. Those with a place of
// their own seq lie in that order; scheduled ones are merged in by their seq.
func (s *Store) Exceptions(ctx context.Context, after uint64, limit int) (list []queue.Exception, err error) {
	limit = min(limit, MaxPage)
	err = s.look(ctx, func(x *txn) error {
		list = nil
		plain, timed := x.b.backlog.Cursor(), x.b.timed.Cursor()
		p, rec := nextPlain(plain, seqKey(after+1))
		q, _ := timed.Seek(seqKey(after + 1))
		for len(list) < limit && (p != nil || q != nil) {
			var at []byte
			if q == nil || (p != nil && binary.BigEndian.Uint64(p) < binary.BigEndian.Uint64(q)) {
				at = p
				e, err := x.exception(binary.BigEndian.Uint64(at), at, rec)
				if err != nil {
					return err
				}
				list = append(list, e)
				p, rec = nextPlain(plain, nil)
				continue
			}
			at, lies := x.locate(binary.BigEndian.Uint64(q))
			e, err := x.exception(binary.BigEndian.Uint64(q), at, lies)
			if err != nil {
				return err
			}
			list = append(list, e)
			q, _ = timed.Next()
		}
		return nil
	})
	return list, err
}

// nextPlain moves a cursor over the backlog to the next message whose place is its
// own seq; with a key it starts there.
func nextPlain(c *bolt.Cursor, from []byte) (at, rec []byte) {
	if from != nil {
		at, rec = c.Seek(from)
	} else {
		at, rec = c.Next()
	}
	for at != nil && len(at) != 8 {
		at, rec = c.Next()
	}
	return at, rec
}

// errStop ends a walk early.
var errStop = errors.New("stop")
