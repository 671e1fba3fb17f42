package dispatch

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// A lease shorter than the work (B38): it is renewed for as long as the handler runs, and
// each message is run once. Who renews nothing loses it.
func TestLeases(t *testing.T) {
	for _, lease := range []time.Duration{10 * time.Millisecond, time.Second, 2 * time.Second, 30 * time.Second} {
		inBubble(t, fmt.Sprintf("a handler may take longer than its lease of %v", lease), func(t *testing.T) {
			o := usual()
			o.Settings.Lease = lease
			g := start(t, o, slowly(10*time.Second))
			g.submit("a1@A", "b1@B", "c1@C", "d1@D", "e1@E", "f1@F")
			pass(2 * time.Minute)
			if st := g.status(); st.Done != 6 {
				t.Errorf("%+v", st)
			}
			if n := g.events(queue.EventDispatched); n != 6 {
				t.Errorf("dispatched %d times", n)
			}
			g.wantRaised()
		})
	}
	inBubble(t, "a slow store expires nothing", func(t *testing.T) {
		o := usual()
		o.Settings.Lease = 2 * time.Second
		g := start(t, o, slowly(3*time.Second))
		g.store.on(func(string) error { <-time.After(5 * time.Second); return nil })
		g.submit("a1@A", "a2@A", "b1@B", "c1@C")
		pass(2 * time.Minute)
		if st := g.status(); st.Done != 4 {
			t.Errorf("%+v", st)
		}
		if n := g.events(queue.EventDispatched); n != 4 {
			t.Errorf("dispatched %d times", n)
		}
		g.wantRaised()
	})
	for _, lease := range []time.Duration{10 * time.Millisecond, time.Second, 3 * time.Second} {
		inBubble(t, fmt.Sprintf("a claim whose commit takes longer than its leases of %v expires none", lease), func(t *testing.T) {
			o := usual()
			o.Settings.Lease = lease
			g := start(t, o, slowly(3*time.Second))
			var late func()
			late = func() {
				g.store.after("claim", late)
				<-time.After(5 * time.Second) // somebody looks for expired leases meanwhile
			}
			g.store.after("claim", late)
			g.submit("a1@A", "a2@A", "b1@B", "c1@C", "d1@D")
			pass(2 * time.Minute)
			if st := g.status(); st.Done != 5 {
				t.Errorf("%+v", st)
			}
			if n := g.events(queue.EventDispatched); n != 5 {
				t.Errorf("dispatched %d times", n)
			}
			g.wantRaised()
		})
	}
	inBubble(t, "a consumer that is gone loses its lease, with LEASE_EXPIRED", func(t *testing.T) {
		o := usual()
		o.Settings.Policy.MaxDeliveries = 2
		o.Handlers = map[queue.Route]any{queue.AutoResolve: &recording{}}
		g := start(t, o, ack)
		g.submit("a1@A", "a2@A=0")
		claim := func() []queue.Delivery {
			res, err := g.store.Claim(t.Context(), queue.ClaimRequest{Now: time.Now(), Wants: []queue.Want{{
				Owner: queue.Owner{Kind: queue.Consumer, Name: "ui"}, Slots: partition.AllSlots(),
				Routes: queue.RoutesOf(queue.RouteReview), Max: 1, PerKey: 1, Lease: time.Minute,
			}}})
			if err != nil {
				t.Fatal(err)
			}
			return res.Deliveries[0]
		}
		if len(claim()) != 1 {
			t.Fatal("nothing to claim")
		}
		pass(59 * time.Second)
		g.wantRaised()
		pass(4 * time.Second)
		g.wantRaised("LEASE_EXPIRED")
		if len(claim()) != 1 {
			t.Fatal("nothing to claim again")
		}
		pass(63 * time.Second)
		g.wantRaised("LEASE_EXPIRED", "LEASE_EXPIRED", "DELIVERIES_EXHAUSTED")
		// What stands behind it is woken for, once a person has let go of it.
		if _, err := g.store.Discard(t.Context(), queue.Action{Now: time.Now(), Reason: "r"}, []uint64{1}); err != nil {
			t.Fatal(err)
		}
		g.Wake()
		synctest.Wait()
		if st := g.status(); st.Done != 1 {
			t.Errorf("%+v", st)
		}
	})
}

func TestLeases_an_answer_to_a_lease_that_is_gone_changes_nothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := usual()
		o.Settings.Lease = time.Second
		g := start(t, o, slowly(10*time.Second))
		// The keeper cannot renew, and somebody else takes the lease back.
		g.submit("a1@A")
		synctest.Wait()
		if _, err := g.store.Reclaim(context.Background(), queue.ReclaimRequest{
			Now: time.Now().Add(time.Hour), Policy: o.Settings.Policy, Max: 10,
		}); err != nil {
			t.Fatal(err)
		}
		pass(30 * time.Second)
		g.wantRaised("LEASE_EXPIRED")
		if st := g.status(); st.Done != 1 || g.events(queue.EventDecided) != 1 {
			t.Errorf("%+v", st)
		}
	})
}
