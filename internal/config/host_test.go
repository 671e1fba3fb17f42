package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"breakwater/internal/checkpoint"
)

// TestCheckHost builds real folders and files; each case spoils one thing.
func TestCheckHost(t *testing.T) {
	type host struct{ dir, text string }
	at := func(h *host, name string) string { return filepath.Join(h.dir, name) }
	chmod := func(t *testing.T, path string, mode os.FileMode) {
		t.Helper()
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
	mkdir := func(t *testing.T, path string, mode os.FileMode) {
		t.Helper()
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		chmod(t, path, mode) // whatever the umask
	}

	for _, one := range []struct {
		name  string
		spoil func(t *testing.T, h *host)
		want  []string // a problem for each, in order; none: the host is fine
	}{
		{"a good host", func(*testing.T, *host) {}, nil},
		{"a good host after its first start", func(t *testing.T, h *host) {
			mkdir(t, at(h, "var"), 0o700)
			mkdir(t, at(h, "var/run"), 0o750)
			writeFile(t, at(h, "var/breakwater.db"), "")
		}, nil},
		{"a stream into the store, by a link to its folder", func(t *testing.T, h *host) {
			mkdir(t, at(h, "var"), 0o700)
			writeFile(t, at(h, "var/breakwater.db"), "")
			if err := os.Symlink("var", at(h, "link")); err != nil {
				t.Fatal(err)
			}
			h.text += `audit { stream = "link/breakwater.db" }` + "\n"
		}, []string{`audit.stream "DIR/link/breakwater.db" is the same file as store.bbolt.path "DIR/var/breakwater.db"`}},
		{"a stream into the lock, by a hard link", func(t *testing.T, h *host) {
			mkdir(t, at(h, "var"), 0o700)
			writeFile(t, at(h, "var/breakwater.db"), "")
			writeFile(t, at(h, "var/breakwater.db.lock"), "")
			if err := os.Link(at(h, "var/breakwater.db.lock"), at(h, "hard")); err != nil {
				t.Fatal(err)
			}
			h.text += `audit { stream = "hard" }` + "\n"
		}, []string{`audit.stream "DIR/hard" is the same file as store.bbolt.path "DIR/var/breakwater.db.lock"`}},
		{"a stream into the configuration", func(_ *testing.T, h *host) { h.text += `audit { stream = "config.hcl" }` + "\n" },
			[]string{`audit.stream "DIR/config.hcl" is the same file as the config file "DIR/config.hcl"`}},
		{"a config that everyone can write", func(t *testing.T, h *host) { chmod(t, at(h, "config.hcl"), 0o602) },
			[]string{"the config file can be written by everyone"}},
		{"a data_dir without a parent", func(t *testing.T, h *host) { h.text += `data_dir = "a/b"` + "\n" },
			[]string{`data_dir cannot be made: its parent "DIR/a" does not exist`}},
		{"a data_dir that is a file", func(t *testing.T, h *host) { writeFile(t, at(h, "var"), "") },
			[]string{`data_dir "DIR/var" is not a folder`, `store.bbolt.path "DIR/var/breakwater.db" cannot be looked at: not a directory`}},
		{"a data_dir that everyone can write", func(t *testing.T, h *host) { mkdir(t, at(h, "var"), 0o777) },
			[]string{`data_dir "DIR/var" can be written by everyone`}},
		{"a run_dir that everyone can write", func(t *testing.T, h *host) {
			mkdir(t, at(h, "var"), 0o700)
			mkdir(t, at(h, "var/run"), 0o777)
		}, []string{`run_dir "DIR/var/run" can be written by everyone`}},
		{"a run_dir that everyone can write, but sticky", func(t *testing.T, h *host) {
			mkdir(t, at(h, "var"), 0o700)
			mkdir(t, at(h, "var/run"), 0o777|os.ModeSticky)
		}, nil},
		{"a socket elsewhere without its folder, which is made", func(t *testing.T, h *host) { h.text += `socket "control" { path = "x/c.sock" }` + "\n" }, nil},
		{"a socket elsewhere without the parent of its folder", func(t *testing.T, h *host) { h.text += `socket "control" { path = "x/y/c.sock" }` + "\n" },
			[]string{`socket.control.path is in a folder that cannot be made: its parent "DIR/x" does not exist`}},
		{"a run_dir without a parent", func(t *testing.T, h *host) { h.text += `run_dir = "x/run"` + "\n" },
			[]string{`run_dir cannot be made: its parent "DIR/x" does not exist`}},
		{"a store that everyone can read", func(t *testing.T, h *host) {
			mkdir(t, at(h, "var"), 0o700)
			writeFile(t, at(h, "var/breakwater.db"), "")
			chmod(t, at(h, "var/breakwater.db"), 0o644)
		}, []string{`store.bbolt.path "DIR/var/breakwater.db" is open to everyone`}},
		{"a store that is a folder", func(t *testing.T, h *host) {
			mkdir(t, at(h, "var"), 0o700)
			mkdir(t, at(h, "var/breakwater.db"), 0o700)
		}, []string{`store.bbolt.path "DIR/var/breakwater.db" is a directory, not a file`}},
		{"a stream without its folder", func(t *testing.T, h *host) { h.text += `audit { stream = "log/trail" }` + "\n" },
			[]string{`audit.stream "DIR/log" does not exist`}},
		{"a stream that is a folder", func(t *testing.T, h *host) {
			h.text += `audit { stream = "log" }` + "\n"
			mkdir(t, at(h, "log"), 0o700)
		}, []string{`audit.stream "DIR/log" is a directory, not a file; give a file's path, or "stdout"`}},
		{"a stream that is a FIFO behind a link", func(t *testing.T, h *host) {
			h.text += `audit { stream = "log" }` + "\n"
			if err := errors.Join(syscall.Mkfifo(at(h, "fifo"), 0o600), os.Symlink("fifo", at(h, "log"))); err != nil {
				t.Fatal(err)
			}
		}, []string{`audit.stream "DIR/log" is a FIFO, not a file`}},
		{"a stream behind a link", func(t *testing.T, h *host) {
			h.text += `audit { stream = "log" }` + "\n"
			if err := os.Symlink("file", at(h, "log")); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"a checkpoint to a device", func(t *testing.T, h *host) {
			h.text += "checkpoint {\n key = \"k\"\n output = \"/dev/null\"\n}\n"
			if _, _, err := checkpoint.WriteKey(at(h, "k"), "k"); err != nil {
				t.Fatal(err)
			}
		}, []string{`checkpoint.output "/dev/null" is a device, not a file`}},
		{"a checkpoint through a link", func(t *testing.T, h *host) {
			h.text += "checkpoint {\n key = \"k\"\n output = \"log\"\n}\n"
			if _, _, err := checkpoint.WriteKey(at(h, "k"), "k"); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("file", at(h, "log")); err != nil {
				t.Fatal(err)
			}
		}, []string{`checkpoint.output "DIR/log" is a symbolic link, not a file`}},
		{"a checkpoint without its key", func(t *testing.T, h *host) {
			h.text += "checkpoint {\n key = \"k\"\n output = \"stdout\"\n}\n"
		}, []string{`checkpoint.key "DIR/k" does not exist`}},
		{"a key that the group can read", func(t *testing.T, h *host) {
			h.text += "checkpoint {\n key = \"k\"\n output = \"stdout\"\n}\n"
			writeFile(t, at(h, "k"), "")
			chmod(t, at(h, "k"), 0o640)
		}, []string{`checkpoint.key "DIR/k" can be read by others`}},
		{"a key that is none", func(t *testing.T, h *host) {
			h.text += "checkpoint {\n key = \"k\"\n output = \"stdout\"\n}\n"
			writeFile(t, at(h, "k"), "PRIVATE+KEY+no")
		}, []string{`checkpoint.key "DIR/k" holds no private key; make one with "breakwater audit keygen"`}},
		{"a key that checks", func(t *testing.T, h *host) {
			h.text += "checkpoint {\n key = \"k\"\n output = \"stdout\"\n}\n"
			_, public, err := checkpoint.Generate("k")
			if err != nil {
				t.Fatal(err)
			}
			writeFile(t, at(h, "k"), public)
		}, []string{`checkpoint.key "DIR/k" holds no private key; it is the public key`}},
		{"a key that signs, to syslog", func(t *testing.T, h *host) {
			h.text += "checkpoint {\n key = \"k\"\n output = \"syslog\"\n}\n"
			if _, _, err := checkpoint.WriteKey(at(h, "k"), "k"); err != nil {
				t.Fatal(err)
			}
		}, nil},
		{"an authorization that only we can read", func(t *testing.T, h *host) {
			h.text += "handler \"http\" \"api\" {\n url = \"http://127.0.0.1/\"\n authorization_file = \"token\"\n}\n"
			writeFile(t, at(h, "token"), "Bearer x")
		}, nil},
		{"an authorization that the group can read", func(t *testing.T, h *host) {
			h.text += "handler \"http\" \"api\" {\n url = \"http://127.0.0.1/\"\n authorization_file = \"token\"\n}\n"
			writeFile(t, at(h, "token"), "Bearer x")
			chmod(t, at(h, "token"), 0o660)
		}, []string{`handler.http.api.authorization_file "DIR/token" can be read by others`}},
		{"an authorization that is not there", func(t *testing.T, h *host) {
			h.text += "handler \"http\" \"api\" {\n url = \"http://127.0.0.1/\"\n authorization_file = \"token\"\n}\n"
		}, []string{`handler.http.api.authorization_file "DIR/token" does not exist; write the header's value into it`}},
		{"an authorization in a variable that is not set", func(t *testing.T, h *host) {
			h.text += "handler \"http\" \"api\" {\n url = \"http://127.0.0.1/\"\n authorization_env = \"BREAKWATER_TEST_ABSENT\"\n}\n"
		}, []string{"handler.http.api.authorization_env names the variable BREAKWATER_TEST_ABSENT, which is not set here"}},
		{"a group that is not there", func(t *testing.T, h *host) {
			h.text += "socket \"consume\" {\n group = \"breakwater-test-absent\"\n}\nsocket \"control\" {\n group = \"4711\"\n}\n"
		}, []string{`socket.consume.group names a group that this host does not have: "breakwater-test-absent"; create it: groupadd --system breakwater-test-absent`}},
		{"no program", func(t *testing.T, h *host) { os.Remove(at(h, "post")) },
			[]string{`handler.exec.post.command "DIR/post" does not exist`}},
		{"a program that is not executable", func(t *testing.T, h *host) { chmod(t, at(h, "post"), 0o600) },
			[]string{`"DIR/post" is not executable`}},
		{"a program that everyone can write", func(t *testing.T, h *host) { chmod(t, at(h, "post"), 0o757) },
			[]string{`"DIR/post" can be written by everyone`}},
		{"a program with more rights than ours", func(t *testing.T, h *host) { chmod(t, at(h, "post"), 0o755|os.ModeSetuid) },
			[]string{`"DIR/post" is setuid or setgid`}},
		{"a program that is a folder", func(t *testing.T, h *host) {
			os.Remove(at(h, "post"))
			mkdir(t, at(h, "post"), 0o755)
		}, []string{`"DIR/post" is a directory, not a program`}},
		{"a folder in which everyone can replace everything", func(t *testing.T, h *host) { chmod(t, h.dir, 0o777) },
			[]string{`data_dir cannot be made: its parent "DIR" can be written by everyone`, `handler.exec.post.command "DIR" can be written by everyone`}},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Setenv("RUNTIME_DIRECTORY", "")
			h := &host{dir: shortTempDir(t)}
			h.text = `handler "exec" "post" { command = ["` + at(h, "post") + `"] }` + "\n"
			writeFile(t, at(h, "post"), "#!/bin/sh\n")
			chmod(t, at(h, "post"), 0o755)
			writeFile(t, at(h, "config.hcl"), "")
			one.spoil(t, h)
			writeFile(t, at(h, "config.hcl"), h.text)
			c, err := Load(at(h, "config.hcl"))
			if err != nil {
				t.Fatal(err)
			}
			got := c.CheckHost()
			for i, p := range got {
				if i >= len(one.want) || !strings.Contains(p.String(), strings.ReplaceAll(one.want[i], "DIR", h.dir)) {
					t.Errorf("problem %d: %s; want %q", i, p, one.want)
				}
			}
			if len(got) != len(one.want) {
				t.Errorf("%d problems, want %d", len(got), len(one.want))
			}
		})
	}

	t.Run("a problem points at its line", func(t *testing.T) {
		c := parse(t, "\n\nhandler \"exec\" \"post\" {\n  command = [\"/absent/post\"]\n}\n")
		for _, p := range c.CheckHost() {
			if strings.Contains(p.Message, "post") && p.Line == 4 && p.File == "config.hcl" {
				return
			}
		}
		t.Errorf("none of %v is about line 4", c.CheckHost())
	})
}

// shortTempDir is a temporary folder whose path leaves room for a socket's name;
// the one that testing makes holds the test's own name.
func shortTempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// TestCheckHost_denied: what may not be looked at is told from what is wrong, for
// whoever asks as another user than the service's.
func TestCheckHost_denied(t *testing.T) {
	denied := &fs.PathError{Op: "stat", Path: "/x", Err: fs.ErrPermission}
	if wrong := unseen("/x", "looked at", denied); !wrong.denied {
		t.Errorf("%+v", wrong)
	}
	if wrong := unseen("/x", "looked at", &fs.PathError{Op: "stat", Path: "/x", Err: errors.New("input/output error")}); wrong.denied {
		t.Errorf("%+v", wrong)
	}
	if os.Geteuid() == 0 {
		t.Skip("root may look at everything")
	}
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0); err != nil {
		t.Fatal(err)
	}
	c := Default()
	c.Store.Path = filepath.Join(closed, "x.db")
	for _, p := range c.CheckHost() {
		if p.Denied {
			return
		}
	}
	t.Error("a store in a folder that is closed to this user is not told as that")
}
