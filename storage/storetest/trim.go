package storetest

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"breakwater/queue"
)

// trim takes one step: records are kept for an hour unless the test says otherwise.
func (w *world) trim(change ...func(*queue.TrimRequest)) queue.TrimResult {
	w.Helper()
	r := queue.TrimRequest{Now: w.now(), Audit: time.Hour}
	for _, c := range change {
		c(&r)
	}
	res, err := w.store.Trim(w.ctx, r)
	w.ok(err, "trim")
	return res
}

// trimAll asks until there is no more to do.
func (w *world) trimAll(change ...func(*queue.TrimRequest)) (records, copies int) {
	w.Helper()
	for range 10_000 {
		res := w.trim(change...)
		records, copies = records+res.Records, copies+res.Copies
		if !res.More {
			return records, copies
		}
	}
	w.Fatalf("there is always more to trim")
	return 0, 0
}

func archivedOnly(r *queue.TrimRequest) { r.RequireArchive = true }

// old makes everything so far old enough to be trimmed. The last block always stays, so
// there is one more.
func (w *world) old() {
	w.Helper()
	w.ok(w.store.Note(w.ctx, w.now(), []queue.Record{{Event: queue.EventAttached, Worker: "ui"}}), "note")
	w.serve(2 * time.Hour)
}

// kept returns what is still there, in words, the records of the system left out.
func (w *world) kept() (out []string) {
	w.Helper()
	names := map[uint64]string{}
	for _, r := range w.history() {
		if r.IdempotencyKey != "" && names[r.Seq] == "" {
			names[r.Seq] = r.IdempotencyKey
		}
	}
	for _, r := range w.records(queue.TrailQuery{}) {
		text := recordText(&r, func(seq uint64) string { return names[seq] })
		if r.CopyOf != 0 {
			text += " (copy)"
		}
		if r.Event != queue.EventStarted && r.Event != queue.EventAttached {
			out = append(out, text)
		}
	}
	return out
}

// verifies expects a verification without findings, of stored rows too.
func (w *world) verifies() queue.Verification {
	w.Helper()
	v, err := w.store.Verify(w.ctx, queue.VerifyOptions{Buckets: true})
	w.ok(err, "verify")
	for _, f := range v.Findings {
		w.Errorf("verify: %+v", f)
	}
	return v
}

// opened expects TRIMMED records, and returns what the last one says.
func (w *world) opened() (r queue.Record, t queue.Trimmed) {
	w.Helper()
	for _, one := range w.records(queue.TrailQuery{Event: queue.EventTrimmed}) {
		if told, ok := queue.ReadTrimmed(&one); ok && told.Before != "" {
			r, t = one, told
		}
	}
	if r.N == 0 {
		w.Fatalf("nothing says that the trail was trimmed")
	}
	return r, t
}

// Of trimming: the beginning of the trail goes, and the rest still proves itself.
var trimPromises = []promise{
	{"removes_what_is_over_and_old", func(w *world) {
		w.expire()
		w.given("a1@A", "b1@B")
		w.finish("a1 b1")
		w.old()
		records, copies := w.trimAll()
		equal(w, "copies", copies, 0)
		if records < 6 {
			w.Fatalf("%d records were removed", records)
		}
		r, t := w.opened()
		st := w.status()
		first := w.records(queue.TrailQuery{})[0].N
		equal(w, "where it begins", [3]uint64{t.First, st.Opening.LastN + 1, st.Opening.Record}, [3]uint64{first, first, r.N})
		equal(w, "what went", [3]uint64{t.Accepted, t.Decided, t.LastSeq}, [3]uint64{2, 2, 2})
		equal(w, "head before it", t.Before, st.Opening.Before.String())
		v := w.verifies()
		equal(w, "accounted for", [2]uint64{v.Balance.Accepted, v.Balance.Decided}, [2]uint64{2, 2})
		equal(w, "first", v.First.N, first)
	}},
	{"keeps_what_is_young", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.serve(50 * time.Minute)
		equal(w, "nothing is old", w.trim(), queue.TrimResult{})
		w.given("b1@B")
		w.finish("b1")
		w.serve(15 * time.Minute)
		w.trimAll()
		equal(w, "kept", w.kept(), []string{
			"ACCEPTED b1", "DISPATCHED b1", "DECIDED b1", "TRIMMED", "TRIMMED",
		})
		w.verifies()
	}},
	{"for_ever_is_for_ever", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.old()
		w.old()
		equal(w, "trimmed", w.trim(func(r *queue.TrimRequest) { r.Audit = 0 }), queue.TrimResult{})
	}},
	{"only_what_an_archive_holds_if_that_is_asked_for", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.old()
		equal(w, "no archive", w.trim(archivedOnly), queue.TrimResult{})
		st := w.status()
		w.given("b1@B")
		w.finish("b1")
		w.ok(w.store.Archived(w.ctx, w.operator(""), queue.ArchiveInfo{Path: "/a", Head: st.Head, Records: st.Records}), "archived")
		w.old()
		records, _ := w.trimAll(archivedOnly)
		equal(w, "archived records", uint64(records), st.Records)
		more, _ := w.trimAll()
		if more == 0 {
			w.Fatalf("nothing more is removed without that")
		}
		w.verifies()
	}},
	{"copies_what_is_open_and_only_what_still_holds", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.expire()
		w.given("a1@A", "b1@B", "c1@C", "d1@D not_before=+1m", "e1@E", "f1@F", "g1@G")
		w.admit("!{}")
		ds := w.take(consumer("ui"), "a1 b1 c1 e1 f1 g1")
		w.ack(consumer("ui"), ds[0])
		w.fail(consumer("ui"), ds[1])
		w.reject(consumer("ui"), ds[2])
		w.applied(w.answer(ds[3], consumer("ui"), queue.Release))
		w.reject(consumer("ui"), ds[5])
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{7}))
		w.pass(2 * time.Minute)
		w.take(worker("w"), "e1 b1 d1")
		w.old()
		w.trimAll()
		equal(w, "kept", w.kept(), []string{
			"TRIMMED", "TRIMMED",
			"ACCEPTED b1 (copy)", "ACCEPTED c1 (copy)", "ACCEPTED d1 (copy)", "ACCEPTED e1 (copy)", "ACCEPTED f1 (copy)",
			"QUARANTINED  POISON_MESSAGE (copy)", "DISPATCHED f1 (copy)", "DEAD_LETTERED c1 REJECTED (copy)",
			"DUE d1 8.1 (copy)", "DISPATCHED e1 (copy)", "DISPATCHED b1 (copy)", "DISPATCHED d1 (copy)",
		})
		r := w.records(queue.TrailQuery{Seq: 2})
		equal(w, "the copy says of what, and when it was", [2]any{r[0].CopyOf < r[0].N, r[0].TS.Before(r[1].TS)}, [2]any{true, true})
		w.verifies()
		w.reopen()
		w.verifies()
	}},
	{"what_was_open_goes_on_as_if_nothing_had_happened", func(w *world) {
		w.expire()
		w.given("a1@A", "a2@A", "b1@B", "c1@C not_before=+1m")
		ds := w.take(worker("w"), "a1 b1")
		w.fail(worker("w"), ds[0])
		w.reject(worker("w"), ds[1])
		w.old()
		w.trimAll()
		w.crash()
		w.finish("a1 c1")
		w.finish("a2")
		w.done(w.store.Replay(w.ctx, w.operator("again"), []uint64{3}))
		w.finish("b1")
		w.verifies()
		w.old()
		w.trimAll()
		w.verifies()
		equal(w, "status", statusText(w.status()), "done=4")
	}},
	{"a_copy_is_copied_again_as_long_as_it_holds", func(w *world) {
		w.expire()
		w.given("a1@A", "b1@B")
		w.reject(worker("w"), w.take(worker("w"), "a1 b1")[0])
		for range 3 {
			w.old()
			w.trimAll()
			w.verifies()
		}
		var first []uint64
		for _, r := range w.records(queue.TrailQuery{Seq: 1}) {
			first = append(first, r.CopyOf)
		}
		equal(w, "copies of", first, []uint64{2, 6})
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{1}))
		w.old()
		w.trimAll()
		w.old()
		w.trimAll()
		if n := len(w.records(queue.TrailQuery{Seq: 1})); n != 0 {
			w.Fatalf("%d records are kept of a message that is over", n)
		}
		w.verifies()
	}},
	{"what_holds_keys_and_claims_is_copied_while_it_does", func(w *world) {
		w.expire()
		w.done(w.store.HoldKeys(w.ctx, w.operator("look"), []string{"A", "B"}))
		w.ok(w.store.Pause(w.ctx, w.operator("close")), "pause")
		w.done(w.store.ReleaseKeys(w.ctx, w.operator("seen"), []string{"B"}))
		w.old()
		w.trimAll()
		equal(w, "kept", w.kept(), []string{"TRIMMED", "KEY_HELD A (copy)", "PAUSED (copy)"})
		w.ok(w.store.Resume(w.ctx, w.operator("")), "resume")
		w.done(w.store.ReleaseKeys(w.ctx, w.operator("seen"), []string{"A"}))
		w.old()
		w.trimAll()
		for _, text := range w.kept() {
			if strings.Contains(text, "(copy)") {
				w.Fatalf("kept: %s", text)
			}
		}
		w.verifies()
	}},
	{"an_edited_letter_keeps_what_was_sent_and_what_it_is", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		w.admit("!{}")
		w.edited(1, "a1@A amount=2.00")
		w.edited(1, "a1@A amount=3.00")
		w.edited(2, "z1@Z")
		w.old()
		w.trimAll()
		equal(w, "kept", w.kept(), []string{
			"TRIMMED", "ACCEPTED a1 (copy)", "DEAD_LETTERED a1 REJECTED (copy)", "QUARANTINED z1 POISON_MESSAGE (copy)",
			"EDITED a1 (copy)", "EDITED z1 (copy)",
		})
		w.verifies()
		w.done(w.store.Replay(w.ctx, w.operator("again"), []uint64{1, 2}))
		w.finish("a1 z1")
		w.verifies()
		equal(w, "told", [2]any{w.look(1).Amount, w.look(1).Trimmed}, [2]any{"3.00", true})
	}},
	{"a_message_that_is_over_is_told_of_as_far_as_its_records_go", func(w *world) {
		w.expire()
		w.given("a1@A", "b1@B", "c1@C")
		ds := w.take(worker("w"), "a1 b1 c1")
		w.ack(worker("w"), ds[0])
		w.serve(30 * time.Minute)
		w.refused(w.answer(ds[1], worker("w"), queue.Retry), queue.CodeExpired)
		w.reclaim()
		w.finish("b1 c1")
		w.serve(45 * time.Minute)
		w.trimAll()
		x := w.look(2)
		equal(w, "half of it", [5]any{x.State, x.Trimmed, x.AcceptedAt.IsZero(), x.TraceID, x.Outcome}, [5]any{queue.Done, true, true, "t-b1", "DONE"})
		if _, err := w.store.Exception(w.ctx, 1); !errors.Is(err, queue.ErrTrimmed) || !errors.Is(err, queue.ErrNotFound) {
			w.Fatalf("of the one whose records are gone: %v", err)
		}
		if _, err := w.store.Exception(w.ctx, 99); errors.Is(err, queue.ErrTrimmed) {
			w.Fatalf("of one that never was: %v", err)
		}
		equal(w, "a query from before begins with what there is", w.records(queue.TrailQuery{AfterN: 1})[0].N, w.status().Opening.LastN+1)
	}},
	{"heads_from_before_cannot_be_looked_for_and_the_last_one_can", func(w *world) {
		w.expire()
		genesis := w.head()
		w.given("a1@A")
		w.finish("a1")
		old := w.head()
		w.old()
		w.trimAll()
		st := w.status()
		v, err := w.store.Verify(w.ctx, queue.VerifyOptions{Witnesses: []queue.Witness{
			{Head: genesis}, {Head: old}, {Head: st.Opening.Before, N: st.Opening.LastN}, {Head: st.Head},
		}})
		w.ok(err, "verify")
		equal(w, "verdicts", fmt.Sprint(v.Verdicts), "[trimmed trimmed found found]")
		equal(w, "findings", len(v.Findings), 0)
		broken := st.Opening.Before
		broken.Hash[0]++
		v, err = w.store.Verify(w.ctx, queue.VerifyOptions{Witnesses: []queue.Witness{{Head: broken}}})
		w.ok(err, "verify")
		equal(w, "verdicts", fmt.Sprint(v.Verdicts), "[differs]")
	}},
	{"a_step_is_bounded", func(w *world) {
		w.expire()
		for i := range 2*queue.TrimBlocks + 5 {
			w.ok(w.store.Note(w.ctx, w.now(), []queue.Record{{Event: queue.EventAttached, Delivery: i}}), "note")
		}
		w.old()
		first := w.trim()
		equal(w, "first", first, queue.TrimResult{Records: queue.TrimBlocks, More: true})
		w.verifies()
		w.crash()
		w.verifies()
		rest, _ := w.trimAll()
		if rest < queue.TrimBlocks+5 {
			w.Fatalf("%d records were removed afterwards", rest)
		}
	}},
	{"the_last_block_stays", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		last := w.mark()
		w.pass(2 * time.Minute)
		w.expire(keysFor(0))
		w.pass(3 * time.Hour)
		w.expire(keysFor(0))
		w.trimAll()
		equal(w, "first", w.records(queue.TrailQuery{})[0].N, last)
		w.verifies()
	}},
	{"the_origin_of_the_trail_survives_restarts", func(w *world) {
		w.expire()
		w.given("a1@A")
		w.finish("a1")
		w.given("b1@B")
		w.old()
		w.trimAll()
		was := w.status().Opening
		w.crash()
		w.reopen()
		equal(w, "opening", w.status().Opening, was)
		equal(w, "a known one", w.see("b1").State, queue.Ready)
		w.verifies()
	}},
}
