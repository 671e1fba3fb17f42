package memstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"time"

	"breakwater/queue"
)

// Keys lists partition keys by state, then by name. A page's Next is the state and the
// name that it ends with.
func (s *Store) Keys(ctx context.Context, q queue.KeyQuery) (page queue.KeyPage, err error) {
	after, from := queue.KeyState(0), ""
	if q.After != "" {
		state, name, ok := strings.Cut(q.After, " ")
		if after, _ = queue.ParseKeyState(state); !ok || after == 0 || q.State != 0 && after != q.State {
			return page, queue.ErrNoPage
		}
		from = name
	}
	err = s.read(ctx, func() {
		page.Paused = s.pause()
		for _, state := range queue.KeyStates {
			for _, name := range slices.Sorted(maps.Keys(s.keys)) {
				switch {
				case s.keys[name].state() != state || q.State != 0 && state != q.State:
				case state < after || state == after && name <= from:
				case len(page.Keys) >= q.Limit:
					return
				default:
					page.Keys = append(page.Keys, s.describe(name, q.Now))
					page.Next = state.String() + " " + name
				}
			}
		}
		page.Next = ""
	})
	return page, err
}

// state is what becomes of the key at the moment.
func (k *key) state() queue.KeyState {
	switch {
	case k.blocking > 0:
		return queue.KeyBlocked
	case k.waits():
		return queue.KeyHeld
	case k.leased():
		return queue.KeyBusy
	}
	return queue.KeyReady
}

// describe shows a key.
func (s *state) describe(name string, now time.Time) queue.Key {
	k := s.keys[name]
	out := queue.Key{Name: name, State: k.state(), Open: int64(len(k.order)), Worth: amounts(k.order)}
	for _, m := range k.order {
		if m.lease == nil {
			continue
		}
		if out.Leased++; out.Holder == nil {
			out.Holder = &queue.KeyHolder{Owner: m.lease.owner, Seq: m.Seq, Deadline: m.lease.deadline}
		}
	}
	if len(k.order) > 0 {
		first := k.order[0]
		out.First, out.AcceptedAt, out.Route, out.Priority = first.Seq, first.acceptedAt, first.route, first.priority
	}
	for _, m := range s.dead {
		if !m.letter.blocks || m.PartitionKey != name {
			continue
		}
		if out.Letter == nil || m.Seq < out.Letter.Seq {
			out.Letter = &queue.KeyLetter{Seq: m.Seq, Code: m.letter.code, Reason: m.letter.reason, DeadAt: m.letter.at}
		}
		out.Letter.Count = k.blocking
	}
	if k.held != nil {
		hold := *k.held
		out.Hold = &hold
	}
	if w := k.wait; w != nil {
		out.Wait = &queue.KeyWait{Seq: w.seq, Until: w.due, Retry: w.backoff}
		if w.backoff {
			out.Wait.Failed = s.open[w.seq].failed
		}
	}
	if a := k.aside; a != nil && now.Before(a.until) {
		out.Aside = &queue.KeyAside{Owner: a.owner, Until: a.until}
	}
	return out
}

// amounts sums up what messages are worth, by currency.
func amounts(messages []*message) (out []queue.Amounts) {
	sums := map[string]*big.Rat{}
	for _, m := range messages {
		if amount, known := worth(m); known && amount.Sign() != 0 {
			if sums[m.Currency] == nil {
				sums[m.Currency] = new(big.Rat)
			}
			sums[m.Currency].Add(sums[m.Currency], amount)
		}
	}
	for _, code := range slices.Sorted(maps.Keys(sums)) {
		minor, _ := queue.MinorUnits(code)
		out = append(out, queue.Amounts{Currency: cmp.Or(code, queue.NoCurrency), Sum: sums[code].FloatString(minor)})
	}
	return out
}

// Why says what is known of why a message or a key does not run.
func (s *Store) Why(ctx context.Context, q queue.WhyQuery) (st queue.Standing, err error) {
	if q.Seq != 0 {
		x, err := s.Exception(ctx, q.Seq)
		if err != nil {
			return st, err
		}
		x.Line, x.Sent = nil, nil
		st.Exception = &x
	}
	found := false
	if readErr := s.read(ctx, func() { found = s.why(&q, &st) }); readErr != nil {
		return queue.Standing{}, readErr
	}
	if !found {
		return queue.Standing{}, fmt.Errorf("partition key: %w", queue.ErrNotFound)
	}
	return st, nil
}

// pause is who paused the claims, as it may be handed out; nil: they go on.
func (s *state) pause() *queue.Pause {
	if s.paused == nil {
		return nil
	}
	p := *s.paused
	return &p
}

func (s *state) why(q *queue.WhyQuery, st *queue.Standing) (found bool) {
	st.Paused = s.pause()
	name := q.Key
	if x := st.Exception; x != nil {
		if x.State == queue.Done || x.State == queue.Discarded {
			return true
		}
		name = x.PartitionKey
	}
	if s.keys[name] != nil {
		k := s.describe(name, q.Now)
		st.Key, st.Ahead = &k, s.ahead(s.keys[name])
		return true
	}
	if st.Exception != nil {
		return true
	}
	for _, m := range s.scheduled() {
		if m.PartitionKey == name {
			st.Due = &queue.KeyDue{Seq: m.Seq, Time: m.notBefore}
			return true
		}
	}
	return false
}

// ahead counts the keys of its route that are claimed before a key.
func (s *state) ahead(k *key) (n int) {
	if !k.filed {
		return 0
	}
	for _, o := range s.keys {
		if o.filed && o.route == k.route && (o.priority < k.priority || o.priority == k.priority && o.turn < k.turn) {
			n++
		}
	}
	return n
}
