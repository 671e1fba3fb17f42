package control

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// A priority is shown where one was read, or is the default of a line that has none; of
// others nobody knows it, and 0 would be the most urgent.
func TestRow_has_no_priority_that_was_never_read(t *testing.T) {
	store := newStore(t)
	const long = 5000
	head := queue.Submission{
		Message: queue.Message{Line: []byte(`{"priority":3,"pad":"`)}, Fault: &queue.Fault{Reason: "line of 5000 bytes is over max_line_bytes, 1024"},
		LineBytes: long, LineHash: queue.LineHash([]byte("all of it")),
	}
	lines := []queue.Submission{
		head,
		submission(`{"priority":3,`),
		submission(exceptionLine("a", "k", `,"priority":10`)),
		submission(strings.Replace(exceptionLine("b", "k", `,"priority":3`), `"PARTIAL"`, `"MAYBE"`, 1)),
		submission(exceptionLine("c", "k", `,"priority":3`)),
		submission(exceptionLine("d", "k", "")),
	}
	if _, err := store.Admit(t.Context(), queue.AdmitRequest{Now: time.Now(), Lines: lines}); err != nil {
		t.Fatal(err)
	}
	r := serve(t, Options{Store: store})
	for i, want := range []int{-1, -1, -1, 3, 3, queue.DefaultPriority} { // -1: absent
		var x api.Exception
		got := r.ask("GET", fmt.Sprintf("/v1/exceptions/%d", i+1), "")
		if err := json.Unmarshal([]byte(got.body), &x); err != nil || got.status != http.StatusOK {
			t.Fatalf("%d %s, %v", got.status, got.body, err)
		}
		shown := -1
		if x.Priority != nil {
			shown = int(*x.Priority)
		}
		if shown != want {
			t.Errorf("%s: priority %d, want %d", x.Line, shown, want)
		}
	}
}
