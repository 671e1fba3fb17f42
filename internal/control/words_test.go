package control

import (
	"testing"
	"time"

	"breakwater/queue"
)

// TestWords: every reason is said in a sentence, and whatever is known is in it.
func TestWords(t *testing.T) {
	now := start.Add(2 * time.Hour)
	later := now.Add(90 * time.Second)
	for _, c := range []struct {
		cause queue.Cause
		want  string
	}{
		{queue.Cause{Reason: queue.WhyDead, Seq: 3, Since: start, Code: queue.CodePoison, Text: "no"},
			"it is a dead letter since 2026-03-02T09:00:00Z (2h0m): POISON_MESSAGE: no"},
		{queue.Cause{Reason: queue.WhyBlocked, Seq: 3, Since: start, Code: queue.CodeRejected, Count: 3},
			"its key waits for dead letter 3 since 2026-03-02T09:00:00Z (2h0m): REJECTED (and for 2 more)"},
		{queue.Cause{Reason: queue.WhyDamaged, Seq: 3}, "the stored bytes of seq 3 are damaged: it is not handed out, and its key waits for it"},
		{queue.Cause{Reason: queue.WhyOperator, By: "olga", Since: start, Text: "dispute"},
			"its key is held by olga since 2026-03-02T09:00:00Z (2h0m): dispute"},
		{queue.Cause{Reason: queue.WhyRetry, Seq: 3, Count: 2, Most: 10, Until: later, Text: "exit status 1"},
			"seq 3 failed (attempt 2 of 10) and is tried again in 1m30s: exit status 1"},
		{queue.Cause{Reason: queue.WhyRetry, Seq: 3, Count: 2, Until: start}, "seq 3 failed (attempt 2) and is tried again now"},
		{queue.Cause{Reason: queue.WhyHold, Seq: 3, Until: later, By: "bot", Text: "closed"},
			"seq 3 was put on hold by bot until 2026-03-02T11:01:30Z, in 1m30s: closed"},
		{queue.Cause{Reason: queue.WhyLeased, Seq: 3, Owner: "ui", Consumer: true, Until: later}, "seq 3 is with consumer ui, whose lease runs until 2026-03-02T11:01:30Z"},
		{queue.Cause{Reason: queue.WhyBehind, Seq: 3}, "seq 3 of its key comes first"},
		{queue.Cause{Reason: queue.WhyNotDue, Seq: 3, Until: later}, "seq 3 is not due before 2026-03-02T11:01:30Z, in 1m30s"},
		{queue.Cause{Reason: queue.WhyPaused, By: "bob", Since: start, Text: "close"}, "claims are paused by bob since 2026-03-02T09:00:00Z (2h0m): close"},
		{queue.Cause{Reason: queue.WhyDraining}, "breakwater is draining: nothing is handed out before the next start"},
		{queue.Cause{Reason: queue.WhyUnavailable, Route: queue.RouteReview, Since: start, Until: later, Text: "refused"},
			"the handler of ROUTE_REVIEW cannot be had since 2026-03-02T09:00:00Z (2h0m), and is tried again in 1m30s: refused"},
		{queue.Cause{Reason: queue.WhyUnavailable, Route: queue.RouteReview, Until: start},
			"the handler of ROUTE_REVIEW cannot be had, and is tried again with the next exception"},
		{queue.Cause{Reason: queue.WhyNoConsumer, Route: queue.RouteReview}, "no consumer is attached that takes ROUTE_REVIEW"},
		{queue.Cause{Reason: queue.WhyConsumers, Route: queue.RouteReview, Count: 2},
			"all that the consumers of ROUTE_REVIEW may have unanswered is with them (2 attached)"},
		{queue.Cause{Reason: queue.WhyAside, Owner: "ui", Until: later}, "ui has put it back and is not asked again before 2026-03-02T11:01:30Z, in 1m30s"},
		{queue.Cause{Reason: queue.WhyNext, Route: queue.RouteReview}, "nothing keeps it: it is next on ROUTE_REVIEW"},
		{queue.Cause{Reason: queue.WhyNext, Count: 1}, "nothing keeps it: it waits its turn behind one other key"},
		{queue.Cause{Reason: queue.WhyNext, Count: 7}, "nothing keeps it: it waits its turn behind 7 other keys"},
		{queue.Cause{Reason: queue.WhyNext, Count: 10000, More: true}, "nothing keeps it: it waits its turn behind more than 10000 other keys"},
		{queue.Cause{Reason: queue.WhyNext, More: true}, "nothing keeps it: it waits its turn behind many others"},
		{queue.Cause{Reason: queue.WhyNothing}, "nothing of it is open"},
		{queue.Cause{Reason: queue.WhySettled, State: queue.Done, Outcome: "POSTED", Since: start}, "it was done at 2026-03-02T09:00:00Z (2h0m ago), with the outcome POSTED"},
		{queue.Cause{Reason: queue.WhySettled, State: queue.Discarded, Since: start}, "it was discarded at 2026-03-02T09:00:00Z (2h0m ago)"},
	} {
		if got := words(&c.cause, now); got != c.want {
			t.Errorf("%s\n\t%s\nwant\t%s", c.cause.Reason, got, c.want)
		}
	}
}
