package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"breakwater/queue"
)

// Of what a store says of partition keys, and of why something does not run.
var keyPromises = []promise{
	{"each_key_is_in_one_state", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "b2@B", "c1@C", "d1@D", "d2@D", "e1@E", "s1@S not_before=+1h")
		ds := w.take(worker("w"), "a1 b1 c1 d1 e1")
		w.reject(worker("w"), ds[0])
		w.fail(worker("w"), ds[1])
		w.ack(worker("w"), ds[3], ds[4])
		w.given("e2@E")
		w.done(w.store.HoldKeys(w.ctx, w.operator("dispute"), []string{"D", "X"}))
		keysAre(w, 0, "A blocked 1", "B held 2", "C busy 1", "D held 1", "E ready 1", "X held 0")
		keysAre(w, queue.KeyBlocked, "A blocked 1")
		keysAre(w, queue.KeyHeld, "B held 2", "D held 1", "X held 0")
		keysAre(w, queue.KeyBusy, "C busy 1")
		keysAre(w, queue.KeyReady, "E ready 1")
		w.crash()
		keysAre(w, 0, "A blocked 1", "B held 2", "C ready 1", "D held 1", "E ready 1", "X held 0")
	}},
	{"a_key_that_is_leased_and_waits_is_held_or_blocked", func(w *world) {
		w.given("a1@A", "b1@B", "b2@B")
		w.take(worker("w"), "a1 b1")
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A"}))
		keysAre(w, 0, "A held 1", "B busy 2")
		equal(w, "leased", keyNamed(w, "A").Leased, 1)
	}},
	{"a_blocked_key_names_its_dead_letter", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A", "a4@A")
		ask := wants(worker("w"))
		ask.PerKey = 2
		ds := w.takeWant(ask, "a1 a2")
		w.reject(worker("w"), ds[1])
		w.pass(time.Second)
		w.reject(worker("w"), ds[0])
		l := keyNamed(w, "A").Letter
		equal(w, "letter", [4]any{l.Seq, l.Count, l.Code, l.Reason}, [4]any{uint64(1), 2, queue.CodeRejected, "no good"})
		equal(w, "dead since", l.DeadAt.Equal(w.now()), true)
		w.crash()
		l = keyNamed(w, "A").Letter
		equal(w, "after a crash", [2]any{l.Seq, l.Count}, [2]any{uint64(1), 2})
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{1}))
		equal(w, "the other", keyNamed(w, "A").Letter.Seq, 2)
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{2}))
		keysAre(w, 0, "A ready 2")
	}},
	{"a_key_that_is_blocked_and_has_no_messages_is_listed", func(w *world) {
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		keysAre(w, 0, "A blocked 0")
		k := keyNamed(w, "A")
		equal(w, "nothing is open", [2]any{k.First, len(k.Worth)}, [2]any{uint64(0), 0})
		w.reopen()
		keysAre(w, 0, "A blocked 0")
	}},
	{"a_held_key_names_who_holds_it_since_when_and_why", func(w *world) {
		since := w.now()
		w.done(w.store.HoldKeys(w.ctx, w.operator("dispute 17"), []string{"X"}))
		w.pass(time.Hour)
		w.done(w.store.HoldKeys(w.ctx, w.operator("again"), []string{"X"}))
		w.crash()
		h := keyNamed(w, "X").Hold
		equal(w, "hold", [3]any{h.By, h.Reason, h.Since.Equal(since)}, [3]any{"olga", "dispute 17", true})
	}},
	{"a_waiting_key_names_what_it_waits_for", func(w *world) {
		w.given("a1@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		res := w.fail(worker("w"), ds[0])
		hold := w.answer(ds[1], worker("w"), queue.Hold)
		hold.Until = w.now().Add(time.Hour)
		w.applied(hold)
		a, b := keyNamed(w, "A").Wait, keyNamed(w, "B").Wait
		equal(w, "retry", [4]any{a.Seq, a.Retry, a.Failed, a.Until.Equal(w.now().Add(res.Delay))}, [4]any{uint64(1), true, 1, true})
		equal(w, "hold", [4]any{b.Seq, b.Retry, b.Failed, b.Until.Equal(hold.Until)}, [4]any{uint64(2), false, 0, true})
	}},
	{"a_busy_key_names_who_holds_it_until_when", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A")
		ask := wants(consumer("ui"))
		ask.PerKey = 2
		w.takeWant(ask, "a1 a2")
		k := keyNamed(w, "A")
		equal(w, "counts", [2]int64{k.Open, k.Leased}, [2]int64{3, 2})
		equal(w, "holder", [3]any{k.Holder.Owner, k.Holder.Seq, k.Holder.Deadline.Equal(w.now().Add(leaseTime))}, [3]any{consumer("ui"), uint64(1), true})
	}},
	{"a_key_shows_the_first_of_its_order", func(w *world) {
		w.given("s1@A not_before=+10m", "a1@A priority=3")
		first := w.now()
		w.pass(time.Minute)
		w.given("a2@A route=auto")
		k := keyNamed(w, "A")
		equal(w, "first", [4]any{k.First, k.AcceptedAt.Equal(first), k.Route, k.Priority}, [4]any{uint64(2), true, queue.RouteReview, uint8(3)})
		d := w.take(worker("w"), "a1")[0]
		equal(w, "leased", keyNamed(w, "A").First, 2)
		w.ack(worker("w"), d)
		equal(w, "next", [2]any{keyNamed(w, "A").First, keyNamed(w, "A").Route}, [2]any{uint64(3), queue.AutoResolve})
	}},
	{"a_key_shows_what_its_messages_are_worth", func(w *world) {
		w.given("a1@A amount=-1.50", "a2@A amount=2.25", "a3@A amount=7 currency=JPY", "a4@A amount=0.00 currency=EUR", "b1@B amount=9.00", "s1@A amount=3.00 not_before=+1h")
		want := []queue.Amounts{{Currency: queue.NoCurrency, Sum: "3.75"}, {Currency: "JPY", Sum: "7"}}
		equal(w, "worth", keyNamed(w, "A").Worth, want)
		w.take(worker("w"), "a1 b1")
		equal(w, "of what is leased too", keyNamed(w, "A").Worth, want)
		w.crash()
		equal(w, "after a crash", keyNamed(w, "A").Worth, want)
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a2 a3 a4 b1")[:2]...)
		equal(w, "when two are done", keyNamed(w, "A").Worth, want[1:])
	}},
	{"a_key_is_kept_aside_from_who_put_it_back", func(w *world) {
		w.given("a1@A")
		release := w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Release)
		release.Aside = time.Minute
		w.applied(release)
		a := keyNamed(w, "A").Aside
		equal(w, "aside", [2]any{a.Owner, a.Until.Equal(w.now().Add(time.Minute))}, [2]any{worker("w"), true})
		w.pass(time.Minute)
		equal(w, "it is over", keyNamed(w, "A").Aside == nil, true)
	}},
	{"a_list_of_keys_is_read_in_pages", func(w *world) {
		var want []string
		for i := range 60 {
			w.given(fmt.Sprintf("k%d@K%02d", i, i))
			want = append(want, fmt.Sprintf("K%02d ready 1", i))
		}
		for i, d := range w.claim(wants(worker("w")))[:20] {
			if i < 10 {
				w.reject(worker("w"), d)
				want[i] = strings.Replace(want[i], "ready 1", "blocked 0", 1)
			} else {
				w.fail(worker("w"), d)
				want[i] = strings.Replace(want[i], "ready", "held", 1)
			}
		}
		for i := 20; i < 60; i++ {
			want[i] = strings.Replace(want[i], "ready", "busy", 1)
		}
		keysAre(w, 0, want...)
		keysAre(w, queue.KeyHeld, want[10:20]...)
		var order []queue.KeyState
		for _, k := range readKeys(w, 0, 7) {
			order = append(order, k.State)
		}
		equal(w, "those to look at come first", slices.IsSorted(order), true)
	}},
	{"a_page_of_keys_says_who_paused_the_claims", func(w *world) {
		w.given("a1@A")
		paused := func() *queue.Pause {
			page, err := w.store.Keys(w.ctx, queue.KeyQuery{Now: w.now(), Limit: 1})
			w.ok(err, "keys")
			return page.Paused
		}
		equal(w, "nobody did", paused() == nil, true)
		w.ok(w.store.Pause(w.ctx, w.operator("close")), "pause")
		p := paused()
		equal(w, "pause", [3]any{p.By, p.Reason, p.Since.Equal(w.now())}, [3]any{"olga", "close", true})
		w.crash()
		equal(w, "after a crash", paused().Reason, "close")
		w.ok(w.store.Resume(w.ctx, w.operator("")), "resume")
		equal(w, "it is over", paused() == nil, true)
	}},
	{"no_page_begins_where_none_has_ended", func(w *world) {
		w.given("a1@A", "b1@B")
		page, err := w.store.Keys(w.ctx, queue.KeyQuery{Now: w.now(), Limit: 1})
		w.ok(err, "keys")
		for _, q := range []queue.KeyQuery{
			{After: "x", Limit: 1}, {After: "1", Limit: 1}, {After: " ", Limit: 1}, {After: "-", Limit: 1}, {After: strings.Repeat("9", 999), Limit: 1},
			{After: page.Next, Limit: 1, State: queue.KeyBlocked},
		} {
			if _, err := w.store.Keys(w.ctx, q); !errors.Is(err, queue.ErrNoPage) {
				w.Fatalf("after %.20q: %v", q.After, err)
			}
		}
	}},
	{"operators_hold_so_many_keys_and_no_more", func(w *world) {
		names := make([]string, queue.MaxHeldKeys+1)
		for i := range names {
			names[i] = fmt.Sprintf("K%d", i)
		}
		res, err := w.store.HoldKeys(w.ctx, w.operator("all"), names)
		codes := w.codes(res, err)
		equal(w, "refused", [3]any{codes[0], codes[queue.MaxHeldKeys-1], codes[queue.MaxHeldKeys]}, [3]any{queue.Code(""), queue.Code(""), queue.CodeSaturated})
		equal(w, "one of them again", w.codes(w.store.HoldKeys(w.ctx, w.operator(""), names[:1])), []queue.Code{""})
		w.crash()
		equal(w, "after a crash", w.codes(w.store.HoldKeys(w.ctx, w.operator(""), names[queue.MaxHeldKeys:])), []queue.Code{queue.CodeSaturated})
		w.done(w.store.ReleaseKeys(w.ctx, w.operator(""), names[:1]))
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), names[queue.MaxHeldKeys:]))
		equal(w, "in all", w.status().OperatorHolds, queue.MaxHeldKeys)
	}},
	{"why_names_what_a_message_waits_for", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "b2@B", "c1@C", "d1@D", "s1@S not_before=+1h", "e1@E")
		w.admit("!{}")
		ds := w.take(consumer("ui"), "a1 b1 c1 d1 e1")
		w.reject(consumer("ui"), ds[0])
		w.fail(consumer("ui"), ds[1])
		w.ack(consumer("ui"), ds[3])
		w.done(w.store.HoldKeys(w.ctx, w.operator("dispute"), []string{"E"}))
		w.ok(w.store.Pause(w.ctx, w.operator("close")), "pause")
		for _, c := range []struct{ id, want string }{
			{"a1", "dead 1"}, {"a2", "blocked 1, paused"}, {"b1", "retry 3, paused"}, {"b2", "retry 3, behind 3, paused"},
			{"c1", "leased 5"}, {"d1", "settled 6"}, {"s1", "not_due 7, paused"}, {"e1", "leased 8"},
		} {
			equal(w, "why "+c.id, whyText(w, queue.WhyQuery{Seq: w.find(c.id)}), c.want)
		}
		equal(w, "why of a line that a gate refused", whyText(w, queue.WhyQuery{Seq: 9}), "dead 9")
		for _, c := range []struct{ key, want string }{
			{"A", "blocked 1, paused"}, {"B", "retry 3, paused"}, {"C", "leased 5, paused"}, {"E", "operator, leased 8, paused"}, {"S", "not_due 7"},
		} {
			equal(w, "why "+c.key, whyText(w, queue.WhyQuery{Key: c.key}), c.want)
		}
		for _, q := range []queue.WhyQuery{{Seq: 99}, {Key: "D"}, {Key: "nobody's"}, {}} {
			if _, err := w.store.Why(w.ctx, q); !errors.Is(err, queue.ErrNotFound) {
				w.Fatalf("why %+v: %v", q, err)
			}
		}
	}},
	{"why_counts_the_keys_that_come_first", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D priority=0", "e1@E route=auto", "f1@F", "f2@F")
		ahead := func(key string, want int) {
			w.Helper()
			st, err := w.store.Why(w.ctx, queue.WhyQuery{Now: w.now(), Key: key})
			w.ok(err, "why "+key)
			equal(w, "keys before "+key, [2]any{st.Ahead, st.AheadMore}, [2]any{want, false})
		}
		ahead("A", 1)
		ahead("C", 3)
		ahead("D", 0)
		ahead("E", 0)
		ahead("F", 4)
		equal(w, "next", whyText(w, queue.WhyQuery{Key: "F"}), "next")
		equal(w, "behind", whyText(w, queue.WhyQuery{Seq: w.find("f2")}), "behind 6")
		w.take(worker("w"), "d1 a1 b1 c1 e1 f1")
		ahead("A", 0)
	}},
}

// whyText spells the causes that a store knows of: their words, and the message that
// each is about where it is not the one that was asked about.
func whyText(w *world, q queue.WhyQuery) string {
	w.Helper()
	q.Now = w.now()
	st, err := w.store.Why(w.ctx, q)
	w.ok(err, "why")
	var parts []string
	for _, c := range st.Causes(&queue.Circumstances{}) {
		text := string(c.Reason)
		if c.Seq != 0 {
			text += fmt.Sprintf(" %d", c.Seq)
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// keysAre expects these keys in a list, by name: "A blocked 3" has three open messages.
func keysAre(w *world, state queue.KeyState, want ...string) {
	w.Helper()
	for _, limit := range []int{1, 3, 1000} {
		var got []string
		for _, k := range readKeys(w, state, limit) {
			got = append(got, fmt.Sprintf("%s %s %d", k.Name, k.State, k.Open))
		}
		slices.Sort(got)
		equal(w, fmt.Sprintf("keys, %d to a page", limit), got, want)
	}
}

func readKeys(w *world, state queue.KeyState, limit int) []queue.Key {
	w.Helper()
	all, err := keysOf(w.ctx, w.store, queue.KeyQuery{Now: w.now(), State: state, Limit: limit})
	w.ok(err, "keys")
	return all
}

// keyNamed returns one key of the list.
func keyNamed(w *world, name string) queue.Key {
	w.Helper()
	all := readKeys(w, 0, 1000)
	i := slices.IndexFunc(all, func(k queue.Key) bool { return k.Name == name })
	if i < 0 {
		w.Fatalf("there is no key %q", name)
	}
	return all[i]
}

// keysOf reads a list of keys to its end.
func keysOf(ctx context.Context, s queue.Reader, q queue.KeyQuery) (all []queue.Key, err error) {
	for {
		page, err := s.Keys(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(page.Keys) > q.Limit {
			return nil, fmt.Errorf("a page of %d keys, not %d", len(page.Keys), q.Limit)
		}
		if all = append(all, page.Keys...); page.Next == "" {
			return all, nil
		}
		q.After = page.Next
	}
}

// wrongKeys compares a list of keys with the lists of what is open and dead.
func wrongKeys(keys []queue.Key, open, dead []queue.Exception) (wrong []string) {
	type counted struct {
		open, leased int64
		first        queue.Exception
	}
	want := map[string]*counted{}
	of := func(name string) *counted {
		if want[name] == nil {
			want[name] = &counted{}
		}
		return want[name]
	}
	for _, x := range open {
		if x.State == queue.Scheduled {
			continue
		}
		c := of(x.PartitionKey)
		if c.open++; x.State == queue.Leased {
			c.leased++
		}
		if c.first.Seq == 0 || x.Place.Less(c.first.Place) {
			c.first = x
		}
	}
	seen := map[string]bool{}
	for _, k := range keys {
		c := of(k.Name)
		if seen[k.Name] || k.Name == "" {
			wrong = append(wrong, fmt.Sprintf("key %q is there twice, or has no name", k.Name))
		}
		seen[k.Name] = true
		if k.Open != c.open || k.Leased != c.leased || k.First != 0 && k.First != c.first.Seq {
			wrong = append(wrong, fmt.Sprintf("key %q has %d open, %d leased, %d first; the lists say %d, %d, %d",
				k.Name, k.Open, k.Leased, k.First, c.open, c.leased, c.first.Seq))
		}
		if k.First != 0 && (!k.AcceptedAt.Equal(c.first.AcceptedAt) || k.Route != c.first.Route) {
			wrong = append(wrong, fmt.Sprintf("key %q shows another first than seq %d", k.Name, c.first.Seq))
		}
		if l := k.Letter; l != nil && !slices.ContainsFunc(dead, func(x queue.Exception) bool { return x.Seq == l.Seq && x.PartitionKey == k.Name }) {
			wrong = append(wrong, fmt.Sprintf("key %q waits for %d, which is no dead letter of it", k.Name, l.Seq))
		}
	}
	for name := range want {
		if !seen[name] {
			wrong = append(wrong, fmt.Sprintf("key %q is missing", name))
		}
	}
	return wrong
}

// plainKeys is a list of keys without what need not be equal in two stores: their
// order within a state.
func plainKeys(keys []queue.Key) []queue.Key {
	out := each(keys, plainKey)
	slices.SortFunc(out, func(a, b queue.Key) int { return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Name, b.Name)) })
	return out
}

func plainKey(k queue.Key) queue.Key {
	k.AcceptedAt, k.Worth = wall(k.AcceptedAt), slices.Concat(k.Worth)
	if h := k.Holder; h != nil {
		k.Holder = &queue.KeyHolder{Owner: h.Owner, Seq: h.Seq, Deadline: wall(h.Deadline)}
	}
	if l := k.Letter; l != nil {
		letter := *l
		letter.DeadAt = wall(l.DeadAt)
		k.Letter = &letter
	}
	if h := k.Hold; h != nil {
		k.Hold = &queue.KeyHold{By: h.By, Reason: h.Reason, Since: wall(h.Since)}
	}
	k.Wait = plainWait(k.Wait)
	if a := k.Aside; a != nil {
		k.Aside = &queue.KeyAside{Owner: a.Owner, Until: wall(a.Until)}
	}
	return k
}

func plainWait(w *queue.KeyWait) *queue.KeyWait {
	if w == nil {
		return nil
	}
	wait := *w
	wait.Until = wall(w.Until)
	return &wait
}

func plainStanding(st queue.Standing) queue.Standing {
	if st.Exception != nil {
		x := plainException(*st.Exception)
		st.Exception = &x
	}
	if st.Key != nil {
		k := plainKey(*st.Key)
		st.Key = &k
	}
	if st.Due != nil {
		st.Due = &queue.KeyDue{Seq: st.Due.Seq, Time: wall(st.Due.Time)}
	}
	if p := st.Paused; p != nil {
		st.Paused = &queue.Pause{By: p.By, Since: wall(p.Since), Reason: p.Reason}
	}
	return st
}
