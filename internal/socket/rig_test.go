package socket

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"
)

// socketPair returns the two ends of a connected Unix socket.
func socketPair(t testing.TB) (a, b net.Conn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ends := make([]net.Conn, len(fds))
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		if ends[i], err = net.FileConn(f); err != nil {
			t.Fatal(err)
		}
		f.Close()
		t.Cleanup(func() { ends[i].Close() })
	}
	return ends[0], ends[1]
}

// shortDir is a directory whose path leaves room for a socket's name: that of
// t.TempDir holds the test's name and may be too long.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func socketPath(t testing.TB) string { return filepath.Join(shortDir(t), "s.sock") }

// pass lets time go by in a bubble of synctest, where it costs none.
func pass(d time.Duration) { <-time.After(d) }

// listen is Listen for a test that has no doubt that it works.
func listen(t testing.TB, o ListenOptions) *Listener {
	t.Helper()
	l, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func dial(t testing.TB, path string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestMain lets a test start this binary as a process of its own: to be stopped,
// killed, or held short of descriptors, none of which can be done to a goroutine.
func TestMain(m *testing.M) {
	if role := os.Getenv("SOCKET_TEST_ROLE"); role != "" {
		os.Exit(childMain(role, os.Getenv("SOCKET_TEST_PATH")))
	}
	os.Exit(m.Run())
}

// child is such a process, listening on path. It is killed when the test ends.
type child struct {
	*exec.Cmd
	log bytes.Buffer // its stderr; complete once it was waited for
}

func startChild(t *testing.T, role, path string) *child {
	t.Helper()
	c := &child{Cmd: exec.Command(os.Args[0])}
	c.Env = append(os.Environ(), "SOCKET_TEST_ROLE="+role, "SOCKET_TEST_PATH="+path)
	c.Stderr = &c.log
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "listening\n" {
		t.Fatalf("child said %q, %v: %s", line, err, &c.log)
	}
	return c
}

// kill may be called more than once.
func (c *child) kill() {
	c.Process.Signal(syscall.SIGKILL)
	c.Wait()
}

func childMain(role, path string) int {
	if role == "few descriptors" {
		few := syscall.Rlimit{Cur: 64, Max: 64}
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &few); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	l, err := Listen(ListenOptions{Path: path, MaxConnections: 1000, Log: hclog.New(nil)})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("listening")
	err = l.Serve(context.Background(), func(_ context.Context, c *Conn) {
		io.WriteString(c, "served\n")
		io.Copy(io.Discard, c)
	})
	fmt.Fprintln(os.Stderr, "serve:", err)
	return 1
}
