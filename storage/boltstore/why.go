package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"

	"breakwater/queue"
)

const (
	// maxKeysAhead bounds the keys that are counted before one that waits its turn.
	maxKeysAhead = 10_000
	// maxDueLooked bounds the scheduled messages that are looked through for one key.
	maxDueLooked = 10_000
)

// Why says what a store knows of why something does not run; see [queue.Reader].
func (s *Store) Why(ctx context.Context, q queue.WhyQuery) (st queue.Standing, err error) {
	gone := false
	err = s.look(ctx, func(x *txn) error {
		st = queue.Standing{}
		hash := hashKey(s.secret, q.Key)
		if q.Seq != 0 {
			var e queue.Exception
			if e, gone, err = x.lookUp(q.Seq); err != nil {
				return err
			}
			e.Line, e.Sent = nil, nil
			st.Exception, hash = &e, hashKey(s.secret, e.PartitionKey)
		}
		return x.why(&q, hash, gone, &st)
	})
	if err == nil && gone {
		var e queue.Exception
		e, err = s.settled(ctx, q.Seq)
		st.Exception = &e
	}
	if err != nil {
		return queue.Standing{}, err
	}
	return st, nil
}

func (x *txn) why(q *queue.WhyQuery, hash keyHash, gone bool, st *queue.Standing) error {
	st.Paused = x.t.paused()
	if gone {
		return nil
	}
	k := x.t.keys.get(hash)
	if k == nil {
		if st.Exception == nil {
			if st.Due = x.dueOf(hash); st.Due == nil {
				return queue.ErrNotFound
			}
		}
		return nil
	}
	l := keyLister{txn: x, now: q.Now}
	about := l.describe(k)
	if about.Name == "" { // it could not be read, but it was said
		about.Name = q.Key
	}
	st.Key = &about
	st.Ahead, st.AheadMore = x.t.ahead(k)
	return nil
}

// paused is who paused the claims, as it may be handed out; nil: they go on.
func (t *tables) paused() *queue.Pause {
	if t.pause == nil {
		return nil
	}
	p := *t.pause
	return &p
}

// ahead counts the keys of a key's route that are claimed before it: those with a more
// urgent head, and of the same priority those that have waited longer. There are none
// for a key that cannot be claimed, and more for one that the walk has not come to.
func (t *tables) ahead(k *key) (n int, more bool) {
	if k.list == nil {
		return 0, k.state() == queue.KeyReady
	}
	for p := 0; p <= int(k.class.priority); p++ {
		shelf := &t.ready[k.class.route][p]
		for slot := range shelf.some.From(0) {
			for o := shelf.lists[slot].first; o != nil; o = o.next {
				if p == int(k.class.priority) && o.turn >= k.turn {
					break
				}
				if n == maxKeysAhead {
					return n, true
				}
				n++
			}
		}
	}
	return n, false
}

// dueOf returns the soonest message of a key among those that are scheduled, nil if it
// is not among those that fall due first.
func (x *txn) dueOf(hash keyHash) *queue.KeyDue {
	c := x.b.scheduled.Cursor()
	looked := 0
	for at, rec := c.First(); at != nil && looked < maxDueLooked; at, rec = c.Next() {
		looked++
		if len(at) == 16 && len(rec) >= recordHeader && bytes.Equal(rec[offKey:offKey+len(hash)], hash[:]) {
			return &queue.KeyDue{Seq: binary.BigEndian.Uint64(at[8:]), Time: scheduledFor(at)}
		}
	}
	return nil
}
