package handler

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/queue"
)

// raw is a server that is no HTTP server: it does what it is told with each
// connection, of which it has read a request.
func raw(t *testing.T, serve func(c *net.TCPConn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			if req, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, req.Body) // all that the test's client has sent
			}
			serve(c.(*net.TCPConn))
			_ = c.Close()
		}
	}()
	return "http://user:verysecret@" + l.Addr().String() + "/x?token=verysecret"
}

// says writes, and the connection is closed.
func says(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) { _, _ = io.WriteString(c, text) }
}

// reset writes, and the connection is cut: what was written may be lost with it.
func reset(text string) func(*net.TCPConn) {
	return func(c *net.TCPConn) {
		_, _ = io.WriteString(c, text)
		_ = c.SetLinger(0)
	}
}

const success = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"

func TestHTTP_without_a_status_it_is_unavailable(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = closed.Close()
	for _, c := range []struct{ name, url, want string }{ // the first two have sent nothing
		{"nobody listens", "http://user:verysecret@" + closed.Addr().String() + "/?token=verysecret", "connection refused"},
		{"no socket", "http+unix:///nowhere/review.sock/x?token=verysecret", "no such file"},
		{"closed before a word", raw(t, says("")), "EOF"},
		{"closed within the header", raw(t, says("HTTP/1.1 200 OK\r\nContent-Le")), "malformed MIME header"},
		{"reset before a word", raw(t, reset("")), ""},
		{"not HTTP", raw(t, says("SSH-2.0-OpenSSH_9.2\r\n")), "malformed HTTP"},
		{"a status that is no number", raw(t, says("HTTP/1.1 OK 200\r\n\r\n")), "malformed HTTP"},
		{"an endless header", raw(t, says("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("x", 2*maxHeader))), "headers exceeded"},
		{"a status line with a secret", raw(t, says("HTTP/1.1 verysecret\r\n\r\n")), "redacted"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newHook(t, HTTPOptions{URL: c.url}).Handle(t.Context(), hookDelivery())
			if !a.Unavailable || a.Verb != queue.Release || !strings.Contains(a.Reason, c.want) || !strings.HasPrefix(a.Reason, "connection: ") {
				t.Errorf("got %+v", a)
			}
			if nothing := c.name == "nobody listens" || c.name == "no socket"; a.Unanswered == nothing {
				t.Errorf("its effect may exist: %v", a.Unanswered)
			}
			if strings.Contains(a.Reason, "verysecret") || len(a.Reason) > maxReason+32 {
				t.Errorf("the reason is %q", a.Reason)
			}
		})
	}
	t.Run("a name that does not resolve", func(t *testing.T) {
		h := newHook(t, HTTPOptions{URL: "http://review.example/", wire: wire{
			dial: func(context.Context, string, string) (net.Conn, error) {
				return nil, &net.DNSError{Err: "no such host", Name: "review.example", IsNotFound: true}
			},
		}})
		if a := h.Handle(t.Context(), hookDelivery()); !a.Unavailable || !strings.Contains(a.Reason, "no such host") {
			t.Errorf("got %+v", a)
		}
	})
}

// A message that the other end finds too large must not look like one that could not be
// delivered: it would hold up its whole route, uncounted.
func TestHTTP_an_answer_counts_also_if_the_request_was_not_read(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			socket := filepath.Join(t.TempDir(), "review.sock")
			address, url := "127.0.0.1:0", "http+unix://"+socket+"/x"
			if network == "unix" {
				address = socket
			}
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			if network == "tcp" {
				url = "http://" + l.Addr().String() + "/x"
			}
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return // the test is over
					}
					_, _ = http.ReadRequest(bufio.NewReader(c)) // its header
					_, _ = io.WriteString(c, "HTTP/1.1 413 Content Too Large\r\nContent-Length: 3\r\n\r\nbig")
					_ = c.Close()
				}
			}()
			h, d := newHook(t, HTTPOptions{URL: url}), hookDelivery()
			d.Message.Line = []byte(`{"x":"` + strings.Repeat("y", 1<<20) + `"}`)
			for range 50 {
				if a := h.Handle(t.Context(), d); a.Verb != queue.Reject || !strings.HasSuffix(a.Reason, ": big") {
					t.Fatalf("got %+v", a)
				}
			}
		})
	}
}

// A connection that was kept breaks when the request has been read: it is sent once more
// within the same try, and by then its effect may exist.
func TestHTTP_what_is_sent_once_more_says_so(t *testing.T) {
	for _, told := range []bool{false, true} {
		var bodies []string
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		served := make(chan struct{})
		go func() {
			defer close(served)
			for n := range 2 { // the first connection breaks at its second request
				c, err := l.Accept()
				if err != nil {
					return
				}
				for r := bufio.NewReader(c); ; {
					req, err := http.ReadRequest(r)
					if err != nil {
						break
					}
					body, _ := io.ReadAll(req.Body)
					bodies = append(bodies, string(body))
					if n == 0 && len(bodies) == 2 {
						break
					}
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
					if n == 1 {
						break
					}
				}
				_ = c.Close()
			}
		}()
		h := newHook(t, HTTPOptions{URL: "http://" + l.Addr().String() + "/"})
		d := hookDelivery()
		d.Redelivered = told
		for range 2 {
			if a := h.Handle(t.Context(), d); a.Verb != queue.Ack {
				t.Fatalf("got %+v", a)
			}
		}
		<-served
		again := *d
		again.Redelivered = true
		want := []string{string(queue.AppendDelivery(nil, d, false)), string(queue.AppendDelivery(nil, d, false)), string(queue.AppendDelivery(nil, &again, false))}
		if len(bodies) != 3 || bodies[0] != want[0] || bodies[1] != want[1] || strings.TrimSuffix(bodies[2], " ") != want[2] {
			t.Errorf("sent %q, want %q", bodies, want)
		}
	}
}

// What is missing of an answer may have said that nothing was done.
func TestHTTP_a_success_whose_answer_breaks_off(t *testing.T) {
	for _, c := range []struct {
		name  string
		serve func(*net.TCPConn)
		want  queue.Verb
	}{
		{"before the body", says(success), queue.Retry},
		{"within an object", says(success + `{"outcome":"POS`), queue.Retry},
		{"within an object of several lines", says(success + "{\n\"outcome\":"), queue.Retry},
		{"within an object, by a reset", reset(success + `{"outcome":"POS`), queue.Retry},
		{"after an object", says(success + "{\"outcome\":\"POSTED\"}\n"), queue.Ack},
		{"within a text", says(success + "posted, and"), queue.Ack},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newHook(t, HTTPOptions{URL: raw(t, c.serve)}).Handle(t.Context(), hookDelivery())
			if c.name == "within an object, by a reset" && a.Unavailable {
				return // the reset has overtaken the header
			}
			if a.Verb != c.want || a.Unavailable || a.Unanswered != (a.Verb == queue.Retry) || a.Verb == queue.Retry && !strings.Contains(a.Reason, "broke off") {
				t.Errorf("got %+v", a)
			}
		})
	}
}

// inBubble runs a hook against a connection in memory, in time that is not real.
// serve gets the server's end after the request has been read.
func inBubble(t *testing.T, o HTTPOptions, serve func(ctx context.Context, c net.Conn), check func(t *testing.T, h *HTTP)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		o.URL, o.Timeout = "http://review.example/", 20*time.Second
		o.wire.dial = func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() {
				defer theirs.Close()
				req, err := http.ReadRequest(bufio.NewReader(theirs))
				if err != nil {
					return
				}
				_, _ = io.Copy(io.Discard, req.Body)
				serve(ctx, theirs)
			}()
			return ours, nil
		}
		h := newHook(t, o)
		check(t, h)
		end()
		h.transport.CloseIdleConnections()
		synctest.Wait()
	})
}

// drip writes text, and then one byte a second for as long as somebody reads.
func drip(text, b string) func(context.Context, net.Conn) {
	return func(ctx context.Context, c net.Conn) {
		_, err := io.WriteString(c, text)
		for err == nil {
			select {
			case <-time.After(time.Second):
				_, err = io.WriteString(c, b)
			case <-ctx.Done():
				return
			}
		}
	}
}

func nothing(ctx context.Context, _ net.Conn) { <-ctx.Done() }

// B55: servers that accept and never answer, or drip.
func TestHTTP_a_try_is_bounded_in_time(t *testing.T) {
	const chunked = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
	const failure = "HTTP/1.1 500 Internal Server Error\r\nContent-Length: 1000000\r\n\r\nlocked"
	for _, c := range []struct {
		name  string
		serve func(context.Context, net.Conn)
		took  time.Duration
		want  queue.Answer
	}{
		{"a server that only accepts", nothing, 20 * time.Second, queue.Answer{Verb: queue.Retry, Reason: "time limit of 20s", Unanswered: true}},
		{"a header that drips", drip("HTTP/1.1 200 OK\r\nX: ", "x"), 20 * time.Second, queue.Answer{Verb: queue.Retry, Reason: "time limit of 20s", Unanswered: true}},
		{"an interim answer for ever", drip("", "HTTP/1.1 102 Processing\r\n\r\n"), 20 * time.Second, queue.Answer{Verb: queue.Retry, Reason: "time limit of 20s", Unanswered: true}},
		{"a body that never comes", func(ctx context.Context, c net.Conn) {
			_, _ = io.WriteString(c, chunked)
			nothing(ctx, c)
		}, 20 * time.Second, queue.Answer{Verb: queue.Retry, Reason: "time limit of 20s, while the answer was read", Unanswered: true}},
		{"an object that drips", drip(chunked+`{"x":"`, "x"), 20 * time.Second, queue.Answer{Verb: queue.Retry, Reason: "time limit of 20s, while the answer was read", Unanswered: true}},
		{"an answer, and then a drip", drip(chunked+"{\"outcome\":\"POSTED\"}\n", "x"), discardTime, queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"a text that drips", drip(chunked+"posted", "x"), discardTime, queue.Answer{Verb: queue.Ack, Outcome: "DONE"}},
		{"an error whose body drips", drip(failure, "x"), discardTime, queue.Answer{Verb: queue.Retry, Reason: "status 500 Internal Server Error: locked"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, HTTPOptions{}, c.serve, func(t *testing.T, h *HTTP) {
				start := time.Now()
				if got := h.Handle(t.Context(), hookDelivery()); got != c.want {
					t.Errorf("got %+v, want %+v", got, c.want)
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("it took %v, want %v", took, c.took)
				}
			})
		})
	}
	t.Run("a connection that is never made is nobody's failure", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHook(t, HTTPOptions{URL: "http://review.example/", Timeout: 5 * time.Second, wire: wire{
				dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
					<-ctx.Done()
					return nil, ctx.Err()
				},
			}})
			start := time.Now()
			a := h.Handle(t.Context(), hookDelivery())
			if !a.Unavailable || a.Unanswered || a.Reason != "no connection within the time limit of 5s" || time.Since(start) != 5*time.Second {
				t.Errorf("after %v: got %+v", time.Since(start), a)
			}
		})
	})
}

func TestHTTP_connections_are_no_more_than_allowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		h := newHook(t, HTTPOptions{URL: "http://review.example/", Timeout: 20 * time.Second, Connections: 3, wire: wire{
			dial: func(context.Context, string, string) (net.Conn, error) {
				dials.Add(1)
				ours, theirs := net.Pipe()
				go io.Copy(io.Discard, theirs) // until ours is closed
				return ours, nil
			},
		}})
		var tries sync.WaitGroup
		for i := range 8 {
			tries.Go(func() {
				// Who had no connection had no try: the message was not sent.
				if a := h.Handle(t.Context(), hookDelivery()); a.Verb != queue.Retry && !a.Unavailable {
					t.Errorf("try %d: got %+v", i, a)
				}
			})
		}
		synctest.Wait()
		if n := dials.Load(); n != 3 {
			t.Errorf("%d connections", n)
		}
		tries.Wait()
	})
}

func TestHTTP_the_end_of_the_grace_cuts_it_off(t *testing.T) {
	want := queue.Answer{Verb: queue.Release, Reason: "cut off", Unanswered: true}
	inBubble(t, HTTPOptions{}, nothing, func(t *testing.T, h *HTTP) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		start := time.Now()
		if got := h.Handle(ctx, hookDelivery()); got != want || time.Since(start) != 3*time.Second {
			t.Errorf("after %v: got %+v", time.Since(start), got)
		}
		if got := h.Handle(ctx, hookDelivery()); got != (queue.Answer{Verb: queue.Release, Reason: "cut off before it began"}) {
			t.Errorf("begun after the end: got %+v", got)
		}
	})
	inBubble(t, HTTPOptions{}, drip("HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n{", "x"), func(t *testing.T, h *HTTP) {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if got := h.Handle(ctx, hookDelivery()); got != want {
			t.Errorf("while its answer was read: got %+v", got)
		}
	})
}

// B56: both forms, the past, the absurd and garbage.
func TestHTTP_retry_after(t *testing.T) {
	now := time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		value   string
		want    time.Duration
		ignored bool
	}{
		{"", 0, false},
		{"0", 0, false},
		{"120", 2 * time.Minute, false},
		{" 120 ", 2 * time.Minute, false},
		{"999999999999999999999999999999", math.MaxInt64, false},
		{"9223372037", math.MaxInt64, false},
		{now.Add(90 * time.Second).Format(http.TimeFormat), 90 * time.Second, false},
		{now.Add(90 * time.Second).Format(time.RFC850), 90 * time.Second, false},
		{now.Add(-90 * time.Second).Format(http.TimeFormat), 0, false},
		{"Sun, 06 Nov 9999 08:49:37 GMT", math.MaxInt64, false},
		{"-5", 0, true},
		{"+5", 0, true},
		{"1e9", 0, true},
		{"1.5", 0, true},
		{"120 s", 0, true},
		{"soon", 0, true},
	} {
		for code, verb := range map[int]queue.Verb{429: queue.Release, 503: queue.Release, 409: queue.Retry, 500: queue.Retry, 302: queue.Reject} {
			r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
				if c.value != "" {
					w.Header().Set("Retry-After", c.value)
				}
				w.WriteHeader(code)
			})
			h := r.hook(t, "/", HTTPOptions{wire: wire{now: func() time.Time { return now }}})
			a := h.Handle(t.Context(), hookDelivery())
			want := c.want
			if verb == queue.Reject {
				want = 0
			}
			if a.Verb != verb || a.After != want || strings.Contains(a.Reason, "Retry-After was ignored") != c.ignored {
				t.Errorf("%d, %q: got %+v, want a delay of %v", code, c.value, a, want)
			}
		}
	}
}

func TestHTTP_a_reason_has_what_was_said(t *testing.T) {
	for body, want := range map[string]string{
		"":                       "status 422 Unprocessable Entity",
		"no such account\n":      "status 422 Unprocessable Entity: no such account",
		"{\n  \"code\": 7\n}":    `status 422 Unprocessable Entity: { "code": 7 }`,
		"caf\xe9\x00\x1b[31mred": "status 422 Unprocessable Entity: caf\ufffd\x00\x1b[31mred", // records escape it
		strings.Repeat("é", 600): "status 422 Unprocessable Entity: " + strings.Repeat("é", maxReason/2) + "…",
	} {
		r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, body)
		})
		if a := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery()); a.Reason != want {
			t.Errorf("%.20q: got %q, want %q", body, a.Reason, want)
		}
	}
	r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) })
	if a := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery()); a.Reason != "status 799" {
		t.Errorf("got %q", a.Reason)
	}
}

func BenchmarkHTTP(b *testing.B) {
	r := listen(b, "unix", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, `{"outcome":"POSTED"}`) })
	h := r.hook(b, "/", HTTPOptions{})
	d := hookDelivery()
	b.ReportAllocs()
	for b.Loop() {
		if a := h.Handle(b.Context(), d); a.Outcome != "POSTED" {
			b.Fatalf("got %+v", a)
		}
	}
}
