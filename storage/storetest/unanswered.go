package storetest

import (
	"time"

	"breakwater/queue"
)

// Of what is said of a message whose delivery began and ended without the handler's own
// answer: its effect may exist, and whoever gets it next is told (P3). Counting is another
// thing.
var unansweredPromises = []promise{
	{"a_retry_counts_as_one_and_the_next_is_told", func(w *world) { // a signal, a time limit
		w.given("a1@A")
		d := w.takeTold("a1", 1, 0, false)
		mark := w.mark()
		w.silent(d, queue.Retry)
		w.since(mark, "RETRIED a1 unanswered=1")
		w.pass(w.policy.RetryMax)
		w.again(func() { w.told("a1", 2, 1, true) })
	}},
	{"a_release_counts_as_nothing_and_the_next_is_told", func(w *world) { // a drain, a connection that broke
		w.given("a1@A")
		mark := w.mark()
		w.silent(w.takeTold("a1", 1, 0, false), queue.Release)
		w.since(mark, "DISPATCHED a1", "RELEASED a1 unanswered=1")
		x := w.see("a1")
		equal(w, "shown", [4]any{x.State, x.Deliveries, x.FailedAttempts, x.Unanswered}, [4]any{queue.Ready, 0, 0, 1})
		w.again(func() { w.told("a1", 1, 0, true) })
	}},
	{"an_answer_of_the_handler_is_one", func(w *world) {
		for i, verb := range []queue.Verb{queue.Retry, queue.Release, queue.Hold} {
			id := string(rune('a' + i))
			w.given(id + "@" + id)
			a := w.answer(w.take(worker("w"), id)[0], worker("w"), verb)
			a.Until = w.now().Add(time.Minute)
			w.applied(a)
			w.pass(w.policy.RetryMax)
			d := w.take(worker("w"), id)[0]
			equal(w, "told", d.Redelivered, false)
			w.ack(worker("w"), d)
		}
	}},
	{"only_a_retry_and_a_release_can_be_none", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		mark := w.mark()
		w.silent(ds[0], queue.Hold)
		w.silent(ds[1], queue.Reject)
		w.silent(ds[2], queue.Ack)
		w.since(mark, "HELD a1", "DEAD_LETTERED b1 REJECTED", "DECIDED c1")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{2}))
		for _, d := range w.take(worker("w"), "b1 a1") {
			equal(w, "told", d.Redelivered, false)
		}
	}},
	{"it_is_told_until_the_message_is_settled", func(w *world) {
		w.given("a1@A")
		w.silent(w.take(worker("w"), "a1")[0], queue.Release)
		w.again(func() { w.told("a1", 1, 0, true) })
		mark := w.mark()
		w.silent(w.take(worker("w"), "a1")[0], queue.Release)
		d := w.take(worker("w"), "a1")[0]
		w.ack(worker("w"), d)
		w.since(mark, "DISPATCHED a1 unanswered=1", "RELEASED a1 unanswered=2", "DISPATCHED a1 unanswered=2", "DECIDED a1")
	}},
	{"a_lease_that_nobody_answered_is_one", func(w *world) {
		w.given("a1@A")
		w.take(consumer("ui"), "a1")
		w.reclaimAfter(leaseTime)
		w.again(func() { w.told("a1", 2, 0, true) })
	}},
	{"what_went_back_with_another_was_not_begun", func(w *world) {
		w.given("a1@A", "a2@A")
		w.silent(w.takeRun(worker("w"), "a1 a2")[0], queue.Release)
		ds := w.takeRun(worker("w"), "a1 a2")
		equal(w, "told", [2]bool{ds[0].Redelivered, ds[1].Redelivered}, [2]bool{true, false})
	}},
	{"a_dead_letter_says_it", func(w *world) {
		w.policy.MaxAttempts = 1
		w.given("a1@A")
		mark := w.mark()
		w.silent(w.take(worker("w"), "a1")[0], queue.Retry)
		w.since(mark, "DISPATCHED a1", "RETRIED a1 unanswered=1", "DEAD_LETTERED a1 ATTEMPTS_EXHAUSTED unanswered=1")
		w.again(func() {
			equal(w, "shown", w.see("a1").Unanswered, 1)
			equal(w, "listed", w.letters(queue.LetterQuery{})[0].Unanswered, 1)
		})
	}},
	{"a_replay_keeps_it", func(w *world) {
		w.policy.MaxAttempts = 1
		w.given("a1@A")
		w.silent(w.take(worker("w"), "a1")[0], queue.Retry)
		w.reopen()
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.again(func() { equal(w, "shown", w.see("a1").Unanswered, 1) })
		w.reject(worker("w"), w.takeTold("a1", 1, 0, true)) // a second death, of which the cause is known
		w.crash()
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.again(func() { w.told("a1", 1, 0, true) })
	}},
	{"an_edit_keeps_it", func(w *world) {
		w.policy.MaxDeliveries = 1
		w.given("a1@A")
		w.take(consumer("ui"), "a1")
		equal(w, "last", w.reclaimAfter(leaseTime)[0].DeadCode, queue.CodeDeliveriesExhausted)
		w.edited(1, "a1@A amount=7.00")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.again(func() { w.told("a1", 1, 0, true) })
	}},
	{"a_restored_state_does_not_know", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C not_before=+1h")
		w.reject(worker("w"), w.take(worker("w"), "a1 b1")[1])
		w.store = w.h.Crash()
		w.boot()
		w.startWith(queue.StartRequest{Restored: true})
		w.ok(w.store.Resume(w.ctx, w.operator("")), "resume")
		w.given("d1@D")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{2}))
		w.pass(time.Hour)
		told := map[string]bool{}
		for _, d := range w.take(worker("w"), "a1 d1 b1 c1") {
			told[d.Message.IdempotencyKey] = d.Redelivered
		}
		equal(w, "told", told, map[string]bool{"a1": true, "b1": true, "c1": true, "d1": false})
		w.crash()
		told = map[string]bool{}
		for _, d := range w.take(worker("w"), "a1 b1 d1 c1") {
			told[d.Message.IdempotencyKey] = d.Redelivered
		}
		equal(w, "told again", told, map[string]bool{"a1": true, "b1": true, "c1": true, "d1": false})
	}},
}

// silent ends a delivery of worker w without an answer of the handler.
func (w *world) silent(d queue.Delivery, verb queue.Verb) {
	w.Helper()
	a := w.answer(d, worker("w"), verb)
	a.Reason, a.Unanswered, a.Until = "it was cut off", true, w.now().Add(time.Second)
	w.applied(a)
	w.pass(time.Second)
}

// takeTold takes one message, which must say how often it was delivered, failed, and
// whether it is redelivered.
func (w *world) takeTold(id string, number, failed int, redelivered bool) queue.Delivery {
	w.Helper()
	d := w.take(worker("w"), id)[0]
	equal(w, "delivery, failed, redelivered", [3]any{d.Number, d.FailedAttempts, d.Redelivered}, [3]any{number, failed, redelivered})
	return d
}

// told is takeTold, and the worker puts it back: which is an answer, and changes nothing.
func (w *world) told(id string, number, failed int, redelivered bool) {
	w.Helper()
	w.applied(w.answer(w.takeTold(id, number, failed, redelivered), worker("w"), queue.Release))
}

// again looks now, after the process was killed, and after it was closed.
func (w *world) again(look func()) {
	w.Helper()
	look()
	w.crash()
	look()
	w.reopen()
	look()
}
