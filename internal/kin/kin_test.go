package kin

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func TestGuard_ends_all_that_a_killed_leader_has_started(t *testing.T) {
	t.Parallel()
	l := newLeader(t, "")
	pids := append(l.started(), l.guards()...)
	if len(pids) != 4 {
		t.Fatalf("started %v, a guard among them", pids)
	}
	l.kill()
	gone(t, pids...)
}

func TestLead_ends_what_is_left_of_its_line_and_nothing_else(t *testing.T) {
	t.Parallel()
	line := t.TempDir()
	first, other := newLeader(t, line), newLeader(t, line+"/other")
	theirs, others := first.started(), other.started()
	// The guard first: nobody is left to do its work.
	for _, pid := range first.guards() {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		gone(t, pid)
	}
	first.kill()
	for _, pid := range theirs {
		if !living(pid) {
			t.Fatalf("process %d has ended by itself, so this test shows nothing", pid)
		}
	}
	second := newLeader(t, line)
	if want := fmt.Sprint("led ", len(theirs)); second.said != want {
		t.Errorf("the successor says %q, want %q", second.said, want)
	}
	for _, pid := range theirs {
		if living(pid) {
			t.Errorf("process %d lives on beside the successor", pid)
		}
	}
	for _, pid := range others {
		if !living(pid) {
			t.Errorf("process %d of another line was ended", pid)
		}
	}
}

func TestRelease_ends_what_is_left_and_lets_go(t *testing.T) {
	t.Parallel()
	line := t.TempDir()
	l := newLeader(t, line)
	pids := append(l.started(), l.guards()...)
	if got := l.tell("release"); got != "released 3" {
		t.Errorf("it says %q", got)
	}
	for _, pid := range pids {
		if living(pid) {
			t.Errorf("process %d is there after the release", pid)
		}
	}
	// From now on it is like any other process: a successor must leave it alone.
	l.tell("unmarked")
	later := l.pid("later")
	if next := newLeader(t, line); next.said != "led 0" {
		t.Errorf("the successor says %q", next.said)
	}
	if !living(later) || !living(l.cmd.Process.Pid) {
		t.Error("the successor has ended what was released")
	}
}

func TestGuarded_replaces_a_guard_that_was_killed(t *testing.T) {
	t.Parallel()
	l := newLeader(t, "")
	pids := l.started()
	first := l.guards()
	if len(first) != 1 {
		t.Fatalf("guards %v", first)
	}
	if err := syscall.Kill(first[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is another guard", func() bool {
		l.tell("guarded")
		now := l.guards()
		return len(now) == 1 && now[0] != first[0]
	})
	l.tell("guarded")
	if now := l.guards(); len(now) != 1 {
		t.Errorf("guards %v", now)
	}
	pids = append(pids, l.guards()...)
	l.kill()
	gone(t, pids...)
}

// Under the race detector this is where it looks.
func TestGuarded_and_Release_at_once(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(os.Args[0], "role", "hammer")
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestGuarded_says_once_that_there_is_no_guard(t *testing.T) {
	l := &Leader{shed: func() {}, guard: []string{strings.Repeat("x", 1<<20)}} // longer than an argument may be
	if err := l.Guarded(); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("got %v", err)
	}
	if err := l.Guarded(); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

func TestHunt(t *testing.T) {
	kernel := func(pid int) bool { return pid == 1 }
	t.Run("gives up what does not end, and names it", func(t *testing.T) {
		h := hunt{wanted: kernel, kill: func(*os.Process) error { return nil }}
		_, err := h.run()
		var stuck *StuckError
		if !errors.As(err, &stuck) || !slices.Equal(stuck.Pids, []int{1}) {
			t.Fatalf("got %v", err)
		}
		if !strings.HasSuffix(stuck.Error(), "does not end: 1") || !strings.Contains(stuck.Advice(), "args -p 1\"") {
			t.Errorf("it says %q, and %q", stuck.Error(), stuck.Advice())
		}
	})
	t.Run("leaves alone what is another user's, and names it", func(t *testing.T) {
		h := hunt{wanted: kernel, kill: func(*os.Process) error { return unix.EPERM }, limit: time.Hour}
		if got, err := h.run(); err != nil || got.Count != 0 || !slices.Equal(got.Foreign, []int{1}) {
			t.Errorf("got %+v, %v", got, err)
		}
	})
	t.Run("goes on until nothing is found twice in a row", func(t *testing.T) {
		found := []bool{true, false, true, false, false, true}
		looks := 0
		h := hunt{limit: time.Hour, kill: func(*os.Process) error { return nil }}
		asked := 0
		h.wanted = func(pid int) bool {
			if pid != 1 {
				return false
			}
			// Each look asks twice about what it finds.
			if asked++; !found[looks] || asked == 2 {
				asked, looks = 0, looks+1
				return found[looks-1]
			}
			return true
		}
		if _, err := h.run(); err != nil || looks != 5 {
			t.Errorf("it has looked %d times, want 5: %v", looks, err)
		}
	})
}

func TestMark(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		line, other := rapid.String().Draw(t, "line"), rapid.String().Draw(t, "other")
		leader := rapid.IntRange(1, 1<<leaderBits-1)
		a, b := markOf(line, leader.Draw(t, "a")), markOf(line, leader.Draw(t, "b"))
		if !a.isMark() || uint64(a) == unix.RLIM_INFINITY || a < 1<<62 || a >= 1<<63 {
			t.Fatalf("%d can be taken for a limit", a)
		}
		if got, err := parseMark(a.String()); err != nil || got != a {
			t.Fatalf("%d was read as %d: %v", a, got, err)
		}
		if !a.sameLine(b) || markOf(line+"x", 1).sameLine(a) || line != other && markOf(other, 1).sameLine(a) {
			t.Fatal("lines are not told apart")
		}
	})
	for _, text := range []string{"", "0", "-1", "unlimited", "1024", "18446744073709551615", "9223372036854775808", "4611686018427387903", "x"} {
		if m, err := parseMark(text); err == nil {
			t.Errorf("%q was taken for the mark %d", text, m)
		}
	}
}

func TestMarkIn_a_file_of_limits(t *testing.T) {
	const before = "Limit                     Soft Limit           Hard Limit           Units     \nMax address space         unlimited            unlimited            bytes     \n"
	for text, want := range map[string]Mark{
		"": 0,
		before + "Max file locks            unlimited            unlimited            locks     \n": 0,
		before + "Max file locks            100                  unlimited            locks     \n": 0,
		before + "Max file locks            9208510606200542398  unlimited            locks     \n": 9208510606200542398,
		before + "Max file locks            ":                                                       0,
		before:                                                                                      0,
	} {
		if got := markIn([]byte(text)); got != want {
			t.Errorf("%q: %d", text, got)
		}
	}
}

func TestStandingIn_a_file_of_the_kernels(t *testing.T) {
	line := func(name, state string, threads int) string {
		return fmt.Sprintf("4711 (%s) %s 1 22 33 0 -1 4194304 1 0 0 0 0 0 0 0 20 0 %d 0 100 1 1 1", name, state, threads)
	}
	for _, c := range []struct {
		text  string
		alive bool
	}{
		{line("sh", "S", 1), true},
		{line("a) Z 1 9 9", "R", 1), true},
		{line("sh", "D", 1), true},
		{line("sh", "Z", 1), false},
		{line("its first thread has left", "Z", 2), true},
		{line("sh", "X", 1), false},
	} {
		s, alive := standingIn([]byte(c.text))
		if alive != c.alive || s != (standing{group: 22, session: 33}) {
			t.Errorf("%s: %+v, alive: %v", c.text, s, alive)
		}
	}
	for _, text := range []string{"", "4711", "4711 (sh", "4711 (sh) S 1 22 33"} {
		if _, alive := standingIn([]byte(text)); alive {
			t.Errorf("%q is alive", text)
		}
	}
}
