package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestCheckPath(t *testing.T) {
	ofLength := func(n int) string { return "/tmp/" + strings.Repeat("p", n-len("/tmp/")) }
	tests := []struct {
		name, path string
		ok         bool
	}{
		{"106 bytes", ofLength(106), true},
		{"107 bytes", ofLength(107), true},
		{"108 bytes", ofLength(108), false},
		{"109 bytes", ofLength(109), false},
		{"200 bytes", ofLength(200), false},
		{"nothing", "", false},
		{"a directory", "/tmp/", false},
		{"an abstract name", "@breakwater", false},
		{"a name with a NUL", "/tmp/a\x00b", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := CheckPath(tt.path)
			if tt.ok != (err == nil) || !tt.ok && !errors.Is(err, ErrPath) {
				t.Fatalf("got %v", err)
			}
			if len(tt.path) <= MaxPath {
				return
			}
			for _, s := range []string{tt.path, fmt.Sprint(len(tt.path)), fmt.Sprint(MaxPath)} {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("%q does not say %s", err, s)
				}
			}
		})
	}
}

func TestListen(t *testing.T) {
	t.Run("a path of the full length works", func(t *testing.T) {
		dir := shortDir(t)
		path := filepath.Join(dir, strings.Repeat("s", MaxPath-len(dir)-1))
		listen(t, ListenOptions{Path: path})
		dial(t, path)
	})
	t.Run("a path that is too long is refused before anything is made", func(t *testing.T) {
		dir := filepath.Join(shortDir(t), "run")
		if _, err := Listen(ListenOptions{Path: filepath.Join(dir, strings.Repeat("s", 100))}); !errors.Is(err, ErrPath) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory was made: %v", err)
		}
	})
	t.Run("a missing directory is made for the group alone", func(t *testing.T) {
		defer syscall.Umask(syscall.Umask(0o077))
		dir := filepath.Join(shortDir(t), "run")
		listen(t, ListenOptions{Path: filepath.Join(dir, "s"), Group: "12345"})
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o750 || info.Sys().(*syscall.Stat_t).Gid != 12345 {
			t.Errorf("%s: %v of group %d", dir, info.Mode(), info.Sys().(*syscall.Stat_t).Gid)
		}
	})
	t.Run("of missing directories none above the last is made", func(t *testing.T) {
		dir := filepath.Join(shortDir(t), "vra", "run")
		if _, err := Listen(ListenOptions{Path: filepath.Join(dir, "s")}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), dir) {
			t.Errorf("got %v", err)
		}
		if _, err := os.Lstat(filepath.Dir(dir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it was made: %v", err)
		}
	})
	t.Run("a directory that exists is left as it is", func(t *testing.T) {
		dir := shortDir(t)
		if err := os.Chmod(dir, 0o711); err != nil {
			t.Fatal(err)
		}
		listen(t, ListenOptions{Path: filepath.Join(dir, "s"), Group: "12345"})
		if info, _ := os.Stat(dir); info.Mode().Perm() != 0o711 || info.Sys().(*syscall.Stat_t).Gid == 12345 {
			t.Errorf("now %v", info.Mode())
		}
	})
	t.Run("a directory that everyone may write to is refused", func(t *testing.T) {
		dir := shortDir(t)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if _, err := Listen(ListenOptions{Path: filepath.Join(dir, "s")}); !errors.Is(err, ErrOpenDirectory) {
			t.Errorf("got %v", err)
		}
		if err := os.Chmod(dir, 0o777|fs.ModeSticky); err != nil {
			t.Fatal(err)
		}
		listen(t, ListenOptions{Path: filepath.Join(dir, "s")})
	})
	t.Run("a group that does not exist is refused by name", func(t *testing.T) {
		_, err := Listen(ListenOptions{Path: socketPath(t), Group: "no-such-group"})
		if err == nil || !strings.Contains(err.Error(), "no-such-group") {
			t.Errorf("got %v", err)
		}
	})
}

// B21: whatever the umask, the mode is exact, and at no moment is it looser.
func TestListenMode(t *testing.T) {
	for _, umask := range []int{0, 0o022, 0o777} {
		for _, mode := range []fs.FileMode{0o600, 0o660, 0o666} {
			t.Run(fmt.Sprintf("%04o under umask %04o", mode, umask), func(t *testing.T) {
				path := socketPath(t)
				defer syscall.Umask(syscall.Umask(umask))
				stop, seen := watchModes(path)
				for range 50 {
					l := listen(t, ListenOptions{Path: path, Mode: mode, Group: "12345"})
					info, err := os.Lstat(path)
					if err != nil || info.Mode() != mode|fs.ModeSocket || info.Sys().(*syscall.Stat_t).Gid != 12345 {
						t.Fatalf("%v, %v", info.Mode(), err)
					}
					if err := l.Close(); err != nil {
						t.Fatal(err)
					}
				}
				close(stop)
				for m := range <-seen {
					if m&^mode != 0 {
						t.Errorf("for a moment the mode was %04o", m)
					}
				}
			})
		}
	}
}

// watchModes collects the modes that path has until stop is closed.
func watchModes(path string) (stop chan struct{}, seen chan map[fs.FileMode]bool) {
	stop, seen = make(chan struct{}), make(chan map[fs.FileMode]bool, 1)
	go func() {
		all := make(map[fs.FileMode]bool)
		for {
			select {
			case <-stop:
				seen <- all
				return
			default:
				if info, err := os.Lstat(path); err == nil {
					all[info.Mode().Perm()] = true
				}
			}
		}
	}()
	return stop, seen
}

// B19: who may take over a path, and who may not.
func TestTakeover(t *testing.T) {
	t.Run("after a kill the path is taken over", func(t *testing.T) {
		path := socketPath(t)
		c := startChild(t, "listen", path)
		c.kill()
		if _, err := os.Lstat(path); err != nil {
			t.Fatalf("the kill left no socket behind: %v", err)
		}
		listen(t, ListenOptions{Path: path})
		dial(t, path)
	})
	t.Run("a live listener keeps it, also when it is stopped", func(t *testing.T) {
		path := socketPath(t)
		c := startChild(t, "listen", path)
		for _, signal := range []syscall.Signal{syscall.SIGCONT, syscall.SIGSTOP} {
			if err := c.Process.Signal(signal); err != nil {
				t.Fatal(err)
			}
			_, err := Listen(ListenOptions{Path: path})
			if !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), fmt.Sprint(c.Process.Pid)) {
				t.Errorf("%v: got %v, want %v by %d", signal, err, ErrInUse, c.Process.Pid)
			}
		}
		c.Process.Signal(syscall.SIGCONT)
		dial(t, path)
	})
	t.Run("so does one whose queue is full", func(t *testing.T) {
		path := socketPath(t)
		fillQueue(t, path)
		if _, err := Listen(ListenOptions{Path: path}); !errors.Is(err, ErrInUse) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a socket of another type keeps it", func(t *testing.T) {
		path := socketPath(t)
		c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := Listen(ListenOptions{Path: path}); !errors.Is(err, ErrInUse) {
			t.Errorf("got %v", err)
		}
	})
	for name, put := range foreignFiles {
		t.Run(name+" is left alone", func(t *testing.T) {
			path := socketPath(t)
			if err := put(path); err != nil {
				t.Fatal(err)
			}
			before, err := os.Lstat(path)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Listen(ListenOptions{Path: path}); !errors.Is(err, ErrNotSocket) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v", err)
			}
			if after, err := os.Lstat(path); err != nil || !os.SameFile(before, after) {
				t.Errorf("it is gone: %v", err)
			}
		})
	}
}

var foreignFiles = map[string]func(path string) error{
	"a regular file": func(path string) error { return os.WriteFile(path, []byte("mine"), 0o600) },
	"a directory":    func(path string) error { return os.Mkdir(path, 0o700) },
	"a dangling symbolic link": func(path string) error {
		return os.Symlink(path+".nowhere", path)
	},
	"a symbolic link to a stale socket": func(path string) error {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path + ".1", Net: "unix"})
		if err != nil {
			return err
		}
		l.SetUnlinkOnClose(false)
		l.Close()
		return os.Symlink(path+".1", path)
	},
	"a named pipe": func(path string) error { return syscall.Mkfifo(path, 0o600) },
}

// fillQueue listens at path without accepting, with no room left for one more.
func fillQueue(t *testing.T, path string) {
	t.Helper()
	socket := func() int {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	addr := &unix.SockaddrUnix{Name: path}
	server := socket()
	if err := errors.Join(unix.Bind(server, addr), unix.Listen(server, 0)); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		if err := unix.Connect(socket(), addr); errors.Is(err, unix.EAGAIN) {
			return
		}
	}
	t.Fatal("the queue never filled")
}

// B19 (d): of two that start at once exactly one listens, is reachable, and nothing
// else is left in the directory. Half of the rounds begin with a stale socket.
func TestTwoStarters(t *testing.T) {
	for round := range 50 {
		path := socketPath(t)
		if round%2 == 0 {
			if err := foreignFiles["a symbolic link to a stale socket"](path); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(path+".1", path); err != nil {
				t.Fatal(err)
			}
		}
		var listeners [2]*Listener
		var errs [2]error
		var both sync.WaitGroup
		for i := range listeners {
			both.Go(func() { listeners[i], errs[i] = Listen(ListenOptions{Path: path}) })
		}
		both.Wait()
		winner, loser := 0, 1
		if errs[0] != nil {
			winner, loser = 1, 0
		}
		if errs[winner] != nil || !errors.Is(errs[loser], ErrInUse) {
			t.Fatalf("round %d: %v and %v", round, errs[0], errs[1])
		}
		dial(t, path)
		if names := entries(t, filepath.Dir(path)); len(names) != 1 {
			t.Errorf("round %d left %v", round, names)
		}
		listeners[winner].Close()
		if names := entries(t, filepath.Dir(path)); len(names) != 0 {
			t.Errorf("round %d left %v after its end", round, names)
		}
	}
}

func entries(t *testing.T, dir string) (names []string) {
	t.Helper()
	all, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		names = append(names, e.Name())
	}
	return names
}

func TestClose(t *testing.T) {
	t.Run("removes its own file, once", func(t *testing.T) {
		path := socketPath(t)
		l := listen(t, ListenOptions{Path: path})
		if err := errors.Join(l.Close(), l.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is still there: %v", err)
		}
	})
	t.Run("leaves what someone else put in its place", func(t *testing.T) {
		path := socketPath(t)
		l := listen(t, ListenOptions{Path: path})
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		other := listen(t, ListenOptions{Path: path})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		dial(t, path)
		other.Close()
	})
	t.Run("finds its file in a directory that was renamed", func(t *testing.T) {
		path := filepath.Join(shortDir(t), "run", "s")
		l := listen(t, ListenOptions{Path: path})
		moved := filepath.Dir(path) + "2"
		if err := os.Rename(filepath.Dir(path), moved); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if names := entries(t, moved); len(names) != 0 {
			t.Errorf("left %v", names)
		}
	})
	t.Run("does not touch a socket that was handed over", func(t *testing.T) {
		path := socketPath(t)
		made, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		before, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := FromListener(made, ListenOptions{Mode: 0o600}).Close(); err != nil {
			t.Fatal(err)
		}
		after, err := os.Lstat(path)
		if err != nil || !os.SameFile(before, after) || before.Mode() != after.Mode() {
			t.Errorf("before %v, after %v, %v", before.Mode(), after, err)
		}
	})
}
