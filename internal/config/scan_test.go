package config

import (
	"errors"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	const text = "queue {\n\tprefetch = 7\n}\nlog {\n  level = \"warn\"\n}\n"
	for name, src := range map[string]string{
		"plain":                   text,
		"with a byte order mark":  "\xef\xbb\xbf" + text,
		"with CR before LF":       strings.ReplaceAll(text, "\n", "\r\n"),
		"with both":               "\xef\xbb\xbf" + strings.ReplaceAll(text, "\n", "\r\n"),
		"without a last line end": strings.TrimSuffix(text, "\n"),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("config.hcl", []byte(src), "/srv")
			if err != nil {
				t.Fatal(err)
			}
			if c.Queue.Prefetch != 7 || c.Log.Level != "warn" {
				t.Errorf("prefetch %d, level %q", c.Queue.Prefetch, c.Log.Level)
			}
		})
	}

	t.Run("positions count characters, a byte order mark aside", func(t *testing.T) {
		_, err := Parse("config.hcl", []byte("\xef\xbb\xbf/* é */ nonsense = 1"), "/srv")
		var problems *Problems
		if !errors.As(err, &problems) || problems.List[0].Line != 1 || problems.List[0].Column != 9 {
			t.Errorf("%+v", err)
		}
	})

	t.Run("a decomposed path is taken byte for byte", func(t *testing.T) {
		const decomposed = "/srv/cafe\u0301"
		c, err := Parse("config.hcl", []byte(`data_dir = "`+decomposed+`"`), "/srv")
		if err != nil || c.DataDir != decomposed {
			t.Errorf("%q, %v", c.DataDir, err)
		}
	})
}

// TestHostile feeds Parse what overflows a recursive parser's stack, or makes it
// slow, at the largest size. An overflow is fatal: the test binary would die.
func TestHostile(t *testing.T) {
	fill := func(unit string) string { return strings.Repeat(unit, (MaxFileBytes-100)/len(unit)) }
	for _, one := range []struct{ name, src, want string }{
		{"parentheses", "a = " + fill("("), "nests deeper"},
		{"closed parentheses", "a = " + strings.Repeat("(", 100_000) + "1" + strings.Repeat(")", 100_000), "nests deeper"},
		{"brackets", "a = " + fill("["), "nests deeper"},
		{"braces", "a = " + fill("{a="), "nests deeper"},
		{"blocks", fill("a {\n"), "nests deeper"},
		{"calls", "a = " + fill("f("), "nests deeper"},
		{"templates", "a = " + fill(`"${`), "nests deeper"},
		{"nots", "a = " + fill("!"), "operators"},
		{"minuses", "a = " + fill("-"), "operators"},
		{"spaced minuses", "a = " + fill("- "), "operators"},
		{"conditions", "a = " + fill("1?1:"), "operators"},
		{"sums", "a = 1" + fill("+1"), "operators"},
		{"full splats", "a = a" + fill("[*]"), "operators"},
		{"attribute splats", "a = a" + fill(".*"), "operators"},
		{"traversals", "a = a" + fill(".a"), "operators"},
		{"namespaces", "a = a" + fill("::a"), "operators"},
		{"directives", `a = "` + fill("%{if true}"), "operators"},
		{"indexes", "data_dir = a" + fill("[0]"), "must be a literal"},
		{"digits", "data_dir = " + fill("9"), "must be a path"},
		{"an exponent", "queue {\n max_backlog = 1e" + strings.Repeat("9", 1000) + "\n}", "config.hcl:2: "},
		{"a long key", fill("k") + " = 1", "there is no key"},
		{"a long block", fill("k") + " {}", "there is no block"},
		{"a long label", `socket "` + fill("k") + `" {}`, "there is no socket"},
		{"a long value", `log { level = "` + fill("k") + `" }`, "is \"kkk"},
		{"many keys", fill("k=1\n"), "is given twice"},
		{"many blocks", fill("queue {\n}\n"), "more"},
		{"many labels", "socket " + fill(`"a" `) + "{}", "needs one label"},
		{"many items", "a = [" + fill(`"",`) + "]", "no key a"},
		{"invalid characters", fill("\u202e"), ""},
		{"quotes", fill(`"`), ""},
		{"heredocs", fill("a=<<A\n"), "config.hcl:1: the file has a heredoc"},
		{"empty lines of a heredoc", "a=<<A\n" + fill("\n"), "heredoc"},
		{"open comments", "#\n/* */ " + fill("/* "), "config.hcl:2: the file has comments that are never closed"},
		{"open comments after a closed one", strings.Repeat("/* ", 80_000) + "*/" + strings.Repeat("/*", maxOpenComments), "syntax"},
		{"slashes", fill("/"), ""},
		{"almost closed comments", fill("/*/"), ""},
		{"dollars", `data_dir = "` + fill("$") + `"`, "signs of $"},
		{"dollars with spaces", `data_dir = "` + fill("$ ") + `"`, "signs of $"},
		{"escaped templates", `data_dir = "` + fill("$${") + `"`, "signs of $"},
		{"escapes", `data_dir = "` + fill(`\"`) + `"`, "bytes long"},
		{"wide characters", `data_dir = "` + fill("é") + `"`, "bytes long"},
		{"combining characters", `data_dir = "` + fill("\u0301") + `"`, "bytes long"},
		{"line ends", fill("\r\n") + "x", ""},
	} {
		t.Run(one.name, func(t *testing.T) {
			_, err := Parse("config.hcl", []byte(one.src), "/srv")
			if err == nil && one.want == "" {
				return // legal after all; what counts is that it ended
			}
			var problems *Problems
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), one.want) {
				t.Fatalf("Parse: %.300v; want %q", err, one.want)
			}
			if len(problems.List) > MaxProblems {
				t.Errorf("%d problems are listed", len(problems.List))
			}
			for _, p := range problems.List {
				if len(p.Message) > 1000 {
					t.Errorf("a message has %d bytes", len(p.Message))
				}
			}
		})
	}

	t.Run("brackets in comments and texts count for nothing", func(t *testing.T) {
		src := "# " + strings.Repeat("([{", 100) + "\n/* " + strings.Repeat("!-?", 100) + " */\n" +
			`handler "exec" "x" { command = ["/bin/x", "` + strings.Repeat("([{!?*", 100) + `"] }`
		if _, err := Parse("config.hcl", []byte(src), "/srv"); err != nil {
			t.Error(err)
		}
	})
}
