package kin

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The test binary is also the processes that lead, descend and guard: a mark is a whole
// process's, so none of this can happen in the test's own. With "role" as its first
// argument it plays the one that the second names.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "role" {
		if err := roles[os.Args[2]](os.Args[3:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

var roles map[string]func(args []string) error

func init() {
	roles = map[string]func([]string) error{
		"guard":  func(args []string) error { return Guard(args[0], os.Stdin) },
		"lead":   func(args []string) error { return lead(args[0], args[1]) },
		"stay":   func(args []string) error { return stay(args[0]) },
		"parent": func(args []string) error { return start(args[0], "stay", nil) },
		"hammer": func([]string) error { return hammer() },
	}
}

var guardRole = []string{os.Args[0], "role", "guard"}

// stay tells its pid in a file and stays.
func stay(path string) error {
	if err := os.WriteFile(path+".part", []byte(strconv.Itoa(os.Getpid())), 0o600); err != nil {
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return err
	}
	<-time.After(time.Hour)
	return nil
}

// start runs this binary in a role, without an environment that could tell it, and waits
// for the end of a parent only.
func start(path, role string, attr *syscall.SysProcAttr) error {
	cmd := exec.Command("/proc/self/exe", "role", role, path)
	cmd.Args[0] = os.Args[0]
	cmd.Env, cmd.SysProcAttr = []string{"GORACE=atexit_sleep_ms=0"}, attr
	if role == "parent" {
		return cmd.Run()
	}
	return cmd.Start()
}

// lead leads a line, starts a few, and does what it is told on its standard input.
func lead(line, dir string) error {
	l, found, err := Lead(line, guardRole)
	if err != nil {
		return err
	}
	for _, trouble := range found.Troubles {
		if errors.Is(trouble, errUnmarked) {
			fmt.Println("unmarked", trouble)
		}
	}
	fmt.Println("led", found.Count)
	for words := bufio.NewScanner(os.Stdin); words.Scan(); {
		switch words.Text() {
		case "start":
			if err := errors.Join(l.Guarded(),
				start(filepath.Join(dir, "child"), "stay", nil),
				start(filepath.Join(dir, "stray"), "stay", &syscall.SysProcAttr{Setsid: true}),
				start(filepath.Join(dir, "orphan"), "parent", &syscall.SysProcAttr{Setpgid: true})); err != nil {
				return err
			}
		case "guarded":
			if err := l.Guarded(); err != nil {
				return err
			}
		case "unmarked":
			if err := start(filepath.Join(dir, "later"), "stay", nil); err != nil {
				return err
			}
		case "release":
			n, err := l.Release()
			if err != nil {
				return err
			}
			fmt.Println("released", n)
			continue
		}
		fmt.Println("done")
	}
	return nil
}

// hammer asks for guards from many goroutines while guards are killed, and ends in the
// middle of it.
func hammer() error {
	l, _, err := Lead("", guardRole)
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 50 {
				if err := l.Guarded(); err != nil {
					panic(err)
				}
				l.mu.Lock()
				if l.child != nil {
					_ = l.child.cmd.Process.Kill()
				}
				l.mu.Unlock()
			}
		})
	}
	if _, err := l.Release(); err != nil {
		return err
	}
	all.Wait()
	_, err = l.Release()
	return err
}

// led is a process that leads.
type led struct {
	*testing.T
	dir  string
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Scanner
	said string // what it began with
}

// newLeader starts one. Where processes cannot be marked, the test is skipped.
func newLeader(t *testing.T, line string) *led {
	t.Helper()
	l := &led{T: t, dir: t.TempDir()}
	l.cmd = exec.Command(os.Args[0], "role", "lead", line, l.dir)
	l.cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	l.cmd.Stderr = os.Stderr
	in, err := l.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	l.in, l.out = in, bufio.NewScanner(out)
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		l.kill()
		for _, name := range []string{"child", "stray", "orphan", "later"} {
			if text, err := os.ReadFile(filepath.Join(l.dir, name)); err == nil {
				pid, _ := strconv.Atoi(string(text))
				_ = syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	})
	l.said = l.hear()
	if strings.HasPrefix(l.said, "unmarked") {
		t.Skip(l.said)
	}
	return l
}

func (l *led) hear() string {
	l.Helper()
	if !l.out.Scan() {
		l.Fatalf("the leader is silent: %v", l.out.Err())
	}
	return l.out.Text()
}

// tell has it do something, and returns what it says.
func (l *led) tell(word string) string {
	l.Helper()
	if _, err := io.WriteString(l.in, word+"\n"); err != nil {
		l.Fatal(err)
	}
	return l.hear()
}

func (l *led) kill() {
	_ = l.cmd.Process.Kill() // it may have been
	_ = l.cmd.Wait()
}

// pid waits until a descendant has told its pid.
func (l *led) pid(name string) int {
	l.Helper()
	path := filepath.Join(l.dir, name)
	eventually(l.T, path+" is written", func() bool { _, err := os.Stat(path); return err == nil })
	text, err := os.ReadFile(path)
	if err != nil {
		l.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		l.Fatal(err)
	}
	return pid
}

// started has it start some, and returns their pids.
func (l *led) started() (pids []int) {
	l.Helper()
	l.tell("start")
	for _, name := range []string{"child", "stray", "orphan"} {
		pids = append(pids, l.pid(name))
	}
	return pids
}

// guards returns the guards that a leader has.
func (l *led) guards() (pids []int) {
	l.Helper()
	if err := eachProcess(func(pid int) {
		args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		words := strings.Split(strings.TrimRight(string(args), "\x00"), "\x00")
		if len(words) != 4 || !slices.Equal(words[:3], guardRole) || !living(pid) {
			return
		}
		if m, err := parseMark(words[3]); err == nil && int(m&(1<<leaderBits-1)) == l.cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}); err != nil {
		l.Fatal(err)
	}
	return pids
}

// gone waits until processes have ended.
func gone(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !living(pid) })
	}
}

// eventually polls what only another process can bring about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("not in two minutes: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
