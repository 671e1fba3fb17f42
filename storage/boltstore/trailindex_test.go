package boltstore

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"

	"breakwater/partition"
	"breakwater/queue"
)

// TestTrailIndex_queries_find_what_a_full_scan_finds drives a store with small spans
// through crashes, refused commits and the loss of its index.
func TestTrailIndex_queries_find_what_a_full_scan_finds(t *testing.T) {
	t.Parallel()
	for range 3 { // a filter that is wrong is seen only by who asks for the name that it lacks
		rapid.Check(t, askTrail(t))
	}
}

// askTrail lives a random life, and asks about it.
func askTrail(t *testing.T) func(*rapid.T) {
	return func(rt *rapid.T) {
		d := newDriver(rt, t, Options{spans: spanLimits{
			bytes: rapid.IntRange(1, 6000).Draw(rt, "span bytes"), blocks: rapid.Uint64Range(1, 30).Draw(rt, "span blocks"),
		}})
		defer func() { d.h.close() }()
		for range rapid.IntRange(15, 40).Draw(rt, "steps") {
			switch rapid.IntRange(0, 11).Draw(rt, "kind") {
			case 0:
				d.refused()
			case 1:
				d.noteOddly()
			case 2:
				d.ageFile()
			case 3:
				d.trim()
			default:
				d.step()
			}
		}
		d.queries()
		d.checkTrail()
	}
}

// refused does what a commit that finds no room does: it fills the tables, and
// builds them again.
func (d *driver) refused() {
	s, n := d.h.store, rapid.IntRange(1, 200).Draw(d.T, "records")
	d.must(s.do(d.ctx, &operation{read: true, apply: func(x *txn) error {
		if x.t.opening.Before.Block >= s.t.spans.open.first {
			// The span still has what was trimmed of it; built anew it has not.
			if err := s.reload(nil); err != nil {
				return err
			}
			x.t = s.t
		}
		before := x.t.spans
		before.open.filter = slices.Clone(before.open.filter)
		for range n {
			x.record(queue.Record{Event: queue.EventAttached, TS: d.now.Add(time.Hour), Seq: 1 << 40, TraceID: "never"})
		}
		if err := s.reload(nil); err != nil {
			return err
		}
		after := s.t.spans
		if !reflect.DeepEqual(after.open, before.open) || after.bytes != before.bytes || after.keys != before.keys || len(after.done) > 0 {
			return fmt.Errorf("the unfinished span was %+v, and after the refusal it is %+v", before, after)
		}
		return nil
	}}))
}

// noteOddly leaves records at times that step back, and with text that no gate
// would let in.
func (d *driver) noteOddly() {
	r := queue.Record{Event: queue.EventAttached, TraceID: "bad\xff", PartitionKey: strings.Repeat("long", 100)}
	if rapid.Bool().Draw(d.T, "plain") {
		r.TraceID, r.PartitionKey = "t0", "p0"
	}
	back := time.Duration(rapid.IntRange(-3600, 3600).Draw(d.T, "seconds")) * time.Second
	d.must(d.h.store.Note(d.ctx, d.now.Add(back), slices.Repeat([]queue.Record{r}, rapid.IntRange(1, 40).Draw(d.T, "notes"))))
}

// trim removes some of the trail's beginning: of what was recorded before this call.
func (d *driver) trim() {
	r := queue.ExpireRequest{Now: d.now, Passed: time.Second}
	for range 2 { // the epoch that ends with the first is over with the second
		_, err := d.h.store.Expire(d.ctx, r)
		d.must(err)
	}
	for range rapid.IntRange(1, 3).Draw(d.T, "steps of trimming") {
		_, err := d.h.store.Trim(d.ctx, queue.TrimRequest{Now: d.now, Audit: time.Second})
		d.must(err)
	}
}

// ageFile makes the file one of a version that had no index, or one without events.
func (d *driver) ageFile() {
	d.must(d.h.store.Close())
	older := func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketTrailIndex) }
	if rapid.Bool().Draw(d.T, "of version 1") {
		older = eachSpanAt(func(key, value []byte) []byte {
			var sp span
			d.must(sp.parse(key, value))
			sp.old = true
			return sp.append(nil)
		})
	}
	harmFile(d.h.t, d.h.options.Path, older)
	d.h.open()
	d.start()
}

// queries asks about many things and compares with a filter over all records.
func (d *driver) queries() {
	all := recordsOf(d.h.t, d.h.store, queue.TrailQuery{})
	for range 20 {
		at := all[rapid.IntRange(0, len(all)-1).Draw(d.T, "at")]
		q := queue.TrailQuery{Seq: at.Seq}
		switch rapid.IntRange(0, 7).Draw(d.T, "ask") {
		case 6:
			q = queue.TrailQuery{Event: rapid.SampledFrom(queue.Events[:]).Draw(d.T, "event")}
		case 7:
			q = queue.TrailQuery{IdempotencyKey: at.IdempotencyKey, Event: at.Event}
		case 0:
			q.Seq = rapid.Uint64Range(1, uint64(d.sent+2)).Draw(d.T, "seq")
		case 1:
			q = queue.TrailQuery{TraceID: at.TraceID, AfterN: rapid.Uint64Range(0, at.N).Draw(d.T, "after")}
		case 2:
			q = queue.TrailQuery{PartitionKey: at.PartitionKey, Event: at.Event}
		case 3:
			q = queue.TrailQuery{Since: at.TS, Until: at.TS.Add(time.Duration(rapid.IntRange(1, 1e7).Draw(d.T, "for")) * time.Microsecond)}
		case 4:
			q = queue.TrailQuery{TraceID: at.TraceID, PartitionKey: at.PartitionKey, Until: at.TS.Add(time.Microsecond)}
		}
		compareQuery(d.h.t, d.h.store, all, q)
	}
}

// compareQuery compares what a query finds with what it selects of all records.
func compareQuery(t testing.TB, s *Store, all []queue.Record, q queue.TrailQuery) {
	t.Helper()
	var want []queue.Record
	for i := range all {
		if q.Matches(&all[i]) {
			want = append(want, all[i])
		}
	}
	if got := recordsOf(t, s, q); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v finds %d records, there are %d:\n%+v\n%+v", q, len(got), len(want), got, want)
	}
}

func recordsOf(t testing.TB, s *Store, q queue.TrailQuery) (records []queue.Record) {
	t.Helper()
	err := s.Trail(context.Background(), q, func(r queue.Record) bool {
		records = append(records, r)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return records
}

// harmFile changes a closed file behind the store's back.
func harmFile(t testing.TB, path string, harm func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, &bolt.Options{NoFreelistSync: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(harm), db.Close()); err != nil {
		t.Fatal(err)
	}
}

// livedIn returns a store in which so many rounds of messages lived their whole
// lives, a round a minute. Of each message there are three records.
func livedIn(t testing.TB, o Options, rounds, perRound int) (h *harness, began time.Time) {
	t.Helper()
	h = newHarness(t, o)
	ctx, began := context.Background(), time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	s, now := h.store, began
	_, err := s.Start(ctx, queue.StartRequest{Now: now})
	owner := queue.Owner{Kind: queue.Worker, Name: "w"}
	want := queue.Want{Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: perRound, PerKey: perRound, Lease: time.Hour}
	for round := 0; round < rounds && err == nil; round++ {
		now = now.Add(time.Minute)
		lines := make([]queue.Submission, perRound)
		for i := range lines {
			lines[i] = submission(t, round*perRound+i, rounds*perRound/2)
		}
		_, err = s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: lines})
		if err == nil && round == rounds/3 {
			_, err = s.HoldKeys(ctx, queue.Action{Now: now}, []string{"entity-100"})
			if err == nil {
				_, err = s.ReleaseKeys(ctx, queue.Action{Now: now}, []string{"entity-100"})
			}
		}
		if err == nil && round > 0 { // so that a life takes more than one round
			err = ackSome(s, now, want)
		}
	}
	for range 3 {
		err = errors.Join(err, ackSome(s, now, want))
	}
	if err != nil {
		t.Fatal(err)
	}
	return h, began
}

func ackSome(s *Store, now time.Time, w queue.Want) error {
	res, err := s.Claim(context.Background(), queue.ClaimRequest{Now: now, Wants: []queue.Want{w}})
	if err != nil {
		return err
	}
	var acks []queue.Settlement
	for _, d := range res.Deliveries[0] {
		acks = append(acks, queue.Settlement{Token: d.Token, Owner: w.Owner, Verb: queue.Ack, At: now, Outcome: "DONE"})
	}
	_, err = s.Settle(context.Background(), queue.SettleRequest{Now: now, Settlements: acks})
	return err
}

func TestTrailIndex_a_query_opens_few_of_a_thousand_spans(t *testing.T) {
	t.Parallel()
	const rounds, perRound = 350, 12
	h, began := livedIn(t, Options{spans: spanLimits{bytes: 1, blocks: 1}}, rounds, perRound)
	defer h.close()
	h.reopen() // so that nothing depends on memory
	spans := 0
	if err := h.store.view(func(tx *bolt.Tx) error {
		spans = tx.Bucket(bucketTrailIndex).Stats().KeyN
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if spans < 1000 {
		t.Fatalf("only %d spans", spans)
	}
	const seq = rounds * perRound / 2
	minute := began.Add(rounds / 2 * time.Minute)
	for name, c := range map[string]struct {
		q             queue.TrailQuery
		records, most int // spans: those of the records, the unfinished one, and one in a hundred for nothing
	}{
		"a message":          {queue.TrailQuery{Seq: seq}, 3, 3 + 1 + 10},
		"a trace":            {queue.TrailQuery{TraceID: "trace-00000100"}, 3, 3 + 1 + 10},
		"a key":              {queue.TrailQuery{PartitionKey: "entity-100"}, 8, 8 + 1 + 10},
		"an idempotency key": {queue.TrailQuery{IdempotencyKey: "idem-00000100"}, 1, 1 + 1 + 10},
		"a rare event":       {queue.TrailQuery{Event: queue.EventKeyHeld, PartitionKey: "entity-100"}, 1, 1 + 1 + 10},
		"an absent event":    {queue.TrailQuery{Event: queue.EventRestored}, 0, 1 + 10},
		"none":               {queue.TrailQuery{TraceID: "unheard of"}, 0, 1 + 10},
		"a minute":           {queue.TrailQuery{Since: minute, Until: minute.Add(time.Minute)}, 3 * perRound, 20},
		"everything":         {queue.TrailQuery{}, 3 + 3*rounds*perRound, 1},
		"all since":          {queue.TrailQuery{Since: began}, 3 + 3*rounds*perRound, spans + 1},
		"before it":          {queue.TrailQuery{Until: began}, 0, 1},
		"all together":       {queue.TrailQuery{Seq: seq, TraceID: fmt.Sprintf("trace-%08d", seq-1), Since: minute}, 3, 3 + 1 + 1},
	} {
		before := h.store.spansOpened.Load()
		found := len(recordsOf(t, h.store, c.q))
		opened := h.store.spansOpened.Load() - before
		if found != c.records || opened > int64(c.most) {
			t.Errorf("%s: %d records, want %d; %d of %d spans opened, want at most %d", name, found, c.records, opened, spans, c.most)
		}
	}
	before := h.store.spansOpened.Load()
	e, err := h.store.Exception(context.Background(), seq)
	if opened := h.store.spansOpened.Load() - before; err != nil || e.State != queue.Done || opened > 3+10 {
		t.Errorf("a settled message: %v, %v, %d spans opened", e.State, err, opened)
	}
}

// The index may be missing or damaged in any way: answers are the same, and damage
// is reported.
func TestTrailIndex_damage_costs_time_and_no_answers(t *testing.T) {
	t.Parallel()
	h, began := livedIn(t, Options{spans: spanLimits{bytes: 8000, blocks: 4}}, 12, 20)
	all := recordsOf(t, h.store, queue.TrailQuery{})
	whole := h.options.Path
	if err := h.store.Close(); err != nil {
		t.Fatal(err)
	}
	defer h.close() // a second Close of the store does nothing; the folder goes
	for name, c := range harms() {
		t.Run(name, func(t *testing.T) {
			o := h.options
			o.Path = filepath.Join(t.TempDir(), "breakwater.db")
			copyFile(t, whole, o.Path)
			harmFile(t, o.Path, c.harm)
			copied, err := openLight(t, OpenCopy, o)
			if err != nil {
				t.Fatal(err)
			}
			judge(t, copied, all, c.finding)
			if err := copied.Close(); err != nil {
				t.Fatal(err)
			}
			s, err := openLight(t, Open, o)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if _, err := s.Start(context.Background(), queue.StartRequest{Now: began}); err != nil {
				t.Fatal(err)
			}
			if err := s.Note(context.Background(), began, slices.Repeat([]queue.Record{{Event: queue.EventAttached, TraceID: "late"}}, 300)); err != nil {
				t.Fatal(err)
			}
			judge(t, s, recordsOf(t, s, queue.TrailQuery{}), c.finding)
		})
	}
}

// judge compares queries and wants a finding, or none, from a verification.
func judge(t *testing.T, s *Store, all []queue.Record, finding string) {
	t.Helper()
	if finding != "denies" { // such a filter is sound to whoever reads it
		for seq := uint64(0); seq < 250; seq += 23 {
			compareQuery(t, s, all, queue.TrailQuery{Seq: seq + 1})
		}
		for _, q := range []queue.TrailQuery{{PartitionKey: "entity-7"}, {TraceID: "trace-00000100"}, {TraceID: "late"}, {Since: all[len(all)/2].TS}} {
			compareQuery(t, s, all, q)
		}
	}
	v, err := s.Verify(context.Background(), queue.VerifyOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if finding == "" && len(v.Findings) > 0 || finding != "" && len(v.Findings) == 0 {
		t.Fatalf("findings: %+v, want %q", v.Findings, finding)
	}
	for _, f := range v.Findings {
		if !strings.Contains(f.What, finding) {
			t.Errorf("finding: %+v, want %q", f, finding)
		}
	}
}

// harm is one way to spoil the index, and what a verification says of it.
type harm struct {
	harm    func(*bolt.Tx) error
	finding string
}

func harms() map[string]harm {
	return map[string]harm{
		"none":        {func(*bolt.Tx) error { return nil }, ""},
		"no bucket":   {func(tx *bolt.Tx) error { return tx.DeleteBucket(bucketTrailIndex) }, ""},
		"all missing": {eachSpan(func(int, []byte) []byte { return nil }), ""},
		"every other one missing": {eachSpan(func(i int, v []byte) []byte {
			if i%2 == 0 {
				return nil
			}
			return v
		}), ""},
		"the last ones missing": {eachSpan(func(i int, v []byte) []byte {
			if i > 5 {
				return nil
			}
			return v
		}), ""},
		"a bit is another": {eachSpan(func(i int, v []byte) []byte { v[i*97%len(v)] ^= 1; return v }), "checksum"},
		"cut short":        {eachSpan(func(_ int, v []byte) []byte { return v[:len(v)-8] }), "checksum"},
		"empty":            {eachSpan(func(int, []byte) []byte { return []byte{} }), "checksum"},
		"in others' places": {func(tx *bolt.Tx) error {
			var last []byte
			return eachSpan(func(_ int, v []byte) []byte { v, last = last, v; return v })(tx)
		}, "checksum"},
		"a key that is none": {func(tx *bolt.Tx) error {
			return tx.Bucket(bucketTrailIndex).Put([]byte{0xff, 0}, []byte("x"))
		}, "a key of 2 bytes"},
		"filters that lie": {func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketTrailIndex)
			key, value := b.Cursor().First()
			var sp span
			if err := sp.parse(key, value); err != nil {
				return err
			}
			clear(sp.filter)
			return b.Put(slices.Clone(key), sp.append(nil))
		}, "denies"},
	}
}

// eachSpan replaces every value of the index; nil removes it.
func eachSpan(f func(i int, value []byte) []byte) func(*bolt.Tx) error {
	i := -1
	return eachSpanAt(func(_, value []byte) []byte { i++; return f(i, value) })
}

// eachSpanAt is eachSpan for who needs the keys.
func eachSpanAt(f func(key, value []byte) []byte) func(*bolt.Tx) error {
	return func(tx *bolt.Tx) error {
		b := tx.Bucket(bucketTrailIndex)
		spans := map[string][]byte{}
		if err := b.ForEach(func(k, v []byte) error { spans[string(k)] = slices.Clone(v); return nil }); err != nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(spans)) {
			var err error
			if v := f([]byte(key), spans[key]); v == nil {
				err = b.Delete([]byte(key))
			} else {
				err = b.Put([]byte(key), v)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}
