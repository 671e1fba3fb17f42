package house

import (
	"strings"
	"syscall"
	"testing"
)

// TestHang_commands_do_not_wait_for_a_process_that_is_stopped asks one that listens and
// does nothing. It loses nothing by it.
func TestHang_commands_do_not_wait_for_a_process_that_is_stopped(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	p := s.serve()
	if a := s.sendOne(exceptionLine("k", "before", "")); a.Status != "accepted" {
		t.Fatalf("%+v", a)
	}
	p.signal(syscall.SIGSTOP)
	defer p.signal(syscall.SIGCONT)
	commands := [][]string{{"status"}, {"audit", "verify"}, {"audit", "export"}, {"archive", s.path("a.db")}, {"pause", "--reason", "a test"}, {"doctor"}}
	var asked []*process
	for _, args := range commands {
		asked = append(asked, s.start(args...)) // side by side: each waits for some seconds
	}
	for i, c := range asked {
		want := 1
		if commands[i][0] == "doctor" {
			want = 3 // it is what it has found
		}
		if status := c.wait(); status != want {
			t.Errorf("%v: exit status %d, want %d", commands[i], status, want)
		}
		if text := c.log.all() + c.out.all(); !strings.Contains(text, "does not answer") {
			t.Errorf("%v does not say what is wrong:\n%s", commands[i], text)
		}
	}
	p.signal(syscall.SIGCONT)
	if a := s.sendOne(exceptionLine("k", "after", "")); a.Status != "accepted" {
		t.Errorf("when it goes on: %+v", a)
	}
	p.stop()
	s.sound()
}
