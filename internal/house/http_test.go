package house

import (
	"bufio"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"breakwater/queue"
)

// reviewAPI is the other end of an http handler: it notes the idempotency keys that
// it has answered, in order.
type reviewAPI struct {
	testing.TB
	socket string

	mu       sync.Mutex
	server   *http.Server
	answered []string
	enough   int           // from so many answers on, requests wait
	waiting  chan struct{} // gets a word when one does
}

// up starts the server on its socket.
func (a *reviewAPI) up(enough int) {
	a.Helper()
	l, err := net.Listen("unix", a.socket)
	if err != nil {
		a.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.enough = enough
	a.server = &http.Server{Handler: a}
	go a.server.Serve(l) // returns when it is closed
}

// down kills the server: its socket goes, and so do its connections.
func (a *reviewAPI) down() {
	a.mu.Lock()
	server := a.server
	a.mu.Unlock()
	_ = server.Close() // of a listener that is gone: nothing to be done
}

func (a *reviewAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	if len(a.answered) >= a.enough {
		a.mu.Unlock()
		select {
		case a.waiting <- struct{}{}:
		default:
		}
		<-r.Context().Done() // until the server is killed
		return
	}
	a.answered = append(a.answered, r.Header.Get("Idempotency-Key"))
	a.mu.Unlock()
	_, _ = w.Write([]byte(`{"outcome":"POSTED","by":"alice"}`))
}

// keys returns what was answered, in order. An answer that was lost with its
// connection was given again: it is listed once.
func (a *reviewAPI) keys() (list []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	last := map[string]string{}
	for _, id := range a.answered {
		key, _, _ := strings.Cut(id, ".")
		if last[key] != id {
			list = append(list, id)
		}
		last[key] = id
	}
	return list
}

// hookConfig lets nothing be counted: one failure is a dead letter, one lost
// delivery too.
const hookConfig = `
route "ROUTE_REVIEW" { handler = "review-api" }
handler "http" "review-api" {
  url = %q
  %s
}
queue {
  concurrency      = 4
  max_attempts     = 1
  max_deliveries   = 1
  retry_initial_ms = 500
}
`

func TestHTTPHandler(t *testing.T) {
	t.Run("a restart of the other end costs nothing, and the order stays", func(t *testing.T) {
		t.Parallel()
		const keys, each = 6, 20
		s := newSite(t, "")
		api := &reviewAPI{TB: t, socket: s.path("review.sock"), waiting: make(chan struct{}, 1)}
		s.configure(fmt.Sprintf(hookConfig, "http+unix://"+api.socket+"/v1/exceptions", ""))
		api.up(30)
		p := s.serve()
		var lines strings.Builder
		for i := range each {
			for k := range keys {
				fmt.Fprintln(&lines, exceptionLine(fmt.Sprint("K", k), fmt.Sprintf("K%d.%02d", k, i), ""))
			}
		}
		s.sendAll(lines.String())
		<-api.waiting // requests are on their way, and will have no answer
		api.down()
		// Each time a probe finds nobody the route waits longer: half a second, one,
		// two, less their random half.
		for range 3 {
			p.await("handler unavailable; its route waits")
		}
		api.up(math.MaxInt)
		eventually(t, "all are answered", func() bool { return len(api.keys()) == keys*each })
		p.stop()
		api.down()

		last, seen := map[string]string{}, 0
		for _, id := range api.keys() {
			key, _, _ := strings.Cut(id, ".")
			if id <= last[key] { // ids of a key sort in the order in which they were sent
				t.Errorf("%s was answered after %s", id, last[key])
			}
			last[key] = id
			seen++
		}
		decided, away := 0, 0
		for _, r := range s.trail() {
			switch r.Event {
			case queue.EventDecided:
				if decided++; r.Delivery != 1 || r.Outcome != "POSTED" || r.By != "alice" {
					t.Errorf("decided: %+v", r)
				}
			case queue.EventReleased:
				if away++; r.Code != queue.CodeHandlerUnavailable {
					t.Errorf("released: %+v", r)
				}
			case queue.EventRetried, queue.EventDeadLettered, queue.EventReclaimed:
				t.Errorf("counted: %+v", r)
			}
		}
		if st := s.status(); seen != keys*each || decided != keys*each || st.Done != keys*each || st.Dead != 0 || away < 4 {
			t.Errorf("%d answered, %d decided, %d put back, %+v", seen, decided, away, st)
		}
		for seq := range uint64(keys * each) {
			if e := s.exception(seq + 1); e.State != queue.Done || e.Deliveries != 1 || e.FailedAttempts != 0 {
				t.Errorf("seq %d: %s, %d deliveries, %d failures", seq+1, e.State, e.Deliveries, e.FailedAttempts)
			}
		}
		s.sound()
	})
	t.Run("who has read it and did not answer is told when it comes again", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		told := make(chan string, 9)
		go func() {
			for first := true; ; first = false {
				c, err := l.Accept()
				if err != nil {
					return // the test is over
				}
				var posted struct {
					Delivery    int
					Redelivered bool
				}
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err == nil && json.NewDecoder(r.Body).Decode(&posted) == nil {
					told <- fmt.Sprint(posted.Delivery, " ", posted.Redelivered)
				}
				if !first {
					fmt.Fprint(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
				}
				_ = c.Close()
			}
		}()
		s := newSite(t, fmt.Sprintf(hookConfig, "http://"+l.Addr().String(), ""))
		p := s.serve()
		s.sendOne(exceptionLine("K", "1", ""))
		if first, again := <-told, <-told; first != "1 false" || again != "1 true" {
			t.Errorf("told %q, then %q", first, again)
		}
		eventually(t, "it is done", func() bool { return strings.Contains(s.says("--json", "status"), `"done":1`) })
		p.stop()
		if r := s.last(queue.EventReleased); r.Code != queue.CodeHandlerUnavailable || r.Unanswered != 1 {
			t.Errorf("released: %+v", r)
		}
		s.sound()
	})
	// B53: nor in anything that the program writes.
	t.Run("its secrets are in no log, record or output", func(t *testing.T) {
		t.Parallel()
		const token, query = "very-secret-token", "very-secret-query"
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer "+token || r.FormValue("key") != query {
				t.Errorf("it came with %v, %s", r.Header, r.RequestURI)
			}
			w.WriteHeader(http.StatusUnprocessableEntity)
			fmt.Fprint(w, "refused: ", r.RequestURI, r.Header)
		}))
		defer api.Close()
		s := newSite(t, "")
		s.configure(fmt.Sprintf(hookConfig, api.URL+"/x?key="+query, `authorization_file = "token"`))
		s.write("token", "Bearer "+token+"\n")
		p := s.serve()
		s.sendOne(exceptionLine("K", "1", ""))
		eventually(t, "it is a dead letter", func() bool { return strings.Contains(s.says("--json", "status"), `"dead":1`) })
		said := s.says("config", "show") + s.says("--json", "config", "show") + s.says("config", "check") + s.says("--json", "show", "1")
		p.stop()
		if r := s.last(queue.EventDeadLettered); !strings.HasPrefix(r.Reason, "status 422 Unprocessable Entity: refused: /x?redacted") {
			t.Errorf("the reason is %q", r.Reason)
		}
		said += fmt.Sprintf("%+v", s.trail()) + p.log.all() + p.out.all()
		s.everyFile(func(name string, text []byte) {
			if name != "token" && name != "config.hcl" {
				said += string(text)
			}
		})
		for _, secret := range []string{token, query} {
			if at := strings.Index(said, secret); at >= 0 {
				t.Errorf("%s is in …%q…", secret, said[max(0, at-200):min(len(said), at+100)])
			}
		}
	})
	t.Run("what was not asked for is not printed", func(t *testing.T) {
		t.Parallel()
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go chatter(l)
		s := newSite(t, fmt.Sprintf(hookConfig, "http://"+l.Addr().String(), ""))
		p := s.serve()
		for i := range 20 {
			s.sendOne(exceptionLine("K", fmt.Sprint(i), ""))
		}
		eventually(t, "all are done", func() bool { return strings.Contains(s.says("--json", "status"), `"done":20`) })
		p.await("words of a library were dropped")
		p.stop()
		for line := range strings.Lines(p.log.all()) {
			if !json.Valid([]byte(line)) || strings.Contains(line, "unasked") {
				t.Errorf("the log has %s", line)
			}
		}
	})
	t.Run("over TLS with the system's roots, and an authorization of the environment", func(t *testing.T) {
		t.Parallel()
		posted := make(chan string, 1)
		api := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { posted <- r.Header.Get("Authorization") }))
		defer api.Close()
		s := newSite(t, "")
		s.configure(fmt.Sprintf(hookConfig, api.URL, `authorization_env = "REVIEW_AUTHORIZATION"`))
		s.env = []string{"REVIEW_AUTHORIZATION=Bearer of-the-environment"}
		p := s.serve()
		s.sendOne(exceptionLine("K", "1", ""))
		p.await("handler unavailable; its route waits") // nobody knows its certificate
		p.stop()

		roots := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: api.Certificate().Raw})
		s.env = append(s.env, "SSL_CERT_FILE="+s.write("roots.pem", string(roots)))
		p = s.serve()
		if got := <-posted; got != "Bearer of-the-environment" {
			t.Errorf("posted with %q", got)
		}
		p.stop()
		if e := s.exception(1); e.State != queue.Done || e.FailedAttempts != 0 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("without its variable it does not start", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, fmt.Sprintf(hookConfig, "http://127.0.0.1:9/", `authorization_env = "BREAKWATER_TEST_ABSENT"`))
		p := s.start("serve")
		if status := p.wait(); status != 2 || !strings.Contains(p.log.all(), "BREAKWATER_TEST_ABSENT") {
			t.Errorf("exit status %d\n%s", status, p.log.all())
		}
	})
}

// chatter answers each request, and goes on talking.
func chatter(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return // the test is over
		}
		go func() {
			defer c.Close()
			in := bufio.NewReader(c)
			for {
				req, err := http.ReadRequest(in)
				if err != nil {
					return // the other end has seen what we are
				}
				_, _ = io.Copy(io.Discard, req.Body)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOKunasked\nfor")
			}
		}()
	}
}

// says runs a command to its end and returns what it says on both streams.
func (s *site) says(args ...string) string {
	s.Helper()
	p := s.start(args...)
	p.wait()
	return p.out.all() + p.log.all()
}

// everyFile visits what lies in the site's folder.
func (s *site) everyFile(visit func(name string, text []byte)) {
	s.Helper()
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(s.dir, path)
		visit(name, text)
		return err
	})
	if err != nil {
		s.Fatal(err)
	}
}
