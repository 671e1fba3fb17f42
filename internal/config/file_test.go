package config

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestFind(t *testing.T) {
	dir := t.TempDir()
	local, system := filepath.Join(dir, "local"), filepath.Join(dir, "system")
	variable := func(value string) func(string) string {
		return func(name string) string {
			if name == "BREAKWATER_CONFIG" {
				return value
			}
			return ""
		}
	}
	expect := func(t *testing.T, flag, env, want string, wantExplicit bool) {
		t.Helper()
		path, explicit := find(flag, variable(env), local, system)
		if path != want || explicit != wantExplicit {
			t.Errorf("find = %q, %v; want %q, %v", path, explicit, want, wantExplicit)
		}
	}
	t.Run("nothing anywhere means the built-in defaults", func(t *testing.T) { expect(t, "", "", "", false) })
	writeFile(t, system, "")
	t.Run("the system's file comes last", func(t *testing.T) { expect(t, "", "", system, false) })
	if err := os.Symlink(filepath.Join(dir, "absent"), local); err != nil {
		t.Fatal(err)
	}
	t.Run("a dangling link is not passed over", func(t *testing.T) { expect(t, "", "", local, false) })
	t.Run("the variable comes before the files", func(t *testing.T) { expect(t, "", "/from/env", "/from/env", true) })
	t.Run("the flag comes first", func(t *testing.T) { expect(t, "/from/flag", "/from/env", "/from/flag", true) })
}

func TestLoad(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }

	fifo := at("fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", at("s.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	writeFile(t, at("large"), strings.Repeat("#\n", MaxFileBytes/2)+"#")
	writeFile(t, at("nul"), "# fine\nlog {\x00}")
	writeFile(t, at("latin1"), "# fine\n# caf\xe9")

	for _, one := range []struct{ name, path, want string }{
		{"missing", at("absent"), "absent: does not exist; "},
		{"a directory", dir, "is a directory, not a file"},
		{"a FIFO without a writer", fifo, "is a FIFO, not a file"},
		{"a device", "/dev/null", "is a device, not a file"},
		{"an endless device", "/dev/zero", "is a device, not a file"},
		{"a socket", at("s.sock"), "is a socket or device, not a file"},
		{"a byte too large", at("large"), "the file is larger than 262144 bytes"},
		{"a NUL byte", at("nul"), "nul:2: the file has a NUL byte"},
		{"not UTF-8", at("latin1"), "latin1:2: the file has bytes that are not UTF-8"},
		{"a path through a file", at("nul/x"), "cannot be read: not a directory"},
		{"a path with a NUL", at("a\x00b"), "a\x00b: cannot be read"},
	} {
		t.Run(one.name, func(t *testing.T) {
			c, err := Load(one.path)
			var problems *Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), one.want) {
				t.Errorf("Load: %v; want %q in a *Problems", err, one.want)
			}
			if !c.Equal(Config{}) {
				t.Error("a refused file gives a Config")
			}
		})
	}

	t.Run("a missing file is known as such", func(t *testing.T) {
		if _, err := Load(at("absent")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v is not fs.ErrNotExist", err)
		}
	})
	t.Run("a file of exactly the largest size is read", func(t *testing.T) {
		writeFile(t, at("largest"), strings.Repeat("#\n", MaxFileBytes/2))
		if _, err := Load(at("largest")); err != nil {
			t.Error(err)
		}
	})
	t.Run("relative paths count from the file's folder", func(t *testing.T) {
		writeFile(t, at("config.hcl"), `data_dir = "state"`)
		t.Chdir(filepath.Dir(dir))
		c, err := Load(filepath.Join(filepath.Base(dir), "config.hcl"))
		if err != nil {
			t.Fatal(err)
		}
		if want := at("state/breakwater.db"); c.Store.Path != want {
			t.Errorf("the store is at %q, not %q", c.Store.Path, want)
		}
	})
	t.Run("without a file paths count from the working directory", func(t *testing.T) {
		t.Chdir(dir)
		t.Setenv("RUNTIME_DIRECTORY", "")
		c, err := Load("")
		if err != nil {
			t.Fatal(err)
		}
		if c.Sockets.Control.Path != at("var/run/control.sock") || !c.Equal(Default()) {
			t.Errorf("Load without a file gives\n%s", c.HCL())
		}
	})
	t.Run("a working directory too deep for a socket is refused", func(t *testing.T) {
		deep := at(strings.Repeat("d", MaxSocketPath))
		if err := os.Mkdir(deep, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Chdir(deep)
		t.Setenv("RUNTIME_DIRECTORY", "")
		if _, err := Load(""); err == nil || !strings.Contains(err.Error(), "built-in config: the path of a socket has") {
			t.Errorf("Load: %v", err)
		}
	})
}

func TestRunDir(t *testing.T) {
	for _, one := range []struct{ name, env, text, want string }{
		{"under data_dir", "", `data_dir = "d"`, "/srv/d/run"},
		{"from the service manager", "/run/breakwater", "", "/run/breakwater"},
		{"the first of several from the service manager", "/run/a:/run/b", "", "/run/a"},
		{"the file's own word wins", "/run/breakwater", `run_dir = "r"`, "/srv/r"},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Setenv("RUNTIME_DIRECTORY", one.env)
			c, err := Parse("config.hcl", []byte(one.text), "/srv")
			if err != nil {
				t.Fatal(err)
			}
			if c.RunDir != one.want || c.Sockets.Enqueue.Path != one.want+"/enqueue.sock" {
				t.Errorf("run_dir %q, socket %q; want %q", c.RunDir, c.Sockets.Enqueue.Path, one.want)
			}
		})
	}
}

func TestSocketPathLength(t *testing.T) {
	for _, one := range []struct {
		length int
		fits   bool
	}{{106, true}, {107, true}, {108, false}, {109, false}, {200, false}} {
		path := "/" + strings.Repeat("s", one.length-1)
		_, err := Parse("config.hcl", []byte(`socket "enqueue" { path = "`+path+`" }`), "/srv")
		if (err == nil) != one.fits {
			t.Errorf("%d bytes: %v", one.length, err)
		}
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
