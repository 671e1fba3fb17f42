package systemd

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// notifySocket is a service manager's end of the notify socket.
type notifySocket struct{ conn *net.UnixConn }

// listen opens a notify socket under name, and tells this process of it.
func listen(t *testing.T, name string) notifySocket {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	t.Setenv("NOTIFY_SOCKET", name)
	return notifySocket{conn}
}

// next returns the next message. One that does not come fails the test after a
// while; it is on its way before the sender returns, so nothing is waited for.
func (m notifySocket) next(t *testing.T) string {
	t.Helper()
	if err := m.conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := m.conn.Read(buf)
	if err != nil {
		t.Fatalf("no message came: %v", err)
	}
	return string(buf[:n])
}

// pending counts the messages that wait, and takes them.
func (m notifySocket) pending(t *testing.T) (messages []string) {
	t.Helper()
	raw, err := m.conn.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, err := readNow(int(fd), buf)
			if err != nil {
				return true
			}
			messages = append(messages, string(buf[:n]))
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return messages
}

func newNotifier(t *testing.T) *Notifier {
	t.Helper()
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNotifier(t *testing.T) {
	for _, c := range []struct {
		promise string
		say     func(*Notifier) error
		want    string
	}{
		{"ready comes with a status", func(n *Notifier) error { return n.Ready("serving") }, "READY=1\nSTATUS=serving"},
		{"status alone", func(n *Notifier) error { return n.Status("reading the file, 40 %") }, "STATUS=reading the file, 40 %"},
		{"stopping", func(n *Notifier) error { return n.Stopping("draining 3") }, "STOPPING=1\nSTATUS=draining 3"},
		{"more time is asked for in microseconds", func(n *Notifier) error { return n.ExtendTimeout(1500*time.Millisecond, "recovering") }, "EXTEND_TIMEOUT_USEC=1500000\nSTATUS=recovering"},
		{"a status can't smuggle in an assignment", func(n *Notifier) error { return n.Status("x\nMAINPID=1\r\x00") }, "STATUS=x MAINPID=1  "},
		{"a status is one line of a screen", func(n *Notifier) error { return n.Status(strings.Repeat("é", 1000)) }, "STATUS=" + strings.Repeat("é", maxStatus)},
	} {
		t.Run(c.promise, func(t *testing.T) {
			m := listen(t, filepath.Join(t.TempDir(), "notify"))
			if err := c.say(newNotifier(t)); err != nil {
				t.Fatal(err)
			}
			if got := m.next(t); got != c.want {
				t.Errorf("the manager got %q, want %q", got, c.want)
			}
		})
	}
}

func TestNotifier_reloading_carries_the_monotonic_time(t *testing.T) {
	m := listen(t, filepath.Join(t.TempDir(), "notify"))
	if err := newNotifier(t).Reloading(); err != nil {
		t.Fatal(err)
	}
	first, digits, _ := strings.Cut(m.next(t), "\nMONOTONIC_USEC=")
	if first != "RELOADING=1" || digits == "" || strings.Trim(digits, "0123456789") != "" {
		t.Errorf("the manager got %q, %q", first, digits)
	}
}

func TestNotifier_reaches_an_abstract_socket(t *testing.T) {
	m := listen(t, "@breakwater-test-"+filepath.Base(t.TempDir())+"-"+time.Now().Format("150405.000000000"))
	if err := newNotifier(t).Ready(""); err != nil {
		t.Fatal(err)
	}
	if got := m.next(t); got != "READY=1\nSTATUS=" {
		t.Errorf("got %q", got)
	}
}

func TestNotifier_without_a_manager_does_nothing(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	t.Setenv("WATCHDOG_USEC", "3000000")
	for name, n := range map[string]*Notifier{"made without one": newNotifier(t), "nil": nil} {
		probed := false
		err := errors.Join(n.Ready("x"), n.Status("x"), n.Stopping("x"), n.Reloading(), n.ExtendTimeout(time.Second, "x"),
			n.Watchdog(t.Context(), time.Second, func(context.Context) error { probed = true; return nil }))
		if err != nil || n.Enabled() || n.WatchdogInterval() != 0 || probed {
			t.Errorf("%s: error %v, enabled %v, interval %v, probed %v", name, err, n.Enabled(), n.WatchdogInterval(), probed)
		}
	}
}

func TestNew_cleans_the_environment(t *testing.T) {
	for _, c := range []struct{ promise, socket, usec string }{
		{"when all is well", "/run/notify", "1000000"},
		{"when the socket is of an unknown kind", "vsock:2:1234", "1000000"},
		{"when the limit is no number", "/run/notify", "soon"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", c.socket)
			t.Setenv("WATCHDOG_USEC", c.usec)
			t.Setenv("WATCHDOG_PID", "1")
			_, err := New()
			if fine := c.promise == "when all is well"; (err == nil) != fine {
				t.Errorf("error: %v", err)
			}
			for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"} {
				if value, set := os.LookupEnv(name); set {
					t.Errorf("%s=%s is still there for a child to inherit", name, value)
				}
			}
		})
	}
}

func TestNotifier_says_when_the_manager_is_gone(t *testing.T) {
	m := listen(t, filepath.Join(t.TempDir(), "notify"))
	n := newNotifier(t)
	m.conn.Close()
	if err := n.Ready("x"); err == nil {
		t.Error("a message that nobody can have got was reported as sent")
	}
}

func TestNotifier_watchdog_interval(t *testing.T) {
	for _, c := range []struct {
		promise, usec, pid string
		want               time.Duration
	}{
		{"a third of the limit", "3000000", "", time.Second},
		{"none asked for", "", "", 0},
		{"asked of another process", "3000000", "1", 0},
	} {
		t.Run(c.promise, func(t *testing.T) {
			t.Setenv("NOTIFY_SOCKET", "/run/notify")
			t.Setenv("WATCHDOG_USEC", c.usec)
			t.Setenv("WATCHDOG_PID", c.pid)
			if got := newNotifier(t).WatchdogInterval(); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// probe is the work that the watchdog watches; it answers what the test wants.
type probe struct{ answer chan error }

func (p probe) run(ctx context.Context) error {
	select {
	case err := <-p.answer:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestNotifier_Watchdog(t *testing.T) {
	const every = time.Second
	start := func(t *testing.T) (notifySocket, probe, <-chan error, context.CancelFunc) {
		m := listen(t, filepath.Join(t.TempDir(), "notify"))
		n := newNotifier(t)
		p := probe{make(chan error)}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- n.Watchdog(ctx, every, p.run) }()
		return m, p, ended, stop
	}
	expect := func(t *testing.T, m notifySocket, want int, when string) {
		t.Helper()
		synctest.Wait()
		got := m.pending(t)
		if len(got) != want {
			t.Errorf("%s: %d pings %q, want %d", when, len(got), got, want)
		}
		for _, message := range got {
			if message != "WATCHDOG=1" {
				t.Errorf("%s: got %q", when, message)
			}
		}
	}

	t.Run("pings only after a probe that succeeded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, p, ended, stop := start(t)
			expect(t, m, 0, "while the first probe runs")
			p.answer <- nil
			expect(t, m, 1, "after it")
			p.answer <- errors.New("the store is busy") // taken at the next interval
			expect(t, m, 0, "after a failure")
			p.answer <- nil
			expect(t, m, 1, "after the next success")
			stop()
			if err := <-ended; err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	})
	t.Run("is silent while a probe hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, p, ended, stop := start(t)
			p.answer <- nil
			expect(t, m, 1, "at first")
			<-time.After(time.Hour)
			expect(t, m, 0, "an hour into a hanging probe")
			stop()
			if err := <-ended; err != nil {
				t.Errorf("ended with %v", err)
			}
			expect(t, m, 0, "after the end: a probe cut off proves nothing")
		})
	})
	t.Run("keeps the interval", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, p, ended, stop := start(t)
			begin := time.Now()
			for range 4 {
				p.answer <- nil
			}
			expect(t, m, 4, "after four probes")
			if took := time.Since(begin); took != 3*every {
				t.Errorf("four pings took %v, want %v", took, 3*every)
			}
			stop()
			<-ended
		})
	})
	t.Run("gives up when the manager has heard nothing for its limit", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m, p, ended, stop := start(t)
			defer stop()
			m.conn.Close()
			for range pingsPerLimit {
				p.answer <- nil
			}
			if err := <-ended; err == nil {
				t.Error("ended without an error")
			}
		})
	})
}
