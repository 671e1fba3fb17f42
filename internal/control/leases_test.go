package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"breakwater/internal/control/api"
	"breakwater/partition"
	"breakwater/queue"
)

// leased is a store in which two consumers and a worker hold every third of n
// messages, and a server of it.
func leased(t *testing.T, n int) (*rig, queue.Store) {
	t.Helper()
	store := newStore(t)
	for i := range n {
		admit(t, store, start, exceptionLine(fmt.Sprintf("k%d", i+1), fmt.Sprintf("p%d", i+1), ""))
	}
	var wants []queue.Want
	for range n {
		for _, o := range []queue.Owner{
			{Kind: queue.Consumer, Name: "ui", UID: 7}, {Kind: queue.Consumer, Name: "post", UID: 8}, {Kind: queue.Worker, Name: "w-0"},
		} {
			wants = append(wants, queue.Want{
				Owner: o, Slots: partition.AllSlots(), Routes: queue.RoutesOf(queue.Routes[:]...), Max: 1, PerKey: 1, Lease: time.Minute,
			})
		}
	}
	if _, err := store.Claim(t.Context(), queue.ClaimRequest{Now: start, Wants: wants}); err != nil {
		t.Fatal(err)
	}
	c := newClock()
	c.pass(time.Second)
	policy := func() queue.Policy { return queue.Policy{MaxDeliveries: 2} }
	return serve(t, Options{Store: store, Now: c.Now, Policy: policy}), store
}

func (r *rig) leases(query string) (page api.List[api.Lease], seqs []uint64) {
	r.Helper()
	got := r.ask("GET", "/v1/leases"+query, "")
	if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK {
		r.Fatalf("%s: %d %s, %v", query, got.status, got.body, err)
	}
	for _, l := range page.Items {
		seqs = append(seqs, l.Seq)
	}
	return page, seqs
}

func TestLeases_are_listed_page_by_page_and_by_owner(t *testing.T) {
	r, _ := leased(t, 10)
	for _, c := range []struct {
		query string
		want  []uint64
		next  string
	}{
		{"", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, ""},
		{"?limit=4", []uint64{1, 2, 3, 4}, "4"},
		{"?limit=4&after=4", []uint64{5, 6, 7, 8}, "8"},
		{"?limit=4&after=8", []uint64{9, 10}, ""},
		{"?limit=10", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, "10"},
		{"?limit=10&after=10", nil, ""},
		{"?owner=post", []uint64{2, 5, 8}, ""},
		{"?owner=post&limit=2", []uint64{2, 5}, "5"},
		{"?owner=post&limit=2&after=5", []uint64{8}, ""},
		{"?owner=nobody", nil, ""},
	} {
		if page, seqs := r.leases(c.query); !slices.Equal(seqs, c.want) || page.Next != c.next {
			t.Errorf("%s: %d, next %q; want %d, next %q", c.query, seqs, page.Next, c.want, c.next)
		}
	}
	page, _ := r.leases("?limit=3")
	ui, w := page.Items[0], page.Items[2]
	if ui.Owner != "ui" || ui.Kind != api.LeaseOfConsumer || ui.UID == nil || *ui.UID != 7 || ui.IdempotencyKey != "k1" || ui.Delivery != 1 ||
		!ui.Since.Equal(start) || !ui.Deadline.Equal(start.Add(time.Minute)) || w.Kind != api.LeaseOfWorker || w.UID != nil {
		t.Errorf("%+v\n%+v", ui, w)
	}
}

func TestLeases_revoke(t *testing.T) {
	r, store := leased(t, 3)
	revoke := func(body string) (doc api.Revoked) {
		t.Helper()
		got := r.ask("POST", "/v1/leases/revoke", body)
		if err := json.Unmarshal([]byte(got.body), &doc); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s, %v", body, got.status, got.body, err)
		}
		return doc
	}
	was, _ := r.leases("?owner=post&limit=1")
	doc := revoke(`{"seqs":[2,3,99],"by":"alice","reason":"on leave"}`)
	if doc.Revoked != 1 || doc.Failed != 2 || doc.Items[0] != (api.Revocation{Seq: 2, Owner: "post"}) ||
		doc.Items[1].Code != string(queue.CodeUsage) || doc.Items[2].Code != string(queue.CodeNotFound) {
		t.Errorf("%+v", doc)
	}
	var got queue.Record
	if err := store.Trail(t.Context(), queue.TrailQuery{Event: queue.EventReclaimed}, func(r queue.Record) bool { got = r; return true }); err != nil {
		t.Fatal(err)
	}
	if got.Seq != 2 || got.By != "alice" || got.Reason != "on leave" || got.Peer == nil || *got.Peer != operator {
		t.Errorf("the record: %+v", got)
	}

	again := queue.Want{
		Owner: queue.Owner{Kind: queue.Consumer, Name: "ui", UID: 7}, Slots: partition.AllSlots(),
		Routes: queue.RoutesOf(queue.Routes[:]...), Max: 1, PerKey: 1, Lease: time.Minute,
	}
	if _, err := store.Claim(t.Context(), queue.ClaimRequest{Now: start, Wants: []queue.Want{again}}); err != nil {
		t.Fatal(err)
	}
	// It is not as it was listed before that.
	doc = revoke(fmt.Sprintf(`{"leases":[{"seq":%d,"fence":%d}],"by":"alice"}`, was.Items[0].Seq, was.Items[0].Fence))
	if doc.Revoked != 0 || doc.Failed != 1 || doc.Items[0].Owner != "ui" || doc.Items[0].Code != string(queue.CodeExpired) {
		t.Errorf("the lease from before: %+v", doc)
	}
	doc = revoke(`{"seqs":[2],"owner":"post"}`)
	if doc.Failed != 1 || doc.Items[0].Owner != "ui" || doc.Items[0].Code != string(queue.CodeExpired) {
		t.Errorf("of who had it before: %+v", doc)
	}
	page, _ := r.leases("?owner=ui&limit=1000")
	at := slices.IndexFunc(page.Items, func(l api.Lease) bool { return l.Seq == 2 })
	doc = revoke(fmt.Sprintf(`{"leases":[{"seq":2,"fence":%d}],"owner":"ui"}`, page.Items[at].Fence))
	if doc.Revoked != 1 || doc.Items[0] != (api.Revocation{Seq: 2, Owner: "ui", DeadCode: string(queue.CodeDeliveriesExhausted)}) {
		t.Errorf("the last delivery: %+v", doc)
	}
}
