package house

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"breakwater/queue"
)

// slowHandlers is a configuration whose commands say that they run (their process
// in the file started) and wait for a word in the pipe go.
const slowHandlers = `
route "AUTO_RESOLVE" { handler = "slow" }
handler "exec" "slow" {
  command    = ["/bin/sh", "slow.sh"]
  timeout_ms = 600000
}
queue {
  concurrency     = 2
  drain_timeout_s = %d
}
`

// newSlow makes a site with such a configuration, and an exception for each key.
func newSlow(t *testing.T, drainSeconds int, script string, keys ...string) *site {
	s := newSite(t, fmt.Sprintf(slowHandlers, drainSeconds))
	// The program runs commands in the folder that it was started in.
	s.write("slow.sh", script)
	if err := syscall.Mkfifo(s.path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.startPaused(keys)
	p.stop()
	return s
}

// startPaused stores exceptions while nobody takes them: their route waits for
// consumers. The next start has the command again.
func (s *site) startPaused(keys []string) *process {
	s.Helper()
	good := s.read("config.hcl")
	s.write("config.hcl", strings.Replace(good, `handler = "slow"`, `handler = "consumers"`, 1))
	p := s.serve()
	for i, key := range keys {
		id := fmt.Sprintf("%s.%d", key, i)
		if a := s.sendOne(exceptionLine(key, id, `,"route":"AUTO_RESOLVE"`)); a.Status != "accepted" {
			s.Fatalf("%s: %+v", id, a)
		}
	}
	s.write("config.hcl", good)
	return p
}

// connect opens a connection to the enqueue socket.
func (s *site) connect() *net.UnixConn {
	s.Helper()
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.enqueueSocket(), Net: "unix"})
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = c.Close() })
	return c
}

// sendOne sends one line and returns its receipt.
func (s *site) sendOne(line string) answer {
	s.Helper()
	list := s.sendAll(line + "\n")
	if len(list) == 0 {
		s.Fatalf("no receipt for %s", line)
	}
	return list[0]
}

// sendAll sends text on a connection of its own, half-closes, and returns all that
// comes back.
func (s *site) sendAll(text string) []answer {
	s.Helper()
	c := s.connect()
	defer c.Close()
	go func() {
		_, _ = c.Write([]byte(text)) // what is missing shows in the answers
		_ = c.CloseWrite()
	}()
	return answers(s, bufio.NewReader(c))
}

// running waits until n commands run, and returns their processes.
func (s *site) running(n int) (pids []int) {
	s.Helper()
	eventually(s, fmt.Sprintf("%d commands run", n), func() bool {
		return len(strings.Fields(s.read("started"))) >= n
	})
	for _, text := range strings.Fields(s.read("started")) {
		pid, err := strconv.Atoi(text)
		if err != nil {
			s.Fatal(err)
		}
		pids = append(pids, pid)
	}
	return pids
}

// gone waits until processes have ended.
func (s *site) gone(pids []int) {
	s.Helper()
	for _, pid := range pids {
		eventually(s, "a command that was cut off has ended", func() bool { return syscall.Kill(pid, 0) == syscall.ESRCH })
	}
}

// last returns the last record of an event, which must be there.
func (s *site) last(e queue.Event) queue.Record {
	s.Helper()
	for _, r := range slices.Backward(s.trail()) {
		if r.Event == e {
			return r
		}
	}
	s.Fatalf("there is no record %s", e)
	return queue.Record{}
}

// drained returns what the last DRAINED record says.
func (s *site) drained() (d struct {
	Clean    bool  `json:"clean"`
	Released int   `json:"released"`
	CutOff   int   `json:"cut_off"`
	Ready    int64 `json:"ready"`
	Leased   int64 `json:"leased"`
	Done     int64 `json:"done"`
},
) {
	s.Helper()
	r := s.last(queue.EventDrained)
	if err := json.Unmarshal(r.Detail, &d); err != nil {
		s.Fatalf("detail %s: %v", r.Detail, err)
	}
	return d
}

// unburnt checks that messages are ready and that nothing was counted against them.
func (s *site) unburnt(seqs ...uint64) {
	s.Helper()
	for _, seq := range seqs {
		e := s.exception(seq)
		if e.State != queue.Ready || e.Deliveries != 0 || e.FailedAttempts != 0 {
			s.Errorf("seq %d: %s, %d deliveries, %d failed attempts; want it ready and nothing counted", seq, e.State, e.Deliveries, e.FailedAttempts)
		}
	}
}

const (
	waitsForGo = `echo $$ >> started; read word < go; echo '{"outcome":"POSTED"}'`
	ignoresAll = `trap '' TERM INT HUP; echo $$ >> started; while :; do read word < go; done`
)

func TestDrain(t *testing.T) {
	t.Run("a handler that ends in time makes it clean", func(t *testing.T) {
		t.Parallel()
		s := newSlow(t, 3600, waitsForGo, "a", "a", "b", "b", "c", "c")
		p := s.serve()
		s.running(2)
		p.signal(syscall.SIGTERM)
		p.await("draining")
		s.letGo(100)
		if status := p.wait(); status != 0 {
			t.Errorf("exit status %d\n%s", status, p.log.all())
		}
		d := s.drained()
		if !d.Clean || d.CutOff != 0 || d.Done != 2 || d.Ready != 4 || d.Leased != 0 {
			t.Errorf("DRAINED says %+v", d)
		}
		var open []uint64
		for seq := uint64(1); seq <= 6; seq++ {
			if e := s.exception(seq); e.State == queue.Done {
				if e.Outcome != "POSTED" {
					t.Errorf("seq %d: outcome %q", seq, e.Outcome)
				}
				continue
			}
			open = append(open, seq)
		}
		s.unburnt(open...)
		s.sound()
	})
	t.Run("a handler that ignores everything is cut off and put back", func(t *testing.T) {
		t.Parallel()
		s := newSlow(t, 1, ignoresAll, "a", "b", "b", "c")
		p := s.serve()
		pids := s.running(2)
		p.signal(syscall.SIGTERM)
		s.cutOff(p, pids, 1, 2, 3, 4)
	})
	t.Run("a second signal does not wait for the time limit", func(t *testing.T) {
		t.Parallel()
		s := newSlow(t, 3600, ignoresAll, "a", "b", "c")
		p := s.serve()
		pids := s.running(2)
		p.signal(syscall.SIGTERM)
		p.await("draining")
		p.signal(syscall.SIGTERM)
		s.cutOff(p, pids, 1, 2, 3)
	})
	t.Run("two signals at once are two signals", func(t *testing.T) {
		t.Parallel()
		s := newSlow(t, 3600, ignoresAll, "a", "b", "c")
		p := s.serve()
		pids := s.running(2)
		p.signal(syscall.SIGINT)
		p.signal(syscall.SIGTERM)
		s.cutOff(p, pids, 1, 2, 3)
	})
	t.Run("after a kill only what was running counts", func(t *testing.T) {
		t.Parallel()
		s := newSlow(t, 3600, waitsForGo, "a", "b", "c", "d", "e")
		p := s.serve()
		pids := s.running(2)
		p.kill()
		s.gone(pids) // they die with the program
		s.write("config.hcl", strings.Replace(s.read("config.hcl"), `handler = "slow"`, `handler = "consumers"`, 1))
		s.serve().stop()
		counted := 0
		for seq := uint64(1); seq <= 5; seq++ {
			e := s.exception(seq)
			counted += e.Deliveries
			if e.State != queue.Ready || e.Deliveries > 1 || e.FailedAttempts != 0 {
				t.Errorf("seq %d: %s, %d deliveries, %d failed attempts", seq, e.State, e.Deliveries, e.FailedAttempts)
			}
		}
		if counted != 2 {
			t.Errorf("%d deliveries count, 2 commands were running", counted)
		}
		s.sound()
	})
}

// goPipe is the pipe that commands wait for a word from.
type goPipe struct {
	*site
	f *os.File
}

// letGo lets so many commands end, now or when they come to it.
func (s *site) letGo(n int) goPipe {
	s.Helper()
	f, err := os.OpenFile(s.path("go"), os.O_RDWR, 0)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = f.Close() })
	pipe := goPipe{s, f}
	pipe.word(n)
	return pipe
}

// word writes n more words.
func (p goPipe) word(n int) {
	p.Helper()
	if _, err := p.f.WriteString(strings.Repeat("go\n", n)); err != nil {
		p.Fatal(err)
	}
}

// cutOff checks a drain that was not clean: exit status, processes, counts.
func (s *site) cutOff(p *process, pids []int, seqs ...uint64) {
	s.Helper()
	if status := p.wait(); status != 5 {
		s.Errorf("exit status %d, want 5\n%s", status, p.log.all())
	}
	if !strings.Contains(p.log.all(), "hint: ") {
		s.Errorf("no hint for who reads the log:\n%s", p.log.all())
	}
	s.gone(pids)
	d := s.drained()
	if d.Clean || d.CutOff != 2 || d.Done != 0 || d.Leased != 0 || d.Ready != int64(len(seqs)) {
		s.Errorf("DRAINED says %+v", d)
	}
	s.unburnt(seqs...)
	s.sound()
}

// sound checks the whole file of a process that has ended.
func (s *site) sound() {
	s.Helper()
	s.verify()
	checkTrail(s, s.trail())
}

func TestSignals(t *testing.T) {
	t.Run("SIGTERM at any moment of a start leaves a sound store", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		s.serve().stop()
		for lines := range 4 {
			p := s.start("serve")
			p.log.awaitLines(lines + 1)
			p.signal(syscall.SIGTERM)
			if status := p.wait(); status != 0 {
				t.Errorf("after %d lines of log: exit status %d\n%s", lines+1, status, p.log.all())
			}
			s.sound()
		}
	})
	t.Run("SIGHUP is answered and never kills", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		p := s.start("serve")
		p.log.awaitLines(1)
		p.signal(syscall.SIGHUP) // while it starts
		p.await("ready")
		for range 20 {
			p.signal(syscall.SIGHUP)
		}
		p.await("reloaded: the configuration is the same")
		if a := s.sendOne(exceptionLine("k", "1", "")); a.Status != "accepted" {
			t.Errorf("after SIGHUP: %+v", a)
		}
		p.stop()
		s.sound()
	})
}
