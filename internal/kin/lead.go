package kin

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// releaseTime is how long a leader that ends waits for what it has left to be gone.
const releaseTime = time.Second

// Leader is this process, as the one from which others descend. There is one in a
// process: the mark is the process's.
type Leader struct {
	mark  Mark
	shed  func() // nil: it bears no mark
	guard []string

	mu    sync.Mutex
	child *child // the guard that runs; nil: none
	used  bool   // one was asked for: something may have been started
	sulky bool   // the last one could not be started
	over  bool
}

// child is a guard.
type child struct {
	cmd  *exec.Cmd
	pipe *os.File      // its closing is the leader's end
	gone chan struct{} // closed when it was reaped
}

// Found is what Lead met.
type Found struct {
	Ended
	// Troubles are why something that will be started may not be found again.
	Troubles []error
}

// Lead makes this process the leader of a line. What its predecessors have left is
// killed, and is gone when Lead returns. The caller makes sure that no predecessor is at
// work: it holds what only one of them can. A line without a name has no predecessors.
//
// guard is the command line of a guard, its name first; the mark is added. The error is
// a StuckError.
func Lead(line string, guard []string) (*Leader, Found, error) {
	var f Found
	if line == "" {
		line = fmt.Sprint("nobody's ", rand.Uint64())
	} else {
		mark := markOf(line, 0)
		h := hunt{limit: endTime, wanted: func(pid int) bool { return markOn(pid).sameLine(mark) && living(pid) }}
		ended, err := h.run()
		var stuck *StuckError
		if errors.As(err, &stuck) {
			return nil, f, err
		}
		if f.Ended = ended; err != nil {
			f.Troubles = append(f.Troubles, err)
		}
	}
	l := &Leader{mark: markOf(line, os.Getpid()), guard: guard}
	var err error
	if l.shed, err = l.mark.bear(); err != nil {
		f.Troubles = append(f.Troubles, err)
	}
	return l, f, nil
}

func living(pid int) bool {
	_, alive := standingOf(pid)
	return alive
}

// Guarded makes sure that there is a guard, before something is started. The error is
// that there is none; it is said once, until there is one again.
func (l *Leader) Guarded() error {
	if l.shed == nil {
		return nil // nothing is marked: Lead has said so
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used = true
	if l.child != nil || l.over {
		return nil
	}
	c, err := startGuard(append(append([]string{}, l.guard...), l.mark.String()))
	if err != nil {
		if l.sulky {
			return nil
		}
		l.sulky = true
		return fmt.Errorf("start the guard of what is started: %w", err)
	}
	l.child, l.sulky = c, false
	go l.reap(c)
	return nil
}

// startGuard starts one. It is kept away from everything that ends its leader: it
// has a session of its own, so that no terminal reaches it.
func startGuard(args []string) (*child, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()                       // the child has its own
	cmd := exec.Command("/proc/self/exe") // the very program that runs, also after an upgrade on the disk
	cmd.Args, cmd.Dir, cmd.Stdin = args, "/", r
	cmd.Env = []string{"GOTRACEBACK=none", "GOMAXPROCS=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	CloseOnExec()
	if err := cmd.Start(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return &child{cmd: cmd, pipe: w, gone: make(chan struct{})}, nil
}

// reap waits for the end of a guard; the next one is started with the next command.
func (l *Leader) reap(c *child) {
	_ = c.cmd.Wait() // it was killed, or told to end
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.child == c {
		l.child = nil
	}
	_ = c.pipe.Close()
	close(c.gone)
}

// Release ends what was started and is still there, the guard too, and lets the process
// go on without a mark. Nothing is started through the leader after it. It returns how
// many there were, or a StuckError.
func (l *Leader) Release() (int, error) {
	l.mu.Lock()
	c, used := l.child, l.used
	l.over = true
	l.mu.Unlock()
	if l.shed == nil {
		return 0, nil
	}
	l.shed() // a successor must not take this process for a descendant
	if c != nil {
		_ = c.cmd.Process.Kill() // it would do the same
		<-c.gone
	}
	if !used {
		return 0, nil
	}
	h := hunt{limit: releaseTime, wanted: func(pid int) bool { return markOn(pid) == l.mark && living(pid) }}
	ended, err := h.run()
	return ended.Count, err
}

// CloseOnExec keeps every descriptor but the standard ones from programs that are run
// from now on. Go opens all of its own that way; this is for those that the process was
// started with. On a kernel before 5.11, which cannot, those remain.
func CloseOnExec() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }
