package kin

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	// endTime is how long a successor, or a guard, waits for processes that were
	// killed to be gone. What takes longer hangs in the kernel, as on a file system
	// whose server is away.
	endTime = 10 * time.Second
	// endPoll is how often they are looked for meanwhile.
	endPoll = 2 * time.Millisecond
	// quietLooks is how many times in a row nothing must be found: a single look
	// may pass by a process just before a child of it takes a lower number.
	quietLooks = 2
	// maxNamed bounds the processes that a report names.
	maxNamed = 16
)

// Ended is what was found, and ended.
type Ended struct {
	Count   int   // processes that are gone
	Foreign []int // processes of other users, which were found and cannot be ended; at most maxNamed
}

// StuckError: processes were killed and are not gone.
type StuckError struct {
	Pids []int // at most maxNamed
}

// Error names the processes.
func (e *StuckError) Error() string {
	return fmt.Sprintf("what an earlier process had started was killed, and does not end: %s", pidList(e.Pids))
}

// Advice says what to do.
func (e *StuckError) Advice() string {
	return fmt.Sprintf("it hangs in the kernel, often on a file system whose server is away, and may finish what it has begun there: "+
		"see \"ps -o pid,stat,wchan,args -p %s\", and start again when it is gone", strings.ReplaceAll(pidList(e.Pids), " ", ""))
}

func pidList(pids []int) string {
	words := make([]string, len(pids))
	for i, pid := range pids {
		words[i] = strconv.Itoa(pid)
	}
	return strings.Join(words, ", ")
}

// hunt ends processes.
type hunt struct {
	wanted func(pid int) bool // says which; this process is never asked about
	limit  time.Duration
	kill   func(*os.Process) error // nil: SIGKILL

	found   map[int]struct{} // all that were killed
	foreign []int
}

// run kills what is wanted until nothing of it is there any more. The error is that
// it takes longer than the limit (StuckError), or that processes cannot be seen.
func (h *hunt) run() (Ended, error) {
	h.found = map[int]struct{}{}
	if h.kill == nil {
		h.kill = (*os.Process).Kill
	}
	deadline := time.Now().Add(h.limit)
	for quiet := 0; quiet < quietLooks; {
		left, err := h.strike()
		switch {
		case err != nil:
			return Ended{}, err
		case len(left) == 0:
			quiet++
			continue
		case time.Now().After(deadline):
			return Ended{}, &StuckError{Pids: left[:min(len(left), maxNamed)]}
		}
		quiet = 0
		time.Sleep(endPoll)
	}
	return Ended{Count: len(h.found), Foreign: h.foreign}, nil
}

// strike kills whatever is wanted, and returns what was there.
func (h *hunt) strike() (left []int, err error) {
	err = eachProcess(func(pid int) {
		if !h.wanted(pid) {
			return
		}
		// The handle is of the process, not of its number. Asked for again under
		// it, it is the one that is wanted, or one that has ended.
		p, err := os.FindProcess(pid)
		if err != nil {
			return
		}
		defer p.Release()
		if !h.wanted(pid) {
			return
		}
		switch err := h.kill(p); {
		case errors.Is(err, syscall.EPERM):
			if len(h.foreign) < maxNamed && !slices.Contains(h.foreign, pid) {
				h.foreign = append(h.foreign, pid)
			}
		case !errors.Is(err, os.ErrProcessDone):
			left = append(left, pid)
			h.found[pid] = struct{}{}
		}
	})
	return left, err
}

// eachProcess visits every living process but this one.
func eachProcess(visit func(pid int)) error {
	dir, err := os.Open("/proc")
	if err != nil {
		return fmt.Errorf("look at the processes: %w", err)
	}
	defer dir.Close() // read only: nothing can be lost
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return fmt.Errorf("look at the processes: %w", err)
	}
	self, seen := os.Getpid(), false
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		switch {
		case err != nil:
		case pid == self:
			seen = true
		default:
			visit(pid)
		}
	}
	if !seen {
		return errors.New("look at the processes: /proc does not show them")
	}
	return nil
}

// standing is what the kernel says of a process.
type standing struct{ group, session int }

// standingOf returns it; false: the process has ended. One that nobody has reaped has
// ended, too, unless only its first thread has.
func standingOf(pid int) (s standing, alive bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return s, false
	}
	return standingIn(text)
}

// standingIn reads a file of what the kernel says (proc_pid_stat(5)). The name, in
// brackets, may hold anything.
func standingIn(text []byte) (s standing, alive bool) {
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	const state, group, session, threads = 0, 2, 3, 17
	if len(fields) <= threads {
		return s, false
	}
	number := func(field int) int {
		n, _ := strconv.Atoi(string(fields[field])) // the kernel has written it
		return n
	}
	s = standing{group: number(group), session: number(session)}
	switch string(fields[state]) {
	case "X", "x":
		return s, false
	case "Z":
		return s, number(threads) > 1
	}
	return s, true
}
