package storetest

import (
	"fmt"
	"time"

	"breakwater/queue"
)

// Of Extend: a lease can be prolonged by its holder, in time.
var extendPromises = []promise{
	{"gives_a_full_length_from_now_under_the_same_token", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		w.pass(leaseTime) // exactly at the deadline is in time
		mark := w.mark()
		res := w.extend(consumer("ui"), time.Minute, d)
		equal(w, "result", [2]any{res[0].Seq, res[0].Code}, [2]any{uint64(1), queue.Code("")})
		equal(w, "deadline", res[0].Deadline.Equal(w.now().Add(time.Minute)), true)
		w.since(mark, "EXTENDED a1")
		equal(w, "shown", w.see("a1").Deadline.Equal(res[0].Deadline), true)
		w.pass(time.Minute)
		equal(w, "reclaimed", len(w.reclaim()), 0)
		w.ack(consumer("ui"), d)
	}},
	{"of_a_worker_leaves_no_record", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		w.pass(leaseTime / 2)
		mark := w.mark()
		w.extend(worker("w"), leaseTime, d)
		w.since(mark)
		w.pass(leaseTime)
		equal(w, "reclaimed", len(w.reclaim()), 0)
		w.pass(1)
		equal(w, "reclaimed", len(w.reclaim()), 1)
	}},
	{"is_refused_to_whoever_does_not_hold_it", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(consumer("ui"), "a1 b1 c1")
		w.ack(consumer("ui"), ds[2])
		forged := ds[1]
		forged.Token.Fence++
		unknown := queue.Delivery{Token: queue.Token{Seq: 99, Fence: 1}}
		mark := w.mark()
		var codes []queue.Code
		for _, r := range append(w.extend(consumer("other"), leaseTime, ds[0]), w.extend(consumer("ui"), leaseTime, forged, ds[2], unknown)...) {
			codes = append(codes, r.Code)
		}
		equal(w, "codes", codes, []queue.Code{queue.CodeExpired, queue.CodeExpired, queue.CodeAlreadySettled, queue.CodeExpired})
		w.since(mark)
		w.pass(leaseTime + 1)
		equal(w, "too late", w.extend(consumer("ui"), leaseTime, ds[0])[0].Code, queue.CodeExpired)
		equal(w, "reclaimed", len(w.reclaim()), 2)
	}},
	{"survives_a_restart_with_its_length", func(w *world) {
		w.given("a1@A", "b1@B")
		ds := w.take(consumer("ui"), "a1 b1")
		w.extend(consumer("ui"), time.Hour, ds[0])
		w.crash()
		w.pass(leaseTime + 1)
		equal(w, "reclaimed", len(w.reclaim()), 1)
		w.pass(time.Hour - leaseTime - 1)
		w.ack(consumer("ui"), ds[0])
	}},
}

// clockSteps are what a clock can suffer (B37): set an hour forward or back, ten
// years ahead by a typing error, at 1970 by an empty battery, and a suspended machine,
// whose monotonic clock stood still for a night.
func clockSteps(w *world) []time.Duration {
	return []time.Duration{time.Hour, -time.Hour, 10 * 365 * 24 * time.Hour, time.Unix(0, 0).Sub(w.now()), 8 * time.Hour}
}

func (w *world) extend(o queue.Owner, lease time.Duration, ds ...queue.Delivery) []queue.ExtendResult {
	w.Helper()
	r := queue.ExtendRequest{Now: w.now(), Owner: o, Lease: lease}
	for _, d := range ds {
		r.Tokens = append(r.Tokens, d.Token)
	}
	res, err := w.store.Extend(w.ctx, r)
	w.ok(err, "extend")
	equal(w, "results", len(res), len(ds))
	return res
}

// Of Reclaim: what nobody answers comes back, and who held it too long is counted
// once (P3, P11).
var reclaimPromises = []promise{
	{"only_after_the_deadline", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		w.pass(leaseTime)
		equal(w, "at the deadline", len(w.reclaim()), 0)
		w.pass(1)
		mark := w.mark()
		res := w.reclaim()
		want := []queue.Reclaimed{{Token: d.Token, Owner: consumer("ui"), Counted: true, Message: d.Message.Summary()}}
		equal(w, "reclaimed", res, want)
		w.since(mark, "RECLAIMED a1 unanswered=1")
		equal(w, "reason", w.records(queue.TrailQuery{AfterN: mark})[0].Reason, queue.ReclaimExpired)
		w.states("a1 ready")
		equal(w, "again", len(w.reclaim()), 0)
	}},
	{"by_elapsed_time_wherever_the_clock_is_set", func(w *world) { // B37
		for i, step := range clockSteps(w) {
			id := fmt.Sprintf("a%d", i)
			w.given(id + "@" + id)
			w.take(consumer("ui"), id)
			w.clock.Step(step)
			equal(w, fmt.Sprintf("at once after %s", step), len(w.reclaim()), 0)
			w.pass(leaseTime)
			equal(w, fmt.Sprintf("at the deadline, after %s", step), len(w.reclaim()), 0)
			w.pass(1)
			equal(w, fmt.Sprintf("after the deadline, after %s", step), len(w.reclaim()), 1)
			w.clock.Step(-step)
			w.ack(worker("w"), w.take(worker("w"), id)...)
		}
	}},
	{"in_the_order_of_deadlines_and_no_more_than_asked_for", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D")
		ask := wants(consumer("ui"))
		ask.Max = 1
		ask.Lease = 3 * time.Second
		w.takeWant(ask, "a1")
		ask.Lease, ask.Max = time.Second, 2
		w.takeWant(ask, "b1 c1")
		ask.Lease = 2 * time.Second
		w.takeWant(ask, "d1")
		w.pass(time.Minute)
		var got []uint64
		for _, size := range []int{0, 1, 2, 1, 0} {
			res, err := w.store.Reclaim(w.ctx, queue.ReclaimRequest{Now: w.now(), Policy: w.policy, Max: min(2, size)})
			w.ok(err, "reclaim")
			equal(w, "size", len(res), size)
			for _, r := range res {
				got = append(got, r.Token.Seq)
			}
		}
		equal(w, "order", got, []uint64{2, 3, 4, 1})
	}},
	{"of_a_consumer_each_counts", func(w *world) {
		w.given("a1@A", "b1@B")
		w.take(consumer("ui"), "a1 b1")
		res := w.reclaimAfter(leaseTime)
		equal(w, "counted", [2]bool{res[0].Counted, res[1].Counted}, [2]bool{true, true})
		ds := w.take(worker("w"), "a1 b1")
		equal(w, "numbers", [2]int{ds[0].Number, ds[1].Number}, [2]int{2, 2})
	}},
	{"of_a_worker_only_the_first_counts", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D")
		one := wants(worker("w-1"))
		one.Max = 2
		w.takeWant(one, "a1 b1")
		w.take(worker("w-2"), "c1 d1")
		mark := w.mark()
		var counted []bool
		for _, r := range w.reclaimAfter(leaseTime) {
			counted = append(counted, r.Counted)
		}
		equal(w, "counted", counted, []bool{true, false, true, false})
		w.since(mark, "RECLAIMED a1 unanswered=1", "RECLAIMED b1", "RECLAIMED c1 unanswered=1", "RECLAIMED d1")
		var numbers []int
		var again []bool
		for _, d := range w.take(worker("w"), "a1 b1 c1 d1") {
			numbers, again = append(numbers, d.Number), append(again, d.Redelivered)
		}
		equal(w, "numbers", numbers, []int{2, 1, 2, 1})
		equal(w, "redelivered", again, []bool{true, false, true, false})
	}},
	{"of_a_worker_what_is_not_first_does_not_count_though_it_expires_alone", func(w *world) {
		w.given("a1@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		w.pass(leaseTime / 2)
		w.extend(worker("w"), leaseTime, ds[0])
		res := w.reclaimAfter(leaseTime / 2)
		equal(w, "reclaimed", [2]any{len(res), res[0].Counted}, [2]any{1, false})
		w.states("a1 leased", "b1 ready")
	}},
	{"puts_back_what_is_leased_behind_it", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B")
		ds := w.takeRun(consumer("ui"), "a1 a2 b1")
		w.pass(leaseTime / 2)
		w.extend(consumer("ui"), leaseTime, ds[1])
		mark := w.mark()
		res := w.reclaimAfter(leaseTime / 2)
		equal(w, "reclaimed", len(res), 2)
		w.since(mark, "RECLAIMED a1 unanswered=1", "RELEASED a2", "RECLAIMED b1 unanswered=1")
		w.refused(w.answer(ds[1], consumer("ui"), queue.Ack), queue.CodeExpired)
		w.takeRun(worker("w"), "a1 a2 b1")
	}},
	{"leaves_what_is_leased_before_it", func(w *world) {
		w.given("a1@A", "a2@A")
		ds := w.takeRun(consumer("ui"), "a1 a2")
		w.pass(leaseTime / 2)
		w.extend(consumer("ui"), leaseTime, ds[0])
		equal(w, "reclaimed", len(w.reclaimAfter(leaseTime/2)), 1)
		w.states("a1 leased", "a2 ready")
		w.takeRun(consumer("ui"), "")
		w.ack(consumer("ui"), ds[0])
		w.takeRun(consumer("ui"), "a2")
	}},
	{"the_last_delivery_makes_a_dead_letter", func(w *world) {
		w.policy.MaxDeliveries = 2
		w.given("a1@A", "a2@A")
		w.take(consumer("ui"), "a1")
		equal(w, "first", w.reclaimAfter(leaseTime)[0].DeadCode, "")
		w.take(consumer("ui"), "a1")
		mark := w.mark()
		equal(w, "last", w.reclaimAfter(leaseTime)[0].DeadCode, queue.CodeDeliveriesExhausted)
		w.since(mark, "RECLAIMED a1 unanswered=2", "DEAD_LETTERED a1 DELIVERIES_EXHAUSTED unanswered=2")
		x := w.see("a1")
		equal(w, "letter", [3]any{x.Code, x.Reason, x.Deliveries}, [3]any{queue.CodeDeliveriesExhausted, queue.ReclaimExpired, 2})
		w.states("a1 dead", "a2 held")
	}},
	{"a_delivery_that_does_not_count_is_never_the_last", func(w *world) {
		w.policy.MaxDeliveries = 1
		w.given("a1@A", "b1@B")
		w.take(worker("w"), "a1 b1")
		w.reclaimAfter(leaseTime)
		w.states("a1 dead", "b1 ready")
	}},
	{"a_dead_letter_under_skip_leaves_its_siblings_leased", func(w *world) {
		w.policy.MaxDeliveries, w.policy.OnDeadLetter = 1, queue.SkipDead
		w.given("a1@A", "a2@A")
		ds := w.takeRun(consumer("ui"), "a1 a2")
		w.pass(leaseTime / 2)
		w.extend(consumer("ui"), leaseTime, ds[1])
		equal(w, "reclaimed", len(w.reclaimAfter(leaseTime/2)), 1)
		w.states("a1 dead", "a2 leased")
		w.ack(consumer("ui"), ds[1])
	}},
	{"goes_on_while_claims_are_paused", func(w *world) {
		w.given("a1@A")
		w.take(consumer("ui"), "a1")
		w.ok(w.store.Pause(w.ctx, w.operator("")), "pause")
		equal(w, "reclaimed", len(w.reclaimAfter(leaseTime)), 1)
	}},
}
