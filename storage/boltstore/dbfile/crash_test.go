package dbfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// straceArgs traces one kind of system call in the child, as far as it touches
// the store at path and what lies beside it, and interferes with its n-th. strace
// counts per thread: the child keeps to one.
func straceArgs(t *testing.T, path, call, inject string, n int) []string {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		skipFault(t, "strace is not installed")
	}
	args := []string{strace, "-f", "-qq", "-o", "/dev/null", "-e", "trace=" + call,
		"-e", fmt.Sprintf("inject=%s:%s:when=%d", call, inject, n)}
	dir := filepath.Dir(path)
	for _, p := range []string{path, path + lockSuffix, creatingPath(path), dir, filepath.Dir(dir)} {
		args = append(args, "-P", p)
	}
	return args
}

// needStrace skips where ptrace is forbidden, as in many containers.
func needStrace(t *testing.T) {
	t.Helper()
	args := straceArgs(t, "/x", "getpid", "delay_enter=1", 1)
	if out, err := exec.Command(args[0], append(args[1:], "true")...).CombinedOutput(); err != nil {
		skipFault(t, fmt.Sprintf("strace cannot trace: %v: %s", err, out))
	}
}

// TestCreationIsWholeOrAbsent: the creator is killed at each system call that
// touches the file system. What is there then is either nothing, or opens with
// all of its contents; and the next opener leaves no trace of it.
func TestCreationIsWholeOrAbsent(t *testing.T) {
	t.Parallel()
	needStrace(t)
	dir := scratch(t)
	points, absent, whole := 0, 0, 0
	for _, call := range []string{"mkdirat", "flock", "pwrite64", "ftruncate", "fdatasync", "fsync",
		"fchmod", "renameat2", "unlinkat"} {
		for n := 1; ; n++ {
			path := filepath.Join(dir, fmt.Sprintf("%s-%d", call, n), "store.db")
			wrapper := straceArgs(t, path, call, "signal=SIGKILL", n)
			out, err := childCommand("create", wrapper, path).CombinedOutput()
			if err == nil { // fewer than n such calls: it ran to its end
				break
			}
			if n > 40 || len(out) > 0 {
				t.Fatalf("%s, call %d: %v: %s", call, n, err, out)
			}
			points++
			if _, err := os.Stat(path); err == nil {
				whole++
				checkBorn(t, Options{Path: path}, call, n) // no Init: it must be there
			} else {
				absent++
			}
			checkBorn(t, storeOptions(path), call, n)
		}
	}
	t.Logf("%d points: %d absent, %d whole", points, absent, whole)
	if absent < 5 || whole < 2 {
		t.Errorf("%d points, %d absent, %d whole: too few to mean anything", points, absent, whole)
	}
}

func checkBorn(t *testing.T, o Options, call string, n int) {
	t.Helper()
	f, err := Open(o)
	if err != nil {
		t.Errorf("killed at %s %d: %v", call, n, err)
		return
	}
	defer f.Close()
	err = f.DB().View(func(tx *bolt.Tx) error {
		if tx.Bucket(testBucket) == nil {
			return errors.New("the bucket is missing")
		}
		return nil
	})
	if err != nil || f.Report().MetaFallback {
		t.Errorf("killed at %s %d: %v %+v", call, n, err, f.Report())
	}
	if left := names(t, filepath.Dir(o.Path)); len(left) != 2 {
		t.Errorf("killed at %s %d: left behind: %v", call, n, left)
	}
}

// TestTwoOpenersAtOnce: of several that start together on no file at all,
// exactly one has it.
func TestTwoOpenersAtOnce(t *testing.T) {
	for round := range 8 {
		path := filepath.Join(t.TempDir(), "store.db")
		won, lost := 0, 0
		var stop []func()
		var answers []*bufio.Reader
		for range 4 {
			cmd := childCommand("hold", nil, path)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			stop = append(stop, func() { in.Close(); io.Copy(io.Discard, out); _ = cmd.Wait() })
			answers = append(answers, bufio.NewReader(out))
		}
		for _, r := range answers {
			line, err := r.ReadString('\n')
			switch {
			case err != nil:
				t.Errorf("round %d: %v", round, err)
			case line == "won\n":
				won++
			case strings.HasPrefix(line, "lost") && contains(line, "is in use by another breakwater"):
				lost++
			default:
				t.Errorf("round %d: %s", round, line)
			}
		}
		for _, f := range stop {
			f()
		}
		if won != 1 || lost != 3 {
			t.Errorf("round %d: %d won, %d lost", round, won, lost)
		}
		mustClose(t, mustOpen(t, Options{Path: path}))
	}
}

// commits runs the child that makes commits, with one fault, and returns its
// lines.
func commits(t *testing.T, path string, wrapper []string, args ...string) []string {
	t.Helper()
	cmd := childCommand("commit", wrapper, append([]string{path}, args...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v: %s%s", wrapper, err, out, errs.String())
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// faults counts what commits printed.
func faults(lines []string) (ok, clean, stop, ghosts int) {
	for _, l := range lines {
		switch {
		case strings.HasSuffix(l, " ok"):
			ok++
		case contains(l, CleanRefusal.String()):
			clean++
		case contains(l, FailStop.String()):
			stop++
			if contains(l, "moved=true") {
				ghosts++
			}
		}
	}
	return ok, clean, stop, ghosts
}

// TestInjectedErrors: the system calls of real commits fail, one by one, and the
// verdict is the right one each time.
func TestInjectedErrors(t *testing.T) {
	t.Parallel()
	needStrace(t)
	dir := scratch(t)
	base := newStore(t, 20)
	for _, c := range []struct {
		name, call, inject string
		from, to           int
		want               Verdict
	}{
		{"EIO from a sync ends everything", "fdatasync", "error=EIO", 1, 4, FailStop},
		{"ENOSPC from a sync comes too late", "fdatasync", "error=ENOSPC", 1, 2, FailStop},
		{"ENOSPC from a write is clean", "pwrite64", "error=ENOSPC", 2, 6, CleanRefusal},
		{"EDQUOT from a write is clean", "pwrite64", "error=EDQUOT", 3, 3, CleanRefusal},
		{"EIO from a write ends everything", "pwrite64", "error=EIO", 2, 3, FailStop},
		{"ENOSPC from growing is clean", "ftruncate", "error=ENOSPC", 1, 1, CleanRefusal},
		{"EFBIG from growing is clean", "ftruncate", "error=EFBIG", 1, 1, CleanRefusal},
		{"EIO from growing ends everything", "ftruncate", "error=EIO", 1, 1, FailStop},
		{"ENOSPC from the sync after growing comes too late", "fsync", "error=ENOSPC", 2, 2, FailStop},
	} {
		t.Run(c.name, func(t *testing.T) {
			ghosts := 0
			for n := c.from; n <= c.to; n++ {
				path := filepath.Join(dir, fmt.Sprintf("%s-%s-%d.db", c.call, c.inject, n))
				copyFile(t, base, path)
				lines := commits(t, path, straceArgs(t, path, c.call, c.inject, n))
				ok, clean, stop, g := faults(lines)
				ghosts += g
				if c.want == FailStop && (stop != 1 || clean != 0) ||
					c.want == CleanRefusal && (clean != 1 || stop != 0 || ok != 11) {
					t.Errorf("%s %d: %d stored, %d clean, %d stop\n%s", c.call, n, ok, clean, stop, strings.Join(lines, "\n"))
				}
				checkAfterFault(t, path, ok, clean)
				os.Remove(path)
			}
			if c.inject == "error=EIO" && c.call == "fdatasync" && ghosts == 0 {
				t.Error("no commit was both refused and visible: the case that fail-stop is for was not met")
			}
		})
	}
	t.Run("EFBIG from a file size limit is clean", func(t *testing.T) {
		path := filepath.Join(dir, "limit.db")
		copyFile(t, base, path)
		ok, clean, stop, _ := faults(commits(t, path, nil, fmt.Sprint(24<<20)))
		if clean == 0 || stop != 0 || ok == 0 {
			t.Errorf("%d stored, %d clean, %d stop", ok, clean, stop)
		}
		checkAfterFault(t, path, ok, clean)
	})
}

// TestEverySystemCallMayFail: each call that opening, creating and a clean stop
// make to the system fails once. The answer is success or one line in words,
// and what was in the file before is there afterwards.
func TestEverySystemCallMayFail(t *testing.T) {
	t.Parallel()
	needStrace(t)
	dir := scratch(t)
	base := newStore(t, 20)
	refused := 0
	for _, role := range []string{"create", "reopen"} {
		for _, call := range []string{"openat", "fstat", "newfstatat", "mkdirat", "flock", "fcntl", "pread64", "pwrite64",
			"ftruncate", "fdatasync", "fsync", "fadvise64", "fchmod", "renameat2", "unlinkat", "statfs", "mmap"} {
			for n := 1; n < 60; n++ {
				path := filepath.Join(dir, fmt.Sprintf("%s-%s-%d", role, call, n), "store.db")
				if role == "reopen" {
					if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
						t.Fatal(err)
					}
					copyFile(t, base, path)
				}
				met, failed := failOnce(t, role, call, n, path)
				if !met {
					break
				}
				if failed {
					refused++
				}
				if role == "reopen" {
					checkAfterFault(t, path, 0, 0)
				} else {
					checkBorn(t, storeOptions(path), call, n)
				}
				os.RemoveAll(filepath.Dir(path))
			}
		}
	}
	t.Logf("%d refused", refused)
	if refused < 25 {
		t.Error("too few to mean anything")
	}
}

// failOnce runs a role with EIO from one call. met: there was such a call.
func failOnce(t *testing.T, role, call string, n int, path string) (met, failed bool) {
	t.Helper()
	log := filepath.Join(t.TempDir(), "strace")
	wrapper := straceArgs(t, path, call, "error=EIO", n)
	for i, arg := range wrapper {
		if arg == "/dev/null" {
			wrapper[i] = log
		}
	}
	out, err := childCommand(role, wrapper, path).CombinedOutput()
	trace, readErr := os.ReadFile(log)
	if readErr != nil {
		t.Fatal(readErr)
	}
	text := strings.TrimSuffix(string(out), "\n")
	if err != nil && (!strings.HasPrefix(text, "child: ") || contains(text, "goroutine ")) {
		t.Errorf("%s, %s %d: %v: %s", role, call, n, err, text)
	}
	return bytes.Contains(trace, []byte("(INJECTED)")), err != nil
}

// TestKilledCleanStop: a clean stop that is cut off at any call leaves all that
// was stored, and is not taken for a clean one unless it was.
func TestKilledCleanStop(t *testing.T) {
	t.Parallel()
	needStrace(t)
	dir := scratch(t)
	base := newStore(t, 20)
	clean, unclean := 0, 0
	for _, call := range []string{"pwrite64", "fdatasync", "flock", "close"} {
		for n := 1; n < 60; n++ {
			path := filepath.Join(dir, fmt.Sprintf("%s-%d.db", call, n))
			copyFile(t, base, path)
			if err := childCommand("reopen", straceArgs(t, path, call, "signal=SIGKILL", n), path).Run(); err == nil {
				break
			}
			f := mustOpen(t, Options{Path: path})
			switch {
			case countRecords(t, f)-map[bool]int{true: 1}[hasMark(t, f)] != 20:
				t.Errorf("%s %d: records are missing", call, n)
			case f.Report().Clean && !hasMark(t, f):
				t.Errorf("%s %d: clean without the mark", call, n)
			case f.Report().Clean:
				clean++
			default:
				unclean++
			}
			mustClose(t, f)
		}
	}
	t.Logf("%d clean, %d unclean", clean, unclean)
	if clean == 0 || unclean < 5 {
		t.Error("too few to mean anything")
	}
}

// checkAfterFault: whatever happened, the file opens, and holds what was
// answered; after a clean refusal exactly that.
func checkAfterFault(t *testing.T, path string, stored, refused int) {
	t.Helper()
	f := mustOpen(t, Options{Path: path})
	defer f.Close()
	n := countRecords(t, f) - 20
	if n < stored || refused > 0 && n != stored || n > stored+1 {
		t.Errorf("%d records are there, %d were answered", n, stored)
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, raw, fileMode); err != nil {
		t.Fatal(err)
	}
}
