package house

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"breakwater/queue"
)

// The programs of examples/ are run as their readers would run them: against the real
// server, which is killed meanwhile.

// example is one program of examples/.
type example struct {
	name  string
	needs []string // a command that must succeed, or the example is skipped
	argv  func(s *site, args ...string) []string
	keys  func(s *site) []string // a consumer's: the idempotency keys in its journal
}

// goExample builds a Go program of examples/.
func goExample(name string) func(*site, ...string) []string {
	return func(s *site, args ...string) []string {
		s.Helper()
		binary := filepath.Join(filepath.Dir(s.binary), "example-"+name)
		build := exec.Command("go", "build", "-o", binary, "./examples/go/"+name)
		build.Dir = root(s)
		if out, err := build.CombinedOutput(); err != nil {
			s.Fatalf("%v\n%s", err, out)
		}
		return append([]string{binary}, args...)
	}
}

// script is a program of examples/ that needs no building.
func script(name ...string) func(*site, ...string) []string {
	return func(s *site, args ...string) []string {
		return append([]string{filepath.Join(append([]string{root(s), "examples"}, name...)...)}, args...)
	}
}

var needsPython = []string{"python3", "-c", "import json, queue, socket, sqlite3, threading"}

// need skips the test where a program is missing.
func (e *example) need(t *testing.T) {
	if len(e.needs) > 0 && exec.Command(e.needs[0], e.needs[1:]...).Run() != nil {
		t.Skipf("%s does not work here, and examples/ needs it", strings.Join(e.needs, " "))
	}
}

func TestExamples_producers(t *testing.T) {
	for _, e := range []example{
		{name: "go", argv: func(s *site, _ ...string) []string { return goExample("producer")(s, s.enqueueSocket()) }},
		{name: "python", needs: needsPython, argv: func(s *site, _ ...string) []string {
			return script("python", "producer.py")(s, s.enqueueSocket())
		}},
		{name: "shell", needs: []string{"sh", "-c", "nc -h 2>&1 | grep -q -- -N"}, argv: func(s *site, _ ...string) []string {
			return script("shell", "producer.sh")(s, s.path("in.ndjson"), s.enqueueSocket())
		}},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.need(t)
			s := newSite(t, "")
			const n = 600
			var text strings.Builder
			for i := range n {
				fmt.Fprintln(&text, exceptionLine(fmt.Sprint("p", i%7), fmt.Sprint("k", i), ""))
				if i == n/2 {
					fmt.Fprintln(&text, "\nnot an exception")
				}
			}
			s.write("in.ndjson", text.String())
			argv := e.argv(s)
			for round := range 2 {
				in, err := os.Open(s.path("in.ndjson"))
				if err != nil {
					t.Fatal(err)
				}
				defer in.Close()
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Stdin = in
				p := s.run(cmd) // before there is anybody to send to
				server := s.serve()
				if status := p.wait(); status != 0 {
					t.Fatalf("round %d: exit status %d:\n%s", round, status, p.log.all())
				}
				if out := p.out.all(); strings.Count(out, "POISON_MESSAGE") != 1 || strings.Contains(out, "accepted\"") {
					t.Errorf("round %d: a person is shown\n%s", round, out)
				}
				server.stop()
				if st := s.status(); st.LastSeq != n+1 || st.Ready != n || st.Dead != 1 {
					t.Errorf("round %d: %+v", round, st)
				}
			}
			s.sound()
		})
	}
}

func TestExamples_consumers(t *testing.T) {
	for _, e := range []example{
		{name: "go", argv: func(s *site, _ ...string) []string {
			return goExample("consumer")(s, s.path("journal"), s.consumeSocket())
		},
			keys: func(s *site) (keys []string) {
				for _, line := range strings.Fields(s.read("journal")) {
					var p struct{ Key string }
					if err := json.Unmarshal([]byte(line), &p); err != nil {
						s.Errorf("%s: %v", line, err)
					}
					keys = append(keys, p.Key)
				}
				return keys
			}},
		{name: "python", needs: needsPython, argv: func(s *site, _ ...string) []string {
			return script("python", "consumer.py")(s, s.path("journal"), s.consumeSocket())
		}, keys: func(s *site) []string {
			out, err := exec.Command("python3", "-c", "import sqlite3, sys\nfor row in sqlite3.connect(sys.argv[1]).execute('select key from posted'): print(row[0])",
				s.path("journal")).CombinedOutput()
			if err != nil {
				s.Errorf("%v\n%s", err, out)
			}
			return strings.Fields(string(out))
		}},
		{name: "shell", argv: func(s *site, _ ...string) []string {
			return append([]string{s.binary, "--config", s.path("config.hcl"), "consume", "--name", "sh-journal", "--prefetch", "4", "--env", "JOURNAL", "--"},
				script("shell", "consumer.sh")(s)...)
		}, keys: func(s *site) (keys []string) {
			s.everyFile(func(name string, text []byte) {
				if filepath.Dir(name) != "journal" {
					return
				}
				var d struct {
					Key string `json:"idempotency_key"`
				}
				if err := json.Unmarshal(text, &d); err != nil {
					s.Errorf("%s: %v", name, err)
				}
				keys = append(keys, d.Key)
			})
			return keys
		}},
	} {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			e.need(t)
			n := 150
			if e.name == "shell" {
				n = 40 // a process for each
			}
			e.runConsumer(newSite(t, ""), n)
		})
	}
}

// runConsumer has an example post twice n exceptions while the server is killed under it.
func (e *example) runConsumer(s *site, n int) {
	server := s.serve()
	argv := e.argv(s)
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), "JOURNAL=journal")
	p := s.run(cmd)
	for half := range 2 {
		var text strings.Builder
		for i := range n {
			fmt.Fprintln(&text, exceptionLine(fmt.Sprint("p", i%11), fmt.Sprintf("k%d.%d", half, i), ""))
		}
		s.sendAll(text.String())
		s.awaitDone(half*n + n/3)
		server.kill()
		server = s.serve()
	}
	s.awaitDone(2 * n)
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		s.Errorf("exit status %d:\n%s", status, p.log.all())
	}
	server.stop()
	seen := map[string]bool{}
	for _, key := range e.keys(s) {
		if seen[key] {
			s.Errorf("%s was posted twice", key)
		}
		seen[key] = true
	}
	if len(seen) != 2*n {
		s.Errorf("%d of %d are posted", len(seen), 2*n)
	}
	for _, r := range s.trail() {
		if r.Event == queue.EventDecided && (r.Outcome != "POSTED" || r.By != "journal") {
			s.Fatalf("decided as %+v", r)
		}
	}
	if st := s.status(); st.Done != int64(2*n) || st.Leased != 0 {
		s.Errorf("%+v", st)
	}
	s.sound()
}

func (s *site) consumeSocket() string { return s.path("var/run/consume.sock") }
