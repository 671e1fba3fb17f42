package storetest

import (
	"encoding/json"
	"strings"
	"time"

	"breakwater/queue"
)

// dies gives one message and has it rejected.
func (w *world) dies(spec, id string) {
	w.Helper()
	w.given(spec)
	w.reject(worker("w"), w.take(worker("w"), id)[0])
}

// asEdited expects what is kept of an edited message.
func (w *world) asEdited(seq uint64, sent, is string) {
	w.Helper()
	x := w.look(seq)
	equal(w, "sent", string(x.Sent), sent)
	equal(w, "is", string(x.Line), is)
	equal(w, "hashes", [2]queue.Hash{x.LineHash, x.EditedHash}, [2]queue.Hash{queue.LineHash([]byte(sent)), queue.LineHash([]byte(is))})
	equal(w, "bytes", x.LineBytes, int64(len(sent)))
}

// lineText spells a line of the notation.
func (w *world) lineText(spec string) string {
	w.Helper()
	line, err := lineOf(w.now(), spec)
	w.ok(err, "notation")
	return line
}

// Of Edit: other content for a dead letter, and what was sent stays what was sent.
var editPromises = []promise{
	{"an_edit_keeps_what_was_sent_and_says_both", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		mark := w.mark()
		r := w.edited(1, "a1@A amount=2.00 trace=t-new")
		w.since(mark, "EDITED a1")
		w.asEdited(1, w.lineText("a1@A amount=1.00"), w.lineText("a1@A amount=2.00 trace=t-new"))
		x := w.look(1)
		equal(w, "members", [3]string{x.Amount, x.TraceID, x.IdempotencyKey}, [3]string{"2.00", "t-new", "a1"})
		equal(w, "still dead", [2]any{x.State, x.Code}, [2]any{queue.Dead, queue.CodeRejected})
		e := w.records(queue.TrailQuery{AfterN: mark})[0]
		equal(w, "record", [5]any{e.By, e.Reason, e.TraceID, e.Amount, e.LineSHA256},
			[5]any{"olga", "as the branch says", "t-new", "2.00", x.EditedHash})
		equal(w, "peer", e.Peer, w.operator("").Peer)
		var before, after map[string]any
		w.ok(json.Unmarshal(e.Before, &before), "before")
		w.ok(json.Unmarshal(e.After, &after), "after")
		equal(w, "before", before, map[string]any{
			"source_hash": r.Before.SourceHash.String(), "line_sha256": x.LineHash.String(), "line_bytes": float(len(x.Sent)),
			"variance_amount": "1.00", "trace_id": "t-a1",
		})
		equal(w, "after", after, map[string]any{
			"source_hash": x.SourceHash.String(), "line_sha256": x.EditedHash.String(), "line_bytes": float(len(x.Line)),
			"variance_amount": "2.00", "trace_id": "t-new",
		})
	}},
	{"a_replay_hands_out_the_edited_line_at_its_own_place", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		accepted := w.look(1).AcceptedAt
		w.given("a2@A")
		w.pass(time.Minute)
		mark := w.mark()
		w.edited(1, "a1@A amount=2.00 priority=0 route=auto")
		e := w.records(queue.TrailQuery{AfterN: mark})[0]
		equal(w, "who is to have it is in the record", [2]bool{
			strings.Contains(string(e.Before), `"route":"ROUTE_REVIEW","priority":5`),
			strings.Contains(string(e.After), `"route":"AUTO_RESOLVE","priority":0`),
		}, [2]bool{true, true})
		w.crash()
		w.pass(time.Minute)
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.crash()
		x := w.see("a1")
		equal(w, "open", [3]any{x.State, x.Priority, x.Route}, [3]any{queue.Ready, uint8(0), queue.AutoResolve})
		equal(w, "age counts from the first acceptance", x.AcceptedAt, accepted)
		w.asEdited(1, w.lineText("a1@A amount=1.00"), w.lineText("a1@A amount=2.00 priority=0 route=auto"))
		ds := w.takeRun(worker("w"), "a1 a2")
		equal(w, "delivered", string(ds[0].Message.Line), string(x.Line))
		equal(w, "age", ds[0].AcceptedAt.Equal(accepted), true)
		w.ack(worker("w"), ds...)
		y := w.look(1)
		equal(w, "told afterwards", [5]any{y.State, y.Amount, y.LineHash, y.EditedHash, y.Deaths},
			[5]any{queue.Done, "2.00", x.LineHash, x.EditedHash, 1})
	}},
	{"what_was_sent_and_what_it_became_are_both_duplicates", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		w.edited(1, "a1@A amount=2.00")
		both := []string{"a1@A amount=1.00", "a1@A amount=2.00", "a1@A amount=1.00 trace=again"}
		equal(w, "dead", w.admit(both...), []string{"duplicate 1 dead", "duplicate 1 dead", "duplicate 1 dead"})
		equal(w, "another", w.admit("a1@A amount=3.00"), []string{"conflict 2 of 1: variance_amount differs"})
		w.crash()
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		equal(w, "open", w.admit(both...), []string{"duplicate 1 ready", "duplicate 1 ready", "duplicate 1 ready"})
		w.ack(worker("w"), w.take(worker("w"), "a1")...)
		w.crash()
		equal(w, "done", w.admit(both...), []string{"duplicate 1 done DONE", "duplicate 1 done DONE", "duplicate 1 done DONE"})
	}},
	{"a_second_edit_keeps_the_first_line", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		w.edited(1, "a1@A amount=2.00")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		equal(w, "died twice", w.look(1).Deaths, 2)
		w.edited(1, "a1@A amount=3.00")
		w.edited(1, "a1@A amount=4.00")
		w.asEdited(1, w.lineText("a1@A amount=1.00"), w.lineText("a1@A amount=4.00"))
		w.crash()
		equal(w, "all of them", w.admit("a1@A amount=1.00", "a1@A amount=2.00", "a1@A amount=3.00", "a1@A amount=4.00"),
			[]string{"duplicate 1 dead", "duplicate 1 dead", "duplicate 1 dead", "duplicate 1 dead"})
		w.edited(1, "a1@A amount=1.00")
		equal(w, "back again", w.admit("a1@A amount=4.00", "a1@A amount=1.00"), []string{"duplicate 1 dead", "duplicate 1 dead"})
	}},
	{"an_edit_of_what_is_not_there_any_more_is_refused", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		was := w.look(1).LineHash
		w.edited(1, "a1@A amount=2.00")
		mark := w.mark()
		r := w.editLine(queue.Edit{Seq: 1, Was: was, Line: []byte(w.lineText("a1@A amount=3.00"))})
		equal(w, "refused", [2]any{r.Code, r.Stale(was)}, [2]any{queue.CodeUsage, true})
		equal(w, "what there is", r.Before.LineHash, w.look(1).EditedHash)
		w.since(mark)
	}},
	{"a_rehearsed_edit_changes_nothing", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		w.admit("!{}")
		mark, a := w.mark(), w.dry()
		edits := []queue.Edit{
			{Seq: 1, Was: w.look(1).LineHash, Line: []byte(w.lineText("a1@A amount=2.00"))},
			{Seq: 2, Was: w.look(2).LineHash, Line: []byte(w.lineText("a1@A amount=2.00"))},
		}
		res, err := w.store.Edit(w.ctx, a, edits)
		w.ok(err, "edit")
		equal(w, "codes", [2]queue.Code{res[0].Code, res[1].Code}, [2]queue.Code{"", queue.CodeConflict})
		w.since(mark)
		equal(w, "receipt", w.admit("a1@A amount=2.00"), []string{"conflict 3 of 1: variance_amount differs"})
	}},
	{"an_edit_that_changes_nothing_is_refused", func(w *world) {
		w.dies("a1@A", "a1")
		w.notEdited(1, "a1@A", "USAGE")
	}},
	{"the_gates_judge_an_edit_first", func(w *world) {
		w.dies("a1@A", "a1")
		w.notEdited(1, "a1@A amount=1.005", "POISON_MESSAGE variance_amount")
		w.notEdited(1, "a1@A currency=XYZ", "POISON_MESSAGE currency")
		w.notEdited(1, "!{}", "POISON_MESSAGE idempotency_key")
		w.notEdited(1, "!not JSON", "POISON_MESSAGE")
	}},
	{"what_gave_a_message_its_place_cannot_be_edited", func(w *world) {
		w.dies("a1@A", "a1")
		w.notEdited(1, "a9@A", "USAGE idempotency_key")
		w.notEdited(1, "a1@B", "USAGE partition_key")
		w.notEdited(1, "a1@A not_before=+1h", "USAGE not_before")
	}},
	{"a_time_that_was_given_stays", func(w *world) {
		spec := w.lineText("a1@A amount=1.00 not_before=+1m")
		w.given("!" + spec)
		w.pass(time.Minute)
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.edited(1, "!"+spec[:len(spec)-1]+`,"note":"seen"}`)
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.take(worker("w"), "a1")
	}},
	{"only_dead_letters_are_edited", func(w *world) {
		w.given("a1@A", "b1@B")
		w.ack(worker("w"), w.take(worker("w"), "a1 b1")[0])
		for _, seq := range []uint64{0, 1, 2, 99} {
			r := w.editLine(queue.Edit{Seq: seq, Line: []byte(w.lineText("a1@A amount=2.00"))})
			equal(w, "code", r.Code, queue.CodeNotFound)
		}
	}},
	{"a_line_from_the_door_may_become_a_good_one", func(w *world) {
		bad := `!{"idempotency_key":"a1","partition_key":"A","amount":12}`
		w.admit(bad)
		w.notEdited(1, "!{}", "POISON_MESSAGE idempotency_key")
		w.edited(1, "a1@A amount=12.00")
		w.asEdited(1, bad[1:], w.lineText("a1@A amount=12.00"))
		equal(w, "shown", [3]any{w.see("a1").Code, w.see("a1").Field != "", w.see("a1").Deaths}, [3]any{queue.CodePoison, true, 1})
		equal(w, "status", statusText(w.status()), "dead=1 quarantined=1 ledger=1")
		w.crash()
		w.given("a2@A")
		equal(w, "while it is dead", w.admit(bad, "a1@A amount=12.00"), []string{"duplicate 1 dead", "duplicate 1 dead"})
		w.pass(time.Second)
		mark := w.mark()
		w.done(w.store.Replay(w.ctx, w.operator("corrected"), []uint64{1}))
		w.since(mark, "REPLAYED a1", "ACCEPTED a1")
		r := w.records(queue.TrailQuery{AfterN: mark})[1]
		equal(w, "accepted is the edited line", [2]any{r.LineSHA256, r.LineBytes},
			[2]any{w.look(1).EditedHash, int64(len(w.look(1).Line))})
		w.asEdited(1, bad[1:], w.lineText("a1@A amount=12.00"))
		w.crash()
		equal(w, "status", statusText(w.status()), "ready=2 open_keys=1 ledger=2")
		w.ack(worker("w"), w.takeRun(worker("w"), "a1 a2")...)
		w.crash()
		equal(w, "afterwards", w.admit(bad, "a1@A amount=12.00"), []string{"duplicate 1 done DONE", "duplicate 1 done DONE"})
	}},
	{"a_line_from_the_door_may_be_scheduled", func(w *world) {
		w.admit("!{}")
		w.edited(1, "a1@A not_before=+1h")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.states("a1 scheduled")
		w.asEdited(1, "{}", string(w.see("a1").Line))
		w.pass(time.Hour)
		w.take(worker("w"), "a1")
	}},
	{"a_line_that_was_too_long_may_be_edited", func(w *world) {
		s := tooLong()
		w.admitLines([]queue.Submission{s})
		w.edited(1, "a1@A")
		x := w.look(1)
		equal(w, "sent", [3]any{string(x.Sent), x.LineBytes, x.LineHash}, [3]any{string(s.Message.Line), s.LineBytes, s.LineHash})
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.crash()
		x = w.look(1)
		equal(w, "sent", [3]any{string(x.Sent), x.LineBytes, x.LineHash}, [3]any{string(s.Message.Line), s.LineBytes, s.LineHash})
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.take(worker("w"), "a1")
		equal(w, "again", receiptText(w.admitLines([]queue.Submission{s}).Receipts[0]), "duplicate 1 leased")
	}},
	{"a_conflict_gets_a_key_of_its_own", func(w *world) {
		w.given("a1@A amount=1.00")
		equal(w, "conflict", w.admit("a1@A amount=2.00"), []string{"conflict 2 of 1: variance_amount differs"})
		w.notEdited(2, "a1@A amount=3.00", "IDEMPOTENCY_CONFLICT idempotency_key")
		w.notEdited(2, "a1@A amount=1.00", "IDEMPOTENCY_CONFLICT idempotency_key")
		w.edited(2, "a1b@A amount=2.00")
		equal(w, "found", w.find("a1b"), 2)
		w.crash()
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{2}))
		equal(w, "each is its own", w.admit("a1@A amount=1.00", "a1@A amount=2.00", "a1b@A amount=2.00", "a1@A amount=3.00"),
			[]string{"duplicate 1 ready", "duplicate 2 ready", "duplicate 2 ready", "conflict 3 of 1: variance_amount differs"})
		w.takeRun(worker("w"), "a1 a1b")
	}},
	{"a_conflict_s_content_stays_its_own_when_the_key_is_freed", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		w.admit("a1@A amount=2.00")
		w.edited(2, "a1b@A amount=2.00")
		forget := w.operator("void")
		forget.Forget = true
		w.done(w.store.Discard(w.ctx, forget, []uint64{1}))
		equal(w, "receipts", w.admit("a1@A amount=2.00", "a1@A amount=1.00"), []string{"duplicate 2 dead", "accepted 3"})
	}},
	{"content_that_another_letter_had_is_that_one_s", func(w *world) {
		w.dies("a1@A amount=1.00", "a1")
		w.admit("a1@A amount=2.00")
		w.edited(2, "a1b@A amount=2.00")
		w.notEdited(1, "a1@A amount=2.00", "IDEMPOTENCY_CONFLICT idempotency_key")
	}},
	{"a_key_that_an_edit_gave_is_free_again_after_the_next", func(w *world) {
		w.admit("!{}", "![]")
		w.edited(1, "typo@A")
		w.notEdited(2, "typo@A", "IDEMPOTENCY_CONFLICT idempotency_key")
		w.edited(1, "a1@B")
		equal(w, "status", statusText(w.status()), "dead=2 quarantined=2 ledger=1")
		w.edited(2, "typo@A")
		equal(w, "receipts", w.admit("!{}", "![]", "a1@B", "typo@A"),
			[]string{"duplicate 1 dead", "duplicate 2 dead", "duplicate 1 dead", "duplicate 2 dead"})
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1, 2}))
		w.take(worker("w"), "a1 typo")
	}},
	{"a_discard_of_an_edited_letter_remembers_or_frees_its_key", func(w *world) {
		w.admit("!{}", "![]")
		w.edited(1, "a1@A")
		w.edited(2, "b1@B")
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{1}))
		forget := w.operator("void")
		forget.Forget = true
		w.done(w.store.Discard(w.ctx, forget, []uint64{2}))
		w.crash()
		equal(w, "status", statusText(w.status()), "discarded=2 ledger=1")
		equal(w, "remembered", w.admit("a1@A", "!{}"), []string{"duplicate 1 discarded", "duplicate 1 discarded"})
		equal(w, "free", w.admit("b1@B", "![]"), []string{"accepted 3", "quarantined 4 "})
	}},
	{"a_letter_that_fails_again_says_how_often", func(w *world) {
		w.given("a1@A")
		w.admit("!{}")
		for n := 1; n <= 3; n++ {
			w.reject(worker("w"), w.take(worker("w"), "a1")[0])
			equal(w, "dead", w.see("a1").Deaths, n)
			w.crash()
			equal(w, "dead", w.see("a1").Deaths, n)
			w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
			equal(w, "open", w.see("a1").Deaths, n)
		}
		w.edited(2, "b1@B")
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{2}))
		equal(w, "of the door", w.see("b1").Deaths, 1)
		w.reject(worker("w"), w.take(worker("w"), "a1 b1")[1])
		equal(w, "of the door", w.see("b1").Deaths, 2)
	}},
	{"nothing_resets_the_age_of_an_exception", func(w *world) {
		w.given("a1@A")
		first := w.see("a1").AcceptedAt
		w.pass(time.Minute)
		w.fail(worker("w"), w.take(worker("w"), "a1")[0])
		w.pass(time.Minute)
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.edited(1, "a1@A amount=2.00")
		w.pass(time.Minute)
		w.done(w.store.Replay(w.ctx, w.operator(""), []uint64{1}))
		w.crash()
		equal(w, "shown", w.see("a1").AcceptedAt, first)
		equal(w, "oldest", w.status().Oldest[0].AcceptedAt.Equal(first), true)
		equal(w, "delivered", w.take(worker("w"), "a1")[0].AcceptedAt.Equal(first), true)
	}},
}

// float is a number as JSON decodes it.
func float(n int) any {
	var v any
	b, _ := json.Marshal(n)   // a number always marshals
	_ = json.Unmarshal(b, &v) // and is read back
	return v
}
