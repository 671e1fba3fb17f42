package house

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"breakwater/queue"
)

// withFamilies is a configuration whose commands start others: in their group, in a group
// of its own (timeout), and in a session of its own without an environment (setsid). Each
// tells its process in the file pids. A command first looks for the processes that are
// there already, and notes those that live in the file alive; where there is a file
// finish it is done then, else it stays.
const withFamilies = `
route "ROUTE_REVIEW" { handler = "slow" }
handler "exec" "slow" {
  command    = ["/bin/sh", "work.sh"]
  timeout_ms = 1000000
}
queue {
  concurrency     = 4
  drain_timeout_s = %d
}
`

const familyScript = `
for p in $(cat pids 2>/dev/null); do
  case $(sed 's/.*) //; s/ .*//' /proc/$p/stat 2>/dev/null) in
  ""|Z|X) ;;
  *) echo $p >>alive ;;
  esac
done
test -e finish && exit 0
cat >stay.sh.$$ <<'END'
echo $$ >>pids
exec sleep 1000
END
sh stay.sh.$$ &
timeout 1000 sh stay.sh.$$ &
env -i "PATH=$PATH" setsid sh stay.sh.$$ &
echo $$ >>pids
echo $BREAKWATER_SEQ >>begun
wait
`

// family is how many processes tell of themselves in each run of the script.
const family = 4

func newFamilies(t *testing.T, drainSeconds int) *site {
	t.Helper()
	s := newSite(t, fmt.Sprintf(withFamilies, drainSeconds))
	s.write("work.sh", familyScript)
	t.Cleanup(func() {
		for _, pid := range s.members() {
			_ = syscall.Kill(pid, syscall.SIGKILL) // most have ended
		}
	})
	return s
}

// serveMarked starts the appliance. Where the kernel takes no mark (gVisor, for one), the
// test is skipped.
func (s *site) serveMarked(t *testing.T) *process {
	t.Helper()
	p := s.serve()
	if log := p.log.all(); strings.Contains(log, "processes cannot be marked here") {
		t.Skip(log)
	}
	return p
}

// members returns the processes that have told of themselves.
func (s *site) members() (pids []int) {
	s.Helper()
	for _, word := range strings.Fields(s.read("pids")) {
		if pid, err := strconv.Atoi(word); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// families waits until so many runs of the script are complete.
func (s *site) families(n int) []int {
	s.Helper()
	eventually(s, fmt.Sprint(n, " commands have begun"), func() bool { return len(s.members()) >= n*family })
	return s.members()
}

// lives reports whether a process has not ended.
func lives(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	return after != "" && after[0] != 'Z' && after[0] != 'X'
}

// left waits until processes have gone.
func (s *site) left(pids ...int) {
	s.Helper()
	for _, pid := range pids {
		eventually(s, fmt.Sprint("process ", pid, " has ended"), func() bool { return !lives(pid) })
	}
}

// guards returns the guards of a process.
func (p *process) guards() (pids []int) {
	p.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		p.Fatalf("no processes: %v", err)
	}
	for _, path := range stats {
		dir := filepath.Dir(path)
		text, _ := os.ReadFile(path)
		_, after, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(after)
		args, _ := os.ReadFile(dir + "/cmdline")
		if len(fields) < 2 || fields[1] != strconv.Itoa(p.cmd.Process.Pid) || !strings.Contains(string(args), "\x00__guard-commands\x00") {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(dir)); err == nil && lives(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// guard returns the one guard of a process.
func (p *process) guard() int {
	p.Helper()
	pids := p.guards()
	if len(pids) != 1 {
		p.Fatalf("guards: %v, want one", pids)
	}
	return pids[0]
}

func (p *process) killGuard() {
	p.Helper()
	guard := p.guard()
	if err := syscall.Kill(guard, syscall.SIGKILL); err != nil {
		p.Fatal(err)
	}
	p.left(guard)
}

// B52: whatever is killed, no new handler meets an old one.
func TestKill_no_handler_meets_what_is_left_of_another(t *testing.T) {
	for name, kill := range map[string]func(p *process){
		"the server":                    func(p *process) { p.kill() },
		"the guard and then the server": func(p *process) { p.killGuard(); p.kill() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFamilies(t, 1)
			p := s.serveMarked(t)
			s.sendAll(exceptionLine("A", "k1", "") + "\n" + exceptionLine("B", "k2", "") + "\n")
			old := s.families(2)
			s.write("alive", "") // they have met each other
			kill(p)
			s.write("finish", "")
			p = s.serve()
			for _, pid := range old { // also before anything is handed out
				if lives(pid) {
					t.Errorf("process %d is at work beside the next server", pid)
				}
			}
			s.awaitDone(2)
			p.stop()
			if met := s.read("alive"); met != "" {
				t.Errorf("a command has met the processes %s", strings.Join(strings.Fields(met), ", "))
			}
			for _, seq := range []uint64{1, 2} {
				if e := s.exception(seq); e.State != queue.Done {
					t.Errorf("seq %d is %s", seq, e.State)
				}
			}
			s.sound()
		})
	}
}

// The moment after its start at which a command is not known to anybody yet is the one in
// which it must not be missed: here the server is killed while commands start.
func TestKill_while_commands_start(t *testing.T) {
	t.Parallel()
	const kills, keys = 12, 40
	s := newFamilies(t, 1)
	var lines strings.Builder
	for i := range keys {
		fmt.Fprintln(&lines, exceptionLine(fmt.Sprint("K", i), fmt.Sprint("k", i), ""))
	}
	for i := range kills {
		begun := len(strings.Fields(s.read("begun")))
		p := s.serveMarked(t)
		if old := s.strays(p); len(old) > 0 {
			t.Fatalf("kill %d has left the processes %v", i, old)
		}
		if i == 0 {
			s.sendAll(lines.String())
		}
		// One more each time: the others are in the middle of their start.
		eventually(t, "a command begins", func() bool { return len(strings.Fields(s.read("begun"))) > begun+i%4 })
		for _, guard := range p.guards()[:i%2] { // every other time nobody is there to help
			_ = syscall.Kill(guard, syscall.SIGKILL)
		}
		p.kill()
	}
	p := s.serveMarked(t)
	if old := s.strays(p); len(old) > 0 {
		t.Errorf("the last kill has left the processes %v", old)
	}
	p.kill()
	s.left(s.members()...)
}

// strays returns the processes that work in the site's folder and descend from no
// living process there but the one given.
func (s *site) strays(p *process) (pids []int) {
	s.Helper()
	here := map[int]int{} // process → parent
	folders, _ := filepath.Glob("/proc/[0-9]*/cwd")
	for _, link := range folders {
		if folder, err := os.Readlink(link); err != nil || folder != s.dir {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(link)))
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(text), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && lives(pid) {
			here[pid], _ = strconv.Atoi(fields[1])
		}
	}
	if _, ok := here[p.cmd.Process.Pid]; !ok {
		s.Fatalf("the server is not among the %d processes in %s", len(here), s.dir)
	}
	for pid := range here {
		top := pid
		for {
			parent, ok := here[top]
			if _, above := here[parent]; !ok || !above {
				break
			}
			top = parent
		}
		if top != p.cmd.Process.Pid {
			pids = append(pids, pid)
		}
	}
	return pids
}

// TestGuard is about the guard's own life.
func TestGuard(t *testing.T) {
	const patient = 3600
	begin := func(t *testing.T, drainSeconds int) (*site, *process, []int) {
		t.Parallel()
		s := newFamilies(t, drainSeconds)
		p := s.serveMarked(t)
		if got := p.guards(); len(got) > 0 {
			t.Errorf("guards without a command: %v", got)
		}
		s.sendAll(exceptionLine("A", "k1", "") + "\n")
		return s, p, s.families(1)
	}
	t.Run("ends commands when its server is killed, with nobody to succeed it", func(t *testing.T) {
		s, p, pids := begin(t, patient)
		guard := p.guard()
		p.kill()
		s.left(append(pids, guard)...)
	})
	t.Run("is replaced when it is killed, and what began under it is not forgotten", func(t *testing.T) {
		s, p, pids := begin(t, patient)
		p.killGuard()
		for _, pid := range pids {
			if !lives(pid) {
				t.Errorf("process %d has ended with the guard", pid)
			}
		}
		s.sendAll(exceptionLine("B", "k2", "") + "\n")
		pids = append(s.families(2), p.guard())
		p.kill()
		s.left(pids...)
	})
	t.Run("is left alone by signals that are for its server", func(t *testing.T) {
		s, p, pids := begin(t, patient)
		guard := p.guard()
		// It has to be there first: what Ignore has not been told of yet ends it.
		eventually(t, "the guard ignores signals", func() bool {
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", guard))
			if err != nil {
				t.Fatal(err)
			}
			_, after, _ := strings.Cut(string(status), "\nSigIgn:\t")
			set, _ := strconv.ParseUint(after[:16], 16, 64)
			const wanted = 1<<(syscall.SIGTERM-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGHUP-1)
			return set&wanted == wanted
		})
		for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM} {
			if err := syscall.Kill(guard, sig); err != nil {
				t.Fatal(err)
			}
		}
		if session, err := syscall.Getpgid(guard); err != nil || session != guard {
			t.Errorf("its group is %d: %v", session, err)
		}
		p.kill()
		s.left(append(pids, guard)...)
	})
	t.Run("inherits nothing", func(t *testing.T) {
		_, p, _ := begin(t, patient)
		dir := fmt.Sprintf("/proc/%d", p.guard())
		environ, err := os.ReadFile(dir + "/environ")
		if err != nil || strings.Contains(string(environ), "PATH") {
			t.Errorf("its environment is %q, %v", environ, err)
		}
		files, err := filepath.Glob(dir + "/fd/*")
		if err != nil || len(files) < 3 {
			t.Fatalf("descriptors %v, %v", files, err)
		}
		for _, file := range files {
			what, _ := os.Readlink(file)
			switch name := filepath.Base(file); {
			case name == "0" && strings.HasPrefix(what, "pipe:"):
			case (name == "1" || name == "2") && what == "/dev/null":
			case strings.HasPrefix(what, "anon_inode:[event"), strings.HasPrefix(what, "/sys/fs/cgroup/"): // Go's own
			default:
				t.Errorf("its descriptor %s is %s", name, what)
			}
		}
		if folder, err := os.Readlink(dir + "/cwd"); folder != "/" {
			t.Errorf("it keeps %s busy: %v", folder, err)
		}
	})
	for name, c := range map[string]struct {
		drainSeconds int
		end          func(p *process)
	}{
		"SIGTERM":             {1, func(p *process) { p.signal(syscall.SIGTERM) }},
		"a second SIGTERM":    {patient, func(p *process) { p.signal(syscall.SIGTERM); p.await("draining"); p.signal(syscall.SIGTERM) }},
		"the operator's word": {1, func(p *process) { p.start("drain").wait() }},
	} {
		t.Run("is not left over after "+name, func(t *testing.T) {
			s, p, pids := begin(t, c.drainSeconds)
			guard := p.guard()
			c.end(p)
			if status := p.wait(); status != 5 { // the command was cut off
				t.Errorf("exit status %d", status)
			}
			for _, pid := range append(pids, guard) {
				if lives(pid) {
					t.Errorf("process %d is left over", pid)
				}
			}
			if !strings.Contains(p.log.all(), `"killed what commands had left"`) {
				t.Errorf("the log does not say that there was something left:\n%s", p.log.all())
			}
			s.sound()
		})
	}
}

// TestConsume_killed: the command of a consumer ends with it, too.
func TestConsume_killed(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.write("work.sh", familyScript)
	p := s.serveMarked(t)
	s.sendAll(exceptionLine("A", "k1", "") + "\n")
	c := s.start("consume", "--name", "robot", "--", "/bin/sh", "work.sh")
	pids := s.families(1)
	pids = append(pids, c.guard())
	c.kill()
	s.left(pids...)

	// One that ends in good order leaves nothing either.
	s.write("work.sh", `env -i "PATH=$PATH" setsid sh -c 'echo $$ >left; exec sleep 1000' &
until test -s left; do sleep 0.01; done
`)
	c = s.start("consume", "--name", "robot", "--max", "1", "--", "/bin/sh", "work.sh")
	if status := c.wait(); status != 0 {
		t.Errorf("exit status %d:\n%s", status, c.log.all())
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(s.read("left"))); err != nil || lives(pid) {
		t.Errorf("process %d is left over: %v", pid, err)
	}
	p.stop()
}
