package handler

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"breakwater/internal/kin"
	"breakwater/queue"
)

const (
	// stopGrace is how long before its time limit a command is asked to end
	// (SIGTERM) before it is made to, but no more than a tenth of the limit.
	stopGrace = 2 * time.Second
	// drainGrace is how long the pipes of a command that has ended, and whose
	// group was killed, may still be held open: by a process that left the group.
	drainGrace = 500 * time.Millisecond
)

// ExecOptions says which command to run.
type ExecOptions struct {
	// Name is the handler's name in the configuration.
	Name string
	// Command is the program and its arguments; no shell sees it. A program
	// without a slash is looked for in PATH each time.
	Command []string
	// Timeout is the command's time limit, the grace after SIGTERM included.
	Timeout time.Duration
	// Env names the variables that are passed on besides PATH.
	Env []string
	// LookupEnv is where their values come from; nil: the process's environment.
	LookupEnv func(name string) (value string, ok bool)
	// Starting is called before each command is started; nil: nobody is told.
	Starting func()
}

// Exec runs a command for each delivery; see the package comment. It may be used by
// several goroutines.
type Exec struct {
	command []string
	timeout time.Duration
	grace   time.Duration // of the timeout: from SIGTERM to SIGKILL
	env     []string      // what does not depend on the delivery

	starting func()
}

// NewExec returns the handler. The error names the option that is wrong. That the
// program can be run is not checked here: it may come and go, and each delivery
// finds out.
func NewExec(o ExecOptions) (*Exec, error) {
	if len(o.Command) == 0 || o.Command[0] == "" {
		return nil, fmt.Errorf("handler %s: option Command is missing", o.Name)
	}
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("handler %s: option Timeout cannot be %v", o.Name, o.Timeout)
	}
	env, err := passedEnv(o.Env, o.LookupEnv)
	if err != nil {
		return nil, fmt.Errorf("handler %s: option Env: %w", o.Name, err)
	}
	starting := o.Starting
	if starting == nil {
		starting = func() {}
	}
	return &Exec{command: o.Command, timeout: o.Timeout, grace: min(stopGrace, o.Timeout/10), env: env, starting: starting}, nil
}

// Handle runs the command and returns what its exit means. It returns soon after
// ctx has ended: that is the end of a grace already (the drain's), so the command is
// killed at once.
func (e *Exec) Handle(ctx context.Context, d *queue.Delivery) queue.Answer {
	return e.HandleAsked(ctx, nil, d)
}

// HandleAsked is Handle for a ctx that is about to end once asked is closed: then the
// command is asked to end by itself (SIGTERM), as shortly before its time limit.
func (e *Exec) HandleAsked(ctx context.Context, asked <-chan struct{}, d *queue.Delivery) queue.Answer {
	if ctx.Err() != nil {
		return notBegun
	}
	stdin := append(queue.AppendDelivery(nil, d, false), '\n')
	var out firstLine
	var diag tail
	cmd := exec.Command(e.command[0], e.command[1:]...)
	cmd.Env = deliveryEnv(e.env, d)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), &out, &diag
	cmd.WaitDelay = drainGrace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}

	stopped, err := e.run(ctx, asked, cmd)
	if err != nil {
		return queue.Unavailable("cannot start: "+err.Error(), 0)
	}
	if cmd.ProcessState == nil { // somebody else has reaped it
		return queue.Answer{Verb: queue.Retry, Reason: "how it ended is not known", Stderr: diag.text(), Unanswered: true}
	}
	a := e.judge(stopped, cmd.ProcessState.Sys().(syscall.WaitStatus), &out, &diag)
	a.Stderr = diag.text()
	return a
}

// run starts the command and waits until it has ended, all of it. The error is that
// it did not start.
//
// The kernel sends the parent-death signal when the thread that started the child
// ends, not the process: so this goroutine keeps its thread until the child is gone.
func (e *Exec) run(ctx context.Context, asked <-chan struct{}, cmd *exec.Cmd) (stop, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	e.starting()
	kin.CloseOnExec()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	pid := cmd.Process.Pid
	exited, stopped := make(chan struct{}), make(chan stop)
	go func() { stopped <- e.watch(ctx, asked, pid, exited) }()
	awaitExit(pid)
	close(exited)
	why := <-stopped
	// The child is a zombie still, so that its number can be nobody else's: the
	// last moment at which its group and session may safely be named. Whatever is
	// not a success will be tried again, so all of it is ended. After a success, which
	// is the rule, its group is: looking for what has left it takes longer than many
	// a command.
	if hasSucceeded(pid) {
		killGroup(pid, syscall.SIGKILL)
	} else {
		kin.EndSession(pid)
	}
	// What Wait adds are errors of the pipes: the exit status alone decides.
	_ = cmd.Wait()
	return why, nil
}

// stop is why a command was told to end, or made to; zero: it was not.
type stop int

const (
	byLimit stop = iota + 1
	byContext
)

// watch asks the command to end shortly before its time limit, or when asked is
// closed, and stops it at the limit, or when ctx ends, until the command has exited.
func (e *Exec) watch(ctx context.Context, asked <-chan struct{}, pid int, exited <-chan struct{}) (why stop) {
	limit := time.NewTimer(e.timeout - e.grace)
	defer limit.Stop()
	for late := false; ; {
		select {
		case <-exited:
			return why
		case <-ctx.Done():
			if why == 0 && hasExited(pid) {
				<-exited
				return why
			}
			killGroup(pid, syscall.SIGKILL)
			return byContext
		case <-asked:
			if asked = nil; why == 0 {
				why = byContext
				kin.SignalSession(pid, syscall.SIGTERM)
			}
		case <-limit.C:
			// A process that was stalled itself finds both due. Who ended before it
			// was told to has ended in time, whatever the clock says now.
			if why == 0 && hasExited(pid) {
				<-exited
				return why
			}
			if late {
				killGroup(pid, syscall.SIGKILL)
				return byLimit
			}
			if late = true; why == 0 {
				why = byLimit
				kin.SignalSession(pid, syscall.SIGTERM)
			}
			limit.Reset(e.grace)
		}
	}
}

// The exits that mean something, as sysexits.h has them.
const (
	exitData        = 65 // EX_DATAERR
	exitUnavailable = 69 // EX_UNAVAILABLE
	exitNoPerm      = 77 // EX_NOPERM
	exitConfig      = 78 // EX_CONFIG
)

// cutOff is the answer of what was not given its time, notBegun of what was not begun.
var (
	cutOff   = queue.Answer{Verb: queue.Release, Reason: "cut off", Unanswered: true}
	notBegun = queue.Answer{Verb: queue.Release, Reason: "cut off before it began"}
)

// bySignal and the number of a signal are the exit status of a shell whose command has
// died of it.
const (
	bySignal   = 128
	lastSignal = 64 // there is, on Linux
)

// judge turns the end of a command into an answer. What exits by itself has answered,
// also after it was asked to end: whoever listens to SIGTERM says with its status how
// far it has come. What dies of a signal has not.
func (e *Exec) judge(stopped stop, ws syscall.WaitStatus, out *firstLine, diag *tail) queue.Answer {
	switch {
	case !ws.Signaled():
	case stopped == byContext:
		return cutOff
	case stopped == byLimit:
		return queue.Answer{Verb: queue.Retry, Reason: fmt.Sprintf("time limit of %v", e.timeout), Unanswered: true}
	default:
		return queue.Answer{Verb: queue.Retry, Reason: "killed by a signal: " + ws.Signal().String(), Unanswered: true}
	}
	reason := fmt.Sprintf("exit status %d", ws.ExitStatus())
	if last := diag.lastLine(); last != "" {
		reason += ": " + last
	}
	switch ws.ExitStatus() {
	case 0:
		// The answer says itself what is wrong with it, for the trail.
		a, _ := ParseAnswer(out.line())
		return a
	case exitData:
		return queue.Answer{Verb: queue.Reject, Reason: reason}
	case exitUnavailable, exitNoPerm, exitConfig:
		return queue.Unavailable(reason, 0)
	}
	shell := ws.ExitStatus() > bySignal && ws.ExitStatus() <= bySignal+lastSignal
	return queue.Answer{Verb: queue.Retry, Reason: reason, Unanswered: shell}
}
