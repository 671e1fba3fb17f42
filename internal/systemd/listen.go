package systemd

import (
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/coreos/go-systemd/v22/activation"
	"golang.org/x/sys/unix"
)

// Names lists the sockets that the manager may hand over, in the form of the
// keys of Listeners' map and of FileDescriptorName= in a socket unit.
func Names() []string { return []string{"enqueue", "consume", "control"} }

// maxDescriptors bounds LISTEN_FDS: one socket per name, and some slack so that
// a mistake is answered with its name, not with this limit.
const maxDescriptors = 16

// Listeners takes over the sockets that the service manager opened for this
// process, by name, and removes the variables that describe them from the
// environment. The map is empty when there are none, or when they are meant for
// another process (LISTEN_PID).
//
// A name may be written as "enqueue", "enqueue.sock" or, the manager's default,
// after its unit: "breakwater-enqueue.socket". Every descriptor must be a
// listening Unix stream socket with a known name that occurs once; otherwise
// the error says which is wrong, and all are closed.
//
// A listener's file is not removed when it closes: it belongs to the manager,
// which goes on listening while the service restarts.
func Listeners() (map[string]*net.UnixListener, error) {
	// One more of the manager's variables than the library knows (systemd 258).
	if err := os.Unsetenv("LISTEN_PIDFDID"); err != nil {
		return nil, fmt.Errorf("unset LISTEN_PIDFDID: %w", err)
	}
	mine := os.Getenv("LISTEN_PID") == strconv.Itoa(os.Getpid())
	if n, err := strconv.Atoi(os.Getenv("LISTEN_FDS")); mine && err == nil && n > maxDescriptors {
		// Told before the library makes a list of them; the process is about to
		// give up, so the descriptors themselves are left alone.
		return nil, errors.Join(
			fmt.Errorf("socket activation: %d descriptors handed over, at most %d are taken", n, maxDescriptors),
			os.Unsetenv("LISTEN_FDS"), os.Unsetenv("LISTEN_PID"), os.Unsetenv("LISTEN_FDNAMES"),
		)
	}
	files := activation.Files(true) // sets close-on-exec
	listeners := make(map[string]*net.UnixListener, len(files))
	var problems []error
	for _, f := range files {
		name, listener, err := adopt(f)
		if err == nil && listeners[name] != nil {
			err = fmt.Errorf("socket activation: two descriptors are named %q", name)
			problems = append(problems, listener.Close())
		}
		if err != nil {
			problems = append(problems, err)
			continue
		}
		listeners[name] = listener
	}
	if err := errors.Join(problems...); err != nil {
		for _, l := range listeners {
			err = errors.Join(err, l.Close())
		}
		return nil, err
	}
	return listeners, nil
}

// adopt turns one inherited descriptor into a listener, and closes it either way:
// the listener works on a duplicate.
func adopt(f *os.File) (name string, listener *net.UnixListener, err error) {
	defer func() { err = errors.Join(err, f.Close()) }()
	name = canonical(f.Name())
	if !slices.Contains(Names(), name) {
		return "", nil, fmt.Errorf("socket activation: descriptor %d is named %q; FileDescriptorName= must be one of %s",
			f.Fd(), f.Name(), strings.Join(Names(), ", "))
	}
	if err := checkListening(int(f.Fd())); err != nil {
		return "", nil, fmt.Errorf("socket activation: %s (descriptor %d): %w", name, f.Fd(), err)
	}
	l, err := net.FileListener(f)
	if err != nil {
		return "", nil, fmt.Errorf("socket activation: %s: %w", name, err)
	}
	listener, ok := l.(*net.UnixListener)
	if !ok {
		return "", nil, errors.Join(fmt.Errorf("socket activation: %s: not a Unix socket", name), l.Close())
	}
	listener.SetUnlinkOnClose(false)
	return name, listener, nil
}

// canonical reduces the ways to write a name to one of Names, where it is one.
func canonical(name string) string {
	name = strings.TrimPrefix(name, "breakwater-")
	if short, ok := strings.CutSuffix(name, ".socket"); ok {
		return short
	}
	return strings.TrimSuffix(name, ".sock")
}

// checkListening refuses anything but a listening Unix stream socket, in words
// that name the setting of the socket unit that brought it about.
func checkListening(fd int) error {
	domain, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	if errors.Is(err, unix.ENOTSOCK) {
		return errors.New("not a socket")
	}
	if err != nil {
		return fmt.Errorf("ask for the kind of socket: %w", err)
	}
	if domain != unix.AF_UNIX {
		return errors.New("not a Unix socket: ListenStream= must be a path")
	}
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil {
		return fmt.Errorf("ask for the type of socket: %w", err)
	}
	if kind != unix.SOCK_STREAM {
		return errors.New("not a stream socket: use ListenStream=, not ListenDatagram= or ListenSequentialPacket=")
	}
	accepts, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil {
		return fmt.Errorf("ask whether the socket listens: %w", err)
	}
	if accepts == 0 {
		return errors.New("not listening: the socket unit needs Accept=no")
	}
	return nil
}
