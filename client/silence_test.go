package client

import (
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestProducer_hears_that_nothing_is_answered has a server that takes a line and says
// nothing for a while. It is not left, and whoever waits learns of it.
func TestProducer_hears_that_nothing_is_answered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type told struct {
			waited time.Duration
			lines  int
		}
		var mu sync.Mutex
		var all []told
		near, far := net.Pipe()
		w := newWindow(nil)
		r := &run{Producer: &Producer{Silent: func(waited time.Duration, lines int) {
			mu.Lock()
			defer mu.Unlock()
			all = append(all, told{waited, lines})
		}}}
		var end bool
		var err error
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			end, err = r.receive(near, w)
		}()
		pass := func(d time.Duration, want ...told) {
			t.Helper()
			<-time.After(d)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(all, want) {
				t.Errorf("told %v, want %v", all, want)
			}
			all = nil
		}
		say := func(text string) {
			t.Helper()
			if _, err := io.WriteString(far, text); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		pass(time.Hour) // nothing was sent: nothing is owed
		w.put(pending{line: []byte("x\n")})
		w.put(pending{line: []byte("y\n")})
		pass(9 * time.Second)
		pass(12*time.Second, told{10 * time.Second, 2})
		pass(2*time.Minute, told{70 * time.Second, 2}, told{130 * time.Second, 2})
		say(`{"line":1,"status":"accepted","seq":1}` + "\n")
		pass(19 * time.Second)
		pass(2*time.Second, told{10 * time.Second, 1})
		say(`{"line":2,"status":"accepted","seq":2}` + "\n")
		pass(time.Hour)
		w.halfClose() // now the end is
		pass(21*time.Second, told{10 * time.Second, 0})
		say(`{"event":"end","lines":2}` + "\n")
		<-ended
		if !end || err != nil || r.res.Accepted != 2 {
			t.Errorf("end %t, %+v, %v", end, r.res, err)
		}
		pass(time.Hour)
		_, _ = near.Close(), far.Close()
	})
}
