package storetest

import (
	"time"

	"breakwater/queue"
)

// Of tokens: only the present holder can answer, and only in time (P4). Whatever
// else comes changes nothing, and is recorded.
var tokenPromises = []promise{
	{"a_second_answer_is_refused", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		a := w.answer(d, worker("w"), queue.Ack)
		w.applied(a)
		for verb := queue.Ack; verb <= queue.Reject; verb++ {
			mark := w.mark()
			w.refused(w.answer(d, worker("w"), verb), queue.CodeAlreadySettled)
			w.since(mark, "REFUSED a1 ALREADY_SETTLED")
			r := w.records(queue.TrailQuery{AfterN: mark})[0]
			equal(w, "whose it was", [3]any{r.TraceID, r.SourceHash, r.MatchDecision}, [3]any{"t-a1", d.Message.SourceHash, d.Message.Decision})
		}
		w.states("a1 done")
		w.crash() // nothing but the records is left of it
		mark := w.mark()
		w.refused(a, queue.CodeAlreadySettled)
		equal(w, "whose it was", w.records(queue.TrailQuery{AfterN: mark})[0].TraceID, "")
	}},
	{"a_second_answer_in_the_same_request_is_refused", func(w *world) {
		w.given("a1@A")
		a := w.answer(w.take(worker("w"), "a1")[0], worker("w"), queue.Ack)
		res := w.settle(a, a)
		equal(w, "codes", [2]queue.Code{res[0].Code, res[1].Code}, [2]queue.Code{"", queue.CodeAlreadySettled})
		equal(w, "status", statusText(w.status()), "done=1 ledger=1")
	}},
	{"an_answer_to_a_dead_letter_is_refused", func(w *world) {
		w.given("a1@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		w.reject(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{2}))
		w.refused(w.answer(ds[0], worker("w"), queue.Ack), queue.CodeAlreadySettled)
		w.refused(w.answer(ds[1], worker("w"), queue.Ack), queue.CodeAlreadySettled)
		w.states("a1 dead", "b1 discarded")
	}},
	{"of_a_delivery_that_was_put_back_is_void", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		for i, verb := range []queue.Verb{queue.Retry, queue.Release, queue.Hold} {
			w.policy.RetryInitial = 0
			old := w.take(worker("w"), []string{"a1 b1 c1", "a1 b1 c1", "a1 b1 c1"}[i])
			for _, d := range old {
				w.applied(w.answer(d, worker("w"), verb))
			}
			mark := w.mark()
			w.refused(w.answer(old[0], worker("w"), queue.Ack), queue.CodeExpired)
			w.since(mark, "REFUSED a1 LEASE_EXPIRED")
			fresh := w.take(worker("w"), "a1 b1 c1")
			w.refused(w.answer(old[1], worker("w"), queue.Ack), queue.CodeExpired)
			for _, d := range fresh {
				w.applied(w.answer(d, worker("w"), queue.Release))
			}
		}
	}},
	{"of_another_owner_is_no_good", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		for _, o := range []queue.Owner{
			{Kind: queue.Consumer, Name: "ui2", UID: 1000},
			{Kind: queue.Consumer, Name: "ui", UID: 1001},
			{Kind: queue.Worker, Name: "ui", UID: 1000},
			{},
		} {
			w.refused(w.answer(d, o, queue.Ack), queue.CodeExpired)
		}
		forged := d
		forged.Token.Fence++
		w.refused(w.answer(forged, consumer("ui"), queue.Ack), queue.CodeExpired)
		forged.Token.Fence = 0
		w.refused(w.answer(forged, consumer("ui"), queue.Ack), queue.CodeExpired)
		w.states("a1 leased")
		w.ack(consumer("ui"), d)
	}},
	{"of_a_message_that_was_never_handed_out_is_no_good", func(w *world) {
		w.given("a1@A", "s1@S not_before=+1h")
		for _, seq := range []uint64{1, 2} {
			d := queue.Delivery{Token: queue.Token{Seq: seq, Fence: 0}}
			w.refused(w.answer(d, worker("w"), queue.Ack), queue.CodeExpired)
		}
	}},
	{"of_a_seq_that_was_never_given_leaves_no_record", func(w *world) {
		w.given("a1@A")
		mark := w.mark()
		for _, seq := range []uint64{0, 2, 1 << 63} {
			w.refused(w.answer(queue.Delivery{Token: queue.Token{Seq: seq, Fence: 1}}, worker("w"), queue.Ack), queue.CodeExpired)
		}
		w.since(mark)
	}},
	{"is_judged_by_when_the_answer_was_read", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		w.pass(leaseTime)
		inTime := w.answer(ds[0], worker("w"), queue.Ack) // exactly at the deadline
		w.pass(1)
		late := w.answer(ds[1], worker("w"), queue.Ack)
		w.pass(time.Minute)
		w.applied(inTime)
		w.refused(late, queue.CodeExpired) // though nobody has reclaimed it
		w.states("b1 leased")
		w.reclaim()
		early := w.answer(ds[2], worker("w"), queue.Ack)
		early.At = early.At.Add(-time.Hour)
		w.refused(early, queue.CodeExpired) // read in time, but another may have it by now
	}},
	{"is_judged_by_elapsed_time", func(w *world) { // B37
		w.given("a1@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		w.clock.Step(time.Hour)
		w.ack(worker("w"), ds[0])
		w.clock.Step(-2 * time.Hour)
		w.pass(leaseTime + 1)
		w.refused(w.answer(ds[1], worker("w"), queue.Ack), queue.CodeExpired)
	}},
	{"a_late_answer_does_not_harm_the_next_holder", func(w *world) {
		w.given("a1@A", "a2@A")
		old := w.take(consumer("slow"), "a1")[0]
		w.reclaimAfter(leaseTime)
		fresh := w.take(consumer("fast"), "a1")[0]
		w.refused(w.answer(old, consumer("slow"), queue.Ack), queue.CodeExpired)
		w.ack(consumer("fast"), fresh)
		w.refused(w.answer(old, consumer("slow"), queue.Reject), queue.CodeAlreadySettled)
		w.states("a1 done", "a2 ready")
	}},
	{"a_refusal_is_recorded_with_who_tried", func(w *world) {
		w.given("a1@A")
		d := w.take(consumer("ui"), "a1")[0]
		w.ack(consumer("ui"), d)
		a := w.answer(d, consumer("ui"), queue.Ack)
		a.By, a.Peer = "bob", &queue.Peer{UID: 1000, GID: 1, PID: 2}
		w.refused(a, queue.CodeAlreadySettled)
		r := w.records(queue.TrailQuery{Event: queue.EventRefused})[0]
		equal(w, "record", r, queue.Record{
			N: r.N, TS: r.TS, Event: queue.EventRefused, Seq: 1, Code: queue.CodeAlreadySettled,
			TraceID: d.Message.TraceID, SourceHash: d.Message.SourceHash, MatchDecision: d.Message.Decision,
			PartitionKey: d.Message.PartitionKey, Amount: d.Message.Amount,
			Worker: "ui", By: "bob", Peer: a.Peer,
		})
	}},
}
