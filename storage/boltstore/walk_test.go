package boltstore

import (
	"context"
	"fmt"
	"testing"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// TestWalk_a_message_between_parked_ones_is_not_taken_for_one_of_them stops three
// processes so that of a held key the first and the later messages are parked, while
// the walk has not come to those between them.
func TestWalk_a_message_between_parked_ones_is_not_taken_for_one_of_them(t *testing.T) {
	p := newParker(t, 8)
	for i := range 8 {
		p.admit(fmt.Sprintf("a%d", i))
	}
	p.claim(8)
	p.must(p.h.store.HoldKeys(p.ctx, queue.Action{Now: p.now, By: "op"}, []string{"held"}))
	for i := range 4 {
		p.admit("held", fmt.Sprintf("b%d", i))
	}
	for range 12 {
		p.admit("held")
	}
	for range 2 { // gives the leases back; then finds a full window before the held key
		p.h.reopen()
		p.start()
	}
	p.claim(1) // makes room for one message more
	p.h.reopen()
	p.start()

	p.must(p.h.store.ReleaseKeys(p.ctx, queue.Action{Now: p.now, By: "op"}, []string{"held"}))
	last, got := uint64(0), 0
	for idle := 0; idle < 3; idle++ {
		for _, d := range p.claim(8) {
			idle = 0
			if d.Message.PartitionKey == "held" {
				if d.Token.Seq < last {
					t.Errorf("seq %d was handed out after %d", d.Token.Seq, last)
				}
				last = d.Token.Seq
				got++
			}
			p.settle(d, queue.Ack)
		}
	}
	if got != 16 {
		t.Errorf("of 16 messages of the held key %d were handed out", got)
	}
}

// TestWalk_a_replayed_message_is_not_met_a_second_time replays dead letters into an
// empty store, and lets the next message find the window full: the walk that it
// starts must begin behind them.
func TestWalk_a_replayed_message_is_not_met_a_second_time(t *testing.T) {
	p := newParker(t, 4)
	p.admit("a", "b", "c", "d")
	for _, d := range p.claim(4) {
		p.settle(d, queue.Reject)
	}
	p.h.reopen()
	p.start()
	p.must(p.h.store.Replay(p.ctx, queue.Action{Now: p.now, By: "op"}, []uint64{1, 2, 3, 4}))
	p.admit("e")
	got := 0
	for range 8 {
		for _, d := range p.claim(2) {
			p.settle(d, queue.Ack)
			got++
		}
	}
	if st, err := p.h.store.Status(p.ctx, p.now); err != nil || st.Done != 5 || st.HeldKeys != 0 || got != 5 {
		t.Errorf("of 5 messages %d were handed out: %+v, %v", got, st, err)
	}
}

// TestWalk_a_replay_of_many_does_not_outgrow_the_window replays more dead letters of
// one key than the window holds.
func TestWalk_a_replay_of_many_does_not_outgrow_the_window(t *testing.T) {
	p := newParker(t, 8)
	var seqs []uint64
	for seq := range uint64(40) {
		p.admit("a")
		for _, d := range p.claim(1) {
			p.settle(d, queue.Reject)
		}
		seqs = append(seqs, seq+1)
	}
	p.must(p.h.store.HoldKeys(p.ctx, queue.Action{Now: p.now, By: "op"}, []string{"a"}))
	p.must(p.h.store.Replay(p.ctx, queue.Action{Now: p.now, By: "op"}, seqs))
	if n := p.h.store.t.windowed; n > 8 {
		t.Errorf("a window of 8 holds %d", n)
	}
	p.must(p.h.store.ReleaseKeys(p.ctx, queue.Action{Now: p.now, By: "op"}, []string{"a"}))
	for seq := range uint64(40) {
		list := p.claim(1)
		if len(list) != 1 || list[0].Token.Seq != seq+1 {
			t.Fatalf("after %d the next is %+v", seq, list)
		}
		p.settle(list[0], queue.Ack)
	}
}

// TestWalk_what_nobody_takes_hides_nothing fills the window with exceptions of a
// route on which nobody works.
func TestWalk_what_nobody_takes_hides_nothing(t *testing.T) {
	p := newParker(t, 8)
	for i := range 3 * 20 {
		p.admit(fmt.Sprintf("review-%d", i%20))
	}
	p.submit(func(m *queue.Message) { m.PartitionKey, m.Route = "auto", queue.AutoResolve })
	got := 0
	for more, rounds := true, 0; more && rounds < 100; rounds++ {
		var list []queue.Delivery
		list, more = p.claimOf(queue.RoutesOf(queue.AutoResolve), 2)
		got += len(list)
	}
	if got != 1 {
		t.Errorf("of the route that somebody works on %d were handed out", got)
	}
	last := map[string]uint64{}
	for list := p.claim(8); len(list) > 0; list = p.claim(8) {
		for _, d := range list {
			if key := d.Message.PartitionKey; d.Token.Seq < last[key] {
				t.Errorf("of %s seq %d was handed out after %d", key, d.Token.Seq, last[key])
			} else {
				last[key] = d.Token.Seq
			}
			p.settle(d, queue.Ack)
			got++
		}
	}
	if got != 61 {
		t.Errorf("of 61 exceptions %d were handed out", got)
	}
}

// parker drives a store with a tiny window.
type parker struct {
	h    *harness
	t    *testing.T
	ctx  context.Context
	now  time.Time
	sent int
}

func newParker(t *testing.T, window int) *parker { return newParkerWith(t, Options{Window: window}) }

func newParkerWith(t *testing.T, o Options) *parker {
	h := newHarness(t, o)
	t.Cleanup(h.close)
	p := &parker{h: h, t: t, ctx: context.Background(), now: time.Now()}
	p.start()
	return p
}

func (p *parker) settle(d queue.Delivery, verb queue.Verb) {
	p.t.Helper()
	p.settleAll(verb, d)
}

// settleAll answers in one transaction.
func (p *parker) settleAll(verb queue.Verb, ds ...queue.Delivery) {
	p.t.Helper()
	r := queue.SettleRequest{Now: p.now, Policy: queue.Policy{OnDeadLetter: queue.SkipDead}}
	for _, d := range ds {
		r.Settlements = append(r.Settlements, queue.Settlement{Token: d.Token, Owner: parkOwner, Verb: verb, Outcome: "OK", At: p.now})
	}
	p.must(p.h.store.Settle(p.ctx, r))
}

var parkOwner = queue.Owner{Kind: queue.Worker, Name: "w"}

func (p *parker) must(_ any, err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

func (p *parker) start() {
	p.t.Helper()
	p.must(p.h.store.Start(p.ctx, queue.StartRequest{Now: p.now, Policy: queue.Policy{MaxAttempts: 9, MaxDeliveries: 9}}))
}

func (p *parker) admit(keys ...string) {
	p.t.Helper()
	for _, key := range keys {
		p.submit(func(m *queue.Message) { m.PartitionKey = key })
	}
}

func (p *parker) submit(changes ...func(*queue.Message)) {
	p.t.Helper()
	r := queue.AdmitRequest{Now: p.now}
	for _, change := range changes {
		p.sent++
		s := submission(p.t, p.sent, 1)
		change(&s.Message)
		r.Lines = append(r.Lines, s)
	}
	p.must(p.h.store.Admit(p.ctx, r))
}

func (p *parker) claim(n int) []queue.Delivery {
	p.t.Helper()
	list, _ := p.claimOf(queue.RoutesOf(queue.Routes[:]...), n)
	return list
}

func (p *parker) claimOf(routes queue.RouteSet, n int) (list []queue.Delivery, more bool) {
	p.t.Helper()
	res, err := p.h.store.Claim(p.ctx, queue.ClaimRequest{Now: p.now, Wants: []queue.Want{{
		Owner: parkOwner, Slots: partition.AllSlots(), Routes: routes, Max: n, PerKey: n, Lease: time.Hour,
	}}})
	p.must(nil, err)
	return res.Deliveries[0], res.More
}
