package cli

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/go-hclog"
	"pgregory.net/rapid"

	"breakwater/internal/config"
)

// hostile are texts that try to be more than text.
var hostile = []string{
	"a\nb", "a\r\x1b[2Jb", "\u202egnp.exe", "\u2028next", "\x00\x7f\u0085", "\xff\xfe", "\U000e0041tag", "zero\u200bwidth", "plain", "ünïcödé 票",
}

func TestEscape(t *testing.T) {
	for in, want := range map[string]string{
		"plain":            "plain",
		"票 ü":              "票 ü",
		"a\tb":             `a\tb`,
		"\x1b[31m":         `\x1b[31m`,
		"\u202e":           `\u202e`,
		"\xff":             `\xff`,
		"\uFFFD":           "\uFFFD",
		"two\nlines":       "two\nlines",
		"\U000e0041":       `\U000e0041`,
		"\u0085\u2028":     `\u0085\u2028`,
		"a\x00":            `a\x00`,
		"soft\u00adhyphen": `soft\u00adhyphen`,
	} {
		if got := escape(in); got != want {
			t.Errorf("escape(%q) = %q, want %q", in, got, want)
		}
	}
	if got := oneLine("a\nb"); got != `a\nb` {
		t.Errorf("oneLine = %q", got)
	}
}

// TestVisible/says_the_same: escaping a document changes how it looks, not what it
// says.
func TestVisible(t *testing.T) {
	t.Run("says_the_same", rapid.MakeCheck(func(t *rapid.T) {
		text := rapid.OneOf(rapid.String(), rapid.SampledFrom(hostile)).Draw(t, "text")
		doc, err := json.Marshal(map[string]string{text: text})
		if err != nil {
			t.Fatal(err)
		}
		out := visible(doc)
		for _, r := range string(out) {
			if r != '\n' && !unicode.IsPrint(r) && r != unicode.ReplacementChar {
				t.Fatalf("%q is still in %q", r, out)
			}
		}
		var before, after map[string]string
		if json.Unmarshal(doc, &before) != nil || json.Unmarshal(out, &after) != nil {
			t.Fatalf("%q is not JSON any more: %q", doc, out)
		}
		for k, v := range before {
			if after[k] != v {
				t.Fatalf("%q became %q", before, after)
			}
		}
	}))
}

// TestLog holds the log to B60: whatever is logged, an entry is one line, and in JSON
// a document whose own members are ours.
func TestLog(t *testing.T) {
	for _, format := range []string{"text", "json"} {
		t.Run("one_line_an_entry_in_"+format, func(t *testing.T) {
			var b bytes.Buffer
			log := logger(config.Config{Log: config.Log{Level: "info", Format: format}}, &b)
			entries := 0
			for _, text := range hostile {
				forged := text + "\n2026-01-01T00:00:00.000Z [ERROR] forged: " + text
				log.Info(forged)
				log.Named(forged).Warn("named")
				log.With("key", forged).Error("value", "other", forged, "odd")
				log.Info("key", forged, 1)
				entries += 4
			}
			lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
			if len(lines) != entries {
				t.Errorf("%d entries, %d lines", entries, len(lines))
			}
			for _, line := range lines {
				if strings.HasPrefix(line, "2026-01-01T00:00:00.000Z") {
					t.Errorf("forged: %s", line)
				}
				if strings.IndexFunc(line, func(r rune) bool { return !unicode.IsPrint(r) && r != unicode.ReplacementChar }) >= 0 {
					t.Errorf("not visible: %q", line)
				}
				if format == "json" && !json.Valid([]byte(line)) {
					t.Errorf("not JSON: %s", line)
				}
			}
		})
	}
	t.Run("every_level_of_the_configuration_is_one_of_the_log", func(t *testing.T) {
		for _, level := range []string{"trace", "debug", "info", "warn", "error"} {
			if _, err := config.Parse("c.hcl", []byte(`log { level = "`+level+`" }`), "/"); err != nil {
				t.Errorf("%s: %v", level, err)
			}
			if hclog.LevelFromString(level) == hclog.NoLevel {
				t.Errorf("hclog does not know %q", level)
			}
		}
		for _, level := range []string{"off", "warning", "INFO", "loud", ""} {
			if _, err := config.Parse("c.hcl", []byte(`log { level = "`+level+`" }`), "/"); err == nil {
				t.Errorf("the configuration takes level %q", level)
			}
		}
	})
}

// An error may repeat input: no line of it looks like one of ours.
func TestPrintError_begins_no_line_with_what_it_repeats(t *testing.T) {
	var out strings.Builder
	printError(&out, "there is no \"a\nhint: run rm\x1b[2J\"", "try again")
	const want = "breakwater: error: there is no \"a\n  hint: run rm\\x1b[2J\"\nhint: try again\n"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
