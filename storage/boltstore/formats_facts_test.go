package boltstore

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"breakwater/queue"
)

// oldFacts is what a store of an old version is known to hold, as testdata/formats has it
// beside each. A row of a list is text, so that a difference can be read.
type oldFacts struct {
	Status   []string `json:"status"`
	Verified []string `json:"verified"`
	Messages []string `json:"messages"` // all that were ever stored, by seq
	Letters  []string `json:"letters"`  // dead letters in the order of their places
	Keys     []string `json:"keys"`
	Leases   []string `json:"leases"`
	Trail    string   `json:"trail"` // SHA-256 of its lines

	Refused  string       `json:"refused,omitempty"` // why it is not taken into service without restore
	Start    string       `json:"start"`             // what a process finds that starts an hour after the last record
	Receipts []oldReceipt `json:"receipts"`          // what it answers to lines that were sent before
}

// oldReceipt is a line and what is answered when it is sent again.
type oldReceipt struct {
	Line    string `json:"line,omitempty"`
	Bytes   []byte `json:"bytes,omitempty"` // the line, if it is not text
	Receipt string `json:"receipt"`
}

// line is the line, however it is kept.
func (r *oldReceipt) line() string {
	if r.Bytes != nil {
		return string(r.Bytes)
	}
	return r.Line
}

// oldPolicy is that of the process which takes an old store into service.
var oldPolicy = queue.Policy{MaxAttempts: 3, MaxDeliveries: 3, RetryInitial: time.Second, RetryMax: time.Minute, OnDeadLetter: queue.HoldKey}

// factsOf reads a store that nobody has open, and takes a copy of it into service.
func factsOf(t testing.TB, path string, lines []string) (f oldFacts) {
	t.Helper()
	s, err := openLight(t, OpenCopy, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	last := f.read(t, s)
	found, err := s.Found()
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	if found.Format == 0 || found.Format > FormatVersion {
		t.Fatalf("format %d", found.Format)
	}
	var refused interface{ Code() string }
	if errors.As(found.Refused, &refused) {
		f.Refused = refused.Code()
	}
	f.serve(t, serveOld(t, copyOld(t, path), Options{}, last.Add(time.Hour)), last.Add(time.Hour), lines)
	return f
}

// copyOld copies a store with what lies beside it into a folder of its own.
func copyOld(t testing.TB, path string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "breakwater.db")
	for _, suffix := range []string{"", ".head", ".lock"} {
		if _, err := os.Stat(path + suffix); err == nil {
			copyFile(t, path+suffix, to+suffix)
		}
	}
	return to
}

// started is a store in service.
type started struct {
	*Store
	found    queue.StartResult
	restored bool
}

// serveOld takes a store into service; a copy as one that is restored.
func serveOld(t testing.TB, path string, o Options, now time.Time) started {
	t.Helper()
	o.Path = path
	s, err := openLight(t, Open, o)
	restored := errors.Is(err, ErrArchive)
	if restored {
		o.Restore = true
		s, err = openLight(t, Open, o)
	}
	if err != nil {
		t.Fatal(err)
	}
	res, err := s.Start(context.Background(), queue.StartRequest{Now: now, Policy: oldPolicy, Version: "now", Restored: restored, Why: "a test"})
	if err != nil {
		t.Fatal(err)
	}
	return started{s, res, restored}
}

// read takes down what a reader finds, and returns the time of the last record.
func (f *oldFacts) read(t testing.TB, s *Store) (last time.Time) {
	t.Helper()
	ctx := context.Background()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	v, err := s.Verify(ctx, queue.VerifyOptions{Buckets: true})
	ok(err)
	for _, wrong := range v.Findings {
		t.Errorf("verify: %+v", wrong)
	}
	last = v.Last.TS
	if last.IsZero() {
		last = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	}
	f.verified(&v)
	st, err := s.Status(ctx, last)
	ok(err)
	f.status(&st)
	for seq := uint64(1); seq <= st.LastSeq; seq++ {
		x, err := s.Exception(ctx, seq)
		switch {
		case errors.Is(err, queue.ErrTrimmed):
			f.Messages = append(f.Messages, fmt.Sprint(seq, " trimmed"))
		default:
			ok(err)
			f.Messages = append(f.Messages, messageRow(&x))
		}
	}
	letters, err := s.DeadLetters(ctx, queue.LetterQuery{Limit: MaxPage})
	ok(err)
	for i := range letters.Letters {
		f.Letters = append(f.Letters, letterRow(&letters.Letters[i]))
	}
	keys, err := s.Keys(ctx, queue.KeyQuery{Now: last, Limit: MaxPage})
	ok(err)
	for i := range keys.Keys {
		f.Keys = append(f.Keys, keyRow(&keys.Keys[i]))
	}
	slices.Sort(f.Keys)
	leases, err := s.Leases(ctx, 0, MaxPage)
	ok(err)
	for _, l := range leases {
		f.Leases = append(f.Leases, fmt.Sprintf("%s of %s (%d, uid %d), delivery %d, until %s", l.Token, l.Owner.Name, l.Owner.Kind, l.Owner.UID, l.Number, stampOf(l.Deadline)))
	}
	trail := sha256.New()
	ok(s.Trail(ctx, queue.TrailQuery{}, func(r queue.Record) bool {
		_, _ = trail.Write(r.AppendNDJSON(nil)) // never fails
		return true
	}))
	f.Trail = fmt.Sprintf("%x", trail.Sum(nil))
	return last
}

// verified takes down what a verification counts.
func (f *oldFacts) verified(v *queue.Verification) {
	f.Verified = []string{
		fmt.Sprintf("%d blocks, %d records, from %d, %s, to %d, %s", v.Blocks, v.Records, v.First.N, stampOf(v.First.TS), v.Last.N, stampOf(v.Last.TS)),
		fmt.Sprintf("head %s of %s", v.Head, v.Origin),
	}
	b := &v.Balance
	f.Verified = append(f.Verified,
		fmt.Sprintf("accepted %d = decided %d + dead %d + discarded %d + open %d", b.Accepted, b.Decided, b.Dead, b.Discarded, b.Open),
		fmt.Sprintf("quarantined %d = dead %d + discarded %d + accepted %d", b.Quarantined, b.QuarantinedDead, b.QuarantinedDiscarded, b.QuarantinedAccepted),
		fmt.Sprintf("duplicates %d, deliveries %d", b.Duplicates, b.Deliveries))
	for _, e := range queue.Events {
		if n := v.Events[e]; n > 0 {
			f.Verified = append(f.Verified, fmt.Sprintf("%s %d", e, n))
		}
	}
}

// status takes down the counts.
func (f *oldFacts) status(st *queue.StoreStatus) {
	f.Status = []string{
		fmt.Sprintf("ready %d, scheduled %d, leased %d, held %d", st.Ready, st.Scheduled, st.Leased, st.Held),
		fmt.Sprintf("done %d, dead %d, discarded %d, quarantined %d, damaged %d", st.Done, st.Dead, st.Discarded, st.Quarantined, st.Damaged),
		fmt.Sprintf("keys open %d, held %d, blocked %d, by operators %d", st.OpenKeys, st.HeldKeys, st.BlockedKeys, st.OperatorHolds),
		fmt.Sprintf("ledger keys %d, last seq %d", st.LedgerKeys, st.LastSeq),
		fmt.Sprintf("archived up to record %d, block %d, %s", st.ArchivedN, st.ArchivedBlock, stampOf(st.ArchivedAt)),
		fmt.Sprintf("trimmed up to record %d, block %d, as record %d says", st.Opening.LastN, st.Opening.Before.Block, st.Opening.Record),
		fmt.Sprintf("dead by code %v, without an amount %d", st.DeadByCode, st.DeadUnvalued),
	}
	for _, r := range st.AtRisk {
		f.Status = append(f.Status, fmt.Sprintf("at risk: %q open %s, held %s, dead %s", r.Currency, r.Open, r.Held, r.Dead))
	}
	if st.Paused != nil {
		f.Status = append(f.Status, fmt.Sprintf("paused by %s since %s: %s", st.Paused.By, stampOf(st.Paused.Since), st.Paused.Reason))
	}
	for _, o := range st.Oldest {
		f.Status = append(f.Status, fmt.Sprintf("oldest of %s: %d, %s", o.Route, o.Message.Seq, stampOf(o.AcceptedAt)))
	}
}

// serve takes down what a process finds and answers.
func (f *oldFacts) serve(t testing.TB, s started, now time.Time, lines []string) {
	t.Helper()
	f.Start = fmt.Sprintf("gave back %d, kept %d, dead by it %d, restored %v", s.found.GaveBack, s.found.Kept, s.found.DeadAgain, s.restored)
	for _, line := range lines {
		res, err := s.Admit(context.Background(), queue.AdmitRequest{Now: now, Lines: []queue.Submission{lineSubmitted(line)}})
		if err != nil {
			t.Fatal(err)
		}
		r := oldReceipt{Line: line, Receipt: receiptRow(&res.Receipts[0])}
		if !utf8.ValidString(line) {
			r.Line, r.Bytes = "", []byte(line)
		}
		f.Receipts = append(f.Receipts, r)
	}
	verified(t, s.Store)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func stampOf(at time.Time) string {
	if at.IsZero() {
		return "never"
	}
	return string(queue.AppendTime(nil, at))
}

// row is text of parts, those that are empty left out.
func row(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// part is a part of a row, if there is anything to say.
func part[T comparable](name string, value T) string {
	if value == *new(T) {
		return ""
	}
	return fmt.Sprintf("%s=%v", name, value)
}

func messageRow(x *queue.Exception) string {
	line := ""
	if x.Line != nil {
		line = shortHash(queue.LineHash(x.Line))
	}
	return row(fmt.Sprint(x.Seq), x.State.String(), part("place", placeText(x.Place)), fmt.Sprintf("key=%q", x.PartitionKey), fmt.Sprintf("id=%q", x.IdempotencyKey),
		part("amount", x.Amount), part("currency", x.Currency), string(x.Decision), string(x.Route), part("priority", x.Priority),
		part("line", line), part("sent", shortHash(x.LineHash)), part("bytes", x.LineBytes), part("deliveries", x.Deliveries), part("failed", x.FailedAttempts),
		part("unanswered", x.Unanswered),
		part("owner", x.Owner), part("deaths", x.Deaths), part("outcome", x.Outcome), part("accepted", stampOf(x.AcceptedAt)),
		part("not_before", strings.TrimPrefix(stampOf(x.NotBefore), "never")), part("due", strings.TrimPrefix(stampOf(x.DueAt), "never")))
}

func letterRow(x *queue.Exception) string {
	return row(fmt.Sprint(x.Seq), part("place", placeText(x.Place)), string(x.Code), part("of", x.Of), part("field", x.Field), part("kept", len(x.Sent)),
		part("edited", shortHash(x.EditedHash)), part("died", stampOf(x.DeadAt)), fmt.Sprintf("reason=%q", x.Reason))
}

func keyRow(k *queue.Key) string {
	var holder, letter, hold, wait string
	if k.Holder != nil {
		holder = k.Holder.Owner.Name
	}
	if k.Letter != nil {
		letter = fmt.Sprint(k.Letter.Seq)
	}
	if k.Hold != nil {
		hold = fmt.Sprintf("%s, %s: %s", k.Hold.By, stampOf(k.Hold.Since), k.Hold.Reason)
	}
	if k.Wait != nil {
		wait = stampOf(k.Wait.Until)
	}
	return row(fmt.Sprintf("%q", k.Name), k.State.String(), part("open", k.Open), part("leased", k.Leased), part("first", k.First),
		part("holder", holder), part("letter", letter), part("hold", hold), part("wait", wait), fmt.Sprint(k.Worth))
}

func receiptRow(r *queue.Receipt) string {
	state := ""
	if r.State != 0 {
		state = r.State.String()
	}
	return row(r.Status.String(), part("seq", r.Seq), part("of", r.Of), state, r.Outcome, part("settled", strings.TrimPrefix(stampOf(r.SettledAt), "never")),
		string(r.Code), part("field", r.Field), part("error", r.Error), part("repeat", r.Repeat))
}

func placeText(p queue.Place) string {
	if p.IsZero() {
		return ""
	}
	return p.String()
}

func shortHash(h queue.Hash) string {
	if h == (queue.Hash{}) {
		return ""
	}
	return h.String()[:12]
}
