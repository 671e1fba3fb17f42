package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
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

// remembering is a store whose ledger has many segments: most of what it has taken is
// settled, the rest open.
type remembering struct {
	t       *testing.T
	path    string
	s       *Store
	told    []string
	receipt map[int]queue.Receipt // of line n, when it was sent first
	now     time.Time
}

func newRemembering(t *testing.T) *remembering {
	r := &remembering{t: t, path: filepath.Join(t.TempDir(), "breakwater.db"), receipt: map[int]queue.Receipt{}}
	r.now = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	r.open()
	for n := 0; n < 900; n += 30 {
		var lines []int
		for i := range 30 {
			lines = append(lines, n+i)
		}
		for i, rc := range r.send(lines...) {
			if rc.Status != queue.Accepted {
				t.Fatalf("%+v", rc)
			}
			r.receipt[lines[i]] = rc
		}
		r.work(25)
	}
	return r
}

func (r *remembering) open() {
	r.t.Helper()
	s, err := Open(Options{Path: r.path, ledger: ledger.OpenSmall, Damaged: func(what string) { r.told = append(r.told, what) }})
	if err != nil {
		r.t.Fatal(err)
	}
	r.s = s
	r.t.Cleanup(func() { _ = s.Close() })
	if _, err := s.Start(context.Background(), queue.StartRequest{Now: r.now, Version: "1"}); err != nil {
		r.t.Fatal(err)
	}
}

// send sends lines by number, in one request.
func (r *remembering) send(lines ...int) []queue.Receipt {
	r.t.Helper()
	req := queue.AdmitRequest{Now: r.now, Peer: queue.Peer{UID: 1000, PID: 7}}
	for _, n := range lines {
		line := fmt.Appendf(nil, `{"idempotency_key":"id-%d","trace_id":"t","partition_key":"key-%d","ledger_entity":"E","match_decision":"PARTIAL","variance_amount":"%d.00"}`, n, n%50, n)
		m, err := queue.ParseLine(line)
		if err != nil {
			r.t.Fatal(err)
		}
		req.Lines = append(req.Lines, queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)})
	}
	res, err := r.s.Admit(context.Background(), req)
	if err != nil {
		r.t.Fatal(err)
	}
	return res.Receipts
}

// work settles some messages.
func (r *remembering) work(n int) {
	r.t.Helper()
	owner := queue.Owner{Kind: queue.Worker, Name: "w-0"}
	res, err := r.s.Claim(context.Background(), queue.ClaimRequest{Now: r.now, Wants: []queue.Want{{
		Owner: owner, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: n, PerKey: 9, Lease: time.Hour,
	}}})
	if err != nil {
		r.t.Fatal(err)
	}
	s := queue.SettleRequest{Now: r.now}
	for _, d := range res.Deliveries[0] {
		s.Settlements = append(s.Settlements, queue.Settlement{Token: d.Token, Owner: owner, Verb: queue.Ack, At: r.now, Outcome: "DONE"})
	}
	if _, err := r.s.Settle(context.Background(), s); err != nil {
		r.t.Fatal(err)
	}
}

// spoilBlocks changes a byte of a value of ledger_blocks, n times in different ones,
// and returns how they were.
func (r *remembering) spoilBlocks(n int) map[string][]byte {
	r.t.Helper()
	rng := damageDice(r.t, 7)
	were := map[string][]byte{}
	if err := r.s.Close(); err != nil {
		r.t.Fatal(err)
	}
	amendFile(r.t, r.path, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("ledger_blocks"))
		var keys [][]byte
		_ = b.ForEach(func(k, _ []byte) error { keys = append(keys, bytes.Clone(k)); return nil })
		for len(were) < n {
			key := keys[rng.IntN(len(keys))]
			if were[string(key)] != nil {
				continue
			}
			were[string(key)] = bytes.Clone(b.Get(key))
			bad := bytes.Clone(b.Get(key))
			bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
			if err := b.Put(key, bad); err != nil {
				return err
			}
		}
		return nil
	})
	r.open()
	return were
}

// again sends lines that are known, each in a request with one that is new, and returns
// those that were rejected. No other answer than the right one is given.
func (r *remembering) again(from int) (rejected []int) {
	r.t.Helper()
	for n := range slices.Sorted(maps.Keys(r.receipt))[:900] {
		res := r.send(from+2*n, n, from+2*n+1)
		for _, i := range []int{0, 2} {
			switch rc := res[i]; {
			case rc.Status == queue.Accepted:
				r.receipt[from+2*n+i/2] = rc
			case rc.Code != queue.CodeStorageUnavailable:
				r.t.Fatalf("a new line: %+v", rc)
			default: // the filter errs, in the range of the damaged block
				rejected = append(rejected, from+2*n+i/2)
			}
		}
		switch rc := res[1]; {
		case rc.Status == queue.Duplicate && rc.Seq == r.receipt[n].Seq:
		case rc.Status == queue.Rejected && rc.Code == queue.CodeStorageUnavailable && rc.Seq == 0 && strings.Contains(rc.Error, "ledger"):
			rejected = append(rejected, n)
		default:
			r.t.Fatalf("line %d, which had seq %d: %+v", n, r.receipt[n].Seq, rc)
		}
	}
	return rejected
}

// TestDoubt spoils blocks of the ledger. What may be there is rejected, and stored
// neither twice nor not at all; everything else is answered and worked on as ever; and
// when the bytes are back so is the rest.
func TestDoubt(t *testing.T) {
	r := newRemembering(t)
	were := r.spoilBlocks(3)
	rejected := r.again(10000)
	if len(rejected) == 0 || len(rejected) > 120 {
		t.Fatalf("%d lines were rejected of the 2,700", len(rejected))
	}
	st, err := r.s.Status(context.Background(), r.now)
	if err != nil || st.DamagedSegments == 0 || st.DamagedSegments > 3 {
		t.Errorf("damaged segments: %d, %v", st.DamagedSegments, err)
	}
	if len(r.told) == 0 || len(r.told) > 3 || !strings.Contains(r.told[0], "ledger_blocks") {
		t.Errorf("told: %q", r.told)
	}
	for range 40 { // merges go around it
		r.work(60)
		if _, err := r.s.Expire(context.Background(), queue.ExpireRequest{Now: r.now, First: true, Passed: time.Minute, Ledger: 1000 * time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.s.Find(context.Background(), fmt.Sprint("id-", rejected[0])); !inDoubt(err) {
		t.Errorf("Find of line %d: %v", rejected[0], err)
	}
	if more := r.again(20000); !subset(more, rejected) {
		t.Errorf("%d lines were rejected, then %d", len(rejected), len(more))
	}
	if err := r.s.Close(); err != nil {
		t.Fatal(err)
	}
	amendFile(t, r.path, func(tx *bolt.Tx) error {
		for key, value := range were {
			if b := tx.Bucket([]byte("ledger_blocks")); b.Get([]byte(key)) != nil {
				if err := b.Put([]byte(key), value); err != nil {
					return err
				}
			}
		}
		return nil
	})
	r.open()
	if left := r.again(30000); len(left) > 0 {
		t.Errorf("%d lines are rejected though nothing is damaged", len(left))
	}
	v, err := r.s.Verify(context.Background(), queue.VerifyOptions{})
	if err != nil || len(v.Findings) > 0 {
		t.Errorf("%+v, %v", v.Findings, err)
	}
}

// subset reports whether the known lines among list are all in of.
func subset(list, of []int) bool {
	for _, n := range list {
		if n < 900 && !slices.Contains(of, n) {
			return false
		}
	}
	return true
}
