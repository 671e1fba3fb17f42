package house

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"breakwater/internal/config"
	"breakwater/internal/systemd"
)

// unit is a parsed systemd unit: section, key, the values in order.
type unit map[string]map[string][]string

// one returns the value of a key that occurs exactly once, or "".
func (u unit) one(section, key string) string {
	if values := u[section][key]; len(values) == 1 {
		return values[0]
	}
	return ""
}

// parseUnit reads what our units use of systemd.syntax(7): no continued lines,
// and no key twice, since the second either adds or replaces and few know which.
func parseUnit(text string) (unit, error) {
	u, section := unit{}, ""
	for i, line := range strings.Split(text, "\n") {
		switch line = strings.TrimSpace(line); {
		case line == "" || line[0] == '#' || line[0] == ';':
		case line[0] == '[' && strings.HasSuffix(line, "]"):
			section = line[1 : len(line)-1]
			if u[section] != nil {
				return nil, fmt.Errorf("line %d: section %s begins twice", i+1, section)
			}
			u[section] = map[string][]string{}
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || section == "" || strings.HasSuffix(line, `\`) || key != strings.TrimSpace(key) {
				return nil, fmt.Errorf("line %d: %q", i+1, line)
			}
			if u[section][key] != nil {
				return nil, fmt.Errorf("line %d: %s is set twice", i+1, key)
			}
			u[section][key] = []string{value}
		}
	}
	return u, nil
}

// packaged reads and parses a unit of the packaging folder.
func packaged(t *testing.T, name string) unit {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root(t), "packaging", name))
	if err != nil {
		t.Fatal(err)
	}
	u, err := parseUnit(string(text))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return u
}

func TestPackaging_service(t *testing.T) {
	u := packaged(t, "breakwater.service")
	for _, c := range []struct{ key, want, why string }{
		{"Type", "notify", "READY is said after recovery, not at the start of the process"},
		{"NotifyAccess", "main", "a handler's command must not speak for us"},
		{"KillMode", "mixed", "a TERM to the whole group would cut off the handlers that the drain waits for"},
		{"Restart", "on-failure", "fail-stop relies on being started again"},
		{"SuccessExitStatus", "5", "a drain that was cut off has lost nothing"},
		{"RestartPreventExitStatus", "2", "a configuration error is not healed by a new start"},
		{"OOMPolicy", "continue", "a handler's command that is killed must not stop the queue"},
		{"StateDirectoryMode", "0700", "the contract's mode of data_dir"},
		{"RuntimeDirectoryMode", "0750", "the contract's mode of run_dir"},
		{"RuntimeDirectoryPreserve", "yes", "stopping the service must not remove the socket units' sockets"},
		{"UMask", "0077", "no file is readable by accident"},
		{"NoNewPrivileges", "yes", "hardening"},
		{"ProtectSystem", "strict", "hardening"},
		{"MemoryDenyWriteExecute", "yes", "hardening"},
		{"SystemCallFilter", "@system-service", "hardening"},
		{"RestrictAddressFamilies", "AF_UNIX AF_INET AF_INET6", "hardening"},
		{"LimitCORE", "0", "a core holds exceptions and the file's secret"},
		{"ExecReload", "/bin/kill -HUP $MAINPID", "SIGHUP reloads"},
	} {
		if got := u.one("Service", c.key); got != c.want {
			t.Errorf("%s=%s, want %s: %s", c.key, got, c.want, c.why)
		}
	}
	for _, c := range []struct{ key, why string }{
		{"PrivateUsers", "peers' uids would be recorded as nobody"},
		{"PrivatePIDs", "peers' pids would be recorded as 0"},
		{"PrivateNetwork", "the http handler could reach nothing"},
		{"DynamicUser", "the file outlives the service and names people by uid"},
	} {
		if _, set := u["Service"][c.key]; set {
			t.Errorf("%s is set: %s", c.key, c.why)
		}
	}
}

func TestPackaging_service_leaves_time_to_drain(t *testing.T) {
	u, cfg := packaged(t, "breakwater.service"), config.Default()
	stop, err := strconv.Atoi(u.one("Service", "TimeoutStopSec"))
	if err != nil {
		t.Fatalf("TimeoutStopSec: %v", err)
	}
	// Twice the drain: the last commits and the closing of a big file come after it.
	if limit := time.Duration(stop) * time.Second; limit < 2*cfg.Queue.DrainTimeout {
		t.Errorf("TimeoutStopSec=%d kills a drain of %v before it has ended", stop, cfg.Queue.DrainTimeout)
	}
	if dog, err := strconv.Atoi(u.one("Service", "WatchdogSec")); err != nil || dog < 30 {
		t.Errorf("WatchdogSec=%s: at least 30, a disk may stall for seconds", u.one("Service", "WatchdogSec"))
	}
}

func TestPackaging_service_runs_what_make_installs(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root(t), "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PREFIX  ?= /usr/local\n", "$(DESTDIR)$(PREFIX)/bin/breakwater\n", "install: | $(BIN)/breakwater ", "ExecStart=/usr/local/|ExecStart=$(PREFIX)/"} {
		if !bytes.Contains(makefile, []byte(want)) {
			t.Errorf("the Makefile does not say %q any more: does the unit still run what it installs?", want)
		}
	}
	u := packaged(t, "breakwater.service")
	argv := strings.Fields(u.one("Service", "ExecStart"))
	want := []string{"/usr/local/bin/breakwater", "--config", "/etc/breakwater/config.hcl", "serve"}
	if !slices.Equal(argv, want) {
		t.Errorf("ExecStart=%v, want %v", argv, want)
	}
}

func TestPackaging_config(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", "")
	cfg, err := config.Load(filepath.Join(root(t), "packaging", "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	u := packaged(t, "breakwater.service")
	if want := "/var/lib/" + u.one("Service", "StateDirectory"); cfg.DataDir != want || u.one("Unit", "RequiresMountsFor") != want {
		t.Errorf("data_dir is %s, the unit's state directory %s, the mount it waits for %s", cfg.DataDir, want, u.one("Unit", "RequiresMountsFor"))
	}
	// Only the service has $RUNTIME_DIRECTORY: an operator's shell finds the sockets by the file alone.
	if want := "/run/" + u.one("Service", "RuntimeDirectory"); cfg.RunDir != want {
		t.Errorf("run_dir is %s, the unit's runtime directory %s", cfg.RunDir, want)
	}
}

func TestPackaging_sockets(t *testing.T) {
	service := packaged(t, "breakwater.service")
	units, err := filepath.Glob(filepath.Join(root(t), "packaging", "*.socket"))
	if err != nil || len(units) != len(systemd.Names()) {
		t.Fatalf("%d socket units (%v), want one for each of %v", len(units), err, systemd.Names())
	}
	sockets := config.Default().Sockets
	defaults := map[string]config.Socket{"enqueue": sockets.Enqueue, "consume": sockets.Consume, "control": sockets.Control}
	for _, name := range systemd.Names() {
		u := packaged(t, "breakwater-"+name+".socket")
		for key, want := range map[string]string{
			"ListenStream":       "/run/" + service.one("Service", "RuntimeDirectory") + "/" + filepath.Base(defaults[name].Path),
			"FileDescriptorName": name,
			"Service":            "breakwater.service",
			"Accept":             "no", // the listener is handed over, not connections
			"SocketUser":         service.one("Service", "User"),
			"SocketGroup":        service.one("Service", "Group"),
			"SocketMode":         fmt.Sprintf("%04o", defaults[name].Mode),
			"DirectoryMode":      service.one("Service", "RuntimeDirectoryMode"),
		} {
			if got := u.one("Socket", key); got != want {
				t.Errorf("breakwater-%s.socket: %s=%s, want %s", name, key, got, want)
			}
		}
	}
}

func TestPackaging_user_and_folder(t *testing.T) {
	u := packaged(t, "breakwater.service")
	for file, want := range map[string]string{
		"breakwater.sysusers": "u " + u.one("Service", "User") + " ",
		"breakwater.tmpfiles": fmt.Sprintf("d /run/%s %s %s %s ", u.one("Service", "RuntimeDirectory"), u.one("Service", "RuntimeDirectoryMode"),
			u.one("Service", "User"), u.one("Service", "Group")),
	} {
		text, err := os.ReadFile(filepath.Join(root(t), "packaging", file))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains("\n"+string(text), "\n"+want) {
			t.Errorf("%s has no line that begins with %q", file, want)
		}
	}
}

// TestPackaging_systemd_agrees asks systemd itself, where it is installed: that
// it knows every key, and that it finds the service's exposure low.
func TestPackaging_systemd_agrees(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("systemd-analyze is not installed: 2 checks of the units not made")
	}
	// verify wants the binary to be there, so the units are checked with another.
	dir := t.TempDir()
	var files []string
	for _, pattern := range []string{"*.service", "*.socket"} {
		found, err := filepath.Glob(filepath.Join(root(t), "packaging", pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		for _, f := range found {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			text = bytes.ReplaceAll(text, []byte("/usr/local/bin/breakwater"), []byte("/bin/true"))
			copied := filepath.Join(dir, filepath.Base(f))
			if err := os.WriteFile(copied, text, 0o644); err != nil {
				t.Fatal(err)
			}
			files = append(files, copied)
		}
	}
	t.Run("verify", func(t *testing.T) {
		out, err := exec.Command(analyze, append([]string{"verify", "--man=no"}, files...)...).CombinedOutput()
		// Unknown keys are warnings and don't change the status: what counts is
		// whether it says anything about our files.
		if err != nil || bytes.Contains(out, []byte(dir)) || bytes.Contains(out, []byte("breakwater")) {
			t.Errorf("systemd-analyze verify: %v\n%s", err, out)
		}
	})
	t.Run("security", func(t *testing.T) {
		// 15 is an exposure of 1.5 of 10, which is what the unit has.
		out, err := exec.Command(analyze, "security", "--offline=true", "--threshold=15", filepath.Join(dir, "breakwater.service")).CombinedOutput()
		var exit *exec.ExitError
		switch {
		case err != nil && bytes.Contains(out, []byte("unrecognized option")):
			t.Skip("systemd is older than 250 and can't judge a unit offline: 1 check of the units not made")
		case errors.As(err, &exit):
			t.Errorf("the service is more exposed than it was:\n%s", out)
		case err != nil:
			t.Fatal(err)
		}
	})
}

func TestParseUnit(t *testing.T) {
	u, err := parseUnit("# c\n[Unit]\nA=1\n\n[Service]\nA=2 x=3\nCapabilityBoundingSet=\n")
	if err != nil || u.one("Unit", "A") != "1" || u.one("Service", "A") != "2 x=3" || u["Service"]["CapabilityBoundingSet"] == nil {
		t.Errorf("got %v, %v", u, err)
	}
	for _, bad := range []string{"A=1", "[Unit]\nA", "[Unit]\nA=1\nA=2", "[Unit]\n[Unit]", "[Unit]\nA=1\\", "[Unit]\nA =1"} {
		if _, err := parseUnit(bad); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
