package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"breakwater/queue"
)

// Of Start: what a process that ended leaves behind, and who is to blame (P3, P9).
var startPromises = []promise{
	{"says_how_the_last_process_ended", func(w *world) {
		equal(w, "after a crash", w.crash().Clean, false)
		equal(w, "after a close", w.reopen().Clean, true)
		equal(w, "after a crash", w.crash().Clean, false)
		var details []string
		for _, r := range w.records(queue.TrailQuery{Event: queue.EventStarted}) {
			details = append(details, string(r.Detail))
		}
		equal(w, "details", details, []string{
			`{"version":"1.2.3","clean":true,"gave_back":0,"kept":0}`,
			`{"version":"1.2.3","clean":false,"gave_back":0,"kept":0}`,
			`{"version":"1.2.3","clean":true,"gave_back":0,"kept":0}`,
			`{"version":"1.2.3","clean":false,"gave_back":0,"kept":0}`,
		})
	}},
	{"gives_back_what_workers_held_and_blames_the_first", func(w *world) { // B39
		w.given("a1@A", "a2@A", "b1@B", "c1@C", "d1@D")
		two := wants(worker("w-2"))
		two.Max, two.PerKey = 3, 2
		old := w.takeWant(two, "a1 a2 b1")
		w.take(worker("w-1"), "c1 d1")
		mark := w.mark()
		res := w.crash()
		equal(w, "result", res, queue.StartResult{GaveBack: 5})
		w.since(mark,
			"RECLAIMED c1 unanswered=1", "RECLAIMED d1",
			"RECLAIMED a1 unanswered=1", "RECLAIMED a2", "RECLAIMED b1", "STARTED")
		records := w.records(queue.TrailQuery{AfterN: mark})
		equal(w, "reasons", [2]string{records[0].Reason, records[1].Reason}, [2]string{queue.ReclaimCrash, queue.ReclaimUnused})
		w.refused(w.answer(old[0], worker("w-2"), queue.Ack), queue.CodeExpired)
		var numbers []int
		for _, d := range w.takeRun(worker("w"), "a1 a2 b1 c1 d1") {
			numbers = append(numbers, d.Number)
		}
		equal(w, "numbers", numbers, []int{2, 1, 1, 2, 1})
	}},
	{"gives_back_at_once_after_a_close_too", func(w *world) {
		w.given("a1@A")
		w.take(worker("w"), "a1")
		equal(w, "result", w.reopen(), queue.StartResult{Clean: true, GaveBack: 1})
		w.take(worker("w"), "a1")
	}},
	{"consumers_keep_their_leases_for_their_full_length", func(w *world) {
		w.given("a1@A", "a2@A")
		d := w.take(consumer("ui"), "a1")[0]
		w.pass(leaseTime - 1)
		mark := w.mark()
		equal(w, "result", w.crash(), queue.StartResult{Kept: 1})
		w.since(mark, "STARTED")
		x := w.see("a1")
		equal(w, "shown", [2]any{x.State, x.Owner}, [2]any{queue.Leased, "ui"})
		equal(w, "deadline", x.Deadline.Equal(w.now().Add(leaseTime)), true)
		w.take(worker("w"), "")
		w.pass(leaseTime)
		equal(w, "reclaimed", len(w.reclaim()), 0)
		w.ack(consumer("ui"), d)
		w.take(worker("w"), "a2")
	}},
	{"a_lease_that_was_over_when_the_process_ended_runs_again", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		w.pass(24 * time.Hour)
		w.reopen()
		equal(w, "reclaimed", len(w.reclaim()), 0)
		w.ack(consumer("ui"), d)
	}},
	{"what_crashes_the_process_every_time_becomes_a_dead_letter", func(w *world) {
		w.policy.MaxDeliveries = 3
		w.given("a1@A", "b1@B")
		for n := 1; n <= 2; n++ {
			w.take(worker("w"), "a1 b1")
			equal(w, "result", w.crash(), queue.StartResult{GaveBack: 2})
		}
		w.take(worker("w"), "a1 b1")
		mark := w.mark()
		equal(w, "result", w.crash(), queue.StartResult{GaveBack: 2, DeadAgain: 1})
		w.since(mark, "RECLAIMED a1 unanswered=3", "DEAD_LETTERED a1 DELIVERIES_EXHAUSTED unanswered=3", "RECLAIMED b1", "STARTED")
		equal(w, "the bystander", w.take(worker("w"), "b1")[0].Number, 1)
		equal(w, "reason", w.see("a1").Reason, queue.ReclaimCrash)
	}},
	{"a_release_before_the_end_blames_nobody", func(w *world) {
		w.policy.MaxDeliveries = 1
		w.given("a1@A")
		w.applied(w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Release))
		equal(w, "result", w.crash(), queue.StartResult{})
		w.take(worker("w"), "a1")
	}},
	{"a_backoff_goes_on_where_it_was", func(w *world) { // B49
		w.given("a1@A")
		a := w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Retry)
		a.After = 20 * time.Second
		w.applied(a)
		w.pass(5 * time.Second)
		w.crash()
		w.states("a1 held")
		w.pass(15*time.Second - 1)
		w.take(worker("w"), "")
		w.pass(1)
		equal(w, "delivery", w.take(worker("w"), "a1")[0].FailedAttempts, 1)
	}},
	{"a_backoff_that_goes_on_is_elapsed_time_again", func(w *world) {
		w.given("a1@A", "b1@B")
		for _, d := range w.take(consumer("ui"), "a1 b1") {
			a := w.answer(d, consumer("ui"), queue.Retry)
			a.After = 3 * time.Second
			w.applied(a)
		}
		w.reopen()
		w.clock.Step(-5 * time.Second)
		w.pass(3*time.Second - 1)
		w.take(worker("w"), "")
		w.pass(1)
		w.take(worker("w"), "a1 b1")
	}},
	{"backoffs_from_before_and_after_a_restart_end_in_elapsed_time", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(consumer("ui"), "a1 b1 c1")
		wait := func(d queue.Delivery, after time.Duration) {
			w.Helper()
			a := w.answer(d, consumer("ui"), queue.Retry)
			a.After = after
			w.applied(a)
		}
		wait(ds[0], 4*time.Second)
		wait(ds[1], 4*time.Second)
		w.reopen()
		w.clock.Step(-5 * time.Second)
		wait(ds[2], 6*time.Second) // the sooner by the wall clock, and the later
		w.pass(4 * time.Second)
		w.take(worker("w"), "a1 b1")
		w.pass(2 * time.Second)
		w.take(worker("w"), "c1")
	}},
	{"wherever_the_clock_is_set_while_stopped_a_consumers_lease_runs_its_length_once", func(w *world) { // B37
		for i, step := range clockSteps(w) {
			id := fmt.Sprintf("a%d", i)
			w.given(id + "@" + id)
			d := w.take(consumer("ui"), id)[0]
			w.clock.Step(step)
			w.crash()
			equal(w, "deadline", w.see(id).Deadline.Equal(w.now().Add(leaseTime)), true)
			w.pass(leaseTime)
			equal(w, "at the deadline", len(w.reclaim()), 0)
			w.clock.Step(-step)
			w.ack(consumer("ui"), d)
		}
	}},
	{"a_clock_set_while_stopped_makes_no_backoff_longer_than_the_longest", func(w *world) { // B37
		w.given("a1@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		w.fail(worker("w"), ds[0])
		w.clock.Step(-24 * time.Hour)
		w.crash()
		w.pass(w.policy.RetryMax - 1)
		w.take(worker("w"), "b1")
		w.pass(1)
		d := w.take(worker("w"), "a1")[0]
		w.fail(worker("w"), d)
		w.clock.Step(24 * time.Hour)
		w.crash()
		w.states("a1 held") // until a claim sees that it is over
		w.take(worker("w"), "b1 a1")
	}},
	{"a_hold_stays_until_its_time_on_the_wall", func(w *world) {
		w.given("a1@A")
		a := w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Hold)
		a.Until = w.now().Add(48 * time.Hour) // longer than any backoff
		w.applied(a)
		w.crash()
		w.pass(48*time.Hour - 1)
		w.take(worker("w"), "")
		w.pass(1)
		w.take(worker("w"), "a1")
	}},
	{"a_wait_that_has_ended_stays_ended", func(w *world) {
		w.given("a1@A")
		w.fail(worker("w"), w.take(worker("w"), "a1")[0])
		w.pass(time.Minute)
		none := wants(worker("w"))
		none.Max = 0
		w.claim(none)
		w.states("a1 ready")
		w.clock.Step(-time.Hour)
		w.crash()
		w.states("a1 ready")
	}},
	{"a_dead_letter_still_holds_its_key", func(w *world) {
		w.given("a1@A", "a2@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.reopen()
		w.states("a1 dead", "a2 held")
		w.take(worker("w"), "")
	}},
	{"nobody_is_set_aside_any_more", func(w *world) {
		w.given("a1@A")
		a := w.answer(w.take(consumer("ui"), "a1")[0], consumer("ui"), queue.Release)
		a.Aside = time.Hour
		w.applied(a)
		w.crash()
		w.take(consumer("ui"), "a1")
	}},
	{"keys_queue_up_in_the_order_of_their_heads", func(w *world) {
		w.given("a1@A", "b1@B", "a2@A", "c1@C")
		one := wants(worker("w"))
		one.Max = 1
		w.ack(worker("w"), w.takeWant(one, "a1")...)
		w.crash()
		w.take(worker("w"), "b1 a2 c1")
	}},
	{"a_changed_configuration_is_recorded", func(w *world) {
		start := func(config string, diff func(before, after []byte) (b, a json.RawMessage)) {
			w.Helper()
			w.store = w.h.Reopen()
			w.startWith(queue.StartRequest{Config: json.RawMessage(config), Diff: diff})
		}
		mark := w.mark()
		start(`{"a":1,"b":1}`, nil)
		start(`{"a":1,"b":1}`, nil)
		w.since(mark, "STARTED", "STARTED")
		mark = w.mark()
		start(`{"a":1,"b":2}`, func(before, after []byte) (b, a json.RawMessage) {
			equal(w, "given to Diff", [2]string{string(before), string(after)}, [2]string{`{"a":1,"b":1}`, `{"a":1,"b":2}`})
			return json.RawMessage(`{"b":1}`), json.RawMessage(`{"b":2}`)
		})
		w.since(mark, "CONFIG_CHANGED", "STARTED")
		r := w.records(queue.TrailQuery{AfterN: mark})[0]
		equal(w, "change", [2]string{string(r.Before), string(r.After)}, [2]string{`{"b":1}`, `{"b":2}`})
	}},
	{"a_restored_store_voids_all_leases_and_stands_still", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		one := wants(consumer("a-ui"))
		one.Max = 1
		old := w.takeWant(one, "a1")
		w.take(worker("w"), "b1 c1")
		mark := w.mark()
		w.store = w.h.Crash()
		w.clock.Boot()
		res := w.startWith(queue.StartRequest{Restored: true})
		equal(w, "result", res, queue.StartResult{GaveBack: 3})
		w.since(mark, "RESTORED", "RECLAIMED b1", "RECLAIMED c1", "RECLAIMED a1", "STARTED")
		equal(w, "reason", w.records(queue.TrailQuery{AfterN: mark})[1].Reason, queue.ReclaimRestored)
		equal(w, "paused by", w.status().Paused.By, "restore")
		w.refused(w.answer(old[0], consumer("a-ui"), queue.Ack), queue.CodeExpired)
		w.take(worker("w"), "")
		w.ok(w.store.Resume(w.ctx, w.operator("checked")), "resume")
		equal(w, "delivery", w.take(worker("w"), "a1 b1 c1")[0].Number, 1)
	}},
	{"seqs_go_on_without_a_gap", func(w *world) {
		w.given("a1@A")
		w.limits.MaxBacklog = 1
		w.admit("b1@B")
		w.limits.MaxBacklog = 0
		w.crash()
		w.given("b1@B")
		w.reopen()
		w.given("c1@C")
		equal(w, "seq", w.find("c1"), 3)
	}},
}
