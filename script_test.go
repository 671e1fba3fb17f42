package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// patience bounds every wait for a real process. It is only met when something is
// broken.
const patience = 60 * time.Second

// running are the background processes and feeders of one script.
type running struct {
	processes map[string]*process
	feeders   map[string]*feeder
}

// feeder writes into a FIFO what it is given. It does not hold up the script: whoever
// reads the FIFO may be waiting for what the script does next.
type feeder struct {
	texts chan []byte
	ended chan error // its one value: how writing went
}

// feederRoom is how many texts may wait.
const feederRoom = 16

func (f *feeder) run(path string) {
	w, err := os.OpenFile(path, os.O_WRONLY, 0)
	for text := range f.texts {
		if err == nil {
			_, err = w.Write(text)
		}
	}
	if w != nil {
		err = errors.Join(err, w.Close())
	}
	f.ended <- err
}

// process is one background process; done is closed when it has ended.
type process struct {
	cmd  *exec.Cmd
	done chan struct{}
}

type runningKey struct{}

func setup(env *testscript.Env) error {
	r := &running{processes: map[string]*process{}, feeders: map[string]*feeder{}}
	env.Values[runningKey{}] = r
	env.Setenv("RUNTIME_DIRECTORY", "")
	env.Setenv("BREAKWATER_CONFIG", "")
	env.Setenv("USER", "tester")
	env.Setenv("GORACE", os.Getenv("GORACE"))
	env.Setenv("ESC", "\x1b")
	env.Defer(func() {
		for _, p := range r.processes {
			_ = p.cmd.Process.Kill() // most have ended
			<-p.done
		}
		for _, f := range r.feeders { // a script that failed leaves it; its reader has ended
			close(f.texts)
		}
	})
	return nil
}

func of(ts *testscript.TestScript) *running { return ts.Value(runningKey{}).(*running) }

// poll waits until ok, and fails the script after patience.
func poll(ts *testscript.TestScript, what string, ok func() bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			ts.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// exits STATUS COMMAND… runs a command that must end with the status. Its output can
// be looked at as after exec.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: exits STATUS COMMAND…")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("%s ended with status %d (%v), want %s", strings.Join(args[1:], " "), got, err, args[0])
	}
	if said := ts.ReadFile("stderr"); !hinted(said) {
		ts.Fatalf("an error without a hint that fits:\n%s", said)
	}
}

// hinted reports whether each error that a person was told ends with a hint, and not with
// the one for errors of which nothing is known.
func hinted(said string) bool {
	const begin, lastResort = "breakwater: error: ", `hint: "breakwater doctor" says what is wrong with this host, its configuration or its file`
	for _, one := range strings.Split(said, begin)[1:] { // a question, and what was refused of a list, may stand before it
		if one, _, _ = strings.Cut(one, "\nbreakwater: "); strings.Count(one, "\nhint: ") != 1 {
			return false
		}
	}
	return !strings.Contains(said, lastResort)
}

// start NAME COMMAND… runs a command in the background, with its output in NAME.out
// and NAME.err.
func start(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: start NAME COMMAND…")
	}
	path, err := exec.LookPath(args[1])
	ts.Check(err)
	cmd := exec.Command(path, args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "USER", "BREAKWATER_CONFIG", "RUNTIME_DIRECTORY", "WORK", "GORACE"} {
		cmd.Env = append(cmd.Env, name+"="+ts.Getenv(name))
	}
	stdout, err := os.Create(ts.MkAbs(args[0] + ".out"))
	ts.Check(err)
	defer stdout.Close()
	stderr, err := os.Create(ts.MkAbs(args[0] + ".err"))
	ts.Check(err)
	defer stderr.Close()
	cmd.Stdout, cmd.Stderr = stdout, stderr
	ts.Check(cmd.Start())
	p := &process{cmd: cmd, done: make(chan struct{})}
	of(ts).processes[args[0]] = p
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // the status is read from ProcessState
	}()
}

// serve NAME [ARG…] starts "breakwater [ARG…] serve" in the background and waits until
// both sockets below var/run accept.
func serve(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) < 1 {
		ts.Fatalf("usage: serve NAME [ARG…]")
	}
	start(ts, neg, append([]string{args[0], "breakwater", "serve"}, args[1:]...))
	p := of(ts).processes[args[0]]
	for _, name := range []string{"enqueue", "control"} {
		path := ts.MkAbs(filepath.Join("var", "run", name+".sock"))
		poll(ts, path, func() bool {
			select {
			case <-p.done:
				log, _ := os.ReadFile(ts.MkAbs(args[0] + ".err"))
				ts.Fatalf("serve ended: %v\n%s", p.cmd.ProcessState, log)
			default:
			}
			c, err := net.Dial("unix", path)
			if err == nil {
				_ = c.Close() // it was only to see
			}
			return err == nil
		})
	}
}

// signals are those that scripts send.
var signals = map[string]syscall.Signal{
	"KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "HUP": syscall.SIGHUP,
}

// signal NAME SIGNAL sends a signal to a background process.
func signalTo(ts *testscript.TestScript, _ bool, args []string) {
	p := of(ts).processes[args[0]]
	s, ok := signals[args[1]]
	if p == nil || !ok {
		ts.Fatalf("usage: signal NAME KILL|TERM|INT|HUP")
	}
	ts.Check(p.cmd.Process.Signal(s))
}

// ended NAME STATUS waits for the end of a background process; the status of one that
// was killed is -1.
func ended(ts *testscript.TestScript, _ bool, args []string) {
	p := of(ts).processes[args[0]]
	if p == nil || len(args) != 2 {
		ts.Fatalf("usage: ended NAME STATUS")
	}
	select {
	case <-p.done:
	case <-time.After(patience):
		ts.Fatalf("%s has not ended after %v", args[0], patience)
	}
	if got := strconv.Itoa(p.cmd.ProcessState.ExitCode()); got != args[1] {
		log, _ := os.ReadFile(ts.MkAbs(args[0] + ".err"))
		ts.Fatalf("%s ended with status %s, want %s\n%s", args[0], got, args[1], log)
	}
}

// await FILE REGEXP [TIMES] waits until a file has so many matches.
func await(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: await FILE REGEXP [TIMES]")
	}
	times := 1
	if len(args) > 2 {
		var err error
		times, err = strconv.Atoi(args[2])
		ts.Check(err)
	}
	re, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	poll(ts, fmt.Sprintf("%q in %s", args[1], args[0]), func() bool {
		text, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && len(re.FindAllIndex(text, times)) == times
	})
}

// until REGEXP COMMAND… repeats a command until its stdout matches.
func until(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND…")
	}
	re, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	poll(ts, fmt.Sprintf("%q from %s", args[0], strings.Join(args[1:], " ")), func() bool {
		cmd := exec.Command(args[1], args[2:]...)
		cmd.Dir = ts.MkAbs(".")
		out, err := cmd.Output()
		return err == nil && re.Match(out)
	})
}

// exception is line n of what the scripts send.
func exception(n int) string {
	return fmt.Sprintf(`{"idempotency_key":"k-%d","trace_id":"t-%d","partition_key":"p-%d","ledger_entity":"E1",`+
		`"match_decision":"UNMATCHED","variance_amount":"%d.25","currency":"EUR"}`+"\n", n, n, n%17, n)
}

// lines FILE FROM TO writes exceptions into a file.
func lines(ts *testscript.TestScript, _ bool, args []string) {
	var b bytes.Buffer
	each(ts, args[1], args[2], func(n int) { b.WriteString(exception(n)) })
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o600))
}

func each(ts *testscript.TestScript, from, to string, do func(n int)) {
	first, err := strconv.Atoi(from)
	ts.Check(err)
	last, err := strconv.Atoi(to)
	ts.Check(err)
	for n := first; n <= last; n++ {
		do(n)
	}
}

// feed FIFO make makes a FIFO; feed FIFO FROM TO writes exceptions into it, in the
// background and in the order of the script; feed FIFO end waits until all are read
// and closes it.
func feed(ts *testscript.TestScript, _ bool, args []string) {
	r, path := of(ts), ts.MkAbs(args[0])
	f := r.feeders[args[0]]
	switch args[1] {
	case "make":
		ts.Check(syscall.Mkfifo(path, 0o600))
		f = &feeder{texts: make(chan []byte, feederRoom), ended: make(chan error, 1)}
		r.feeders[args[0]] = f
		go f.run(path)
	case "end":
		delete(r.feeders, args[0])
		close(f.texts)
		select {
		case err := <-f.ended:
			ts.Check(err)
		case <-time.After(patience):
			ts.Fatalf("%s was not read to its end in %v", args[0], patience)
		}
	default:
		var b bytes.Buffer
		each(ts, args[1], args[2], func(n int) { b.WriteString(exception(n)) })
		f.texts <- b.Bytes()
	}
}

// receipts FILE FROM TO checks that a file of receipts has one for each of these
// lines, in order, each with a seq of its own.
func receipts(ts *testscript.TestScript, _ bool, args []string) {
	dec := json.NewDecoder(strings.NewReader(ts.ReadFile(args[0])))
	seqs := map[uint64]bool{}
	each(ts, args[1], args[2], func(n int) {
		var r struct {
			Line   int
			Seq    uint64
			Status string
			Key    string `json:"idempotency_key"`
		}
		if err := dec.Decode(&r); err != nil {
			ts.Fatalf("receipt of line %d: %v", n, err)
		}
		if r.Line != n || r.Key != fmt.Sprintf("k-%d", n) || seqs[r.Seq] || r.Status != "accepted" && r.Status != "duplicate" {
			ts.Fatalf("receipt of line %d: %+v", n, r)
		}
		seqs[r.Seq] = true
	})
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		ts.Fatalf("more receipts than lines (%v)", err)
	}
}

// pipehead COMMAND… runs a command with a stdout that nobody reads: the reading end
// is closed before it begins. It must end quietly, as if all had been read.
func pipeHead(ts *testscript.TestScript, _ bool, args []string) {
	r, w, err := os.Pipe()
	ts.Check(err)
	ts.Check(r.Close())
	defer w.Close()
	var stderr bytes.Buffer
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = ts.MkAbs("."), w, &stderr
	if err := cmd.Run(); err != nil || stderr.Len() > 0 {
		ts.Fatalf("%s into a closed pipe: %v\n%s", strings.Join(args, " "), err, stderr.Bytes())
	}
}

// volatile are the parts of a document that differ from run to run.
var volatile = []struct {
	re *regexp.Regexp
	to string
}{
	{regexp.MustCompile(`"20\d\d-[0-9-]+T[0-9:.]+Z"`), `"TIME"`},
	{regexp.MustCompile(`"head":"[0-9a-f]{64}"`), `"head":"HEAD"`},
	{regexp.MustCompile(`"breakwater/[0-9a-f]{32}"`), `"ORIGIN"`},
	{regexp.MustCompile(`"(n|blocks?|pid|uid|gid|age_ms|file_bytes|free_bytes)":\d+`), `"$1":0`},
	{regexp.MustCompile(`"go":"go1[^"]*"`), `"go":"GO"`},
	{regexp.MustCompile(`"recent":{[^}]*},`), ``}, // not there in the first second
}

// shape FILE COMMAND… runs a command and writes its stdout into a file, with whatever
// differs from run to run replaced.
func shape(ts *testscript.TestScript, _ bool, args []string) {
	cmd := exec.Command(args[1], args[2:]...)
	cmd.Dir = ts.MkAbs(".")
	out, err := cmd.Output()
	if err != nil {
		ts.Fatalf("%s: %v", strings.Join(args[1:], " "), err)
	}
	for _, v := range volatile {
		out = v.re.ReplaceAll(out, []byte(v.to))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out, 0o600))
}
