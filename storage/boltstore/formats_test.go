package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/cryptotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	bolt "go.etcd.io/bbolt"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
	"breakwater/storage/boltstore/ledger"
)

// A file lives for years, and whoever has one may open it with any later program.
// testdata/formats has stores of every version of the format, as programs of that
// version left them, with what is in them: they are opened here, for ever. They are
// never made anew. Where a program means to tell something else of the same bytes, it is
// the fact that is changed, by hand, and the commit says why. What a version promises
// stands in docs/format.md.

// makeFormats writes stores of the present version, if there are none yet.
var makeFormats = flag.Bool("formats.make", false, "keep stores of a new format version in testdata/formats (TestFormats_of_today)")

const formatsDir = "../../testdata/formats"

// oldStore is one of them.
type oldStore struct {
	name  string // "v1/killed"
	facts oldFacts
}

// oldStores lists those of the version in a folder.
func oldStores(t testing.TB, version string) (list []oldStore) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(formatsDir, version, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		o := oldStore{name: version + "/" + strings.TrimSuffix(filepath.Base(name), ".json")}
		if err := json.Unmarshal(readFile(t, name), &o.facts); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, o)
	}
	if len(list) == 0 {
		t.Fatalf("there is no store of %s", version)
	}
	return list
}

// unpack puts a store and what lies beside it into a folder of its own.
func (o *oldStore) unpack(t testing.TB) (path string) {
	t.Helper()
	from := filepath.Join(formatsDir, o.name+".db")
	path = filepath.Join(t.TempDir(), "breakwater.db")
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	body, err := d.DecodeAll(readFile(t, from+".zst"), nil)
	if err != nil {
		t.Fatalf("%s: %v", from, err)
	}
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{".head", ".lock"} {
		if _, err := os.Stat(from + suffix); err == nil {
			copyFile(t, from+suffix, path+suffix)
		}
	}
	return path
}

// versions are the folders of testdata/formats.
func versions() (names []string) {
	for v := 1; v <= FormatVersion; v++ {
		names = append(names, fmt.Sprint("v", v))
	}
	return names
}

// TestFormats opens each store of each version: it verifies, holds what it is known to
// hold, and lives on.
func TestFormats(t *testing.T) {
	kindsOf(t, presentVersion) // those of all, before several ask for them at once
	for _, version := range versions() {
		for _, o := range oldStores(t, version) {
			t.Run(o.name, func(t *testing.T) {
				t.Parallel()
				path := o.unpack(t)
				before := readFile(t, path)
				var lines []string
				for i := range o.facts.Receipts {
					lines = append(lines, o.facts.Receipts[i].line())
				}
				if diff := cmp.Diff(o.facts, factsOf(t, path, lines)); diff != "" {
					t.Errorf("(-known +found)\n%s", diff)
				}
				if !bytes.Equal(before, readFile(t, path)) {
					t.Error("who only reads it changes it")
				}
				t.Run("lives on", func(t *testing.T) { livesOn(t, copyOld(t, path), Options{}) })
				if slices.Contains([]string{"killed", "trimmed", "ledger-dropping"}, filepath.Base(o.name)) {
					small := Options{Window: 8, ledger: ledger.OpenSmall, spans: spanLimits{bytes: 2000, blocks: 5}}
					t.Run("lives on in a small way", func(t *testing.T) { livesOn(t, copyOld(t, path), small) })
				}
			})
		}
	}
}

// presentVersion is the folder of the stores that today's code would make.
var presentVersion = fmt.Sprint("v", FormatVersion)

// TestFormats_have_everything: together, the stores of the present version hold every kind
// of thing that docs/format.md names.
func TestFormats_have_everything(t *testing.T) {
	kinds := kindsOf(t, presentVersion)
	want := []string{
		"alias version 1", "block codec 0", "block codec 1", "block format 1", "block of more than one record: true", "epoch version 1",
		"dead code ATTEMPTS_EXHAUSTED", "dead code DELIVERIES_EXHAUSTED", "dead code IDEMPOTENCY_CONFLICT", "dead code POISON_MESSAGE", "dead code REJECTED",
		"dead flag 1", "dead flag 2", "dead flag 4", "dead flag 8", "dead flag 16", "dead place: false", "dead place: true", "dead unanswered: true", "dead version 1",
		"counters of a restored state: true", "flight of nothing but what was not answered: true", "past unanswered: true",
		"flight of owner 0", "flight of owner 1", "flight of owner 2", "flight version 1", "flight wait 0", "flight wait 1", "flight wait 2",
		"ledger manifest version 1", "ledger segment of tier 0", "ledger segment of tier 1",
		"ledger state open", "ledger state done", "ledger state dead", "ledger state discarded", "ledger state forgotten", "ledger epoch beyond the first: true",
		"parked, key of 24 bytes", "place of 8 bytes", "place of 12 bytes", "scheduled, key of 16 bytes", "timed p, 13 bytes", "timed w, 17 bytes",
		"record version 1", "record version 2", "record decision 0", "record decision 1", "record decision 2", "record decision 3",
		"record route 0", "record route 1", "record route 255", "record not before: true",
		"past edited: true", "past edited: false", "past replayed: true", "past replayed: false", "past with a part of the line: true",
		".head: breakwater-head N turn=N store=N block=N head=N txid=N seq=N crc=N breakwater-head N turn=N store=N block=N head=N txid=N seq=N crc=N",
		".lock: breakwater-lock N pid N open", ".lock: breakwater-lock N pid N clean txid=N inode=N size=N mtime=N free=N",
		"span version 1", "span version 2", "span with a filter: true", "span with a filter: false",
		"ledger job of level -1, clearing false, with a cursor false", "ledger job of level -1, clearing true, with a cursor true",
		"ledger job of level 1, clearing false, with a cursor false", "ledger job of level 1, clearing false, with a cursor true",
	}
	for _, e := range queue.Events {
		want = append(want, "event "+string(e))
	}
	for _, name := range strings.Fields("n ts event seq of place copy_of trace_id source_hash match_decision partition_key variance_amount idempotency_key " +
		"ledger_entity currency line_sha256 line_bytes worker route outcome by note reason code field delivery failed_attempts unanswered " +
		"not_before until deadline count seqs stderr before after detail peer cut") {
		want = append(want, "record member "+name)
	}
	for _, name := range slices.Concat(allBuckets, ledger.Buckets(), [][]byte{bucketAliases, bucketTrailIndex}) {
		want = append(want, "bucket "+string(name))
	}
	for _, name := range metaNames {
		want = append(want, "meta "+string(name))
	}
	for _, kind := range want {
		if !kinds[kind] {
			t.Errorf("no store has: %s", kind)
		}
	}
}

// knownKinds has what kindsOf has found.
var knownKinds = map[string]map[string]bool{}

// kindsOf is what the stores of a version hold together. Each value must be one that
// today's code would write as it stands there, as long as the version is today's.
func kindsOf(t testing.TB, version string) map[string]bool {
	t.Helper()
	if kinds := knownKinds[version]; kinds != nil {
		return kinds
	}
	kinds := map[string]bool{}
	defer func() { knownKinds[version] = kinds }()
	for _, o := range oldStores(t, version) {
		v := valuesOf(t, o.unpack(t))
		for kind := range v.kinds {
			kinds[kind] = true
		}
		for _, wrong := range v.wrong {
			if version == presentVersion {
				t.Errorf("%s: the same thing would be written otherwise: %s", o.name, wrong)
			}
		}
	}
	return kinds
}

// TestFormats_of_today makes stores with today's code, which write nothing that the
// stores of their version do not have: a bucket, a name, a version of a value more is a
// new version of the format. With -formats.make they become the stores of a version that
// has none yet.
func TestFormats_of_today(t *testing.T) {
	cryptotest.SetGlobalRandom(t, FormatVersion)
	dir, lines := t.TempDir(), map[string][]string{}
	for _, live := range []func(testing.TB, string, map[string][]string){makeOrders, makeLedger, makeOlder, makeBare} {
		live(t, dir, lines)
	}
	to := filepath.Join(formatsDir, presentVersion)
	if *makeFormats {
		keepFormats(t, dir, to, lines)
	}
	if _, err := os.Stat(to); err != nil {
		t.Fatalf("there are no stores of format version %d: go test ./storage/boltstore ./internal/house -run TestFormats -formats.make", FormatVersion)
	}
	kinds := kindsOf(t, presentVersion)
	for name := range lines {
		nothingNew(t, name, valuesOf(t, filepath.Join(dir, name+".db")), kinds)
	}
}

// nothingNew reports what a file has and no store of its version. Events and codes may
// be added; which jobs a ledger is at is chance.
func nothingNew(t testing.TB, name string, v *values, known map[string]bool) {
	t.Helper()
	for _, kind := range v.sorted() {
		free := slices.ContainsFunc([]string{"event ", "record member ", "dead code ", "ledger job ", "ledger segment "}, func(p string) bool { return strings.HasPrefix(kind, p) })
		if !free && !known[kind] {
			t.Errorf("%s has what no store of its version has: %s. That is a new version: see docs/format.md", name, kind)
		}
	}
	for _, wrong := range v.wrong {
		t.Errorf("%s: %s", name, wrong)
	}
}

// keepFormats keeps stores for ever.
func keepFormats(t *testing.T, dir, to string, lines map[string][]string) {
	t.Helper()
	if old, err := filepath.Glob(filepath.Join(to, "*.db.zst")); err != nil || len(old) > 0 {
		t.Fatalf("%s has stores already, and they are never made anew (%v). If the format is another now, FormatVersion must be", to, err)
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	write := func(name string, body []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(to, name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, sent := range lines {
		path := filepath.Join(dir, name+".db")
		text, err := json.MarshalIndent(factsOf(t, path, sent), "", " ")
		if err != nil {
			t.Fatal(err)
		}
		write(name+".json", append(text, '\n'))
		write(name+".db.zst", e.EncodeAll(readFile(t, path), nil))
		for _, suffix := range []string{".head", ".lock"} {
			if body, err := os.ReadFile(path + suffix); err == nil {
				write(name+".db"+suffix, body)
			}
		}
	}
}

// TestFormats_a_clean_stop_is_believed: what the lock file of an old version says of the
// store's last stop still counts. (A copy is another file, of another time: the test
// puts those two into the note.)
func TestFormats_a_clean_stop_is_believed(t *testing.T) {
	for _, version := range versions() {
		o := oldStore{name: version + "/stopped"}
		path := o.unpack(t)
		st, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		inode := st.Sys().(*syscall.Stat_t).Ino
		note := readFile(t, path+".lock")
		for name, n := range map[string]any{"inode": inode, "mtime": st.ModTime().UnixNano()} {
			note = regexp.MustCompile(name+`=\d+`).ReplaceAll(note, fmt.Appendf(nil, "%s=%d", name, n))
		}
		if err := os.WriteFile(path+".lock", note, 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := Open(Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if r := s.Report(); !r.Clean {
			t.Errorf("%s: opening finds %+v", version, r)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestFormats_refuse_the_next_version: a file of a version that this program does not know
// is refused, said so in words, and left as it is.
func TestFormats_refuse_the_next_version(t *testing.T) {
	o := oldStore{name: presentVersion + "/stopped"}
	path := o.unpack(t)
	amendFile(t, path, func(tx *bolt.Tx) error {
		return tx.Bucket(bucketMeta).Put(metaFormat, binary.BigEndian.AppendUint32(nil, FormatVersion+1))
	})
	before := readFile(t, path)
	for name, open := range map[string]func(Options) (*Store, error){"Open": Open, "OpenCopy": OpenCopy} {
		s, err := open(Options{Path: path, Restore: name == "Open"})
		var f *dbfile.FileError
		want := fmt.Sprintf("its format is %d, this program knows %d", FormatVersion+1, FormatVersion)
		if !errors.As(err, &f) || f.Kind != dbfile.ErrNewer || !strings.Contains(err.Error(), want) || f.Hint == "" {
			t.Errorf("%s: %v, %v; want %s, %q and a hint", name, s, err, dbfile.ErrNewer, want)
		}
	}
	if !bytes.Equal(before, readFile(t, path)) {
		t.Error("the refused file was changed")
	}
}

// livesOn lets a store of an old version live: what it holds is handed out as it was
// sent, in order, and settled in every way; what came before is still known, and it
// verifies all the time.
func livesOn(t *testing.T, path string, o Options) {
	l := newLater(t, path, o)
	l.operate()
	tries := map[uint64]int{}
	l.work(func(d queue.Delivery) queue.Verb {
		tries[d.Message.Seq]++
		return [...]queue.Verb{queue.Ack, queue.Retry, queue.Reject, queue.Release, queue.Hold}[(int(d.Message.Seq)+tries[d.Message.Seq])%5]
	})
	l.letters()
	l.age()
	l.reopen()
	l.work(func(queue.Delivery) queue.Verb { return queue.Ack })
	st, err := l.s.Status(l.ctx, l.now)
	l.ok(err)
	if st.Ready+st.Leased+st.Held+st.Scheduled != 0 {
		t.Errorf("something was never handed out: %+v", st)
	}
	verified(t, l.s)
	l.ok(l.s.Close())
	nothingNew(t, "the store after it has lived on", valuesOf(t, path), kindsOf(t, presentVersion))
}

// later is a store of an old version in the hands of today's code.
type later struct {
	*scribe
	o     Options
	known map[uint64]queue.Hash // lines by seq, as they are to be handed out
	at    map[string]queue.Place
}

func newLater(t *testing.T, path string, o Options) *later {
	t.Helper()
	c, err := openLight(t, OpenCopy, Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	l := &later{
		scribe: &scribe{TB: t, ctx: context.Background(), s: c, path: path, policy: oldPolicy, n: 1_000_000},
		o:      o, known: map[uint64]queue.Hash{}, at: map[string]queue.Place{},
	}
	l.learn()
	v, err := c.Verify(l.ctx, queue.VerifyOptions{})
	l.ok(errors.Join(err, c.Close()))
	l.now = v.Last.TS.Add(100 * time.Hour)
	if v.Last.N == 0 {
		l.now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	}
	l.s = serveOld(t, path, o, l.now).Store
	verified(t, l.s)
	return l
}

// learn notes the line of everything that is open or dead.
func (l *later) learn() {
	l.Helper()
	open, err := l.s.Exceptions(l.ctx, 0, MaxPage)
	l.ok(err)
	page, err := l.s.DeadLetters(l.ctx, queue.LetterQuery{Limit: MaxPage})
	l.ok(err)
	for _, x := range append(open, page.Letters...) {
		l.known[x.Seq] = queue.LineHash(x.Line)
	}
}

// operate lets go of all that keeps messages from being handed out, and adds some.
func (l *later) operate() {
	l.Helper()
	l.ok(l.s.Resume(l.ctx, l.action("go on")))
	keys, err := l.s.Keys(l.ctx, queue.KeyQuery{Now: l.now, Limit: MaxPage})
	l.ok(err)
	for _, k := range keys.Keys {
		if k.Hold != nil {
			l.done(l.s.ReleaseKeys(l.ctx, l.action("go on"), []string{k.Name}))
		}
	}
	leases, err := l.s.Leases(l.ctx, 0, MaxPage)
	l.ok(err)
	for _, lease := range leases {
		res, err := l.s.Revoke(l.ctx, l.action("on leave"), l.policy, []queue.LeaseRef{{Seq: lease.Token.Seq, Fence: lease.Token.Fence}})
		if l.ok(err); res[0].Code != "" {
			l.Fatalf("%+v", res)
		}
	}
	soon := l.now.Add(time.Hour).UTC().Format(time.RFC3339)
	for i := range 12 {
		l.admit(l.line(fmt.Sprint("K", i%5), ""), l.line("NEW", ""), l.line("LATER", `,"not_before":"`+soon+`"`), "no JSON of line "+fmt.Sprint(i))
	}
	l.learn()
}

// work hands out what there is, again and again, and settles it, until nothing is left.
func (l *later) work(verb func(queue.Delivery) queue.Verb) {
	l.Helper()
	want := queue.Want{Owner: oldWorker, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: 50, PerKey: 1, Lease: time.Minute}
	for range 400 {
		res, err := l.s.Claim(l.ctx, queue.ClaimRequest{Now: l.now, Wants: []queue.Want{want}})
		l.ok(err)
		if len(res.Deliveries[0]) == 0 && !res.More {
			if res.Next.IsZero() {
				return
			}
			l.now = res.Next
			continue
		}
		for _, d := range res.Deliveries[0] {
			if h, ok := l.known[d.Message.Seq]; !ok || h != queue.LineHash(d.Message.Line) {
				l.Errorf("seq %d was handed out as %q", d.Message.Seq, d.Message.Line)
			}
			l.answer(oldWorker, queue.Settlement{Verb: verb(d), Outcome: "DONE", Reason: "why", Until: l.now.Add(time.Hour)}, d)
		}
	}
	l.Error("it does not end")
}

// letters puts dead letters back, gives some another line, and ends the rest of those
// that cannot be put back.
func (l *later) letters() {
	l.Helper()
	page, err := l.s.DeadLetters(l.ctx, queue.LetterQuery{Limit: MaxPage})
	l.ok(err)
	var refused []uint64
	for i, x := range page.Letters {
		if _, err := queue.ParseLine(x.Line); err == nil && i%3 == 0 && x.Place.IsZero() == (x.Code == queue.CodeConflict) {
			l.edit(x.Seq, string(x.Line[:len(x.Line)-1])+`,"later":"`+fmt.Sprint(i)+`"}`)
		}
		res, err := l.s.Replay(l.ctx, l.action("once more"), []uint64{x.Seq})
		if l.ok(err); res[0].Code != "" {
			refused = append(refused, x.Seq)
		}
	}
	l.done(l.s.Discard(l.ctx, l.action("booked by hand"), refused))
	l.learn()
	verified(l.TB, l.s)
}

// age lets months go by: keys are forgotten, and the beginning of the trail goes.
func (l *later) age() {
	l.Helper()
	l.hours(2, time.Hour)
	if l.trimAll() == 0 {
		l.Error("nothing was trimmed")
	}
	l.learn()
	verified(l.TB, l.s)
}

// reopen closes the store, has it written anew, and opens it again.
func (l *later) reopen() {
	l.Helper()
	l.ok(l.s.Close())
	if _, err := Compact(Options{Path: l.path, ledger: ledger.OpenLean}); err != nil {
		l.Fatal(err)
	}
	l.pass(time.Hour)
	l.s = serveOld(l.TB, l.path, l.o, l.now).Store
	verified(l.TB, l.s)
}
