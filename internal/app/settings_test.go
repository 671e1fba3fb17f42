package app

import (
	"fmt"
	"testing"

	"breakwater/internal/config"
)

// What "config check" finds nothing wrong with must not be refused by the start: two
// readings of a setting would be a service that ends after a good check. Each of these is
// judged by both, those that the check refuses by the check alone.
func TestHandlers_can_be_made_of_whatever_the_check_lets_pass(t *testing.T) {
	var blocks []string
	for _, begin := range []string{"http://", "https://", "http+unix://", "http+unix:", "HTTP://", "http:", ""} {
		for _, host := range []string{"", "h", "h:80", "h:0", "h:", "[::1]:9", "[fe80::1]", "169.254.169.254", "u:p@h", "u@", ":p@h", "%68"} {
			for _, path := range []string{
				"", "/", "/x?q=1", "/run/a.sock", "/run/a.sock/x", "/run%2Fa.sock/x", "/run/a.sock%2Fx", "/run/a%2Esock/x", "/a.sock/b.sock", "/.sock", "/a.socket",
				"/%zz", "/a b", "/\\u0000.sock", "?a.sock", "/x#a.sock",
			} {
				blocks = append(blocks, fmt.Sprintf("handler \"http\" \"h\" {\n  url = \"%s%s%s\"\n}\n", begin, host, path))
			}
		}
	}
	for _, before := range []string{"", "X_", "NOTIFY_", "LISTEN_", "WATCHDOG_", "BREAKWATER_"} {
		for _, name := range []string{"", "SOCKET", "FDS", "PIDFDID", "USEC", "PATH", "SEQ", "A=B", "1", "a b", "\\u0000"} {
			blocks = append(blocks, fmt.Sprintf("handler \"exec\" \"h\" {\n  command = [\"/bin/true\"]\n  env = [\"%s%s\"]\n}\n", before, name))
		}
	}
	for _, command := range []string{"", "/", "/bin/true", "true", "/a b", "/a\\u0000", "/a\\n"} {
		for _, timeout := range []string{"0", "1", "86400000", "86400001"} {
			blocks = append(blocks, fmt.Sprintf("handler \"exec\" \"h\" {\n  command = [\"%s\"]\n  timeout_ms = %s\n}\n", command, timeout))
		}
	}
	passed := 0
	for _, block := range blocks {
		cfg, err := config.Parse("config.hcl", []byte(block+"route \"ROUTE_REVIEW\" {\n  handler = \"h\"\n}\n"), "/srv")
		if err != nil {
			continue
		}
		passed++
		a := new(appliance)
		a.inForce.Store(&cfg)
		if made, err := a.handlersOf(cfg); err != nil || len(made) != 2 {
			t.Errorf("the check lets pass what gives %d handlers, %v:\n%s", len(made), err, block)
		}
	}
	if refused := len(blocks) - passed; passed < 100 || refused < 100 {
		t.Errorf("%d passed, %d were refused: one of the two is not looked at", passed, refused)
	}
}
