package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/storage/memstore"
)

// TestHammer_consumers has consumers come, answer, break off and go, in real time,
// under Runners that start and stop over one store: the race detector looks on.
func TestHammer_consumers(t *testing.T) {
	store := memstore.New(memstore.Options{})
	if _, err := store.Start(t.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	o := usual()
	o.Workers, o.Room, o.Settings.Prefetch = 2, 8, 8
	o.Settings.Policy = queue.Policy{MaxAttempts: 1000, MaxDeliveries: 1000, RetryInitial: time.Microsecond, RetryMax: time.Microsecond}
	o.Store, o.Handlers = store, map[queue.Route]any{queue.AutoResolve: &recording{}}
	const rounds, consumers, each = 60, 4, 40
	for round := range rounds {
		r, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		stop, cancel := context.WithCancel(context.Background())
		ended := make(chan error)
		go func() {
			_, err := r.Run(stop, stop)
			ended <- err
		}()
		var busy sync.WaitGroup
		for c := range consumers {
			busy.Go(func() { comeAndGo(t, r, stop, fmt.Sprintf("c%d", c), rand.New(rand.NewPCG(uint64(round), uint64(c)))) })
		}
		for i := range each {
			spec := fmt.Sprintf("m%d.%d@K%d", round, i, i%11)
			if i%5 == 0 {
				spec += "=0"
			}
			if _, err := r.Submit(stop, queue.Peer{}, submissions(t, spec)); err != nil {
				t.Error(err)
			}
		}
		if round%3 == 0 {
			r.Drain()
		}
		time.AfterFunc(5*time.Millisecond, cancel)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		busy.Wait()
		if n := r.Consumers(); n != 0 {
			t.Errorf("%d are still attached", n)
		}
	}
	st, err := store.Status(t.Context(), time.Now())
	if err != nil || st.Done == 0 {
		t.Errorf("%+v, %v", st, err)
	}
	checkTrail(t, store)
}

// comeAndGo is a consumer that attaches again and again until the drain.
func comeAndGo(t *testing.T, r *Runner, stop context.Context, name string, dice *rand.Rand) {
	for stop.Err() == nil && !r.Draining() {
		a := attachment(name, 1+dice.IntN(5), queue.Routes[:]...)
		a.Lease = time.Duration(1+dice.IntN(20)) * time.Millisecond
		s, err := r.Attach(context.Background(), a)
		if errors.Is(err, queue.ErrDraining) {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		var held sync.Map
		reading := make(chan struct{})
		go func() {
			defer close(reading)
			for {
				n, err := s.Next(context.Background())
				for _, d := range n.Deliveries {
					held.Store(d.Token, nil)
				}
				if err != nil {
					return
				}
			}
		}()
		for range dice.IntN(20) {
			answerSome(t, s, &held, dice)
		}
		if dice.IntN(2) == 0 {
			err = s.Detach(context.Background())
		} else {
			err = s.Break(context.Background())
		}
		if err != nil {
			t.Error(err)
		}
		<-reading
	}
}

// answerSome answers, or extends, some of what is held.
func answerSome(t *testing.T, s *Session, held *sync.Map, dice *rand.Rand) {
	var answers []queue.Settlement
	held.Range(func(token, _ any) bool {
		verb := []queue.Verb{queue.Ack, queue.Ack, queue.Ack, queue.Retry, queue.Release, queue.Hold}[dice.IntN(6)]
		answers = append(answers, queue.Settlement{Token: token.(queue.Token), Verb: verb, At: time.Now(), Outcome: "DONE", Until: time.Now().Add(time.Millisecond)})
		return dice.IntN(4) > 0
	})
	if len(answers) > 0 && dice.IntN(5) == 0 {
		if _, err := s.Extend(context.Background(), time.Now(), []queue.Token{answers[0].Token}); err != nil {
			t.Error(err)
		}
		return
	}
	if _, err := s.Answer(context.Background(), answers); err != nil {
		t.Error(err)
	}
	for _, a := range answers {
		held.Delete(a.Token)
	}
	if len(answers) == 0 {
		<-time.After(time.Duration(dice.IntN(300)) * time.Microsecond)
	}
}
