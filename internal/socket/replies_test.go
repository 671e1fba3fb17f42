package socket

import (
	"testing"
	"time"

	"breakwater/queue"
)

// The lines of the contract for consumers, member for member; queue has that of a
// delivery.
func TestReplies(t *testing.T) {
	token, deadline := queue.Token{Seq: 42, Fence: 7}, time.Date(2026, 12, 1, 4, 5, 6, 789_000_000, time.UTC)
	const lease = `"lease":"000000000000002a0000000000000007"`
	answered := func(s said) string {
		s.settlement.Token = token
		return string(appendReply(nil, &s))
	}
	for _, c := range []struct{ name, got, want string }{
		{"attached", string(appendAttached(nil, "review-ui-1", 10*time.Minute)), `{"event":"attached","consumer":"review-ui-1","lease_timeout_ms":600000}`},
		{"not attached", string(appendNotAttached(nil, "review-ui-1", queue.CodeNameInUse, "in use")), `{"event":"refused","consumer":"review-ui-1","code":"NAME_IN_USE","error":"in use"}`},
		{"lease ending", string(appendEnding(nil, &queue.Ending{Token: token, Deadline: deadline})), `{"event":"lease_ending",` + lease + `,"deadline":"2026-12-01T04:05:06.789000Z"}`},
		{"settled", answered(said{seq: 42}), `{"event":"settled",` + lease + `,"seq":42}`},
		{"extended", answered(said{kind: extend, seq: 42, deadline: deadline}), `{"event":"extended",` + lease + `,"seq":42,"deadline":"2026-12-01T04:05:06.789000Z"}`},
		{"refused", answered(said{code: queue.CodeExpired, why: "it is over"}), `{"event":"refused",` + lease + `,"code":"LEASE_EXPIRED","error":"it is over"}`},
		{"malformed", answered(said{line: 3, fault: "no JSON"}), `{"event":"error","code":"USAGE","line":3,"error":"no JSON"}`},
		{"draining", string(appendEvent(nil, "draining")), `{"event":"draining"}`},
	} {
		if c.got != c.want+"\n" {
			t.Errorf("%s: got  %swant %s", c.name, c.got, c.want)
		}
	}
}
