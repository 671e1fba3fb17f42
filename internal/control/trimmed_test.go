package control

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
	"breakwater/storage/memstore"
)

// trim lets retention remove all that was recorded so far but the last block.
func trim(t *testing.T, store *memstore.Store, now time.Time) {
	t.Helper()
	if err := store.Note(t.Context(), now, []queue.Record{{Event: queue.EventAttached, Worker: "ui"}}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := store.Expire(t.Context(), queue.ExpireRequest{Now: now, Passed: time.Hour}); err != nil {
			t.Fatal(err)
		}
	}
	if res, err := store.Trim(t.Context(), queue.TrimRequest{Now: now, Audit: time.Hour}); err != nil || res.Records == 0 {
		t.Fatalf("trimmed %+v, %v", res, err)
	}
}

// decode reads the body of an answer.
func decode[T any](t *testing.T, a reply) (doc T) {
	t.Helper()
	if err := json.Unmarshal([]byte(a.body), &doc); err != nil {
		t.Fatalf("%v: %s", err, a.body)
	}
	return doc
}

// What retention has removed is not taken for what never was.
func TestTrimmed(t *testing.T) {
	store := newStore(t)
	admit(t, store, start, exceptionLine("a1", "A", ""), "no JSON")
	if _, err := store.Discard(t.Context(), queue.Action{Now: start, By: "o", Reason: "r"}, []uint64{2}); err != nil {
		t.Fatal(err)
	}
	r := serve(t, Options{Store: store, Now: newClock().Now})
	if st := decode[api.Status](t, r.ask("GET", "/v1/status", "")); st.Audit.FirstRecord != 0 {
		t.Errorf("nothing is trimmed, and it begins with record %d", st.Audit.FirstRecord)
	}
	trim(t, store, start)
	if st := decode[api.Status](t, r.ask("GET", "/v1/status", "")); st.Audit.FirstRecord < 4 {
		t.Errorf("it begins with record %d", st.Audit.FirstRecord)
	}
	open := decode[api.Detail](t, r.ask("GET", "/v1/exceptions/1", ""))
	if !open.HistoryTrimmed || len(open.History) != 1 || !strings.Contains(string(open.History[0]), `"copy_of":2`) {
		t.Errorf("the open one: %+v", open)
	}
	if p := problemIn(t, r.ask("GET", "/v1/exceptions/2", "")); p.Status != 404 || !strings.Contains(p.Detail, "retention") || p.Hint == "" {
		t.Errorf("the one that is over: %+v", p)
	}
	if p := problemIn(t, r.ask("GET", "/v1/exceptions/99", "")); p.Status != 404 || strings.Contains(p.Detail, "retention") {
		t.Errorf("one that never was: %+v", p)
	}
	v := decode[api.Verification](t, r.ask("POST", "/v1/audit/verify", "{}"))
	if !v.Sound || v.First.N < 4 || v.Audit.FirstRecord != v.First.N {
		t.Errorf("verification: %+v", v)
	}
}
