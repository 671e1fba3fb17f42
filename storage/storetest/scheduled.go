package storetest

import (
	"fmt"
	"time"

	"breakwater/queue"
)

// Of messages with a not_before: they take their place in the order when they
// fall due, on the wall clock.
var scheduledPromises = []promise{
	{"it_has_no_place_until_it_is_due", func(w *world) {
		w.given("s1@A not_before=+1h", "a1@A")
		x := w.see("s1")
		equal(w, "state", x.State, queue.Scheduled)
		equal(w, "place", x.Place.IsZero(), true)
		equal(w, "due", x.DueAt.Equal(w.now().Add(time.Hour)), true)
		equal(w, "status", statusText(w.status()), "ready=1 scheduled=1 open_keys=1 ledger=2")
		w.ack(worker("w"), w.takeRun(worker("w"), "a1")...)
		w.pass(time.Hour - 1)
		w.take(worker("w"), "")
		w.pass(1)
		w.take(worker("w"), "s1")
	}},
	{"it_comes_after_all_that_was_accepted_before_it_fell_due", func(w *world) {
		w.given("s1@A not_before=+1m", "a1@A", "a2@A")
		w.pass(time.Minute)
		w.take(worker("other"), "a1")
		equal(w, "place", w.see("s1").Place, queue.Place{Seq: 3, Sub: 1})
		w.given("a3@A")
		w.reclaimAfter(leaseTime)
		w.takeRun(worker("w"), "a1 a2 s1 a3")
	}},
	{"several_fall_due_in_the_order_of_their_times", func(w *world) {
		w.given("s1@A not_before=+3m", "s2@A not_before=+1m", "s3@A not_before=+2m", "s4@A not_before=+1m")
		w.pass(time.Hour)
		mark := w.mark()
		w.takeRun(worker("w"), "s2 s4 s3 s1")
		w.since(mark, "DUE s2 4.1", "DUE s4 4.2", "DUE s3 4.3", "DUE s1 4.4",
			"DISPATCHED s2", "DISPATCHED s4", "DISPATCHED s3", "DISPATCHED s1")
	}},
	{"places_rise_across_claims_and_restarts", func(w *world) {
		w.given("s1@A not_before=+1m", "s2@A not_before=+2m", "s3@A not_before=+3m", "s4@A not_before=+4m")
		place := func(id string, want queue.Place) {
			w.Helper()
			w.pass(time.Minute)
			w.claim(wants(worker("w")))
			equal(w, "place of "+id, w.see(id).Place, want)
		}
		place("s1", queue.Place{Seq: 4, Sub: 1})
		w.crash()
		place("s2", queue.Place{Seq: 4, Sub: 2})
		w.reopen()
		place("s3", queue.Place{Seq: 4, Sub: 3})
		w.given("b1@B")
		place("s4", queue.Place{Seq: 5, Sub: 1})
	}},
	{"one_whose_time_has_passed_is_not_scheduled", func(w *world) {
		w.given("a1@A not_before=-1h", "a2@A not_before=0s", "a3@A")
		w.states("a1 ready", "a2 ready")
		w.takeRun(worker("w"), "a1 a2 a3")
	}},
	{"it_follows_the_wall_clock", func(w *world) {
		w.given("s1@A not_before=+1h", "s2@B not_before=+2h")
		w.clock.Step(time.Hour)
		w.take(worker("w"), "s1")
		w.clock.Step(-30 * time.Minute)
		w.pass(time.Hour)
		w.take(worker("w"), "")
		w.pass(30 * time.Minute)
		w.take(worker("w"), "s2")
	}},
	{"a_place_once_given_is_kept_when_the_clock_is_set_back", func(w *world) {
		w.given("s1@A not_before=+1h")
		w.clock.Step(time.Hour)
		none := wants(worker("w"))
		none.Max = 0
		w.claim(none)
		w.clock.Step(-2 * time.Hour)
		w.crash()
		w.states("s1 ready")
		w.take(worker("w"), "s1")
	}},
	{"it_waits_behind_a_key_that_is_held", func(w *world) {
		w.given("a1@A", "s1@A not_before=+1m")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.pass(time.Minute)
		w.take(worker("w"), "")
		w.states("s1 held")
	}},
	{"they_fall_due_in_bounded_steps", func(w *world) {
		const many = 1024 + 10
		var specs []string
		for i := range many {
			specs = append(specs, fmt.Sprintf("s%d@K not_before=+1m", i))
		}
		w.given(specs...)
		w.pass(time.Minute)
		none := wants(worker("w"))
		none.Max = 0
		res := w.claimAll(none)
		equal(w, "more", res.More, true)
		equal(w, "status", statusText(w.status()), "ready=1024 scheduled=10 open_keys=1 ledger=1034")
		w.crash()
		equal(w, "more", w.claimAll(none).More, false)
		equal(w, "place of the last", w.look(many).Place, queue.Place{Seq: many, Sub: many})
	}},
	{"it_keeps_its_place_as_any_other", func(w *world) {
		w.given("s1@A not_before=+1m", "a1@A")
		w.pass(time.Minute)
		ds := w.takeRun(worker("w"), "a1 s1")
		w.ack(worker("w"), ds[0])
		w.given("a2@A")
		w.reject(worker("w"), ds[1])
		w.states("a2 held")
		w.done(w.store.Replay(w.ctx, w.operator("again"), []uint64{1}))
		equal(w, "place", w.see("s1").Place, queue.Place{Seq: 2, Sub: 1})
		w.takeRun(worker("w"), "s1 a2")
	}},
}

// reclaimAfter lets leases run out and takes them back.
func (w *world) reclaimAfter(lease time.Duration) []queue.Reclaimed {
	w.Helper()
	w.pass(lease + time.Millisecond)
	return w.reclaim()
}
