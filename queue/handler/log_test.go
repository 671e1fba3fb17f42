package handler_test

import (
	"testing"

	"breakwater/queue"
	"breakwater/queue/handler"
)

func TestLog_acks_as_auto_resolved(t *testing.T) {
	if got, want := (handler.Log{}).Decide(delivery()), (queue.Answer{Verb: queue.Ack, Outcome: "AUTO_RESOLVED"}); got != want {
		t.Errorf("got %+v", got)
	}
}
