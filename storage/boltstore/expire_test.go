package boltstore

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
)

// TestExpire_sweeps_out_what_it_forgot runs a store whose ledger seals and merges all
// the time through thousands of keys, some of which come again before and some after
// they are forgotten, with crashes between. A plain map says what each must be told.
func TestExpire_sweeps_out_what_it_forgot(t *testing.T) {
	t.Parallel()
	const rounds = 100
	s := newSender(t)
	defer func() { s.h.close() }()
	for round := range rounds {
		s.admit(round)
		// Some one by one, the rest together: a log value of the ledger holds several.
		ds := s.claim(100)
		one := min(len(ds), 5)
		for _, d := range ds[:one] {
			s.settle(d, queue.Ack)
		}
		s.settleAll(queue.Ack, ds[one:]...)
		first := s.rnd.IntN(10) == 0
		if first {
			s.h.crash()
			s.start()
		}
		s.now = s.now.Add(time.Minute) // if it was stopped meanwhile, that counts too
		s.expire(first, time.Minute)
	}
	remembered := int64(0)
	for _, at := range s.settled {
		if rounds-at <= remembers {
			remembered++
		}
	}
	st, err := s.h.store.Status(s.ctx, s.now)
	if err != nil || st.LedgerKeys != remembered {
		t.Errorf("%d keys are remembered, want %d (%v)", st.LedgerKeys, remembered, err)
	}
	err = s.h.store.look(s.ctx, func(x *txn) error {
		live := x.t.ledger.Live()
		entries, _, _ := x.t.ledger.Len()
		if live < remembered || live > 2*remembered || int64(entries) > 3*remembered {
			t.Errorf("the ledger has %d keys in %d entries, %d are remembered of %d that there were", live, entries, remembered, s.fresh)
		}
		there := int64(0)
		err := x.t.ledger.Walk(x.tx, ledger.Key{}, func(ledger.Entry) bool { there++; return true })
		if live != there {
			t.Errorf("the ledger says that it has %d keys, it has %d", live, there)
		}
		return errors.Join(err, x.t.ledger.Check(x.tx))
	})
	if err != nil {
		t.Error(err)
	}
}

// remembers is for how many rounds a sender's keys are remembered.
const remembers = 10

// sender sends keys, new and old ones, and knows what it must be told.
type sender struct {
	parker
	rnd     *rand.Rand
	fresh   int         // keys used so far
	settled map[int]int // key → round in which it was settled last
}

func newSender(t *testing.T) *sender {
	const seed = 7
	s := &sender{rnd: rand.New(rand.NewPCG(seed, seed)), settled: map[int]int{}}
	s.parker = parker{
		t: t, ctx: t.Context(), now: time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC),
		h: newHarness(t, Options{ledger: ledger.OpenSmall}),
	}
	s.start()
	s.expire(true, 0)
	return s
}

// admit sends some keys.
func (s *sender) admit(round int) {
	s.t.Helper()
	var lines []queue.Submission
	var keys []int
	for range 20 {
		key := s.fresh
		if s.fresh > 0 && s.rnd.IntN(4) == 0 {
			key = s.rnd.IntN(s.fresh)
		}
		s.fresh = max(s.fresh, key+1)
		keys, lines = append(keys, key), append(lines, submission(s.t, key, 1000))
	}
	res, err := s.h.store.Admit(s.ctx, queue.AdmitRequest{Now: s.now, Lines: lines})
	if err != nil {
		s.t.Fatal(err)
	}
	for i, r := range res.Receipts {
		at, known := s.settled[keys[i]] // in this round: it came twice
		want := queue.Accepted
		if known && round-at <= remembers {
			want = queue.Duplicate
		}
		if r.Status != want {
			s.t.Fatalf("round %d, key %d, settled in %d (%v): %s, want %s", round, keys[i], at, known, r.Status, want)
		}
		if r.Status == queue.Accepted {
			s.settled[keys[i]] = round
		}
	}
}

// expire asks until there is no more to do.
func (s *sender) expire(first bool, passed time.Duration) {
	s.t.Helper()
	r := queue.ExpireRequest{Now: s.now, First: first, Passed: passed, Epoch: time.Minute, Ledger: remembers * time.Minute}
	for {
		res, err := s.h.store.Expire(s.ctx, r)
		if err != nil {
			s.t.Fatal(err)
		}
		if r.First, r.Passed = false, 0; !res.More {
			return
		}
	}
}

// A piece of a filter that was damaged is made anew, and whoever opens the file is told.
func TestOpen_tells_of_a_ledger_that_was_repaired(t *testing.T) {
	s := newSender(t)
	defer func() { s.h.close() }()
	for round := range 10 {
		s.admit(round)
		s.expire(false, time.Minute)
	}
	if err := s.h.store.Close(); err != nil {
		t.Fatal(err)
	}
	harmFile(t, s.h.options.Path, func(tx *bolt.Tx) error {
		b := tx.Bucket([]byte("ledger_filters"))
		key, value := b.Cursor().First()
		value = slices.Clone(value)
		value[len(value)-1] ^= 1
		return b.Put(slices.Clone(key), value)
	})
	s.h.open()
	warnings := strings.Join(s.h.store.Report().Warnings, "\n")
	if !strings.Contains(warnings, "ledger_filters") || !strings.Contains(warnings, "made anew") {
		t.Errorf("warnings: %q", warnings)
	}
	s.start()
	s.admit(10)
}
