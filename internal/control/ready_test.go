package control

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// probedStore commits when the test lets it.
type probedStore struct {
	Store
	probes atomic.Int32
	err    atomic.Pointer[error]
	hang   chan struct{} // not nil: a probe waits for it, whatever its context says
}

func (s *probedStore) Probe(ctx context.Context) error {
	s.probes.Add(1)
	if s.hang != nil {
		<-s.hang
	}
	if err := s.err.Load(); err != nil {
		return *err
	}
	return s.Store.Probe(ctx)
}

func TestReady_transitions(t *testing.T) {
	c, inner := newClock(), newStore(t)
	store := &probedStore{Store: inner}
	var mu sync.Mutex
	state := Readiness{}
	r := serve(t, Options{Store: store, Now: c.Now, Ready: func(st *queue.StoreStatus, _ time.Time) Readiness {
		mu.Lock()
		defer mu.Unlock()
		s := state
		if st == nil {
			s.Stuck, s.Saturated = nil, ""
		}
		return s
	}})
	set := func(s Readiness) {
		mu.Lock()
		defer mu.Unlock()
		state = s
	}
	broken := func(err error) { store.err.Store(&err) }
	steps := []struct {
		name   string
		do     func()
		status int
		code   queue.Code
		tells  []string
	}{
		{"in the beginning", func() {}, 200, "", []string{`"ready":true`, `"backlog":0`, `"consumers":0`}},
		{"with a consumer", func() { set(Readiness{Consumers: 1}) }, 200, "", []string{`"consumers":1`}},
		{"paused", func() { must(t, inner.Pause(t.Context(), queue.Action{Now: c.Now(), By: "alice"})) }, 200, "", []string{`"by":"alice"`}},
		{"with a held key", func() {
			admit(t, inner, c.Now(), exceptionLine("a", "K", ""))
			_, err := inner.HoldKeys(t.Context(), queue.Action{Now: c.Now()}, []string{"K"})
			must(t, err)
		}, 200, "", []string{`"held_keys":1`, `"backlog":1`}},
		{"open for lines", func() {}, 200, "", []string{`"intake":"open"`}},
		{"saturated", func() { set(Readiness{Saturated: queue.FullBacklog}) }, 200, "", []string{`"intake":"full","saturated":"max_backlog"`}},
		{"with producers that wait", func() { set(Readiness{Saturated: queue.FullDisk, Waiting: 2}) }, 200, "", []string{
			`"intake":"waiting","saturated":"min_free_bytes","waiting_producers":2`,
		}},
		{"with a handler that is down", func() {
			set(Readiness{Unavailable: []Outage{{queue.RouteReview, c.Now(), c.Now().Add(time.Second), "connection refused"}}})
		}, 200, "", []string{
			`"intake":"open"`, `"unavailable":[{"route":"ROUTE_REVIEW","since":"`, `"next":"`, `"reason":"connection refused"}]`,
		}},
		{"stuck", func() { set(Readiness{Stuck: []queue.Route{queue.AutoResolve}}) }, 503, queue.CodeConsumerLag, []string{`"stuck":["AUTO_RESOLVE"]`, `"ready":false`}},
		{"not open yet", func() { set(Readiness{Reasons: []string{"the enqueue socket is not open"}}) }, 503, queue.CodeInternal, []string{"the enqueue socket is not open"}},
		{"open", func() { set(Readiness{}) }, 200, "", nil},
		{"the disk fails, within a second of the last probe", func() { broken(errors.New("fsync: input/output error")) }, 200, "", nil},
		{"a second later", func() { c.pass(time.Second) }, 503, queue.CodeStorageUnavailable, []string{"the store does not commit"}},
		{"stuck besides", func() { set(Readiness{Stuck: []queue.Route{queue.AutoResolve}}) }, 503, queue.CodeStorageUnavailable, nil},
		{"the disk is full", func() { set(Readiness{}); broken(queue.ErrNoRoom); c.pass(time.Second) }, 503, queue.CodeStorageUnavailable, nil},
		{"it has room again", func() { store.err.Store(nil); c.pass(time.Second) }, 200, "", nil},
		{"the clock is set back", func() { broken(queue.ErrFailed); c.pass(-time.Hour) }, 503, queue.CodeStorageUnavailable, nil},
		{"draining, and the store is closed", func() { set(Readiness{Draining: true}); must(t, inner.Close()) }, 503, queue.CodeDraining, []string{`"draining":true`, `"intake":"draining"`}},
	}
	for _, s := range steps {
		s.do()
		got := r.ask("GET", "/readyz", "")
		var p api.NotReady
		if err := json.Unmarshal([]byte(got.body), &p); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		if got.status != s.status || p.Code != string(s.code) || p.Ready != (s.status == 200) || (len(p.Reasons) > 0) != (s.status == 503) {
			t.Errorf("%s: %d %s", s.name, got.status, got.body)
		}
		for _, text := range s.tells {
			if !strings.Contains(got.body, text) {
				t.Errorf("%s: %s is missing in %s", s.name, text, got.body)
			}
		}
		if strings.Contains(got.body, "input/output") {
			t.Errorf("%s: the answer tells the log's part: %s", s.name, got.body)
		}
		if live := r.ask("GET", "/healthz", ""); live.status != 200 {
			t.Errorf("%s: not alive", s.name)
		}
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestProber(t *testing.T) {
	t.Run("at most one probe a second, shared", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &probedStore{Store: newStore(t)}
			p := prober{probe: store.Probe, now: time.Now}
			for range 10 {
				var asking sync.WaitGroup
				for range 20 {
					asking.Go(func() {
						if err := p.check(t.Context()); err != nil {
							t.Error(err)
						}
					})
				}
				asking.Wait()
				<-time.After(probeEvery / 2)
			}
			if n := store.probes.Load(); n != 5 {
				t.Errorf("%d probes in five seconds", n)
			}
		})
	})
	t.Run("a store that hangs is asked once and delays nobody beyond the limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			store := &probedStore{Store: newStore(t), hang: make(chan struct{})}
			p := prober{probe: store.Probe, now: time.Now}
			for range 3 {
				began := time.Now()
				if err := p.check(t.Context()); err == nil || time.Since(began) != readyWait {
					t.Errorf("%v after %v", err, time.Since(began))
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			leave()
			if err := p.check(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("who left is told %v", err)
			}
			if n := store.probes.Load(); n != 1 {
				t.Errorf("%d probes", n)
			}
			close(store.hang)
			synctest.Wait()
			if err := p.check(t.Context()); err != nil {
				t.Errorf("after it woke: %v", err)
			}
		})
	})
}

func TestNew_names_what_is_missing(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "Store") {
		t.Errorf("got %v", err)
	}
}

// Every endpoint of the package comment is there, and no other.
func TestEndpoints_are_those_of_the_package_comment(t *testing.T) {
	s, err := New(Options{Store: newStore(t), Metrics: http.NotFoundHandler()})
	must(t, err)
	var got []string
	for path, methods := range s.site.routes {
		for method := range methods {
			got = append(got, method+" "+path)
		}
	}
	slices.Sort(got)
	if want := documented(t); !slices.Equal(got, want) {
		t.Errorf("there are\n%s\nand the comment tells of\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
