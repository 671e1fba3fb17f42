package config

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"pgregory.net/rapid"
)

// anyConfig draws a Config that Parse could have returned, without secrets.
func anyConfig(t *rapid.T) Config {
	name := rapid.StringMatching(`[a-z0-9][a-z0-9_-]{0,20}`)
	// Paths and arguments with everything that quoting could trip over.
	odd := rapid.StringOf(rapid.OneOf(
		rapid.RuneFrom([]rune(`abc $%{}"\~!#/*<. `)), rapid.RuneFrom([]rune("é\u0301\u202e\U0001f600\u00ad")),
	))
	pathOf := rapid.Custom(func(t *rapid.T) string {
		return "/p/" + strings.Trim(expansion.ReplaceAllString(odd.Draw(t, "path"), ""), "/.")
	}).Filter(func(s string) bool { return resolve("/", s) == s && checkPath(s) == nil })

	c := unplaced("/srv/breakwater")
	for _, s := range schema(&c, "/") {
		for _, one := range s.settings {
			switch v := one.value.(type) {
			case whole:
				v.set(rapid.Int64Range(v.lo, v.hi).Draw(t, s.id(one.name)))
			case truth:
				*v.dst = rapid.Bool().Draw(t, s.id(one.name))
			case choice:
				*v.dst = rapid.SampledFrom(v.words).Draw(t, s.id(one.name))
			case mode:
				*v.dst = rapid.SampledFrom([]os.FileMode{0o600, 0o620, 0o640, 0o660}).Draw(t, s.id(one.name))
			}
		}
	}
	q := &c.Queue
	q.MaxSize = max(q.MaxSize, q.Prefetch, q.Concurrency)
	q.MaxLeaseTimeout = max(q.MaxLeaseTimeout, q.LeaseTimeout)
	q.RetryMax = max(q.RetryMax, q.RetryInitial)
	q.MaxDeliveries = max(q.MaxDeliveries, q.MaxAttempts)
	q.MaxIntakeBytes = max(q.MaxIntakeBytes, q.MaxLineBytes)
	c.Audit.Stream = rapid.SampledFrom([]string{"", Stdout, "/var/log/trail"}).Draw(t, "stream")
	c.Metrics.Listen = rapid.SampledFrom([]string{"", "127.0.0.1:9377", "[::1]:0", "localhost:80"}).Draw(t, "listen")
	c.DataDir = pathOf.Filter(func(s string) bool { return len(s) < 60 }).Draw(t, "data_dir")
	c.place("/", "")
	for i, h := range rapid.SliceOfNDistinct(name, 0, 4, rapid.ID).Draw(t, "handlers") {
		if h == KindLog || h == KindConsumers {
			continue
		}
		fresh := Handler{Name: h, Kind: handlerKinds()[i%2], Timeout: time.Duration(1+i) * time.Millisecond}
		if fresh.Kind == KindExec {
			fresh.Command = append([]string{"/bin/x"}, rapid.SliceOfN(odd, 0, 3).Draw(t, "arguments")...)
			fresh.Env = rapid.SampledFrom([][]string{nil, {"LANG"}, {"LANG", "TZ"}}).Draw(t, "env")
		} else {
			fresh.URL = rapid.SampledFrom([]string{"http://127.0.0.1:8080/x", "http+unix:///run/r.sock/v1"}).Draw(t, "url")
			if rapid.Bool().Draw(t, "authorization in a file") {
				fresh.AuthorizationFile = pathOf.Draw(t, "authorization_file")
			} else {
				fresh.AuthorizationEnv = rapid.SampledFrom([]string{"", "REVIEW_AUTHORIZATION"}).Draw(t, "authorization_env")
			}
		}
		c.Handlers = append(c.Handlers, fresh)
		c.Routes.RouteReview.Handler = h
	}
	return c
}

func TestRoundTrip(t *testing.T) {
	t.Run("the printed configuration reads back as the same", rapid.MakeCheck(func(t *rapid.T) {
		want := anyConfig(t)
		sortHandlers(want.Handlers)
		text := want.HCL()
		got, err := Parse("config.hcl", text, "/elsewhere")
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !got.Equal(want) {
			t.Fatalf("printed\n%s\nread\n%s", text, got.HCL())
		}
		if !bytes.Equal(got.Effective(), want.Effective()) {
			t.Fatal("equal configurations differ in Effective")
		}
		if flat, err := flatten(got.Effective()); err != nil || len(flat) != len(plainValues(got)) {
			t.Fatalf("%d keys of %d, %v in %s", len(flat), len(plainValues(got)), err, got.Effective())
		}
		if changed, _ := Reloadable(want, got); changed != nil {
			t.Fatalf("equal configurations differ in %v", changed)
		}
	}))
}

func TestEffective(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", "")
	const secret = `
handler "http" "api" { url = "https://user:verysecret@host/path?token=verysecret" }
handler "exec" "post" {
  command = ["/bin/post", "a\"b"]
  env     = ["LANG"]
}
`
	c, err := Parse("config.hcl", []byte(secret), "/srv")
	if err != nil {
		t.Fatal(err)
	}

	t.Run("is one JSON object with every key", func(t *testing.T) {
		var document map[string]map[string]any
		var top struct {
			DataDir string `json:"data_dir"`
		}
		effective := c.Effective()
		if err := json.Unmarshal(effective, &top); err != nil || top.DataDir != "/srv/var" {
			t.Fatalf("%v: %s", err, effective)
		}
		flat, err := flatten(effective)
		if err != nil {
			t.Fatal(err)
		}
		keys := 0
		for _, s := range schema(&c, "") {
			for _, one := range s.settings {
				keys++
				if _, ok := flat[s.id(one.name)]; !ok {
					t.Errorf("%s is missing", s.id(one.name))
				}
			}
		}
		if keys != len(flat) {
			t.Errorf("%d keys in the schema, %d in the document %v", keys, len(flat), document)
		}
		for key, want := range map[string]string{
			"queue.lease_timeout_ms":    "30000",
			"socket.control.mode":       `"0600"`,
			"audit.require_archive":     "true",
			"handler.exec.post.command": `["/bin/post","a\"b"]`,
		} {
			if string(flat[key]) != want {
				t.Errorf("%s is %s, not %s", key, flat[key], want)
			}
		}
	})

	t.Run("does not depend on how the file was written", func(t *testing.T) {
		parts := strings.SplitN(secret, "handler \"exec\"", 2)
		other, err := Parse("other.hcl", []byte(`handler "exec"`+parts[1]+parts[0]+"queue {\n prefetch = 32\n}"), "/srv")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(c.Effective(), other.Effective()) || !c.Equal(other) {
			t.Errorf("%s\n%s", c.Effective(), other.Effective())
		}
	})

	t.Run("masks secrets, in every form", func(t *testing.T) {
		for _, shown := range []string{string(c.Effective()), string(c.HCL())} {
			if strings.Contains(shown, "verysecret") || strings.Contains(shown, "user:") {
				t.Errorf("a secret is shown in\n%s", shown)
			}
			if !strings.Contains(shown, "https://redacted@host/path?redacted") {
				t.Errorf("no masked URL in\n%s", shown)
			}
		}
		if !strings.Contains(c.Handlers[1].URL, "verysecret") {
			t.Error("showing a configuration has changed it")
		}
	})
}
