package systemd

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
	"unicode"

	"github.com/coreos/go-systemd/v22/daemon"
	"golang.org/x/sys/unix"
)

const (
	// maxStatus bounds a status line, in characters: it is one line on a screen.
	maxStatus = 200
	// sendTimeout bounds how long a full socket of the manager can hold us up.
	sendTimeout = time.Second
)

// Notifier sends the state of this process to the service manager. A nil
// Notifier, and one made without a manager, does nothing and returns nil.
// It holds no connection; its methods may be called from any goroutine.
type Notifier struct {
	addr     *net.UnixAddr // nil: no manager listens
	watchdog time.Duration // the manager's limit between two pings; 0: off
}

// New reads where the manager listens (NOTIFY_SOCKET: a path, or an abstract
// name with a leading '@') and how often it wants a sign of life (WATCHDOG_USEC,
// WATCHDOG_PID), and removes all three from the environment. It returns an error
// for a variable that it cannot understand; the variables are gone all the same.
func New() (*Notifier, error) {
	name := os.Getenv("NOTIFY_SOCKET")
	if err := os.Unsetenv("NOTIFY_SOCKET"); err != nil {
		return nil, fmt.Errorf("unset NOTIFY_SOCKET: %w", err)
	}
	watchdog, err := daemon.SdWatchdogEnabled(true)
	if err != nil {
		return nil, fmt.Errorf("watchdog settings of the service manager: %w", err)
	}
	switch {
	case name == "":
		return &Notifier{}, nil // nobody to ping either
	case name[0] != '/' && name[0] != '@':
		return nil, fmt.Errorf("NOTIFY_SOCKET %q: neither a path nor an abstract socket", name)
	}
	return &Notifier{addr: &net.UnixAddr{Name: name, Net: "unixgram"}, watchdog: watchdog}, nil
}

// Enabled reports whether a service manager listens.
func (n *Notifier) Enabled() bool { return n != nil && n.addr != nil }

// Ready says that the process serves: recovery is over and every socket
// accepts. Nothing may be said sooner, since whoever waits for it connects at once.
func (n *Notifier) Ready(status string) error {
	return n.send(daemon.SdNotifyReady, "STATUS="+oneLine(status))
}

// Status sets the line that `systemctl status` shows.
func (n *Notifier) Status(status string) error { return n.send("STATUS=" + oneLine(status)) }

// Stopping says that the drain has begun.
func (n *Notifier) Stopping(status string) error {
	return n.send(daemon.SdNotifyStopping, "STATUS="+oneLine(status))
}

// Reloading says that the configuration is being read again; Ready ends it. The
// time goes with it because managers that ask for Type=notify-reload compare it
// with the moment of their signal.
func (n *Notifier) Reloading() error {
	if !n.Enabled() {
		return nil
	}
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("read the monotonic clock: %w", err)
	}
	return n.send(daemon.SdNotifyReloading, fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/int64(time.Microsecond)))
}

// ExtendTimeout asks the manager to wait at least d from now before it takes the
// current phase (start or stop) for stuck. Whoever asks must have made progress
// since the last time, or the manager's limit means nothing.
func (n *Notifier) ExtendTimeout(d time.Duration, status string) error {
	return n.send(fmt.Sprintf("EXTEND_TIMEOUT_USEC=%d", d.Microseconds()), "STATUS="+oneLine(status))
}

// send passes assignments to the manager in one datagram, so that they are
// taken together. A connection per message: a manager that was restarted listens
// on a new socket of the same name.
func (n *Notifier) send(assignments ...string) error {
	if !n.Enabled() {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, n.addr)
	if err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	defer conn.Close()
	if err := conn.SetWriteDeadline(time.Now().Add(sendTimeout)); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(assignments, "\n"))); err != nil {
		return fmt.Errorf("notify the service manager: %w", err)
	}
	return nil
}

// oneLine makes text fit for a status: a line feed in it would begin another
// assignment, and the text may carry what a sender wrote.
func oneLine(text string) string {
	kept := make([]rune, 0, maxStatus)
	for _, r := range text {
		if len(kept) == maxStatus {
			break
		}
		if unicode.IsControl(r) {
			r = ' '
		}
		kept = append(kept, r)
	}
	return string(kept)
}
