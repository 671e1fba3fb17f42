package queue

import (
	"testing"
	"time"
)

// TestFold_keeps_nothing_of_a_state_that_is_over plays the life of a line that was
// quarantined, replayed, held and settled.
// Whoever ended the wait of a message is in its history, and it waits for nothing then.
func TestFold_of_a_wait_that_an_operator_ended(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for _, wait := range []Record{
		{Event: EventHeld, Seq: 1, TS: now, Delivery: 1, Until: now.Add(time.Hour)},
		{Event: EventRetried, Seq: 1, TS: now, Delivery: 1, FailedAttempts: 1, Until: now.Add(time.Hour)},
	} {
		var x Exception
		for _, r := range []Record{
			{Event: EventAccepted, Seq: 1, TS: now},
			{Event: EventDispatched, Seq: 1, TS: now, Worker: "ui", Deadline: now.Add(time.Minute), Delivery: 1},
			wait,
		} {
			x.Fold(&r)
		}
		if x.State != Held || !x.DueAt.Equal(wait.Until) {
			t.Errorf("%s: %+v", wait.Event, x)
		}
		x.Fold(&Record{Event: EventKeyReleased, Seq: 1, TS: now, Until: wait.Until, By: "olga"})
		if x.State != Ready || !x.DueAt.IsZero() || x.FailedAttempts != wait.FailedAttempts {
			t.Errorf("%s, and released: %+v", wait.Event, x)
		}
	}
}

func TestFold_keeps_nothing_of_a_state_that_is_over(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	later := now.Add(time.Hour)
	var x Exception
	for _, r := range []Record{
		{Event: EventQuarantined, Seq: 1, TS: now, Code: CodePoison, Field: "currency", Reason: "not known"},
		{Event: EventReplayed, Seq: 1, TS: now},
		{Event: EventAccepted, Seq: 1, TS: now},
		{Event: EventDispatched, Seq: 1, TS: now, Worker: "ui", Deadline: later, Delivery: 1},
		{Event: EventReleased, Seq: 1, TS: now, Worker: "ui", Delivery: 1, Unanswered: 1},
		{Event: EventDispatched, Seq: 1, TS: now, Worker: "ui", Deadline: later, Delivery: 1, Unanswered: 1},
		{Event: EventHeld, Seq: 1, TS: now, Delivery: 1, Until: later},
		{Event: EventDispatched, Seq: 1, TS: now, Worker: "ui", Deadline: later, Delivery: 1},
		{Event: EventDecided, Seq: 1, TS: later, Outcome: "APPROVED"},
	} {
		x.Fold(&r)
	}
	if x.State != Done || x.Outcome != "APPROVED" || !x.SettledAt.Equal(later) || x.Deliveries != 1 {
		t.Errorf("the end: %+v", x)
	}
	if x.Unanswered != 1 {
		t.Errorf("one delivery ended without an answer: %+v", x)
	}
	if x.Code != "" || x.Reason != "" || x.Field != "" || !x.DeadAt.IsZero() {
		t.Errorf("it is no dead letter any more: %+v", x)
	}
	if x.Owner != "" || !x.Deadline.IsZero() || !x.DueAt.IsZero() {
		t.Errorf("nobody holds it, and it waits for nothing: %+v", x)
	}
}
