package storetest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"breakwater/queue"
)

// Of the reads, and of the store as a whole.
var readPromises = []promise{
	{"the_counters_follow_every_message", func(w *world) {
		counts := func(want string) { w.Helper(); equal(w, "status", statusText(w.status()), want) }
		counts("")
		w.given("a1@A", "a2@A", "b1@B", "s1@S not_before=+1h")
		counts("ready=3 scheduled=1 open_keys=2 ledger=4")
		ds := w.take(worker("w"), "a1 b1")
		counts("ready=1 scheduled=1 leased=2 open_keys=2 ledger=4")
		w.fail(worker("w"), ds[0])
		counts("scheduled=1 leased=1 held=2 open_keys=2 held_keys=1 ledger=4")
		w.reject(worker("w"), ds[1])
		counts("scheduled=1 held=2 dead=1 open_keys=1 held_keys=1 ledger=4")
		w.pass(time.Minute)
		counts("scheduled=1 held=2 dead=1 open_keys=1 held_keys=1 ledger=4")
		ds = w.takeRun(worker("w"), "a1 a2")
		counts("scheduled=1 leased=2 dead=1 open_keys=1 ledger=4")
		w.ack(worker("w"), ds...)
		w.pass(time.Hour)
		w.ack(worker("w"), w.take(worker("w"), "s1")...)
		counts("done=3 dead=1 ledger=4")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{3}))
		counts("ready=1 done=3 open_keys=1 ledger=4")
		w.reopen()
		counts("ready=1 done=3 open_keys=1 ledger=4")
	}},
	{"the_counters_survive_a_crash", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "b2@B", "c1@C", "d1@D", "e1@E", "s1@S not_before=+1h")
		w.admit("!{}", "a1@A amount=1")
		ds := w.take(consumer("ui"), "a1 b1 c1 d1 e1")
		w.fail(consumer("ui"), ds[0])
		w.reject(consumer("ui"), ds[1])
		w.reject(consumer("ui"), ds[2])
		w.ack(consumer("ui"), ds[3])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{5}))
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A", "X"}))
		const want = "scheduled=1 leased=1 held=3 done=1 dead=3 discarded=1 quarantined=1 open_keys=3 held_keys=2 ledger=8"
		equal(w, "before", statusText(w.status()), want)
		w.crash()
		equal(w, "after", statusText(w.status()), want)
	}},
	{"the_status_names_head_records_and_last_seq", func(w *world) {
		w.given("a1@A", "a2@A")
		st := w.status()
		equal(w, "numbers", [2]uint64{st.LastSeq, st.Records}, [2]uint64{2, 3})
		equal(w, "head", st.Head, w.head())
	}},
	{"the_oldest_claimable_message_of_each_route_is_named", func(w *world) {
		oldest := func(want string) {
			w.Helper()
			got := ""
			for _, o := range w.status().Oldest {
				got += fmt.Sprintf("%s %s %s;", o.Route, o.Message.TraceID, w.now().Sub(o.AcceptedAt))
			}
			equal(w, "oldest", got, want)
		}
		oldest("")
		w.given("a1@A", "b1@B route=auto")
		w.pass(time.Second)
		w.given("a2@A", "c1@C")
		oldest("AUTO_RESOLVE t-b1 1s;ROUTE_REVIEW t-a1 1s;")
		ds := w.take(worker("w"), "a1 b1 c1")
		oldest("")
		w.applied(w.answer(ds[2], worker("w"), queue.Release))
		oldest("ROUTE_REVIEW t-c1 0s;")
		w.fail(worker("w"), ds[0])
		oldest("ROUTE_REVIEW t-c1 0s;") // A waits
		w.pass(time.Minute)
		w.ack(worker("w"), w.take(worker("w"), "c1 a1")[1])
		oldest("ROUTE_REVIEW t-a2 1m0s;")
	}},
	{"lists_are_paged_by_seq", func(w *world) {
		var specs []string
		for i := range 20 {
			specs = append(specs, fmt.Sprintf("a%d@A%d", i+1, i%3))
		}
		w.given(specs...)
		w.admit("!{}", "!{ }")
		list := func(after uint64, limit int) (seqs []uint64) {
			page, err := w.store.Exceptions(w.ctx, after, limit)
			w.ok(err, "list")
			for _, x := range page {
				seqs = append(seqs, x.Seq)
			}
			return seqs
		}
		equal(w, "first", list(0, 3), []uint64{1, 2, 3})
		equal(w, "next", list(3, 3), []uint64{4, 5, 6})
		equal(w, "last", list(18, 3), []uint64{19, 20})
		equal(w, "beyond", len(list(22, 3)), 0)
		equal(w, "no limit is none", len(list(0, 0)), 0)
		equal(w, "letters", len(w.letters(queue.LetterQuery{})), 2)
		w.ack(worker("w"), w.claim(wants(worker("w")))...)
		equal(w, "after settlements", list(0, 3), []uint64{4, 5, 6})
	}},
	{"a_list_shows_what_a_look_shows", func(w *world) {
		w.given("a1@A", "b1@B", "b2@B", "c1@C", "s1@S not_before=+1h")
		ds := w.take(consumer("ui"), "a1 b1 c1")
		w.fail(consumer("ui"), ds[1])
		w.reject(consumer("ui"), ds[2])
		w.admit("!{}")
		for _, x := range append(w.all(w.store.Exceptions), w.letters(queue.LetterQuery{})...) {
			equal(w, "shown", x, w.look(x.Seq))
		}
	}},
	{"why_a_message_is_held_is_said_in_words", func(w *world) {
		w.given("a1@A", "b1@B", "b2@B", "c1@C", "d1@D")
		ds := w.take(worker("w"), "a1 b1 c1 d1")
		w.fail(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		hold := w.answer(ds[2], worker("w"), queue.Hold)
		hold.Until = w.now().Add(time.Hour)
		w.applied(hold, w.answer(ds[3], worker("w"), queue.Release))
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"D"}))
		words := map[string]bool{}
		for _, id := range []string{"a1", "b2", "c1", "d1"} {
			words[w.see(id).HeldBy] = true
		}
		if len(words) != 4 || words[""] {
			w.Fatalf("four reasons are said as %v", words)
		}
	}},
	{"what_was_never_stored_is_not_found", func(w *world) {
		w.given("a1@A")
		w.admit(`!{"idempotency_key":"q1"}`)
		for _, seq := range []uint64{0, 3, 1 << 62} {
			if _, err := w.store.Exception(w.ctx, seq); !errors.Is(err, queue.ErrNotFound) {
				w.Fatalf("exception %d: %v", seq, err)
			}
		}
		for _, id := range []string{"", "b1", "q1"} {
			if _, err := w.store.Find(w.ctx, id); !errors.Is(err, queue.ErrNotFound) {
				w.Fatalf("find %q: %v", id, err)
			}
		}
	}},
	{"a_caller_that_has_gone_is_not_served", func(w *world) {
		ctx, cancel := context.WithCancel(w.ctx)
		cancel()
		mark := w.mark()
		if _, err := w.store.Admit(ctx, queue.AdmitRequest{Now: w.now(), Lines: w.lines("a1@A")}); !errors.Is(err, context.Canceled) {
			w.Fatalf("got %v", err)
		}
		w.since(mark)
	}},
	{"a_closed_store_refuses_everything", func(w *world) {
		w.given("a1@A")
		w.ok(w.store.Close(), "close")
		_, err := w.store.Admit(w.ctx, queue.AdmitRequest{Now: w.now(), Lines: w.lines("b1@B")})
		_, err2 := w.store.Claim(w.ctx, queue.ClaimRequest{Now: w.now(), Wants: []queue.Want{wants(worker("w"))}})
		_, err3 := w.store.Status(w.ctx, w.now())
		for i, err := range []error{err, err2, err3, w.store.Probe(w.ctx)} {
			if !errors.Is(err, queue.ErrClosed) {
				w.Fatalf("call %d: %v", i, err)
			}
		}
		w.ok(w.store.Close(), "close again")
		w.reopen()
		w.take(worker("w"), "a1")
	}},
}
