package kin

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Mark is what a leader and all that descends from it bear: a sign, 40 bits of the hash
// of its line, and the leader's process id.
type Mark uint64

const (
	// sign makes a mark greater than any limit that somebody may have set, and
	// other than RLIM_INFINITY, the limit of everybody else.
	sign = 1 << 62
	// leaderBits hold a process id: the kernel gives none of 1<<22 or more.
	leaderBits = 22
	lineBits   = 40
)

// markOf is the mark of a leader.
func markOf(line string, leader int) Mark {
	sum := sha256.Sum256([]byte(line))
	hash := binary.BigEndian.Uint64(sum[:]) >> (64 - lineBits)
	return Mark(sign | hash<<leaderBits | uint64(leader)&(1<<leaderBits-1))
}

// isMark reports whether a limit is one.
func (m Mark) isMark() bool { return m>>(leaderBits+lineBits) == sign>>(leaderBits+lineBits) }

// sameLine reports whether both are marks of one line.
func (m Mark) sameLine(other Mark) bool {
	return m.isMark() && other.isMark() && m>>leaderBits == other>>leaderBits
}

// String is how a guard is told the mark.
func (m Mark) String() string { return strconv.FormatUint(uint64(m), 10) }

// parseMark reads what String has written.
func parseMark(text string) (Mark, error) {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !Mark(n).isMark() {
		return 0, fmt.Errorf("%q is no mark", text)
	}
	return Mark(n), nil
}

// errUnmarked: the kernel did not take the mark, or keeps another one (a 32-bit one).
var errUnmarked = errors.New("processes cannot be marked here")

// bear has this process bear the mark from now on, and whatever it starts; shed ends
// that for what is started afterwards. Only the soft limit is used: the hard one could
// not be raised again.
func (m Mark) bear() (shed func(), err error) {
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_LOCKS, &had); err != nil {
		return nil, fmt.Errorf("%w: getrlimit: %w", errUnmarked, err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_LOCKS, &unix.Rlimit{Cur: uint64(m), Max: had.Max}); err != nil {
		return nil, fmt.Errorf("%w: setrlimit: %w", errUnmarked, err)
	}
	shed = func() { _ = unix.Setrlimit(unix.RLIMIT_LOCKS, &had) } // what was allowed before
	if markOn(os.Getpid()) != m {
		shed()
		return nil, errUnmarked
	}
	return shed, nil
}

// markOn returns the mark of a process; 0: it bears none, or cannot be seen.
func markOn(pid int) Mark {
	limits, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/limits")
	if err != nil {
		return 0
	}
	return markIn(limits)
}

// markIn reads a file of limits (proc_pid_limits(5)).
func markIn(limits []byte) Mark {
	_, rest, found := bytes.Cut(limits, []byte("\nMax file locks "))
	if !found {
		return 0
	}
	soft, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	m, err := parseMark(string(soft))
	if err != nil {
		return 0
	}
	return m
}
