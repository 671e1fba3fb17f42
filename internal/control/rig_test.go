package control

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
	"breakwater/storage/memstore"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC)

// clock is a clock that stands until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: start} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// newStore is a started store in memory.
func newStore(t testing.TB) *memstore.Store {
	t.Helper()
	store := memstore.New(memstore.Options{ID: [16]byte{0xb0, 15: 1}})
	if _, err := store.Start(t.Context(), queue.StartRequest{Now: start, Version: "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	return store
}

// submission judges a line as the door does.
func submission(line string) queue.Submission {
	m, err := queue.ParseLine([]byte(line))
	s := queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash([]byte(line))}
	s.Message.Line = []byte(line)
	var failed *queue.GateError
	if errors.As(err, &failed) {
		s.Fault = &queue.Fault{Field: failed.Field, Reason: failed.Reason}
	}
	return s
}

// exceptionLine spells a line; more is added as it stands.
func exceptionLine(id, key, more string) string {
	return `{"idempotency_key":"` + id + `","trace_id":"t-` + id + `","partition_key":"` + key +
		`","ledger_entity":"E-` + key + `","match_decision":"PARTIAL","variance_amount":"-1042.37"` + more + `}`
}

func admit(t testing.TB, store queue.Store, now time.Time, lines ...string) {
	t.Helper()
	r := queue.AdmitRequest{Now: now, Peer: queue.Peer{UID: 1000, GID: 1000, PID: 42}}
	for _, line := range lines {
		r.Lines = append(r.Lines, submission(line))
	}
	if _, err := store.Admit(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// socketPath is a path that is short enough for a socket.
func socketPath(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "c.sock")
}

// rig is a server on a real Unix socket, and a client of it.
type rig struct {
	testing.TB
	path   string
	client *http.Client
	stop   func() error // ends the server and waits; it may be called twice
}

// operator is the peer of every connection.
var operator = queue.Peer{UID: 1000, GID: 100, PID: 77}

// serve starts a server on a listener of the runtime; tests that need no other clock
// leave Now as it is.
func serve(t testing.TB, o Options) *rig {
	t.Helper()
	path := socketPath(t)
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, o, l, path)
}

func serveOn(t testing.TB, o Options, l net.Listener, path string) *rig {
	t.Helper()
	if o.Peer == nil {
		o.Peer = func(net.Conn) queue.Peer { return operator }
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- s.Serve(ctx, l) }()
	r := &rig{TB: t, path: path}
	r.client = &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "unix", path)
		},
	}}
	r.stop = sync.OnceValue(func() error {
		cancel()
		r.client.CloseIdleConnections()
		return <-served
	})
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return r
}

// reply is an answer, read to its end.
type reply struct {
	status int
	close  bool // the connection ends with it
	header http.Header
	body   string
}

// ask makes one request. A body is JSON.
func (r *rig) ask(method, target, body string) reply {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, "http://control"+target, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", api.JSON)
	}
	return r.do(req)
}

func (r *rig) do(req *http.Request) reply {
	r.Helper()
	res, err := r.client.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	return reply{status: res.StatusCode, header: res.Header, body: string(text)}
}

// raw sends bytes as they are and returns the status of the answer and its body. A
// connection that is closed without an answer is status 0.
func (r *rig) raw(request string) reply {
	r.Helper()
	c, err := net.Dial("unix", r.path)
	if err != nil {
		r.Fatal(err)
	}
	defer c.Close()
	go io.WriteString(c, request) // the server may answer, and close, before it has read all
	method, _, _ := strings.Cut(request, " ")
	return readReply(r, c, method)
}

// readReply reads an answer; how it ends depends on what was asked.
func readReply(t testing.TB, c net.Conn, method string) reply {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return reply{}
	}
	defer res.Body.Close()
	var body bytes.Buffer
	_, _ = io.Copy(&body, res.Body) // cut short is what some tests look for
	return reply{status: res.StatusCode, close: res.Close, header: res.Header, body: body.String()}
}

// alive checks that the server still answers.
func (r *rig) alive() {
	r.Helper()
	if got := r.ask("GET", "/healthz", ""); got.status != http.StatusOK {
		r.Errorf("after that, healthz answers %d %s", got.status, got.body)
	}
}
