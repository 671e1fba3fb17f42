package storetest

import (
	"time"

	"breakwater/queue"
)

// expire asks for one step: epochs of a minute, keys remembered for an hour unless the
// test says otherwise.
func (w *world) expire(change ...func(*queue.ExpireRequest)) queue.ExpireResult {
	w.Helper()
	r := w.clock.expire(&w.expired)
	r.Epoch, r.Ledger = time.Minute, time.Hour
	for _, c := range change {
		c(&r)
	}
	res, err := w.store.Expire(w.ctx, r)
	w.ok(err, "expire")
	return res
}

// expireAll asks until there is no more to do.
func (w *world) expireAll(change ...func(*queue.ExpireRequest)) (keys int64) {
	w.Helper()
	for range 10_000 {
		res := w.expire(change...)
		keys += res.Keys
		if !res.More {
			return keys
		}
	}
	w.Fatalf("there is always more to expire")
	return 0
}

func keysFor(d time.Duration) func(*queue.ExpireRequest) {
	return func(r *queue.ExpireRequest) { r.Ledger = d }
}

// serve lets time pass as a process does that serves: with a step of retention every
// minute.
func (w *world) serve(d time.Duration) (keys int64) {
	w.Helper()
	for ; d > 0; d -= time.Minute {
		w.pass(min(d, time.Minute))
		keys += w.expireAll()
	}
	return keys
}

// finish settles messages by their idempotency keys.
func (w *world) finish(want string) {
	w.Helper()
	w.ack(worker("w"), w.take(worker("w"), want)...)
}

// Of retention: how long settled keys are remembered.
var expirePromises = []promise{
	{"a_settled_key_is_new_again_when_its_time_is_over", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.serve(time.Hour)
		equal(w, "within the hour", w.admit("a1@A"), []string{"duplicate 1 done DONE"})
		mark := w.mark()
		equal(w, "forgotten", w.serve(2*time.Minute), 1)
		w.since(mark, "TRIMMED")
		equal(w, "status", statusText(w.status()), "done=1")
		if _, err := w.store.Find(w.ctx, "a1"); err == nil {
			w.Fatalf("the key is still found")
		}
		equal(w, "afterwards", w.admit("a1@A", "a1@A"), []string{"accepted 2", "duplicate 2 ready"})
		equal(w, "the key's owner", w.find("a1"), 2)
		equal(w, "the first is told of all the same", w.look(1).State, queue.Done)
		w.finish("a1")
		equal(w, "status", statusText(w.status()), "done=2 ledger=1")
	}},
	{"other_content_under_a_forgotten_key_is_new_too", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.serve(62 * time.Minute)
		equal(w, "receipt", w.admit("a1@B amount=7.00"), []string{"accepted 2"})
	}},
	{"counts_from_the_settlement", func(w *world) {
		w.expire()
		w.given("a1@A", "b1@B")
		w.finish("a1 b1")
		w.given("a2@A", "b2@B")
		w.serve(50 * time.Minute)
		ds := w.take(worker("w"), "a2 b2")
		w.ack(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{4}))
		equal(w, "forgotten", w.serve(50*time.Minute), 2)
		equal(w, "receipts", w.admit("a1@A", "b1@B", "a2@A", "b2@B"),
			[]string{"accepted 5", "accepted 6", "duplicate 3 done DONE", "duplicate 4 discarded"})
		equal(w, "forgotten", w.serve(12*time.Minute), 2)
		equal(w, "receipts", w.admit("a2@A", "b2@B"), []string{"accepted 7", "accepted 8"})
	}},
	{"never_forgets_what_is_open_or_dead", func(w *world) {
		w.expire()
		w.given("a1@A", "a2@A", "b1@B", "c1@C", "d1@D not_before=+9000h", "e1@E", "f1@F")
		ds := w.take(consumer("ui"), "a1 b1 c1 e1 f1")
		w.reject(consumer("ui"), ds[0])
		w.fail(consumer("ui"), ds[1])
		w.applied(w.answer(ds[2], consumer("ui"), queue.Release))
		w.ack(consumer("ui"), ds[3])
		equal(w, "forgotten", w.serve(5*time.Hour), 1)
		equal(w, "receipts", w.admit("a1@A", "a2@A", "b1@B", "c1@C", "d1@D", "f1@F"), []string{
			"duplicate 1 dead", "duplicate 2 held", "duplicate 3 held", "duplicate 4 ready", "duplicate 5 scheduled", "duplicate 7 leased",
		})
	}},
	{"a_replayed_one_is_open_however_old_it_is", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.serve(2 * time.Hour)
		w.done(w.store.Replay(w.ctx, w.operator("again"), []uint64{1}))
		w.serve(2 * time.Hour)
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 ready"})
		w.finish("a1")
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 done DONE"})
		equal(w, "forgotten", w.serve(62*time.Minute), 1)
		equal(w, "receipt", w.admit("a1@A"), []string{"accepted 2"})
	}},
	{"a_quarantined_line_gets_a_forgotten_key", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		l := w.lines("a1@A amount=7.00")
		l[0].Fault = &queue.Fault{Field: "currency", Reason: "is not known yet"}
		w.admitLines(l)
		equal(w, "while it is remembered", w.codes(w.store.Replay(w.ctx, w.operator("again"), []uint64{2})), []queue.Code{queue.CodeConflict})
		w.serve(62 * time.Minute)
		w.done(w.store.Replay(w.ctx, w.operator("again"), []uint64{2}))
		equal(w, "receipt", w.admit("a1@A amount=7.00"), []string{"duplicate 2 ready"})
		equal(w, "status", statusText(w.status()), "ready=1 done=1 open_keys=1 ledger=1")
	}},
	{"a_clock_that_is_set_neither_hastens_nor_stops_it", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		for _, step := range []time.Duration{87600 * time.Hour, -2 * 87600 * time.Hour, time.Hour, -time.Hour} {
			w.clock.Step(step)
			equal(w, "forgotten by a step of "+step.String(), w.expireAll(), 0)
		}
		w.given("b1@B")
		w.finish("b1") // with a clock that is ten years behind
		w.clock.Step(87600 * time.Hour)
		equal(w, "forgotten too soon", w.serve(time.Hour), 0)
		equal(w, "receipts", w.admit("a1@A", "b1@B"), []string{"duplicate 1 done DONE", "duplicate 2 done DONE"})
		equal(w, "forgotten", w.serve(2*time.Minute), 2)
	}},
	{"a_stop_counts_but_not_for_more_than_an_eighth", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.serve(time.Minute)
		w.pass(5 * time.Minute)
		w.reopen()
		w.serve(53 * time.Minute)
		equal(w, "after 59 minutes, 5 of them stopped", w.admit("a1@A"), []string{"duplicate 1 done DONE"})
		equal(w, "forgotten", w.serve(3*time.Minute), 1)

		w.given("b1@B")
		w.finish("b1")
		w.serve(time.Minute)
		for _, step := range []time.Duration{87600 * time.Hour, -87600 * time.Hour, -87600 * time.Hour, 0} {
			w.clock.Step(step)
			w.crash()
		}
		w.clock.Step(2 * 87600 * time.Hour) // ten years ahead, as far as the process can see
		w.crash()
		equal(w, "forgotten by it", w.serve(52*time.Minute), 0)
		equal(w, "receipt", w.admit("b1@B"), []string{"duplicate 2 done DONE"})
		equal(w, "forgotten", w.serve(2*time.Minute), 1)
	}},
	{"a_day_at_most_whatever_the_retention", func(w *world) {
		month := keysFor(30 * 24 * time.Hour)
		w.expire(month)
		w.given("a1@A")
		w.finish("a1")
		w.pass(time.Minute)
		w.expire(month)
		for range 29 {
			w.pass(48 * time.Hour)
			w.crash()
			equal(w, "forgotten", w.expire(month).Keys, 0)
		}
		w.pass(24 * time.Hour)
		w.crash()
		equal(w, "forgotten", w.expire(month).Keys, 1)
	}},
	{"is_remembered_across_restarts", func(w *world) {
		w.expire()
		w.given("a1@A", "b1@B")
		w.finish("a1 b1")
		w.serve(30 * time.Minute)
		w.crash()
		w.serve(29 * time.Minute)
		w.reopen()
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 done DONE"})
		equal(w, "forgotten", w.serve(3*time.Minute), 2)
		w.crash()
		equal(w, "receipt", w.admit("a1@A"), []string{"accepted 3"})
		w.reopen()
		equal(w, "receipts", w.admit("a1@A", "b1@B"), []string{"duplicate 3 ready", "accepted 4"})
		equal(w, "status", statusText(w.status()), "ready=2 done=2 open_keys=2 ledger=2")
	}},
	{"a_shorter_retention_holds_at_once_a_longer_one_brings_nothing_back", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.serve(10 * time.Minute)
		w.given("b1@B")
		w.finish("b1")
		w.pass(2 * time.Minute)
		equal(w, "forgotten", w.expire(keysFor(5*time.Minute)).Keys, 1)
		w.expire(keysFor(24 * time.Hour))
		equal(w, "receipts", w.admit("a1@A", "b1@B"), []string{"accepted 3", "duplicate 2 done DONE"})
		equal(w, "for ever", w.expire(keysFor(0)).Keys, 0)
	}},
	{"makes_room_in_the_ledger", func(w *world) {
		w.expire()
		w.limits.MaxLedgerKeys = 2
		w.given("a1@A", "b1@B")
		w.finish("a1 b1")
		equal(w, "full", w.admit("c1@C"), []string{"rejected max_ledger_keys"})
		w.serve(62 * time.Minute)
		equal(w, "room again", w.admit("c1@C", "a1@A", "b1@B"), []string{"accepted 3", "accepted 4", "rejected max_ledger_keys"})
	}},
	{"is_told_once_a_step_with_the_records_it_is_about", func(w *world) {
		w.expire()
		w.given("a1@A", "b1@B")
		w.finish("a1 b1")
		last := w.mark()
		w.serve(2 * time.Minute)
		w.given("c1@C")
		w.finish("c1")
		w.pass(3 * time.Hour)
		mark := w.mark()
		equal(w, "keys", w.expire().Keys, 2)
		r := w.records(queue.TrailQuery{AfterN: mark})
		t, ok := queue.ReadTrimmed(&r[0])
		equal(w, "record", [2]any{t, ok}, [2]any{queue.Trimmed{Keys: 2, SettledTo: last}, true})
		w.pass(3 * time.Hour)
		equal(w, "keys", w.expire().Keys, 1)
	}},
	{"an_idle_store_writes_nothing", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.serve(3 * time.Hour)
		mark := w.mark()
		w.serve(9 * time.Hour)
		w.since(mark)
	}},
	{"a_step_is_bounded", func(w *world) {
		w.expire(keysFor(0))
		w.given("a1@A")
		w.finish("a1")
		for i := range queue.MaxEpochs + 10 {
			w.ok(w.store.Note(w.ctx, w.now(), []queue.Record{{Event: queue.EventAttached, Delivery: i}}), "note")
			w.pass(2 * time.Minute)
			w.expire(keysFor(0))
		}
		w.given("b1@B")
		w.finish("b1")
		w.pass(2 * time.Minute)
		w.expire(keysFor(0))
		w.pass(3 * time.Hour)
		first := w.expire()
		equal(w, "first", [2]any{first.Keys, first.More}, [2]any{int64(1), true})
		equal(w, "the rest", w.expireAll(), 1)
	}},
}
