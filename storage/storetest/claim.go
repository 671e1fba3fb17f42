package storetest

import (
	"strconv"
	"strings"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// Of Claim: who gets what, and in which order (P4, P5).
var claimPromises = []promise{
	{"a_delivery_says_everything_about_its_message", func(w *world) {
		spec := "a1@A trace=tr entity=E9 decision=UNMATCHED amount=7.00 currency=EUR priority=2 route=auto note=x"
		w.given(spec)
		accepted := w.now()
		w.pass(time.Second)
		d := w.take(worker("w"), "a1")[0]
		s := w.lines(spec)[0]
		equal(w, "message", d.Message, queue.StoredOf(1, &s.Message))
		equal(w, "counts", [3]any{d.Number, d.FailedAttempts, d.Redelivered}, [3]any{1, 0, false})
		equal(w, "route", d.Route, queue.AutoResolve)
		equal(w, "accepted", d.AcceptedAt.Equal(accepted), true)
		equal(w, "deadline", d.Deadline.Equal(w.now().Add(leaseTime)), true)
		equal(w, "seq of the token", d.Token.Seq, 1)
		x := w.see("a1")
		equal(w, "shown", [3]any{x.State, x.Owner, x.Deliveries}, [3]any{queue.Leased, "w", 1})
		equal(w, "shown deadline", x.Deadline.Equal(d.Deadline), true)
	}},
	{"each_key_gives_its_head_only", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "b2@B", "c1@C")
		w.take(worker("w-1"), "a1 b1 c1")
		w.take(worker("w-1"), "")
		w.take(worker("w-2"), "")
	}},
	{"the_next_of_a_key_comes_when_the_one_before_is_settled", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A")
		for _, id := range []string{"a1", "a2", "a3"} {
			w.ack(worker("w"), w.take(worker("w"), id)...)
		}
		w.take(worker("w"), "")
	}},
	{"several_of_a_key_come_in_the_order_of_their_places", func(w *world) {
		w.given("a1@A", "b1@B", "a2@A", "b2@B", "a3@A")
		ask := wants(worker("w"))
		ask.PerKey = 2
		w.takeWant(ask, "a1 a2 b1 b2")
	}},
	{"nothing_of_a_key_comes_while_anything_of_it_is_leased", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A", "a4@A")
		ask := wants(worker("w-1"))
		ask.PerKey = 2
		ds := w.takeWant(ask, "a1 a2")
		w.takeRun(worker("w-2"), "")
		w.takeRun(worker("w-1"), "")
		w.ack(worker("w-1"), ds[0])
		w.takeRun(worker("w-1"), "")
		w.ack(worker("w-1"), ds[1])
		w.takeRun(worker("w-2"), "a3 a4")
	}},
	{"no_more_than_there_is_room_for", func(w *world) {
		w.given("a1@A", "a2@A", "a3@A", "b1@B", "c1@C")
		ask := wants(worker("w"))
		ask.Max, ask.PerKey = 2, 5
		w.takeWant(ask, "a1 a2")
		ask.Max = 1
		w.takeWant(ask, "b1")
		ask.Max = 0
		w.takeWant(ask, "")
		ask.Max, ask.PerKey = 5, 0
		w.takeWant(ask, "")
	}},
	{"a_want_is_full_once_its_lines_have_so_many_bytes", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "c1@C", "d1@D", "e1@E")
		size := len(w.see("a1").Line)
		ask := wants(worker("w"))
		ask.PerKey = 2
		ask.MaxBytes = size + 1
		w.takeWant(ask, "a1 a2") // the second fills it
		ask.MaxBytes = size
		w.takeWant(ask, "b1") // one fills it exactly
		ask.MaxBytes = 1
		w.takeWant(ask, "c1") // one there is always room for
		ask.MaxBytes, ask.Max = 10*size, 1
		w.takeWant(ask, "d1")
		ask.MaxBytes, ask.Max = 0, 10
		w.takeWant(ask, "e1")
	}},
	{"wants_are_served_in_the_order_of_the_request", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		first, second := wants(worker("w-2")), wants(worker("w-1"))
		first.Max = 2
		res := w.claimAll(first, second)
		equal(w, "first", ids(res.Deliveries[0]), "a1 b1")
		equal(w, "second", ids(res.Deliveries[1]), "c1")
	}},
	{"only_from_the_slots_of_the_owner", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ask := wants(worker("w"))
		ask.Slots = partition.SlotSet{}
		w.takeWant(ask, "")
		ask.Slots.Add(partition.SlotOf("B"))
		w.takeWant(ask, "b1")
		ask.Slots = partition.AllSlots()
		ask.Slots.Remove(partition.SlotOf("A"))
		w.takeWant(ask, "c1")
	}},
	{"keys_of_one_slot_take_their_turns_with_all_others", func(w *world) {
		w.given("a1@A", "b1@B", "a2@"+twin("A"), "c1@C", "b2@"+twin("B"))
		w.take(worker("w"), "a1 b1 a2 c1 b2")
	}},
	{"only_on_the_routes_of_the_owner", func(w *world) {
		w.given("a1@A", "b1@B route=auto", "c1@C amount=0.00")
		ask := wants(worker("w"))
		ask.Routes = 0
		w.takeWant(ask, "")
		ask.Routes = queue.RoutesOf(queue.AutoResolve)
		w.takeWant(ask, "b1 c1")
		ask.Routes = queue.RoutesOf(queue.RouteReview)
		w.takeWant(ask, "a1")
	}},
	{"a_route_never_overtakes_within_a_key", func(w *world) {
		w.given("a1@A", "a2@A route=auto", "a3@A")
		auto, review := wants(worker("auto")), wants(worker("review"))
		auto.Routes, review.Routes = queue.RoutesOf(queue.AutoResolve), queue.RoutesOf(queue.RouteReview)
		auto.PerKey, review.PerKey = 9, 9
		w.takeWant(auto, "")
		ds := w.takeWant(review, "a1") // a3 stands behind a2, which review cannot run
		w.takeWant(auto, "")
		w.ack(worker("review"), ds...)
		w.takeWant(review, "")
		w.ack(worker("auto"), w.takeWant(auto, "a2")...)
		w.takeWant(review, "a3")
	}},
	{"urgent_heads_come_first", func(w *world) {
		w.given("a1@A priority=9", "b1@B", "c1@C priority=0", "d1@D priority=4")
		w.take(worker("w"), "c1 d1 b1 a1")
	}},
	{"a_priority_never_overtakes_within_a_key", func(w *world) {
		w.given("a1@A priority=9", "a2@A priority=0", "b1@B")
		ds := w.take(worker("w"), "b1 a1")
		w.ack(worker("w"), ds...)
		w.given("c1@C")
		w.take(worker("w"), "a2 c1")
	}},
	{"a_key_that_was_served_goes_behind_those_that_wait", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "b2@B", "c1@C")
		one := wants(worker("w"))
		one.Max = 1
		var got []string
		for range 5 {
			ds := w.claim(one)
			got = append(got, ids(ds))
			w.ack(worker("w"), ds...)
		}
		equal(w, "order", strings.Join(got, " "), "a1 b1 c1 a2 b2")
	}},
	{"a_key_whose_head_changes_priority_takes_a_new_turn", func(w *world) {
		w.given("a1@A priority=5", "a2@A priority=3", "b1@B priority=3")
		one := wants(worker("w"))
		one.Max = 1
		w.ack(worker("w"), w.takeWant(one, "b1")...)
		w.given("b2@B priority=3")
		ds := w.take(worker("w"), "b2 a1")
		w.ack(worker("w"), ds[1])
		w.ack(worker("w"), ds[0])
		w.given("b3@B priority=3")
		w.take(worker("w"), "a2 b3")
	}},
	{"waits_that_end_together_queue_up_in_the_order_of_their_times", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D")
		ds := w.take(worker("w"), "a1 b1 c1 d1")
		for i, after := range []time.Duration{30 * time.Second, 10 * time.Second, 20 * time.Second, 10 * time.Second} {
			a := w.answer(ds[i], worker("w"), queue.Retry)
			a.After = after
			w.applied(a)
		}
		w.pass(time.Minute)
		w.take(worker("w"), "b1 d1 c1 a1")
	}},
	{"waits_of_one_time_queue_up_in_the_order_in_which_they_began", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C", "d1@D", "e1@E", "f1@F")
		ds := w.take(worker("w"), "a1 b1 c1 d1 e1 f1")
		until := w.now().Add(30 * time.Second)
		for _, i := range []int{4, 2, 0, 5, 3, 1} {
			a := w.answer(ds[i], worker("w"), queue.Hold)
			a.Until = until
			w.applied(a)
		}
		w.pass(time.Minute)
		w.take(worker("w"), "e1 c1 a1 f1 d1 b1")
	}},
	{"a_retried_head_keeps_its_place", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		w.fail(worker("w"), ds[0])
		w.take(worker("w"), "") // A waits, and only A
		w.given("b2@B", "a3@A")
		w.ack(worker("w"), ds[1])
		w.take(worker("w"), "b2")
		w.pass(time.Second)
		w.takeRun(worker("w"), "a1 a2 a3")
	}},
	{"every_lease_has_a_greater_fence", func(w *world) {
		w.given("a1@A", "b1@B")
		last := uint64(0)
		next := func(ds []queue.Delivery) {
			w.Helper()
			for _, d := range ds {
				if d.Token.Fence <= last {
					w.Fatalf("fence %d after %d", d.Token.Fence, last)
				}
				last = d.Token.Fence
			}
		}
		ds := w.take(worker("w"), "a1 b1")
		next(ds)
		w.applied(w.answer(ds[0], worker("w"), queue.Release))
		next(w.take(worker("w"), "a1"))
		w.crash()
		next(w.take(worker("w"), "a1 b1"))
		w.reopen()
		next(w.take(worker("w"), "a1 b1"))
	}},
	{"a_redelivery_says_so_and_counts", func(w *world) {
		w.given("a1@A")
		w.fail(worker("w"), w.take(worker("w"), "a1")[0])
		w.pass(time.Second)
		d := w.take(consumer("c"), "a1")[0]
		equal(w, "after a failure", [3]any{d.Number, d.FailedAttempts, d.Redelivered}, [3]any{2, 1, false})
		w.pass(leaseTime + 1)
		w.reclaim()
		d = w.take(worker("w"), "a1")[0]
		equal(w, "after a lease that nobody answered", [3]any{d.Number, d.FailedAttempts, d.Redelivered}, [3]any{3, 1, true})
		w.applied(w.answer(d, worker("w"), queue.Release))
		d = w.take(worker("w"), "a1")[0]
		equal(w, "after a release", [3]any{d.Number, d.FailedAttempts, d.Redelivered}, [3]any{3, 1, true})
	}},
	{"nothing_while_claims_are_paused", func(w *world) {
		w.given("a1@A", "b1@B not_before=+1s")
		w.ok(w.store.Pause(w.ctx, w.operator("close of day")), "pause")
		w.pass(time.Minute)
		res := w.claimAll(wants(worker("w")))
		equal(w, "deliveries", ids(res.Deliveries[0]), "")
		equal(w, "next", res.Next.IsZero(), true)
		w.states("b1 scheduled")
		w.ok(w.store.Resume(w.ctx, w.operator("")), "resume")
		w.take(worker("w"), "a1 b1")
	}},
	{"next_is_when_waiting_may_be_over", func(w *world) {
		next := func(want time.Duration) {
			w.Helper()
			res := w.claimAll(wants(worker("w")))
			if res.Next.IsZero() {
				equal(w, "next", time.Duration(-1), want)
				return
			}
			equal(w, "next", res.Next.Sub(w.now()), want)
		}
		next(-1)
		w.given("a1@A", "s1@S not_before=+1h")
		d := w.take(worker("w"), "a1")[0]
		next(time.Hour)
		a := w.answer(d, worker("w"), queue.Hold)
		a.Until = w.now().Add(time.Minute)
		w.applied(a)
		next(time.Minute)
		w.given("b1@B")
		delay := w.fail(worker("w"), w.take(worker("w"), "b1")[0]).Delay
		next(delay)
		w.clock.Step(59*time.Minute + 59*time.Second + 900*time.Millisecond)
		next(100 * time.Millisecond) // the hold is over, and the schedule is on the wall
	}},
	{"an_owner_that_put_a_message_back_is_not_asked_again_at_once", func(w *world) {
		w.given("a1@A", "b1@B")
		d := w.take(consumer("c"), "a1 b1")[0]
		a := w.answer(d, consumer("c"), queue.Release)
		a.Aside = time.Second
		w.applied(a)
		w.states("a1 ready")
		res := w.claimAll(wants(consumer("c")))
		equal(w, "given", ids(res.Deliveries[0]), "")
		equal(w, "next", res.Next.Sub(w.now()), time.Second)
		w.pass(time.Second - 1)
		w.take(consumer("c"), "")
		w.pass(1)
		w.take(consumer("c"), "a1")
	}},
	{"any_other_owner_may_have_what_one_put_back", func(w *world) {
		w.given("a1@A", "a2@A")
		d := w.take(consumer("c"), "a1")[0]
		a := w.answer(d, consumer("c"), queue.Release)
		a.Aside = time.Hour
		w.applied(a)
		w.clock.Step(2 * time.Hour) // aside is elapsed time
		w.take(consumer("c"), "")
		w.ack(consumer("d"), w.take(consumer("d"), "a1")...)
		w.take(consumer("c"), "a2") // it was about a1
	}},
}

// twin returns another partition key in the slot of this one.
func twin(key string) string {
	for i := 0; ; i++ {
		if other := key + strconv.Itoa(i); partition.SlotOf(other) == partition.SlotOf(key) {
			return other
		}
	}
}
