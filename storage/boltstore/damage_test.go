package boltstore

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
	"breakwater/storage/boltstore/ledger"
)

// How many random positions TestDamage changes a byte at, of the file and of each
// bucket, and from which seed (0: a new one, which is printed).
var (
	damageRounds = flag.Int("damage", 24, "random positions in TestDamage and TestCut")
	damageSeed   = flag.Uint64("damage.seed", 0, "seed of TestDamage and TestDamaged_is_one_message")
)

// specimen is a store that has something of everything, closed: its file, what a
// reader finds in it, and the lines that were sent.
type specimen struct {
	body      []byte
	content   map[string]string // by bucket and key
	lines     map[uint64]string // of what is open or dead, as it is to be delivered
	witness   queue.Witness
	snapshots [][]byte // the file after each commit but the last
}

var damageOptions = Options{
	Window: 8, ledger: ledger.OpenSmall, spans: spanLimits{bytes: 2000, blocks: 5},
}

// oneSpecimen is for all tests: it is only read.
var (
	makeSpecimen sync.Once
	oneSpecimen  *specimen
)

func newSpecimen(t *testing.T) *specimen {
	t.Helper()
	makeSpecimen.Do(func() { oneSpecimen = liveSpecimen(t) })
	if oneSpecimen == nil {
		t.Fatal("there is no specimen")
	}
	return oneSpecimen
}

// liveSpecimen makes one.
func liveSpecimen(t *testing.T) *specimen {
	t.Helper()
	sp := &specimen{lines: map[uint64]string{}}
	h := newHarness(t, damageOptions)
	l := &liver{t: t, h: h, sp: sp, ctx: context.Background(), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	l.live()
	st, err := h.store.Status(l.ctx, l.now)
	l.must(err)
	sp.witness = queue.Witness{Head: st.Head, N: st.Records}
	open, err := h.store.Exceptions(l.ctx, 0, MaxPage)
	l.must(err)
	for _, x := range append(open, l.letters()...) {
		sp.lines[x.Seq] = string(x.Line)
	}
	l.must(h.store.Close())
	sp.content = contentOf(t, h.options.Path)
	sp.body = compacted(t, h.options.Path)
	h.close()
	return sp
}

// compacted is a file without its free pages: or most positions would be in them.
func compacted(t *testing.T, path string) []byte {
	t.Helper()
	dense := path + ".dense"
	from, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	to, err := bolt.Open(dense, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(bolt.Compact(to, from, 0), from.Close(), to.Close()); err != nil {
		t.Fatal(err)
	}
	return readFile(t, dense)
}

// liver lets a store live: everything that leaves something in the file.
type liver struct {
	t   *testing.T
	h   *harness
	sp  *specimen
	ctx context.Context
	now time.Time
	n   int // lines

	commits int
}

func (l *liver) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// snap keeps the file as it is now, a few of all times.
func (l *liver) snap() {
	l.t.Helper()
	if l.commits++; l.commits%4 != 0 {
		return
	}
	var b bytes.Buffer
	l.must(l.h.store.view(func(tx *bolt.Tx) error {
		_, err := tx.WriteTo(&b)
		return err
	}))
	l.sp.snapshots = append(l.sp.snapshots, b.Bytes())
}

func (l *liver) admit(lines ...string) {
	l.t.Helper()
	r := queue.AdmitRequest{Now: l.now, Peer: queue.Peer{UID: 1000, PID: 7}}
	for _, line := range lines {
		m, err := queue.ParseLine([]byte(line))
		s := queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash([]byte(line))}
		var failed *queue.GateError
		if errors.As(err, &failed) {
			s.Fault = &queue.Fault{Field: failed.Field, Reason: failed.Reason}
		}
		r.Lines = append(r.Lines, s)
	}
	_, err := l.h.store.Admit(l.ctx, r)
	l.must(err)
	l.snap()
}

// line is a line with a key of its own.
func (l *liver) line(key, more string) string {
	l.n++
	return fmt.Sprintf(`{"idempotency_key":"id-%d","trace_id":"trace-%d","partition_key":%q,"ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"-1042.37","pad":%q%s}`,
		l.n, l.n, key, strings.Repeat("p", l.n%90), more)
}

func (l *liver) claim(o queue.Owner, n, perKey int) []queue.Delivery {
	l.t.Helper()
	res, err := l.h.store.Claim(l.ctx, queue.ClaimRequest{Now: l.now, Wants: []queue.Want{{
		Owner: o, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: n, PerKey: perKey, Lease: time.Hour,
	}}})
	l.must(err)
	l.snap()
	return res.Deliveries[0]
}

func (l *liver) settle(o queue.Owner, verb queue.Verb, ds ...queue.Delivery) {
	l.t.Helper()
	r := queue.SettleRequest{Now: l.now, Policy: queue.Policy{MaxAttempts: 9, MaxDeliveries: 9, RetryInitial: time.Hour, RetryMax: time.Hour}}
	for _, d := range ds {
		r.Settlements = append(r.Settlements, queue.Settlement{
			Token: d.Token, Owner: o, Verb: verb, At: l.now, Outcome: "APPROVED", Reason: "because",
		})
	}
	res, err := l.h.store.Settle(l.ctx, r)
	l.must(err)
	for _, one := range res {
		if one.Code != "" {
			l.t.Fatalf("%+v", one)
		}
	}
	l.snap()
}

func (l *liver) live() {
	s, act := l.h.store, queue.Action{Now: l.now, By: "alice", Reason: "for a test"}
	_, err := s.Start(l.ctx, queue.StartRequest{Now: l.now, Version: "1", Config: []byte(`{"a":1}`)})
	l.must(err)
	worker, ui := queue.Owner{Kind: queue.Worker, Name: "w-0"}, queue.Owner{Kind: queue.Consumer, Name: "ui", UID: 1000}
	for i := range 30 { // lived and gone: they fill ledger and trail
		l.admit(l.line("gone", ""), l.line(fmt.Sprint("gone-", i%3), ""))
		l.settle(worker, queue.Ack, l.claim(worker, 9, 9)...)
	}
	later := func(d time.Duration) string { return `,"not_before":"` + l.now.Add(d).Format(time.RFC3339) + `"` }
	l.admit(l.line("due", later(time.Minute)), l.line("due", later(time.Minute)), l.line("later", later(48*time.Hour)), l.line("later", later(72*time.Hour)))
	l.now = l.now.Add(2 * time.Minute)
	act.Now = l.now
	l.admit(l.line("dead", ""), l.line("dead", ""), l.line("edited", ""), l.line("back", ""), l.line("tried", ""))
	for _, d := range l.claim(worker, 20, 1) {
		switch d.Message.PartitionKey {
		case "dead", "edited", "back":
			l.settle(worker, queue.Reject, d)
		case "tried":
			l.settle(worker, queue.Retry, d)
		default:
			l.settle(worker, queue.Release, d)
		}
	}
	l.admit(`{"idempotency_key":"bad"}`, "no JSON at all", `{"idempotency_key":"id-1","trace_id":"t","partition_key":"other","ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"2"}`, l.line("x", "")[:40])
	l.edit(act, "edited", "back")
	for _, x := range l.letters() {
		if x.PartitionKey == "back" {
			_, err := s.Replay(l.ctx, act, []uint64{x.Seq})
			l.must(err)
		}
	}
	_, err = s.HoldKeys(l.ctx, act, []string{"held", "held and empty"})
	l.must(err)
	for range 12 {
		l.admit(l.line("held", ""), l.line("hot", ""), l.line("hot", `,"route":"AUTO_RESOLVE"`))
	}
	l.claim(ui, 2, 1)
	l.claim(worker, 3, 2)
	l.must(s.Archived(l.ctx, act, queue.ArchiveInfo{Path: "/a", Head: mustHead(l), Records: mustRecords(l), Bytes: 1}))
	for range 2 {
		_, err = s.Expire(l.ctx, queue.ExpireRequest{Now: l.now, First: true, Passed: time.Hour, Ledger: 1000 * time.Hour})
		l.must(err)
	}
	l.must(s.Pause(l.ctx, act))
}

func (l *liver) letters() []queue.Exception {
	l.t.Helper()
	page, err := l.h.store.DeadLetters(l.ctx, queue.LetterQuery{Limit: MaxPage})
	l.must(err)
	return page.Letters
}

// edit edits the letters of some keys.
func (l *liver) edit(a queue.Action, keys ...string) {
	l.t.Helper()
	for _, x := range l.letters() {
		if !slices.Contains(keys, x.PartitionKey) {
			continue
		}
		line := bytes.Replace(x.Line, []byte("-1042.37"), []byte("-1042.38"), 1)
		res, err := l.h.store.Edit(l.ctx, a, []queue.Edit{{Seq: x.Seq, Was: queue.LineHash(x.Line), Line: line}})
		l.must(err)
		if res[0].Code != "" {
			l.t.Fatalf("%+v", res)
		}
	}
	l.snap()
}

func mustHead(l *liver) queue.Head {
	h, err := l.h.store.Head(l.ctx)
	l.must(err)
	return h
}

func mustRecords(l *liver) uint64 {
	st, err := l.h.store.Status(l.ctx, l.now)
	l.must(err)
	return st.Records
}

func readFile(t testing.TB, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// contentOf is everything that a sound file holds, by bucket and key.
func contentOf(t testing.TB, path string) map[string]string {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	content := map[string]string{}
	if err := db.View(func(tx *bolt.Tx) error { return dump(tx, content) }); err != nil {
		t.Fatal(err)
	}
	return content
}

func dump(tx *bolt.Tx, content map[string]string) error {
	return tx.ForEach(func(name []byte, b *bolt.Bucket) error {
		content[string(name)] = ""
		return b.ForEach(func(k, v []byte) error {
			content[string(name)+"\x00"+string(k)] = "=" + string(v)
			return nil
		})
	})
}

// look opens a changed file as an auditor does, and returns what is found, in words;
// and whether a reader finds the same in it as in the specimen.
func (sp *specimen) look(t testing.TB, path string) (found []string, same bool) {
	t.Helper()
	o := damageOptions
	o.Path = path
	s, err := openLight(t, OpenCopy, o)
	if err != nil {
		var f *dbfile.FileError
		if !errors.As(err, &f) {
			t.Errorf("an error that is none of the catalogue: %v", err)
		}
		return []string{err.Error()}, false
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	content := map[string]string{}
	if err := s.view(func(tx *bolt.Tx) error { return dump(tx, content) }); err != nil {
		found = append(found, err.Error())
	}
	v, err := s.Verify(context.Background(), queue.VerifyOptions{Buckets: true, Witnesses: []queue.Witness{sp.witness}})
	if err != nil {
		found = append(found, err.Error())
	} else if v.Verdicts[0] != queue.WitnessFound {
		found = append(found, "the head that was witnessed: "+string(v.Verdicts[0]))
	}
	for _, f := range v.Findings {
		found = append(found, fmt.Sprintf("%s (block %d, n %d, seq %d)", f.What, f.Block, f.N, f.Seq))
	}
	return found, maps.Equal(content, sp.content)
}

// deliver takes a changed file into service, if that is possible, and claims all that
// there is: whatever is handed out must be what was sent.
func (sp *specimen) deliver(t testing.TB, path string) (delivered int) {
	t.Helper()
	o := damageOptions
	o.Path, o.Restore = path, true
	s, err := openLight(t, Open, o)
	if err != nil {
		return 0
	}
	defer s.Close()
	ctx, now := context.Background(), time.Date(2026, 3, 9, 9, 0, 0, 0, time.UTC)
	if _, err := s.Start(ctx, queue.StartRequest{Now: now, Version: "1", Restored: true}); err != nil {
		return 0
	}
	if s.Resume(ctx, queue.Action{Now: now}) != nil {
		return 0
	}
	_, _ = s.ReleaseKeys(ctx, queue.Action{Now: now}, []string{"held"})
	owner := queue.Owner{Kind: queue.Worker, Name: "w"}
	for range 40 {
		res, err := s.Claim(ctx, queue.ClaimRequest{Now: now, Wants: []queue.Want{{
			Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: 100, PerKey: 5, Lease: time.Hour,
		}}})
		if err != nil || len(res.Deliveries[0]) == 0 && !res.More {
			return delivered
		}
		r := queue.SettleRequest{Now: now}
		for _, d := range res.Deliveries[0] {
			delivered++
			if want, ok := sp.lines[d.Message.Seq]; !ok || want != string(d.Message.Line) {
				t.Errorf("seq %d was handed out with another line than it has: %q", d.Message.Seq, d.Message.Line)
			}
			r.Settlements = append(r.Settlements, queue.Settlement{Token: d.Token, Owner: owner, Verb: queue.Ack, At: now, Outcome: "DONE"})
		}
		if _, err := s.Settle(ctx, r); err != nil {
			return delivered
		}
	}
	return delivered
}

// damageDice are what a test rolls that spoils files; the log has what repeats it.
func damageDice(t *testing.T, stream uint64) *rand.Rand {
	seed := *damageSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-damage.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, stream))
}

// TestDamage changes one byte of a file, at random positions of it and of each bucket.
// Whatever a reader would find different is found by a verification, and is never
// handed out. A byte that nobody reads (free pages, room in pages, the older meta page)
// changes nothing, and is no finding.
func TestDamage(t *testing.T) {
	t.Parallel()
	sp := newSpecimen(t)
	rng := damageDice(t, 3)
	path := filepath.Join(t.TempDir(), "copy.db")
	if found, same := sp.lay(t, path, sp.body); len(found) > 0 || !same {
		t.Fatalf("the specimen itself: %q, %v", found, same)
	}
	if n := sp.deliver(t, path); n < 40 {
		t.Fatalf("of the specimen only %d messages are handed out", n)
	}
	t.Run("anywhere", func(t *testing.T) {
		harmless := 0
		for range *damageRounds {
			at, bit := rng.IntN(len(sp.body)), byte(1+rng.IntN(255))
			body := bytes.Clone(sp.body)
			body[at] ^= bit
			found, same := sp.lay(t, path, body)
			switch {
			case same && len(found) == 0:
				harmless++
			case len(found) == 0:
				t.Errorf("byte %d xor %#x: something is different, and nothing was found", at, bit)
			}
			if !same {
				sp.deliver(t, path)
			}
		}
		t.Logf("%d of %d changed nothing that a reader finds", harmless, *damageRounds)
	})
	for _, bucket := range sp.buckets() {
		t.Run(bucket, func(t *testing.T) { sp.spoilBucket(t, rng, path, bucket) })
	}
}

// lay writes a file in place of the last one and looks at it.
func (sp *specimen) lay(t testing.TB, path string, body []byte) (found []string, same bool) {
	t.Helper()
	sp.write(t, path, body)
	return sp.look(t, path)
}

// write writes a file in place of the last one.
func (sp *specimen) write(t testing.TB, path string, body []byte) {
	t.Helper()
	for _, suffix := range []string{"", ".head", ".lock"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
}

// buckets are those of the specimen that have anything.
func (sp *specimen) buckets() []string {
	names := map[string]bool{}
	for at := range sp.content {
		if name, _, ok := strings.Cut(at, "\x00"); ok {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// spoilBucket changes a byte of some entries of a bucket, wherever they lie in the
// file, and wants each to be named.
func (sp *specimen) spoilBucket(t *testing.T, rng *rand.Rand, path, bucket string) {
	var entries []string
	for at, value := range sp.content {
		if rest, ok := strings.CutPrefix(at, bucket+"\x00"); ok {
			entries = append(entries, rest+strings.TrimPrefix(value, "="))
		}
	}
	slices.Sort(entries)
	changed := 0
	for range max(3, *damageRounds/6) {
		entry := entries[rng.IntN(len(entries))]
		i, bit := rng.IntN(len(entry)), byte(1+rng.IntN(255))
		body := bytes.Clone(sp.body)
		for at := 0; ; {
			j := bytes.Index(body[at:], []byte(entry))
			if j < 0 {
				break
			}
			at += j + i + 1
			body[at-1] ^= bit
		}
		found, same := sp.lay(t, path, body)
		switch {
		case same && len(found) > 0:
			t.Errorf("byte %d of %q xor %#x: nothing is different, and yet %q", i, entry, bit, found)
		case !same && len(found) == 0:
			t.Errorf("byte %d of %q xor %#x was not found", i, entry, bit)
		case !same && !named(found, bucket):
			t.Errorf("byte %d of %q xor %#x: %q does not name it", i, entry, bit, found)
		}
		if !same {
			changed++
			sp.deliver(t, path)
		}
	}
	if changed == 0 {
		t.Error("no position changed anything")
	}
}

// named reports whether a finding says where in the file the damage is: by bucket, or
// by what the bucket holds.
func named(found []string, bucket string) bool {
	words := map[string][]string{
		"audit": {"block"}, "backlog": {"message", "seq "}, "scheduled": {"message", "seq "}, "dead": {"dead letter", "seq "},
		"flight": {"lease record", "seq "}, "ledger_log": {"ledger"}, "ledger_blocks": {"ledger"}, "ledger_filters": {"ledger"},
		"ledger_manifest": {"ledger"}, "timed": {"seq "}, "meta": {"its format is", "it holds no breakwater store"},
	}[bucket]
	for _, f := range found {
		for _, w := range append(words, bucket, "page ", "pages make no sense", "keys are out of order") {
			if strings.Contains(f, w) {
				return true
			}
		}
	}
	return false
}
