package queue

import (
	"encoding/json"
	"testing"
)

// TestAppendText_hides_nothing: what a terminal does not show as itself is escaped,
// also beyond the basic plane, and comes back unchanged.
func TestAppendText_hides_nothing(t *testing.T) {
	for in, want := range map[string]string{
		"plain":              `"plain"`,
		"\x1b[2J\n":          `"\u001b[2J\n"`,
		"a\u202eb":           `"a\u202eb"`,
		"tag \U000e0041 end": `"tag \udb40\udc41 end"`,
		"\U0001d173":         `"\ud834\udd73"`,
		"支払 😀":               `"支払 😀"`,
	} {
		got := string(AppendText(nil, in))
		var back string
		if err := json.Unmarshal([]byte(got), &back); err != nil || got != want || back != in {
			t.Errorf("%q: %s, want %s; comes back as %q (%v)", in, got, want, back, err)
		}
	}
}

// TestQuote_repeats_whole_characters_as_they_are: what is cut is cut between them.
func TestQuote_repeats_whole_characters_as_they_are(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", `""`},
		{"a\x1b\"b", "\"a\x1b\"b\""},
		{"12345678", `"12345678"`},
		{"123456789", `"12345678"...`},
		{"1234567é", `"1234567"...`},
		{"12345😀", `"12345"...`},
		{"1234\xff\xff\xff\xff\xff", "\"1234\xff\xff\xff\xff\"..."},
	} {
		if got := Quote(c.in, 8); got != c.want {
			t.Errorf("%q: %q, want %q", c.in, got, c.want)
		}
	}
}
