package storetest

import (
	"time"

	"breakwater/queue"
)

// stops are the answers after which what is leased behind a message has to wait
// for it: it was put back, or it died and holds its key.
var stops = []struct {
	name   string
	answer func(w *world, d queue.Delivery) queue.Settlement
	back   bool // it is handed out again
}{
	{"retry", func(w *world, d queue.Delivery) queue.Settlement { return w.answer(d, worker("w"), queue.Retry) }, true},
	{"release", func(w *world, d queue.Delivery) queue.Settlement { return w.answer(d, worker("w"), queue.Release) }, true},
	{"hold", func(w *world, d queue.Delivery) queue.Settlement {
		a := w.answer(d, worker("w"), queue.Hold)
		a.Until = w.now().Add(time.Second)
		return a
	}, true},
	{"reject", func(w *world, d queue.Delivery) queue.Settlement { return w.answer(d, worker("w"), queue.Reject) }, false},
}

// Of the other leases of a key, when one of its messages is not settled (P5).
var siblingPromises = []promise{
	{"behind_a_stop_are_put_back_uncounted", func(w *world) {
		for i, stop := range stops {
			id := func(n string) string { return n + string(rune('0'+i)) }
			w.given(id("a")+"@"+id("A"), id("b")+"@"+id("A"), id("c")+"@"+id("A"))
			ds := w.takeRun(worker("w"), id("a")+" "+id("b")+" "+id("c"))
			mark := w.mark()
			w.applied(stop.answer(w, ds[0]))
			records := w.records(queue.TrailQuery{AfterN: mark})
			equal(w, stop.name+": records", len(records), 3)
			for k, r := range records[1:] {
				equal(w, stop.name+": record", [5]any{r.Event, r.Seq, r.Reason, r.Delivery, r.Worker},
					[5]any{queue.EventReleased, ds[k+1].Token.Seq, queue.PutBack, 1, "w"})
			}
			equal(w, stop.name+": deliveries", [2]int{w.see(id("b")).Deliveries, w.see(id("c")).Deliveries}, [2]int{0, 0})
			w.refused(w.answer(ds[1], worker("w"), queue.Ack), queue.CodeExpired)
			w.refused(w.answer(ds[2], worker("w"), queue.Ack), queue.CodeExpired)
			w.pass(time.Second)
			if stop.back {
				w.ack(worker("w"), w.takeRun(worker("w"), id("a")+" "+id("b")+" "+id("c"))...)
			} else {
				w.takeRun(worker("w"), "")
				w.states(id("a")+" dead", id("b")+" held", id("c")+" held")
			}
		}
	}},
	{"behind_a_stop_cannot_be_settled_later_in_the_same_request", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A")
		ds := w.takeRun(worker("w"), "a1 a2 a3")
		res := w.settle(
			w.answer(ds[1], worker("w"), queue.Ack),
			w.answer(ds[0], worker("w"), queue.Release),
			w.answer(ds[2], worker("w"), queue.Ack),
		)
		equal(w, "codes", [3]queue.Code{res[0].Code, res[1].Code, res[2].Code}, [3]queue.Code{"", "", queue.CodeExpired})
		w.states("a1 ready", "a2 done", "a3 ready")
	}},
	{"before_a_stop_stay_with_their_holder", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A")
		ds := w.takeRun(worker("w"), "a1 a2 a3")
		w.applied(w.answer(ds[1], worker("w"), queue.Release))
		w.states("a1 leased", "a2 ready", "a3 ready")
		w.takeRun(worker("w"), "") // nothing while a1 is out
		w.ack(worker("w"), ds[0])
		w.takeRun(worker("w"), "a2 a3")
	}},
	{"behind_an_ack_stay_with_their_holder", func(w *world) {
		w.given("a1@A", "a2@A")
		ds := w.takeRun(worker("w"), "a1 a2")
		w.ack(worker("w"), ds[0])
		w.states("a2 leased")
		w.ack(worker("w"), ds[1])
	}},
	{"behind_a_dead_letter_under_skip_stay_with_their_holder", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.policy.MaxAttempts = 1
		w.given("a1@A", "a2@A", "a3@A")
		ds := w.takeRun(worker("w"), "a1 a2 a3")
		w.reject(worker("w"), ds[0])
		w.states("a1 dead", "a2 leased", "a3 leased")
		equal(w, "dead", w.fail(worker("w"), ds[1]).DeadCode, queue.CodeAttemptsExhausted)
		w.states("a3 leased")
		w.ack(worker("w"), ds[2])
	}},
	{"of_other_keys_are_nobodys_business", func(w *world) {
		w.given("a1@A", "b1@B", "b2@B")
		ds := w.takeRun(worker("w"), "a1 b1 b2")
		w.fail(worker("w"), ds[0])
		w.states("a1 held", "b1 leased", "b2 leased")
		w.ack(worker("w"), ds[1:]...)
	}},
	{"the_key_waits_for_the_later_of_two_times", func(w *world) {
		w.given("a1@A", "a2@A")
		ds := w.takeRun(worker("w"), "a1 a2")
		later := w.answer(ds[1], worker("w"), queue.Retry)
		later.After = 30 * time.Second
		w.applied(later)
		w.fail(worker("w"), ds[0])
		w.pass(30*time.Second - 1)
		w.takeRun(worker("w"), "")
		w.pass(1)
		w.takeRun(worker("w"), "a1 a2")
	}},
	{"a_dead_letter_behind_a_leased_one_holds_the_key_after_it", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A")
		ds := w.takeRun(worker("w"), "a1 a2 a3")
		w.reject(worker("w"), ds[1])
		w.states("a1 leased", "a2 dead", "a3 held")
		w.ack(worker("w"), ds[0])
		w.takeRun(worker("w"), "")
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{2}))
		w.takeRun(worker("w"), "a3")
	}},
}
