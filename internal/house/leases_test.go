package house

import (
	"strings"
	"testing"

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
