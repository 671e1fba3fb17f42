package storetest

import (
	"fmt"
	"time"

	"breakwater/queue"
)

// Of Settle: the five answers (P3, P5, P8).
var settlePromises = []promise{
	{"an_ack_ends_it_for_good", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		mark := w.mark()
		res := w.applied(w.answer(d, worker("w"), queue.Ack))[0]
		equal(w, "result", [2]any{res.Seq, res.DeadCode}, [2]any{uint64(1), queue.Code("")})
		w.since(mark, "DECIDED a1")
		equal(w, "status", statusText(w.status()), "done=1 ledger=1")
		w.crash()
		w.take(worker("w"), "")
		w.pass(time.Hour)
		w.take(worker("w"), "")
		w.states("a1 done")
	}},
	{"an_ack_is_recorded_as_it_was_given", func(w *world) {
		w.given("a1@A")
		a := w.answer(w.take(consumer("ui"), "a1")[0], consumer("ui"), queue.Ack)
		a.Outcome, a.By, a.Note, a.Peer = "APPROVED_2", "alice", "checked \"twice\"\n", &queue.Peer{UID: 7, GID: 8, PID: 9}
		w.pass(time.Second)
		w.applied(a)
		r := w.records(queue.TrailQuery{Event: queue.EventDecided})[0]
		equal(w, "record", r, queue.Record{
			N: r.N, TS: r.TS, Event: queue.EventDecided, Seq: 1,
			TraceID: "t-a1", SourceHash: w.lines("a1@A")[0].Message.SourceHash, MatchDecision: queue.Partial,
			PartitionKey: "A", Amount: "-1042.37", Worker: "ui", Route: queue.RouteReview,
			Outcome: "APPROVED_2", By: "alice", Note: "checked \"twice\"\n", Delivery: 1, Peer: a.Peer,
		})
		equal(w, "when", r.TS.Equal(w.now()), true)
	}},
	{"a_settled_message_can_be_looked_at_without_its_line", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		w.pass(time.Second)
		w.ack(worker("w"), d)
		x := w.see("a1")
		equal(w, "shown", [5]any{x.State, x.Outcome, x.TraceID, x.Deliveries, len(x.Line)}, [5]any{queue.Done, "DONE", "t-a1", 1, 0})
		equal(w, "settled", x.SettledAt.Equal(w.now()), true)
		equal(w, "hash", x.LineHash, w.lines("a1@A")[0].LineHash)
	}},
	{"an_outcome_is_a_word", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		mark := w.mark()
		long := make([]byte, queue.MaxOutcome+1)
		for i := range long {
			long[i] = 'A'
		}
		for _, outcome := range []string{"", "done", "A B", "Ä", string(long)} {
			a := w.answer(d, worker("w"), queue.Ack)
			a.Outcome = outcome
			w.refused(a, queue.CodeUsage)
		}
		w.refused(w.answer(d, worker("w"), 0), queue.CodeUsage)
		w.refused(w.answer(d, worker("w"), queue.Reject+1), queue.CodeUsage)
		w.since(mark)
		a := w.answer(d, worker("w"), queue.Ack)
		a.Outcome = string(long[1:])
		w.applied(a)
	}},
	{"a_retry_waits_its_delay", func(w *world) {
		w.given("a1@A", "a2@A")
		for n, random := range []uint32{0, 1 << 31} {
			a := w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Retry)
			a.Random, a.Reason = random, "no answer"
			res := w.applied(a)[0]
			equal(w, "delay", res.Delay, w.policy.RetryDelay(n+1, random, 0))
			w.states("a1 held", "a2 held")
			x := w.see("a1")
			equal(w, "due", x.DueAt.Equal(w.now().Add(res.Delay)), true)
			equal(w, "failed", x.FailedAttempts, n+1)
			w.pass(res.Delay - 1)
			w.take(worker("w"), "")
			w.pass(1)
		}
		w.takeRun(worker("w"), "a1 a2")
	}},
	{"a_retry_waits_no_less_than_it_was_asked_to", func(w *world) {
		w.given("a1@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		a, b := w.answer(ds[0], worker("w"), queue.Retry), w.answer(ds[1], worker("w"), queue.Retry)
		a.After, b.After = 7*time.Second, time.Hour
		res := w.applied(a, b)
		equal(w, "delay", res[0].Delay, 7*time.Second)
		equal(w, "capped delay", res[1].Delay, w.policy.RetryMax)
	}},
	{"a_backoff_is_elapsed_time_wherever_the_clock_is_set", func(w *world) { // B37
		for i, step := range clockSteps(w) {
			id := fmt.Sprintf("a%d", i)
			w.given(id + "@" + id)
			delay := w.fail(worker("w"), w.take(worker("w"), id)[0]).Delay
			w.clock.Step(step)
			w.take(worker("w"), "")
			w.pass(delay - 1)
			w.take(worker("w"), "")
			w.pass(1)
			w.ack(worker("w"), w.take(worker("w"), id)...)
			w.clock.Step(-step)
		}
	}},
	{"the_last_attempt_makes_a_dead_letter", func(w *world) {
		w.given("a1@A", "a2@A")
		for n := 1; n < w.policy.MaxAttempts; n++ {
			equal(w, "dead", w.fail(worker("w"), w.take(worker("w"), "a1")[0]).DeadCode, "")
			w.pass(w.policy.RetryMax)
		}
		d := w.take(worker("w"), "a1")[0]
		mark := w.mark()
		res := w.fail(worker("w"), d)
		equal(w, "result", [2]any{res.DeadCode, res.Delay}, [2]any{queue.CodeAttemptsExhausted, time.Duration(0)})
		w.since(mark, "RETRIED a1", "DEAD_LETTERED a1 ATTEMPTS_EXHAUSTED")
		equal(w, "no time to wait for", w.records(queue.TrailQuery{AfterN: mark})[0].Until.IsZero(), true)
		x := w.see("a1")
		equal(w, "letter", [5]any{x.State, x.Code, x.Reason, x.FailedAttempts, x.Place},
			[5]any{queue.Dead, queue.CodeAttemptsExhausted, "it failed", 3, queue.Place{Seq: 1}})
		equal(w, "line", string(x.Line), string(w.lines("a1@A")[0].Message.Line))
		w.states("a2 held")
	}},
	{"a_failure_on_the_last_delivery_makes_a_dead_letter", func(w *world) {
		w.policy.MaxAttempts, w.policy.MaxDeliveries = 100, 2
		w.given("a1@A")
		equal(w, "dead", w.fail(worker("w"), w.take(worker("w"), "a1")[0]).DeadCode, "")
		w.pass(w.policy.RetryMax)
		equal(w, "dead", w.fail(worker("w"), w.take(worker("w"), "a1")[0]).DeadCode, queue.CodeDeliveriesExhausted)
	}},
	{"a_release_counts_as_nothing", func(w *world) {
		w.policy.MaxDeliveries = 2
		w.given("a1@A")
		for range 5 {
			d := w.take(worker("w"), "a1")[0]
			equal(w, "delivery", [2]int{d.Number, d.FailedAttempts}, [2]int{1, 0})
			a := w.answer(d, worker("w"), queue.Release)
			a.Reason, a.Code = "the handler is away", queue.CodeHandlerUnavailable
			mark := w.mark()
			w.applied(a)
			w.since(mark, "RELEASED a1 HANDLER_UNAVAILABLE")
			w.states("a1 ready")
		}
		equal(w, "deliveries", w.see("a1").Deliveries, 0)
	}},
	{"a_hold_waits_until_a_time_on_the_wall", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B")
		a := w.answer(w.take(worker("w"), "a1 b1")[0], worker("w"), queue.Hold)
		a.Until, a.Reason = w.now().Add(time.Hour), "the counterparty is closed"
		mark := w.mark()
		w.applied(a)
		w.since(mark, "HELD a1")
		x := w.see("a1")
		equal(w, "shown", [2]any{x.State, x.Deliveries}, [2]any{queue.Held, 0})
		equal(w, "due", x.DueAt.Equal(w.now().Add(time.Hour)), true)
		w.pass(59 * time.Minute)
		w.take(worker("w"), "")
		w.clock.Step(time.Minute)
		equal(w, "delivery", w.takeRun(worker("w"), "a1 a2")[0].Number, 1)
	}},
	{"a_hold_outlasts_a_clock_that_is_set_back", func(w *world) {
		w.given("a1@A")
		a := w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Hold)
		a.Until = w.now().Add(time.Hour)
		w.applied(a)
		w.clock.Step(-time.Hour)
		w.pass(90 * time.Minute)
		w.take(worker("w"), "")
		w.pass(30 * time.Minute)
		w.take(worker("w"), "a1")
	}},
	{"a_hold_until_the_past_is_a_release", func(w *world) {
		w.given("a1@A")
		a := w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Hold)
		a.Until = w.now()
		mark := w.mark()
		w.applied(a)
		w.since(mark, "HELD a1")
		w.states("a1 ready")
		w.take(worker("w"), "a1")
	}},
	{"a_reject_makes_a_dead_letter_that_holds_its_key", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B")
		d := w.take(worker("w"), "a1 b1")[0]
		mark := w.mark()
		w.reject(worker("w"), d)
		w.since(mark, "DEAD_LETTERED a1 REJECTED")
		x := w.see("a1")
		equal(w, "letter", [4]any{x.State, x.Code, x.Reason, x.DeadAt.Equal(w.now())}, [4]any{queue.Dead, queue.CodeRejected, "no good", true})
		w.take(worker("w"), "")
		w.states("a2 held")
		equal(w, "status", statusText(w.status()), "leased=1 held=1 dead=1 open_keys=2 held_keys=1 ledger=3")
		w.crash()
		w.take(worker("w"), "b1")
	}},
	{"a_dead_letter_under_skip_lets_its_key_go_on", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.given("a1@A", "a2@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.states("a1 dead", "a2 ready")
		equal(w, "the gap is recorded", w.records(queue.TrailQuery{Event: queue.EventDeadLettered})[0].Note, queue.SkippedNote)
		w.policy.OnDeadLetter = queue.HoldKey
		w.crash()
		w.take(worker("w"), "a2")
	}},
	{"each_answer_has_its_own_result", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		bad := w.answer(ds[1], worker("w"), queue.Ack)
		bad.Outcome = "?"
		res := w.settle(
			w.answer(ds[0], worker("w"), queue.Ack), bad, w.answer(ds[0], worker("w"), queue.Ack),
			w.answer(queue.Delivery{Token: queue.Token{Seq: 99, Fence: 1}}, worker("w"), queue.Ack),
			w.answer(ds[2], worker("w"), queue.Reject),
		)
		var codes []queue.Code
		for _, r := range res {
			codes = append(codes, r.Code)
		}
		equal(w, "codes", codes, []queue.Code{"", queue.CodeUsage, queue.CodeAlreadySettled, queue.CodeExpired, ""})
		equal(w, "dead", res[4].DeadCode, queue.CodeRejected)
		w.states("a1 done", "b1 leased", "c1 dead")
	}},
	{"a_result_names_the_message", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		want := d.Message.Summary()
		equal(w, "applied", w.fail(worker("w"), d).Message, &want)
		equal(w, "refused", w.settle(w.answer(d, worker("w"), queue.Ack))[0].Message, &want)
		stranger := queue.Delivery{Token: queue.Token{Seq: 99, Fence: 1}}
		equal(w, "unknown", w.settle(w.answer(stranger, worker("w"), queue.Ack))[0].Message, nil)
	}},
}
