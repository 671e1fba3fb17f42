package house

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"breakwater/client"
	"breakwater/queue"
)

// TestLeases_of_a_consumer finds in its store what a reviewer took before a crash.
// Nobody who could ask for it is attached: an operator sees who has it and takes it
// back, and the trail says so.
func TestLeases_of_a_consumer(t *testing.T) {
	s := newSite(t, "")
	s.heldByConsumer("review-ui-1", "a", "b", "c")
	p := s.serve()
	if got := s.says("leases", "list", "--owner", "review-ui-1"); strings.Count(got, "consumer") != 3 {
		t.Errorf("before:\n%s", got)
	}
	if got := s.says("leases", "revoke", "2", "--by", "alice", "--reason", "on leave"); got != "seq 2: taken back from review-ui-1\n1 taken back, 0 refused" {
		t.Errorf("revoke one:\n%s", got)
	}
	if got := s.says("leases", "revoke", "--owner", "review-ui-1", "--json"); got !=
		`{"revoked":2,"failed":0,"items":[{"seq":1,"owner":"review-ui-1"},{"seq":3,"owner":"review-ui-1"}]}` {
		t.Errorf("revoke the rest:\n%s", got)
	}
	if got := s.says("leases", "list", "--json"); got != "" {
		t.Errorf("after:\n%s", got)
	}
	p.stop()
	r := s.last(queue.EventReclaimed)
	if r.Seq != 3 || r.Worker != "review-ui-1" || r.Reason != queue.ReclaimRevoked || r.By == "" || r.Peer == nil {
		t.Errorf("the record: %+v", r)
	}
	if st := s.status(); st.Ready != 3 || st.Leased != 0 {
		t.Errorf("the counts: %+v", st)
	}
	s.verify()
}

// TestLeases_that_move: after "leases revoke --owner" has read who has what, and before
// it takes anything back, an exception goes to another consumer. It stays theirs; what
// is still where it was is taken.
func TestLeases_that_move(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	server := s.serve()
	s.sendAll(exceptionLine("a", "k-a", "") + "\n" + exceptionLine("b", "k-b", "") + "\n")
	gone := s.attach(client.Consumer{Name: "gone", Prefetch: 2, Lease: patience})
	first, second := gone.next(client.Delivered), gone.next(client.Delivered)

	// A proxy before control.sock holds the request that takes back.
	asked, goOn := make(chan struct{}), make(chan struct{})
	l, err := net.Listen("unix", s.path("p.sock"))
	if err != nil {
		t.Fatal(err)
	}
	control := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "breakwater"}) },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.path("var/run/control.sock"))
		}},
	}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/leases/revoke" {
			asked <- struct{}{}
			<-goOn
		}
		control.ServeHTTP(w, r)
	})}
	go func() { _ = proxy.Serve(l) }() // it ends with the test
	t.Cleanup(func() { _ = proxy.Close() })

	p := s.start("leases", "revoke", "--owner", "gone", "--json", "--socket", s.path("p.sock"))
	<-asked
	if err := gone.Send(t.Context(), first.Lease, client.Answer{Verb: client.Release}); err != nil {
		t.Fatal(err)
	}
	gone.next(client.Settled)
	here := s.attach(client.Consumer{Name: "here", Prefetch: 1, Lease: patience})
	moved := here.next(client.Delivered)
	close(goOn)

	status, want := p.wait(), fmt.Sprintf(`"items":[{"seq":%d,"owner":"here","code":"LEASE_EXPIRED",`, moved.Delivery.Seq)
	if got := p.out.all(); status != 1 || !strings.Contains(got, `{"revoked":1,"failed":1,`) || !strings.Contains(got, want) ||
		!strings.Contains(got, fmt.Sprintf(`{"seq":%d,"owner":"gone"}`, second.Delivery.Seq)) {
		t.Errorf("exit status %d, %s", status, got)
	}
	here.settle(moved.Lease) // which it could not, had the lease been taken
	server.stop()
	s.sound()
}

// heldByConsumer makes a store with one exception of each key, all of which a
// consumer has.
func (s *site) heldByConsumer(name string, keys ...string) {
	s.Helper()
	store := s.open()
	for _, key := range keys {
		s.admit(store, exceptionLine(key, "k-"+key, ""))
	}
	s.claim(store, queue.Owner{Kind: queue.Consumer, Name: name, UID: 1000}, len(keys))
	if err := store.Close(); err != nil {
		s.Fatal(err)
	}
}
