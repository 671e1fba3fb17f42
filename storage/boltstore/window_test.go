package boltstore

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
	"breakwater/storage/storetest"
)

// TestWindow_order_survives_a_window_that_is_far_too_small drives a store whose
// window holds a handful of messages through everything that makes keys stop and
// go, so that messages are parked, evicted, brought back and met again by the walk
// of the next process. Nothing may be lost, doubled or overtake, and in the end
// everything must have been handed out.
func TestWindow_order_survives_a_window_that_is_far_too_small(t *testing.T) {
	t.Parallel()
	fullDisks := 0
	rapid.Check(t, func(rt *rapid.T) {
		d := newDriver(rt, t, Options{Window: rapid.IntRange(1, 12).Draw(rt, "window"), ledger: ledger.OpenSmall})
		defer func() { fullDisks += d.fullDisks; d.h.close() }()
		for range rapid.IntRange(20, 60).Draw(rt, "steps") {
			d.step()
		}
		d.audit()
		d.finish()
	})
	if fullDisks == 0 {
		t.Error("no step met a full disk")
	}
}

// The programs of storetest know more ways to make keys stop and go, but nothing
// of windows.
func TestWindow_a_small_one_breaks_no_promise(t *testing.T) {
	t.Parallel()
	storetest.RunAlone(t, openHarness(3))
}

// driver does random things to a store.
type driver struct {
	*rapid.T
	h    *harness
	ctx  context.Context
	now  time.Time
	sent int
	held []queue.Settlement // leases that were not answered yet
	told []byte             // all records, trimmed ones too

	disk      *fullDisk
	fullDisks int // steps that met it full
}

const windowKeys = 6

func newDriver(rt *rapid.T, t *testing.T, o Options) *driver {
	disk := new(fullDisk)
	o.commit = disk.commit
	d := &driver{}
	o.Committed = func(c queue.Commit) { d.told = append(d.told, c.Records...) }
	*d = driver{T: rt, disk: disk, h: newHarness(t, o), ctx: context.Background(), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)}
	d.start()
	return d
}

func (d *driver) policy() queue.Policy {
	return queue.Policy{MaxAttempts: 3, MaxDeliveries: 6, RetryInitial: time.Second, RetryMax: 4 * time.Second}
}

func (d *driver) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

func (d *driver) start() {
	_, err := d.h.store.Start(d.ctx, queue.StartRequest{Now: d.now, Policy: d.policy()})
	d.must(err)
	d.held = slices.DeleteFunc(d.held, func(a queue.Settlement) bool { return a.Owner.Kind == queue.Worker })
}

func (d *driver) step() {
	d.now = d.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(d.T, "pass")) * time.Millisecond)
	switch rapid.IntRange(0, 12).Draw(d.T, "do") {
	case 0, 1, 2:
		d.must(d.admit(rapid.IntRange(1, 12).Draw(d.T, "lines")))
	case 3, 4, 5:
		_, err := d.claim()
		d.must(err)
	case 6, 7:
		d.must(d.answer())
	case 8:
		d.must(d.operate())
	case 9:
		d.must(d.extend())
	case 10, 11:
		d.withoutRoom()
	case 12:
		if rapid.Bool().Draw(d.T, "crash") {
			d.h.crash()
		} else {
			d.h.reopen()
		}
		d.start()
	}
}

// withoutRoom does one thing while the disk takes no writes. It is done or refused;
// what is refused has changed nothing, not even the times that only memory knows.
func (d *driver) withoutRoom() {
	before, err := d.h.store.deadlines()
	d.must(err)
	was, err := d.h.store.Status(d.ctx, d.now)
	d.must(err)
	act := []func() error{
		func() error { return d.admit(rapid.IntRange(1, 12).Draw(d.T, "lines")) },
		func() error { _, err := d.claim(); return err },
		d.answer, d.operate,
	}[rapid.IntRange(0, 3).Draw(d.T, "do without room")]
	d.disk.full.Store(true)
	err = act()
	d.disk.full.Store(false)
	if err == nil {
		return // there was nothing to write
	}
	if !errors.Is(err, queue.ErrNoRoom) {
		d.Fatalf("without room: %v", err)
	}
	d.fullDisks++
	after, err := d.h.store.deadlines()
	d.must(err)
	for seq, times := range before {
		if now := after[seq]; !now[0].Equal(times[0]) || !now[1].Equal(times[1]) {
			d.Fatalf("seq %d: deadline and wait are %v after the refusal, were %v", seq, now, times)
		}
	}
	is, err := d.h.store.Status(d.ctx, d.now)
	d.must(err)
	was.FreeBytes, is.FreeBytes = 0, 0 // what earlier transactions have freed is counted now
	was.DiskFree, is.DiskFree = 0, 0   // others write to it too
	if was.Oldest, is.Oldest = nil, nil; !reflect.DeepEqual(was, is) {
		d.Fatalf("after the refusal\n%+v, before\n%+v", is, was)
	}
	d.audit()
}

// fullDisk stands between a store and its disk. While it is full, a commit ends as
// bbolt's does whose write finds no room: undone, with the error of the write. (What a
// real full disk does is looked at in noroom_test.go and in package dbfile.)
type fullDisk struct{ full atomic.Bool }

func (f *fullDisk) commit(tx *bolt.Tx) error {
	if !f.full.Load() {
		return tx.Commit()
	}
	return cmp.Or(tx.Rollback(), error(&fs.PathError{Op: "write", Path: "breakwater.db", Err: unix.ENOSPC}))
}

// audit compares the tables with the file.
func (d *driver) audit() {
	wrong, err := d.h.store.auditTables()
	d.must(err)
	for _, w := range wrong {
		d.Error(w)
	}
	if len(wrong) > 0 {
		d.FailNow()
	}
}

// extend renews a lease for longer than the file knows.
func (d *driver) extend() error {
	if len(d.held) == 0 {
		return nil
	}
	a := d.held[rapid.IntRange(0, len(d.held)-1).Draw(d.T, "which")]
	_, err := d.h.store.Extend(d.ctx, queue.ExtendRequest{Now: d.now, Owner: a.Owner, Tokens: []queue.Token{a.Token}, Lease: 2 * time.Hour})
	return err
}

func (d *driver) admit(n int) error {
	lines := make([]queue.Submission, n)
	for i := range lines {
		d.sent++
		scheduled := ""
		if rapid.IntRange(0, 7).Draw(d.T, "scheduled") == 0 {
			scheduled = fmt.Sprintf(`,"not_before":%q`, d.now.Add(2*time.Second).Format(time.RFC3339))
		}
		line := fmt.Appendf(nil, `{"idempotency_key":"k%d","trace_id":"t%d","partition_key":"p%d","ledger_entity":"e","match_decision":"PARTIAL","variance_amount":"1.00","priority":%d%s}`,
			d.sent, d.sent/3, rapid.IntRange(0, windowKeys-1).Draw(d.T, "key"), rapid.IntRange(4, 6).Draw(d.T, "priority"), scheduled)
		m, err := queue.ParseLine(line)
		d.must(err)
		lines[i] = queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)}
	}
	_, err := d.h.store.Admit(d.ctx, queue.AdmitRequest{Now: d.now, Lines: lines})
	if err != nil {
		d.sent -= n
	}
	return err
}

func (d *driver) claim() (int, error) {
	w := queue.Want{
		Owner: rapid.SampledFrom([]queue.Owner{{Kind: queue.Worker, Name: "w"}, {Kind: queue.Consumer, Name: "ui"}}).Draw(d.T, "owner"), Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...),
		Max: rapid.IntRange(1, 10).Draw(d.T, "max"), PerKey: rapid.IntRange(1, 4).Draw(d.T, "per key"), Lease: time.Hour,
	}
	res, err := d.h.store.Claim(d.ctx, queue.ClaimRequest{Now: d.now, Wants: []queue.Want{w}})
	if err != nil {
		return 0, err
	}
	for _, x := range res.Deliveries[0] {
		d.held = append(d.held, queue.Settlement{Token: x.Token, Owner: w.Owner, Outcome: "OK"})
	}
	return len(res.Deliveries[0]), nil
}

func (d *driver) answer() error {
	if len(d.held) == 0 {
		return nil
	}
	at := rapid.IntRange(0, len(d.held)-1).Draw(d.T, "which")
	a := d.held[at]
	a.Verb = queue.Verb(rapid.IntRange(int(queue.Ack), int(queue.Reject)).Draw(d.T, "verb"))
	a.At, a.Until = d.now, d.now.Add(time.Second)
	if err := d.settle(a); err != nil {
		return err
	}
	d.held = slices.Delete(d.held, at, at+1)
	return nil
}

// settle answers; a token that is refused is one that was put back with another.
func (d *driver) settle(all ...queue.Settlement) error {
	_, err := d.h.store.Settle(d.ctx, queue.SettleRequest{Now: d.now, Policy: d.policy(), Settlements: all})
	return err
}

func (d *driver) operate() error {
	key := fmt.Sprintf("p%d", rapid.IntRange(0, windowKeys-1).Draw(d.T, "key"))
	a := queue.Action{Now: d.now, By: "op"}
	var err error
	switch rapid.IntRange(0, 3).Draw(d.T, "operate") {
	case 0:
		_, err = d.h.store.HoldKeys(d.ctx, a, []string{key})
	case 1:
		a.Waits = rapid.Bool().Draw(d.T, "waits")
		_, err = d.h.store.ReleaseKeys(d.ctx, a, []string{key})
	case 2:
		err = d.replay(a, 2)
	case 3:
		if len(d.held) > 0 {
			seq := d.held[rapid.IntRange(0, len(d.held)-1).Draw(d.T, "which")].Token.Seq
			_, err = d.h.store.Revoke(d.ctx, a, d.policy(), []queue.LeaseRef{{Seq: seq}})
		}
	}
	return err
}

// replay puts up to n dead letters back.
func (d *driver) replay(a queue.Action, n int) error {
	dead, err := d.h.store.DeadLetters(d.ctx, queue.LetterQuery{Limit: n})
	if err != nil || len(dead.Letters) == 0 {
		return err
	}
	var seqs []uint64
	for _, e := range dead.Letters {
		seqs = append(seqs, e.Seq)
	}
	_, err = d.h.store.Replay(d.ctx, a, seqs)
	return err
}

// finish lets everything go on, and works it off.
func (d *driver) finish() {
	a := queue.Action{Now: d.now, By: "op"}
	for i := range windowKeys {
		_, err := d.h.store.ReleaseKeys(d.ctx, a, []string{fmt.Sprintf("p%d", i)})
		d.must(err)
	}
	for idle := 0; idle < 3; {
		d.now = d.now.Add(10 * time.Second)
		d.must(d.replay(a, 1000))
		got, err := d.claim()
		d.must(err)
		if got == 0 && len(d.held) == 0 {
			idle++ // what waited has had its time: nothing may be left
			continue
		}
		for i := range d.held {
			d.held[i].Verb, d.held[i].At = queue.Ack, d.now
		}
		d.must(d.settle(d.held...))
		d.held, idle = nil, 0
	}
	st, err := d.h.store.Status(d.ctx, d.now)
	d.must(err)
	if st.Backlog() != 0 || st.Dead != 0 || st.Done != int64(d.sent) {
		d.Fatalf("sent %d, and at the end: %+v", d.sent, st)
	}
	if n := d.h.store.t.windowed; n != 0 {
		d.Fatalf("an empty store counts %d messages in its window", n)
	}
	d.checkTrail()
}

func (d *driver) checkTrail() {
	var records []queue.Record
	for line := range bytes.Lines(d.told) {
		r, err := queue.ParseRecord(line)
		d.must(err)
		records = append(records, r)
	}
	for _, what := range storetest.CheckTrail(records) {
		d.Error(what)
	}
	v, err := d.h.store.Verify(d.ctx, queue.VerifyOptions{})
	d.must(err)
	for _, f := range v.Findings {
		d.Errorf("%+v", f)
	}
}
