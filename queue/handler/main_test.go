package handler_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/queue/handler"
)

// The test binary is also the commands that it runs: with "child" as its first
// argument it plays the role that the second one names.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "child" {
		os.Exit(roles[os.Args[2]](os.Args[3:]))
	}
	os.Exit(m.Run())
}

// roles are what a command may do; each returns its exit status.
var roles map[string]func(args []string) int

func init() {
	roles = map[string]func([]string) int{
		"exit":      exitWith,
		"save":      saveStdin,
		"environ":   func(args []string) int { return write(args[0], strings.Join(os.Environ(), "\n")) },
		"flood":     flood,
		"endless":   endless,
		"wait":      func(args []string) int { return waitForever(args[0]) },
		"deaf":      func(args []string) int { signal.Ignore(syscall.SIGTERM); return waitForever(args[0]) },
		"polite":    polite,
		"family":    family,
		"daemon":    daemon,
		"countdown": func([]string) int { <-time.After(100 * time.Millisecond); return 0 },
	}
}

// exitWith prints args[1] on stdout and args[2] on stderr and exits with args[0].
func exitWith(args []string) int {
	if len(args) > 1 {
		fmt.Println(args[1])
	}
	if len(args) > 2 {
		fmt.Fprintln(os.Stderr, args[2])
	}
	status, err := strconv.Atoi(args[0])
	if err != nil {
		return 99
	}
	return status
}

// write writes a file in one step, so that who waits for it sees all of it.
func write(path, text string) int {
	if err := os.WriteFile(path+".part", []byte(text), 0o600); err != nil {
		return 98
	}
	if err := os.Rename(path+".part", path); err != nil {
		return 97
	}
	return 0
}

func saveStdin(args []string) int {
	all, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 96
	}
	return write(args[0], string(all))
}

// flood writes args[0] MiB without a newline to stdout and a 64th of it to stderr.
func flood(args []string) int {
	mib, _ := strconv.Atoi(args[0])
	block := []byte(strings.Repeat("x", 1<<20))
	for i := range mib {
		if _, err := os.Stdout.Write(block); err != nil {
			return 95
		}
		if i%64 == 0 {
			if _, err := os.Stderr.Write(block); err != nil {
				return 94
			}
		}
	}
	return 0
}

// endless writes lines to both streams until it is killed.
func endless([]string) int {
	signal.Ignore(syscall.SIGTERM)
	go func() {
		for {
			fmt.Fprintln(os.Stderr, "y")
		}
	}()
	out := bufio.NewWriter(os.Stdout)
	for {
		fmt.Fprintln(out, "y")
	}
}

// waitForever tells its pid in a file and stays.
func waitForever(path string) int {
	if s := write(path, strconv.Itoa(os.Getpid())); s != 0 {
		return s
	}
	for {
		<-time.After(time.Hour) // a bare select would be a deadlock, and end
	}
}

// polite ends with args[2] when it is asked to, and leaves a file behind.
func polite(args []string) int {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGTERM)
	if s := write(args[0], "started"); s != 0 {
		return s
	}
	<-asked
	fmt.Println(`{"outcome":"POSTED"}`)
	if s := write(args[1], "asked"); s != 0 {
		return s
	}
	return exitWith(args[2:3])
}

// family starts a child of its own, which holds the pipes, and then exits with args[1],
// stays if that is "stay", or dies of a signal if that is "die". The child is in its group,
// or with "setpgid" or "setsid" as args[2] in a group or session of its own.
func family(args []string) int {
	cmd := exec.Command(os.Args[0], "child", "deaf", args[0])
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if len(args) > 2 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: args[2] == "setpgid", Setsid: args[2] == "setsid"}
	}
	if cmd.Start() != nil {
		return 93
	}
	for range time.Tick(time.Millisecond) {
		if _, err := os.Stat(args[0]); err == nil {
			break
		}
	}
	switch args[1] {
	case "stay":
		<-time.After(time.Hour)
	case "die":
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	return exitWith(args[1:2])
}

// daemon runs a handler, as the process that the test will kill.
func daemon(args []string) int {
	e, err := handler.NewExec(handler.ExecOptions{
		Name: "x", Command: []string{os.Args[0], "child", "wait", args[0]}, Timeout: time.Hour,
	})
	if err != nil {
		return 92
	}
	e.Handle(backgroundContext, &queue.Delivery{Message: queue.Stored{Line: []byte("{}")}})
	return 91
}

// pidIn waits until a process has told its pid in a file.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	eventually(t, path+" is written", func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(string(text))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	return pid
}

// gone waits until a process has ended. What nobody has reaped has ended too.
func gone(t *testing.T, pid int) {
	t.Helper()
	eventually(t, fmt.Sprintf("process %d has ended", pid), func() bool { return !running(pid) })
}

func running(pid int) bool {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return false
	}
	after := strings.TrimSpace(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	return after[0] != 'Z' && after[0] != 'X'
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
