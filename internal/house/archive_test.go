package house

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/client"
	"breakwater/queue"
	"breakwater/storage"
)

// load is a source of lines: all sorts that a door sees.
type load struct {
	n    int // lines so far
	most int // Read ends after so many
	rest []byte
}

// next adds a line.
func (l *load) next() {
	l.n++
	switch {
	case l.n%97 == 0:
		l.rest = fmt.Appendf(l.rest, "line %d is none\n", l.n)
	case l.n%89 == 0:
		l.rest = append(l.rest, exceptionLine("OTHER", fmt.Sprint("id-", l.n-1), "")+"\n"...) // a conflict
	default:
		route := string(queue.Routes[l.n%2]) // nobody works on the other one: its backlog grows
		l.rest = append(l.rest, exceptionLine(fmt.Sprint(route, l.n/2%200), fmt.Sprint("id-", l.n), `,"route":"`+route+`"`)+"\n"...)
	}
}

// Read gives as many lines as there is room for.
func (l *load) Read(b []byte) (int, error) {
	for len(l.rest) < len(b) && l.n < l.most {
		l.next()
	}
	if len(l.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, l.rest)
	l.rest = l.rest[n:]
	return n, nil
}

// send sends lines until the function that it returns is called: so many as fast as
// the program takes them, then a few at a time, each after the receipts of those before.
func (l *load) send(s *site, fast int) (end func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan struct{})
	c := s.connect()
	go func() {
		defer close(ended)
		l.most, l.rest = l.n+fast, nil
		_, _ = (&client.Producer{Path: s.enqueueSocket()}).Send(ctx, l) // an error: it was told to end
		receipts := bufio.NewReader(c)
		for ctx.Err() == nil {
			l.rest = l.rest[:0]
			for range 4 {
				l.next()
			}
			if _, err := c.Write(l.rest); err != nil {
				return
			}
			for range bytes.Count(l.rest, []byte("\n")) {
				if _, err := receipts.ReadSlice('\n'); err != nil {
					return
				}
			}
		}
	}()
	return func() {
		cancel()
		<-ended
		_ = c.Close()
	}
}

// manifest is an archive's manifest as a program of somebody else's reads it.
type manifest struct {
	Archive string
	Bytes   int64
	SHA256  string
	Audit   struct {
		Block   uint64
		Head    string
		Records uint64
	}
	Counts map[string]int64
	Events map[string]uint64
}

// archives is how many archives the test makes, and how many lines come in as fast as
// they are taken during each; with BREAKWATER_ARCHIVES as many as it says, under full
// load.
func archives() (n, fast int) {
	n, err := strconv.Atoi(os.Getenv("BREAKWATER_ARCHIVES"))
	if err != nil {
		return 3, 500
	}
	return n, 30000
}

// TestArchive_under_load makes archives one after the other while lines come in and are
// worked off, and proves of each: it opens, it verifies, it is a moment of the live
// store's own history, and its counts are what that history says up to there.
func TestArchive_under_load(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	p := s.serve()
	n, fast := archives()
	s.mkdir("archives")
	var made []manifest
	var lines load
	for i := range n {
		path := s.path(fmt.Sprintf("archives/%02d.db", i))
		end := lines.send(s, fast)
		s.awaitDone(s.done() + 1)
		begun := time.Now()
		s.command("archive", path)
		end()
		took := time.Since(begun)
		var m manifest
		if err := json.Unmarshal([]byte(s.read(fmt.Sprintf("archives/%02d.db.manifest.json", i))), &m); err != nil {
			t.Fatal(err)
		}
		t.Logf("archive %d: %d MiB, %d records, in %s", i, m.Bytes>>20, m.Audit.Records, took.Round(time.Millisecond))
		made = append(made, m)
		s.checkArchive(path, &m)
		s.command("audit", "verify", "--witness", fmt.Sprintf("%d:%s", m.Audit.Block, m.Audit.Head))
	}
	p.stop()
	records := s.trail()
	checkTrail(t, records)
	for _, m := range made {
		if len(records) <= int(m.Audit.Records) {
			t.Fatalf("%d records, the archive %s has %d", len(records), m.Archive, m.Audit.Records)
		}
		if want := countsOf(records[:m.Audit.Records]); !want.equal(m.Counts) {
			t.Errorf("%s has %v, its records say %v", m.Archive, m.Counts, want)
		}
	}
	if last := made[len(made)-1]; s.status().ArchivedN != last.Audit.Records {
		t.Errorf("archived up to record %d, the last archive has %d", s.status().ArchivedN, last.Audit.Records)
	}
}

// command runs a command that must succeed.
func (s *site) command(args ...string) string {
	s.Helper()
	cmd := exec.Command(s.binary, append([]string{"--config", s.path("config.hcl")}, args...)...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// checkArchive opens an archive and reads all of it.
func (s *site) checkArchive(path string, m *manifest) {
	s.Helper()
	c, err := storage.OpenCopy(storage.Options{Path: path})
	if err != nil {
		s.Fatal(err)
	}
	defer c.Close()
	v, err := c.Verify(s.Context(), queue.VerifyOptions{Buckets: true})
	if err != nil || len(v.Findings) > 0 || v.Head.Hash.String() != m.Audit.Head || v.Records != m.Audit.Records {
		s.Errorf("%s: %+v (%v), the manifest says %+v", path, v, err, m.Audit)
	}
	if st, err := os.Stat(path); err != nil || st.Size() != m.Bytes || st.Mode().Perm() != 0o600 {
		s.Errorf("%s: %v (%v), the manifest says %d bytes", path, st, err, m.Bytes)
	}
}

// tally is what a trail says that there is.
type tally struct{ open, done, dead, quarantined int64 }

// countsOf folds a trail without a replay or a discard.
func countsOf(records []queue.Record) (c tally) {
	for _, r := range records {
		switch r.Event {
		case queue.EventAccepted:
			c.open++
		case queue.EventDecided:
			c.open--
			c.done++
		case queue.EventQuarantined:
			c.dead++
			if r.Code == queue.CodePoison {
				c.quarantined++
			}
		}
	}
	return c
}

func (c tally) equal(counts map[string]int64) bool {
	open := counts["ready"] + counts["scheduled"] + counts["leased"] + counts["held"]
	return c == tally{open, counts["done"], counts["dead"], counts["quarantined"]} &&
		c.open+c.done+c.dead == counts["last_seq"]
}

// sealing begins an archive and stops the process that checks it, so that a test has
// all the time that it wants in the middle of one. It returns the process that asked
// for it.
func (s *site) sealing(server *process) (asking *process) {
	s.Helper()
	for try := range 50 {
		asking := s.start("archive", s.path(fmt.Sprintf("archives/try-%d.db", try)))
		for {
			child := childOf(server.cmd.Process.Pid, "__seal-archive")
			if child != 0 && syscall.Kill(child, syscall.SIGSTOP) == nil && childOf(server.cmd.Process.Pid, "__seal-archive") == child {
				s.Cleanup(func() { _ = syscall.Kill(-child, syscall.SIGKILL) }) // if the test failed
				return asking
			}
			select {
			case <-asking.ended: // too fast for us
			case <-time.After(time.Millisecond):
				continue
			}
			break
		}
	}
	s.Fatal("no archive could be stopped on its way")
	return nil
}

// childOf finds a child of a process by a word of its command line; 0: there is none.
func childOf(pid int, word string) int {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // the pattern is right
	for _, list := range lists {
		text, _ := os.ReadFile(list)
		for _, field := range strings.Fields(string(text)) {
			line, _ := os.ReadFile("/proc/" + field + "/cmdline")
			if child, err := strconv.Atoi(field); err == nil && slices.Contains(strings.Split(string(line), "\x00"), word) {
				return child
			}
		}
	}
	return 0
}

// unfinished lists what there is of the archive that was stopped last: nothing under
// its own name.
func (s *site) unfinished() (names []string) {
	s.Helper()
	all, err := filepath.Glob(s.path("archives/.*.archiving"))
	if err != nil {
		s.Fatal(err)
	}
	finished, err := filepath.Glob(s.path("archives/*.db"))
	if err != nil {
		s.Fatal(err)
	}
	for _, f := range finished {
		if _, err := os.Stat(f + ".manifest.json"); err != nil {
			s.Errorf("an archive without a manifest: %v", err)
		}
		s.checkArchive(f, s.manifestOf(f))
	}
	return all
}

func (s *site) manifestOf(path string) *manifest {
	s.Helper()
	text, err := os.ReadFile(path + ".manifest.json")
	if err != nil {
		s.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		s.Fatal(err)
	}
	return &m
}

// TestArchive_cut_off ends an archive in its middle in four ways.
func TestArchive_cut_off(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.mkdir("archives")
	p := s.serve()
	var text strings.Builder
	for i := range 2000 {
		text.WriteString(benchLine(i, "ROUTE_REVIEW") + "\n")
	}
	s.stream(text.String())

	// Whoever asked leaves.
	asking := s.sealing(p)
	asking.signal(syscall.SIGINT)
	if status := asking.wait(); status != 1 {
		t.Errorf("an interrupted archive: exit status %d\n%s", status, asking.log.all())
	}
	eventually(t, "the archive ends with its client", func() bool { return len(s.unfinished()) == 0 })

	// Its check is killed, as the kernel does when memory is short.
	asking = s.sealing(p)
	if err := syscall.Kill(childOf(p.cmd.Process.Pid, "__seal-archive"), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if status := asking.wait(); status != 1 || !strings.Contains(asking.log.all(), "ended by SIGKILL") || !strings.Contains(asking.log.all(), "memory was short") {
		t.Errorf("an archive whose check is killed: exit status %d\n%s", status, asking.log.all())
	}
	if left := s.unfinished(); len(left) > 0 {
		t.Errorf("a check that is killed leaves %q", left)
	}

	// The server drains.
	asking = s.sealing(p)
	p.stop()
	if status := asking.wait(); status != 1 || !strings.Contains(asking.log.all(), "DRAINING") {
		t.Errorf("an archive in a drain: exit status %d\n%s", status, asking.log.all())
	}
	if left := s.unfinished(); len(left) > 0 {
		t.Errorf("a drain leaves %q", left)
	}

	// The server dies. Its child goes with it, its copy is never an archive, and the
	// next archive to this name removes it.
	p = s.serve()
	asking = s.sealing(p)
	p.kill()
	if status := asking.wait(); status != 1 {
		t.Errorf("an archive of a server that died: exit status %d\n%s", status, asking.log.all())
	}
	left := s.unfinished()
	if len(left) != 1 {
		t.Fatalf("kill -9 leaves %q, want the copy", left)
	}
	eventually(t, "the child has gone, and let go of the copy", func() bool { return unlocked(t, left[0]) })
	name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(left[0]), "."), ".db.")
	p = s.serve()
	s.command("archive", s.path("archives/"+name+".db"))
	if left := s.unfinished(); len(left) > 0 {
		t.Errorf("the next archive leaves %q", left)
	}
	p.stop()
	s.verify()
}

// unlocked reports whether nobody holds the lock of a file.
func unlocked(t *testing.T, path string) bool {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}

// TestArchive_onto_a_full_disk fails with a reason, and harms nobody.
func TestArchive_onto_a_full_disk(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.mkdir("archives")
	if err := syscall.Mount("breakwater-test", s.path("archives"), "tmpfs", 0, "size=256k"); err != nil {
		t.Skipf("no small file system: %v", err)
	}
	defer func() { _ = syscall.Unmount(s.path("archives"), mntDetach) }()
	p := s.serve()
	end := new(load).send(s, 1000)
	s.awaitDone(100)
	asking := s.start("archive", s.path("archives/one.db"))
	if status := asking.wait(); status != 1 || !strings.Contains(asking.log.all(), "the archive needs") || !strings.Contains(asking.log.all(), "hint: ") {
		t.Errorf("exit status %d\n%s", status, asking.log.all())
	}
	if left := s.unfinished(); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
	s.awaitDone(s.done() + 100)
	end()
	p.stop()
	s.verify()
}

// TestArchive_of_a_full_disk brings what is on a full disk to another one. On the disk
// itself there is no room for it.
func TestArchive_of_a_full_disk(t *testing.T) {
	t.Parallel()
	s := newSite(t, "queue {\n  min_free_bytes = 1048576\n  on_saturated = \"reject\"\n}\n")
	s.smallDisk("24m")
	s.mkdir("archives")
	p := s.serve()
	var text strings.Builder
	for i := range 2000 {
		text.WriteString(benchLine(i, "ROUTE_REVIEW") + "\n")
	}
	s.stream(text.String())
	s.fillUp("var/ballast", 512<<10)
	line := exceptionLine("k", "while full", `,"pad":"`+strings.Repeat("x", 100000)+`"`)
	eventually(t, "the disk is full", func() bool { return s.sendOne(line).Reason == "min_free_bytes" })
	asking := s.start("archive", s.path("var/one.db"))
	if status := asking.wait(); status != 1 || !strings.Contains(asking.log.all(), "choose another disk") {
		t.Errorf("beside the store: exit status %d\n%s", status, asking.log.all())
	}
	s.command("archive", s.path("archives/one.db"))
	s.checkArchive(s.path("archives/one.db"), s.manifestOf(s.path("archives/one.db")))

	// Not a byte is left: what settling needs is not there either, but nothing is lost.
	s.fillUp("var/ballast2", 0)
	asking = s.start("archive", s.path("archives/two.db"))
	status := asking.wait()
	made := status == 0 && len(s.unfinished()) == 0 // there may be free pages in the file
	if !made && (status != 1 || !strings.Contains(asking.log.all(), "make a little") || len(s.unfinished()) > 0) {
		t.Errorf("without a free byte: exit status %d\n%s", status, asking.log.all())
	}
	remove(t, s.path("var/ballast"))
	remove(t, s.path("var/ballast2"))
	p.stop()
	s.verify()
}

// TestArchive_full_circle archives a store with work under way, takes the archive into
// service on another host, and works it off there: nobody there holds a lease of the old
// one, nothing is handed out before somebody says so, and nothing is missing.
func TestArchive_full_circle(t *testing.T) {
	t.Parallel()
	old := newSite(t, `
route "AUTO_RESOLVE" { handler = "wait" }
handler "exec" "wait" {
  command    = ["/bin/sh", "wait.sh"]
  timeout_ms = 600000
}
`)
	old.write("wait.sh", waitsForGo)
	if err := syscall.Mkfifo(old.path("go"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := old.serve()
	var sent []string
	for i := range 30 {
		sent = append(sent, exceptionLine(fmt.Sprint("K", i%10), fmt.Sprint("id-", i), `,"route":"AUTO_RESOLVE"`))
	}
	for _, a := range old.sendAll(strings.Join(sent, "\n")) {
		if a.Event == "" && a.Status != "accepted" {
			t.Fatalf("%+v", a)
		}
	}
	old.running(3)
	old.mkdir("archives")
	old.command("archive", old.path("archives/one.db"))
	old.checkRead(old.path("archives/one.db"))
	leased := int(old.manifestOf(old.path("archives/one.db")).Counts["leased"])
	p.kill()

	next := newSite(t, "")
	next.mkdir("var")
	for from, to := range map[string]string{"one.db": "breakwater.db", "one.db.manifest.json": "breakwater.db.manifest.json"} {
		next.write("var/"+to, old.read("archives/"+from))
	}
	p = next.start("serve")
	if status := p.wait(); status != 1 || !strings.Contains(p.log.all(), "STORE_COPY") {
		t.Fatalf("an archive in a store's place: exit status %d\n%s", status, p.log.all())
	}
	p = next.serve("--restore")
	var st struct {
		Ready, Leased, Done int
		Paused              *struct{ By string }
	}
	next.control("/v1/status", &st)
	if st.Ready != 30 || st.Leased != 0 || st.Done != 0 || st.Paused == nil || st.Paused.By != "restore" {
		t.Errorf("restored: %+v", st)
	}
	next.command("resume", "--by", "olga")
	next.awaitDone(30)
	for _, a := range next.sendAll(strings.Join(sent, "\n")) {
		if a.Event == "" && a.Status != "duplicate" {
			t.Errorf("sent again: %+v", a)
		}
	}
	p.stop()
	next.verify()
	records := next.trail()
	checkTrail(t, records)
	events := map[queue.Event]int{}
	for _, r := range records {
		events[r.Event]++
		if r.Event == queue.EventReclaimed && r.Reason != queue.ReclaimRestored {
			t.Errorf("a lease of the old host ended otherwise: %+v", r)
		}
	}
	if events[queue.EventRestored] != 1 || leased < 3 || events[queue.EventReclaimed] != leased || events[queue.EventDecided] != 30 {
		t.Errorf("%d were leased; events: %v", leased, events)
	}
}

// checkRead reads a copy by every command that reads, as a user who may not write
// anywhere, with nothing else of the store at hand. The copy is as it was then.
func (s *site) checkRead(path string) {
	s.Helper()
	dir, err := os.MkdirTemp("", "bwcopy")
	if err != nil {
		s.Fatal(err)
	}
	copied, binary := filepath.Join(dir, "copy.db"), filepath.Join(dir, "breakwater")
	s.Cleanup(func() { _ = os.Chmod(dir, 0o700); _ = os.RemoveAll(dir) })
	before, err := os.ReadFile(path)
	if err != nil {
		s.Fatal(err)
	}
	program, err := os.ReadFile(s.binary)
	if err != nil {
		s.Fatal(err)
	}
	for name, b := range map[string][]byte{copied: before, binary: program} {
		if err := os.WriteFile(name, b, 0o500); err != nil {
			s.Fatal(err)
		}
	}
	who := &syscall.SysProcAttr{}
	if os.Geteuid() == 0 { // whom no mode keeps out
		const nobody = 65534
		who.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		for _, name := range []string{copied, binary, dir} {
			if err := os.Chown(name, nobody, nobody); err != nil {
				s.Fatal(err)
			}
		}
	}
	if err := errors.Join(os.Chmod(copied, 0o400), os.Chmod(dir, 0o500)); err != nil {
		s.Fatal(err)
	}
	for _, line := range []string{
		"status", "show 1", "why id-1", "keys list", "leases list", "dlq list", "dlq export", "audit verify",
		"audit export", "audit trace 1", "config history", "doctor", "status --json", "audit verify --json",
	} {
		cmd := exec.Command(binary, append(strings.Fields(line), "--file", copied)...)
		cmd.Dir, cmd.SysProcAttr, cmd.Env = dir, who, []string{"BREAKWATER_CONFIG=/nonexistent"}
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	after, err := os.ReadFile(copied)
	names, err2 := os.ReadDir(dir)
	if err != nil || err2 != nil || !bytes.Equal(before, after) || len(names) != 2 {
		s.Errorf("the copy was changed, or something was left beside it: %v (%v, %v)", names, err, err2)
	}
}
