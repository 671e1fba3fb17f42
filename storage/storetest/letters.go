package storetest

import (
	"bytes"
	"time"

	"breakwater/queue"
)

// Of Replay and Discard: what a person does with dead letters (P5, P8).
var letterPromises = []promise{
	{"a_replay_goes_back_to_its_own_place", func(w *world) {
		w.given("a1@A", "a2@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.given("a3@A")
		w.crash()
		mark := w.mark()
		w.done(w.store.Replay(w.ctx, w.operator("the rate is in"), []uint64{1}))
		w.since(mark, "REPLAYED a1")
		w.states("a1 ready", "a2 ready")
		equal(w, "status", statusText(w.status()), "ready=3 open_keys=1 ledger=3")
		w.takeRun(worker("w"), "a1 a2 a3")
	}},
	{"a_replay_begins_to_count_anew_but_for_what_nobody_answered", func(w *world) {
		w.given("a1@A")
		for range w.policy.MaxAttempts - 1 {
			w.fail(worker("w"), w.take(worker("w"), "a1")[0])
			w.pass(w.policy.RetryMax)
		}
		w.take(consumer("ui"), "a1")
		w.reclaimAfter(leaseTime)
		w.fail(worker("w"), w.take(worker("w"), "a1")[0])
		w.states("a1 dead")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		d := w.take(worker("w"), "a1")[0]
		equal(w, "counts", [3]any{d.Number, d.FailedAttempts, d.Redelivered}, [3]any{1, 0, true})
		equal(w, "not dead", w.fail(worker("w"), d).DeadCode, "")
	}},
	{"a_replay_is_recorded_with_who_and_why", func(w *world) {
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		a := w.operator("the rate is in")
		w.done(w.store.Replay(w.ctx, a, []uint64{1}))
		r := w.records(queue.TrailQuery{Event: queue.EventReplayed})[0]
		equal(w, "record", [5]any{r.Seq, r.TraceID, r.By, r.Reason, r.Peer}, [5]any{uint64(1), "t-a1", "olga", "the rate is in", a.Peer})
	}},
	{"a_replay_before_a_leased_message_waits_for_that_lease", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.given("a1@A", "a2@A", "a3@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		d := w.take(worker("w"), "a2")[0]
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.take(worker("w"), "")
		w.ack(worker("w"), d)
		w.takeRun(worker("w"), "a1 a3")
	}},
	{"a_replay_files_its_key_under_the_head_that_it_has_now", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.given("a1@A priority=9", "a2@A priority=0", "b1@B route=auto", "b2@B")
		for _, d := range w.take(worker("w"), "b1 a1") {
			w.reject(worker("w"), d)
		}
		w.given("c1@C")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1, 3}))
		review := wants(worker("w"))
		review.Routes = queue.RoutesOf(queue.RouteReview)
		w.takeWant(review, "c1 a1") // not b1, whose route it is not, nor b2 behind it
		w.take(worker("w"), "b1")
	}},
	{"a_replay_that_changes_nothing_for_its_key_keeps_its_turn", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.given("a1@A", "a2@A", "b1@B")
		one := wants(worker("w"))
		one.Max = 1
		w.reject(worker("w"), w.takeWant(one, "a1")[0])
		w.given("c1@C")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.take(worker("w"), "b1 a1 c1")
	}},
	{"a_replay_does_not_end_a_wait_of_its_key", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.given("a1@A", "a2@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.fail(worker("w"), w.take(worker("w"), "a2")[0])
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.take(worker("w"), "")
		w.states("a1 held")
		w.pass(time.Second)
		w.takeRun(worker("w"), "a1 a2")
	}},
	{"a_key_goes_on_when_its_last_dead_letter_is_gone", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A", "a4@A")
		ds := w.takeRun(worker("w"), "a1 a2 a3 a4")
		w.reject(worker("w"), ds[2])
		w.reject(worker("w"), ds[1])
		w.reject(worker("w"), ds[0])
		w.states("a1 dead", "a2 dead", "a3 dead", "a4 held")
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{2}))
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{3}))
		w.take(worker("w"), "")
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{1}))
		w.takeRun(worker("w"), "a3 a4")
	}},
	{"what_is_not_dead_is_not_found", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D")
		ds := w.take(worker("w"), "a1 b1 c1 d1")
		w.ack(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		w.reject(worker("w"), ds[2])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{2}))
		none := queue.CodeNotFound
		want := []queue.Code{none, none, "", none, none, none, none}
		list := []uint64{1, 2, 3, 3, 4, 0, 99}
		equal(w, "replay", w.codes(w.store.Replay(w.ctx, w.operator(""), list)), want)
		d := w.take(worker("w"), "c1")[0]
		w.reject(worker("w"), d)
		equal(w, "discard", w.codes(w.store.Discard(w.ctx, w.operator("void"), list)), want)
	}},
	{"a_result_names_its_seq", func(w *world) {
		w.given("a1@A")
		res, err := w.store.Replay(w.ctx, w.operator(""), []uint64{1})
		w.ok(err, "replay")
		equal(w, "seq", res[0].Seq, 1)
		equal(w, "says why", res[0].Error != "", true)
	}},
	{"a_quarantined_line_that_passes_now_is_accepted_under_its_seq", func(w *world) {
		// What has changed since is the gates: the line itself is good.
		s := w.lines("a1@A amount=3.00 route=auto priority=1")[0]
		s.Fault = &queue.Fault{Field: "currency", Reason: "was unknown"}
		w.admitLines([]queue.Submission{s})
		w.given("a2@A")
		w.pass(time.Second)
		w.crash()
		mark := w.mark()
		w.done(w.store.Replay(w.ctx, w.operator("the table is new"), []uint64{1}))
		w.since(mark, "REPLAYED a1", "ACCEPTED a1")
		x := w.see("a1")
		equal(w, "shown", [5]any{x.Seq, x.Place, x.Route, x.Priority, x.State},
			[5]any{uint64(1), queue.Place{Seq: 1}, queue.AutoResolve, uint8(1), queue.Ready})
		equal(w, "accepted", w.now().Sub(x.AcceptedAt), time.Second) // when the line came: a replay makes nothing younger
		equal(w, "status", statusText(w.status()), "ready=2 open_keys=1 ledger=2")
		equal(w, "receipt", w.admit("a1@A amount=3.00"), []string{"duplicate 1 ready"})
		w.takeRun(worker("w"), "a1 a2")
	}},
	{"a_quarantined_line_that_passes_now_may_be_scheduled", func(w *world) {
		s := w.lines("a1@A not_before=+1h")[0]
		s.Fault = &queue.Fault{Reason: "was too late"}
		w.admitLines([]queue.Submission{s})
		w.given("a2@A")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.states("a1 scheduled")
		w.pass(time.Hour)
		w.takeRun(worker("w"), "a2 a1")
	}},
	{"a_quarantined_line_that_fails_again_stays", func(w *world) {
		w.admit("!{}")
		mark := w.mark()
		equal(w, "codes", w.codes(w.store.Replay(w.ctx, w.operator(""), []uint64{1})), []queue.Code{queue.CodePoison})
		w.since(mark)
		equal(w, "status", statusText(w.status()), "dead=1 quarantined=1")
	}},
	{"a_quarantined_line_whose_key_is_known_stays", func(w *world) {
		s := w.lines("a1@A", "b1@B amount=1")
		for i := range s {
			s[i].Fault = &queue.Fault{Reason: "was refused"}
		}
		w.admitLines(s)
		w.given("a1@A", "b1@B")
		mark := w.mark()
		equal(w, "codes", w.codes(w.store.Replay(w.ctx, w.operator(""), []uint64{1, 2})), []queue.Code{queue.CodeConflict, queue.CodeConflict})
		w.since(mark)
	}},
	{"a_line_of_which_only_the_beginning_was_kept_stays", func(w *world) {
		w.admitLines([]queue.Submission{tooLong()})
		equal(w, "codes", w.codes(w.store.Replay(w.ctx, w.operator(""), []uint64{1})), []queue.Code{queue.CodeUsage})
	}},
	{"a_conflict_stays", func(w *world) {
		w.given("a1@A")
		w.admit("a1@A amount=1")
		mark := w.mark()
		equal(w, "codes", w.codes(w.store.Replay(w.ctx, w.operator(""), []uint64{2})), []queue.Code{queue.CodeConflict})
		w.since(mark)
	}},
	{"a_discard_ends_it_and_remembers_the_key", func(w *world) {
		w.given("a1@A", "a2@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.pass(time.Minute)
		mark := w.mark()
		w.done(w.store.Discard(w.ctx, w.operator("booked by hand"), []uint64{1}))
		w.since(mark, "DISCARDED a1 REJECTED")
		r := w.records(queue.TrailQuery{AfterN: mark})[0]
		equal(w, "record", [3]string{r.By, r.Reason, r.Note}, [3]string{"olga", "booked by hand", ""})
		x := w.see("a1")
		equal(w, "shown", [3]any{x.State, x.SettledAt.Equal(w.now()), len(x.Line)}, [3]any{queue.Discarded, true, 0})
		equal(w, "status", statusText(w.status()), "ready=1 discarded=1 open_keys=1 ledger=2")
		w.crash()
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 discarded"})
		w.take(worker("w"), "a2")
	}},
	{"a_discard_that_forgets_frees_the_key_for_a_resend", func(w *world) {
		w.given("a1@A", "a2@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		a := w.operator("wrong amount")
		a.Forget = true
		w.done(w.store.Discard(w.ctx, a, []uint64{1}))
		equal(w, "noted", w.records(queue.TrailQuery{Event: queue.EventDiscarded})[0].Note != "", true)
		if _, err := w.store.Find(w.ctx, "a1"); err == nil {
			w.Fatal("a forgotten key is found")
		}
		w.crash()
		equal(w, "receipts", w.admit("a1@A amount=5", "a1@A amount=5"), []string{"accepted 3", "duplicate 3 ready"})
		equal(w, "the old one", w.look(1).State, queue.Discarded)
		w.takeRun(worker("w"), "a2 a1")
	}},
	{"a_letter_from_the_door_has_no_key_to_forget", func(w *world) {
		w.given("a1@A")
		w.admit("a1@A amount=1", `!{"idempotency_key":"a1"}`)
		a := w.operator("seen")
		a.Forget = true
		w.done(w.store.Discard(w.ctx, a, []uint64{2, 3}))
		for _, r := range w.records(queue.TrailQuery{Event: queue.EventDiscarded}) {
			equal(w, "says nothing of a key", r.Note, "")
		}
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 ready"})
		equal(w, "status", statusText(w.status()), "ready=1 discarded=2 open_keys=1 ledger=1")
		equal(w, "shown", w.look(2).State, queue.Discarded)
	}},
	{"letters_keep_their_bytes_across_restarts", func(w *world) {
		raw := append([]byte("!\xff{"), bytes.Repeat([]byte("z"), 5000)...)
		w.admit(string(raw))
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.crash()
		letters := w.letters(queue.LetterQuery{})
		equal(w, "quarantined", string(letters[0].Line), string(raw[1:]))
		equal(w, "rejected", string(letters[1].Line), string(w.lines("a1@A")[0].Message.Line))
	}},
}
