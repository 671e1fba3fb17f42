package boltstore

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
	"breakwater/storage/storetest"
)

// TestGroup_a_question_that_has_no_answer_ends_nobodys_transaction asks for what is
// not there in the same group in which something is stored.
func TestGroup_a_question_that_has_no_answer_ends_nobodys_transaction(t *testing.T) {
	s, ctx := newGroupStore(t), context.Background()
	release := s.hold(t)
	found := s.begin(t, func() error { _, err := s.Find(ctx, "never sent"); return err })
	shown := s.begin(t, func() error { _, err := s.Exception(ctx, 99); return err })
	stored := s.begin(t, func() error { return s.Probe(ctx) })
	close(release)
	for _, asked := range []<-chan error{found, shown} {
		if err := <-asked; !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("asked for what is not there: %v", err)
		}
	}
	if err := <-stored; err != nil {
		t.Fatalf("stored something beside it: %v", err)
	}
}

// TestGroup_a_key_that_is_forgotten_can_be_used_in_the_same_transaction lets a
// producer send the corrected line while the operator frees its key.
func TestGroup_a_key_that_is_forgotten_can_be_used_in_the_same_transaction(t *testing.T) {
	s, ctx := newGroupStore(t), context.Background()
	now := time.Now()
	if _, err := s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: []queue.Submission{submission(t, 1, 1)}}); err != nil {
		t.Fatal(err)
	}
	acks := claimSome(t, s.Store, now, 1)
	acks[0].Verb = queue.Reject
	if _, err := s.Settle(ctx, queue.SettleRequest{Now: now, Settlements: acks}); err != nil {
		t.Fatal(err)
	}
	for range maxAhead { // so that both go into one group
		if err := s.Probe(ctx); err != nil {
			t.Fatal(err)
		}
	}
	release := s.hold(t)
	discarded := s.begin(t, func() error {
		_, err := s.Discard(ctx, queue.Action{Now: now, By: "op", Forget: true}, []uint64{1})
		return err
	})
	var res queue.AdmitResult
	admitted := s.begin(t, func() (err error) {
		res, err = s.Admit(ctx, queue.AdmitRequest{Now: now, Lines: []queue.Submission{submission(t, 1, 1)}})
		return err
	})
	close(release)
	if err := errors.Join(<-discarded, <-admitted); err != nil {
		t.Fatal(err)
	}
	if r := res.Receipts[0]; r.Status != queue.Accepted || r.Seq != 2 {
		t.Fatalf("the corrected line: %+v", r)
	}
}

// TestGroup_is_as_good_as_one_after_the_other mixes verbs in groups that the committer
// takes as one transaction.
func TestGroup_is_as_good_as_one_after_the_other(t *testing.T) {
	t.Parallel()
	storetest.RunGroups(t, openModel, func(t testing.TB, o storetest.Options) storetest.Harness {
		h := newHarness(t, Options{Committed: o.Committed, ledger: ledger.OpenSmall})
		return storetest.Harness{
			Store: h.store, Crash: h.crash, Reopen: h.reopen, Close: h.close,
			Together: func(calls []func()) { together(t, h.store, calls) },
		}
	})
}

// together has the committer find all calls waiting.
func together(t testing.TB, s *Store, calls []func()) {
	t.Helper()
	g := groupStore{s}
	for range maxAhead { // so that admissions have their turn with the rest
		if err := s.Probe(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	release := g.hold(t)
	var waiting []<-chan error
	for _, call := range calls {
		waiting = append(waiting, g.begin(t, func() error { call(); return nil }))
	}
	close(release)
	for _, done := range waiting {
		<-done
	}
}

// groupStore is a store whose next group a test puts together.
type groupStore struct{ *Store }

func newGroupStore(t *testing.T) groupStore {
	h := newHarness(t, Options{})
	t.Cleanup(h.close)
	if _, err := h.store.Start(context.Background(), queue.StartRequest{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return groupStore{h.store}
}

// hold keeps the committer busy until the channel is closed.
func (s groupStore) hold(t testing.TB) chan struct{} {
	busy, release := make(chan struct{}), make(chan struct{})
	go func() {
		err := s.do(context.Background(), &operation{apply: func(*txn) error {
			close(busy)
			<-release
			return nil
		}})
		if err != nil {
			t.Error(err)
		}
	}()
	<-busy
	return release
}

// begin starts a call and returns when it waits for the committer.
func (s groupStore) begin(t testing.TB, call func() error) <-chan error {
	t.Helper()
	waiting := len(s.operations) + len(s.admissions)
	done := make(chan error, 1)
	go func() { done <- call() }()
	for deadline := time.Now().Add(2 * time.Minute); len(s.operations)+len(s.admissions) == waiting; {
		if time.Now().After(deadline) {
			t.Fatal("the call never came to the committer")
		}
		runtime.Gosched()
	}
	return done
}
