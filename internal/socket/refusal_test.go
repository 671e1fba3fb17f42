package socket

import (
	"strings"
	"testing"

	"breakwater/queue"
)

// TestRefusal: behind a line that was rejected nothing of its connection is stored, room or
// not, until that line comes again: what is stored is the beginning of what was sent.
func TestRefusal(t *testing.T) {
	poison := strings.Replace(message("p"), `"1.00"`, `1.00`, 1)
	accepted := func(t *testing.T, s *session, line, seq string) {
		t.Helper()
		if got := s.next(t); !strings.HasPrefix(got, `{"line":`+line+`,"status":"accepted","seq":`+seq+`,`) {
			t.Fatalf("got %s, want line %s accepted as %s", got, line, seq)
		}
	}
	rejected := func(t *testing.T, s *session, line, why string) {
		t.Helper()
		if got := s.next(t); !strings.HasPrefix(got, `{"line":`+line+`,"status":"rejected","code":`) || !strings.Contains(got, why) {
			t.Fatalf("got %s, want line %s rejected, and %s", got, line, why)
		}
	}
	const behind2 = `"code":"QUEUE_SATURATED","reason":"max_backlog","retry_after_ms":500,"error":"line 2 was rejected before it: send that one again first"`

	t.Run("what was on its way is rejected, also when there is room again", func(t *testing.T) {
		d := newDoor(t)
		d.limits.MaxBacklog = 1
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 2))
		accepted(t, c, "1", "1")
		rejected(t, c, "2", "max_backlog is reached")
		d.limit(queue.Limits{})
		c.send(t, messages(3, 4))
		rejected(t, c, "3", behind2)
		rejected(t, c, "4", behind2)
		c.send(t, messages(1, 1)+"\n"+poison+"\n")
		if got := c.next(t); !strings.HasPrefix(got, `{"line":5,"status":"duplicate","seq":1,`) {
			t.Errorf("what is known is answered: %s", got)
		}
		rejected(t, c, "7", behind2)
		c.send(t, messages(4, 4)+messages(2, 4)+poison+"\n")
		rejected(t, c, "8", behind2)
		accepted(t, c, "9", "2")
		accepted(t, c, "10", "3")
		accepted(t, c, "11", "4")
		if got := c.rest(t); len(got) != 2 || !strings.Contains(got[0], `"quarantined"`) || !strings.Contains(got[1], `"accepted":4,"duplicate":1,"conflict":0,"quarantined":1,"rejected":5,`) {
			t.Errorf("got %s", strings.Join(got, "\n"))
		}
	})
	t.Run("another connection begins anew", func(t *testing.T) {
		d := newDoor(t)
		d.limits.MaxBacklog = 1
		c, l := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 3))
		accepted(t, c, "1", "1")
		rejected(t, c, "2", "max_backlog is reached")
		rejected(t, c, "3", behind2)
		d.limit(queue.Limits{})
		other := connect(t, l)
		other.send(t, messages(3, 3))
		accepted(t, other, "1", "2")
	})
	t.Run("a line that no gate lets in is known by its bytes", func(t *testing.T) {
		d := newDoor(t)
		d.limits.MaxDeadLetters = 1
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, "junk\n"+poison+"\n"+message("k1")+"\n")
		if got := c.next(t); !strings.Contains(got, `"quarantined"`) {
			t.Fatalf("got %s", got)
		}
		rejected(t, c, "2", "max_dead_letters is reached")
		rejected(t, c, "3", "line 2 was rejected before it")
		d.limit(queue.Limits{})
		c.send(t, message("k1")+"\n"+message("p")+"\n") // another line, if it were the same unit of work
		rejected(t, c, "4", "line 2 was rejected before it")
		rejected(t, c, "5", "line 2 was rejected before it")
		c.send(t, poison+"\n"+message("k1")+"\n")
		if got := c.next(t); !strings.HasPrefix(got, `{"line":6,"status":"quarantined","code":"POISON_MESSAGE","seq":2,`) {
			t.Fatalf("got %s", got)
		}
		accepted(t, c, "7", "3")
	})
	t.Run("what waited when a drain began lets nothing behind it pass", func(t *testing.T) {
		d := newDoor(t)
		d.full, d.limits.MaxBacklog = true, 1
		c, _ := enqueue(t, d, EnqueueOptions{})
		c.send(t, messages(1, 2))
		accepted(t, c, "1", "1")
		c.send(t, messages(3, 3))
		d.limit(queue.Limits{}) // the handlers that end make room
		close(d.stop)
		rejected(t, c, "2", `"code":"DRAINING"`)
		rejected(t, c, "3", `"code":"DRAINING","error":"line 2 was rejected before it`)
		c.send(t, messages(1, 1))
		rejected(t, c, "4", `"code":"DRAINING","error":"line 2 was rejected before it`)
		if n := d.stored(t); n != 1 {
			t.Errorf("%d are stored", n)
		}
	})
}
