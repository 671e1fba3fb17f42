package config

import (
	"fmt"
	"strings"
	"testing"
)

func TestWarnings(t *testing.T) {
	c := parse(t, `
route "ROUTE_REVIEW" {
  handler = "log"
}
handler "exec" "slow" {
  command    = ["/bin/slow"]
  timeout_ms = 31000
}
handler "http" "remote" {
  url = "http://review.example/"
}
handler "http" "local" {
  url = "http://127.0.0.1:80/"
}
metrics {
  listen = ":9377"
}
`)
	want := []string{
		"config.hcl:3: the route ROUTE_REVIEW",
		"config.hcl:7: handler.exec.slow may run for 31s",
		"config.hcl:10: handler.http.remote.url sends",
		"config.hcl:16: metrics.listen is open",
	}
	got := c.Warnings()
	if len(got) != len(want) {
		t.Fatalf("%d warnings: %v", len(got), got)
	}
	for i, p := range got {
		if !strings.HasPrefix(p.String(), want[i]) {
			t.Errorf("warning %d: %s; want %q", i, p, want[i])
		}
	}
}

func TestWarnings_of_a_drain_in_the_wrong_unit(t *testing.T) {
	for seconds, want := range map[string]string{"3600": "", "30000": "config.hcl:3: a stop may take as long as queue.drain_timeout_s, 8h20m0s"} {
		got := parse(t, "queue {\n\n  drain_timeout_s = "+seconds+"\n}").Warnings()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].String(), want)) {
			t.Errorf("%s s: %v, want %q", seconds, got, want)
		}
	}
}

func TestWarnings_of_lines_that_have_not_ended(t *testing.T) {
	for connections, want := range map[string]string{
		"4096": "", // 1 GiB at the default of max_line_bytes
		"4097": "config.hcl:2: socket.enqueue.max_connections times queue.max_line_bytes is 1024 MiB",
	} {
		got := parse(t, "socket \"enqueue\" {\n  max_connections = "+connections+"\n}").Warnings()
		if want == "" && len(got) > 0 || want != "" && (len(got) != 1 || !strings.HasPrefix(got[0].String(), want)) {
			t.Errorf("%s connections: %v, want %q", connections, got, want)
		}
	}
}

func TestParse_says_once_that_run_dir_is_too_long(t *testing.T) {
	long := "/" + strings.Repeat("r", MaxSocketPath)
	for text, want := range map[string]int{
		`run_dir = "` + long + `"`: 1,
		`run_dir = "` + long + `"` + "\nsocket \"control\" {\n  path = \"" + long + "\"\n}": 2,
	} {
		_, err := Parse("config.hcl", []byte(text+"\n"), "/srv")
		if n := strings.Count(fmt.Sprint(err), "the path of a socket has"); n != want {
			t.Errorf("said %d times, want %d: %v", n, want, err)
		}
	}
}
