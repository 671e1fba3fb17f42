package client

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// A step of the clock takes no delivery away that has not begun: its deadline is a time to
// come, by the clock that no one sets.
func TestSession_deadlines_do_not_follow_the_clock(t *testing.T) {
	s := &Session{c: Consumer{Prefetch: 1}, known: map[string]time.Time{}}
	deadline := time.Now().Add(time.Minute).UTC().Truncate(time.Millisecond)
	line := fmt.Sprintf(`{"event":"delivery","lease":"l1","seq":1,"deadline":%q}`, deadline.Format(time.RFC3339Nano))
	e, tell, err := s.hear(&link{}, []byte(line))
	if err != nil || !tell || e.Delivery == nil {
		t.Fatalf("%+v, %v, %v", e, tell, err)
	}
	for name, got := range map[string]time.Time{"event": e.Deadline, "delivery": e.Delivery.Deadline} {
		if !got.Round(0).Equal(deadline) || !strings.Contains(got.String(), " m=+") {
			t.Errorf("%s: %s, want %s by the monotonic clock", name, got, deadline)
		}
	}
}
