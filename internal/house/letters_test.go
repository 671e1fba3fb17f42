package house

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"

	"breakwater/internal/client"
	"breakwater/queue"
)

// arbiter is the other end of an http handler that refuses everything for good until it
// is told to accept. It notes what it has accepted, by key.
type arbiter struct {
	mu       sync.Mutex
	accepts  bool
	accepted map[string][]string // by partition key: idempotency keys
}

func (j *arbiter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	id := r.Header.Get("Idempotency-Key")
	if !j.accepts {
		http.Error(w, "no account", http.StatusUnprocessableEntity)
		return
	}
	key, _, _ := strings.Cut(id, ".")
	j.accepted[key] = append(j.accepted[key], id)
}

// dealt is what replay and discard print with --json.
type dealt struct {
	Matched     int  `json:"matched"`
	Replayed    int  `json:"replayed"`
	Discarded   int  `json:"discarded"`
	Failed      int  `json:"failed"`
	Interrupted bool `json:"interrupted"`
	Left        *int `json:"left"`
	Unanswered  int  `json:"unanswered"`
}

// dealt waits for a command and reads what it printed.
func (p *process) dealt(status int) (d dealt) {
	p.Helper()
	if got := p.wait(); got != status {
		p.Fatalf("exit status %d, want %d: %s\n%s", got, status, p.out.all(), p.log.all())
	}
	if err := json.Unmarshal([]byte(p.out.all()), &d); err != nil {
		p.Fatalf("%v: %s", err, p.out.all())
	}
	return d
}

// counts is where the exceptions are.
type counts struct{ ready, done, dead, discarded int64 }

// TestDeadLetters discards 5,000 dead letters with one command, and puts 5,000 back with
// one that is interrupted by whatever may interrupt it and run again. At each moment every
// exception is in exactly one place, and in the end each was accepted once, in order.
func TestDeadLetters(t *testing.T) {
	t.Parallel()
	const n, keys = 5000, 250
	s := newSite(t, "")
	s.configure(fmt.Sprintf(`
queue {
  concurrency    = 32
  queue_maxsize  = 512
  prefetch       = 256
  on_dead_letter = "skip"
}
route "ROUTE_REVIEW" { handler = "judge" }
handler "http" "judge" { url = "http+unix://%s/v1/exceptions" }
`, s.path("judge.sock")))
	other := &arbiter{accepted: map[string][]string{}}
	l, err := net.Listen("unix", s.path("judge.sock"))
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: other}
	go server.Serve(l) // returns when it is closed
	defer server.Close()
	p := s.serve()
	control := client.NewControl(s.path("var/run/control.sock"))
	defer control.Close()
	status := func() (c counts) {
		t.Helper()
		st, err := control.Status(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return counts{ready: st.Ready, done: st.Done, dead: st.Dead, discarded: st.Discarded}
	}
	act := func(command string) {
		t.Helper()
		if run := s.start(command); run.wait() != 0 {
			t.Fatal(run.log.all())
		}
	}

	var bad, lines strings.Builder
	for i := range n {
		fmt.Fprintf(&bad, "not JSON %d\n", i)
		fmt.Fprintln(&lines, exceptionLine(fmt.Sprint("K", i%keys), fmt.Sprintf("K%d.%04d", i%keys, i), ""))
	}
	s.sendAll(bad.String())
	if d := s.start("dlq", "discard", "--all", "--reason", "a test", "--json").dealt(0); d.Matched != n || d.Discarded != n {
		t.Errorf("discarded: %+v", d)
	}
	if st := status(); st.dead != 0 || st.discarded != n {
		t.Errorf("after the discard: %+v", st)
	}

	s.sendAll(lines.String())
	eventually(t, "all are dead", func() bool { return status().dead == n })
	// While claims are paused, what was put back is counted as ready.
	act("pause")
	slowly := []string{"dlq", "replay", "--all", "--rate", "40/s", "--json"} // it would take two minutes
	begins := func() *process {
		t.Helper()
		before := status().dead
		run := s.start(slowly...)
		eventually(t, "a replay has begun", func() bool { return status().dead < before })
		return run
	}
	whole := func(what string) {
		t.Helper()
		if st := status(); st.dead+st.ready != n {
			t.Fatalf("after %s: %d dead, %d ready", what, st.dead, st.ready)
		}
	}

	run, dead := begins(), int64(n)
	run.signal(syscall.SIGINT)
	d := run.dealt(1)
	if st := status(); !d.Interrupted || d.Left == nil || *d.Left+d.Matched != int(dead) || d.Replayed != d.Matched || st.dead != int64(*d.Left) {
		t.Errorf("interrupted: %+v (left %v), %d dead", d, d.Left, st.dead)
	}
	whole("Ctrl-C")

	run = begins()
	run.kill()
	whole("a kill of the command")

	run = begins()
	p.kill()
	if d := run.dealt(1); !d.Interrupted {
		t.Errorf("the daemon was killed: %+v", d)
	}
	p = s.serve()
	whole("a kill of the daemon")

	left := int(status().dead)
	if d := s.start("dlq", "replay", "--all", "--json").dealt(0); d.Matched != left || d.Replayed != left {
		t.Errorf("run again: %+v, %d were left", d, left)
	}
	if st := status(); st.dead != 0 || st.ready != n {
		t.Fatalf("after all: %+v", st)
	}
	if d := s.start("dlq", "replay", "--all", "--json").dealt(0); d.Matched != 0 {
		t.Errorf("once more: %+v", d)
	}

	other.mu.Lock()
	other.accepts = true
	other.mu.Unlock()
	act("resume")
	eventually(t, "all are done", func() bool { return status().done == n })
	p.stop()
	other.mu.Lock()
	defer other.mu.Unlock()
	total := 0
	for key, ids := range other.accepted {
		total += len(ids)
		for i := 1; i < len(ids); i++ {
			if ids[i] <= ids[i-1] { // ids of a key sort in the order in which they were sent
				t.Errorf("%s: %s was accepted after %s", key, ids[i], ids[i-1])
			}
		}
	}
	replayed := map[uint64]int{}
	for _, r := range s.trail() {
		if r.Event == queue.EventReplayed {
			replayed[r.Seq]++
		}
	}
	if total != n || len(replayed) != n {
		t.Errorf("%d were accepted, %d replayed, want %d", total, len(replayed), n)
	}
	for seq, times := range replayed {
		if times != 1 {
			t.Errorf("seq %d was replayed %d times", seq, times)
		}
	}
	s.verify()
}
