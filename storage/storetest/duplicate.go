package storetest

import (
	"fmt"
	"time"

	"breakwater/queue"
)

// Of the ledger: one idempotency key is one unit of work (P2).
var duplicatePromises = []promise{
	{"of_a_ready_one", func(w *world) {
		w.given("a1@A")
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 ready"})
	}},
	{"of_a_scheduled_one", func(w *world) {
		w.given("a1@A not_before=+1h")
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 scheduled"})
	}},
	{"of_a_leased_one", func(w *world) {
		w.given("a1@A", "a2@A")
		w.take(worker("w"), "a1")
		equal(w, "receipts", w.admit("a1@A", "a2@A"), []string{"duplicate 1 leased", "duplicate 2 ready"})
	}},
	{"of_a_held_one", func(w *world) {
		w.given("a1@A", "a2@A", "b1@B", "c1@C", "c2@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		w.fail(worker("w"), ds[0])
		w.applied(w.answer(ds[1], worker("w"), queue.Release))
		w.done(w.store.HoldKeys(w.ctx, w.operator("look"), []string{"B"}))
		w.reject(worker("w"), ds[2])
		equal(w, "receipts", w.admit("a1@A", "a2@A", "b1@B", "c2@C"),
			[]string{"duplicate 1 held", "duplicate 2 held", "duplicate 3 held", "duplicate 5 held"})
	}},
	{"of_a_done_one_has_its_outcome_and_when", func(w *world) {
		w.given("a1@A")
		d := w.take(worker("w"), "a1")[0]
		w.pass(time.Second)
		settled := w.now()
		w.ack(worker("w"), d)
		w.pass(time.Hour)
		r := w.admitLines(w.lines("a1@A")).Receipts[0]
		equal(w, "receipt", r, queue.Receipt{
			Status: queue.Duplicate, Seq: 1, State: queue.Done, Outcome: "DONE", SettledAt: settled.UTC().Round(0),
		})
	}},
	{"of_a_dead_one", func(w *world) {
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 dead"})
	}},
	{"of_a_discarded_one", func(w *world) {
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{1}))
		equal(w, "receipt", w.admit("a1@A"), []string{"duplicate 1 discarded"})
	}},
	{"of_one_that_ended_otherwise_has_no_outcome_and_no_time", func(w *world) {
		w.given("a1@A", "b1@B")
		for _, d := range w.take(worker("w"), "a1 b1") {
			w.reject(worker("w"), d)
		}
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{2}))
		res := w.admitLines(w.lines("a1@A", "b1@B"))
		equal(w, "dead", res.Receipts[0], queue.Receipt{Status: queue.Duplicate, Seq: 1, State: queue.Dead})
		equal(w, "discarded", res.Receipts[1], queue.Receipt{Status: queue.Duplicate, Seq: 2, State: queue.Discarded})
	}},
	{"of_a_line_of_the_same_request", func(w *world) {
		equal(w, "receipts", w.admit("a1@A", "b1@B", "a1@A", "b1@B not_before=+1h"),
			[]string{"accepted 1", "accepted 2", "duplicate 1 ready", "duplicate 2 ready"})
	}},
	{"is_known_after_a_crash", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		w.ack(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		w.crash()
		equal(w, "receipts", w.admit("a1@A", "b1@B", "c1@C"), []string{"duplicate 1 done DONE", "duplicate 2 dead", "duplicate 3 ready"})
		w.reopen()
		equal(w, "receipts", w.admit("a1@A", "b1@B", "c1@C"), []string{"duplicate 1 done DONE", "duplicate 2 dead", "duplicate 3 ready"})
	}},
	{"is_the_same_content_in_other_bytes", func(w *world) {
		w.given("a1@A")
		// The trace, the schedule, the priority and the sender's own members are
		// not content; neither is how an amount is written (+1e1 and 1E+1).
		equal(w, "receipts", w.admit("a1@A trace=other priority=0 route=auto extra=1 not_before=+1h"), []string{"duplicate 1 ready"})
		w.given("b1@B amount=+1e1")
		equal(w, "receipts", w.admit("b1@B amount=1E+1", "b1@B amount=10"),
			[]string{"duplicate 2 ready", "conflict 3 of 2: variance_amount differs"})
	}},
	{"with_other_content_is_a_conflict_that_names_the_member", func(w *world) {
		w.given("a1@A")
		for i, c := range []struct{ line, member string }{
			{"a1@A entity=E-X", "ledger_entity"},
			{"a1@A amount=-1042.370", "variance_amount"},
			{"a1@A decision=UNMATCHED", "match_decision"},
			{"a1@A currency=EUR", "currency"},
			{"a1@B entity=E-A", "partition_key"},
			{"a1@B entity=E-X amount=1 decision=MATCHED currency=EUR", "ledger_entity"},
			{"a1@B entity=E-A amount=1 decision=MATCHED currency=EUR", "variance_amount"},
			{"a1@B entity=E-A decision=MATCHED currency=EUR", "match_decision"},
			{"a1@B entity=E-A currency=EUR", "currency"},
		} {
			equal(w, c.line, w.admit(c.line), []string{fmt.Sprintf("conflict %d of 1: %s differs", i+2, c.member)})
		}
	}},
	{"with_other_content_is_a_conflict_whatever_became_of_the_first", func(w *world) {
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		w.ack(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		w.reject(worker("w"), ds[2])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{3}))
		w.crash()
		equal(w, "receipts", w.admit("a1@A amount=1", "b1@B decision=MATCHED", "c1@C entity=E"), []string{
			"conflict 4 of 1: variance_amount differs", "conflict 5 of 2: match_decision differs", "conflict 6 of 3: ledger_entity differs",
		})
		w.states("a1 done", "b1 dead", "c1 discarded")
	}},
	{"a_conflict_is_kept_as_a_letter_and_holds_nothing", func(w *world) {
		w.given("a1@A")
		lines := w.lines("a1@A amount=1")
		w.admitLines(lines)
		w.given("a2@A")
		x := w.look(2)
		equal(w, "letter", [4]any{x.State, x.Code, x.Of, x.Reason}, [4]any{queue.Dead, queue.CodeConflict, uint64(1), "variance_amount differs"})
		equal(w, "line", string(x.Line), string(lines[0].Message.Line))
		equal(w, "the key's owner", w.find("a1"), 1)
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a2")...)
		equal(w, "status", statusText(w.status()), "done=2 dead=1 ledger=2")
	}},
	{"is_recorded_once_per_request", func(w *world) {
		w.given("a1@A", "b1@B")
		mark := w.mark()
		w.admit("b1@B", "a1@A", "c1@C", "b1@B", "b1@B", "!{}", "!{}")
		w.since(mark, "ACCEPTED c1", "QUARANTINED  POISON_MESSAGE", "DUPLICATE_SKIPPED 4x b1 a1")
	}},
	{"is_counted_beyond_the_list_of_seqs", func(w *world) {
		var specs []string
		for i := range queue.MaxSkippedSeqs + 10 {
			specs = append(specs, fmt.Sprintf("k%d@K", i))
		}
		w.given(specs...)
		mark := w.mark()
		w.admit(specs...)
		r := w.records(queue.TrailQuery{AfterN: mark})[0]
		equal(w, "count", r.Count, queue.MaxSkippedSeqs+10)
		equal(w, "seqs", len(r.Seqs), queue.MaxSkippedSeqs)
		equal(w, "last", r.Seqs[queue.MaxSkippedSeqs-1], uint64(queue.MaxSkippedSeqs))
	}},
}
