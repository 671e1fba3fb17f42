package boltstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// This file makes the stores that testdata/formats keeps of each version of the file's
// format. What is in them is chosen so that together they hold every kind of bucket, value
// and state that docs/format.md names (TestFormats_have_everything).

// oldLimit is max_line_bytes where these stores lived.
const oldLimit = 4200

// scribe lets a store live by hand, with a clock of its own.
type scribe struct {
	testing.TB
	ctx    context.Context
	s      *Store
	path   string
	now    time.Time
	policy queue.Policy
	n      int      // lines so far
	sent   []string // each line that was sent, once
}

// newScribe makes a store and starts it.
func newScribe(t testing.TB, dir, name string, o Options) *scribe {
	t.Helper()
	w := &scribe{
		TB: t, ctx: context.Background(), path: filepath.Join(dir, name+".db"), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
		policy: queue.Policy{MaxAttempts: 2, MaxDeliveries: 2, RetryInitial: time.Hour, RetryMax: 2 * time.Hour, OnDeadLetter: queue.HoldKey},
	}
	w.open(o)
	w.start(queue.StartRequest{Config: json.RawMessage(`{"queue":{"concurrency":8}}`)})
	return w
}

func (w *scribe) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func (w *scribe) open(o Options) {
	w.Helper()
	var err error
	o.Path = w.path
	w.s, err = openLight(w.TB, Open, o)
	w.ok(err)
}

func (w *scribe) start(r queue.StartRequest) {
	w.Helper()
	r.Now, r.Policy, r.Version = w.now, w.policy, "1.0.0"
	_, err := w.s.Start(w.ctx, r)
	w.ok(err)
}

// pass lets time pass.
func (w *scribe) pass(d time.Duration) { w.now = w.now.Add(d) }

// line is a line of its own under an idempotency key that is not the one of any other.
func (w *scribe) line(key, more string) string {
	w.n++
	return fmt.Sprintf(`{"idempotency_key":"id-%d","trace_id":"t-%d","partition_key":%q,"ledger_entity":"E-%d","match_decision":"PARTIAL","variance_amount":"-1042.37"%s}`,
		w.n, w.n, key, w.n%3, more)
}

// lineSubmitted is a line as the door hands it on.
func lineSubmitted(line string) queue.Submission {
	m, err := queue.ParseLine([]byte(line))
	s := queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash([]byte(line))}
	var failed *queue.GateError
	switch {
	case len(line) > oldLimit:
		s.Message = queue.Message{Line: []byte(line[:4096])}
		s.Fault = &queue.Fault{Reason: fmt.Sprintf("line of %d bytes is over max_line_bytes, %d", len(line), oldLimit)}
	case errors.As(err, &failed):
		s.Fault = &queue.Fault{Field: failed.Field, Reason: failed.Reason}
	case err != nil:
		s.Fault = &queue.Fault{Reason: err.Error()}
	}
	return s
}

// admit sends lines.
func (w *scribe) admit(lines ...string) []queue.Receipt {
	w.Helper()
	r := queue.AdmitRequest{Now: w.now, Peer: queue.Peer{UID: 1000, GID: 100, PID: 77}}
	for _, line := range lines {
		r.Lines = append(r.Lines, lineSubmitted(line))
	}
	res, err := w.s.Admit(w.ctx, r)
	w.ok(err)
	w.sent = append(w.sent, lines...)
	return res.Receipts
}

// Who works on these stores.
var (
	oldWorker   = queue.Owner{Kind: queue.Worker, Name: "w-0"}
	oldConsumer = queue.Owner{Kind: queue.Consumer, Name: "review-ui-1", UID: 1000}
)

// take leases messages of one partition key.
func (w *scribe) take(o queue.Owner, key string, n int) (ds []queue.Delivery) {
	w.Helper()
	want := queue.Want{Owner: o, Routes: queue.RoutesOf(queue.Routes[:]...), Max: n, PerKey: n, Lease: time.Minute}
	want.Slots.Add(partition.SlotOf(key))
	for range 9 { // the window is small: it may have to be walked on first
		res, err := w.s.Claim(w.ctx, queue.ClaimRequest{Now: w.now, Wants: []queue.Want{want}})
		w.ok(err)
		ds = append(ds, res.Deliveries[0]...)
		want.Max = n - len(ds)
		if !res.More || want.Max == 0 {
			break
		}
	}
	if len(ds) != n {
		w.Fatalf("%d of %q were handed out, want %d", len(ds), key, n)
	}
	return ds
}

// answer settles deliveries all in the same way.
func (w *scribe) answer(o queue.Owner, a queue.Settlement, ds ...queue.Delivery) {
	w.Helper()
	r := queue.SettleRequest{Now: w.now, Policy: w.policy}
	for _, d := range ds {
		a.Token, a.Owner, a.At = d.Token, o, w.now
		r.Settlements = append(r.Settlements, a)
	}
	res, err := w.s.Settle(w.ctx, r)
	w.ok(err)
	for _, one := range res {
		if one.Code != "" {
			w.Fatalf("refused: %+v", one)
		}
	}
}

// reject sends one message of a key to the dead letters, and returns its seq.
func (w *scribe) reject(key string) uint64 {
	w.Helper()
	d := w.take(oldWorker, key, 1)[0]
	w.answer(oldWorker, queue.Settlement{Verb: queue.Reject, Reason: "no such account", Stderr: "E42\n"}, d)
	return d.Message.Seq
}

func (w *scribe) action(reason string) queue.Action {
	return queue.Action{Now: w.now, By: "olga", Reason: reason, Peer: &queue.Peer{UID: 0, GID: 0, PID: 5}}
}

// done wants that an operator's list was done.
func (w *scribe) done(res []queue.ActionResult, err error) {
	w.Helper()
	w.ok(err)
	for _, r := range res {
		if r.Code != "" {
			w.Fatalf("%+v", r)
		}
	}
}

// edit gives a dead letter another line.
func (w *scribe) edit(seq uint64, line string) {
	w.Helper()
	x, err := w.s.Exception(w.ctx, seq)
	w.ok(err)
	was := x.LineHash
	if x.EditedHash != (queue.Hash{}) {
		was = x.EditedHash
	}
	res, err := w.s.Edit(w.ctx, w.action("as the branch says"), []queue.Edit{{Seq: seq, Was: was, Line: []byte(line)}})
	w.ok(err)
	if res[0].Code != "" {
		w.Fatalf("edit of %d: %+v", seq, res[0])
	}
	w.sent = append(w.sent, line)
}

// otherAmount is the line with another amount.
func otherAmount(line string) string { return strings.Replace(line, "-1042.37", "-1042.38", 1) }

// over are messages whose lives have ended, in each way.
func (w *scribe) over() {
	w.Helper()
	w.ok(w.s.Note(w.ctx, w.now, []queue.Record{{
		Event: queue.EventAttached, Worker: oldConsumer.Name, Detail: json.RawMessage(`{"prefetch":16,"routes":["ROUTE_REVIEW"]}`), Peer: &queue.Peer{UID: 1000, GID: 100, PID: 78},
	}}))
	acked, zero := w.line("OVER", `,"currency":"EUR"`), w.line("OVER", "")
	zero = strings.Replace(strings.Replace(zero, "-1042.37", "0.00", 1), "PARTIAL", "MATCHED", 1)
	w.admit(acked, zero, strings.Replace(w.line("OVER", `,"currency":"JPY","priority":0`), "-1042.37", "1E+3", 1))
	w.pass(time.Second)
	ds := w.take(oldWorker, "OVER", 3)
	w.answer(oldWorker, queue.Settlement{Verb: queue.Ack, Outcome: "APPROVED", By: "alice", Note: strings.Repeat("a long story, ", 400)}, ds[0])
	w.answer(oldWorker, queue.Settlement{Verb: queue.Release, Reason: "connection refused", Code: queue.CodeHandlerUnavailable, Aside: time.Second}, ds[1])
	w.answer(oldConsumer, queue.Settlement{Verb: queue.Ack, Outcome: "BOOKED_2", By: "bob", Peer: &queue.Peer{UID: 1000, GID: 100, PID: 78}}, w.extended("OVER"))
	w.answer(oldWorker, queue.Settlement{Verb: queue.Ack, Outcome: "DONE"}, w.take(oldWorker, "OVER", 1)...)
	res, err := w.s.Settle(w.ctx, queue.SettleRequest{Now: w.now, Policy: w.policy, Settlements: []queue.Settlement{{
		Token: ds[0].Token, Owner: oldWorker, Verb: queue.Ack, At: w.now, Outcome: "APPROVED",
	}}})
	if err != nil || res[0].Code != queue.CodeAlreadySettled {
		w.Fatalf("%+v, %v", res, err)
	}
	w.admit(acked, zero, acked)
	w.admit(w.line("GONE", ""), w.line("GONE", ""), `{"idempotency_key":"gone"}`)
	w.policy.OnDeadLetter = queue.SkipDead
	freed, kept := w.reject("GONE"), w.reject("GONE")
	w.policy.OnDeadLetter = queue.HoldKey
	a := w.action("booked by hand")
	w.done(w.s.Discard(w.ctx, a, []uint64{kept, kept + 1}))
	a.Forget = true
	w.done(w.s.Discard(w.ctx, a, []uint64{freed}))
	w.ok(w.s.Note(w.ctx, w.now, []queue.Record{{
		Event: queue.EventDetached, Worker: oldConsumer.Name, Detail: json.RawMessage(`{"released":0,"kept":0}`), Reason: "detached",
	}}))
}

// extended leases a message of a key to the consumer and extends the lease.
func (w *scribe) extended(key string) queue.Delivery {
	w.Helper()
	d := w.take(oldConsumer, key, 1)[0]
	w.pass(20 * time.Second)
	res, err := w.s.Extend(w.ctx, queue.ExtendRequest{Now: w.now, Owner: oldConsumer, Tokens: []queue.Token{d.Token}, Lease: time.Minute})
	if err != nil || res[0].Code != "" {
		w.Fatalf("%+v, %v", res, err)
	}
	return d
}

// dead are dead letters of each code, edited or not, and some that came back.
func (w *scribe) dead() {
	w.Helper()
	conflict := otherAmount(w.sent[0])
	w.admit(conflict, `{"idempotency_key":"bad"}`, "no JSON at all", "{\"idempotency_key\":\"bad \xff\xfe\x00bytes\"}",
		strings.Repeat("x", oldLimit+1), `{"idempotency_key":"`+strings.Repeat("k", 300)+`"}`)
	for _, key := range []string{"REJECTED", "TRIED", "UNANSWERED", "BACK UNANSWERED", "EDITED", "BACK", "BACK EDITED"} {
		w.admit(w.line(key, ""), w.line(key, `,"route":"AUTO_RESOLVE"`))
	}
	w.reject("REJECTED")
	w.policy.OnDeadLetter = queue.SkipDead
	for range 2 {
		w.answer(oldWorker, queue.Settlement{Verb: queue.Retry, Reason: "exit status 1", Stderr: "no\n"}, w.take(oldWorker, "TRIED", 1)...)
		w.pass(3 * time.Hour)
	}
	w.policy.OnDeadLetter = queue.HoldKey
	unanswered := uint64(0)
	for range 2 {
		w.take(oldConsumer, "UNANSWERED", 1)
		unanswered = w.take(oldConsumer, "BACK UNANSWERED", 1)[0].Message.Seq
		w.pass(2 * time.Minute)
		_, err := w.s.Reclaim(w.ctx, queue.ReclaimRequest{Now: w.now, Policy: w.policy, Max: 9})
		w.ok(err)
	}
	edited, back, both := w.reject("EDITED"), w.reject("BACK"), w.reject("BACK EDITED")
	w.edit(edited, otherAmount(w.lineOf(edited)))
	w.edit(edited, otherAmount(w.lineOf(edited)[:len(w.lineOf(edited))-1]+`,"seen":true}`))
	w.edit(both, otherAmount(w.lineOf(both)))
	w.done(w.s.Replay(w.ctx, w.action("the account is open"), []uint64{back, both, unanswered}))
	// What never entered the order, edited: one stays, one enters it by a replay.
	first := w.seqOf(conflict)
	w.edit(first, strings.Replace(conflict, `"id-1"`, `"id-1b"`, 1))
	w.edit(w.seqOf(`{"idempotency_key":"bad"}`), w.line("FROM THE DOOR", ""))
	w.done(w.s.Replay(w.ctx, w.action("corrected"), []uint64{w.seqOf(`{"idempotency_key":"bad"}`)}))
	w.edit(w.seqOf(strings.Repeat("x", oldLimit+1)), w.line("TOO LONG", ""))
	w.admit("no JSON at all", conflict) // a repeat, and what was edited
}

// lineOf is the line of a message as it is now.
func (w *scribe) lineOf(seq uint64) string {
	w.Helper()
	x, err := w.s.Exception(w.ctx, seq)
	w.ok(err)
	return string(x.Line)
}

// seqOf finds a message from the door by the line that was sent.
func (w *scribe) seqOf(line string) (seq uint64) {
	w.Helper()
	page, err := w.s.DeadLetters(w.ctx, queue.LetterQuery{Limit: MaxPage})
	w.ok(err)
	for _, x := range page.Letters {
		if x.LineHash == queue.LineHash([]byte(line)) {
			return x.Seq
		}
	}
	w.Fatalf("no letter of %.80q", line)
	return 0
}

// scheduled are messages whose time has not come, or has.
func (w *scribe) scheduled() {
	w.Helper()
	in := func(d time.Duration) string { return `,"not_before":"` + w.now.Add(d).Format(time.RFC3339) + `"` }
	w.admit(w.line("DUE", in(time.Minute)), w.line("DUE", in(time.Minute)), w.line("DUE DEAD", in(2*time.Minute)),
		w.line("LATER", in(48*time.Hour)), w.line("LATER", in(72*time.Hour)))
	w.pass(3 * time.Minute)
	w.reject("DUE DEAD") // the others that are due get their places with it
}

// waits are messages that make their keys wait, and one that was handed out for nothing.
func (w *scribe) waits() {
	w.Helper()
	w.admit(w.line("WAITS", ""), w.line("UNTIL", ""), w.line("CAME BACK", ""), w.line("CUT OFF", ""))
	w.answer(oldWorker, queue.Settlement{Verb: queue.Release, Reason: "cut off by the drain", Unanswered: true}, w.take(oldWorker, "CUT OFF", 1)...)
	w.answer(oldWorker, queue.Settlement{Verb: queue.Retry, Reason: "exit status 75"}, w.take(oldWorker, "WAITS", 1)...)
	w.answer(oldConsumer, queue.Settlement{Verb: queue.Hold, Reason: "the branch is closed", By: "bob", Until: w.now.Add(24 * time.Hour)}, w.take(oldConsumer, "UNTIL", 1)...)
	w.take(oldConsumer, "CAME BACK", 1)
	w.pass(2 * time.Minute)
	_, err := w.s.Reclaim(w.ctx, queue.ReclaimRequest{Now: w.now, Policy: w.policy, Max: 9})
	w.ok(err)
}

// waiting are messages that nobody has yet, more than fit into a small window.
func (w *scribe) ready() {
	w.Helper()
	w.admit(w.line("Zürich 元帳\x01\u202e", `,"priority":9,"nested":{"a":[1,{"b":"\u0000"}],"text":"é"}`),
		strings.Replace(w.line("FREE", ""), "PARTIAL", "UNMATCHED", 1), strings.NewReplacer("-1042.37", "-0.00", "PARTIAL", "MATCHED").Replace(w.line("FREE", "")))
	w.done(w.s.HoldKeys(w.ctx, w.action("look"), []string{"HELD", "HELD AND EMPTY", "WAS HELD"}))
	w.done(w.s.ReleaseKeys(w.ctx, w.action("seen"), []string{"WAS HELD"}))
	for range 12 {
		w.admit(w.line("HELD", ""), w.line("HOT", ""), w.line("HOT", `,"route":"AUTO_RESOLVE","priority":1`))
	}
}

// leased are the leases that there are in the end.
func (w *scribe) leased() (worked []queue.Delivery) {
	w.Helper()
	w.admit(w.line("WITH REVIEW", ""), w.line("WITH REVIEW", ""), w.line("WITH W-0", ""), w.line("WITH W-0", ""), w.line("WITH W-0 TOO", ""))
	w.take(oldConsumer, "WITH REVIEW", 1)
	return append(w.take(oldWorker, "WITH W-0", 2), w.take(oldWorker, "WITH W-0 TOO", 1)...)
}

// paused is what operators do in the end.
func (w *scribe) paused() {
	w.Helper()
	config := json.RawMessage(`{"queue":{"concurrency":16}}`)
	w.ok(w.s.SetConfig(w.ctx, w.action("the close is late"), config, json.RawMessage(`{"queue":{"concurrency":8}}`), config))
	w.ok(w.s.Pause(w.ctx, w.action("wait")))
	w.ok(w.s.Resume(w.ctx, w.action("go on")))
	w.ok(w.s.Pause(w.ctx, w.action("end of the day")))
}

// archived says that an archive holds the trail as it is.
func (w *scribe) archived() {
	w.Helper()
	st, err := w.s.Status(w.ctx, w.now)
	w.ok(err)
	w.ok(w.s.Archived(w.ctx, w.action("month end"), queue.ArchiveInfo{
		Path: "/var/backups/march.db", Head: st.Head, Records: st.Records, SHA256: queue.Hash{0xab}, Bytes: 1 << 20,
	}))
}

// hours serves for so many hours, each of which is an epoch.
func (w *scribe) hours(n int, keep time.Duration) {
	w.Helper()
	for range n {
		w.pass(time.Hour)
		w.ok(w.s.Note(w.ctx, w.now, []queue.Record{{Event: queue.EventAttached, Worker: oldConsumer.Name}})) // an epoch has records
		_, err := w.s.Expire(w.ctx, queue.ExpireRequest{Now: w.now, Passed: time.Hour, Epoch: time.Hour, Ledger: keep})
		w.ok(err)
	}
}

// trim removes what is older than some hours, one step.
func (w *scribe) trim(keep time.Duration) {
	w.Helper()
	res, err := w.s.Trim(w.ctx, queue.TrimRequest{Now: w.now, Audit: keep, RequireArchive: true})
	w.ok(err)
	if res.Records == 0 || res.Copies == 0 {
		w.Fatalf("trimmed: %+v", res)
	}
}

// trimAll removes all that may be removed of the trail.
func (w *scribe) trimAll() (removed int) {
	w.Helper()
	w.archived()
	for {
		res, err := w.s.Trim(w.ctx, queue.TrimRequest{Now: w.now, Audit: time.Minute, RequireArchive: true})
		w.ok(err)
		if removed += res.Records; !res.More {
			return removed
		}
	}
}

// some are a few lines that speak for all.
func some(lines []string) (few []string) {
	for i := 0; i < len(lines); i += 7 {
		few = append(few, lines[i])
	}
	return few
}

// keep copies the store's files as they are at this moment, under another name.
func (w *scribe) keep(name string) {
	w.Helper()
	for _, suffix := range []string{"", ".head", ".lock"} {
		copyFile(w, w.path+suffix, filepath.Join(filepath.Dir(w.path), name+".db"+suffix))
	}
}

// copied makes an archive, without a manifest.
func (w *scribe) copied(name string) {
	w.Helper()
	path := filepath.Join(filepath.Dir(w.path), name+".db")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	w.ok(err)
	defer f.Close()
	_, err = w.s.Snapshot(w.ctx, f, func(SnapshotStep) error { return nil })
	w.ok(errors.Join(err, Seal(f, path, []byte(`{"made_at":"2026-03-02T17:00:00.000000Z","version":"1.0.0"}`))))
}

// amend changes the file of a stopped store. Then neither its note nor its witness are
// of this file any more.
func (w *scribe) amend(change func(*bolt.Tx) error) {
	w.Helper()
	w.ok(w.s.Close())
	db, err := bolt.Open(w.path, 0o600, nil)
	w.ok(err)
	w.ok(errors.Join(db.Update(change), db.Close()))
	w.ok(errors.Join(os.Remove(w.path+".head"), os.Remove(w.path+".lock")))
}

// makeOrders makes three stores of one life: killed with everything under way, stopped
// in good order later, and months after that, when the beginning of its trail is gone.
func makeOrders(t testing.TB, dir string, lines map[string][]string) {
	t.Helper()
	o := Options{Window: 40, spans: spanLimits{bytes: 2000, blocks: 5}}
	w := newScribe(t, dir, "stopped", o)
	w.over()
	w.dead()
	w.scheduled()
	w.waits()
	worked := w.leased()
	w.ready()
	w.paused()
	w.keep("killed")
	lines["killed"] = slices.Clone(w.sent)
	w.copied("archive")

	slices.Reverse(worked) // the first of a key put back takes the others along
	w.answer(oldWorker, queue.Settlement{Verb: queue.Release, Reason: "shutting down"}, worked...)
	w.ok(w.s.Note(w.ctx, w.now, []queue.Record{{Event: queue.EventDrained, Detail: json.RawMessage(`{"clean":true,"released":3,"cut_off":0}`)}}))
	w.ok(w.s.Close())
	w.path = filepath.Join(dir, "trimmed.db")
	for _, suffix := range []string{"", ".head", ".lock"} {
		copyFile(t, filepath.Join(dir, "stopped.db"+suffix), w.path+suffix)
	}
	lines["archive"], lines["stopped"], lines["trimmed"] = some(w.sent), some(w.sent), w.sent

	w.open(o)
	w.start(queue.StartRequest{Config: json.RawMessage(`{"queue":{"concurrency":16}}`)})
	w.take2("WITH W-0")
	w.hours(3, 2*time.Hour)
	w.archived()
	w.trim(time.Hour)
	w.hours(3, 2*time.Hour)
	w.archived()
	for range 3 { // the last one comes to copies that the first one left
		w.trim(time.Hour)
	}
	w.hours(1, 2*time.Hour)
	w.keep("trimmed-killed")
	w.ok(w.s.Close())
	for _, suffix := range []string{"", ".head", ".lock"} { // as kill -9 leaves it
		w.ok(os.Rename(filepath.Join(dir, "trimmed-killed.db"+suffix), w.path+suffix))
	}
}

// take2 leases a message between a resume and a pause.
func (w *scribe) take2(key string) {
	w.Helper()
	w.ok(w.s.Resume(w.ctx, w.action("a moment")))
	w.take(oldWorker, key, 1)
	w.ok(w.s.Pause(w.ctx, w.action("for the year's end")))
}

// makeLedger makes stores whose ledger has been through all that a ledger goes through,
// each in the middle of another job.
func makeLedger(t testing.TB, dir string, lines map[string][]string) {
	t.Helper()
	w := newScribe(t, dir, "ledger", Options{ledger: ledger.OpenSmall})
	w.policy.OnDeadLetter = queue.SkipDead
	seen := func(what string) bool {
		name := "ledger-" + what
		if lines[name] == nil && w.doing(what) {
			w.keep(name)
			lines[name] = some(w.sent)
		}
		return lines[name] != nil
	}
	for i := range 55 {
		w.batch(i)
		seen("dropping")
		seen("merged")
		if i%10 == 9 {
			w.hours(1, 3*time.Hour)
			w.trimAll() // it is about the ledger
		}
	}
	w.hours(2, 3*time.Hour)
	w.trimAll()
	for _, what := range []string{"sealing", "sealed", "merging", "merged", "dropping"} {
		for k := 0; !seen(what); k++ {
			if w.admit(w.line("OPEN", "")); k > 400 {
				t.Fatalf("the ledger was never %s", what)
			}
		}
	}
	w.ok(w.s.Close())
	for _, suffix := range []string{"", ".head", ".lock"} {
		w.ok(os.Remove(w.path + suffix))
	}
}

// batch has three messages live: one is done, and the other two become whatever there is.
func (w *scribe) batch(i int) {
	w.Helper()
	key := fmt.Sprint("K", i%5)
	w.admit(w.line(key, ""), w.line(key, ""), w.line(key, ""))
	ds := w.take(oldWorker, key, 3)
	w.answer(oldWorker, queue.Settlement{Verb: queue.Ack, Outcome: []string{"A", "APPROVED", strings.Repeat("LONG_", 12)}[i%3]}, ds[0])
	w.answer(oldWorker, queue.Settlement{Verb: queue.Ack, Outcome: "DONE"}, ds[2])
	if i%2 == 0 {
		w.answer(oldWorker, queue.Settlement{Verb: queue.Ack, Outcome: "DONE"}, ds[1])
		return
	}
	w.answer(oldWorker, queue.Settlement{Verb: queue.Reject, Reason: "no"}, ds[1])
	if i%3 > 0 {
		a := w.action("booked by hand")
		a.Forget = i%3 == 1
		w.done(w.s.Discard(w.ctx, a, []uint64{ds[1].Message.Seq}))
	}
}

// doing reports whether the ledger is in the middle of something: of writing a head out
// as a segment, of a merge, of clearing away what either has replaced, of a merge that has
// let go of what had expired.
func (w *scribe) doing(what string) (yes bool) {
	w.Helper()
	w.ok(w.s.view(func(tx *bolt.Tx) error {
		m, err := ledgerManifest(tx)
		for _, j := range m.Jobs {
			at, _ := tx.Bucket([]byte("ledger_blocks")).Cursor().Seek(seqKey(j.Out))
			begun := bytes.HasPrefix(at, seqKey(j.Out))
			switch what {
			case "sealing":
				yes = yes || j.Level < 0 && !j.Clearing && begun
			case "sealed":
				yes = yes || j.Level < 0 && j.Clearing
			case "merged":
				yes = yes || j.Level >= 0 && j.Clearing
			case "merging":
				yes = yes || j.Level >= 0 && !j.Clearing && begun
			case "dropping":
				yes = yes || j.Level >= 0 && !j.Clearing && j.Cursor != nil
			}
		}
		return err
	}))
	return yes
}

// makeOlder makes a store as the first programs of version 1 wrote them: without what may
// be absent, and its index without events. It was taken from a copy.
func makeOlder(t testing.TB, dir string, lines map[string][]string) {
	t.Helper()
	small := Options{spans: spanLimits{bytes: 2000, blocks: 5}}
	w := newScribe(t, dir, "older", small)
	rounds := func() {
		for range 9 {
			w.admit(w.line("A", ""), w.line("B", ""))
			w.answer(oldWorker, queue.Settlement{Verb: queue.Ack, Outcome: "DONE"}, w.take(oldWorker, "A", 1)...)
		}
	}
	rounds()
	w.amend(func(tx *bolt.Tx) error {
		return eachSpanAt(func(key, value []byte) []byte {
			var sp span
			w.ok(sp.parse(key, value))
			sp.old = true
			return sp.append(nil)
		})(tx)
	})
	w.open(Options{}) // which makes no spans of so little
	w.start(queue.StartRequest{})
	rounds()
	w.take(oldConsumer, "B", 1)
	w.ok(w.s.Close())
	w.pass(time.Hour)
	w.open(small)
	w.start(queue.StartRequest{Restored: true, Why: "the store is a copy", By: "olga"})
	w.admit(w.line("C", ""))
	w.amend(func(tx *bolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		return errors.Join(meta.Delete(metaTally), meta.Delete(metaConfigSum))
	})
	lines["older"] = w.sent
}

// makeBare makes a store that was created, and never started.
func makeBare(t testing.TB, dir string, lines map[string][]string) {
	t.Helper()
	s, err := Open(Options{Path: filepath.Join(dir, "bare.db")})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	lines["bare"] = nil
}
