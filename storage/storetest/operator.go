package storetest

import (
	"encoding/json"
	"time"

	"breakwater/queue"
)

// Of what an operator does to claims and keys. All of it is durable.
var operatorPromises = []promise{
	{"a_pause_is_durable_and_says_who_when_and_why", func(w *world) {
		w.given("a1@A", "b1@B")
		one := wants(worker("w"))
		one.Max = 1
		d := w.takeWant(one, "a1")[0]
		mark := w.mark()
		since := w.now()
		w.ok(w.store.Pause(w.ctx, w.operator("close of day")), "pause")
		w.since(mark, "PAUSED")
		w.pass(time.Minute)
		w.crash()
		p := w.status().Paused
		equal(w, "pause", [3]any{p.By, p.Reason, p.Since.Equal(since)}, [3]any{"olga", "close of day", true})
		w.refused(w.answer(d, worker("w"), queue.Ack), queue.CodeExpired) // the crash, not the pause
		w.take(worker("w"), "")
		w.given("c1@C") // intake goes on
		w.ok(w.store.Resume(w.ctx, w.operator("morning")), "resume")
		equal(w, "paused", w.status().Paused, nil)
		w.take(worker("w"), "a1 b1 c1")
		r := w.records(queue.TrailQuery{Event: queue.EventResumed})[0]
		equal(w, "record", [2]string{r.By, r.Reason}, [2]string{"olga", "morning"})
	}},
	{"a_pause_leaves_what_is_under_way_alone", func(w *world) {
		w.given("a1@A", "a2@A")
		d := w.take(worker("w"), "a1")[0]
		w.ok(w.store.Pause(w.ctx, w.operator("")), "pause")
		w.extend(worker("w"), leaseTime, d)
		w.ack(worker("w"), d)
		w.states("a1 done", "a2 ready")
	}},
	{"pausing_twice_or_resuming_twice_changes_nothing", func(w *world) {
		mark := w.mark()
		w.ok(w.store.Resume(w.ctx, w.operator("")), "resume")
		w.since(mark)
		w.ok(w.store.Pause(w.ctx, w.operator("first")), "pause")
		w.pass(time.Hour)
		w.ok(w.store.Pause(w.ctx, w.operator("second")), "pause")
		w.since(mark, "PAUSED")
		equal(w, "reason", w.status().Paused.Reason, "first")
	}},
	{"a_held_key_waits_and_only_it", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B")
		mark := w.mark()
		w.done(w.store.HoldKeys(w.ctx, w.operator("look"), []string{"A"}))
		w.since(mark, "KEY_HELD A")
		w.states("a1 held", "a2 held", "b1 ready")
		equal(w, "status", statusText(w.status()), "ready=1 held=2 open_keys=2 held_keys=1 ledger=3")
		w.take(worker("w"), "b1")
		w.crash()
		w.take(worker("w"), "b1")
		mark = w.mark()
		w.done(w.store.ReleaseKeys(w.ctx, w.operator("seen"), []string{"A"}))
		w.since(mark, "KEY_RELEASED A")
		w.takeRun(worker("w"), "a1 a2")
	}},
	{"a_key_without_messages_can_be_held", func(w *world) {
		w.done(w.store.HoldKeys(w.ctx, w.operator("look"), []string{"A"}))
		equal(w, "status", statusText(w.status()), "")
		w.reopen()
		w.given("a1@A")
		w.states("a1 held")
		w.take(worker("w"), "")
		w.done(w.store.ReleaseKeys(w.ctx, w.operator(""), []string{"A"}))
		w.take(worker("w"), "a1")
	}},
	{"holding_twice_changes_nothing_and_releasing_twice_is_not_found", func(w *world) {
		mark := w.mark()
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A", "A"}))
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A"}))
		w.since(mark, "KEY_HELD A")
		res, err := w.store.ReleaseKeys(w.ctx, w.operator(""), []string{"A", "B", "A"})
		equal(w, "codes", w.codes(res, err), []queue.Code{"", queue.CodeNotFound, queue.CodeNotFound})
		equal(w, "keys", [3]string{res[0].Key, res[1].Key, res[2].Key}, [3]string{"A", "B", "A"})
	}},
	{"a_release_undoes_an_operators_hold_only", func(w *world) {
		w.given("a1@A", "b1@B", "b2@B")
		ds := w.take(worker("w"), "a1 b1")
		w.fail(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		keys := []string{"A", "B"}
		equal(w, "codes", w.codes(w.store.ReleaseKeys(w.ctx, w.operator(""), keys)), []queue.Code{queue.CodeNotFound, queue.CodeNotFound})
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), keys))
		w.done(w.store.ReleaseKeys(w.ctx, w.operator(""), keys))
		w.take(worker("w"), "")
		w.pass(time.Second)
		w.take(worker("w"), "a1")
		w.states("b2 held")
	}},
	{"a_release_that_says_so_ends_the_time_that_a_key_waits_for", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "c1@C", "d1@D")
		ds := w.take(worker("w"), "a1 b1 c1 d1")
		until := w.hold(worker("w"), ds[0], 10*365*24*time.Hour)
		delay := w.fail(worker("w"), ds[1]).Delay
		w.fail(worker("w"), ds[2])
		mark := w.mark()
		res, err := w.store.ReleaseKeys(w.ctx, w.operator("a slip"), []string{"A", "B", "D", "X"}) // as ever
		equal(w, "codes", w.codes(res, err), []queue.Code{queue.CodeNotFound, queue.CodeNotFound, queue.CodeNotFound, queue.CodeNotFound})
		waits := []*queue.KeyWait{{Seq: 1, Until: wall(until)}, {Seq: 3, Until: wall(w.now().Add(delay)), Retry: true, Failed: 1}, nil, nil}
		equal(w, "what they wait for", waitsOf(res), waits)
		w.since(mark)

		res, err = w.release("a slip", "A", "B", "D", "X", "A")
		equal(w, "codes", w.codes(res, err), []queue.Code{"", "", queue.CodeNotFound, queue.CodeNotFound, queue.CodeNotFound})
		equal(w, "what they have waited for", waitsOf(res), append(waits, nil))
		w.since(mark, "KEY_RELEASED a1", "KEY_RELEASED b1")
		r := w.records(queue.TrailQuery{AfterN: mark})
		equal(w, "of a hold", [5]any{r[0].By, r[0].Reason, r[0].Until.Equal(wall(until)), r[0].PartitionKey, r[0].TraceID}, [5]any{"olga", "a slip", true, "A", "t-a1"})
		equal(w, "of a retry", [2]any{r[1].Until.Equal(wall(w.now().Add(delay))), r[1].FailedAttempts}, [2]any{true, 1})
		w.states("a1 ready", "a2 ready", "b1 ready", "c1 held")
		equal(w, "counters", [2]int{w.see("b1").Deliveries, w.see("b1").FailedAttempts}, [2]int{1, 1})
		w.crash() // it does not come back
		w.states("a1 ready", "a2 ready", "b1 ready")
		w.takeRun(worker("w"), "a1 a2 b1 d1")
	}},
	{"a_release_of_a_hold_says_what_the_key_waits_for_besides", func(w *world) {
		w.given("a1@A", "b1@B", "b2@B")
		ds := w.take(worker("w"), "a1 b1")
		until := w.hold(worker("w"), ds[0], time.Hour)
		w.reject(worker("w"), ds[1])
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A", "B"}))
		mark := w.mark()
		res, err := w.store.ReleaseKeys(w.ctx, w.operator("seen"), []string{"A", "B"})
		equal(w, "codes", w.codes(res, err), []queue.Code{"", ""})
		equal(w, "times", waitsOf(res), []*queue.KeyWait{{Seq: 1, Until: wall(until)}, nil})
		equal(w, "letters", [2]uint64{res[0].Letter, res[1].Letter}, [2]uint64{0, 2})
		w.since(mark, "KEY_RELEASED A", "KEY_RELEASED B")
		w.take(worker("w"), "") // they wait on
	}},
	{"a_release_that_says_so_ends_a_hold_and_a_wait_in_one", func(w *world) {
		w.given("a1@A")
		w.hold(worker("w"), w.take(worker("w"), "a1")[0], time.Hour)
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A", "X"}))
		mark := w.mark()
		w.done(w.release("all of it", "A", "X"))
		w.since(mark, "KEY_RELEASED a1", "KEY_RELEASED X")
		equal(w, "held by operators", w.status().OperatorHolds, 0)
		w.crash()
		w.take(worker("w"), "a1")
	}},
	{"a_release_never_undoes_a_dead_letter", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A")
		ask := wants(worker("w"))
		ask.PerKey = 2
		ds := w.takeWant(ask, "a1 a2")
		w.reject(worker("w"), ds[1])
		w.hold(worker("w"), ds[0], time.Hour)
		res, err := w.release("", "A")
		equal(w, "codes", w.codes(res, err), []queue.Code{""})
		equal(w, "it says so", res[0].Letter, 2)
		keysAre(w, 0, "A blocked 2")
		w.take(worker("w"), "")
		equal(w, "again", w.codes(w.release("", "A")), []queue.Code{queue.CodeNotFound})
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{2}))
		w.takeRun(worker("w"), "a1 a2 a3")
	}},
	{"a_wait_may_be_ended_while_an_earlier_message_of_its_key_is_out", func(w *world) {
		w.given("a1@A", "a2@A")
		ask := wants(worker("w"))
		ask.PerKey = 2
		ds := w.takeWant(ask, "a1 a2")
		w.hold(worker("w"), ds[1], time.Hour)
		w.done(w.release("", "A"))
		keysAre(w, 0, "A busy 2")
		w.ack(worker("w"), ds[0])
		w.take(worker("w"), "a2")
	}},
	{"a_hold_outlasts_every_other_reason_to_wait", func(w *world) {
		w.given("a1@A")
		w.fail(worker("w"), w.take(worker("w"), "a1")[0])
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A"}))
		w.pass(time.Hour)
		w.take(worker("w"), "")
		w.states("a1 held")
		w.done(w.store.ReleaseKeys(w.ctx, w.operator(""), []string{"A"}))
		w.take(worker("w"), "a1")
	}},
	{"holding_a_key_leaves_its_leases_alone", func(w *world) {
		w.given("a1@A", "a2@A")
		d := w.take(worker("w"), "a1")[0]
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"A"}))
		w.states("a1 leased", "a2 held")
		w.ack(worker("w"), d)
		w.take(worker("w"), "")
	}},
	{"a_note_is_a_record_of_its_time", func(w *world) {
		mark := w.mark()
		w.pass(time.Second)
		w.ok(w.store.Note(w.ctx, w.now(), []queue.Record{
			{Event: queue.EventAttached, Worker: "ui", Peer: &queue.Peer{UID: 1, GID: 2, PID: 3}},
			{Event: queue.EventDrained, Detail: []byte(`{"left":0}`)},
		}), "note")
		w.since(mark, "ATTACHED", "DRAINED")
		r := w.records(queue.TrailQuery{AfterN: mark})
		equal(w, "first", [2]any{r[0].Worker, *r[0].Peer}, [2]any{"ui", queue.Peer{UID: 1, GID: 2, PID: 3}})
		equal(w, "second", [2]any{string(r[1].Detail), r[1].TS.Equal(w.now())}, [2]any{`{"left":0}`, true})
	}},
	{"a_reload_is_recorded_with_who_ordered_it_and_outlives_the_process", func(w *world) {
		start := func(config string) {
			w.Helper()
			w.store = w.h.Reopen()
			w.startWith(queue.StartRequest{Config: json.RawMessage(config)})
		}
		start(`{"a":1,"b":1}`)
		mark := w.mark()
		a := w.operator("more work")
		a.Peer = &queue.Peer{UID: 1, GID: 2, PID: 3}
		set := func(config, before, after string) {
			w.Helper()
			w.ok(w.store.SetConfig(w.ctx, a, json.RawMessage(config), json.RawMessage(before), json.RawMessage(after)), "set the configuration")
		}
		set(`{"a":1,"b":2}`, `{"b":1}`, `{"b":2}`)
		w.since(mark, "CONFIG_CHANGED")
		r := w.records(queue.TrailQuery{AfterN: mark})[0]
		equal(w, "change", [2]string{string(r.Before), string(r.After)}, [2]string{`{"b":1}`, `{"b":2}`})
		equal(w, "who", [3]any{r.By, r.Reason, *r.Peer}, [3]any{a.By, a.Reason, *a.Peer})

		// A secret does not show in what is stored; that it changed does.
		set(`{"a":1,"b":2}`, `{"url":"***"}`, `{"url":"***"}`)
		w.since(mark, "CONFIG_CHANGED", "CONFIG_CHANGED")

		mark = w.mark()
		start(`{"a":1,"b":2}`)
		w.since(mark, "STARTED")
		start(`{"a":1,"b":1}`)
		w.since(mark, "STARTED", "CONFIG_CHANGED", "STARTED")
	}},
	{"a_probe_leaves_no_record", func(w *world) {
		mark := w.mark()
		w.ok(w.store.Probe(w.ctx), "probe")
		w.since(mark)
	}},
}

// hold puts a delivery on hold for a length of time, and returns until when.
func (w *world) hold(o queue.Owner, d queue.Delivery, length time.Duration) time.Time {
	w.Helper()
	a := w.answer(d, o, queue.Hold)
	a.Until = w.now().Add(length)
	w.applied(a)
	return a.Until
}

// release releases keys, and ends the times that they wait for.
func (w *world) release(reason string, keys ...string) ([]queue.ActionResult, error) {
	a := w.operator(reason)
	a.Waits = true
	return w.store.ReleaseKeys(w.ctx, a, keys)
}

func waitsOf(res []queue.ActionResult) []*queue.KeyWait {
	return each(res, func(r queue.ActionResult) *queue.KeyWait { return plainWait(r.Wait) })
}
