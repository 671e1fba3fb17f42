package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// answerer is a server in memory: what it says to a request, on which it may take its
// time; "" is nothing, for ever.
type answerer func(path string) (text string, after time.Duration)

// dial connects to it.
func (a answerer) dial(context.Context) (net.Conn, error) {
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		in := bufio.NewReader(far)
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body) // as much as came
			text, after := a(req.URL.Path)
			if text == "" {
				_, _ = io.Copy(io.Discard, in) // until the other end goes
				return
			}
			<-time.After(after) // of the bubble's clock
			if _, err := io.WriteString(far, text); err != nil {
				return
			}
		}
	}()
	return near, nil
}

func document(json string) string {
	return fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(json), json)
}

func TestControl_of_a_server_that_hangs(t *testing.T) {
	alive := document(`{"status":"ok"}`)
	for _, tc := range []struct {
		name   string
		server func() answerer
		ask    func(context.Context, *Control) error
		silent bool
		within time.Duration
	}{
		{"from_the_beginning", func() answerer {
			return func(string) (string, time.Duration) { return "", 0 }
		}, status, true, quietTime + signTime},
		{"while_what_was_asked_for_takes_long", func() answerer {
			asked := 0
			return func(path string) (string, time.Duration) {
				if path != "/healthz" {
					return "", 0
				}
				if asked++; asked > 3 {
					return "", 0
				}
				return alive, 0
			}
		}, archive, true, quietTime + 3*signEvery + laterSignTime},
		{"within_its_answer", func() answerer {
			return func(path string) (string, time.Duration) {
				if path == "/healthz" {
					return "", 0
				}
				return "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"n\":1}\n{", 0
			}
		}, records, true, quietTime + signTime},
		{"not_at_all_and_takes_long", func() answerer {
			return func(path string) (string, time.Duration) {
				if path == "/healthz" {
					return alive, 3 * time.Second
				}
				return document(`{"path":"/a"}`), 5 * time.Hour
			}
		}, archive, false, 5 * time.Hour},
		{"not_at_all_and_has_no_room_for_the_question", func() answerer {
			return func(path string) (string, time.Duration) {
				if path == "/healthz" {
					return "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 2\r\n\r\n{}", 0
				}
				return document(`{}`), time.Minute
			}
		}, status, false, time.Minute},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := NewControlOver(tc.server().dial)
				defer c.Close()
				began := time.Now()
				err := tc.ask(t.Context(), c)
				if took := time.Since(began); took > tc.within {
					t.Errorf("it took %s, want at most %s", took, tc.within)
				}
				if errors.Is(err, ErrSilent) != tc.silent || (err != nil) != tc.silent {
					t.Errorf("%v", err)
				}
				if err != nil && strings.Contains(err.Error(), "context canceled") {
					t.Errorf("it says how it was done, not what is wrong: %v", err)
				}
			})
		})
	}
	t.Run("and_accepts_no_more", func(t *testing.T) {
		c := NewControlOver(func(context.Context) (net.Conn, error) { return nil, syscall.EAGAIN })
		defer c.Close()
		if err := status(t.Context(), c); !errors.Is(err, ErrSilent) || errors.Is(err, ErrNobody) {
			t.Errorf("%v", err)
		}
	})
}

func status(ctx context.Context, c *Control) error {
	_, err := c.Status(ctx)
	return err
}

func archive(ctx context.Context, c *Control) error {
	_, err := c.Archive(ctx, api.ArchiveAct{})
	return err
}

func records(ctx context.Context, c *Control) error {
	for _, err := range c.Records(ctx, queue.TrailQuery{}) {
		if err != nil {
			return err
		}
	}
	return nil
}
