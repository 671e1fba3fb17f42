package boltstore

import (
	"context"
	"encoding/binary"
	"maps"
	"math/big"

	"breakwater/queue"
)

// reckoning is what the counters of money and age must say, counted anew from the
// records of a file that nobody writes to.
type reckoning struct {
	open, dead         sums
	openAges, deadAges ageing
	unvalued           int64
}

func newReckoning() *reckoning {
	return &reckoning{openAges: newAgeing(), deadAges: newAgeing()}
}

// message counts an open message in.
func (r *reckoning) message(m *record) {
	r.open.change(worthOf(m.msg.Amount, m.msg.Currency), 1)
	r.openAges.add(queue.Minute(m.acceptedAt), 1)
}

// letter counts a dead letter in.
func (r *reckoning) letter(m *record) {
	w := worthOf(m.msg.Amount, m.msg.Currency)
	if r.dead.change(w, 1); !w.known {
		r.unvalued++
	}
	r.deadAges.add(queue.Minute(m.acceptedAt), 1)
}

// verifyCounters counts anew what is at risk and how old it is, and compares it with
// the counters. What cannot be read is reported by whoever looks for damage.
func (s *Store) verifyCounters(ctx context.Context, v *queue.Verifier) error {
	r := newReckoning()
	for _, bucket := range [][]byte{bucketBacklog, bucketScheduled} {
		err := s.pages(ctx, bucket, func(_, rec []byte) {
			if m, err := parseRecord(rec); err == nil {
				r.message(&m)
			}
		})
		if err != nil {
			return err
		}
	}
	err := s.pages(ctx, bucketDead, func(at, b []byte) {
		d, err := parseDead(binary.BigEndian.Uint64(at), b)
		if err != nil {
			return
		}
		if m, err := parseRecord(d.record); err == nil {
			r.letter(&m)
		}
	})
	if err != nil {
		return err
	}
	return s.look(ctx, func(x *txn) error {
		r.compare(x.t, v)
		return nil
	})
}

// compare reports each counter that says something else.
func (r *reckoning) compare(t *tables, v *queue.Verifier) {
	var open sums
	open.each(t.depth.worth, 1)
	open.each(t.scheduledWorth, 1)
	for _, c := range [...]struct {
		what string
		same bool
	}{
		{"the amounts of open messages", sameSums(r.open, open)},
		{"the amounts of dead letters", sameSums(r.dead, t.deadWorth)},
		{"the number of dead letters without an amount", r.unvalued == t.unvalued},
		{"the ages of open messages", r.openAges.same(&t.openAges)},
		{"the ages of dead letters", r.deadAges.same(&t.deadAges)},
	} {
		if !c.same {
			v.Report(queue.Finding{What: "the counters differ from what is stored: " + c.what})
		}
	}
}

// sameSums takes one off the other: nothing must be left.
func sameSums(a, b sums) bool {
	var left sums
	left.each(a, 1)
	for i := range b {
		of := left.of(b[i].currency)
		*of = sum{currency: b[i].currency, wide: new(big.Int).Sub(of.total(), b[i].total())}
	}
	return left.empty()
}

// same reports whether two count alike. They may have begun to count minutes together
// at different moments: then only how many there are is compared.
func (a *ageing) same(b *ageing) bool {
	if a.before == 0 && b.before == 0 {
		return maps.Equal(a.minutes, b.minutes)
	}
	return a.all() == b.all()
}

func (a *ageing) all() int64 {
	n := a.old
	for _, m := range a.minutes {
		n += m
	}
	return n
}
