package storetest

import (
	"strings"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// lines makes submissions of lines in the notation.
func (w *world) lines(specs ...string) []queue.Submission {
	w.Helper()
	out := make([]queue.Submission, len(specs))
	for i, spec := range specs {
		s, err := submit(w.now(), spec)
		w.ok(err, "notation")
		out[i] = s
	}
	return out
}

func (w *world) admitLines(lines []queue.Submission) queue.AdmitResult {
	w.Helper()
	res, err := w.store.Admit(w.ctx, queue.AdmitRequest{Now: w.now(), Peer: w.peer, Limits: w.limits, Lines: lines})
	w.ok(err, "admit")
	if len(res.Receipts) != len(lines) {
		w.Fatalf("%d receipts for %d lines", len(res.Receipts), len(lines))
	}
	return res
}

// admit stores lines and returns their receipts in words.
func (w *world) admit(specs ...string) []string {
	w.Helper()
	var out []string
	for _, r := range w.admitLines(w.lines(specs...)).Receipts {
		out = append(out, receiptText(r))
	}
	return out
}

// given is admit for lines that the test takes as stored.
func (w *world) given(specs ...string) {
	w.Helper()
	for i, got := range w.admit(specs...) {
		if !strings.HasPrefix(got, "accepted ") {
			w.Fatalf("%s: %s", specs[i], got)
		}
	}
}

// worker and consumer are owners.
func worker(name string) queue.Owner { return queue.Owner{Kind: queue.Worker, Name: name} }
func consumer(name string) queue.Owner {
	return queue.Owner{Kind: queue.Consumer, Name: name, UID: 1000}
}

// leaseTime is how long leases run here unless a test says otherwise.
const leaseTime = 30 * time.Second

// wants is the usual request of an owner: whatever there is, one per key.
func wants(o queue.Owner) queue.Want {
	return queue.Want{
		Owner: o, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...),
		Max: 100, PerKey: 1, Lease: leaseTime,
	}
}

func (w *world) claimAll(wants ...queue.Want) queue.ClaimResult {
	w.Helper()
	res, err := w.store.Claim(w.ctx, queue.ClaimRequest{Now: w.now(), Wants: wants})
	w.ok(err, "claim")
	if len(res.Deliveries) != len(wants) {
		w.Fatalf("%d answers for %d wants", len(res.Deliveries), len(wants))
	}
	return res
}

// claim asks for one owner.
func (w *world) claim(want queue.Want) []queue.Delivery {
	w.Helper()
	return w.claimAll(want).Deliveries[0]
}

// take claims for an owner and expects exactly these, by idempotency key.
func (w *world) take(o queue.Owner, want string) []queue.Delivery {
	w.Helper()
	return w.takeWant(wants(o), want)
}

// takeRun is take of several messages per key.
func (w *world) takeRun(o queue.Owner, want string) []queue.Delivery {
	w.Helper()
	ask := wants(o)
	ask.PerKey = 100
	return w.takeWant(ask, want)
}

func (w *world) takeWant(ask queue.Want, want string) []queue.Delivery {
	w.Helper()
	got := w.claim(ask)
	if ids(got) != want {
		w.Fatalf("%s was given %q, want %q", ask.Owner.Name, ids(got), want)
	}
	return got
}

// answer is a settlement of a delivery by its owner, now.
func (w *world) answer(d queue.Delivery, o queue.Owner, verb queue.Verb) queue.Settlement {
	a := queue.Settlement{Token: d.Token, Owner: o, Verb: verb, At: w.now()}
	if verb == queue.Ack {
		a.Outcome = "DONE"
	}
	return a
}

func (w *world) settle(answers ...queue.Settlement) []queue.SettleResult {
	w.Helper()
	res, err := w.store.Settle(w.ctx, queue.SettleRequest{Now: w.now(), Policy: w.policy, Settlements: answers})
	w.ok(err, "settle")
	if len(res) != len(answers) {
		w.Fatalf("%d answers for %d settlements", len(res), len(answers))
	}
	return res
}

// applied settles and expects no refusal.
func (w *world) applied(answers ...queue.Settlement) []queue.SettleResult {
	w.Helper()
	res := w.settle(answers...)
	for i, r := range res {
		if r.Code != "" {
			w.Fatalf("settlement %d was refused: %s %s", i, r.Code, r.Error)
		}
	}
	return res
}

// refused settles one answer and expects its code.
func (w *world) refused(a queue.Settlement, want queue.Code) {
	w.Helper()
	if got := w.settle(a)[0]; got.Code != want {
		w.Fatalf("got code %q, want %q", got.Code, want)
	}
}

// ack settles deliveries of one owner with the outcome DONE.
func (w *world) ack(o queue.Owner, ds ...queue.Delivery) {
	w.Helper()
	for _, d := range ds {
		w.applied(w.answer(d, o, queue.Ack))
	}
}

// fail retries a delivery.
func (w *world) fail(o queue.Owner, d queue.Delivery) queue.SettleResult {
	w.Helper()
	a := w.answer(d, o, queue.Retry)
	a.Reason = "it failed"
	return w.applied(a)[0]
}

// reject sends a delivery to the dead letters.
func (w *world) reject(o queue.Owner, d queue.Delivery) {
	w.Helper()
	a := w.answer(d, o, queue.Reject)
	a.Reason = "no good"
	w.applied(a)
}

func (w *world) reclaim() []queue.Reclaimed {
	w.Helper()
	res, err := w.store.Reclaim(w.ctx, queue.ReclaimRequest{Now: w.now(), Policy: w.policy, Max: 100})
	w.ok(err, "reclaim")
	return res
}

// operator is somebody's action.
func (w *world) operator(reason string) queue.Action {
	return queue.Action{Now: w.now(), By: "olga", Reason: reason, Peer: &queue.Peer{UID: 0, GID: 0, PID: 5}}
}

// done expects that every element of an operator's list was done.
func (w *world) done(res []queue.ActionResult, err error) {
	w.Helper()
	w.ok(err, "operator's action")
	for _, r := range res {
		if r.Code != "" {
			w.Fatalf("%d%s: %s %s", r.Seq, r.Key, r.Code, r.Error)
		}
	}
}

// edit gives a dead letter the content of a line in the notation.
func (w *world) edit(seq uint64, spec string) queue.EditResult {
	w.Helper()
	line, err := lineOf(w.now(), spec)
	w.ok(err, "notation")
	x := w.look(seq)
	was := x.LineHash
	if x.EditedHash != (queue.Hash{}) {
		was = x.EditedHash
	}
	return w.editLine(queue.Edit{Seq: seq, Was: was, Line: []byte(line)})
}

func (w *world) editLine(e queue.Edit) queue.EditResult {
	w.Helper()
	res, err := w.store.Edit(w.ctx, w.operator("as the branch says"), []queue.Edit{e})
	w.ok(err, "edit")
	if len(res) != 1 || res[0].Seq != e.Seq {
		w.Fatalf("edited %d: %+v", e.Seq, res)
	}
	return res[0]
}

// edited expects that an edit was done.
func (w *world) edited(seq uint64, spec string) queue.EditResult {
	w.Helper()
	r := w.edit(seq, spec)
	if r.Code != "" {
		w.Fatalf("edit of %d was refused: %s %s %s", seq, r.Code, r.Field, r.Error)
	}
	return r
}

// notEdited expects a refusal, as "CODE field", and that nothing has changed.
func (w *world) notEdited(seq uint64, spec, want string) {
	w.Helper()
	before, mark := w.look(seq), w.mark()
	r := w.edit(seq, spec)
	equal(w, "refusal", strings.TrimSpace(string(r.Code)+" "+r.Field), want)
	equal(w, "says why", r.Error != "", true)
	equal(w, "the letter", w.look(seq), before)
	w.since(mark)
}

// codes returns the codes of an operator's list.
func (w *world) codes(res []queue.ActionResult, err error) []queue.Code {
	w.Helper()
	w.ok(err, "operator's action")
	out := make([]queue.Code, len(res))
	for i, r := range res {
		out[i] = r.Code
	}
	return out
}
