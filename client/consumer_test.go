package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/queue"
)

var done = Answer{Verb: Ack, Outcome: "POSTED", By: "robot"}

func TestConsumer(t *testing.T) {
	t.Run("runs each once, in order of its key, as many at once as it asked for", func(t *testing.T) {
		s := newServer(t)
		const keys, each = 7, 5
		s.put(keys, each)
		c := &Consumer{Path: s.path, Name: "robot", Prefetch: 3, Max: keys * each}
		var mu sync.Mutex
		last, now, most := map[string]uint64{}, 0, 0
		busy := map[string]bool{}
		err := c.Run(t.Context(), func(_ context.Context, d Delivery) Answer {
			mu.Lock()
			if busy[d.PartitionKey] || d.Seq <= last[d.PartitionKey] {
				t.Errorf("seq %d of %s: busy %v, last %d", d.Seq, d.PartitionKey, busy[d.PartitionKey], last[d.PartitionKey])
			}
			busy[d.PartitionKey], last[d.PartitionKey] = true, d.Seq
			now++
			most = max(most, now)
			mu.Unlock()
			defer func() {
				mu.Lock()
				defer mu.Unlock()
				busy[d.PartitionKey] = false
				now--
			}()
			if !strings.Contains(string(d.Exception), `"variance_amount":"1.00"`) || d.Route != "ROUTE_REVIEW" || d.Number != 1 || len(d.SourceHash) != 64 {
				t.Errorf("%+v", d)
			}
			return done
		})
		if err != nil || most > 3 {
			t.Errorf("%v, %d at once", err, most)
		}
		if st := s.status(); st.Done != keys*each {
			t.Errorf("%+v", st)
		}
		if r := s.records(queue.EventDecided); len(r) == 0 || r[0].By != "robot" || r[0].Outcome != "POSTED" || r[0].Worker != "robot" {
			t.Errorf("decided %+v", r)
		}
	})
	t.Run("asks for no more than it is to take", func(t *testing.T) {
		s := newServer(t)
		s.put(5, 1)
		c := &Consumer{Path: s.path, Name: "robot", Prefetch: 5, Max: 1}
		if err := c.Run(t.Context(), func(context.Context, Delivery) Answer {
			if n := len(s.records(queue.EventDispatched)); n != 1 {
				t.Errorf("%d were handed out", n)
			}
			return done
		}); err != nil {
			t.Error(err)
		}
		if st := s.status(); st.Done != 1 || st.Ready != 4 {
			t.Errorf("%+v", st)
		}
	})
	t.Run("every answer does what it says", func(t *testing.T) {
		s := newServer(t)
		s.put(5, 1)
		answers := map[string]Answer{
			"k0": {Verb: Retry, Reason: "locked", After: 1500 * time.Microsecond, By: "b"},
			"k1": {Verb: Release, Reason: "cut off", Unanswered: true},
			"k2": {Verb: Hold, Until: time.Date(2040, 1, 2, 3, 4, 5, 6000, time.UTC), Reason: "dispute"},
			"k3": {Verb: Reject, Reason: "unknown account", Stderr: "looking\nno such account\n"},
			"k4": {Verb: Ack, Outcome: "A", Note: "\u202e\n"},
		}
		var told sync.Map
		c := &Consumer{Path: s.path, Name: "robot", Max: 5, Answered: func(d Delivery, a Answer, e Event) {
			if a != answers[d.IdempotencyKey] || e.Kind != Settled || e.Lease != d.Lease {
				t.Errorf("%+v, %+v, %+v", d, a, e)
			}
			told.Store(d.IdempotencyKey, true)
		}}
		seen := map[string]bool{}
		c.Prefetch = 5
		var mu sync.Mutex
		err := c.Run(t.Context(), func(_ context.Context, d Delivery) Answer {
			mu.Lock()
			defer mu.Unlock()
			if seen[d.IdempotencyKey] {
				return answers[d.IdempotencyKey]
			}
			seen[d.IdempotencyKey] = true
			return answers[d.IdempotencyKey]
		})
		if err != nil {
			t.Error(err)
		}
		if r := s.records(queue.EventHeld); len(r) != 1 || !r[0].Until.Equal(answers["k2"].Until) || r[0].Reason != "dispute" {
			t.Errorf("held %+v", r)
		}
		if r := s.records(queue.EventRetried); len(r) == 0 || r[0].Reason != "locked" || r[0].By != "b" || r[0].Until.Sub(r[0].TS) < 2*time.Millisecond-time.Microsecond {
			t.Errorf("retried %+v", r)
		}
		if r := s.records(queue.EventReleased); len(r) == 0 || r[0].Reason != "cut off" || r[0].Unanswered != 1 {
			t.Errorf("released %+v", r)
		}
		if r := s.records(queue.EventDeadLettered); len(r) != 1 || r[0].Reason != "unknown account" || r[0].Stderr != answers["k3"].Stderr {
			t.Errorf("rejected %+v", r)
		}
		if r := s.records(queue.EventDecided); len(r) > 1 || len(r) == 1 && r[0].Note != "\u202e\n" {
			t.Errorf("decided %+v", r)
		}
	})
	t.Run("an answer that cannot be taken is a failure", func(t *testing.T) {
		s := newServer(t)
		s.put(1, 1)
		var refused atomic.Int32
		c := &Consumer{Path: s.path, Name: "robot", Max: 1, Answered: func(_ Delivery, _ Answer, e Event) {
			if e.Kind == Faulty {
				refused.Add(1)
			}
		}}
		if err := c.Run(t.Context(), func(context.Context, Delivery) Answer { return Answer{Verb: Ack, Outcome: "posted"} }); err != nil {
			t.Error(err)
		}
		r := s.records(queue.EventRetried)
		if len(r) != 1 || !strings.HasPrefix(r[0].Reason, "the answer cannot be taken: outcome is not 1 to 64") || refused.Load() != 1 || r[0].Unanswered != 1 {
			t.Errorf("retried %+v", r)
		}
	})
	t.Run("an answer that is not UTF-8 is a failure, and nothing else is recorded in its place", func(t *testing.T) {
		s := newServer(t)
		s.put(1, 1)
		c := &Consumer{Path: s.path, Name: "robot", Max: 1}
		note := strings.Repeat("\xff", queue.MaxRecordText)
		if err := c.Run(t.Context(), func(context.Context, Delivery) Answer { return Answer{Verb: Ack, Outcome: "POSTED", Note: note} }); err != nil {
			t.Error(err)
		}
		r := s.records(queue.EventRetried)
		if len(r) != 1 || !strings.Contains(r[0].Reason, "USAGE: note is not UTF-8") || len(s.records(queue.EventDecided)) > 0 {
			t.Errorf("retried %+v", r)
		}
	})
	t.Run("ends when it is told to: what has begun is finished, the rest put back", func(t *testing.T) {
		s := newServer(t)
		s.put(4, 1)
		ctx, stop := context.WithCancel(t.Context())
		begun, finish := make(chan struct{}, 4), make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			c := &Consumer{Path: s.path, Name: "robot", Prefetch: 2}
			ended <- c.Run(ctx, func(work context.Context, _ Delivery) Answer {
				begun <- struct{}{}
				<-finish
				if work.Err() != nil {
					t.Errorf("the work was cut off: %v", context.Cause(work))
				}
				return done
			})
		}()
		<-begun
		<-begun
		stop()
		close(finish)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if st := s.status(); st.Done != 2 || st.Ready != 2 || st.Leased != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// However long the server was away, a consumer is back before its leases have run out
// again, and does not hammer on a closed door.
func TestSession_tries_within_a_part_of_its_leases(t *testing.T) {
	for lease, longest := range map[time.Duration]time.Duration{
		0: longestRetry, time.Millisecond: firstRetry, 2 * time.Second: 500 * time.Millisecond, time.Minute: longestRetry,
	} {
		s := &Session{lease: lease}
		for n, before := 1, time.Duration(0); n < 100; n++ {
			d := s.pause(n)
			if d < before || d < firstRetry || d > longest || n == 99 && d != longest {
				t.Fatalf("leases of %v: %v before try %d, after %v", lease, d, n, before)
			}
			before = d
		}
	}
}

func TestConsumer_comes_back(t *testing.T) {
	t.Run("after a restart it goes on with what it has, and runs nothing twice", func(t *testing.T) {
		s := newServer(t)
		const n = 30
		s.put(n, 1)
		var runs sync.Map
		var waited atomic.Int32
		count := atomic.Int32{}
		away, back := make(chan struct{}), make(chan struct{})
		c := &Consumer{Path: s.path, Name: "robot", Prefetch: 4, Max: n, Waiting: func(error, time.Duration) { waited.Add(1) }}
		ended := make(chan error, 1)
		go func() {
			ended <- c.Run(t.Context(), func(_ context.Context, d Delivery) Answer {
				if _, twice := runs.LoadOrStore(d.Seq, true); twice {
					t.Errorf("seq %d was run twice", d.Seq)
				}
				if k := count.Add(1); k%10 == 5 {
					away <- struct{}{} // the server goes away while this is worked on
					<-back
				}
				return done
			})
		}()
		for range 3 {
			<-away
			s.cut()
			back <- struct{}{}
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if st := s.status(); st.Done != n || waited.Load() == 0 {
			t.Errorf("%+v, told of %d losses", st, waited.Load())
		}
		// What lay at the server when it went down was put back.
		if d, back := s.records(queue.EventDispatched), s.records(queue.EventReleased); len(d)-len(back) != n {
			t.Errorf("%d deliveries, %d put back, of %d exceptions", len(d), len(back), n)
		}
	})
	t.Run("leases are extended for as long as the work takes", func(t *testing.T) {
		s := newServer(t)
		s.put(1, 1)
		c := &Consumer{Path: s.path, Name: "robot", Max: 1, Lease: 300 * time.Millisecond}
		var last Event
		c.Answered = func(_ Delivery, _ Answer, e Event) { last = e }
		if err := c.Run(t.Context(), func(work context.Context, _ Delivery) Answer {
			for i := 0; len(s.records(queue.EventExtended)) < 3 && work.Err() == nil; i++ {
				if i > 60000 {
					t.Error("a minute has gone by, and nothing was extended")
					break
				}
				<-time.After(time.Millisecond)
			}
			return done
		}); err != nil {
			t.Error(err)
		}
		// On a machine that stands still a lease may be lost after all, which is said.
		if st := s.status(); st.Done != 1 && last.Code != CodeLeaseExpired {
			t.Errorf("%+v, %+v", st, last)
		}
	})
	t.Run("who has lost its lease is told to stop", func(t *testing.T) {
		s := newServer(t)
		s.put(1, 1)
		c := &Consumer{Path: s.path, Name: "robot", Prefetch: 1, Max: 1, Lease: time.Second}
		lost := make(chan error, 1)
		var told atomic.Value
		c.Answered = func(_ Delivery, _ Answer, e Event) { told.Store(e) }
		if err := c.Run(t.Context(), func(work context.Context, d Delivery) Answer {
			token, _ := queue.ParseToken(d.Lease)
			if _, err := s.store.Settle(context.Background(), queue.SettleRequest{Now: time.Now(), Settlements: []queue.Settlement{{
				Token: token, Owner: queue.Owner{Kind: queue.Consumer, Name: "robot", UID: uid()}, Verb: queue.Reject, At: time.Now(),
			}}}); err != nil {
				t.Error(err)
			}
			<-work.Done()
			lost <- context.Cause(work)
			return done
		}); err != nil {
			t.Error(err)
		}
		if err := <-lost; !errors.Is(err, ErrLeaseLost) {
			t.Errorf("the work ended with %v", err)
		}
		if e, _ := told.Load().(Event); e.Kind != Refused || e.Code != CodeAlreadySettled {
			t.Errorf("%+v", e)
		}
	})
	t.Run("a name is attached once", func(t *testing.T) {
		s := newServer(t)
		first, err := (&Consumer{Path: s.path, Name: "ui"}).Attach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := (&Consumer{Path: s.path, Name: "ui"}).Attach(t.Context()); !errors.Is(err, ErrNameInUse) {
			t.Errorf("%v", err)
		}
		if err := first.Detach(t.Context(), nil); err != nil {
			t.Error(err)
		}
		again, err := (&Consumer{Path: s.path, Name: "ui"}).Attach(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		again.Close()
	})
	t.Run("what is refused for good is an error at once", func(t *testing.T) {
		s := newServer(t)
		for _, c := range []Consumer{{Name: "w-1"}, {Name: "ui", Prefetch: 5000}, {Name: "ui", Routes: []string{"ELSEWHERE"}}, {Name: "ui", Lease: 100 * time.Hour}} {
			c.Path = s.path
			if err := c.Run(t.Context(), nil); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "USAGE: ") {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
	t.Run("what is not UTF-8 is refused by its name, and nobody is asked", func(t *testing.T) {
		for _, c := range []struct {
			Consumer
			what string
		}{{Consumer{Name: "a\xff"}, "the name"}, {Consumer{Name: "ui", Routes: []string{"ROUTE_REVIEW", "\xff"}}, "a route"}} {
			c.Path = "/nowhere/c.sock"
			c.Waiting = func(err error, _ time.Duration) { t.Errorf("it was tried: %v", err) }
			if _, err := c.Attach(t.Context()); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "USAGE: "+c.what+" is not UTF-8") {
				t.Errorf("%+v: %v", c, err)
			}
		}
	})
	t.Run("nobody there", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		tries := 0
		c := &Consumer{Path: "/nowhere/c.sock", Name: "ui", Waiting: func(error, time.Duration) {
			if tries++; tries == 2 {
				cancel()
			}
		}}
		if _, err := c.Attach(ctx); !errors.Is(err, context.Canceled) || tries != 2 {
			t.Errorf("%v after %d tries", err, tries)
		}
	})
}

// TestSession_answers_while_away: what is said while there is no connection is said on
// the next one, and counts once.
func TestSession_answers_while_away(t *testing.T) {
	s := newServer(t)
	s.put(2, 1)
	session, err := (&Consumer{Path: s.path, Name: "ui", Prefetch: 2}).Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	next := func(kind Kind) Event {
		t.Helper()
		for {
			e, err := session.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if e.Kind == kind {
				return e
			}
			if e.Kind == Delivered {
				t.Fatalf("delivered again: %s", e.Line)
			}
		}
	}
	first, second := next(Delivered), next(Delivered)
	if token := fmt.Sprintf(`{"event":"delivery","lease":%q,`, first.Lease); !strings.HasPrefix(string(first.Line), token) {
		t.Errorf("got %s", first.Line)
	}
	s.down()
	if err := session.Send(t.Context(), first.Lease, done); err != nil {
		t.Fatal(err)
	}
	s.up()
	next(Attached)
	if e := next(Settled); e.Lease != first.Lease {
		t.Errorf("%+v", e)
	}
	if err := session.SendLine(t.Context(), []byte(`{"ack":"`+second.Lease+`","outcome":"B","by":"alice"}`+"\r\n")); err != nil {
		t.Fatal(err)
	}
	next(Settled)
	if err := session.SendLine(t.Context(), []byte(`{"ack":"`+second.Lease+`","outcome":"B"}`)); err != nil {
		t.Fatal(err)
	}
	if e := next(Refused); e.Code != CodeAlreadySettled || e.Resent {
		t.Errorf("%+v", e)
	}
	if n := session.Unconfirmed(); n != 0 {
		t.Errorf("%d are not confirmed", n)
	}
	if r := s.records(queue.EventDecided); len(r) != 2 {
		t.Errorf("decided %+v", r)
	}
}

// TestSession_refuses: what the server would not take as one answer is an error, and
// nothing of it is sent.
func TestSession_refuses(t *testing.T) {
	s := newServer(t)
	session, err := (&Consumer{Path: s.path, Name: "ui"}).Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		Answer
		lease, what string
	}{
		{Answer{Verb: Ack, Outcome: "\xff"}, "1", "outcome"}, {Answer{Verb: Ack, By: "\xff"}, "1", "by"},
		{Answer{Verb: Ack, Note: "\xff"}, "1", "note"}, {Answer{Verb: Retry, Reason: "\xff"}, "1", "reason"},
		{Answer{Verb: Reject, Stderr: "\xff"}, "1", "stderr"}, {Answer{Verb: Ack}, "\xff", "lease"}, {Answer{Verb: "\xff"}, "1", "verb"},
	} {
		if err := session.Send(t.Context(), c.lease, c.Answer); !errors.Is(err, ErrUsage) || !strings.Contains(err.Error(), "USAGE: "+c.what+" is not UTF-8") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, line := range []string{"", " \t\r\n", "{}\n{}"} {
		if err := session.SendLine(t.Context(), []byte(line)); !errors.Is(err, ErrUsage) {
			t.Errorf("%q: %v", line, err)
		}
	}
	if n := session.Unconfirmed(); n != 0 {
		t.Errorf("%d lines were queued", n)
	}
	if err := session.SendLine(t.Context(), []byte("{\"extend\":\"\xff\"}\n")); err != nil {
		t.Fatal(err)
	}
	if e, err := session.Next(t.Context()); err != nil || e.Kind != Faulty || e.Code != "USAGE" {
		t.Errorf("bytes that are spelled already are the server's to judge: %+v, %v", e, err)
	}
	if err := session.Detach(t.Context(), nil); err != nil {
		t.Error(err)
	}
}
