package config

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func parse(t *testing.T, src string) Config {
	t.Helper()
	t.Setenv("RUNTIME_DIRECTORY", "")
	c, err := Parse("config.hcl", []byte(src), "/srv")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestDiff(t *testing.T) {
	const post = `handler "exec" "post" { command = ["/bin/post"] }` + "\n"
	plain := parse(t, "")
	for _, one := range []struct{ name, before, after, want string }{
		{"nothing", "", "", ""},
		{"a number", "", "queue { prefetch = 64 }",
			`{"before":{"queue.prefetch":32},"after":{"queue.prefetch":64}}`},
		{"a handler that comes", "", post,
			`{"before":{},"after":{"handler.exec.post.command":["/bin/post"],"handler.exec.post.env":[],"handler.exec.post.timeout_ms":20000}}`},
		{"a handler that goes and a level", post + `log { level = "warn" }`, "",
			`{"before":{"handler.exec.post.command":["/bin/post"],"handler.exec.post.env":[],"handler.exec.post.timeout_ms":20000,"log.level":"warn"},"after":{"log.level":"info"}}`},
	} {
		t.Run(one.name, func(t *testing.T) {
			got, err := Diff(parse(t, one.before).Effective(), parse(t, one.after).Effective())
			if err != nil || string(got) != one.want {
				t.Errorf("Diff: %s, %v; want %s", got, err, one.want)
			}
		})
	}
	t.Run("the first start has no before", func(t *testing.T) {
		got, err := Diff(nil, []byte(`{"log":{"level":"info"}}`))
		if want := `{"before":{},"after":{"log.level":"info"}}`; err != nil || string(got) != want {
			t.Errorf("Diff: %s, %v", got, err)
		}
	})
	t.Run("keys of another version are told", func(t *testing.T) {
		got, err := Diff([]byte(`{"old":{"x":[1, 2]}}`), []byte(`{}`))
		if want := `{"before":{"old.x":[1,2]},"after":{}}`; err != nil || string(got) != want {
			t.Errorf("Diff: %s, %v", got, err)
		}
	})
	t.Run("a damaged document is an error", func(t *testing.T) {
		for _, damaged := range []string{`{"a":`, `[]`, `{"a":1,"a":2}`, "\x00"} {
			if got, err := Diff([]byte(damaged), plain.Effective()); err == nil {
				t.Errorf("Diff(%q) = %s", damaged, got)
			}
		}
	})
}

func TestReloadable(t *testing.T) {
	for _, one := range []struct {
		name, before, after string
		changed, refused    []string
	}{
		{"nothing", "", "", nil, nil},
		{"limits and level", "", "queue {\n concurrency = 9\n max_backlog = 5\n}\nlog { level = \"debug\" }",
			[]string{"log.level", "queue.concurrency", "queue.max_backlog"}, nil},
		{"handlers and routes", "", "route \"ROUTE_REVIEW\" { handler = \"post\" }\nhandler \"exec\" \"post\" { command = [\"/bin/post\"] }",
			[]string{"handler.exec.post.command", "handler.exec.post.env", "handler.exec.post.timeout_ms", "route.ROUTE_REVIEW.handler"}, nil},
		{"a handler that goes", `handler "http" "api" { url = "http://127.0.0.1/" }`, "",
			[]string{"handler.http.api.authorization_env", "handler.http.api.authorization_file", "handler.http.api.timeout_ms", "handler.http.api.url"}, nil},
		{"where a secret is", `handler "http" "api" { url = "http://127.0.0.1/" }`, "handler \"http\" \"api\" {\n url = \"http://127.0.0.1/\"\n authorization_env = \"X\"\n}",
			[]string{"handler.http.api.authorization_env"}, nil},
		{"a secret alone", `handler "http" "api" { url = "http://a:b@127.0.0.1/" }`, `handler "http" "api" { url = "http://a:c@127.0.0.1/" }`,
			[]string{"handler.http.api.url"}, nil},
		{"retention", "", "ledger { retention_h = 1 }\naudit {\n retention_h = 1\n require_archive = false\n}",
			[]string{"audit.require_archive", "audit.retention_h", "ledger.retention_h"}, nil},
		{"a mixture is refused", "", "queue { prefetch = 1 }\nsocket \"control\" { mode = \"0660\" }\nmetrics { listen = \"127.0.0.1:1\" }",
			[]string{"metrics.listen", "queue.prefetch", "socket.control.mode"}, []string{"metrics.listen", "socket.control.mode"}},
		{"another folder moves everything in it", "", `data_dir = "other"`,
			[]string{"data_dir", "run_dir", "socket.consume.path", "socket.control.path", "socket.enqueue.path", "store.bbolt.path"},
			[]string{"data_dir", "run_dir", "socket.consume.path", "socket.control.path", "socket.enqueue.path", "store.bbolt.path"}},
	} {
		t.Run(one.name, func(t *testing.T) {
			changed, refused := Reloadable(parse(t, one.before), parse(t, one.after))
			if diff := cmp.Diff(one.changed, changed); diff != "" {
				t.Errorf("changed (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(one.refused, refused); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("what the operator turns under load is live", func(t *testing.T) {
		c := parse(t, "")
		for _, s := range schema(&c, "") {
			for _, one := range s.settings {
				if promised := s.block == "queue" || s.block == "route" || s.block == "handler"; promised && !one.live {
					t.Errorf("%s: live is %v", s.id(one.name), one.live)
				}
				if s.block == "socket" {
					if limit := one.name == "max_connections"; one.live != limit {
						t.Errorf("%s: live is %v", s.id(one.name), one.live)
					}
				}
				if fixed := []string{"", "store", "metrics"}; slices.Contains(fixed, s.block) && one.live {
					t.Errorf("%s cannot be reloaded", s.id(one.name))
				}
			}
		}
	})
}

func TestChanges(t *testing.T) {
	for _, one := range []struct{ name, before, after, wantBefore, wantAfter string }{
		{"nothing", "", "", "{}", "{}"},
		{"two keys", "queue { prefetch = 8 }", `log { level = "debug" }`,
			`{"log.level":"info","queue.prefetch":8}`, `{"log.level":"debug","queue.prefetch":32}`},
		{"a secret is named, not shown", `handler "http" "api" { url = "http://a:b@127.0.0.1/" }`, `handler "http" "api" { url = "http://a:c@127.0.0.1/" }`,
			`{"handler.http.api.url":"http://redacted@127.0.0.1/"}`, `{"handler.http.api.url":"http://redacted@127.0.0.1/"}`},
	} {
		t.Run(one.name, func(t *testing.T) {
			before, after, err := Changes(parse(t, one.before), parse(t, one.after))
			if err != nil || string(before) != one.wantBefore || string(after) != one.wantAfter {
				t.Errorf("got %s, %s, %v", before, after, err)
			}
		})
	}
}
