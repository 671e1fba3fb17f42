package storetest

import (
	"strings"
	"time"

	"breakwater/queue"
)

// Whole lives, record by record as an auditor reads them. The text is the
// contract's: a store that writes another trail for the same life is wrong.
var lifePromises = []promise{
	{"of_a_message_that_is_settled", func(w *world) {
		w.given("k1@ACC-1 trace=tr-1 entity=E1 currency=EUR")
		w.pass(time.Second)
		d := w.take(consumer("ui"), "k1")[0]
		w.pass(time.Second)
		w.extend(consumer("ui"), time.Minute, d)
		a := w.answer(d, consumer("ui"), queue.Ack)
		a.Outcome, a.By, a.Note, a.Peer = "APPROVED", "alice", "seen", &queue.Peer{UID: 1000, GID: 1000, PID: 77}
		w.applied(a)
		w.settle(a)
		w.life(settledLife)
	}},
	{"of_a_message_that_fails_and_dies", func(w *world) {
		w.policy.MaxAttempts = 2
		w.given("k1@A")
		d := w.take(worker("w-1"), "k1")[0]
		a := w.answer(d, worker("w-1"), queue.Retry)
		a.Reason, a.Stderr = "exit status 1", "no such account"
		w.applied(a)
		w.pass(time.Second)
		w.fail(worker("w-1"), w.take(worker("w-1"), "k1")[0])
		w.done(w.store.Replay(w.ctx, w.operator("account is open now"), []uint64{1}))
		w.reject(worker("w-2"), w.take(worker("w-2"), "k1")[0])
		w.done(w.store.Discard(w.ctx, w.operator("booked by hand"), []uint64{1}))
		w.life(deadLife)
	}},
	{"of_a_scheduled_message_that_is_put_back", func(w *world) {
		w.given("k1@A not_before=+1m", "k2@A not_before=+2m")
		w.pass(2 * time.Minute)
		ds := w.takeRun(worker("w-1"), "k1 k2")
		hold := w.answer(ds[0], worker("w-1"), queue.Hold)
		hold.Until, hold.Reason, hold.By = w.now().Add(time.Minute), "closed", "bot"
		w.applied(hold)
		w.pass(time.Minute)
		w.takeRun(worker("w-1"), "k1 k2")
		w.crash()
		w.life(putBackLife)
	}},
	{"of_a_message_whose_waits_an_operator_ends", func(w *world) {
		w.given("k1@A")
		w.fail(worker("w-1"), w.take(worker("w-1"), "k1")[0])
		w.done(w.store.HoldKeys(w.ctx, w.operator("look"), []string{"A"}))
		w.done(w.release("the ledger is back", "A"))
		hold := w.answer(w.take(consumer("ui"), "k1")[0], consumer("ui"), queue.Hold)
		hold.Until, hold.Reason, hold.By = w.now().Add(24*365*time.Hour), "a slip", "bob"
		w.applied(hold)
		w.done(w.release("bob meant hours", "A"))
		w.life(waitedLife)
	}},
	{"of_lines_from_the_door", func(w *world) {
		w.admit("k1@A", "k1@A", "k1@A currency=EUR", `!{"idempotency_key":"k2","trace_id":"tr\u0001"}`)
		w.done(w.store.HoldKeys(w.ctx, w.operator("look"), []string{"A"}))
		w.done(w.store.ReleaseKeys(w.ctx, w.operator("seen"), []string{"A"}))
		w.ok(w.store.Pause(w.ctx, w.operator("close")), "pause")
		w.ok(w.store.Resume(w.ctx, w.operator("open")), "resume")
		w.life(doorLife)
	}},
}

// life compares the whole trail with its text.
func (w *world) life(want string) {
	w.Helper()
	var got strings.Builder
	for _, r := range w.records(queue.TrailQuery{}) {
		got.Write(r.AppendNDJSON(nil))
	}
	equal(w, "trail", strings.Split(got.String(), "\n"), strings.Split(strings.TrimPrefix(want, "\n"), "\n"))
}
