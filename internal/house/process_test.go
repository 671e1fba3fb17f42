package house

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/storage"
	"breakwater/storage/storetest"
)

// This file runs the real program, as its operator would: a folder with a
// configuration, a process, signals, its log and its file.

// patience bounds every wait for a real process. Nothing is decided by it: a test
// that waits that long has failed.
const patience = 2 * time.Minute

// built builds the program once for all tests of this package. The folder is
// removed by TestMain.
var built = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "breakwater-bin")
	if err != nil {
		return "", err
	}
	binDir = dir
	name := filepath.Join(dir, "breakwater")
	build := exec.Command("go", "build", "-o", name, ".")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the program: %w\n%s", err, out)
	}
	return name, nil
})

// binDir is where the program was built, "" if it was not.
var binDir string

func TestMain(m *testing.M) {
	status := m.Run()
	if binDir != "" {
		_ = os.RemoveAll(binDir) // a left-over in the temporary folder is no failure
	}
	os.Exit(status)
}

// site is one installation: a folder with configuration and data.
type site struct {
	testing.TB
	dir    string
	binary string
	env    []string
}

// newSite makes an installation. The configuration gets data_dir; the rest is more.
func newSite(t testing.TB, more string) *site {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	// Not t.TempDir: its path would be too long for a socket's.
	dir, err := os.MkdirTemp("", "bw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	s := &site{TB: t, dir: dir, binary: binary}
	s.configure(more)
	return s
}

func (s *site) configure(more string) {
	s.Helper()
	s.write("config.hcl", "data_dir = \"./var\"\n"+more)
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }
func (s *site) store() string           { return s.path("var/breakwater.db") }
func (s *site) enqueueSocket() string   { return s.path("var/run/enqueue.sock") }

func (s *site) write(name, text string) string {
	s.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return s.path(name)
}

// read returns a file's text; "" if there is none.
func (s *site) read(name string) string {
	s.Helper()
	b, err := os.ReadFile(s.path(name))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		s.Fatal(err)
	}
	return string(b)
}

// process is a running program. Its lines are kept until they are taken.
type process struct {
	*site
	cmd    *exec.Cmd
	log    *lineLog
	out    *lineLog
	ended  chan struct{}
	killed bool
}

// start runs a command of the program.
func (s *site) start(args ...string) *process {
	s.Helper()
	cmd := exec.Command(s.binary, append([]string{"--config", s.path("config.hcl")}, args...)...)
	cmd.Env = append(os.Environ(), s.env...)
	return s.run(cmd)
}

// run starts cmd and follows what it writes.
func (s *site) run(cmd *exec.Cmd) *process {
	s.Helper()
	p := &process{site: s, cmd: cmd, log: newLineLog(), out: newLineLog(), ended: make(chan struct{})}
	cmd.Dir = s.dir
	cmd.Stdout, cmd.Stderr = p.out, p.log
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		_ = cmd.Wait() // the state says how it ended
		p.log.end()
		p.out.end()
		close(p.ended)
	}()
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // of what has ended: an error that says so
		<-p.ended
	})
	return p
}

// serve starts the appliance and waits until it is ready.
func (s *site) serve(args ...string) *process {
	s.Helper()
	p := s.start(append([]string{"serve"}, args...)...)
	p.await("ready")
	return p
}

// await waits for a message in the log.
func (p *process) await(message string) {
	p.Helper()
	if !p.log.await(`"@message":"` + message + `"`) {
		p.Fatalf("the program did not say %q; its log:\n%s", message, p.log.all())
	}
}

func (p *process) signal(s syscall.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.Fatal(err)
	}
}

// kill ends the process as a loss of power would, for all that it can see.
func (p *process) kill() {
	p.killed = true
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// wait returns the exit status.
func (p *process) wait() int {
	p.Helper()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.signal(syscall.SIGQUIT)
		<-p.ended
		p.Fatalf("the program did not end:\n%s", p.log.all())
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop ends the process by SIGTERM and wants a clean drain.
func (p *process) stop() {
	p.Helper()
	p.signal(syscall.SIGTERM)
	if status := p.wait(); status != 0 {
		p.Fatalf("exit status %d after SIGTERM; the log:\n%s", status, p.log.all())
	}
}

// inspect opens the store's file of a process that has ended.
func (s *site) inspect() storage.Copy {
	s.Helper()
	c, err := storage.OpenCopy(storage.Options{Path: s.store()})
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// trail returns all records of the store.
func (s *site) trail() (records []queue.Record) {
	s.Helper()
	c := s.inspect()
	defer c.Close()
	err := c.Trail(s.Context(), queue.TrailQuery{}, func(r queue.Record) bool {
		records = append(records, r)
		return true
	})
	if err != nil {
		s.Fatal(err)
	}
	return records
}

// status returns the counts of the store.
func (s *site) status() queue.StoreStatus {
	s.Helper()
	c := s.inspect()
	defer c.Close()
	st, err := c.Status(s.Context(), time.Now())
	if err != nil {
		s.Fatal(err)
	}
	return st
}

// exception returns one message of the store.
func (s *site) exception(seq uint64) queue.Exception {
	s.Helper()
	c := s.inspect()
	defer c.Close()
	e, err := c.Exception(s.Context(), seq)
	if err != nil {
		s.Fatalf("seq %d: %v", seq, err)
	}
	return e
}

// verify lets the store's own verification look at everything.
func (s *site) verify() {
	s.Helper()
	c := s.inspect()
	defer c.Close()
	v, err := c.Verify(s.Context(), queue.VerifyOptions{Buckets: true})
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range v.Findings {
		s.Errorf("verify: %+v", f)
	}
}

// lineLog keeps what a process writes, by lines, and lets one goroutine at a time
// wait for more.
type lineLog struct {
	mu    sync.Mutex
	part  []byte
	lines []string
	over  bool
	more  chan struct{} // closed and made anew whenever something changes
	seen  int           // by await
}

func newLineLog() *lineLog { return &lineLog{more: make(chan struct{})} }

// Write takes what the process has written.
func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.part = append(l.part, b...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			break
		}
		l.lines = append(l.lines, string(line))
		l.part = rest
	}
	l.changed()
	return len(b), nil
}

func (l *lineLog) changed() {
	close(l.more)
	l.more = make(chan struct{})
}

func (l *lineLog) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
	l.changed()
}

// from returns the lines from number i on, whether there will be more, and what to
// wait on for them.
func (l *lineLog) from(i int) (lines []string, over bool, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines[min(i, len(l.lines)):], l.over, l.more
}

// await waits for a line that holds text, from the line after the one that the last
// await found.
func (l *lineLog) await(text string) bool {
	deadline := time.After(patience)
	for {
		lines, over, more := l.from(l.seen)
		for _, line := range lines {
			l.seen++
			if strings.Contains(line, text) {
				return true
			}
		}
		if over {
			return false
		}
		select {
		case <-more:
		case <-deadline:
			return false
		}
	}
}

// awaitLines waits until n lines have come; false: there will be no more.
func (l *lineLog) awaitLines(n int) bool {
	deadline := time.After(patience)
	for {
		lines, over, more := l.from(0)
		if len(lines) >= n {
			return true
		}
		if over {
			return false
		}
		select {
		case <-more:
		case <-deadline:
			return false
		}
	}
}

// all is everything that was written.
func (l *lineLog) all() string {
	lines, _, _ := l.from(0)
	return strings.Join(lines, "\n")
}

// eventually polls a condition that only a real process can bring about.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-poll.C:
		case <-deadline:
			t.Fatalf("it did not happen: %s", what)
		}
	}
}

// exceptionLine is an exception as an engine sends it, without a line's end.
func exceptionLine(key, id, more string) string {
	return fmt.Sprintf(`{"idempotency_key":%q,"trace_id":"t-%s","partition_key":%q,"ledger_entity":"E-%s","match_decision":"PARTIAL","variance_amount":"-1042.37"%s}`,
		id, id, key, key, more)
}

// answer is a receipt, or an event, of the enqueue socket.
type answer struct {
	Line   int    `json:"line"`
	Status string `json:"status"`
	Seq    uint64 `json:"seq"`
	Of     uint64 `json:"of"`
	Code   string `json:"code"`
	Reason string `json:"reason"`
	State  string `json:"state"`
	Field  string `json:"field"`
	Repeat bool   `json:"repeat"`
	Event  string `json:"event"`
	Lines  int    `json:"lines"`
	Error  string `json:"error"`
}

func parseAnswer(t testing.TB, line []byte) (a answer) {
	t.Helper()
	if err := json.Unmarshal(line, &a); err != nil {
		t.Errorf("an answer that is not JSON: %q", line)
	}
	return a
}

// answers reads everything that the server says until it closes.
func answers(t testing.TB, r *bufio.Reader) (list []answer) {
	t.Helper()
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return list
		}
		list = append(list, parseAnswer(t, line))
	}
}

// checkTrail plays a trail back and reports what it breaks.
func checkTrail(t testing.TB, records []queue.Record) {
	t.Helper()
	if len(records) == 0 {
		t.Error("the trail is empty")
	}
	for i, broken := range storetest.CheckTrail(records) {
		if t.Errorf("trail: %s", broken); i == 10 {
			return
		}
	}
}
