package dbfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// lockSuffix is appended to the store's path. A file of its own, and not only
// bbolt's lock on the store, because something must be locked while there is no
// store yet, and while a compaction puts a new one in its place.
const lockSuffix = ".lock"

// noteBytes is the fixed size of what the lock file says, so that one pwrite
// replaces all of it.
const noteBytes = 256

// noteFormat is the first word of the lock file.
const noteFormat = "breakwater-lock 1"

// cleanNote identifies the state in which a file was left by a clean stop. Any
// later change of the file, by whomever, makes one of them differ.
type cleanNote struct {
	Txid  uint64
	Inode uint64
	Size  int64
	MTime int64  // nanoseconds since 1970
	Free  uint64 // FNV-64a of the list of free pages: the one thing that bbolt writes by
}

// cleanFormat is a clean note as it stands in the lock file.
const cleanFormat = "clean txid=%d inode=%d size=%d mtime=%d free=%x"

// noteOf is the note for an open file whose newest meta page is m. It fails if m
// has no sound list of free pages: then nothing was stopped cleanly.
func noteOf(f *os.File, m Meta) (cleanNote, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return cleanNote{}, err
	}
	sum, err := freelistSum(f, m)
	if err != nil {
		return cleanNote{}, err
	}
	return cleanNote{Txid: m.Txid, Inode: st.Ino, Size: st.Size, MTime: st.Mtim.Nano(), Free: sum}, nil
}

// sideLock is the flock'ed file beside the store. The lock goes with the
// process, however it ends; the file is never removed, since removing it would
// let two processes hold "the" lock on two inodes.
type sideLock struct {
	f    *os.File
	last cleanNote // what the last holder left; zero: not a clean stop
	// warning is for an operator: the file was open to others.
	warning string
}

// takeSideLock waits up to timeout for the lock of the store at path, and notes
// our pid in it. The returned lock must be released.
func takeSideLock(path string, timeout time.Duration) (*sideLock, error) {
	lockPath := path + lockSuffix
	if _, err := checkOwn(lockPath); err != nil {
		return nil, err
	}
	flags := os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	f, err := os.OpenFile(lockPath, flags, fileMode)
	if err != nil {
		return nil, ioErr(lockPath, "opening the lock file", err)
	}
	if err := mustBeRegular(f, lockPath); err != nil {
		f.Close()
		return nil, err
	}
	if err := flock(f, unix.LOCK_EX, timeout); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, lockedErr(path, readPid(f))
		}
		return nil, ioErr(lockPath, "locking", err)
	}
	l := &sideLock{f: f, last: readNote(f), warning: tightenOwn(f, lockPath)}
	if err := l.write("open"); err != nil {
		f.Close()
		return nil, ioErr(lockPath, "writing the lock file", err)
	}
	return l, nil
}

// leaveClean notes a clean stop. Not synced: a note that is lost with the power
// only costs the next start a walk.
func (l *sideLock) leaveClean(n cleanNote) error {
	return l.write(fmt.Sprintf(cleanFormat, n.Txid, n.Inode, n.Size, n.MTime, n.Free))
}

// keepNote puts back what the last holder left: for an opener that refused the
// file, which has therefore not changed.
func (l *sideLock) keepNote() {
	if l.last != (cleanNote{}) {
		_ = l.leaveClean(l.last) // without it the next start merely walks
	}
}

// release lets the next process have the store.
func (l *sideLock) release() error {
	if l == nil {
		return nil
	}
	return l.f.Close()
}

func (l *sideLock) write(state string) error {
	text := fmt.Sprintf("%s\npid %d\n%s\n", noteFormat, os.Getpid(), state)
	buf := append([]byte(text), bytes.Repeat([]byte{'\n'}, noteBytes-len(text))...)
	_, err := l.f.WriteAt(buf, 0)
	return err
}

// flock asks for the lock until it is granted or timeout has passed, when it
// returns EWOULDBLOCK.
func flock(f *os.File, how int, timeout time.Duration) error {
	deadline := time.Now().Add(timeout)
	for {
		err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, unix.EWOULDBLOCK) || time.Now().After(deadline):
			return err
		}
		time.Sleep(lockPoll)
	}
}

// readLines are the lines of a lock file; none if it is not one of ours.
func readLines(f *os.File) []string {
	buf := make([]byte, noteBytes)
	n, err := f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return nil
	}
	lines := strings.Split(string(buf[:n]), "\n")
	if len(lines) < 3 || lines[0] != noteFormat {
		return nil
	}
	return lines
}

// readPid is the holder's process id, 0 if it is not known.
func readPid(f *os.File) int {
	pid := 0
	if lines := readLines(f); lines != nil {
		_, _ = fmt.Sscanf(lines[1], "pid %d", &pid) // 0 is what we say then
	}
	return pid
}

// readNote is what the last holder left; the zero note unless it was clean.
func readNote(f *os.File) cleanNote {
	var n cleanNote
	lines := readLines(f)
	if lines == nil {
		return cleanNote{}
	}
	_, err := fmt.Sscanf(lines[2], cleanFormat, &n.Txid, &n.Inode, &n.Size, &n.MTime, &n.Free)
	if err != nil {
		return cleanNote{}
	}
	return n
}

// peekNote reads the note of a store that is opened read-only, without a lock
// and without creating anything.
func peekNote(path string) (note cleanNote, pid int) {
	f, err := os.OpenFile(path+lockSuffix, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return cleanNote{}, 0
	}
	defer f.Close()
	return readNote(f), readPid(f)
}

// lockedErr names the file and, if known, who holds it.
func lockedErr(path string, pid int) *FileError {
	e := fileErr(ErrLocked, path, nil)
	if pid > 0 {
		e.Err = fmt.Errorf("held by process %d", pid)
	}
	return e
}
