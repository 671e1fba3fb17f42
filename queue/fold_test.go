package queue

import (
	"testing"
	"time"
)

// TestFold_keeps_nothing_of_a_state_that_is_over plays the life of a line that was
// quarantined, replayed, held and settled.
func TestFold_keeps_nothing_of_a_state_that_is_over(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	var x Exception
	for _, r := range []Record{
		{Event: EventQuarantined, Seq: 1, TS: now, Code: CodePoison, Field: "currency", Reason: "not known"},
		{Event: EventReplayed, Seq: 1, TS: now},
		{Event: EventAccepted, Seq: 1, TS: now},
		{Event: EventDispatched, Seq: 1, TS: now, Worker: "ui", Deadline: later, Delivery: 1},
		{Event: EventHeld, Seq: 1, TS: now, Delivery: 1, Until: later},
		{Event: EventDispatched, Seq: 1, TS: now, Worker: "ui", Deadline: later, Delivery: 1},
		{Event: EventDecided, Seq: 1, TS: later, Outcome: "APPROVED"},
	} {
		x.Fold(&r)
	}
	if x.State != Done || x.Outcome != "APPROVED" || !x.SettledAt.Equal(later) || x.Deliveries != 1 {
		t.Errorf("the end: %+v", x)
	}
	if x.Code != "" || x.Reason != "" || x.Field != "" || !x.DeadAt.IsZero() {
		t.Errorf("it is no dead letter any more: %+v", x)
	}
	if x.Owner != "" || !x.Deadline.IsZero() || !x.DueAt.IsZero() {
		t.Errorf("nobody holds it, and it waits for nothing: %+v", x)
	}
}
