package kin

import (
	"os"
	"syscall"
	"time"
)

// sessionTime is how long the end of a session is waited for.
const sessionTime = time.Second

// SignalSession sends a signal to every process of the session that a child of this
// process leads, in whatever group it is. The child must not have been reaped: then its
// number can be nobody else's.
func SignalSession(leader int, sig syscall.Signal) {
	_ = syscall.Kill(-leader, sig) // its own group at once; that it has ended is no news
	_ = eachProcess(func(pid int) {
		strayed := func() bool {
			s, alive := standingOf(pid)
			return alive && s.session == leader && s.group != leader
		}
		if !strayed() {
			return
		}
		p, err := os.FindProcess(pid)
		if err != nil {
			return
		}
		defer p.Release()
		if strayed() {
			_ = p.Signal(sig) // that it has ended is no news
		}
	})
}

// EndSession kills every process of such a session, and waits for a moment until they
// are gone.
func EndSession(leader int) {
	_ = syscall.Kill(-leader, syscall.SIGKILL)
	h := hunt{limit: sessionTime, wanted: func(pid int) bool {
		s, alive := standingOf(pid)
		return alive && s.session == leader
	}}
	_, _ = h.run() // what hangs in the kernel was killed, and comes back from there only to end
}
