package archive

import (
	"bufio"
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/queue"
	"breakwater/storage/boltstore"
)

const (
	// childFile is the descriptor under which the child finds the copy.
	childFile = 3
	// maxChildLine bounds a line of the child's.
	maxChildLine = 1 << 20
	// maxChildError bounds what is kept of what it says when it dies.
	maxChildError = 4 << 10
	// childNice: what takes exceptions in goes first.
	childNice = 19
	// childOOM: when memory is short, the child goes and not the parent.
	childOOM = "800"
	// maxOpen bounds the messages that are followed at once, to some 400 MB. Of an archive
	// with more open ones the rest of the trail is checked as a chain only.
	maxOpen = 2_000_000
	// progressEvery is how often the child says how far it is.
	progressEvery = 200 * time.Millisecond
)

// sealed is what the child found in the copy, once it is an archive.
type sealed struct {
	Contents
	Bytes    int64    `json:"bytes"`
	SHA256   string   `json:"sha256"`
	Findings []string `json:"findings"`
}

// said is one line from the child: how far it is, or how it ended.
type said struct {
	Step   string  `json:"step,omitzero"`
	Done   int64   `json:"done,omitzero"`
	Total  int64   `json:"total,omitzero"`
	Sealed *sealed `json:"sealed,omitempty"`
	Error  string  `json:"error,omitzero"`
}

// Seal is the child's half: it makes the copy at path, which is open as descriptor 3,
// an archive, reads it back and says on out what is in it. now and note come from the
// parent.
func Seal(ctx context.Context, path, note string, out io.Writer) error {
	_ = os.WriteFile("/proc/self/oom_score_adj", []byte(childOOM), 0) // a wish
	f := os.NewFile(childFile, path)
	lines := json.NewEncoder(out)
	s, err := seal(ctx, f, path, []byte(note), func(step string, done, total int64) {
		_ = lines.Encode(said{Step: step, Done: done, Total: total}) // a parent that is gone has killed us
	})
	if err != nil {
		return lines.Encode(said{Error: err.Error()})
	}
	return lines.Encode(said{Sealed: s})
}

func seal(ctx context.Context, f *os.File, path string, note []byte, tell func(step string, done, total int64)) (*sealed, error) {
	if err := sameFile(f, path); err != nil {
		return nil, err
	}
	tell("sealing", 0, 0)
	if err := boltstore.Seal(f, path, note); err != nil {
		return nil, err
	}
	// bbolt's Close has let go of the lock that the parent holds through this file.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, fmt.Errorf("lock the copy again: %w", err)
	}
	last := time.Now()
	progress := func(step string) func(done, total int64) {
		return func(done, total int64) {
			if now := time.Now(); now.Sub(last) >= progressEvery {
				last = now
				tell(step, done, total)
			}
		}
	}
	s, err := inspect(ctx, path, progress)
	if err != nil {
		return nil, err
	}
	if err := sameFile(f, path); err != nil {
		return nil, err
	}
	tell("hashing", 0, 0)
	sum, err := hashOf(f)
	if err != nil {
		return nil, fmt.Errorf("read the copy: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	s.SHA256, s.Bytes = hex.EncodeToString(sum[:]), st.Size()
	return s, nil
}

// inspect opens the archive as anybody would, and reads all of it.
func inspect(ctx context.Context, path string, progress func(step string) func(done, total int64)) (s *sealed, err error) {
	c, err := boltstore.OpenCopy(boltstore.Options{Path: path, Context: ctx, Gentle: true,
		Progress: func(step string, done, total int64) { progress(step)(done, total) }})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	v, err := c.Verify(ctx, queue.VerifyOptions{Buckets: true, MaxOpen: maxOpen, Progress: progress("verifying")})
	if err != nil {
		return nil, err
	}
	st, err := c.Status(ctx, time.Now())
	if err != nil {
		return nil, err
	}
	s = &sealed{Contents: Contents{
		StoreFormat: boltstore.FormatVersion,
		Audit:       Audit{Block: v.Head.Block, Head: v.Head.Hash.String(), Records: st.Records, Origin: v.Origin},
		Counts:      countsOf(&st), Events: map[string]uint64{},
	}}
	for e, n := range v.Events {
		s.Events[string(e)] = n
	}
	for _, f := range v.Findings {
		s.Findings = append(s.Findings, f.What)
	}
	return s, nil
}

// sameFile makes sure that the descriptor and the path are one file: opening by the
// path must not lead to another.
func sameFile(f *os.File, path string) error {
	open, err := f.Stat()
	if err != nil {
		return fmt.Errorf("look at the copy: %w", err)
	}
	named, err := os.Lstat(path)
	if err != nil {
		return fmt.Errorf("look at the copy: %w", err)
	}
	if !os.SameFile(open, named) {
		return errors.New("another file has the copy's name")
	}
	return nil
}

// sealInChild has the copy sealed by a process of its own. args is the child's command
// line, its name first.
func sealInChild(ctx context.Context, args []string, f *os.File, note string, tell func(step string, done, total int64)) (*sealed, error) {
	// The child dies with the thread that started it, so this one stays.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	last := tail{}
	cmd := exec.CommandContext(ctx, "/proc/self/exe") // the very program that runs, also after an upgrade on the disk
	cmd.Args = append(append([]string{}, args...), f.Name(), note)
	cmd.ExtraFiles = []*os.File{f}
	cmd.Env = []string{"GOTRACEBACK=none"}
	cmd.Stderr = &last
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the check of the copy: %w", err)
	}
	_ = unix.Setpriority(unix.PRIO_PGRP, cmd.Process.Pid, childNice) // a wish
	s, why := listen(out, tell)
	err = cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case why != nil:
		return nil, why
	case err != nil || s == nil:
		return nil, cutOff(err, last.line())
	}
	return s, nil
}

// cutOff is the error of a child that has ended without a result; text is what it said
// last. What the copy cannot have done to it says nothing about the copy.
func cutOff(err error, text string) error {
	const again = "nothing was left behind; ask again"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		if w, ok := exit.Sys().(syscall.WaitStatus); ok && w.Signaled() && !slices.Contains(faults, w.Signal()) {
			hint := again
			if w.Signal() == unix.SIGKILL {
				hint = `if nobody killed it, memory was short: the kernel's log says so ("journalctl -k", "dmesg"); make room, then ask again`
			}
			return refuse(Ended, hint, "the check of the copy was ended by %s", unix.SignalName(w.Signal()))
		}
	}
	if strings.Contains(text, "out of memory") || strings.Contains(text, "cannot allocate memory") {
		return refuse(Ended, "make room in memory (a limit of the service's?), then ask again", "the check of the copy had no memory left: %s", text)
	}
	return fmt.Errorf("the check of the copy ended without a result: %w: %s", err, text)
}

// faults are the signals by which a process ends that has met damage or a defect.
var faults = []syscall.Signal{unix.SIGBUS, unix.SIGSEGV, unix.SIGABRT, unix.SIGILL, unix.SIGFPE, unix.SIGTRAP, unix.SIGSYS}

// listen reads what the child says until it is silent.
func listen(out io.Reader, tell func(step string, done, total int64)) (s *sealed, why error) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, maxChildLine)
	for lines.Scan() {
		var l said
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return nil, fmt.Errorf("the check of the copy said something strange: %w", err)
		}
		switch {
		case l.Error != "":
			why = errors.New(l.Error)
		case l.Sealed != nil:
			s = l.Sealed
		default:
			tell(l.Step, l.Done, l.Total)
		}
	}
	if why == nil {
		why = lines.Err()
	}
	return s, why
}

// tail keeps the beginning of what the child writes to stderr: a crash says first what
// it is.
type tail struct{ text bytes.Buffer }

// Write keeps what there is room for.
func (t *tail) Write(b []byte) (int, error) {
	t.text.Write(b[:min(len(b), maxChildError-t.text.Len())])
	return len(b), nil
}

// line is the first line.
func (t *tail) line() string {
	first, _, _ := strings.Cut(strings.TrimSpace(t.text.String()), "\n")
	if first == "" {
		return "it said nothing"
	}
	return first
}
