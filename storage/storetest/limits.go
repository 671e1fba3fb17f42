package storetest

import (
	"fmt"
	"strings"
	"time"

	"breakwater/queue"
)

// Of the limits: what is full refuses, says so, and takes again when there is
// room (P6, P7). Each limit is tried on both sides.
var limitPromises = []promise{
	{"none_is_no_limit", func(w *world) {
		w.limits = queue.Limits{}
		w.given("a1@A", "b1@B")
		w.admit("!{}")
	}},
	{"max_backlog_counts_whatever_is_open", func(w *world) {
		w.given("a1@A", "b1@B", "b2@B", "c1@C not_before=+1h")
		w.fail(worker("w"), w.take(worker("w"), "a1 b1")[0])
		equal(w, "status", statusText(w.status()), "ready=1 scheduled=1 leased=1 held=1 open_keys=2 held_keys=1 ledger=4")
		w.limits.MaxBacklog = 4
		equal(w, "full", w.admit("d1@D"), []string{"rejected max_backlog"})
		w.limits.MaxBacklog = 5
		equal(w, "room", w.admit("d1@D", "d2@D"), []string{"accepted 5", "rejected max_backlog"})
	}},
	{"max_backlog_has_room_again_after_a_settlement", func(w *world) {
		w.limits.MaxBacklog = 1
		w.given("a1@A")
		d := w.take(worker("w"), "a1")
		equal(w, "full", w.admit("b1@B"), []string{"rejected max_backlog"})
		w.ack(worker("w"), d...)
		equal(w, "room", w.admit("b1@B"), []string{"accepted 2"})
		w.reject(worker("w"), w.take(worker("w"), "b1")[0])
		equal(w, "a dead letter is no backlog", w.admit("c1@C"), []string{"accepted 3"})
	}},
	{"max_open_keys_lets_open_keys_go_on", func(w *world) {
		w.limits.MaxOpenKeys = 2
		w.given("a1@A", "b1@B")
		equal(w, "receipts", w.admit("a2@A", "c1@C"), []string{"accepted 3", "rejected max_open_keys"})
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a2 b1")[2])
		equal(w, "a key was closed", w.admit("c1@C"), []string{"accepted 4"})
	}},
	{"max_open_keys_does_not_count_what_is_not_due", func(w *world) {
		w.limits.MaxOpenKeys = 1
		w.given("a1@A not_before=+1h", "b1@B")
		equal(w, "open keys", w.status().OpenKeys, 1)
		equal(w, "receipts", w.admit("c1@C not_before=+1h"), []string{"rejected max_open_keys"})
	}},
	{"max_open_keys_lets_in_whatever_falls_due", func(w *world) {
		w.limits.MaxOpenKeys = 3
		var later, due []string
		for i := range 13 { // ten more than may be open
			later = append(later, fmt.Sprintf("s%02d@S%02d not_before=+1h", i, i))
			due = append(due, fmt.Sprintf("s%02d", i))
		}
		w.given(later...)
		equal(w, "open keys", w.status().OpenKeys, 0)
		w.pass(time.Hour)
		ds := w.take(worker("w"), strings.Join(due, " "))
		equal(w, "open keys", w.status().OpenKeys, 13)
		equal(w, "new keys wait, those that are open go on", w.admit("t@S12", "a1@A"), []string{"accepted 14", "rejected max_open_keys"})
		equal(w, "scheduled ones too", w.admit("a1@A not_before=+1h"), []string{"rejected max_open_keys"})
		w.ack(worker("w"), ds[:10]...)
		equal(w, "at the limit", w.admit("a1@A"), []string{"rejected max_open_keys"})
		w.ack(worker("w"), ds[10])
		equal(w, "below it", w.admit("a1@A"), []string{"accepted 15"})
		w.ack(worker("w"), ds[11:]...)
		w.take(worker("w"), "a1 t")
		equal(w, "nothing is lost", w.status().Done, 13)
	}},
	{"max_open_keys_counts_a_key_again_that_only_waits", func(w *world) {
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"B"}))
		w.given("c1@C")
		w.limits.MaxOpenKeys = 1
		equal(w, "blocked by a dead letter", w.admit("a2@A"), []string{"rejected max_open_keys"})
		equal(w, "held by an operator", w.admit("b1@B"), []string{"rejected max_open_keys"})
	}},
	{"max_dead_letters_refuses_letters_from_the_door", func(w *world) {
		w.given("a1@A", "b1@B")
		w.limits.MaxDeadLetters = 2
		w.reject(worker("w"), w.take(worker("w"), "a1 b1")[0])
		equal(w, "receipts", w.admit("!{}", "![]", "b1@B amount=1", "c1@C"), []string{
			"quarantined 3 idempotency_key", "rejected max_dead_letters", "rejected max_dead_letters", "rejected max_dead_letters",
		})
		equal(w, "the order goes on", w.admit("c1@C"), []string{"accepted 4"})
		equal(w, "conflict", w.admit("b1@B amount=1"), []string{"rejected max_dead_letters"})
		w.done(w.store.Discard(w.ctx, w.operator("seen"), []uint64{3}))
		equal(w, "room", w.admit("b1@B amount=1"), []string{"conflict 5 of 2: variance_amount differs"})
	}},
	{"max_dead_letters_never_stops_a_message_from_dying", func(w *world) {
		w.limits.MaxDeadLetters = 1
		w.admit("!{}")
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		equal(w, "status", statusText(w.status()), "dead=2 quarantined=1 ledger=1")
	}},
	{"max_ledger_keys_counts_what_is_remembered", func(w *world) {
		w.limits.MaxLedgerKeys = 2
		w.given("a1@A", "b1@B")
		ds := w.take(worker("w"), "a1 b1")
		w.ack(worker("w"), ds[0])
		equal(w, "done is remembered", w.admit("c1@C"), []string{"rejected max_ledger_keys"})
		w.reject(worker("w"), ds[1])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{2}))
		equal(w, "discarded is remembered", w.admit("c1@C"), []string{"rejected max_ledger_keys"})
		equal(w, "a letter needs no entry", w.admit("!{}"), []string{"quarantined 3 idempotency_key"})
	}},
	{"max_ledger_keys_has_room_again_after_a_forget", func(w *world) {
		w.limits.MaxLedgerKeys = 1
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		a := w.operator("resend")
		a.Forget = true
		w.done(w.store.Discard(w.ctx, a, []uint64{1}))
		equal(w, "room", w.admit("c1@C"), []string{"accepted 2"})
	}},
	{"after_a_refusal_nothing_new_overtakes", func(w *world) {
		w.given("a1@A")
		w.admit("!{}")
		w.limits.MaxOpenKeys = 1
		mark := w.mark()
		equal(w, "receipts", w.admit("b1@B", "a2@A", "a1@A", "a1@A amount=1", "!{}", "![]", "b1@B", "a3@A"), []string{
			"rejected max_open_keys", // for B
			"rejected max_open_keys", // A has room, but taking it would overtake
			"duplicate 1 ready",
			"rejected max_open_keys",
			"quarantined 2 idempotency_key (repeat)",
			"rejected max_open_keys",
			"rejected max_open_keys", // again, not a duplicate of what was refused
			"rejected max_open_keys",
		})
		w.since(mark, "DUPLICATE_SKIPPED 1x a1")
		equal(w, "last seq", w.status().LastSeq, 2)
		equal(w, "the next request is judged anew", w.admit("a2@A"), []string{"accepted 3"})
	}},
	{"after_a_refusal_the_first_reason_stays", func(w *world) {
		w.given("a1@A")
		w.admit("!{}")
		w.limits.MaxBacklog, w.limits.MaxDeadLetters, w.limits.MaxLedgerKeys = 1, 1, 1
		equal(w, "receipts", w.admit("b1@B", "![]", "a1@A amount=1"),
			[]string{"rejected max_backlog", "rejected max_backlog", "rejected max_backlog"})
		equal(w, "receipts", w.admit("![]", "b1@B"), []string{"rejected max_dead_letters", "rejected max_dead_letters"})
	}},
	{"a_refusal_has_its_code", func(w *world) {
		w.given("a1@A")
		w.limits.MaxBacklog = 1
		r := w.admitLines(w.lines("b1@B")).Receipts[0]
		if r.Status != queue.Rejected || r.Code != queue.CodeSaturated || r.Error == "" || r.Seq != 0 {
			w.Fatalf("got %+v", r)
		}
	}},
	{"duplicates_are_answered_when_everything_is_full", func(w *world) {
		w.given("a1@A")
		w.ack(worker("w"), w.take(worker("w"), "a1")...)
		w.given("b1@B")
		w.limits = queue.Limits{MaxBacklog: 1, MaxOpenKeys: 1, MaxDeadLetters: 1, MaxLedgerKeys: 1, MaxStoreBytes: 1, MinFreeBytes: 1 << 62}
		equal(w, "receipts", w.admit("a1@A", "b1@B"), []string{"duplicate 1 done DONE", "duplicate 2 ready"})
	}},
	{"a_file_is_bounded_where_there_is_one", func(w *world) {
		w.given("a1@A")
		full := func(limits queue.Limits, why queue.Saturation) {
			w.Helper()
			w.limits = limits
			want := []string{"rejected " + string(why), "rejected " + string(why)}
			if w.status().FileBytes == 0 {
				return // nothing that could be full
			}
			equal(w, "receipts", w.admit("b1@B", "!{}"), want)
		}
		full(queue.Limits{MaxStoreBytes: 1}, queue.FullStore)
		full(queue.Limits{MinFreeBytes: 1 << 62}, queue.FullDisk)
		w.limits = queue.Limits{MaxStoreBytes: 1 << 60, MinFreeBytes: 1}
		w.given("b1@B")
		w.ack(worker("w"), w.take(worker("w"), "a1 b1")...)
		w.pass(time.Second)
	}},
}
