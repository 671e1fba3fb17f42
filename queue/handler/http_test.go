package handler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"breakwater/queue"
)

// hookTime is a time limit that no test waits for.
const hookTime = time.Minute

func hookDelivery() *queue.Delivery {
	return &queue.Delivery{
		Token: queue.Token{Seq: 42, Fence: 7}, Route: queue.RouteReview, Number: 1,
		Message: queue.Stored{Seq: 42, IdempotencyKey: "k1", TraceID: "t1", PartitionKey: "E1", Line: []byte(`{"idempotency_key":"k1"}`)},
	}
}

// keyed is a delivery with a key.
func keyed(key string) *queue.Delivery {
	d := hookDelivery()
	d.Message.IdempotencyKey = key
	return d
}

func newHook(t testing.TB, o HTTPOptions) *HTTP {
	t.Helper()
	o.Name = "api"
	if o.Timeout == 0 {
		o.Timeout = hookTime
	}
	h, err := NewHTTP(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.transport.CloseIdleConnections)
	return h
}

// review is a real server, whose connections are counted.
type review struct {
	*httptest.Server
	opened atomic.Int64
	socket string
}

// listen starts a server of one kind: tcp, tls or unix.
func listen(t testing.TB, kind string, serve http.HandlerFunc) *review {
	t.Helper()
	r := &review{Server: httptest.NewUnstartedServer(serve)}
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.opened.Add(1)
		}
	}
	switch kind {
	case "unix":
		dir, err := os.MkdirTemp("", "bw") // t.TempDir would be too long for a socket's path
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		r.socket = filepath.Join(dir, "review.sock")
		l, err := net.Listen("unix", r.socket)
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Listener.Close() // the one that NewUnstartedServer has opened
		r.Listener = l
		r.Start()
	case "tls":
		r.StartTLS()
	default:
		r.Start()
	}
	t.Cleanup(r.Close)
	return r
}

// hook returns a handler that posts to the server.
func (r *review) hook(t testing.TB, path string, o HTTPOptions) *HTTP {
	t.Helper()
	o.URL = r.URL + path
	if r.socket != "" {
		o.URL = "http+unix://" + r.socket + path
	}
	if cert := r.Certificate(); cert != nil {
		o.wire.roots = x509.NewCertPool()
		o.wire.roots.AddCert(cert)
	}
	return newHook(t, o)
}

var networks = []string{"tcp", "tls", "unix"}

func TestHTTP_a_status_is_an_answer(t *testing.T) {
	unavailable := map[int]bool{429: true, 502: true, 503: true, 504: true}
	retry := map[int]bool{408: true, 409: true, 425: true}
	for _, network := range networks {
		t.Run("over "+network, func(t *testing.T) {
			r := listen(t, network, func(w http.ResponseWriter, r *http.Request) {
				code, _ := strconv.Atoi(r.Header.Get("Idempotency-Key"))
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(code)
			})
			h := r.hook(t, "/v1/x", HTTPOptions{})
			for code := 200; code < 1000; code++ {
				a := h.Handle(t.Context(), keyed(strconv.Itoa(code)))
				want := queue.Reject
				switch {
				case code <= 299:
					want = queue.Ack
				case unavailable[code]:
					want = queue.Release
				case retry[code] || code >= 500 && code <= 599:
					want = queue.Retry
				}
				if a.Verb != want || a.Unavailable != unavailable[code] || a.Unanswered != (code == 502 || code == 504) {
					t.Errorf("%d: got %+v", code, a)
				}
				if want != queue.Ack && !strings.HasPrefix(a.Reason, "status "+strconv.Itoa(code)) {
					t.Errorf("%d: the reason is %q", code, a.Reason)
				}
				if want == queue.Ack && a != (queue.Answer{Verb: queue.Ack, Outcome: "DONE"}) {
					t.Errorf("%d: got %+v", code, a)
				}
			}
			if n := r.opened.Load(); n > 10 {
				t.Errorf("%d connections for requests one after the other", n)
			}
		})
	}
	t.Run("an upgrade that nobody asked for is a reject", func(t *testing.T) {
		r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusSwitchingProtocols) })
		if a := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery()); a.Verb != queue.Reject {
			t.Errorf("got %+v", a)
		}
	})
}

func TestHTTP_a_2xx_body_may_say_otherwise(t *testing.T) {
	hold := time.Date(2026, 3, 31, 18, 0, 0, 0, time.UTC)
	done := queue.Answer{Verb: queue.Ack, Outcome: "DONE"}
	for _, c := range []struct {
		body string
		want queue.Answer
	}{
		{"", done},
		{"OK\n", done},
		{`{"outcome":"POSTED","by":"alice","note":"n"}`, queue.Answer{Verb: queue.Ack, Outcome: "POSTED", By: "alice", Note: "n"}},
		{"{\"outcome\":\"POSTED\"}\nmore {", queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"{\"outcome\":\"POSTED\"}\n{\"retry\":true}\n", queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"{\n  \"outcome\": \"POSTED\"\n}\n", queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"\r\n {\"outcome\":\"POSTED\"}", queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{`{"retry":true,"after_ms":1500,"reason":"locked"}`, queue.Answer{Verb: queue.Retry, After: 1500 * time.Millisecond, Reason: "locked"}},
		{"{\n\"retry\": true\n}", queue.Answer{Verb: queue.Retry}},
		{`{"release":true}`, queue.Answer{Verb: queue.Release}},
		{`{"hold":"2026-03-31T18:00:00Z","reason":"month end"}`, queue.Answer{Verb: queue.Hold, Until: hold, Reason: "month end"}},
		{`{"reject":true,"reason":"no such account"}`, queue.Answer{Verb: queue.Reject, Reason: "no such account"}},
		{`["retry"]`, done},
		{strings.Repeat("x", maxAnswerLine+1), done},
		{"\r\n\n {\"outcome\":\"POSTED\"}\nmore {", queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"{\"outcome\":\"POSTED\"}\n" + strings.Repeat("x", 2*maxAnswerLine), queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
	} {
		r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
		if got := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery()); got != c.want {
			t.Errorf("%.40q: got %+v, want %+v", c.body, got, c.want)
		}
	}
	t.Run("one that is broken and has a verb in it, or ends too soon, is a retry", func(t *testing.T) {
		for _, body := range []string{`{"outcome":"POS`, `{"retry":tru}`, "{\"reject\":true,\"reason\":\"caf\xe9\"}", `{"reject":true,"amount":NaN}`} {
			r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			if got := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery()); got.Verb != queue.Retry {
				t.Errorf("%q: got %+v", body, got)
			}
		}
	})
	t.Run("one that is broken is an ack that says so", func(t *testing.T) {
		for _, body := range []string{`{"a":1,"a":2}`, `{} {}`, "{\xff}"} {
			r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
			got := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery())
			if got.Verb != queue.Ack || got.Outcome != "DONE" || !strings.Contains(got.Note, "malformed answer") {
				t.Errorf("%q: got %+v", body, got)
			}
		}
	})
}

// P11: what is missing may be a verb. See TestParseAnswer_what_is_longer_than_an_answer.
func TestHTTP_a_2xx_body_over_the_limit_settles_nothing_if_it_begins_like_an_object(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, c := range []struct {
		body string
		want queue.Verb
	}{
		{`{"reject":true,"reason":"` + long + `"}`, queue.Retry},
		{`{"reason":"` + long + `","reject":true}`, queue.Retry},
		{"{\n\"reason\":\"" + long + "\",\n\"retry\":true\n}", queue.Retry},
		{"\ufeff{\"outcome\":\"POSTED\",\"note\":\"" + long + "\"}\n", queue.Retry},
		{`{"outcome":"POSTED"}` + strings.Repeat(" ", 70_000) + `{"reject":true}`, queue.Retry},
		{strings.Repeat(" \n", 40_000) + `{"reject":true}`, queue.Retry},
		{long + `{"reject":true}`, queue.Ack},
	} {
		r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, c.body) })
		got := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery())
		if got.Verb != c.want || c.want == queue.Retry && got.Reason != "malformed answer: over 65536 bytes" {
			t.Errorf("%.40q: got %+v", c.body, got)
		}
	}
}

// The beginning of a body decides whether it is waited for, and it may come in pieces.
func TestHTTP_a_2xx_body_that_comes_in_pieces(t *testing.T) {
	for _, pieces := range [][]string{
		{"\ufeff", "{\"rej", "ect\":true}"},
		{"\xef", "\xbb\xbf{", "\"reject\":true}"},
		{"\n \n", "{\"reject\":true", "}\n"},
	} {
		r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
			for _, p := range pieces {
				_, _ = io.WriteString(w, p)
				w.(http.Flusher).Flush()
			}
		})
		if got := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery()); got.Verb != queue.Reject {
			t.Errorf("%q: got %+v", pieces, got)
		}
	}
}

func TestHTTP_what_is_sent(t *testing.T) {
	const traced = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, network := range networks {
		t.Run("over "+network, func(t *testing.T) {
			type request struct {
				line, body string
				header     http.Header
			}
			seen := make(chan request, 4)
			r := listen(t, network, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				seen <- request{r.Method + " " + r.RequestURI + " " + r.Proto, string(body), r.Header}
				http.SetCookie(w, &http.Cookie{Name: "session", Value: "1"})
			})
			h := r.hook(t, "/v1/x%2Fy?tenant=7", HTTPOptions{Version: "1.2.3"})
			d := hookDelivery()
			h.Handle(t.Context(), d)
			first := <-seen
			if want := "POST /v1/x%2Fy?tenant=7 HTTP/1.1"; first.line != want {
				t.Errorf("sent %s, want %s", first.line, want)
			}
			if want := string(queue.AppendDelivery(nil, d, false)); first.body != want || !json.Valid([]byte(first.body)) {
				t.Errorf("sent %s, want %s", first.body, want)
			}
			for name, want := range map[string]string{
				"Content-Type": "application/json", "Idempotency-Key": "k1", "User-Agent": "breakwater/1.2.3", "Traceparent": "",
				"Authorization": "", "Accept-Encoding": "", "Content-Length": strconv.Itoa(len(first.body)),
			} {
				if got := first.header.Get(name); got != want {
					t.Errorf("%s is %q, want %q", name, got, want)
				}
			}
			d.Message.TraceID = traced
			h.Handle(t.Context(), d)
			second := <-seen
			if got := second.header.Get("Traceparent"); got != traced {
				t.Errorf("traceparent is %q", got)
			}
			if got := second.header.Get("Cookie"); got != "" {
				t.Errorf("a cookie came back: %q", got)
			}
		})
	}
	t.Run("a socket alone is posted to its root", func(t *testing.T) {
		path := make(chan string, 1)
		r := listen(t, "unix", func(_ http.ResponseWriter, r *http.Request) { path <- r.RequestURI })
		r.hook(t, "", HTTPOptions{}).Handle(t.Context(), hookDelivery())
		if got := <-path; got != "/" {
			t.Errorf("posted to %q", got)
		}
	})
}

func TestHTTP_a_redirect_is_not_followed(t *testing.T) {
	var followed atomic.Int64
	target := listen(t, "tcp", func(http.ResponseWriter, *http.Request) { followed.Add(1) })
	for _, code := range []int{300, 301, 302, 303, 304, 307, 308} {
		r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", target.URL)
			w.WriteHeader(code)
		})
		a := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery())
		if a.Verb != queue.Reject || !strings.Contains(a.Reason, "redirects are not followed") {
			t.Errorf("%d: got %+v", code, a)
		}
	}
	if n := followed.Load(); n != 0 {
		t.Errorf("%d requests reached the redirect's target", n)
	}
}

func TestHTTP_no_proxy_of_the_environment(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, "http://127.0.0.1:9")
	}
	var dialed string
	h := newHook(t, HTTPOptions{URL: "http://review.example/x", wire: wire{
		dial: func(_ context.Context, network, address string) (net.Conn, error) {
			dialed = network + " " + address
			return nil, net.ErrClosed
		},
	}})
	if h.transport.Proxy != nil { // the variables are read once in a process: a dial proves little
		t.Error("the transport asks for a proxy")
	}
	if a := h.Handle(t.Context(), hookDelivery()); !a.Unavailable || dialed != "tcp review.example:80" {
		t.Errorf("dialed %q, got %+v", dialed, a)
	}
}

// B55: ten thousand error replies with bodies leak no connection.
func TestHTTP_connections_are_bounded_and_used_again(t *testing.T) {
	body := strings.Repeat("e", 2*maxExcerpt)
	for network, each := range map[string]int{"tcp": 1250, "tls": 125, "unix": 125} {
		t.Run(fmt.Sprintf("%d error replies over %s", 8*each, network), func(t *testing.T) {
			r := listen(t, network, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusInternalServerError)
				_, _ = io.WriteString(w, body)
			})
			h := r.hook(t, "/", HTTPOptions{Connections: 4})
			var workers sync.WaitGroup
			for range 8 {
				workers.Go(func() {
					for range each {
						if a := h.Handle(t.Context(), hookDelivery()); a.Verb != queue.Retry {
							t.Errorf("got %+v", a)
							return
						}
					}
				})
			}
			workers.Wait()
			// The transport gives a connection up whose request took it more than
			// 50 ms to see as written: a few, on a machine that is busy.
			if n := r.opened.Load(); n < 1 || n > 40 {
				t.Errorf("%d connections", n)
			}
		})
	}
	t.Run("a body too long to be read costs its connection, and no more", func(t *testing.T) {
		r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 4*maxDiscard))
		})
		h := r.hook(t, "/", HTTPOptions{Connections: 1})
		for range 3 {
			if a := h.Handle(t.Context(), hookDelivery()); a.Verb != queue.Ack {
				t.Errorf("got %+v", a)
			}
		}
		if n := r.opened.Load(); n != 3 {
			t.Errorf("%d connections", n)
		}
	})
}

// B55: a gigabyte of an answer.
func TestHTTP_an_endless_body_is_not_read(t *testing.T) {
	const announced = 3 << 30
	for _, code := range []int{200, 500} {
		for _, begin := range []string{"x", "{", " "} {
			written := make(chan int64, 1)
			r := listen(t, "tcp", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", strconv.Itoa(announced))
				w.WriteHeader(code)
				n, _ := io.WriteString(w, begin)
				total := int64(n)
				block := []byte(strings.Repeat(" ", 1<<20))
				for total < announced-1<<20 {
					n, err := w.Write(block)
					if total += int64(n); err != nil {
						break
					}
				}
				written <- total
			})
			a := r.hook(t, "/", HTTPOptions{}).Handle(t.Context(), hookDelivery())
			want := queue.Retry
			if code == 200 && begin == "x" { // nobody knows what the others say (P11)
				want = queue.Ack
			}
			if a.Verb != want {
				t.Errorf("%d %q: got %+v", code, begin, a)
			}
			if n := <-written; n > 64<<20 { // what lies in the buffers of both kernels' ends
				t.Errorf("%d %q: %d bytes were taken", code, begin, n)
			}
		}
	}
}

func TestHTTP_a_restart_that_nobody_notices(t *testing.T) {
	var served atomic.Int64
	count := func(http.ResponseWriter, *http.Request) { served.Add(1) }
	r := listen(t, "unix", count)
	h := r.hook(t, "/", HTTPOptions{})
	if a := h.Handle(t.Context(), hookDelivery()); a.Verb != queue.Ack {
		t.Fatalf("got %+v", a)
	}
	r.Close() // with the connection that the hook has kept
	l, err := net.Listen("unix", r.socket)
	if err != nil {
		t.Fatal(err)
	}
	again := &http.Server{Handler: http.HandlerFunc(count)}
	go func() { _ = again.Serve(l) }() // it returns when it is closed
	defer again.Close()
	if a := h.Handle(t.Context(), hookDelivery()); a.Verb != queue.Ack {
		t.Errorf("got %+v", a)
	}
	if n := served.Load(); n != 2 {
		t.Errorf("served %d times", n)
	}
}

func TestHTTP_tls(t *testing.T) {
	handle := func(t *testing.T, configure func(*tls.Config), mine bool) queue.Answer {
		t.Helper()
		r := &review{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			t.Error("the request was sent")
		}))}
		r.TLS = &tls.Config{}
		configure(r.TLS)
		r.StartTLS()
		t.Cleanup(r.Close)
		if mine {
			return r.hook(t, "/?token=verysecret", HTTPOptions{}).Handle(t.Context(), hookDelivery())
		}
		return newHook(t, HTTPOptions{URL: r.URL + "/?token=verysecret"}).Handle(t.Context(), hookDelivery())
	}
	for _, c := range []struct {
		name      string
		configure func(*tls.Config)
		mine      bool
		want      string
	}{
		{"a certificate of an unknown authority", func(*tls.Config) {}, false, "certificate"},
		{"an old version", func(c *tls.Config) { c.MinVersion, c.MaxVersion = tls.VersionTLS10, tls.VersionTLS11 }, true, "protocol version"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := handle(t, c.configure, c.mine)
			if !a.Unavailable || a.Unanswered || !strings.Contains(a.Reason, c.want) || strings.Contains(a.Reason, "verysecret") {
				t.Errorf("got %+v", a)
			}
		})
	}
	t.Run("plain HTTP at the other end", func(t *testing.T) {
		r := listen(t, "tcp", func(http.ResponseWriter, *http.Request) { t.Error("the request was sent") })
		h := newHook(t, HTTPOptions{URL: strings.Replace(r.URL, "http:", "https:", 1)})
		if a := h.Handle(t.Context(), hookDelivery()); !a.Unavailable {
			t.Errorf("got %+v", a)
		}
	})
}

func TestHTTP_the_addresses_of_the_link_are_refused(t *testing.T) {
	h := newHook(t, HTTPOptions{URL: "http://169.254.169.254/latest/meta-data"})
	if a := h.Handle(t.Context(), hookDelivery()); !a.Unavailable || !strings.Contains(a.Reason, "link-local") {
		t.Errorf("got %+v", a)
	}
	for address, good := range map[string]bool{
		"127.0.0.1:80": true, "[::1]:80": true, "10.0.0.1:80": true, "192.0.2.1:443": true, "[fe80::1%eth0]:80": false,
		"169.254.1.1:80": false, "[::ffff:169.254.169.254]:80": false, "224.0.0.1:80": false, "[ff02::1]:80": false, "nonsense": false,
	} {
		if err := admissible("tcp", address, nil); (err == nil) != good {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestNewHTTP_names_what_is_wrong(t *testing.T) {
	for want, o := range map[string]HTTPOptions{
		"option Timeout":                   {URL: "http://h/", Timeout: -1},
		"option Connections":               {URL: "http://h/", Timeout: 1, Connections: -1},
		"option URL: not a URL":            {URL: "http://a:verysecret@h h/", Timeout: 1},
		"option URL: must begin with":      {URL: "ftp://a:verysecret@h/", Timeout: 1},
		"option URL: names no host":        {URL: "http:///x?verysecret", Timeout: 1},
		"option URL: http+unix has no hos": {URL: "http+unix://run/r.sock?verysecret", Timeout: 1},
		"option URL: contains no path":     {URL: "http+unix:///run/r?verysecret", Timeout: 1},
	} {
		o.Name = "api"
		_, err := NewHTTP(o)
		if err == nil || !strings.Contains(err.Error(), "handler api: "+want) || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%s: %v", want, err)
		}
	}
}

func TestParseTarget_unix(t *testing.T) {
	for text, want := range map[string]string{
		"http+unix:///run/review.sock/v1/x":      "/run/review.sock /v1/x",
		"http+unix:///run/review.sock":           "/run/review.sock ",
		"http+unix:///run/a%20b.sock/v1/x%2fy?q": "/run/a b.sock /v1/x%2fy?q",
		"http+unix:///a.sock/b.sock/c":           "/a.sock /b.sock/c",
		"http+unix:///run/r.socket/x.sock":       "/run/r.socket/x.sock ",
	} {
		got, err := parseTarget(text)
		if uri := strings.TrimPrefix(got.url.String(), "http://localhost"); err != nil || fmt.Sprint(got.socket, " ", uri) != want {
			t.Errorf("%s: socket %q, request %q, %v", text, got.socket, uri, err)
		}
	}
}
