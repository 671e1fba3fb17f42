package systemd

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// readNow reads without waiting.
func readNow(fd int, buf []byte) (int, error) {
	n, _, err := unix.Recvfrom(fd, buf, unix.MSG_DONTWAIT)
	return n, err
}

// childVar makes the test binary play the service instead of running tests.
const childVar = "SYSTEMD_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) != "" {
		os.Exit(child())
	}
	os.Exit(m.Run())
}

// report is what the child found, as seen from inside a process that really
// inherited descriptors.
type report struct {
	Names     []string // of the listeners
	Err       string
	Env       []string // variables of the manager that are left
	Inherited string   // what a process started by the child sees: its own descriptors
}

// child takes the listeners over, reports on stdout, then says its name once on
// one connection to each.
func child() int {
	listeners, err := Listeners()
	r := report{}
	if err != nil {
		r.Err = err.Error()
	}
	for name := range listeners {
		r.Names = append(r.Names, name)
	}
	slices.Sort(r.Names)
	for _, v := range os.Environ() {
		if strings.HasPrefix(v, "LISTEN_") {
			r.Env = append(r.Env, v)
		}
	}
	out, err := exec.Command("sh", "-c", `for fd in /proc/self/fd/*; do [ -S "$fd" ] && echo "$fd"; done; true`).Output()
	if err != nil {
		r.Err += err.Error()
	}
	r.Inherited = string(out)
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return 1
	}
	var all sync.WaitGroup // the parent asks in an order of its own
	for name, l := range listeners {
		all.Go(func() {
			if conn, err := l.Accept(); err == nil {
				fmt.Fprint(conn, name)
				conn.Close()
			}
			l.Close()
		})
	}
	all.Wait()
	return 0
}

// activate runs the child with files as descriptors 3, 4, …, as a manager does:
// the variables are set by the process that then becomes the service.
func activate(t *testing.T, pid, count, names string, files []*os.File, between func()) report {
	t.Helper()
	script := `export LISTEN_FDS="$1" LISTEN_FDNAMES="$2" LISTEN_PIDFDID=7; export LISTEN_PID=` + pid + `; exec "$3"`
	cmd := exec.Command("sh", "-c", script, "sh", count, names, os.Args[0])
	cmd.Env = append(os.Environ(), childVar+"=1", "GORACE=atexit_sleep_ms=0") // else every child lingers for a second under -race
	cmd.ExtraFiles = files
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var r report
	err = json.NewDecoder(stdout).Decode(&r)
	if err == nil && between != nil {
		between()
	}
	if werr := cmd.Wait(); err != nil || werr != nil {
		t.Fatalf("the child: %v, %v", err, werr)
	}
	return r
}

// open returns the descriptor of a socket made by make, as a manager holds it.
func open(t *testing.T, socket interface{ File() (*os.File, error) }, err error) *os.File {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	f, err := socket.File()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// stream returns a listening Unix socket at path.
func stream(t *testing.T, path string) *os.File {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err == nil {
		l.SetUnlinkOnClose(false)
		defer l.Close() // the descriptor lives on in the file
	}
	return open(t, l, err)
}

// ask connects to a socket and returns what the service says there.
func ask(t *testing.T, path string) string {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Errorf("dial %s: %v", path, err)
		return ""
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Error(err)
	}
	said, err := io.ReadAll(conn)
	if err != nil {
		t.Errorf("read from %s: %v", path, err)
	}
	return string(said)
}

func TestListeners(t *testing.T) {
	t.Run("none handed over is fine", func(t *testing.T) {
		r := activate(t, "$$", "0", "", nil, nil)
		if r.Err != "" || len(r.Names) != 0 || len(r.Env) != 0 {
			t.Errorf("got %+v", r)
		}
	})
	for _, names := range [][]string{
		{"enqueue"}, {"enqueue.sock"}, {"breakwater-enqueue.socket"}, {"enqueue", "control"}, {"consume.sock", "breakwater-control.socket"},
	} {
		t.Run(fmt.Sprintf("%d by name %s", len(names), strings.Join(names, " and ")), func(t *testing.T) {
			dir := t.TempDir()
			var files []*os.File
			var want []string
			for i, name := range names {
				files = append(files, stream(t, filepath.Join(dir, fmt.Sprint(i))))
				want = append(want, canonical(name))
			}
			r := activate(t, "$$", fmt.Sprint(len(names)), strings.Join(names, ":"), files, func() {
				for i := range names {
					if got := ask(t, filepath.Join(dir, fmt.Sprint(i))); got != want[i] {
						t.Errorf("on the socket of %s answers %q", names[i], got)
					}
				}
			})
			slices.Sort(want)
			if r.Err != "" || !slices.Equal(r.Names, want) {
				t.Errorf("got %v (%s), want %v", r.Names, r.Err, want)
			}
			if len(r.Env) != 0 {
				t.Errorf("left for a child to inherit: %v", r.Env)
			}
			if r.Inherited != "" {
				t.Errorf("a process of the service inherited sockets:\n%s", r.Inherited)
			}
			for i := range names {
				if _, err := os.Stat(filepath.Join(dir, fmt.Sprint(i))); err != nil {
					t.Errorf("the manager's socket was removed: %v", err)
				}
			}
		})
	}
	t.Run("descriptors meant for another process are left alone", func(t *testing.T) {
		for _, count := range []string{"1", "1000000"} {
			r := activate(t, "1", count, "enqueue", []*os.File{stream(t, filepath.Join(t.TempDir(), "s"))}, nil)
			if r.Err != "" || len(r.Names) != 0 || len(r.Env) != 0 {
				t.Errorf("got %+v", r)
			}
		}
	})
}

func TestListeners_refuses(t *testing.T) {
	dir := t.TempDir()
	tcp, tcpErr := net.Listen("tcp", "127.0.0.1:0")
	if tcpErr != nil {
		t.Fatal(tcpErr)
	}
	defer tcp.Close()
	datagram, datagramErr := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "dgram"), Net: "unixgram"})
	pair, pairErr := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if pairErr != nil {
		t.Fatal(pairErr)
	}
	plain, plainErr := os.Create(filepath.Join(dir, "plain"))
	if plainErr != nil {
		t.Fatal(plainErr)
	}
	connection, peer := os.NewFile(uintptr(pair[0]), "a"), os.NewFile(uintptr(pair[1]), "b")
	for _, f := range []*os.File{plain, connection, peer} {
		defer f.Close()
	}
	good := func() *os.File { return stream(t, filepath.Join(t.TempDir(), "s")) }
	for _, c := range []struct {
		promise, count, names string
		files                 []*os.File
		want                  string
	}{
		{"a TCP socket", "1", "enqueue", []*os.File{open(t, tcp.(*net.TCPListener), nil)}, "not a Unix socket"},
		{"a datagram socket", "1", "enqueue", []*os.File{open(t, datagram, datagramErr)}, "not a stream socket"},
		{"a connection", "1", "enqueue", []*os.File{connection}, "Accept=no"},
		{"a plain file", "1", "enqueue", []*os.File{plain}, "not a socket"},
		{"an unknown name", "1", "metrics", []*os.File{good()}, `named "metrics"; FileDescriptorName= must be one of enqueue, consume, control`},
		{"no name", "1", "", []*os.File{good()}, "FileDescriptorName="},
		{"one name twice", "2", "enqueue:enqueue.sock", []*os.File{good(), good()}, `two descriptors are named "enqueue"`},
		{"a good one beside a bad one", "2", "enqueue:control", []*os.File{good(), plain}, "control (descriptor 4): not a socket"},
		{"a descriptor that is not there", "2", "enqueue:control", []*os.File{good()}, "control"},
		{"more than are taken", "17", "enqueue", nil, "17 descriptors handed over, at most 16"},
	} {
		t.Run(c.promise, func(t *testing.T) {
			r := activate(t, "$$", c.count, c.names, c.files, nil)
			if !strings.Contains(r.Err, c.want) || len(r.Names) != 0 {
				t.Errorf("got %q and %v, want an error that says %q", r.Err, r.Names, c.want)
			}
			if len(r.Env) != 0 || r.Inherited != "" {
				t.Errorf("left for a child to inherit: %v, %s", r.Env, r.Inherited)
			}
		})
	}
}

func TestCanonical_knows_every_name_in_every_form(t *testing.T) {
	for _, name := range Names() {
		for _, form := range []string{name, name + ".sock", "breakwater-" + name + ".socket"} {
			if got := canonical(form); got != name {
				t.Errorf("canonical(%q) = %q, want %q", form, got, name)
			}
		}
	}
}
