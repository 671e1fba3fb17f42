package house

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/queue"
)

// rssAnon is the anonymous memory of a process, in bytes: what it has asked for
// itself, without the pages of the file that the kernel keeps.
func (p *process) rssAnon() int64 {
	p.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		p.Fatal(err)
	}
	m := regexp.MustCompile(`RssAnon:\s+(\d+) kB`).FindSubmatch(text)
	if m == nil {
		p.Fatalf("no RssAnon in %s", text)
	}
	kb, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		p.Fatal(err)
	}
	return kb << 10
}

// watchMemory looks at the memory of a process until stop is called, which returns
// the most that was seen.
func (p *process) watchMemory() (stop func() int64) {
	most, end, ended := int64(0), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, p.rssAnon())
			select {
			case <-tick.C:
			case <-end:
				return
			}
		}
	}()
	return func() int64 {
		close(end)
		<-ended
		return most
	}
}

// end returns the end line of a connection's answers, which must be the last.
func end(t testing.TB, list []answer) answer {
	t.Helper()
	if len(list) == 0 || list[len(list)-1].Event != "end" {
		t.Fatalf("no end line: %+v", list)
	}
	return list[len(list)-1]
}

func TestBadProducers(t *testing.T) {
	t.Run("one that never reads its receipts harms nobody", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "queue { receipt_timeout_ms = 100 }\n")
		p := s.serve()
		const lines = 30000
		deaf := s.connect()
		for i := range lines {
			// The receipts of all these lines would fill every buffer on the way.
			if _, err := fmt.Fprintln(deaf, exceptionLine(fmt.Sprint("deaf", i%9), fmt.Sprint("deaf-", i), "")); err != nil {
				t.Fatal(err)
			}
		}
		p.await("producer does not read its receipts: they are dropped, its lines are stored")
		if a := s.sendOne(exceptionLine("k", "other", "")); a.Status != "accepted" {
			t.Errorf("another producer: %+v", a)
		}
		// It hears of that as soon as it reads again, and of the end: who is behind at
		// its end has one time-out for all that is left, which may pass before it is read.
		receipts := bufio.NewReader(deaf)
		for told := ""; !strings.Contains(told, `"receipts_dropped"`); {
			var err error
			if told, err = receipts.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if err := deaf.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if e := end(t, answers(t, receipts)); e.Lines != lines {
			t.Errorf("end %+v", e)
		}
		p.stop()
		if st := s.status(); st.LastSeq != lines+1 {
			t.Errorf("%d lines are stored of %d", st.LastSeq, lines+1)
		}
		s.sound()
	})
	t.Run("one byte at a time is as good as any", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		p := s.serve()
		c := s.connect()
		for _, b := range []byte(exceptionLine("k", "slow", "") + "\r\n\n" + exceptionLine("k", "slower", "")) {
			if _, err := c.Write([]byte{b}); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.CloseWrite(); err != nil {
			t.Fatal(err)
		}
		list := answers(t, bufio.NewReader(c))
		if e := end(t, list); len(list) != 3 || list[0].Status != "accepted" || list[1].Line != 3 || e.Lines != 2 {
			t.Errorf("%+v", list)
		}
		p.stop()
	})
	t.Run("a line without an end takes no memory", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "queue { max_intake_bytes = 4194304 }\n")
		p := s.serve()
		before, stop := p.rssAnon(), p.watchMemory()
		c := s.connect()
		const size = 64 << 20
		go func() {
			_, _ = io.CopyN(c, endless{}, size) // what is missing shows in the answers
			_, _ = io.WriteString(c, "\n"+exceptionLine("k", "after it", "")+"\n")
			_ = c.CloseWrite()
		}()
		list := answers(t, bufio.NewReader(c))
		if most := stop(); most > before+64<<20 {
			t.Errorf("RssAnon grew from %d to %d MiB", before>>20, most>>20)
		} else {
			t.Logf("RssAnon: %d MiB before, at most %d", before>>20, most>>20)
		}
		if len(list) != 3 || list[0].Status != "quarantined" || list[1].Status != "accepted" {
			t.Fatalf("%+v", list)
		}
		p.stop()
		if e := s.exception(list[0].Seq); e.LineBytes != size || len(e.Line) != 4096 {
			t.Errorf("stored with %d of %d bytes", len(e.Line), e.LineBytes)
		}
	})
	t.Run("connections over the limit are told so", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "socket \"enqueue\" { max_connections = 4 }\n")
		p := s.serve()
		open := s.connect()
		if _, err := fmt.Fprintln(open, exceptionLine("k", "first", "")); err != nil {
			t.Fatal(err)
		}
		receipts := bufio.NewReader(open)
		if _, err := receipts.ReadBytes('\n'); err != nil {
			t.Fatal(err)
		}
		refused := 0
		for i := range 300 {
			c := s.connect()
			if i < 3 {
				continue // they stay and say nothing
			}
			list := answers(t, bufio.NewReader(c))
			if len(list) == 1 && list[0].Event == "error" && list[0].Code == "QUEUE_SATURATED" {
				refused++
			}
			_ = c.Close()
		}
		if refused != 297 {
			t.Errorf("%d of 297 connections were refused in words", refused)
		}
		if _, err := fmt.Fprintln(open, exceptionLine("k", "second", "")); err != nil {
			t.Fatal(err)
		}
		if line, err := receipts.ReadBytes('\n'); err != nil || parseAnswer(t, line).Status != "accepted" {
			t.Errorf("who was there first: %s, %v", line, err)
		}
		p.stop()
	})
	t.Run("one that dies in a line leaves nothing of it", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		p := s.serve()
		c := s.connect()
		whole, half := exceptionLine("k", "whole", ""), exceptionLine("k", "half", "")
		if _, err := io.WriteString(c, whole+"\n"+half[:len(half)/2]); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		// Half-closed instead: it is told.
		list := s.sendAll(half[:len(half)/2])
		if len(list) != 2 || list[0].Status != "rejected" || list[0].Code != "INCOMPLETE_LINE" {
			t.Errorf("%+v", list)
		}
		if a := s.sendOne(half); a.Status != "accepted" {
			t.Errorf("sent again: %+v", a)
		}
		p.stop()
		if st := s.status(); st.LastSeq != 2 || st.Dead != 0 {
			t.Errorf("%d lines are stored, %d of them dead", st.LastSeq, st.Dead)
		}
	})
	t.Run("HTTP is quarantined line by line", func(t *testing.T) {
		t.Parallel()
		s := newSite(t, "")
		p := s.serve()
		list := s.sendAll("POST /v1/exceptions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}")
		if len(list) != 5 || list[0].Code != "POISON_MESSAGE" || list[3].Code != "POISON_MESSAGE" {
			t.Errorf("%+v", list)
		}
		again := s.sendAll("POST /v1/exceptions HTTP/1.1\r\n")
		if len(again) != 2 || !again[0].Repeat || again[0].Seq != list[0].Seq {
			t.Errorf("the same again: %+v", again)
		}
		p.stop()
		s.sound()
	})
}

// endless is a line that never ends.
type endless struct{}

// Read fills b.
func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

// mntDetach is MNT_DETACH of umount(2): the file system goes with its last user.
const mntDetach = 2

// smallDisk makes a file system of its own for a site's data, or skips the test.
func (s *site) smallDisk(size string) {
	s.Helper()
	s.mkdir("var")
	if err := syscall.Mount("breakwater-test", s.path("var"), "tmpfs", 0, "size="+size); err != nil {
		s.Skipf("no small file system to fill: %v", err)
	}
	s.Cleanup(func() {
		if err := syscall.Unmount(s.path("var"), mntDetach); err != nil {
			s.Errorf("unmount: %v", err)
		}
	})
}

func (s *site) mkdir(name string) {
	s.Helper()
	if err := os.MkdirAll(s.path(name), 0o700); err != nil {
		s.Fatal(err)
	}
}

// fillUp writes a file that leaves at most so many bytes of the disk.
func (s *site) fillUp(name string, leave int64) {
	s.Helper()
	f, err := os.Create(s.path(name))
	if err != nil {
		s.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		var fs syscall.Statfs_t
		if err := syscall.Statfs(s.path("var"), &fs); err != nil {
			s.Fatal(err)
		}
		if int64(fs.Bavail)*fs.Bsize <= leave {
			return
		}
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

// doneOf asks how many of the lines, which were accepted before, are done.
func (s *site) doneOf(lines []string) (n int) {
	s.Helper()
	for _, a := range s.sendAll(strings.Join(lines, "\n")) {
		if a.State == "done" {
			n++
		}
	}
	return n
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, `
queue {
  min_free_bytes = 1048576
  on_saturated   = "reject"
}
route "AUTO_RESOLVE" { handler = "wait" }
handler "exec" "wait" {
  command    = ["/bin/sh", "wait.sh"]
  timeout_ms = 600000
}
`)
	s.smallDisk("24m")
	s.write("wait.sh", waitsForGo)
	if err := syscall.Mkfifo(s.path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := s.serve()
	var sent []string
	for i := range 20 {
		sent = append(sent, exceptionLine(fmt.Sprint("k", i), fmt.Sprint("before-", i), `,"route":"AUTO_RESOLVE"`))
	}
	for _, a := range s.sendAll(strings.Join(sent, "\n")) {
		if a.Event == "" && a.Status != "accepted" {
			t.Fatalf("with room: %+v", a)
		}
	}
	s.running(1)

	s.fillUp("var/ballast", 512<<10)
	text := exceptionLine("k", "while full", `,"pad":"`+strings.Repeat("x", 100000)+`"`)
	eventually(t, "a full disk is answered as such", func() bool {
		a := s.sendOne(text)
		saturated := a.Code == "QUEUE_SATURATED" && a.Reason == "min_free_bytes"
		if a.Status == "accepted" || a.Status == "rejected" && !saturated && a.Code != "STORAGE_UNAVAILABLE" {
			t.Fatalf("%+v", a)
		}
		return saturated
	})
	if a := s.sendOne(sent[0]); a.Status != "duplicate" {
		t.Errorf("a duplicate is answered even then: %+v", a)
	}
	pipe := s.letGo(8)
	eventually(t, "what was in flight is settled from the reserve", func() bool { return s.doneOf(sent) == 8 })

	// Somebody else takes the reserve too: now nothing can be stored, settlements
	// included, but nothing is lost either.
	s.fillUp("var/ballast2", 0)
	for range 3 {
		if a := s.sendOne(text); a.Status != "rejected" {
			t.Errorf("with no room at all: %+v", a)
		}
	}
	pipe.word(100)

	remove(t, s.path("var/ballast"))
	remove(t, s.path("var/ballast2"))
	eventually(t, "it takes lines again by itself", func() bool { return s.sendOne(text).Status == "accepted" })
	eventually(t, "all is settled", func() bool { return s.doneOf(sent) == len(sent) })
	p.stop()
	s.sound()
	if e := s.last(queue.EventStarted); e.N != 1 {
		t.Error("the program was started again")
	}
}
