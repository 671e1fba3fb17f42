package dispatch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

func TestFailure(t *testing.T) {
	for _, verb := range []string{"admit", "claim", "settle", "extend", "reclaim"} {
		for _, failure := range []error{queue.ErrFailed, queue.ErrClosed} {
			inBubble(t, fmt.Sprintf("%s: %v", verb, failure), func(t *testing.T) {
				g := start(t, usual(), slowly(20*time.Second))
				g.submit("a1@A", "a2@A", "b1@B", "c1@C", "d1@D", "e1@E", "f1@F")
				synctest.Wait()
				var failed atomic.Bool // a store that has failed never answers again
				var begun atomic.Int64 // handlers, until then
				g.store.on(func(v string) error {
					if v == verb && failed.CompareAndSwap(false, true) {
						begun.Store(int64(len(strings.Fields(g.seen.started()))))
					}
					if failed.Load() {
						return fmt.Errorf("sync: %w", failure)
					}
					return nil
				})
				if verb == "admit" {
					_, err := g.Submit(t.Context(), queue.Peer{}, submissions(t, "x1@X"))
					if !errors.Is(err, failure) {
						t.Errorf("Submit returned %v", err)
					}
				}
				<-g.ended
				if !errors.Is(g.err, failure) {
					t.Errorf("Run returned %v", g.err)
				}
				calls := g.store.all()
				pass(time.Hour)
				if n := g.store.all(); n != calls {
					t.Errorf("%d calls of the store after Run had returned", n-calls)
				}
				// The other worker may just have been on its way.
				if n := len(g.seen.begun); n > int(begun.Load())+1 {
					t.Errorf("%d handlers were begun, %d before the failure", n, begun.Load())
				}
			})
		}
	}
	inBubble(t, "a line that got no turn in time was not stored", func(t *testing.T) {
		g := start(t, usual(), ack)
		ctx, cancel := context.WithCancelCause(t.Context())
		g.store.on(func(string) error {
			cancel(errors.New("the connection is gone"))
			return fmt.Errorf("wait for the store: %w", context.Cause(ctx))
		})
		res, err := g.Submit(ctx, queue.Peer{}, submissions(t, "a1@A"))
		if err != nil || res.Receipts[0].Status != queue.Rejected || res.Receipts[0].Code != queue.CodeStorageUnavailable {
			t.Errorf("got %+v, %v", res, err)
		}
		g.store.on(nil)
	})
	inBubble(t, "a failure is one even when the producer is gone", func(t *testing.T) {
		g := start(t, usual(), ack)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		g.store.on(func(string) error { return queue.ErrFailed })
		if _, err := g.Submit(ctx, queue.Peer{}, submissions(t, "a1@A")); !errors.Is(err, queue.ErrFailed) {
			t.Errorf("got %v", err)
		}
		<-g.ended
	})
}

func TestNoRoom(t *testing.T) {
	inBubble(t, "a line is answered STORAGE_UNAVAILABLE", func(t *testing.T) {
		g := start(t, usual(), ack)
		g.store.on(func(verb string) error {
			if verb == "admit" {
				return queue.ErrNoRoom
			}
			return nil
		})
		res, err := g.Submit(t.Context(), queue.Peer{}, submissions(t, "a1@A", "a2@A"))
		if err != nil || len(res.Receipts) != 2 {
			t.Fatalf("got %+v, %v", res, err)
		}
		for _, r := range res.Receipts {
			if r.Status != queue.Rejected || r.Code != queue.CodeStorageUnavailable || r.Seq != 0 {
				t.Errorf("got %+v", r)
			}
		}
	})
	inBubble(t, "a settlement is tried until there is room, and its effect is not repeated", func(t *testing.T) {
		o := usual()
		o.Settings.Lease = time.Second
		g := start(t, o, ack)
		g.store.on(func(verb string) error {
			if verb == "settle" {
				return queue.ErrNoRoom
			}
			return nil
		})
		g.submit("a1@A", "a2@A", "b1@B")
		pass(10 * time.Minute)
		if st := g.status(); st.Done != 0 {
			t.Errorf("%+v", st)
		}
		g.store.on(nil)
		pass(time.Second)
		if st := g.status(); st.Done != 3 {
			t.Errorf("%+v", st)
		}
		if n := len(g.seen.begun); n != 3 {
			t.Errorf("begun %s", g.seen.started())
		}
		if g.events(queue.EventReclaimed) != 0 {
			t.Error("leases expired meanwhile")
		}
	})
	inBubble(t, "claims wait", func(t *testing.T) {
		g := start(t, usual(), ack)
		g.store.on(func(verb string) error {
			if verb == "claim" {
				return queue.ErrNoRoom
			}
			return nil
		})
		g.submit("a1@A")
		pass(10 * time.Second)
		if n := g.store.count("claim"); n > 30 {
			t.Errorf("%d claims in 10 s", n)
		}
		g.store.on(nil)
		pass(time.Second)
		if st := g.status(); st.Done != 1 {
			t.Errorf("%+v", st)
		}
	})
}
