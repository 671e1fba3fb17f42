package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"breakwater/queue"
	"breakwater/storage/memstore"
)

// intakeRig is a Runner that takes lines and runs nothing.
type intakeRig struct {
	*Runner
	store  *memstore.Store
	raised int
}

func newIntakeRig(t *testing.T, s Settings) *intakeRig {
	t.Helper()
	rig := &intakeRig{store: memstore.New(memstore.Options{})}
	if _, err := rig.store.Start(t.Context(), queue.StartRequest{Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	s.Prefetch, s.Lease = 1, time.Second
	var err error
	rig.Runner, err = New(Options{
		Store: rig.store, Settings: s, Workers: 1, Room: 1,
		Observer: Observer{Raised: func(queue.Code, queue.Route) { rig.raised++ }},
	})
	if err != nil {
		t.Fatal(err)
	}
	return rig
}

// limit changes max_backlog, which also says that there may be room.
func (rig *intakeRig) limit(n int64) {
	s := *rig.settings.Load()
	s.Limits.MaxBacklog = n
	rig.Configure(s)
}

func lines(t *testing.T, keys ...string) []queue.Submission {
	t.Helper()
	all := make([]queue.Submission, len(keys))
	for i, key := range keys {
		text := []byte(fmt.Sprintf(`{"idempotency_key":%q,"trace_id":"t","partition_key":"p","ledger_entity":"e","match_decision":"PARTIAL","variance_amount":"1.00"}`, key))
		m, err := queue.ParseLine(text)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = queue.Submission{Message: m, LineBytes: int64(len(text)), LineHash: queue.LineHash(text)}
	}
	return all
}

// told collects what a producer is told, one text for each call.
type told []string

func (o *told) answered(receipts []queue.Receipt, _ queue.Head) {
	text := ""
	for _, r := range receipts {
		text += fmt.Sprintf("%s %d %s;", r.Status, r.Seq, r.Code)
	}
	*o = append(*o, text)
}

func (o *told) want(t *testing.T, calls ...string) {
	t.Helper()
	if diff := cmp.Diff(calls, []string(*o)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}

func TestStream(t *testing.T) {
	tests := []struct {
		name     string
		settings Settings
		run      func(*testing.T, *intakeRig, *told)
	}{
		{"all that finds room is told at once", Settings{}, func(t *testing.T, rig *intakeRig, o *told) {
			if err := rig.Stream(t.Context(), queue.Peer{}, lines(t, "a", "b", "a"), o.answered); err != nil {
				t.Fatal(err)
			}
			o.want(t, "accepted 1 ;accepted 2 ;duplicate 1 ;")
		}},
		{"what is stored is told while the rest waits", Settings{Limits: queue.Limits{MaxBacklog: 1}}, func(t *testing.T, rig *intakeRig, o *told) {
			done := make(chan error)
			go func() { done <- rig.Stream(t.Context(), queue.Peer{}, lines(t, "a", "b", "c"), o.answered) }()
			synctest.Wait()
			o.want(t, "accepted 1 ;")
			rig.limit(2)
			synctest.Wait()
			o.want(t, "accepted 1 ;", "accepted 2 ;")
			rig.limit(0)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			o.want(t, "accepted 1 ;", "accepted 2 ;", "accepted 3 ;")
			if rig.raised != 1 {
				t.Errorf("raised %d times", rig.raised)
			}
		}},
		{"a duplicate behind a line that waits leaves one record", Settings{Limits: queue.Limits{MaxBacklog: 1}}, func(t *testing.T, rig *intakeRig, o *told) {
			done := make(chan error)
			go func() { done <- rig.Stream(t.Context(), queue.Peer{}, lines(t, "a", "b", "a"), o.answered) }()
			<-time.After(time.Minute)
			rig.limit(0)
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			o.want(t, "accepted 1 ;", "accepted 2 ;duplicate 1 ;")
			skipped := 0
			rig.store.Trail(t.Context(), queue.TrailQuery{}, func(r queue.Record) bool {
				if r.Event == queue.EventDuplicateSkipped {
					skipped++
				}
				return true
			})
			if skipped != 1 {
				t.Errorf("%d records", skipped)
			}
		}},
		{"the drain refuses what waits", Settings{Limits: queue.Limits{MaxBacklog: 1}}, func(t *testing.T, rig *intakeRig, o *told) {
			done := make(chan error)
			go func() { done <- rig.Stream(t.Context(), queue.Peer{}, lines(t, "a", "b", "a", "c"), o.answered) }()
			synctest.Wait()
			rig.Drain()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			o.want(t, "accepted 1 ;", "rejected 0 DRAINING;duplicate 1 ;rejected 0 DRAINING;")
		}},
		{"reject answers at once", Settings{RejectWhenFull: true, Limits: queue.Limits{MaxBacklog: 1}}, func(t *testing.T, rig *intakeRig, o *told) {
			if err := rig.Stream(t.Context(), queue.Peer{}, lines(t, "a", "b", "a"), o.answered); err != nil {
				t.Fatal(err)
			}
			o.want(t, "accepted 1 ;rejected 0 QUEUE_SATURATED;duplicate 1 ;")
		}},
		{"its context ends the wait", Settings{Limits: queue.Limits{MaxBacklog: 1}}, func(t *testing.T, rig *intakeRig, o *told) {
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error)
			go func() { done <- rig.Stream(ctx, queue.Peer{}, lines(t, "a", "b"), o.answered) }()
			synctest.Wait()
			cancel()
			if err := <-done; err != nil {
				t.Fatal(err)
			}
			o.want(t, "accepted 1 ;", "rejected 0 QUEUE_SATURATED;")
		}},
		{"after the store's end there are no receipts", Settings{}, func(t *testing.T, rig *intakeRig, o *told) {
			rig.store.Close()
			if err := rig.Stream(t.Context(), queue.Peer{}, lines(t, "a"), o.answered); err == nil {
				t.Error("no error")
			}
			o.want(t)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tt.run(t, newIntakeRig(t, tt.settings), new(told))
			})
		})
	}
}

func TestSubmitCollectsWhatStreamTells(t *testing.T) {
	rig := newIntakeRig(t, Settings{})
	res, err := rig.Submit(t.Context(), queue.Peer{}, lines(t, "a", "a"))
	head, _ := rig.store.Head(t.Context())
	if err != nil || len(res.Receipts) != 2 || res.Head != head {
		t.Errorf("got %+v, %v", res, err)
	}
}
