package dbfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// childEnv makes the test binary run one of childRoles instead of the tests: a
// process of its own that may be killed, or die, without taking the tests along.
const childEnv = "DBFILE_TEST_CHILD"

var childRoles = map[string]func(args []string) error{
	"open-many": childOpenMany,
	"create":    childCreate,
	"commit":    childCommit,
	"hold":      childHold,
	"reopen":    childReopen,
}

func TestMain(m *testing.M) {
	if role := os.Getenv(childEnv); role != "" {
		if err := childRoles[role](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// childCommand is the test binary in a role, behind a wrapper such as strace if
// one is given.
func childCommand(role string, wrapper []string, args ...string) *exec.Cmd {
	argv := append(append(append([]string{}, wrapper...), os.Args[0]), args...)
	cmd := exec.Command(argv[0], argv[1:]...)
	// The race detector would have each of some hundred children sleep a second
	// before it ends.
	cmd.Env = append(os.Environ(), childEnv+"="+role, "GORACE=atexit_sleep_ms=0")
	return cmd
}

// childOpenMany opens each file that stdin names, uses it in every way that the
// store above does, and answers with one line per file.
func childOpenMany([]string) error {
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() {
		fmt.Println(tryFile(in.Text()))
	}
	return in.Err()
}

// tryFile says "ok", "ok fallback", or the kind of the refusal.
func tryFile(path string) string {
	f, err := Open(Options{Path: path})
	if err != nil {
		var fe *FileError
		if !errors.As(err, &fe) || fe.Hint == "" || strings.ContainsAny(err.Error(), "\n\x00") {
			return fmt.Sprintf("UNKIND %q", err)
		}
		return fe.Code() + " " + err.Error()
	}
	defer f.Close()
	err = useAll(f.DB())
	if err != nil && f.Report().Fallback != "" && metaComplaint.MatchString(err.Error()) {
		err = nil // has been reported, in our words
	}
	if err != nil {
		return fmt.Sprintf("MISSED %q", err)
	}
	if f.Report().MetaFallback {
		return "ok fallback"
	}
	return "ok"
}

// metaComplaint is bbolt's check about the pages 0 and 1 themselves.
var metaComplaint = regexp.MustCompile(`^panic: assertion failed: (Page expected to be: [01],|page [01]: has unexpected type)`)

// useAll asks bbolt for its own opinion, reads every record, and then changes
// all of them. Whatever it meets, the walk has let it in.
func useAll(db *bolt.DB) error {
	err := db.View(func(tx *bolt.Tx) error {
		var first error
		for err := range tx.Check() { // drained: leaving early leaks its goroutine
			if first == nil {
				first = err
			}
		}
		return first
	})
	if err != nil {
		return err
	}
	return db.Update(func(tx *bolt.Tx) error {
		return tx.ForEach(func(_ []byte, b *bolt.Bucket) error { return rewrite(b, 0) })
	})
}

func rewrite(b *bolt.Bucket, depth int) error {
	var keys [][]byte
	err := b.ForEach(func(k, v []byte) error {
		if v == nil {
			return rewrite(b.Bucket(k), depth+1)
		}
		keys = append(keys, bytes.Clone(k))
		return nil
	})
	for i, k := range keys {
		if err != nil {
			return err
		}
		if i%2 == 0 {
			err = b.Delete(k)
		} else {
			err = b.Put(k, []byte("rewritten"))
		}
	}
	return err
}

// childCreate makes a store on one thread, so that system calls can be counted.
func childCreate(args []string) error {
	runtime.LockOSThread()
	f, err := Open(storeOptions(args[0]))
	if err != nil {
		return err
	}
	return f.Close()
}

// childReopen opens an existing store, and stops cleanly.
func childReopen(args []string) error {
	runtime.LockOSThread()
	f, err := Open(Options{Path: args[0]})
	if err != nil {
		return err
	}
	return f.CloseClean(setMark)
}

// childHold opens a store, says so, and keeps it until stdin ends.
func childHold(args []string) error {
	o := storeOptions(args[0])
	o.LockTimeout = 30 * time.Millisecond
	f, err := Open(o)
	if err != nil {
		fmt.Println("lost", err)
		return nil
	}
	fmt.Println("won")
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
	return f.Close()
}

// childCommit makes commits on one thread and judges each: "12 ok" or
// "12 <verdict>, moved=<bool>: <error>". An EFBIG limit in bytes may follow the
// path.
func childCommit(args []string) error {
	runtime.LockOSThread()
	f, err := Open(Options{Path: args[0]})
	if err != nil {
		return err
	}
	if len(args) > 1 {
		var limit uint64
		if _, err := fmt.Sscan(args[1], &limit); err != nil {
			return err
		}
		if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: limit, Max: limit}); err != nil {
			return err
		}
	}
	fmt.Println("ready")
	for i := range 12 {
		before, err := f.Txid()
		if err != nil {
			return err
		}
		err = f.DB().Update(func(tx *bolt.Tx) error {
			return tx.Bucket(testBucket).Put(fmt.Appendf(nil, "commit %d", i), make([]byte, 3<<20))
		})
		if err == nil {
			fmt.Println(i, "ok")
			continue
		}
		after, txErr := f.Txid()
		if txErr != nil {
			return txErr
		}
		fmt.Printf("%d %v, moved=%v: %v\n", i, Classify(err, before, after), before != after, err)
		if Classify(err, before, after) == FailStop {
			return nil // without Close, as a store must
		}
	}
	return f.Close()
}

// skipFault skips a fault that this machine cannot bring about, in words that a
// count of skipped faults can find.
func skipFault(t *testing.T, why string) {
	t.Helper()
	t.Skipf("FAULT NOT INJECTED: %s", why)
}
