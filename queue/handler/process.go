package handler

import (
	"errors"
	"math"
	"syscall"

	"golang.org/x/sys/unix"
)

// awaitExit waits for a child to end and leaves it to be reaped.
func awaitExit(pid int) {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) { // any other error: there is nothing to wait for
			return
		}
	}
}

// hasExited reports whether a child has exited and waits to be reaped.
func hasExited(pid int) bool {
	var info unix.Siginfo
	err := unix.Waitid(unix.P_PID, pid, &info, unix.WEXITED|unix.WNOWAIT|unix.WNOHANG, nil)
	return err == nil && info.Signo != 0
}

// killGroup sends a signal to the process group that a child leads. That it has
// ended already is no news.
func killGroup(leader int, sig syscall.Signal) { _ = syscall.Kill(-leader, sig) }

// closeOnExec keeps every descriptor but the standard ones from programs that are
// run from now on. Go opens all of its own that way; this is for those that the
// process was started with. On a kernel before 5.11, which cannot, those remain.
func closeOnExec() { _ = unix.CloseRange(3, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) }
