package storetest

import (
	"fmt"
	"time"

	"breakwater/queue"
)

// rejectAll has whatever can be claimed rejected, once.
func (w *world) rejectAll() {
	w.Helper()
	for _, d := range w.claim(wants(worker("w"))) {
		w.reject(worker("w"), d)
	}
}

// seqsOf are the seqs of letters.
func seqsOf(letters []queue.Exception) []uint64 {
	seqs := make([]uint64, len(letters))
	for i := range letters {
		seqs[i] = letters[i].Seq
	}
	return seqs
}

// replayed spells the results of a replay: "1", "2 CODE", "3 CODE behind 2", "4 waits".
func (w *world) replayed(a queue.Action, seqs ...uint64) (out []string) {
	w.Helper()
	res, err := w.store.Replay(w.ctx, a, seqs)
	w.ok(err, "replay")
	for _, r := range res {
		s := fmt.Sprint(r.Seq)
		if r.Code != "" {
			s += " " + string(r.Code)
		}
		if r.Behind != 0 {
			s += fmt.Sprint(" behind ", r.Behind)
		}
		if r.Waits != "" {
			s += " waits"
		}
		if (r.Code != "") != (r.Error != "") {
			w.Fatalf("code and error do not go together: %+v", r)
		}
		out = append(out, s)
	}
	return out
}

// dry is somebody's rehearsal.
func (w *world) dry() queue.Action {
	a := w.operator("")
	a.DryRun = true
	return a
}

// Of lists of dead letters: how they are selected, in which order they are put back,
// what stops them, and what a rehearsal says of it.
var replayPromises = []promise{
	{"letters_are_listed_and_replayed_by_place", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.given("a1@A not_before=+1m", "b1@B", "a2@A", "c1@C not_before=+1m")
		w.rejectAll()
		w.pass(time.Minute)
		w.rejectAll()
		w.given("d1@D")
		w.rejectAll()
		want := []uint64{2, 3, 1, 4, 5} // the scheduled ones fell due behind 4
		equal(w, "listed", seqsOf(w.letters(queue.LetterQuery{})), want)
		w.crash()
		equal(w, "listed", seqsOf(w.letters(queue.LetterQuery{})), want)
		equal(w, "from a place on", seqsOf(w.letters(queue.LetterQuery{After: queue.Place{Seq: 4}})), []uint64{1, 4, 5})
		equal(w, "from a place on", seqsOf(w.letters(queue.LetterQuery{After: w.look(1).Place})), []uint64{4, 5})
		mark := w.mark()
		equal(w, "results in the list's order", w.replayed(w.operator(""), 5, 1, 3, 2), []string{"5", "1", "3", "2"})
		w.since(mark, "REPLAYED b1", "REPLAYED a2", "REPLAYED a1", "REPLAYED d1")
		equal(w, "left", seqsOf(w.letters(queue.LetterQuery{})), []uint64{4})
		res, err := w.store.Replay(w.ctx, w.operator(""), []uint64{4})
		w.ok(err, "replay")
		equal(w, "says where to", res[0].Place, w.look(4).Place)
		equal(w, "none", len(w.letters(queue.LetterQuery{})), 0)
		w.reject(worker("w"), w.takeRun(worker("w"), "b1 a2 a1 d1 c1")[2])
		equal(w, "dead again", seqsOf(w.letters(queue.LetterQuery{})), []uint64{1})
	}},
	{"letters_are_selected", func(w *world) {
		w.given("a1@A", "b1@B")
		w.admit("!{}", "a1@A amount=1.00", "b1@B amount=1.00")
		w.rejectAll()
		w.pass(time.Hour)
		w.admit("![]")
		equal(w, "by code", seqsOf(w.letters(queue.LetterQuery{Code: queue.CodePoison})), []uint64{3, 6})
		equal(w, "by key", seqsOf(w.letters(queue.LetterQuery{PartitionKey: "B"})), []uint64{2, 5})
		equal(w, "by age", seqsOf(w.letters(queue.LetterQuery{DeadBefore: w.now()})), []uint64{1, 2, 3, 4, 5})
		equal(w, "by all", seqsOf(w.letters(queue.LetterQuery{DeadBefore: w.now(), Code: queue.CodeConflict, PartitionKey: "A"})), []uint64{4})
		equal(w, "by seq", seqsOf(w.letters(queue.LetterQuery{Seq: 4})), []uint64{4})
		equal(w, "no letter", len(w.letters(queue.LetterQuery{Seq: 7})), 0)
		w.edited(4, "b9@B")
		equal(w, "by the key that it has now", seqsOf(w.letters(queue.LetterQuery{PartitionKey: "B"})), []uint64{2, 4, 5})
		for _, x := range w.letters(queue.LetterQuery{NoLines: true}) {
			equal(w, "lines", len(x.Line)+len(x.Sent), 0)
		}
	}},
	{"a_key_stops_at_the_first_that_is_refused", func(w *world) {
		w.given("a1@A", "b1@B")
		w.admit("a1@A amount=1.00", `!{"partition_key":"B"}`, "!no key")
		w.given("a2@A", "b2@B", "c1@C")
		w.rejectAll()
		w.done(w.store.Discard(w.ctx, w.operator("void"), []uint64{1, 2}))
		w.rejectAll()
		all := []uint64{8, 7, 6, 5, 4, 3}
		want := []string{
			"8", "7 POISON_MESSAGE behind 4", "6 IDEMPOTENCY_CONFLICT behind 3",
			"5 POISON_MESSAGE", "4 POISON_MESSAGE", "3 IDEMPOTENCY_CONFLICT",
		}
		mark := w.mark()
		equal(w, "rehearsed", w.replayed(w.dry(), all...), want)
		w.since(mark)
		equal(w, "done", w.replayed(w.operator(""), all...), want)
		w.since(mark, "REPLAYED c1")
		equal(w, "alone", w.replayed(w.operator(""), 7, 6), []string{"7", "6"})
	}},
	{"a_rehearsal_says_what_a_replay_would_and_changes_nothing", func(w *world) {
		s := w.lines("q1@Q", "q1@R amount=1.00", "s1@S not_before=+1h")
		for i := range s {
			s[i].Fault = &queue.Fault{Reason: "was refused"}
		}
		w.admitLines(s)
		w.admitLines([]queue.Submission{tooLong()})
		w.given("a1@A", "a2@A")
		w.reject(worker("w"), w.take(worker("w"), "a1")[0])
		status, mark := w.status(), w.mark()
		list := []uint64{1, 2, 3, 4, 5, 5, 6, 99}
		want := []string{"1", "2 IDEMPOTENCY_CONFLICT", "3 waits", "4 USAGE", "5", "5 NOT_FOUND", "6 NOT_FOUND", "99 NOT_FOUND"}
		equal(w, "rehearsed", w.replayed(w.dry(), list...), want)
		w.since(mark)
		equal(w, "nothing has changed", plain(w.status()), plain(status)) // others write to the disk
		want[2] = "3"
		equal(w, "done", w.replayed(w.operator(""), list...), want)
	}},
	{"a_rehearsal_says_what_it_would_wait_for", func(w *world) {
		w.policy.OnDeadLetter = queue.SkipDead
		w.given("a1@A", "a2@A", "b1@B", "c1@C", "d1@D", "d2@D")
		w.rejectAll()
		w.policy.OnDeadLetter = queue.HoldKey
		ds := w.take(worker("w"), "a2 d2")
		w.done(w.store.HoldKeys(w.ctx, w.operator(""), []string{"B"}))
		equal(w, "a leased one, an operator", w.replayed(w.dry(), 1, 3, 4), []string{"1 waits", "3 waits", "4"})
		w.reject(worker("w"), ds[1])
		equal(w, "a dead one", w.replayed(w.dry(), 5), []string{"5 waits"})
		equal(w, "that comes back too", w.replayed(w.dry(), 5, 6), []string{"5", "6"})
		w.ok(w.store.Pause(w.ctx, w.operator("")), "pause")
		equal(w, "a pause", w.replayed(w.dry(), 4), []string{"4 waits"})
	}},
	{"a_rehearsed_discard_changes_nothing", func(w *world) {
		w.admit("!{}")
		w.given("a1@A")
		mark := w.mark()
		equal(w, "codes", w.codes(w.store.Discard(w.ctx, w.dry(), []uint64{1, 2, 1, 9})),
			[]queue.Code{"", queue.CodeNotFound, queue.CodeNotFound, queue.CodeNotFound})
		w.since(mark)
	}},
	{"a_long_list_is_read_and_put_back_in_pages", func(w *world) {
		const n = 60
		for i := range n {
			w.given(fmt.Sprintf("m%d@K%d", i, i%7))
		}
		w.policy.OnDeadLetter = queue.SkipDead
		for range n/7 + 1 {
			w.rejectAll()
		}
		q, done := queue.LetterQuery{Limit: 9}, 0
		for {
			page, err := w.store.DeadLetters(w.ctx, q)
			w.ok(err, "dead letters")
			w.done(w.store.Replay(w.ctx, w.operator(""), seqsOf(page.Letters)))
			done += len(page.Letters)
			if q.After = page.Next; q.After.IsZero() {
				break
			}
			if done == 18 {
				w.crash() // a second command would go on, as this one does
				w.rejectAll()
			}
		}
		equal(w, "each once", done, n)
	}},
}
