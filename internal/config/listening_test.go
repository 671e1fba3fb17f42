package config

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// TestBindable has real listeners, of which nothing may hear.
func TestBindable(t *testing.T) {
	taken, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	everywhere, err := net.Listen("tcp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	defer everywhere.Close()
	port := func(l net.Listener) int { return l.Addr().(*net.TCPAddr).Port }
	dir := shortTempDir(t)
	none := filepath.Join(dir, "none.sock")
	const inUse = "is in use, by a process of uid"
	for _, c := range []struct{ listen, want string }{
		{fmt.Sprintf("127.0.0.1:%d", port(taken)), inUse},
		{fmt.Sprintf("localhost:%d", port(taken)), inUse},
		{fmt.Sprintf("0.0.0.0:%d", port(taken)), inUse},
		{fmt.Sprintf(":%d", port(taken)), inUse},
		{fmt.Sprintf("127.0.0.2:%d", port(taken)), ""},
		{fmt.Sprintf("[::1]:%d", port(everywhere)), ""},
		{fmt.Sprintf("127.0.0.2:%d", port(everywhere)), inUse},
		{"127.0.0.1:0", ""},
		{"192.0.2.1:9377", "is on an address that this host does not have"}, // RFC 5737: nobody's
		{"[2001:db8::1]:9377", "is on an address that this host does not have"},
		{"metrics.example:9377", ""}, // not looked up
	} {
		wrong := bindable(c.listen, none)
		if (wrong == nil) != (c.want == "") || wrong != nil && !strings.Contains(wrong.what, c.want) {
			t.Errorf("%s: %+v, want %q", c.listen, wrong, c.want)
		}
	}

	// A breakwater that runs with this configuration has its address by right.
	control := filepath.Join(dir, "control.sock")
	daemon, err := net.Listen("unix", control)
	if err != nil {
		t.Fatal(err)
	}
	if wrong := bindable(taken.Addr().String(), control); wrong != nil {
		t.Errorf("our own: %+v", wrong)
	}
	daemon.(*net.UnixListener).SetUnlinkOnClose(false)
	daemon.Close()
	if wrong := bindable(taken.Addr().String(), control); wrong == nil {
		t.Error("after its end somebody else has it, and nothing is said")
	}
}

func TestListening(t *testing.T) {
	native := func(little, big string) string {
		if littleEndianHere() {
			return little
		}
		return big
	}
	for _, c := range []struct{ line, want string }{
		{"   0: " + native("0100007F", "7F000001") + ":24A1 00000000:0000 0A 00000000:00000000 00:00000000 00000000   990        0 17 1", "127.0.0.1:9377 990"},
		{"   1: " + native("00000000000000000000000001000000", "00000000000000000000000000000001") + ":0050 00000000000000000000000000000000:0000 0A 0:0 00:0 0 0 0 1 1", "[::1]:80 0"},
		{"   2: 0100007F:24A1 0100007F:B2C4 01 00000000:00000000 00:00000000 00000000   990        0 17 1", ""}, // connected
		{"  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode", ""},
		{"   3: zz:24A1 00000000:0000 0A 0:0 00:0 0 990 0 17 1", ""},
		{"", ""},
	} {
		at, uid, ok := listening(c.line)
		if got := fmt.Sprint(at, " ", uid); ok != (c.want != "") || ok && got != c.want {
			t.Errorf("%q: %s, %v; want %q", c.line, got, ok, c.want)
		}
	}
}

func littleEndianHere() bool { return binary.NativeEndian.Uint16([]byte{1, 0}) == 1 }

func TestOverlap(t *testing.T) {
	for _, c := range []struct {
		there, wanted string
		want          bool
	}{
		{"127.0.0.1", "127.0.0.1", true}, {"127.0.0.1", "127.0.0.2", false}, {"0.0.0.0", "127.0.0.1", true}, {"127.0.0.1", "0.0.0.0", true},
		{"::", "127.0.0.1", false}, {"::", "0.0.0.0", true}, {"::", "::1", true}, {"::1", "::", true}, {"127.0.0.1", "::", true},
	} {
		if got := overlap(netip.MustParseAddr(c.there), netip.MustParseAddr(c.wanted)); got != c.want {
			t.Errorf("%s there, %s wanted: %v", c.there, c.wanted, got)
		}
	}
}

// TestCheckHost_of_a_user_without_permission: what cannot be written is said before a
// start finds it. As root everything can be, so one thread becomes somebody else; it ends
// with its goroutine.
func TestCheckHost_of_a_user_without_permission(t *testing.T) {
	const nobody = 65534
	dir := shortTempDir(t)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"closed", "mine"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	writeFile(t, filepath.Join(dir, "trail"), "")
	for name, mode := range map[string]os.FileMode{"closed": 0o555, "mine": 0o777 | os.ModeSticky, "trail": 0o444} {
		if err := os.Chmod(filepath.Join(dir, name), mode); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("RUNTIME_DIRECTORY", "")
	writeFile(t, filepath.Join(dir, "config.hcl"), `
data_dir = "mine/var"
run_dir  = "closed/run"
socket "control" { path = "closed/c.sock" }
audit { stream = "trail" }
`)
	c, err := Load(filepath.Join(dir, "config.hcl"))
	if err != nil {
		t.Fatal(err)
	}
	found := make(chan []Problem)
	go func() {
		defer close(found)
		runtime.LockOSThread() // and never unlocked
		if os.Getuid() == 0 {
			if _, _, no := syscall.RawSyscall(syscall.SYS_SETRESUID, nobody, nobody, nobody); no != 0 {
				t.Error(no)
				return
			}
		}
		if _, err := os.Stat(dir); err != nil {
			t.Logf("only this user gets to %s: %v", dir, err)
			return
		}
		found <- c.CheckHost()
	}()
	got, looked := <-found
	if !looked {
		t.Skip("there is no folder that another user can look at")
	}
	want := []string{
		`run_dir cannot be made: its parent "DIR/closed" cannot be written by uid `,
		`socket.control.path "DIR/closed" cannot be written by uid `,
		`audit.stream "DIR/trail" cannot be written by uid `,
	}
	for i, p := range got {
		if i >= len(want) || !strings.Contains(p.String(), strings.ReplaceAll(want[i], "DIR", dir)) || !p.Denied {
			t.Errorf("problem %d: %s (denied: %v); want %q", i, p, p.Denied, want)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d problems, want %d", len(got), len(want))
	}
}
