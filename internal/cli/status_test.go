package cli

import (
	"strings"
	"testing"
	"time"

	"breakwater/internal/control/api"
)

// TestStatus/tells_what_keeps_lines_and_routes: a full queue and a handler that is
// down look like an idle process otherwise.
func TestStatus(t *testing.T) {
	t.Run("tells what keeps lines and routes", func(t *testing.T) {
		now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
		at := func(d time.Duration) api.Time { return api.Time{Time: now.Add(d)} }
		for want, st := range map[string]api.Status{
			"intake      open\n": {Intake: api.Intake{Intake: api.IntakeOpen}},
			"intake      waits: max_store_bytes (2 producers)\n":                     {Intake: api.Intake{Intake: api.IntakeWaiting, Saturated: "max_store_bytes", Waiting: 2}},
			"intake      waits: min_free_bytes (1 producer)\n":                       {Intake: api.Intake{Intake: api.IntakeWaiting, Saturated: "min_free_bytes", Waiting: 1}},
			"intake      full: max_backlog is reached\n":                             {Intake: api.Intake{Intake: api.IntakeFull, Saturated: "max_backlog"}},
			"draining    nothing new is taken or handed out\n":                       {Draining: true, Intake: api.Intake{Intake: api.IntakeDraining}},
			"next try in 12s: connection \\x1b[2Jrefused\n":                          {Unavailable: []api.Outage{{Route: "ROUTE_REVIEW", Since: at(-time.Minute), Next: at(12 * time.Second), Reason: "connection \x1b[2Jrefused"}}},
			"route       ROUTE_REVIEW handler unavailable since 2026-03-02T08:59:00": {Unavailable: []api.Outage{{Route: "ROUTE_REVIEW", Since: at(-time.Minute), Next: at(0)}}},
			"next try at the next exception\n":                                       {Unavailable: []api.Outage{{Route: "ROUTE_REVIEW", Since: at(-time.Minute), Next: at(0)}}},
		} {
			st.Now = at(0)
			if text := string(statusText(&st)); !strings.Contains(text, want) {
				t.Errorf("%q is missing in\n%s", want, text)
			}
		}
		if text := string(statusText(&api.Status{})); strings.Contains(text, "intake") {
			t.Errorf("a file alone takes lines:\n%s", text)
		}
	})
}
