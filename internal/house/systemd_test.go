package house

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// notifications is a service manager's socket.
type notifications struct {
	t    *testing.T
	conn *net.UnixConn
}

func (s *site) manager(t *testing.T) *notifications {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: s.path("notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s.env = append(s.env, "NOTIFY_SOCKET="+s.path("notify"))
	return &notifications{t, conn}
}

// await returns the next message that holds an assignment, and all before it.
func (n *notifications) await(assignment string) (before []string) {
	n.t.Helper()
	buf := make([]byte, 4096)
	for {
		if err := n.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
			n.t.Fatal(err)
		}
		got, err := n.conn.Read(buf)
		if err != nil {
			n.t.Fatalf("waiting for %s: %v; came: %q", assignment, err, before)
		}
		message := string(buf[:got])
		for line := range strings.SplitSeq(message, "\n") {
			if line == assignment {
				return before
			}
		}
		before = append(before, message)
	}
}

func TestSystemd(t *testing.T) {
	t.Run("READY means that the socket accepts", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		n := s.manager(t)
		p := s.start("serve")
		n.await("READY=1")
		if a := s.sendOne(exceptionLine("k", "at once", "")); a.Status != "accepted" {
			t.Errorf("%+v", a)
		}
		p.signal(syscall.SIGTERM)
		n.await("STOPPING=1")
		if status := p.wait(); status != 0 {
			t.Errorf("exit status %d", status)
		}
	})
	t.Run("the watchdog is fed", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		n := s.manager(t)
		s.env = append(s.env, "WATCHDOG_USEC=300000")
		p := s.start("serve")
		n.await("READY=1")
		for range 3 {
			n.await("WATCHDOG=1")
		}
		p.stop()
	})
	t.Run("a start that fails is never READY", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		s.mkdir("var/breakwater.db")
		n := s.manager(t)
		p := s.start("serve")
		if status := p.wait(); status != 1 {
			t.Errorf("exit status %d", status)
		}
		if err := n.conn.SetReadDeadline(time.Now()); err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 4096)
		for {
			got, err := n.conn.Read(buf)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				return
			}
			if err != nil || strings.Contains(string(buf[:got]), "READY=1") {
				t.Fatalf("%q, %v", buf[:got], err)
			}
		}
	})
	t.Run("a socket that was handed over outlives the program", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: s.path("handed.sock"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		// Before the program runs, a producer is waiting already.
		early, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.path("handed.sock"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer early.Close()
		if _, err := early.Write([]byte(exceptionLine("k", "early", "") + "\n")); err != nil {
			t.Fatal(err)
		}
		if err := early.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		p := s.runWith(t, l, "enqueue")
		p.await("socket taken over from the service manager")
		if list := answers(t, bufio.NewReader(early)); len(list) != 2 || list[0].Status != "accepted" {
			t.Errorf("%+v", list)
		}
		p.stop()
		if _, err := os.Stat(s.path("handed.sock")); err != nil {
			t.Errorf("the manager's socket is gone: %v", err)
		}
		// The next process gets the same socket, and who connected in between.
		between, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: s.path("handed.sock"), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer between.Close()
		p = s.runWith(t, l, "enqueue")
		if _, err := between.Write([]byte(exceptionLine("k", "early", "") + "\n")); err != nil {
			t.Fatal(err)
		}
		if err := between.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if list := answers(t, bufio.NewReader(between)); len(list) != 2 || list[0].Status != "duplicate" {
			t.Errorf("%+v", list)
		}
		p.stop()
		s.sound()
	})
}

// runWith starts serve with a socket handed over as its descriptor 3, as a service
// manager does. A shell in between knows its own process id, which is the program's
// after exec.
func (s *site) runWith(t *testing.T, l *net.UnixListener, name string) *process {
	t.Helper()
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	cmd := exec.Command("/bin/sh", "-c", `export LISTEN_PID=$$ LISTEN_FDS=1 LISTEN_FDNAMES=$0; exec "$@"`, name,
		s.binary, "--config", s.path("config.hcl"), "serve")
	cmd.ExtraFiles = []*os.File{f}
	return s.run(cmd)
}
