package socket

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// serving is a Serve that runs until the test ends.
type serving struct {
	*Listener
	cancel context.CancelFunc
	result chan error
}

func serve(t *testing.T, o ListenOptions, handle func(context.Context, *Conn)) *serving {
	t.Helper()
	if o.Path == "" {
		o.Path = socketPath(t)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &serving{Listener: listen(t, o), cancel: cancel, result: make(chan error, 1)}
	go func() { s.result <- s.Serve(ctx, handle) }()
	return s
}

// wait returns what Serve returned.
func (s *serving) wait(t *testing.T) error {
	t.Helper()
	select {
	case err := <-s.result:
		return err
	case <-time.After(2 * time.Minute):
		t.Fatal("Serve does not return")
		return nil
	}
}

// untilClosed is a handler that says hello and stays until its peer leaves.
func untilClosed(_ context.Context, c *Conn) {
	io.WriteString(c, "served\n")
	io.Copy(io.Discard, c)
}

// answer reads the one line that a connection begins with.
func answer(t *testing.T, c net.Conn) string {
	t.Helper()
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		t.Fatalf("no answer: %v", err)
	}
	return line
}

func TestServe(t *testing.T) {
	t.Run("knows its peer", func(t *testing.T) {
		peers := make(chan queue.Peer, 1)
		s := serve(t, ListenOptions{}, func(_ context.Context, c *Conn) { peers <- c.Peer() })
		dial(t, s.Addr().String())
		want := queue.Peer{UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), PID: int32(os.Getpid())}
		if got := <-peers; got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	t.Run("a connection over the limit is told and closed, one that leaves makes room", func(t *testing.T) {
		s := serve(t, ListenOptions{MaxConnections: 2}, untilClosed)
		path := s.Addr().String()
		first, second := dial(t, path), dial(t, path)
		if answer(t, first) != "served\n" || answer(t, second) != "served\n" {
			t.Fatal("the first two are not served")
		}
		over := dial(t, path)
		all, err := io.ReadAll(over)
		want := `{"event":"error","code":"QUEUE_SATURATED","error":"2 connections are open, the limit is 2"}` + "\n"
		if err != nil || string(all) != want {
			t.Fatalf("got %q, %v", all, err)
		}
		first.Close()
		for answer(t, dial(t, path)) != "served\n" { // until the handler has seen the close
		}
		if c := s.Counts(); c.Refused == 0 || c.Accepted != 3 {
			t.Errorf("counts %+v", c)
		}
	})
	t.Run("a limit that becomes less closes nothing and lets nobody in until there is room", func(t *testing.T) {
		s := serve(t, ListenOptions{MaxConnections: 3}, untilClosed)
		path := s.Addr().String()
		open := []net.Conn{dial(t, path), dial(t, path), dial(t, path)}
		for _, c := range open {
			if answer(t, c) != "served\n" {
				t.Fatal("those within the limit are not served")
			}
		}
		s.SetMaxConnections(1)
		over, err := io.ReadAll(dial(t, path))
		want := `{"event":"error","code":"QUEUE_SATURATED","error":"3 connections are open, the limit is 1"}` + "\n"
		if err != nil || string(over) != want {
			t.Fatalf("got %q, %v", over, err)
		}
		for left := 2; left >= 1; left-- {
			open[left].Close()
			for s.Counts().Open > left { // until the handler has seen the close
				runtime.Gosched()
			}
			if got := answer(t, dial(t, path)); !strings.Contains(got, "QUEUE_SATURATED") {
				t.Fatalf("with %d open, got %q", left, got)
			}
		}
		open[0].SetReadDeadline(time.Unix(1, 0))
		if _, err := open[0].Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a connection that was open is not any more: %v", err)
		}
		s.SetMaxConnections(2)
		if got := answer(t, dial(t, path)); got != "served\n" {
			t.Errorf("with room again, got %q", got)
		}
	})
	t.Run("a peer that sent before it was refused still reads why", func(t *testing.T) {
		s := serve(t, ListenOptions{MaxConnections: 1}, untilClosed)
		answer(t, dial(t, s.Addr().String()))
		over := dial(t, s.Addr().String())
		io.WriteString(over, "{}\n") // whether it is refused by now or not
		if got := answer(t, over); !strings.Contains(got, "QUEUE_SATURATED") {
			t.Errorf("got %q", got)
		}
	})
	t.Run("the end of its context ends accepting and tells the handlers", func(t *testing.T) {
		told, leave := make(chan struct{}), make(chan struct{})
		s := serve(t, ListenOptions{}, func(ctx context.Context, c *Conn) {
			io.WriteString(c, "served\n")
			<-ctx.Done()
			close(told)
			<-leave
			io.WriteString(c, "bye\n")
		})
		c := dial(t, s.Addr().String())
		answer(t, c)
		s.cancel()
		<-told
		s.stop() // waits for the one that the context caused
		if _, err := net.Dial("unix", s.Addr().String()); err == nil {
			t.Error("still reachable")
		}
		select {
		case <-s.result:
			t.Fatal("Serve returned before its handler")
		default:
		}
		close(leave)
		if got := answer(t, c); got != "bye\n" {
			t.Errorf("got %q", got)
		}
		if err := s.wait(t); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Run("Close cuts those that stay", func(t *testing.T) {
		s := serve(t, ListenOptions{}, untilClosed)
		c := dial(t, s.Addr().String())
		answer(t, c)
		s.Close()
		if err := s.wait(t); err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n, err := c.Read(make([]byte, 1)); err == nil {
			t.Errorf("read %d bytes after the close", n)
		}
		if n := s.Counts().Open; n != 0 {
			t.Errorf("%d connections are still open", n)
		}
	})
	t.Run("a storm of connections leaves nothing behind", func(t *testing.T) {
		s := serve(t, ListenOptions{MaxConnections: 8}, untilClosed)
		for range 500 {
			dial(t, s.Addr().String()).Close()
		}
		s.cancel()
		s.wait(t)
		if c := s.Counts(); c.Open != 0 || c.Accepted == 0 {
			t.Errorf("counts %+v", c)
		}
	})
	t.Run("an error that is not about room ends it", func(t *testing.T) {
		l := listen(t, ListenOptions{Path: socketPath(t)})
		l.accept = func() (*net.UnixConn, error) { return nil, syscall.EINVAL }
		if err := l.Serve(t.Context(), untilClosed); !errors.Is(err, syscall.EINVAL) {
			t.Errorf("got %v", err)
		}
	})
}

// B27: with all descriptors in use each further connection is answered and closed; the
// loop does not spin, the log does not fill, and all is well when some come back.
func TestDescriptorsRunOut(t *testing.T) {
	path := socketPath(t)
	c := startChild(t, "few descriptors", path)
	var served []net.Conn
	refused := 0
	for range 200 {
		conn := dial(t, path)
		switch got := answer(t, conn); {
		case got == "served\n":
			served = append(served, conn)
		case strings.Contains(got, "QUEUE_SATURATED"):
			refused++
		default:
			t.Fatalf("got %q", got)
		}
	}
	if len(served) < 40 || len(served) > 63 || refused != 200-len(served) {
		t.Errorf("%d served, %d refused", len(served), refused)
	}
	for _, conn := range served {
		conn.Close()
	}
	for answer(t, dial(t, path)) != "served\n" { // until the child has seen one close
	}
	c.kill()
	if n := strings.Count(c.log.String(), "cannot accept"); n < 1 || n > 3 {
		t.Errorf("the log says it %d times:\n%s", n, &c.log)
	}
}

// Where even the spare descriptor does not help, the loop waits longer and longer, and
// the log hears of it now and then.
func TestShortageWithoutEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		tries := 0
		l := &Listener{
			o:       ListenOptions{Log: hclog.New(&hclog.LoggerOptions{Output: &log})},
			closing: make(chan struct{}),
		}
		start := time.Now()
		l.accept = func() (*net.UnixConn, error) {
			tries++
			if time.Since(start) >= time.Minute {
				close(l.closing)
				return nil, net.ErrClosed
			}
			return nil, &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.ENFILE)}
		}
		if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Fatalf("got %v", err)
		}
		if tries > 150 {
			t.Errorf("%d tries in a minute", tries)
		}
		if n := strings.Count(log.String(), "cannot accept"); n < 5 || n > 7 {
			t.Errorf("%d lines in the log in a minute", n)
		}
	})
}
