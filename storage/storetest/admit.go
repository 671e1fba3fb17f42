package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"time"

	"breakwater/queue"
)

// tooLong is a line over max_line_bytes as the door hands it on: its first bytes,
// the length and the hash of all of it.
func tooLong() queue.Submission {
	whole := bytes.Repeat([]byte("x"), 300_000)
	return queue.Submission{
		Message:   queue.Message{Line: whole[:4096]},
		Fault:     &queue.Fault{Reason: "the line is longer than 262144 bytes"},
		LineBytes: int64(len(whole)), LineHash: queue.LineHash(whole),
	}
}

// Of Admit: what is stored, under which seq, and what the receipt says (P1, P8).
var admitPromises = []promise{
	{"a_stored_line_takes_the_next_seq_and_no_other_does", func(w *world) {
		equal(w, "receipts", w.admit(
			"a1@A", "a1@A", "a1@A amount=7.00", "a1@A amount=7.00", "!{}", "!{}", "a2@A",
		), []string{
			"accepted 1", "duplicate 1 ready", "conflict 2 of 1: variance_amount differs", "conflict 2 of 1: variance_amount differs (repeat)",
			"quarantined 3 idempotency_key", "quarantined 3 idempotency_key (repeat)", "accepted 4",
		})
		equal(w, "last seq", w.status().LastSeq, 4)
		w.limits.MaxBacklog = 2
		equal(w, "receipts", w.admit("a3@A"), []string{"rejected max_backlog"})
		w.limits.MaxBacklog = 3
		equal(w, "receipts", w.admit("a3@A"), []string{"accepted 5"})
	}},
	{"what_was_accepted_survives_a_crash", func(w *world) {
		res := w.admitLines(w.lines("a1@A", "!not json", "a1@A currency=JPY amount=5"))
		w.crash()
		equal(w, "head", w.records(queue.TrailQuery{})[3].N, 4)
		v, err := w.store.Verify(w.ctx, queue.VerifyOptions{Witnesses: []queue.Witness{{Head: res.Head}}})
		if err != nil || v.Verdicts[0] != queue.WitnessFound {
			w.Fatalf("the head that the receipts showed is lost: %+v, %v", v, err)
		}
		equal(w, "line", string(w.see("a1").Line), string(w.lines("a1@A")[0].Message.Line))
		equal(w, "letters", len(w.letters(queue.LetterQuery{})), 2)
		equal(w, "receipts", w.admit("a1@A", "a2@A"), []string{"duplicate 1 ready", "accepted 4"})
	}},
	{"the_result_names_the_head_after_its_commit", func(w *world) {
		before := w.head()
		first := w.admitLines(w.lines("a1@A")).Head
		equal(w, "head", first, w.head())
		equal(w, "block", first.Block, before.Block+1)
		w.limits.MaxBacklog = 1
		equal(w, "head when nothing was stored", w.admitLines(w.lines("b1@B")).Head, first)
	}},
	{"an_empty_request_changes_nothing", func(w *world) {
		mark := w.mark()
		equal(w, "receipts", len(w.admitLines(nil).Receipts), 0)
		w.since(mark)
	}},
	{"an_accepted_message_is_ready_in_its_order", func(w *world) {
		w.given("a1@A", "b1@B", "a2@A")
		w.states("a1 ready", "b1 ready", "a2 ready")
		x := w.see("a2")
		equal(w, "place", x.Place, queue.Place{Seq: 3})
		equal(w, "status", statusText(w.status()), "ready=3 open_keys=2 ledger=3")
	}},
	{"every_member_is_kept", func(w *world) {
		w.given("a1@A trace=tr-1 entity=E9 decision=UNMATCHED amount=1e2 currency=EUR priority=2 route=auto not_before=+1h note=x")
		s := w.lines("a1@A trace=tr-1 entity=E9 decision=UNMATCHED amount=1e2 currency=EUR priority=2 route=auto not_before=+1h note=x")[0]
		x := w.see("a1")
		equal(w, "stored", x.Stored, queue.StoredOf(1, &s.Message))
		equal(w, "route", x.Route, queue.AutoResolve)
		equal(w, "priority", x.Priority, 2)
		equal(w, "not before", x.NotBefore.Equal(w.now().Add(time.Hour)), true)
		equal(w, "accepted at", x.AcceptedAt.Equal(w.now()), true)
		equal(w, "line", [2]any{x.LineBytes, x.LineHash}, [2]any{s.LineBytes, s.LineHash})
	}},
	{"a_quarantined_line_is_kept_with_its_bytes_and_its_fault", func(w *world) {
		line := `!{"idempotency_key":"q1","trace_id":"t","partition_key":"A","ledger_entity":"E","match_decision":"MAYBE","variance_amount":"1"}` + " "
		w.admit(line, "!\xff\x00 not even text")
		letters := w.letters(queue.LetterQuery{})
		equal(w, "letters", len(letters), 2)
		x := letters[0]
		equal(w, "line", string(x.Line), line[1:])
		equal(w, "second line", string(letters[1].Line), "\xff\x00 not even text")
		equal(w, "code", x.Code, queue.CodePoison)
		equal(w, "field", x.Field, "match_decision")
		equal(w, "ids", [2]string{x.IdempotencyKey, x.TraceID}, [2]string{"q1", "t"})
		equal(w, "place", x.Place.IsZero(), true)
		equal(w, "dead at", x.DeadAt.Equal(w.now()), true)
		if x.Reason == "" {
			w.Fatal("no reason")
		}
		equal(w, "status", statusText(w.status()), "dead=2 quarantined=2")
	}},
	{"a_line_that_is_too_long_is_kept_by_its_beginning_and_its_hash", func(w *world) {
		long := tooLong()
		res := w.admitLines([]queue.Submission{long})
		equal(w, "receipt", receiptText(res.Receipts[0]), "quarantined 1 ")
		x := w.look(1)
		equal(w, "kept", len(x.Line), 4096)
		equal(w, "length", x.LineBytes, 300_000)
		equal(w, "hash", x.LineHash, long.LineHash)
	}},
	{"a_quarantined_line_holds_nothing_and_is_never_handed_out", func(w *world) {
		w.given("a1@A")
		w.admit(`!{"idempotency_key":"a2","partition_key":"A"}`)
		w.given("a3@A")
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a3")...)
		equal(w, "status", statusText(w.status()), "done=2 dead=1 quarantined=1 ledger=2")
	}},
	{"a_repeat_of_an_open_letter_is_not_stored_again", func(w *world) {
		equal(w, "first", w.admit("!{}"), []string{"quarantined 1 idempotency_key"})
		mark := w.mark()
		equal(w, "again", w.admit("!{}", "! {}"), []string{"quarantined 1 idempotency_key (repeat)", "quarantined 2 idempotency_key"})
		w.crash()
		equal(w, "after a crash", w.admit("! {}"), []string{"quarantined 2 idempotency_key (repeat)"})
		w.since(mark, "QUARANTINED  POISON_MESSAGE", "STARTED")
		w.done(w.store.Discard(w.ctx, w.operator("seen"), []uint64{1}))
		equal(w, "after its discard", w.admit("!{}", "!{}"), []string{"quarantined 3 idempotency_key", "quarantined 3 idempotency_key (repeat)"})
	}},
	{"a_repeat_of_a_conflict_has_the_whole_receipt", func(w *world) {
		w.given("a1@A")
		w.admit("a1@A decision=MATCHED")
		r := w.admitLines(w.lines("a1@A decision=MATCHED")).Receipts[0]
		equal(w, "receipt", r, queue.Receipt{
			Status: queue.Conflict, Seq: 2, Of: 1, Code: queue.CodeConflict, Error: "match_decision differs", Repeat: true,
		})
	}},
	{"a_line_that_died_in_the_order_is_not_what_repeats", func(w *world) {
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		s := w.lines("a1@A")
		s[0].Fault = &queue.Fault{Field: "currency", Reason: "is not known any more"}
		equal(w, "receipt", receiptText(w.admitLines(s).Receipts[0]), "quarantined 2 currency")
	}},
	{"a_receipt_of_a_quarantined_line_says_why", func(w *world) {
		s := w.lines("a1@A amount=1.005")
		r := w.admitLines(s).Receipts[0]
		equal(w, "receipt", r, queue.Receipt{
			Status: queue.Quarantined, Seq: 1, Code: queue.CodePoison, Field: "variance_amount", Error: s[0].Fault.Reason,
		})
	}},
	{"nothing_of_the_callers_is_kept", func(w *world) {
		lines := w.lines("a1@A", "!{\"q\":1}")
		want := string(lines[0].Message.Line)
		w.admitLines(lines)
		for i := range lines {
			copy(lines[i].Message.Line, bytes.Repeat([]byte("#"), len(lines[i].Message.Line)))
		}
		equal(w, "stored line", string(w.see("a1").Line), want)
		equal(w, "stored letter", string(w.look(2).Line), `{"q":1}`)
	}},
	{"nothing_of_the_stores_is_shared", func(w *world) {
		w.given("a1@A")
		w.admit("!{}")
		spoil := func(line []byte) { copy(line, bytes.Repeat([]byte("#"), len(line))) }
		spoil(w.see("a1").Line)
		spoil(w.letters(queue.LetterQuery{})[0].Line)
		spoil(w.take(worker("w"), "a1")[0].Message.Line)
		equal(w, "line", string(w.see("a1").Line), string(w.lines("a1@A")[0].Message.Line))
		equal(w, "letter", string(w.look(2).Line), "{}")
	}},
	{"keys_are_bytes", func(w *world) {
		for _, key := range []string{"A", "a", "A ", "\\u0000", "\\u00e9", "e\\u0301", "\\n"} {
			w.admit(fmt.Sprintf(`!{"idempotency_key":"k%s","trace_id":"t","partition_key":"%s","ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"1"}`, key, key))
		}
		equal(w, "status", statusText(w.status()), "ready=7 open_keys=7 ledger=7")
		equal(w, "claimed", len(w.claim(wants(worker("w")))), 7)
	}},
	{"a_large_request_is_one_commit", func(w *world) {
		specs := make([]string, 1500)
		for i := range specs {
			specs[i] = fmt.Sprintf("k%d@K%d", i, i%40)
		}
		before := len(w.commits)
		w.given(specs...)
		equal(w, "commits", len(w.commits)-before, 1)
		equal(w, "records", w.commits[before].count, 1500)
		got := w.takeRun(worker("w"), ids100(specs))
		equal(w, "sorted", slices.IsSortedFunc(got, func(a, b queue.Delivery) int { return int(a.Token.Fence) - int(b.Token.Fence) }), true)
	}},
}

// ids100 is what a claim of 100 gets of lines that are spread over 40 keys: the
// keys in the order in which they came, each with all of its messages.
func ids100(specs []string) string {
	var out []byte
	n := 0
	for key := range 40 {
		for i := key; i < len(specs) && n < 100; i += 40 {
			out = fmt.Appendf(out, "k%d ", i)
			n++
		}
	}
	return string(bytes.TrimSuffix(out, []byte(" ")))
}
