package socket

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"breakwater/partition"
	"breakwater/queue"
	"breakwater/storage/memstore"
)

// testDesk is a Desk over the model store: it does what the core's does, as simply as
// it can be done.
type testDesk struct {
	*memstore.Store
	policy queue.Policy

	mu       sync.Mutex
	names    map[string]bool
	left     map[queue.Owner][]queue.Delivery // what was unsettled when its connection broke
	news     chan struct{}                    // closed and made anew at every change
	draining bool
	err      error // of whatever is asked next
	asked    []int // how many answers came together
	last     queue.Attachment
	slow     chan struct{} // not nil: what there is to tell is not told before it is closed
}

func newDesk(t testing.TB) *testDesk {
	d := &testDesk{
		Store:  memstore.New(memstore.Options{}),
		policy: queue.Policy{MaxAttempts: 10, MaxDeliveries: 20, RetryInitial: time.Second, RetryMax: time.Minute},
		names:  map[string]bool{}, left: map[queue.Owner][]queue.Delivery{}, news: make(chan struct{}),
	}
	if _, err := d.Start(t.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return d
}

// put stores messages with the numbers from to to, each with a key of its own.
func (d *testDesk) put(t testing.TB, from, to int) {
	t.Helper()
	var lines []queue.Submission
	for i := from; i <= to; i++ {
		text := []byte(message(fmt.Sprint("k", i)))
		m, err := queue.ParseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, queue.Submission{Message: m, LineBytes: int64(len(text)), LineHash: queue.LineHash(text)})
	}
	if _, err := d.Admit(context.Background(), queue.AdmitRequest{Now: time.Now(), Lines: lines}); err != nil {
		t.Fatal(err)
	}
	d.change(func() {})
}

func (d *testDesk) change(what func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	what()
	close(d.news)
	d.news = make(chan struct{})
}

// failure returns the error that is due.
func (d *testDesk) failure() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *testDesk) Attach(_ context.Context, a queue.Attachment) (Session, error) {
	if err := d.failure(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.draining:
		return nil, queue.ErrDraining
	case d.names[a.Owner.Name]:
		return nil, queue.ErrNameInUse
	}
	d.names[a.Owner.Name], d.last = true, a
	s := &testSession{desk: d, a: a, held: map[queue.Token]queue.Delivery{}}
	for _, one := range d.left[a.Owner] {
		one.Redelivered = true
		s.again = append(s.again, one)
		s.held[one.Token] = one
	}
	delete(d.left, a.Owner)
	return s, nil
}

type testSession struct {
	desk *testDesk
	a    queue.Attachment

	mu    sync.Mutex
	held  map[queue.Token]queue.Delivery
	again []queue.Delivery
	ends  []queue.Ending // to be told
	told  bool           // of the drain
	over  bool
}

func (s *testSession) Next(ctx context.Context) (n queue.Notice, err error) {
	for {
		d := s.desk
		d.mu.Lock()
		news, draining, slow := d.news, d.draining, d.slow
		d.mu.Unlock()
		if n, err = s.tell(ctx, draining); err != nil || n.Draining || len(n.Deliveries)+len(n.Ending) > 0 {
			if slow != nil {
				<-slow
			}
			return n, err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
}

func (s *testSession) tell(ctx context.Context, draining bool) (n queue.Notice, err error) {
	if err := s.desk.failure(); err != nil {
		return n, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n.Draining = draining && !s.told; draining {
		s.told = true
		return n, nil
	}
	if s.over {
		return n, queue.ErrDetached
	}
	n.Ending, s.ends = s.ends, nil
	n.Deliveries, s.again = s.again, nil
	room := s.a.Prefetch - len(s.held)
	if room <= 0 {
		return n, nil
	}
	res, err := s.desk.Claim(context.WithoutCancel(ctx), queue.ClaimRequest{Now: time.Now(), Wants: []queue.Want{{
		Owner: s.a.Owner, Slots: partition.AllSlots(), Routes: s.a.Routes, Max: room, PerKey: 1, Lease: s.a.Lease,
	}}})
	if err != nil {
		return n, err
	}
	for _, one := range res.Deliveries[0] {
		s.held[one.Token] = one
		n.Deliveries = append(n.Deliveries, one)
	}
	return n, nil
}

func (s *testSession) Answer(ctx context.Context, answers []queue.Settlement) ([]queue.SettleResult, error) {
	if err := s.desk.failure(); err != nil {
		return nil, err
	}
	for i := range answers {
		answers[i].Owner, answers[i].Peer = s.a.Owner, &s.a.Peer
	}
	res, err := s.desk.Settle(ctx, queue.SettleRequest{Now: time.Now(), Policy: s.desk.policy, Settlements: answers})
	s.mu.Lock()
	for i := range res {
		delete(s.held, answers[i].Token)
	}
	s.mu.Unlock()
	s.desk.change(func() { s.desk.asked = append(s.desk.asked, len(answers)) })
	return res, err
}

func (s *testSession) Extend(ctx context.Context, at time.Time, tokens []queue.Token) ([]queue.ExtendResult, error) {
	if err := s.desk.failure(); err != nil {
		return nil, err
	}
	s.desk.change(func() { s.desk.asked = append(s.desk.asked, -len(tokens)) })
	return s.desk.Store.Extend(ctx, queue.ExtendRequest{Now: at, Owner: s.a.Owner, Tokens: tokens, Lease: s.a.Lease, Peer: &s.a.Peer})
}

func (s *testSession) Holds(t queue.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, held := s.held[t]
	return held
}

func (s *testSession) Detach(ctx context.Context) error {
	var back []queue.Settlement
	s.mu.Lock()
	s.over = true
	for t := range s.held {
		back = append(back, queue.Settlement{Token: t, Verb: queue.Release, At: time.Now()})
	}
	s.mu.Unlock()
	_, err := s.Answer(ctx, back)
	return errors.Join(err, s.Break(ctx))
}

func (s *testSession) Break(context.Context) error {
	s.desk.change(func() {
		delete(s.desk.names, s.a.Owner.Name)
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, one := range s.held {
			s.desk.left[s.a.Owner] = append(s.desk.left[s.a.Owner], one)
		}
	})
	return nil
}

// status is what the store counts.
func (d *testDesk) status(t testing.TB) queue.StoreStatus {
	t.Helper()
	st, err := d.Status(context.Background(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// records returns the records of one kind.
func (d *testDesk) records(t testing.TB, e queue.Event) (list []queue.Record) {
	t.Helper()
	err := d.Trail(context.Background(), queue.TrailQuery{Event: e}, func(r queue.Record) bool {
		list = append(list, r)
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}
