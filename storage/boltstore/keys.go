package boltstore

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"breakwater/queue"
)

// Bounds of one page of keys besides its limit: it is read in the committer, between
// two commits.
const (
	// maxKeysLooked is how many keys a page looks through for those that it wants.
	maxKeysLooked = 20_000
	// maxKeyBytes is how many bytes of records it reads.
	maxKeyBytes = 1 << 20
)

// keyPlace is where a list of keys goes on: in a state, behind a hash.
type keyPlace struct {
	state queue.KeyState
	hash  keyHash
}

// String is the place as it stands between two pages.
func (p keyPlace) String() string { return fmt.Sprintf("%d-%x", p.state, p.hash) }

// parseKeyPlace reads what String writes.
func parseKeyPlace(text string) (p keyPlace, err error) {
	state, hash, _ := strings.Cut(text, "-")
	n, err := strconv.Atoi(state)
	b, hexErr := hex.DecodeString(hash)
	if err != nil || hexErr != nil || len(b) != len(p.hash) || n < 1 || n > len(queue.KeyStates) {
		return p, queue.ErrNoPage
	}
	p = keyPlace{state: queue.KeyState(n), hash: keyHash(b)}
	if p.String() != text {
		return p, queue.ErrNoPage
	}
	return p, nil
}

// Keys lists partition keys; see [queue.Reader].
func (s *Store) Keys(ctx context.Context, q queue.KeyQuery) (page queue.KeyPage, err error) {
	at := keyPlace{state: queue.KeyStates[0]}
	if q.State != 0 {
		at.state = q.State
	}
	if q.After != "" {
		if at, err = parseKeyPlace(q.After); err != nil {
			return page, err
		}
	}
	if q.State != 0 && at.state != q.State {
		return page, queue.ErrNoPage
	}
	err = s.look(ctx, func(x *txn) error {
		l := keyLister{txn: x, now: q.Now, limit: max(0, min(q.Limit, MaxPage))}
		l.list(at, q.State)
		page = l.page
		page.Paused = x.t.paused()
		return nil
	})
	return page, err
}

// keyLister reads one page of keys, or one key.
type keyLister struct {
	*txn
	now    time.Time
	limit  int
	page   queue.KeyPage
	looked int                // keys
	read   int                // bytes
	leases map[*key][]*flight // nil: not collected yet
}

// list reads a page: state by state, row by row, those of a row in the order of their
// hashes.
func (l *keyLister) list(at keyPlace, only queue.KeyState) {
	t := &l.t.keys
	for {
		for row := rowOf(at.hash); row < keyRows; row++ {
			found := t.inRow(at.state, row, at.hash)
			for _, k := range found {
				if len(l.page.Keys) == l.limit || l.read >= maxKeyBytes {
					l.page.Next = at.String()
					return
				}
				l.page.Keys = append(l.page.Keys, l.describe(k))
				at.hash = k.hash
			}
			at.hash = lastOf(row)
			if len(found) > 0 {
				l.looked += len(t.rows[row])
			}
			if l.looked >= maxKeysLooked {
				l.page.Next = at.String()
				return
			}
		}
		if only != 0 || int(at.state) == len(queue.KeyStates) {
			return
		}
		at = keyPlace{state: at.state + 1}
	}
}

// describe shows a key. What of it cannot be read is left out: the others must be seen
// all the same.
func (l *keyLister) describe(k *key) queue.Key {
	out := queue.Key{
		State: k.state(), Open: int64(k.open), Leased: int64(k.leased), Damage: k.damaged, Worth: k.worth.amounts(),
	}
	l.head(k, &out)
	if len(k.blockers) > 0 {
		l.letter(k, &out)
	}
	if k.opHold {
		out.Name = l.t.holds[k.hash]
		out.Hold = l.hold(out.Name)
	}
	out.Wait = l.waitOf(k)
	if a := k.aside; a != nil && a.until.After(l.now) {
		out.Aside = &queue.KeyAside{Owner: a.owner, Until: wall(a.until)}
	}
	return out
}

// waitOf shows the time that a key waits for; nil: none.
func (x *txn) waitOf(k *key) *queue.KeyWait {
	w := k.wait
	if w == nil {
		return nil
	}
	out := &queue.KeyWait{Seq: w.seq, Until: wall(w.until), Retry: !w.wall}
	if f := x.t.flights[w.seq]; f != nil && !w.wall {
		out.Failed = f.failed
	}
	return out
}

// head shows the first message of a key, and who holds it.
func (l *keyLister) head(k *key, out *queue.Key) {
	at := queue.Place{}
	if len(k.window) > 0 {
		at = k.window[0].place
	} else if first := l.firstParked(k); !first.IsZero() && !l.t.beyond(first) {
		at = first
	}
	if held := l.held(k); len(held) > 0 {
		f := held[0]
		out.Holder = &queue.KeyHolder{Owner: f.owner, Seq: f.seq, Deadline: wall(f.deadline)}
		// With nothing at hand there may be earlier ones where the walk has not come to:
		// what was replayed before a lease that a consumer has kept.
		none := at.IsZero() && (k.open == k.leased || !l.t.beyond(f.ref.place))
		if none || !at.IsZero() && f.ref.place.Less(at) {
			out.Name, out.First, out.AcceptedAt = f.msg.PartitionKey, f.seq, f.acceptedAt
			out.Route, out.Priority = queue.Routes[f.ref.route], f.ref.priority
			return
		}
	}
	known := !at.IsZero()
	if !known && k.open > 0 {
		at = k.newest // of a key that the walk has not come to, it is open too
	}
	if at.IsZero() {
		return
	}
	rec := l.b.backlog.Get(at.AppendKey(nil))
	l.read += len(rec)
	_, rec, err := l.readableAt(at, rec)
	if err != nil {
		return
	}
	m, err := parseRecord(rec)
	if err != nil || m.key != k.hash {
		return
	}
	if out.Name = m.msg.PartitionKey; known {
		out.First, out.AcceptedAt, out.Route, out.Priority = m.msg.Seq, m.acceptedAt, m.route, m.priority
		if _, damaged := l.t.standIns[out.First]; damaged {
			out.Damage = out.First // which a claim need not have met yet
		}
	}
}

// held returns the leases of a key in the order of their places.
func (l *keyLister) held(k *key) []*flight {
	if k.leased == 0 {
		return nil
	}
	if l.leases == nil {
		l.leases = map[*key][]*flight{}
		for _, f := range l.txn.leases(func(*flight) bool { return true }) {
			l.leases[f.key] = append(l.leases[f.key], f)
		}
	}
	held := l.leases[k]
	slices.SortFunc(held, func(a, b *flight) int { return a.ref.place.Compare(b.ref.place) })
	return held
}

// letter shows the dead letter that a key waits for.
func (l *keyLister) letter(k *key, out *queue.Key) {
	seq := slices.Min(k.blockers)
	out.Letter = &queue.KeyLetter{Seq: seq, Count: len(k.blockers)}
	b := l.b.dead.Get(seqKey(seq))
	l.read += len(b)
	d, err := l.letterIn(seq, b)
	if err != nil {
		return
	}
	out.Letter.Code, out.Letter.Reason, out.Letter.DeadAt = d.meta.Code, d.meta.Reason, d.meta.DeadAt
	if m, err := parseRecord(d.record); err == nil {
		out.Name = m.msg.PartitionKey
	}
}

// hold shows an operator's hold.
func (l *keyLister) hold(name string) *queue.KeyHold {
	var h keyHold
	b := l.b.held.Get([]byte(name))
	l.read += len(b)
	_ = json.Unmarshal(b, &h) // that it is held is known without
	return &queue.KeyHold{By: h.By, Reason: h.Reason, Since: h.Since}
}

// amounts are what is in a purse, by currency.
func (p *purse) amounts() (out []queue.Amounts) {
	var s sums
	s.all(p, 1)
	slices.SortFunc(s, func(a, b sum) int { return slices.Compare(a.currency[:], b.currency[:]) })
	for i := range s {
		if total := s[i].total(); total.Sign() != 0 {
			name := s[i].currency.name()
			out = append(out, queue.Amounts{Currency: name, Sum: queue.WorthText(total, name)})
		}
	}
	return out
}
