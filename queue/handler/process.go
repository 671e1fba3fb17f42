package handler

import (
	"bytes"
	"errors"
	"os"
	"strconv"
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

// hasSucceeded reports whether a child that has exited, and waits to be reaped, has exited
// with 0. waitid would say it, but not without package unsafe.
func hasSucceeded(pid int) bool {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	// proc_pid_stat(5): the name, in brackets, may hold anything.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const exitCode = 49
	return len(fields) > exitCode && string(fields[exitCode]) == "0"
}

// killGroup sends a signal to the process group that a child leads. That it has
// ended already is no news.
func killGroup(leader int, sig syscall.Signal) { _ = syscall.Kill(-leader, sig) }
