package control

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"breakwater/internal/control/api"
	"breakwater/internal/socket"
	"breakwater/queue"
)

// pipes is a listener whose connections are pipes in memory, so that a bubble of
// synctest knows when everybody waits. A pipe holds nothing: who writes waits for who
// reads.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "unix"} }

// dial returns the client's end of a new connection.
func (p *pipes) dial(t *testing.T) net.Conn {
	t.Helper()
	client, server := net.Pipe()
	p.conns <- server
	return client
}

// bubble runs a server in a bubble of synctest, where time costs nothing and where
// the test fails if anything still runs when it ends.
func bubble(t *testing.T, options func() Options, test func(t *testing.T, l *pipes, stop func() error)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s, err := New(options()) // channels belong to the bubble that they are made in
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		l, served := newPipes(), make(chan struct{})
		go func() { err = s.Serve(ctx, l); close(served) }()
		stop := func() error { cancel(); <-served; return err }
		test(t, l, stop)
		if err := stop(); err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// send writes in the background, as the server may not read all of it.
func send(c net.Conn, text string) { go io.WriteString(c, text) }

func TestServe_slow_clients(t *testing.T) {
	ended := func(t *testing.T, began time.Time, want time.Duration) {
		t.Helper()
		if took := time.Since(began); took < want || took > want+100*time.Millisecond {
			t.Errorf("it took %v, want %v", took, want)
		}
	}
	o := func() Options { return Options{Store: newStore(t)} }
	t.Run("slow headers are cut", func(t *testing.T) {
		bubble(t, o, func(t *testing.T, l *pipes, _ func() error) {
			for _, start := range []string{"", "G", "GET /healthz HTTP/1.1\r\nHost: x\r\n"} {
				c, began := l.dial(t), time.Now()
				send(c, start)
				_, _ = io.ReadAll(c) // an answer is possible, the end is certain
				ended(t, began, headerTime)
			}
		})
	})
	t.Run("a slow body is answered 400 and cut", func(t *testing.T) {
		bubble(t, o, func(t *testing.T, l *pipes, _ func() error) {
			c, began := l.dial(t), time.Now()
			send(c, post("/v1/pause", "Content-Type: application/json\r\nContent-Length: 100\r\n", `{"by":`))
			got := readReply(t, c, "POST")
			if problemIn(t, got); got.status != http.StatusBadRequest || !got.close {
				t.Errorf("%+v", got)
			}
			_, _ = io.ReadAll(c) // until the cut
			ended(t, began, bodyTime)
		})
	})
	t.Run("the body of a refused request is not waited for", func(t *testing.T) {
		bubble(t, o, func(t *testing.T, l *pipes, _ func() error) {
			for _, request := range []string{
				"GET /v1/status HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n",
				post("/v1/pause", "Content-Type: text/plain\r\nContent-Length: 100\r\n", `{"by":`),
				post("/v1/nothing", "Content-Length: 100\r\n", ""),
			} {
				c, began := l.dial(t), time.Now()
				send(c, request)
				method, _, _ := strings.Cut(request, " ")
				if got := readReply(t, c, method); got.status < 400 {
					t.Errorf("%+v", got)
				}
				_, _ = io.ReadAll(c) // until the cut
				ended(t, began, pastTime)
			}
		})
	})
	t.Run("a client that does not read is cut", func(t *testing.T) {
		bubble(t, o, func(t *testing.T, l *pipes, _ func() error) {
			c := l.dial(t)
			_, err := io.WriteString(c, "GET /v1/audit HTTP/1.1\r\nHost: x\r\n\r\n")
			if err != nil {
				t.Fatal(err)
			}
			<-time.After(writeTime + time.Second)
			got, err := io.ReadAll(c)
			if err != nil || len(got) > 0 {
				t.Errorf("after the time-out %q, %v", got, err)
			}
		})
	})
	t.Run("between requests it may be silent for as long as it likes", func(t *testing.T) {
		bubble(t, o, func(t *testing.T, l *pipes, _ func() error) {
			c := l.dial(t)
			for range 3 {
				send(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
				if got := readReply(t, c, "GET"); got.status != http.StatusOK {
					t.Fatalf("%+v", got)
				}
				<-time.After(100 * time.Hour)
			}
			c.Close()
		})
	})
}

// slowStore is a store in which verifying, the trail and the probe take as long as
// the test wants.
type slowStore struct {
	Store
	entered chan struct{}
	leave   chan struct{}
	deaf    bool // contexts are not looked at
	left    atomic.Int32
}

func newSlowStore(t testing.TB) *slowStore {
	return &slowStore{Store: newStore(t), entered: make(chan struct{}, 16), leave: make(chan struct{})}
}

func (s *slowStore) wait(ctx context.Context) error {
	defer s.left.Add(1)
	s.entered <- struct{}{}
	done := ctx.Done()
	if s.deaf {
		done = nil
	}
	select {
	case <-s.leave:
		return nil
	case <-done:
		return ctx.Err()
	}
}

func (s *slowStore) Verify(ctx context.Context, o queue.VerifyOptions) (queue.Verification, error) {
	if err := s.wait(ctx); err != nil {
		return queue.Verification{}, err
	}
	return s.Store.Verify(ctx, o)
}

// Trail gives one record, waits, and gives the rest.
func (s *slowStore) Trail(ctx context.Context, q queue.TrailQuery, fn func(queue.Record) bool) error {
	big := queue.Record{N: 1, TS: start, Event: queue.EventStarted, Reason: strings.Repeat("x", queue.MaxRecordText)}
	for range 20 { // more than one piece
		if !fn(big) {
			return nil
		}
	}
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.Trail(ctx, q, fn)
}

func (s *slowStore) Pause(ctx context.Context, a queue.Action) error {
	if err := s.wait(ctx); err != nil {
		return err
	}
	return s.Store.Pause(ctx, a)
}

func TestServe_stops(t *testing.T) {
	t.Run("requests under way finish, new ones are not taken", func(t *testing.T) {
		var store *slowStore
		bubble(t, func() Options { store = newSlowStore(t); return Options{Store: store} }, func(t *testing.T, l *pipes, stop func() error) {
			c := l.dial(t)
			send(c, post("/v1/pause", "Content-Length: 0\r\n", ""))
			<-store.entered
			stopped := make(chan error)
			go func() { stopped <- stop() }()
			synctest.Wait()
			late, there := net.Pipe()
			select {
			case l.conns <- there:
				if _, err := late.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
					t.Errorf("a late connection: %v", err)
				}
			default: // nobody accepts any more
			}
			close(store.leave)
			if got := readReply(t, c, "POST"); got.status != http.StatusOK || !strings.Contains(got.body, "since") {
				t.Errorf("%+v", got)
			}
			if err := <-stopped; err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("streams and verifications end at once", func(t *testing.T) {
		var store *slowStore
		bubble(t, func() Options { store = newSlowStore(t); return Options{Store: store} }, func(t *testing.T, l *pipes, stop func() error) {
			stream, check := l.dial(t), l.dial(t)
			send(stream, "GET /v1/audit HTTP/1.1\r\nHost: x\r\n\r\n")
			send(check, post("/v1/audit/verify", "Content-Length: 0\r\n", ""))
			res := make(chan string)
			go func() { text, _ := io.ReadAll(stream); res <- string(text) }()
			<-store.entered
			<-store.entered
			began := time.Now()
			stopped := make(chan error)
			go func() { stopped <- stop() }()
			if got := readReply(t, check, "POST"); got.status != http.StatusServiceUnavailable {
				t.Errorf("the verification: %+v", got)
			}
			if text := <-res; !strings.Contains(text, "STARTED") || strings.HasSuffix(text, "\r\n0\r\n\r\n") {
				t.Errorf("the stream looks complete: %q", text[max(0, len(text)-50):])
			}
			if err := <-stopped; err != nil || time.Since(began) > time.Second {
				t.Errorf("%v after %v", err, time.Since(began))
			}
		})
	})
	t.Run("what does not finish is cut", func(t *testing.T) {
		var store *slowStore
		bubble(t, func() Options { store = newSlowStore(t); return Options{Store: store} }, func(t *testing.T, l *pipes, stop func() error) {
			c := l.dial(t)
			send(c, post("/v1/pause", "Content-Length: 0\r\n", ""))
			<-store.entered
			began := time.Now()
			if err := stop(); err != nil {
				t.Error(err)
			}
			if took := time.Since(began); took < stopTime || took > stopTime+time.Second || store.left.Load() != 1 {
				t.Errorf("stopped after %v, handlers that left: %d", took, store.left.Load())
			}
		})
	})
	t.Run("the error of accept is returned", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := New(Options{Store: newStore(t)})
			if err != nil {
				t.Fatal(err)
			}
			l := newPipes()
			l.Close()
			if err := s.Serve(context.Background(), l); !errors.Is(err, net.ErrClosed) {
				t.Errorf("got %v", err)
			}
		})
	})
	t.Run("start and stop a hundred times", func(t *testing.T) {
		for range 100 {
			bubble(t, func() Options { return Options{Store: newStore(t)} }, func(t *testing.T, l *pipes, stop func() error) {
				c := l.dial(t)
				send(c, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
				go stop()
				_, _ = io.ReadAll(c) // answered or cut, but not left hanging
			})
		}
	})
}

// 71: a client that goes away ends what it asked for.
func TestServe_a_client_that_leaves_ends_its_read(t *testing.T) {
	for _, request := range []string{
		"GET /v1/audit HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/exceptions?trace_id=t HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /v1/exceptions/1 HTTP/1.1\r\nHost: x\r\n\r\n",
		post("/v1/audit/verify", "Content-Type: application/json\r\nContent-Length: 2\r\n", "{}"),
	} {
		store := newSlowStore(t)
		admit(t, store.Store.(queue.Store), start, exceptionLine("k1", "K", ""))
		r := serve(t, Options{Store: store})
		c, err := net.Dial("unix", r.path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, request); err != nil {
			t.Fatal(err)
		}
		<-store.entered
		if n := store.left.Load(); n != 0 {
			t.Fatal("it left before the client did")
		}
		c.Close()
		if err := r.stop(); err != nil { // waits for the handler
			t.Error(err)
		}
		if n := store.left.Load(); n != 1 {
			t.Errorf("%q: still reading", request)
		}
	}
}

func TestVerify_is_one_at_a_time(t *testing.T) {
	store := newSlowStore(t)
	r := serve(t, Options{Store: store})
	first := make(chan reply)
	go func() { first <- r.ask("POST", "/v1/audit/verify", "") }()
	<-store.entered
	got := r.ask("POST", "/v1/audit/verify", "")
	if p := problemIn(t, got); got.status != http.StatusTooManyRequests || p.Code != string(queue.CodeSaturated) || got.header.Get("Retry-After") == "" {
		t.Errorf("%+v", got)
	}
	close(store.leave)
	if got := <-first; got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	if got := r.ask("POST", "/v1/audit/verify", ""); got.status != http.StatusOK {
		t.Errorf("after it ended: %+v", got)
	}
}

// failingStore fails where the test wants.
type failingStore struct {
	Store
	err error
}

func (s *failingStore) Status(context.Context, time.Time) (queue.StoreStatus, error) {
	return queue.StoreStatus{}, s.err
}

// Trail gives one record and fails.
func (s *failingStore) Trail(_ context.Context, _ queue.TrailQuery, fn func(queue.Record) bool) error {
	big := queue.Record{N: 1, TS: start, Event: queue.EventStarted, Reason: strings.Repeat("x", queue.MaxRecordText)}
	for range 20 {
		fn(big)
	}
	return s.err
}

func (s *failingStore) HoldKeys(context.Context, queue.Action, []string) ([]queue.ActionResult, error) {
	panic("a defect at /some/path")
}

func TestServe_failures(t *testing.T) {
	store := &failingStore{Store: newStore(t)}
	r := serve(t, Options{Store: store})
	for _, c := range []struct {
		err    error
		status int
		code   queue.Code
	}{
		{queue.ErrClosed, 503, queue.CodeDraining},
		{queue.ErrFailed, 503, queue.CodeStorageUnavailable},
		{queue.ErrNoRoom, 503, queue.CodeStorageUnavailable},
		{queue.ErrDamaged, 500, queue.CodeInternal},
		{queue.ErrNotFound, 404, queue.CodeNotFound},
		{queue.ErrTrimmed, 404, queue.CodeNotFound},
		{context.DeadlineExceeded, 503, queue.CodeStorageUnavailable},
		{errors.New("read /some/path: input/output error"), 500, queue.CodeInternal},
	} {
		store.err = c.err
		got := r.ask("GET", "/v1/status", "")
		if p := problemIn(t, got); got.status != c.status || p.Code != string(c.code) {
			t.Errorf("%v: %d %s", c.err, got.status, got.body)
		}
		if strings.Contains(got.body, "/some/path") {
			t.Errorf("the answer names a path of the host: %s", got.body)
		}
	}
	t.Run("a stream that fails is not complete", func(t *testing.T) {
		res, err := r.client.Get("http://control/v1/audit")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if len(text) == 0 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	})
	t.Run("a defect is answered without its trace", func(t *testing.T) {
		got := r.ask("POST", "/v1/keys/hold", `{"keys":["a"]}`)
		if p := problemIn(t, got); got.status != 500 || p.Code != string(queue.CodeInternal) || strings.Contains(got.body, "defect at") {
			t.Errorf("%+v", got)
		}
		r.alive()
	})
	t.Run("what the process cannot do is 501", func(t *testing.T) {
		for _, path := range []string{"/v1/drain", "/v1/reload"} {
			if got := r.ask("POST", path, ""); got.status != http.StatusNotImplemented {
				t.Errorf("%s: %+v", path, got)
			}
		}
		if got := r.ask("POST", "/v1/leases/revoke", `{"seqs":[1]}`); got.status != http.StatusNotImplemented {
			t.Errorf("revoke without a policy: %+v", got)
		}
		if got := r.ask("GET", "/metrics", ""); got.status != http.StatusNotFound {
			t.Errorf("/metrics: %+v", got)
		}
	})
}

// The real listener: the kernel names the peer, the limit is answered in HTTP, and a
// stop lets what is under way finish although its Close cuts connections.
func TestServe_on_the_real_listener(t *testing.T) {
	store := newSlowStore(t)
	path := socketPath(t)
	l, err := socket.Listen(socket.ListenOptions{Path: path, Mode: 0o600, MaxConnections: 2, Refusal: Refusal()})
	if err != nil {
		t.Fatal(err)
	}
	r := serveOn(t, Options{
		Store: store,
		Peer:  func(c net.Conn) queue.Peer { return c.(*socket.Conn).Peer() },
	}, l, path)
	under, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer under.Close()
	send(under, post("/v1/pause", "Content-Type: application/json\r\nContent-Length: 14\r\n", `{"by":"alice"}`))
	<-store.entered
	r.alive() // the second connection, which the client keeps
	refused, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if got := readReply(t, refused, "GET"); got.status != http.StatusServiceUnavailable {
		t.Errorf("over the limit: %+v", got)
	}
	stopped := make(chan error)
	go func() { stopped <- r.stop() }()
	close(store.leave)
	if got := readReply(t, under, "POST"); got.status != http.StatusOK {
		t.Errorf("%+v", got)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket's file is left: %v", err)
	}
	var peer *queue.Peer
	err = store.Store.Trail(t.Context(), queue.TrailQuery{Event: queue.EventPaused}, func(r queue.Record) bool {
		peer = r.Peer
		return true
	})
	if err != nil || peer == nil || int(peer.PID) != os.Getpid() || int(peer.UID) != os.Getuid() {
		t.Errorf("the record's peer is %+v, %v", peer, err)
	}
}

// A page ends early when it is big, and pages put together are the whole list.
func TestPages(t *testing.T) {
	store := newStore(t)
	const n = 300
	pad := strings.Repeat("x", 60_000)
	for i := range n {
		admit(t, store, start, exceptionLine("k"+string(rune('a'+i%26))+strings.Repeat("i", i/26), "K"+string(rune('a'+i%3)), `,"pad":"`+pad+`"`))
	}
	r := serve(t, Options{Store: store})
	for _, c := range []struct {
		query       string
		pages, rows int
	}{
		{"limit=1000", 4, n}, // three steps of 32 lines are more than maxPageBytes
		{"limit=1000&lines=false", 1, n},
		{"limit=7&lines=false", n/7 + 1, n},
		{"limit=100&lines=false", n/100 + 1, n},
		{"limit=1000&partition_key=Kb&lines=false", 1, n / 3},
		{"limit=10&partition_key=Kb&lines=false", n/3/10 + 1, n / 3},
		{"limit=10&state=leased", 1, 0},
	} {
		var seqs []uint64
		pages, after := 0, ""
		for {
			got := r.ask("GET", "/v1/exceptions?"+c.query+after, "")
			var page api.List[api.Exception]
			if err := json.Unmarshal([]byte(got.body), &page); err != nil || page.Items == nil {
				t.Fatalf("%s: %d %s: %v", c.query, got.status, excerpt(got.body), err)
			}
			if len(got.body) > maxPageBytes+stepRows*len(pad)*2 {
				t.Errorf("%s: a page of %d bytes", c.query, len(got.body))
			}
			pages++
			for _, x := range page.Items {
				seqs = append(seqs, x.Seq)
			}
			if page.Next == "" {
				break
			}
			after = "&after=" + page.Next
		}
		if len(seqs) != c.rows || pages != c.pages {
			t.Errorf("%s: %d rows on %d pages, want %d on %d", c.query, len(seqs), pages, c.rows, c.pages)
		}
		for i := 1; i < len(seqs); i++ {
			if seqs[i] <= seqs[i-1] {
				t.Fatalf("%s: seq %d after %d", c.query, seqs[i], seqs[i-1])
			}
		}
	}
}

// The export has what the trail has, byte for byte.
func TestAudit_is_the_trail(t *testing.T) {
	var trail bytes.Buffer
	store := newStore(t)
	for i := range 2000 {
		admit(t, store, start, exceptionLine(strings.Repeat("k", 1+i%7)+string(rune('a'+i%26)), "K", ""))
	}
	if err := store.Trail(t.Context(), queue.TrailQuery{}, func(r queue.Record) bool {
		trail.Write(r.AppendNDJSON(nil))
		return true
	}); err != nil {
		t.Fatal(err)
	}
	if trail.Len() < 2*exportFlush {
		t.Fatalf("the trail has only %d bytes", trail.Len())
	}
	if got := serve(t, Options{Store: store}).ask("GET", "/v1/audit", ""); got.body != trail.String() {
		t.Errorf("%d bytes, want %d", len(got.body), trail.Len())
	}
}
