package cli

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// provoke runs a command line in a folder, with what it prints in a file.
func provoke(t *testing.T, stdout *os.File, config string, words ...string) (status int, said string) {
	t.Helper()
	stderr, err := os.CreateTemp(t.TempDir(), "stderr")
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if stdout == nil {
		stdout = stderr
	}
	stop, end := context.WithCancel(context.Background())
	if words = append([]string{"breakwater"}, words...); words[len(words)-1] == "serve" {
		end() // one that starts after all ends at once, with 0
	}
	defer end()
	status = Run(stop, context.Background(), Process{
		Args: words, Stdin: null, Stdout: stdout, Stderr: stderr, Version: "1.2.3",
		Getenv: func(name string) string {
			if name == "BREAKWATER_CONFIG" {
				return config
			}
			return ""
		},
	})
	text, err := io.ReadAll(io.NewSectionReader(stderr, 0, 1<<20))
	if err != nil {
		t.Fatal(err)
	}
	return status, string(text)
}

// TestHints: whatever goes wrong that a person can bring about ends with a hint that is
// about it. The scripts look at each error that they provoke, too.
func TestHints(t *testing.T) {
	dir, err := os.MkdirTemp("", "bw") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.hcl", "data_dir = \"var\"\n")
	file, empty := write("file", "not a store, and not a key, for many more bytes than a page would need"), write("empty", "")
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	absent := filepath.Join(dir, "absent")
	configured := func(text string) string {
		return write("c"+strconv.Itoa(len(text))+".hcl", text)
	}

	tried := 0
	try := func(config, line string) {
		t.Helper()
		tried++
		status, said := provoke(t, nil, config, strings.Fields(line)...)
		_, after, is := strings.Cut("\n"+said, "\nbreakwater: error: ")
		switch {
		case status == exitDone || !is:
			t.Errorf("%s: status %d, no error:\n%s", line, status, said)
		case strings.Count(said, "\nhint: ") != 1 || !strings.HasPrefix(after[strings.LastIndex(strings.TrimRight(after, "\n"), "\n")+1:], "hint: "):
			t.Errorf("%s: its last line is no hint:\n%s", line, said)
		case strings.Contains(said, lastHint):
			t.Errorf("%s: no hint that is about it:\n%s", line, said)
		}
	}
	for _, line := range []string{
		"", "nothing", "--config", "version now", "serve now", "completion csh", "help nothing", "config", "config chek",
		"status", "status --json", "top --plain", "show 1", "show K", "show", "why 1", "why K", "why", "keys list", "keys list --limit 0",
		"keys hold K", "keys release K", "keys hold", "leases list", "leases revoke 1 --reason x", "leases revoke", "pause", "resume", "drain", "reload",
		"dlq list", "dlq list x", "dlq list --code X", "dlq list --older-than x", "dlq show 1", "dlq show", "dlq edit 1 --set a=b --yes", "dlq edit 1 --set a=b", "dlq edit 1",
		"dlq replay --all", "dlq replay", "dlq replay --all --rate x", "dlq discard 1", "dlq discard 1 --reason x", "dlq export", "dlq export --csv --lines",
		"audit verify", "audit verify --witness x", "audit export", "audit export --event X", "audit export --since x", "audit export --seq x", "audit trace 1", "audit trace K",
		"archive", "archive relative.db", "archive " + absent + "/one.db", "config history", "compact", "compact now", "bench --dir " + absent, "bench --dir " + file,
		"status --file " + absent, "status --file " + dir, "status --file " + empty, "status --file " + file, "status --file " + fifo, "status --file /dev/null",
		"status --file " + file + " --socket " + file, "status --socket " + absent, "status --socket " + file, "status --socket " + dir,
		"audit verify --file " + file, "audit verify --file " + absent, "doctor --file " + absent + " now",
		"audit verify --checkpoint / --key " + file, "audit verify --checkpoint " + absent + " --key " + file, "audit verify --checkpoint " + file + " --key " + absent,
		"audit verify --checkpoint " + file + " --key /", "audit verify --key x", "audit verify --checkpoint x",
		"audit keygen --out " + file, "audit keygen --out " + absent + "/k", "audit keygen --out " + dir, "audit keygen --out " + filepath.Join(dir, "k") + " --name +",
		"enqueue " + absent, "enqueue " + dir, "enqueue --receipts " + dir, "enqueue --receipts " + absent + "/r",
		"consume", "consume --name a true", "consume --name a --prefetch 0", "consume --name a -- " + absent, "consume --name a -- " + file,
		"--config " + absent + " status", "--config " + dir + " status", "--config " + fifo + " status", "--config " + file + " status", "--config " + absent + " serve", "--config " + file + " config show",
	} {
		try(good, line)
	}
	for _, text := range []string{
		"data_dir = \"absent/var\"\n", "data_dir = \"file\"\n", "data_dir = \"var\"\nrun_dir = \"absent/run\"\n", "data_dir = \"var\"\nrun_dir = \"file\"\n",
		"data_dir = \"var\"\nstore \"bbolt\" {\n path = \"fifo\"\n}\n", "data_dir = \"var\"\nstore \"bbolt\" {\n path = \"empty\"\n}\n", "data_dir = \"var\"\nstore \"bbolt\" {\n path = \"file\"\n}\n",
		"data_dir = \"var\"\nstore \"bbolt\" {\n path = \"absent/deep/s.db\"\n}\naudit {\n stream = \"\"\n}\n# longer\n",
		"data_dir = \"var\"\naudit {\n stream = \"fifo\"\n}\n", "data_dir = \"var\"\naudit {\n stream = \"absent/s\"\n}\n",
		"data_dir = \"var\"\ncheckpoint {\n key = \"absent\"\n output = \"out\"\n}\n", "data_dir = \"var\"\ncheckpoint {\n key = \"file\"\n output = \"out\"\n}\n",
		"data_dir = \"var\"\nsocket \"enqueue\" {\n path = \"file\"\n}\n", "data_dir = \"var\"\nsocket \"enqueue\" {\n group = \"no-such-group\"\n}\n",
		"data_dir = \"var\"\nmetrics {\n listen = \"" + busy.Addr().String() + "\"\n}\n", "data_dir = \"var\"\nmetrics {\n listen = \"203.0.113.7:9377\"\n}\n",
		"data_dir = \"var\"\nqueue {\n prefetch = 0\n}\n",
	} {
		try(configured(text), "serve")
	}
	if tried < 100 {
		t.Errorf("only %d were tried", tried)
	}
}

// TestHints_of_an_output_that_is_full: nobody reads what could not be printed.
func TestHints_of_an_output_that_is_full(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err) // no such device here
	}
	defer full.Close()
	for _, line := range []string{"version", "--help", "config show", "completion bash"} {
		status, said := provoke(t, full, "", strings.Fields(line)...)
		if status != exitFailed || !strings.Contains(said, "\nhint: no room is left") {
			t.Errorf("%s: %d, %s", line, status, said)
		}
	}
}
