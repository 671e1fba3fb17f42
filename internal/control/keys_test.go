package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// TestKeys_say_what_keeps_them: each row of the list has what "why" says of its key, and
// who works on the routes is asked once for a page, however many keys it has.
func TestKeys_say_what_keeps_them(t *testing.T) {
	store, asked := newStore(t), 0
	const auto, review = keySteps, 2 // more than one step of the store
	for i := range auto {
		admit(t, store, start, exceptionLine(fmt.Sprintf("a%d", i), fmt.Sprintf("A%03d", i), `,"route":"AUTO_RESOLVE"`))
	}
	admit(t, store, start, exceptionLine("r1", "R1", ""), exceptionLine("r2", "R2", ""))
	if _, err := store.HoldKeys(t.Context(), queue.Action{Now: start, By: "olga"}, []string{"R2"}); err != nil {
		t.Fatal(err)
	}
	var now Readiness
	r := serve(t, Options{Store: store, Now: newClock().Now, Ready: func(*queue.StoreStatus, time.Time) Readiness {
		asked++
		return now
	}})
	serving := func(s queue.Serving) []queue.Serving {
		s.Route = queue.RouteReview
		return []queue.Serving{{Route: queue.AutoResolve, InProcess: true}, s}
	}
	for _, c := range []struct {
		what     string
		ready    Readiness
		a, r1, r string // causes of the keys of AUTO_RESOLVE, of R1 and of R2
	}{
		{"all is well", Readiness{Serving: serving(queue.Serving{Consumers: 1, Room: 1})}, "[]", "[]", "[operator]"},
		{"nobody is attached", Readiness{Serving: serving(queue.Serving{})}, "[]", "[no_consumer]", "[operator no_consumer]"},
		{"no room", Readiness{Serving: serving(queue.Serving{Consumers: 1})}, "[]", "[consumers_full]", "[operator consumers_full]"},
		{"down", Readiness{Serving: serving(queue.Serving{InProcess: true, Down: true})}, "[]", "[handler_unavailable]", "[operator handler_unavailable]"},
		{"draining", Readiness{Draining: true}, "[draining]", "[draining]", "[operator draining]"},
	} {
		now, asked = c.ready, 0
		var page api.List[api.Key]
		got := r.ask("GET", "/v1/keys?limit=1000", "")
		if err := json.Unmarshal([]byte(got.body), &page); err != nil || got.status != http.StatusOK || len(page.Items) != auto+review {
			t.Fatalf("%s: %d, %d keys, %v", c.what, got.status, len(page.Items), err)
		}
		if asked != 1 {
			t.Errorf("%s: who works on the routes was asked %d times for a page", c.what, asked)
		}
		for _, k := range page.Items {
			var reasons []string
			for _, cause := range k.WaitsFor {
				if reasons = append(reasons, cause.Reason); cause.Words == "" {
					t.Errorf("%s: %s has no words", c.what, cause.Reason)
				}
			}
			want := map[string]string{"R1": c.r1, "R2": c.r}[k.Key]
			if k.Route == "AUTO_RESOLVE" {
				want = c.a
			}
			if fmt.Sprint(reasons) != want {
				t.Errorf("%s: %s waits for %v, want %s", c.what, k.Key, reasons, want)
			}
		}
	}
}
