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
