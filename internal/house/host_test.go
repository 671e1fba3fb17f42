package house

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/queue"
)

// This file has the host fail under the running program: its disk, its clock's patience,
// its file, its descriptors.

// interfere has strace change what the kernel answers the process from now on, until the
// returned function is called. The test is skipped where that is not allowed.
func (p *process) interfere(t *testing.T, call, how string) (stop func()) {
	t.Helper()
	program, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("FAULT NOT INJECTED: strace is not installed")
	}
	strace := exec.Command(program, "-f", "-o", "/dev/null", "-p", fmt.Sprint(p.cmd.Process.Pid),
		"-e", "trace="+call, "-e", "inject="+call+":"+how)
	says, err := strace.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := strace.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	attached := make(chan string, 1)
	go func() {
		defer close(ended)
		first, _ := bufio.NewReader(says).ReadString('\n')
		attached <- first
		_, _ = io.Copy(io.Discard, says)
		_ = strace.Wait() // it ends with its process, or by the signal below
	}()
	stop = func() {
		_ = strace.Process.Signal(syscall.SIGINT) // it lets go of the process
		<-ended
	}
	t.Cleanup(stop)
	if said := <-attached; !strings.Contains(said, "attached") {
		t.Skipf("FAULT NOT INJECTED: strace: %s", said)
	}
	return stop
}

// failing has every sync of the process fail from now on.
func (p *process) failing(t *testing.T) { t.Helper(); p.interfere(t, "fdatasync", "error=EIO") }

// A commit whose end nobody knows is answered by nobody and ends the process, whatever it
// was to make true. The next start has all that was answered, and goes on.
func TestFailingDisk(t *testing.T) {
	// keep begins with what is accepted, done, dead, running, and ready, in this order.
	keep := func(t *testing.T) (*site, *process, goPipe) {
		t.Parallel()
		s := newSlow(t, 3600, `echo $$ >> started; read word < go; test "$word" = reject && exit 65; exit 0`)
		p := s.serve()
		pipe := s.letGo(1)
		for _, id := range []string{"done", "dead", "runs", "waits"} {
			if a := s.sendOne(exceptionLine("A", id, `,"route":"AUTO_RESOLVE"`)); a.Status != "accepted" {
				t.Fatalf("%+v", a)
			}
			switch id {
			case "done":
				s.awaitDone(1)
			case "dead":
				if _, err := pipe.f.WriteString("reject\n"); err != nil {
					t.Fatal(err)
				}
				eventually(t, "it is dead", func() bool { return s.counts().Dead == 1 })
				s.command("dlq", "discard", "--all", "--reason", "so that its key goes on")
			case "runs":
				s.running(3)
			}
		}
		return s, p, pipe
	}
	// after the end: nothing was lost, and the rest is worked off.
	after := func(t *testing.T, s *site, p *process) {
		t.Helper()
		if status := p.wait(); status != 1 || !strings.Contains(p.log.all(), "hint: ") {
			t.Errorf("exit status %d\n%s", status, p.log.all())
		}
		if strings.Contains(p.log.all(), "goroutine ") {
			t.Errorf("a stack trace:\n%s", p.log.all())
		}
		p = s.serve()
		s.letGo(100)
		for _, id := range []string{"done", "dead", "runs", "waits"} {
			if a := s.sendOne(exceptionLine("A", id, `,"route":"AUTO_RESOLVE"`)); a.Status != "duplicate" {
				t.Errorf("%s was accepted before: %+v", id, a)
			}
		}
		if a := s.sendOne(exceptionLine("A", "new", `,"route":"AUTO_RESOLVE"`)); a.Status != "accepted" && a.Status != "duplicate" {
			t.Errorf("%+v", a)
		}
		eventually(t, "all is worked off", func() bool { c := s.counts(); return c.Ready+c.Leased == 0 })
		p.stop()
		s.sound()
	}
	for name, act := range map[string]func(t *testing.T, s *site, p *process, pipe goPipe){
		"as a line is stored": func(t *testing.T, s *site, _ *process, _ goPipe) {
			for _, a := range s.sendAll(exceptionLine("A", "new", `,"route":"AUTO_RESOLVE"`) + "\n") {
				if a.Event == "" {
					t.Errorf("a receipt: %+v", a)
				}
			}
		},
		"as a handler's success is settled": func(_ *testing.T, _ *site, _ *process, pipe goPipe) { pipe.word(1) },
		"as a dead letter is made": func(t *testing.T, _ *site, _ *process, pipe goPipe) {
			if _, err := pipe.f.WriteString("reject\n"); err != nil {
				t.Fatal(err)
			}
		},
		"as an operator asks": func(t *testing.T, s *site, _ *process, _ goPipe) {
			pause := s.start("pause")
			if status := pause.wait(); status != 1 {
				t.Errorf("pause: exit status %d\n%s%s", status, pause.out.all(), pause.log.all())
			}
		},
		"as it drains": func(_ *testing.T, _ *site, p *process, pipe goPipe) {
			p.signal(syscall.SIGTERM)
			p.await("draining")
			pipe.word(100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, p, pipe := keep(t)
			p.failing(t)
			act(t, s, p, pipe)
			after(t, s, p)
		})
	}
	t.Run("as a consumer comes", func(t *testing.T) {
		s, p, _ := keep(t)
		p.failing(t)
		c, err := net.Dial("unix", s.consumeSocket())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintln(c, `{"attach":"ui","prefetch":1}`); err != nil {
			t.Fatal(err)
		}
		after(t, s, p)
	})
	t.Run("as an archive is made", func(t *testing.T) {
		s, p, _ := keep(t)
		stop := p.interfere(t, "fsync", "error=EIO")
		archive := s.start("archive", s.path("copy.db"))
		if status := archive.wait(); status != 1 || !strings.Contains(archive.log.all(), "input/output error") {
			t.Errorf("exit status %d\n%s", status, archive.log.all())
		}
		if left := s.unfinished(); len(left) > 0 {
			t.Errorf("it has left %v", left)
		}
		stop()
		if a := s.sendOne(exceptionLine("B", "other", `,"route":"AUTO_RESOLVE"`)); a.Status != "accepted" {
			t.Errorf("the service was to go on: %+v", a)
		}
		p.kill()
		s.serve().kill()
		s.sound()
	})
}

// A disk that takes longer for a sync than a lease lasts expires none.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
route "AUTO_RESOLVE" { handler = "true" }
handler "exec" "true" { command = ["/bin/true"] }
queue { lease_timeout_ms = 100 }
`)
	p := s.serve()
	p.interfere(t, "fdatasync", "delay_exit=200000")
	var lines strings.Builder
	const n = 6
	for i := range n {
		fmt.Fprintln(&lines, exceptionLine("A", fmt.Sprint("k", i), `,"route":"AUTO_RESOLVE"`))
	}
	s.sendAll(lines.String())
	s.awaitDone(n)
	p.stop()
	s.onceEach(n)
}

// onceEach checks that n messages were handed out once each, and that nothing was taken
// for lost.
func (s *site) onceEach(n int) {
	s.Helper()
	given := 0
	for _, r := range s.trail() {
		switch r.Event {
		case queue.EventDispatched:
			given++
		case queue.EventReclaimed, queue.EventRetried, queue.EventReleased:
			s.Errorf("%s of seq %d: %s", r.Event, r.Seq, r.Reason)
		}
	}
	if given != n {
		s.Errorf("%d deliveries of %d messages", given, n)
	}
	s.sound()
}

// A process that stands still for longer than its leases (SIGSTOP, a suspended machine)
// finds its handlers at work and lets them finish.
func TestStandstill(t *testing.T) {
	t.Parallel()
	const lease = 200 * time.Millisecond
	s := newSlow(t, 3600, waitsForGo, "a", "b", "c")
	s.write("config.hcl", strings.Replace(s.read("config.hcl"), "queue {", fmt.Sprintf("queue {\n lease_timeout_ms = %d", lease.Milliseconds()), 1))
	p := s.serve()
	s.running(2)
	p.signal(syscall.SIGSTOP)
	still := time.Now()
	eventually(t, "the leases' time is over", func() bool { return time.Since(still) > 5*lease })
	s.letGo(1) // one has its answer before it is seen, one after
	p.signal(syscall.SIGCONT)
	s.awaitDone(1)
	s.letGo(2)
	s.awaitDone(3)
	p.stop()
	s.onceEach(3)
}

// What is done to the file of a running store by others ends the process, and no line is
// answered that went into a file that is not there any more.
func TestFileTakenAway(t *testing.T) {
	for name, take := range map[string]func(s *site) error{
		"removed":   func(s *site) error { return os.Remove(s.store()) },
		"moved":     func(s *site) error { return os.Rename(s.store(), s.path("elsewhere.db")) },
		"cut short": func(s *site) error { return os.Truncate(s.store(), 8192) },
		"replaced": func(s *site) error {
			older, err := os.ReadFile(s.store())
			if err != nil {
				return err
			}
			s.write("older.db", string(older))
			return os.Rename(s.path("older.db"), s.store())
		},
		"written over by an older state": func(s *site) error {
			older, err := os.ReadFile(s.store())
			if err != nil {
				return err
			}
			for i := range 3 {
				s.sendOne(exceptionLine("B", fmt.Sprint("newer-", i), ""))
			}
			return os.WriteFile(s.store(), older, 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "")
			p := s.serve()
			if a := s.sendOne(exceptionLine("A", "before", "")); a.Status != "accepted" {
				t.Fatalf("%+v", a)
			}
			if err := take(s); err != nil {
				t.Fatal(err)
			}
			if c, err := net.Dial("unix", s.enqueueSocket()); err == nil { // it may have noticed by itself
				_, _ = fmt.Fprintln(c, exceptionLine("A", "after", ""))
				for _, a := range answers(t, bufio.NewReader(c)) {
					if a.Event == "" {
						t.Errorf("a receipt: %+v", a)
					}
				}
				_ = c.Close()
			}
			if status := p.wait(); status != 1 || !strings.Contains(p.log.all(), "hint: ") || strings.Contains(p.log.all(), "goroutine ") {
				t.Errorf("exit status %d\n%s", status, p.log.all())
			}
		})
	}
}

// Without a descriptor left no command can be started and no connection taken: nothing is
// counted against anybody, and all goes on when there are some again.
func TestNoDescriptors(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
route "AUTO_RESOLVE" { handler = "true" }
handler "exec" "true" { command = ["/bin/true"] }
queue {
  retry_initial_ms = 10
  retry_max_ms     = 50
}
`)
	p := s.serve()
	c := s.connect() // it is served before there are none
	in := bufio.NewReader(c)
	line := func(id string) {
		t.Helper()
		if _, err := fmt.Fprintln(c, exceptionLine("A", id, `,"route":"AUTO_RESOLVE"`)); err != nil {
			t.Fatal(err)
		}
		text, err := in.ReadBytes('\n')
		if err != nil || parseAnswer(t, text).Status != "accepted" {
			t.Fatalf("%s %v", text, err)
		}
	}
	line("first")
	s.awaitDone(1)
	var was unix.Rlimit
	limit := func(l *unix.Rlimit, old *unix.Rlimit) {
		t.Helper()
		if err := unix.Prlimit(p.cmd.Process.Pid, unix.RLIMIT_NOFILE, l, old); err != nil {
			t.Fatal(err)
		}
	}
	limit(nil, &was)
	limit(&unix.Rlimit{Cur: 3, Max: was.Max}, nil)
	line("second")
	p.await("handler unavailable; its route waits")
	limit(&was, nil)
	s.awaitDone(2)
	if a := s.sendOne(exceptionLine("A", "third", `,"route":"AUTO_RESOLVE"`)); a.Status != "accepted" {
		t.Errorf("%+v", a)
	}
	s.awaitDone(3)
	p.stop()
	for _, seq := range []uint64{1, 2, 3} {
		if e := s.exception(seq); e.Deliveries != 1 || e.FailedAttempts != 0 {
			t.Errorf("seq %d: %d deliveries, %d failed attempts", seq, e.Deliveries, e.FailedAttempts)
		}
	}
	s.sound()
}

// A log that nobody reads, as behind a pipe whose other end hangs, stops neither the work
// nor the end.
func TestLogThatNobodyReads(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
route "AUTO_RESOLVE" { handler = "false" }
handler "exec" "false" { command = ["/bin/false"] }
queue { max_attempts = 1 }
`)
	hung, log, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	if _, err := unix.FcntlInt(log.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(s.binary, "--config", s.path("config.hcl"), "serve")
	cmd.Dir, cmd.Stderr = s.dir, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = log.Close() // the process has its own
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state says how it ended
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	eventually(t, "it serves", func() bool {
		c, err := net.Dial("unix", s.enqueueSocket())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	var lines strings.Builder
	const n = 60 // each is a line of the log
	for i := range n {
		fmt.Fprintln(&lines, exceptionLine(fmt.Sprint("K", i), fmt.Sprint("k", i), `,"route":"AUTO_RESOLVE"`))
	}
	s.sendAll(lines.String())
	eventually(t, "all is worked off", func() bool { return s.counts().Dead == n })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("it does not end")
	}
	if status := cmd.ProcessState.ExitCode(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	s.sound()
}
