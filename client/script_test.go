package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is the server's end of a connection, which says what no breakwater can be
// made to say when it should.
type scripted struct {
	testing.TB
	net.Conn
	in *bufio.Reader
}

// play listens and plays one part after the other, each on a connection of its own
// that has been attached.
func play(t *testing.T, parts ...func(s scripted)) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "c.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for _, part := range parts {
			s, err := meets(t, l)
			if err != nil {
				t.Error(err)
				return
			}
			s.wants(`{"attach":"ui",`)
			s.says(`{"event":"attached","consumer":"ui","lease_timeout_ms":60000}`)
			part(s)
			_ = s.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return path
}

// meets accepts the next connection that says something. One that says nothing only looks
// what kind of socket it is.
func meets(t testing.TB, l net.Listener) (scripted, error) {
	for {
		c, err := l.Accept()
		if err != nil {
			return scripted{}, err
		}
		s := scripted{t, c, bufio.NewReader(c)}
		if _, err := s.in.Peek(1); err == nil {
			return s, nil
		}
		_ = c.Close()
	}
}

func (s scripted) says(line string) {
	if _, err := fmt.Fprintln(s, line); err != nil {
		s.Error(err)
	}
}

// wants reads a line that begins like this.
func (s scripted) wants(begin string) {
	line, err := s.in.ReadString('\n')
	if err != nil || !strings.HasPrefix(line, begin) {
		s.Errorf("got %q, %v, want %s", line, err, begin)
	}
}

// delivers hands out an exception under a lease, in time or not.
func (s scripted) delivers(lease, key string, left time.Duration) {
	s.says(fmt.Sprintf(`{"event":"delivery","lease":%q,"seq":1,"partition_key":%q,"deadline":%q,"exception":{}}`,
		lease, key, time.Now().Add(left).UTC().Format(time.RFC3339Nano)))
}

// leaves plays the end.
func (s scripted) leaves() {
	s.wants(`{"detach":true}`)
	s.says(`{"event":"detached"}`)
}

func TestConsumer_scripted(t *testing.T) {
	t.Run("what finds no room is given again", func(t *testing.T) {
		path := play(t, func(s scripted) {
			s.delivers("a", "k", time.Minute)
			s.wants(`{"ack":"a"`)
			s.says(`{"event":"refused","lease":"a","code":"STORAGE_UNAVAILABLE","error":"..."}`)
			s.wants(`{"ack":"a"`)
			s.says(`{"event":"settled","lease":"a","seq":1}`)
			s.leaves()
		})
		var told []Event
		c := Consumer{Path: path, Name: "ui", Max: 1, Answered: func(_ Delivery, _ Answer, e Event) { told = append(told, e) }}
		if err := c.Run(t.Context(), func(context.Context, Delivery) Answer { return done }); err != nil || len(told) != 1 || told[0].Kind != Settled {
			t.Errorf("%v, %+v", err, told)
		}
	})
	t.Run("what comes too late for a drain is given on the next connection", func(t *testing.T) {
		path := play(t, func(s scripted) {
			s.delivers("a", "k", time.Minute)
			s.wants(`{"ack":"a"`)
			s.says(`{"event":"refused","lease":"a","code":"DRAINING","error":"..."}`)
		}, func(s scripted) {
			s.delivers("a", "k", time.Minute) // again: it is still its own
			s.wants(`{"ack":"a"`)
			s.says(`{"event":"settled","lease":"a","seq":1}`)
			s.leaves()
		})
		runs := 0
		c := Consumer{Path: path, Name: "ui", Max: 1}
		if err := c.Run(t.Context(), func(context.Context, Delivery) Answer { runs++; return done }); err != nil || runs != 1 {
			t.Errorf("%v, %d runs", err, runs)
		}
	})
	t.Run("of a key one is worked on at a time, whatever becomes of leases", func(t *testing.T) {
		lost, both := make(chan struct{}), make(chan struct{})
		path := play(t, func(s scripted) {
			s.delivers("a", "k", time.Minute)
			s.says(`{"event":"lease_ending","lease":"a"}`)
			s.wants(`{"extend":"a"}`)
			s.says(`{"event":"refused","lease":"a","code":"LEASE_EXPIRED","error":"..."}`)
			s.delivers("b", "k", time.Minute)
			s.delivers("c", "other", time.Minute)
			s.wants(`{"ack":"c"`)
			s.says(`{"event":"settled","lease":"c","seq":1}`)
			close(both)
			s.wants(`{"ack":"a"`) // it has ended after all
			s.says(`{"event":"refused","lease":"a","code":"LEASE_EXPIRED","error":"..."}`)
			s.wants(`{"ack":"b"`)
			s.says(`{"event":"settled","lease":"b","seq":1}`)
			s.leaves()
		})
		c := Consumer{Path: path, Name: "ui", Prefetch: 3, Max: 3}
		err := c.Run(t.Context(), func(work context.Context, d Delivery) Answer {
			switch d.Lease {
			case "a":
				<-work.Done()
				close(lost)
				<-both // deaf to it
			case "b":
				select {
				case <-both:
				default:
					t.Error("two of a key at once")
				}
			}
			return done
		})
		if err != nil {
			t.Error(err)
		}
		<-lost
	})
	t.Run("what is more than Max is kept unanswered, and put back before its lease ends", func(t *testing.T) {
		finish := make(chan struct{})
		path := play(t, func(s scripted) {
			s.delivers("a", "a", time.Minute)
			s.delivers("b", "b", time.Minute)
			s.wants(`{"ack":"a"`)
			s.says(`{"event":"settled","lease":"a","seq":1}`)
			s.delivers("c", "c", time.Minute)
			s.says(`{"event":"lease_ending","lease":"b"}`)
			s.wants(`{"extend":"b"}`) // nothing was said of c
			s.says(`{"event":"extended","lease":"b"}`)
			s.says(`{"event":"lease_ending","lease":"c"}`)
			s.wants(`{"reason":"not begun","release":"c"}`)
			s.says(`{"event":"settled","lease":"c","seq":3}`)
			close(finish)
			s.wants(`{"ack":"b"`)
			s.says(`{"event":"settled","lease":"b","seq":2}`)
			s.leaves()
		})
		c := Consumer{Path: path, Name: "ui", Max: 2, Prefetch: 2}
		err := c.Run(t.Context(), func(_ context.Context, d Delivery) Answer {
			if d.Lease != "a" {
				<-finish
			}
			return done
		})
		if err != nil {
			t.Error(err)
		}
	})
	t.Run("what ran out on its way is not begun", func(t *testing.T) {
		path := play(t, func(s scripted) {
			s.delivers("a", "k", -time.Second)
			s.delivers("b", "k", time.Minute)
			s.wants(`{"ack":"b"`)
			s.says(`{"event":"settled","lease":"b","seq":1}`)
			s.leaves()
		})
		c := Consumer{Path: path, Name: "ui", Max: 1}
		if err := c.Run(t.Context(), func(context.Context, Delivery) Answer { return done }); err != nil {
			t.Error(err)
		}
	})
	t.Run("a name that somebody else has taken meanwhile is given up", func(t *testing.T) {
		var stopped error
		path := filepath.Join(t.TempDir(), "c.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			for i := 0; ; i++ {
				s, err := meets(t, l)
				if err != nil {
					return // the test is over
				}
				s.wants(`{"attach":"ui",`)
				if i > 0 {
					s.says(`{"event":"refused","consumer":"ui","code":"NAME_IN_USE","error":"..."}`)
				} else {
					s.says(`{"event":"attached","consumer":"ui","lease_timeout_ms":60000}`)
					s.delivers("a", "k", time.Minute)
				}
				_ = s.Close()
			}
		}()
		c := Consumer{Path: path, Name: "ui"}
		synctest.Test(t, func(t *testing.T) { // its pauses cost no time
			err = c.Run(t.Context(), func(work context.Context, _ Delivery) Answer {
				<-work.Done()
				stopped = context.Cause(work)
				return done
			})
		})
		if !errors.Is(err, ErrNameInUse) || !errors.Is(stopped, ErrNameInUse) {
			t.Errorf("%v; the work was stopped by %v", err, stopped)
		}
	})
	t.Run("nonsense is an error, not a wait", func(t *testing.T) {
		for _, line := range []string{`nonsense`, `{"event":"delivery","deadline":5}`, `{"event":"settled","lease":"a","seq":1}`} {
			path := play(t, func(s scripted) {
				s.says(line)
				_, _ = s.in.ReadString('\n') // until it has left
			})
			c := Consumer{Path: path, Name: "ui"}
			if err := c.Run(t.Context(), nil); err == nil {
				t.Errorf("%s is taken", line)
			}
		}
	})
}
