package handler_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/queue/handler"
)

var backgroundContext = context.Background()

// child returns a handler that runs this binary in a role.
func child(t *testing.T, timeout time.Duration, role string, args ...string) *handler.Exec {
	t.Helper()
	return run(t, handler.ExecOptions{Timeout: timeout, Command: append([]string{os.Args[0], "child", role}, args...)})
}

func run(t *testing.T, o handler.ExecOptions) *handler.Exec {
	t.Helper()
	o.Name = "post"
	e, err := handler.NewExec(o)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func delivery() *queue.Delivery {
	return &queue.Delivery{
		Token: queue.Token{Seq: 42, Fence: 7}, Route: queue.RouteReview, Number: 3, FailedAttempts: 1, Redelivered: true,
		AcceptedAt: time.Date(2026, 3, 2, 9, 0, 0, 123456000, time.UTC), Deadline: time.Date(2026, 3, 2, 9, 1, 0, 0, time.UTC),
		Message: queue.Stored{
			Seq: 42, IdempotencyKey: "k1", TraceID: "t1", PartitionKey: "E1",
			Line: []byte(`{"idempotency_key":"k1",  "x":1e5}`),
		},
	}
}

const long = time.Minute // no test waits for it

func TestExec_an_exit_status_is_an_answer(t *testing.T) {
	for _, c := range []struct {
		status, stdout, stderr string
		want                   queue.Answer
	}{
		{"0", "", "", queue.Answer{Verb: queue.Ack, Outcome: "DONE"}},
		{"0", "posted it", "warning", queue.Answer{Verb: queue.Ack, Outcome: "DONE", Stderr: "warning\n"}},
		{"0", `{"outcome":"POSTED","by":"alice","note":"n"}`, "", queue.Answer{Verb: queue.Ack, Outcome: "POSTED", By: "alice", Note: "n"}},
		{"0", `{"retry":true,"after_ms":1500,"reason":"locked"}`, "", queue.Answer{Verb: queue.Retry, After: 1500 * time.Millisecond, Reason: "locked"}},
		{"0", "{\"release\":true}\n{\"outcome\":\"POSTED\"}", "", queue.Answer{Verb: queue.Release}},
		{"65", `{"outcome":"POSTED"}`, "no such account", queue.Answer{Verb: queue.Reject, Reason: "exit status 65: no such account", Stderr: "no such account\n"}},
		{"69", "", "", queue.Unavailable("exit status 69", 0)},
		{"77", "", "", queue.Unavailable("exit status 77", 0)},
		{"78", "", "", queue.Unavailable("exit status 78", 0)},
		{"75", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 75"}},
		{"137", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 137", Unanswered: true}}, // a shell's, of SIGKILL
		{"129", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 129", Unanswered: true}},
		{"192", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 192", Unanswered: true}},
		{"128", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 128"}},
		{"193", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 193"}},
		{"1", `{"outcome":"POSTED"}`, "a\nb\n\n", queue.Answer{Verb: queue.Retry, Reason: "exit status 1: b", Stderr: "a\nb\n\n\n"}},
		{"64", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 64"}},
		{"127", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 127"}},
		{"255", "", "", queue.Answer{Verb: queue.Retry, Reason: "exit status 255"}},
	} {
		args := []string{c.status, c.stdout}
		if c.stderr != "" {
			args = append(args, c.stderr)
		}
		if got := child(t, long, "exit", args...).Handle(t.Context(), delivery()); got != c.want {
			t.Errorf("exit %s, stdout %q: got %+v, want %+v", c.status, c.stdout, got, c.want)
		}
	}
}

// An object over several lines may say "reject" on one that is no part of the
// answer: it must not be taken for a success.
func TestExec_an_object_over_several_lines_settles_nothing(t *testing.T) {
	got := child(t, long, "exit", "0", "{\n  \"reject\": true\n}").Handle(t.Context(), delivery())
	if got.Verb != queue.Retry || !strings.Contains(got.Reason, "malformed answer") {
		t.Errorf("got %+v", got)
	}
}

// P11: see TestParseAnswer_what_is_longer_than_an_answer.
func TestExec_an_answer_over_the_limit_settles_nothing(t *testing.T) {
	long := strings.Repeat("x", 70_000)
	for _, c := range []struct {
		stdout string
		want   queue.Verb
	}{
		{`{"reject":true,"reason":"` + long + `"}`, queue.Retry},
		{`{"reason":"` + long + `","hold":"2026-03-31T18:00:00Z"}`, queue.Retry},
		{`{"outcome":"A","note":"` + long + `"}`, queue.Retry},
		{strings.Repeat("\n", 70_000) + `{"reject":true,"reason":"behind blank lines"}`, queue.Reject},
		{long + `{"reject":true}`, queue.Ack},
		{"{\"outcome\":\"A\"}\n" + long, queue.Ack},
	} {
		path := filepath.Join(t.TempDir(), "stdout") // an argument could not be that long
		if err := os.WriteFile(path, []byte(c.stdout), 0o600); err != nil {
			t.Fatal(err)
		}
		got := run(t, handler.ExecOptions{Timeout: time.Minute, Command: []string{"cat", path}}).Handle(t.Context(), delivery())
		if got.Verb != c.want || c.want == queue.Retry && got.Reason != "malformed answer: over 65536 bytes" {
			t.Errorf("%.40q: got %+v", c.stdout, got)
		}
	}
}

func TestExec_death_by_a_signal_is_a_retry(t *testing.T) {
	got := run(t, handler.ExecOptions{Timeout: long, Command: []string{"/bin/sh", "-c", "kill -SEGV $$"}}).Handle(t.Context(), delivery())
	if got.Verb != queue.Retry || !got.Unanswered || !strings.Contains(got.Reason, "segmentation fault") {
		t.Errorf("got %+v", got)
	}
}

func TestExec_what_cannot_start_is_unavailable(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, program := range []string{
		filepath.Join(dir, "absent"),
		"no-such-program-in-any-path",
		dir,
		script("not-executable", "#!/bin/sh\n", 0o600),
		script("no-interpreter", "#!/no/such/shell\n", 0o700),
		script("no-program", "", 0o700),
	} {
		got := run(t, handler.ExecOptions{Timeout: long, Command: []string{program}}).Handle(t.Context(), delivery())
		if !got.Unavailable || got.Verb != queue.Release || got.Unanswered || !strings.HasPrefix(got.Reason, "cannot start: ") {
			t.Errorf("%s: got %+v", program, got)
		}
	}
}

func TestExec_the_delivery_is_one_line_on_stdin(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stdin")
	d := delivery()
	if got := child(t, long, "save", path).Handle(t.Context(), d); got.Verb != queue.Ack {
		t.Fatalf("got %+v", got)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := append(queue.AppendDelivery(nil, d, false), '\n'); !bytes.Equal(got, want) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// B52: who never reads its stdin.
func TestExec_unread_stdin_is_no_failure(t *testing.T) {
	t.Parallel()
	d := delivery()
	d.Message.Line = []byte(`{"x":"` + strings.Repeat("y", 1<<20) + `"}`)
	if got := run(t, handler.ExecOptions{Timeout: long, Command: []string{"true"}}).Handle(t.Context(), d); got.Verb != queue.Ack {
		t.Errorf("true: got %+v", got)
	}
	path := filepath.Join(t.TempDir(), "pid")
	got := child(t, 4*time.Second, "wait", path).Handle(t.Context(), d)
	if got.Verb != queue.Retry || got.Reason != "time limit of 4s" {
		t.Errorf("a command that waits and never reads: got %+v", got)
	}
	gone(t, pidIn(t, path))
}

// B52: who floods its outputs.
func TestExec_output_is_drained_in_bounded_memory(t *testing.T) {
	const mib = 1 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := child(t, long, "flood", "1024").Handle(t.Context(), delivery())
	runtime.ReadMemStats(&after)
	if got.Verb != queue.Ack || got.Outcome != "DONE" {
		t.Errorf("%d MiB without a newline: got %s %s", mib, got.Outcome, got.Reason)
	}
	if got.Stderr != strings.Repeat("x", 4096) {
		t.Errorf("the end of stderr has %d bytes, want 4096", len(got.Stderr))
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<20 {
		t.Errorf("reading it allocated %d bytes", used)
	}
}

func TestExec_endless_output_ends_with_the_time_limit(t *testing.T) {
	t.Parallel()
	got := child(t, 3*time.Second, "endless").Handle(t.Context(), delivery())
	if got.Verb != queue.Retry || got.Reason != "time limit of 3s" || !strings.HasSuffix(got.Stderr, "y\ny\n") {
		t.Errorf("got %+v", got)
	}
}

func TestExec_the_time_limit(t *testing.T) {
	// What exits by itself before the limit has answered, though it was asked to end.
	for _, c := range []struct {
		status string
		want   queue.Answer
	}{
		{"0", queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"65", queue.Answer{Verb: queue.Reject, Reason: "exit status 65"}},
		{"75", queue.Answer{Verb: queue.Retry, Reason: "exit status 75"}},
		{"78", queue.Unavailable("exit status 78", 0)},
	} {
		t.Run("asks first, and takes exit "+c.status+" for an answer", func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			e := child(t, 34*time.Second, "polite", dir+"/started", dir+"/asked", c.status)
			e.SetGrace(30 * time.Second)
			if got := e.Handle(t.Context(), delivery()); got != c.want {
				t.Errorf("got %+v", got)
			}
			if _, err := os.Stat(dir + "/asked"); err != nil {
				t.Errorf("it was not asked: %v", err)
			}
		})
	}
	t.Run("is the reason of a death by the asking", func(t *testing.T) {
		t.Parallel()
		e := child(t, 34*time.Second, "wait", filepath.Join(t.TempDir(), "pid"))
		e.SetGrace(30 * time.Second)
		if got, want := e.Handle(t.Context(), delivery()), (queue.Answer{Verb: queue.Retry, Reason: "time limit of 34s", Unanswered: true}); got != want {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("kills what does not listen, and its whole group", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "pid")
		got := child(t, 5*time.Second, "family", path, "stay").Handle(t.Context(), delivery())
		if got.Verb != queue.Retry || !got.Unanswered {
			t.Errorf("got %+v", got)
		}
		gone(t, pidIn(t, path))
	})
}

// A drain asks as the time limit does.
func TestExec_what_is_asked_to_end(t *testing.T) {
	for _, c := range []struct {
		name string
		role []string
		want queue.Answer
	}{
		{"may end with an answer", []string{"polite", "STARTED", "ASKED", "0"}, queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"or with a failure", []string{"polite", "STARTED", "ASKED", "75"}, queue.Answer{Verb: queue.Retry, Reason: "exit status 75"}},
		{"or dies of it", []string{"wait", "STARTED"}, queue.Answer{Verb: queue.Release, Reason: "cut off", Unanswered: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir, asked, answer := t.TempDir(), make(chan struct{}), make(chan queue.Answer, 1)
			args := slices.Clone(c.role[1:])
			for i, name := range args {
				if name == "STARTED" || name == "ASKED" {
					args[i] = filepath.Join(dir, name)
				}
			}
			e := child(t, time.Hour, c.role[0], args...)
			go func() { answer <- e.HandleAsked(t.Context(), asked, delivery()) }()
			eventually(t, "it has started", func() bool { _, err := os.Stat(filepath.Join(dir, "STARTED")); return err == nil })
			close(asked)
			if got := <-answer; got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	t.Run("and does not listen is killed with the context", func(t *testing.T) {
		t.Parallel()
		path, asked, answer := filepath.Join(t.TempDir(), "pid"), make(chan struct{}), make(chan queue.Answer, 1)
		ctx, cancel := context.WithCancel(t.Context())
		e := child(t, time.Hour, "deaf", path)
		go func() { answer <- e.HandleAsked(ctx, asked, delivery()) }()
		pid := pidIn(t, path)
		close(asked)
		cancel()
		if got := <-answer; got.Verb != queue.Release || !got.Unanswered || running(pid) {
			t.Errorf("got %+v", got)
		}
	})
}

func TestExec_the_context_kills_at_once(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	ctx, cancel := context.WithCancel(t.Context())
	answer := make(chan queue.Answer)
	e := child(t, time.Hour, "deaf", path)
	go func() { answer <- e.Handle(ctx, delivery()) }()
	pid := pidIn(t, path)
	cancel()
	if got := <-answer; got.Verb != queue.Release || got.Unavailable || !got.Unanswered {
		t.Errorf("got %+v", got)
	}
	if running(pid) {
		t.Error("the command outlived Handle")
	}
	path = filepath.Join(t.TempDir(), "environ")
	if got := child(t, long, "environ", path).Handle(ctx, delivery()); got.Verb != queue.Release || got.Unanswered {
		t.Errorf("after the end: got %+v", got)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("a command was started after the end")
	}
}

func TestExec_nothing_of_a_delivery_outlives_its_answer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	if got := child(t, long, "family", path, "0").Handle(t.Context(), delivery()); got.Verb != queue.Ack {
		t.Errorf("got %+v", got)
	}
	gone(t, pidIn(t, path))
}

// A command that was not a success is tried again: timeout(1) and job control put what a
// script starts into groups of their own, and there it must not work on.
func TestExec_what_failed_is_ended_with_all_of_its_groups(t *testing.T) {
	for _, c := range []struct {
		end     string
		timeout time.Duration
	}{{"stay", 5 * time.Second}, {"die", long}, {"1", long}, {"65", long}, {"69", long}} {
		t.Run(c.end, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "pid")
			if got := child(t, c.timeout, "family", path, c.end, "setpgid").Handle(t.Context(), delivery()); got.Verb == queue.Ack {
				t.Errorf("got %+v", got)
			}
			if running(pidIn(t, path)) {
				t.Error("its child lives on")
			}
		})
	}
	t.Run("cut off", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "pid")
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan queue.Answer)
		e := child(t, time.Hour, "family", path, "stay", "setpgid")
		go func() { answer <- e.Handle(ctx, delivery()) }()
		pid := pidIn(t, path)
		cancel()
		<-answer
		if running(pid) {
			t.Error("its child lives on")
		}
	})
}

func TestExec_is_told_of_before_each_start(t *testing.T) {
	path, told := filepath.Join(t.TempDir(), "environ"), 0
	e := run(t, handler.ExecOptions{Timeout: long, Command: []string{os.Args[0], "child", "environ", path}, Starting: func() {
		if told++; told == 1 {
			if _, err := os.Stat(path); err == nil {
				t.Error("it has run already")
			}
		}
	}})
	e.Handle(t.Context(), delivery())
	e.Handle(t.Context(), delivery())
	if told != 2 {
		t.Errorf("told %d times of two commands", told)
	}
}

func TestExec_who_leaves_the_group_with_the_pipes_holds_nobody_up(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	d := delivery()
	d.Message.Line = []byte(`{"x":"` + strings.Repeat("y", 1<<20) + `"}`)
	if got := child(t, long, "family", path, "0", "setsid").Handle(t.Context(), d); got.Verb != queue.Ack {
		t.Errorf("got %+v", got)
	}
	if !running(pidIn(t, path)) {
		t.Error("it was killed, so this test shows nothing")
	}
}

// B52: the handler of a daemon that was killed must not run on beside the next one.
func TestExec_a_killed_daemon_takes_its_commands_along(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pid")
	daemon := exec.Command(os.Args[0], "child", "daemon", path)
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	pid := pidIn(t, path)
	if !running(pid) {
		t.Fatal("the command does not run")
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait() // killed, as it should be
	gone(t, pid)
}

// The parent-death signal follows the thread. Goroutines that end on a thread of
// their own end the thread; none of them may be the one that started a command.
func TestExec_a_thread_that_ends_takes_no_command_along(t *testing.T) {
	e := child(t, long, "countdown")
	stop := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-stop:
				return
			default:
			}
			done := make(chan struct{})
			go func() { defer close(done); runtime.LockOSThread() }()
			<-done
		}
	}()
	for range 5 {
		if got := e.Handle(t.Context(), delivery()); got.Verb != queue.Ack {
			t.Errorf("got %+v", got)
		}
	}
	close(stop)
	<-ended
}

// B53: no descriptor, either.
func TestExec_no_descriptor_is_inherited(t *testing.T) {
	// One that a careless parent left to us: not close-on-exec.
	fd, err := syscall.Dup(int(os.Stderr.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(fd)
	path := filepath.Join(t.TempDir(), "files")
	// The shell lists, and only then looks what is there: its own reading of the
	// folder is over.
	const list = `for f in /proc/$$/fd/*; do [ -e "$f" ] && open="$open${f##*/} "; done; echo "$open" > "$0"`
	e := run(t, handler.ExecOptions{Timeout: long, Command: []string{"/bin/sh", "-c", list, path}})
	if got := e.Handle(t.Context(), delivery()); got.Verb != queue.Ack {
		t.Fatalf("got %+v", got)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(got)) != "0 1 2" {
		t.Errorf("it was given the descriptors %s", got)
	}
}

func TestExec_runs_leave_nothing_behind(t *testing.T) {
	e := run(t, handler.ExecOptions{Timeout: long, Command: []string{"true"}})
	absent := run(t, handler.ExecOptions{Timeout: long, Command: []string{"/no/such/program"}})
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	e.Handle(t.Context(), delivery())
	goroutines, files := runtime.NumGoroutine(), count()
	for range 200 {
		if got := e.Handle(t.Context(), delivery()); got.Verb != queue.Ack {
			t.Fatalf("got %+v", got)
		}
		absent.Handle(t.Context(), delivery())
	}
	eventually(t, "goroutines are gone", func() bool { return runtime.NumGoroutine() <= goroutines })
	if n := count(); n > files {
		t.Errorf("%d descriptors are open, %d were", n, files)
	}
	children, err := os.ReadFile("/proc/thread-self/children")
	if err == nil && len(bytes.TrimSpace(children)) > 0 {
		t.Errorf("children are left: %s", children)
	}
}

func TestNewExec_names_the_option_that_is_wrong(t *testing.T) {
	for _, c := range []struct {
		o    handler.ExecOptions
		want string
	}{
		{handler.ExecOptions{Timeout: 1}, "handler post: option Command is missing"},
		{handler.ExecOptions{Timeout: 1, Command: []string{""}}, "handler post: option Command is missing"},
		{handler.ExecOptions{Command: []string{"true"}}, "handler post: option Timeout cannot be 0s"},
		{handler.ExecOptions{Timeout: 1, Command: []string{"true"}, Env: []string{"A=1"}}, `handler post: option Env: "A=1" is no name of a variable`},
		{handler.ExecOptions{Timeout: 1, Command: []string{"true"}, Env: []string{""}}, `handler post: option Env: "" is no name of a variable`},
		{handler.ExecOptions{Timeout: 1, Command: []string{"true"}, Env: []string{"NOTIFY_SOCKET"}}, "handler post: option Env: NOTIFY_SOCKET is between the service manager and the daemon"},
		{handler.ExecOptions{Timeout: 1, Command: []string{"true"}, Env: []string{"LISTEN_FDS"}}, "handler post: option Env: LISTEN_FDS is between the service manager and the daemon"},
		{handler.ExecOptions{Timeout: 1, Command: []string{"true"}, Env: []string{"BREAKWATER_SEQ"}}, "handler post: option Env: BREAKWATER_SEQ is set for each delivery"},
	} {
		c.o.Name = "post"
		if _, err := handler.NewExec(c.o); err == nil || err.Error() != c.want {
			t.Errorf("%+v: got %v, want %s", c.o, err, c.want)
		}
	}
}

// B53: nothing of the daemon's environment that was not asked for.
func TestExec_the_environment_is_clean(t *testing.T) {
	host := map[string]string{
		"PATH": "/opt/bin:/bin", "LANG": "C.UTF-8", "SECRET_X": "1", "HOME": "/nowhere",
		"NOTIFY_SOCKET": "/run/notify", "LISTEN_FDS": "3",
	}
	lookup := func(name string) (string, bool) { v, ok := host[name]; return v, ok }
	environ := func(d *queue.Delivery) []string {
		path := filepath.Join(t.TempDir(), "environ")
		e := run(t, handler.ExecOptions{
			Timeout: long, Command: []string{os.Args[0], "child", "environ", path},
			Env: []string{"LANG", "UNSET", "PATH"}, LookupEnv: lookup,
		})
		if got := e.Handle(t.Context(), d); got.Verb != queue.Ack {
			t.Fatalf("got %+v", got)
		}
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		slices.Sort(lines)
		return lines
	}
	want := []string{
		"BREAKWATER_DELIVERY=3", "BREAKWATER_IDEMPOTENCY_KEY=k1", "BREAKWATER_REDELIVERED=true", "BREAKWATER_ROUTE=ROUTE_REVIEW",
		"BREAKWATER_SEQ=42", "BREAKWATER_TRACE_ID=t1", "LANG=C.UTF-8", "PATH=/opt/bin:/bin",
	}
	if got := environ(delivery()); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
	// What an environment cannot carry is left out; it makes no handler unavailable.
	d := delivery()
	d.Message.IdempotencyKey, d.Message.TraceID = "k\x00\x01", strings.Repeat("t", 1<<20)
	want = slices.DeleteFunc(want, func(s string) bool {
		return strings.HasPrefix(s, "BREAKWATER_IDEMPOTENCY_KEY") || strings.HasPrefix(s, "BREAKWATER_TRACE_ID")
	})
	if got := environ(d); !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestExec_a_daemon_without_PATH_gives_a_usual_one(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	e := run(t, handler.ExecOptions{Timeout: long, LookupEnv: none, Command: []string{"/bin/sh", "-c", "exit ${PATH:+7}"}})
	if got := e.Handle(t.Context(), delivery()); got.Reason != "exit status 7" {
		t.Errorf("got %+v", got)
	}
}
