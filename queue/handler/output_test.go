package handler

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// pieces draws what a command writes, and in which portions.
func pieces(t *rapid.T, alphabet []string) (all string, portions []string) {
	n := rapid.IntRange(0, 12).Draw(t, "portions")
	for range n {
		p := strings.Repeat(rapid.SampledFrom(alphabet).Draw(t, "text"), rapid.SampledFrom([]int{0, 1, 7, 1000, 4095, 4096, 9000, 70000}).Draw(t, "times"))
		portions, all = append(portions, p), all+p
	}
	return all, portions
}

func TestTail_keeps_the_end_of_whatever_is_written(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, portions := pieces(t, []string{"a", "b", "\n", "é", "€", "\U0001f600"})
		var w tail
		for _, p := range portions {
			if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatalf("wrote %d of %d: %v", n, len(p), err)
			}
			if cap(w.kept) > 4*maxStderr {
				t.Fatalf("it holds %d bytes", cap(w.kept))
			}
		}
		got := w.text()
		if !strings.HasSuffix(all, got) || len(got) > maxStderr || !utf8.ValidString(got) {
			t.Fatalf("kept %d bytes that are not the end", len(got))
		}
		if least := min(len(all), maxStderr-utf8.UTFMax+1); len(got) < least {
			t.Fatalf("kept %d bytes of %d", len(got), len(all))
		}
	})
}

func TestTail_bad_bytes_become_text_within_the_limit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		_, portions := pieces(t, []string{"\xff", "a\xff", "\x80", "\xe2\x82", "é\xff"})
		var w tail
		for _, p := range portions {
			_, _ = w.Write([]byte(p))
		}
		if got := w.text(); len(got) > maxStderr || !utf8.ValidString(got) {
			t.Fatalf("%d bytes, valid: %v", len(got), utf8.ValidString(got))
		}
	})
}

func TestTail_the_last_line_that_says_something(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "\n \n": "", "a": "a", "a\nb \n\n": "b",
		"x\n" + strings.Repeat("é", 200):  strings.Repeat("é", 128) + "…",
		"x\ny" + strings.Repeat("é", 200): "y" + strings.Repeat("é", 127) + "…",
	} {
		var w tail
		_, _ = w.Write([]byte(text))
		if got := w.lastLine(); got != want {
			t.Errorf("%q: got %q", text, got)
		}
	}
}

func TestFirstLine_is_kept_as_far_as_an_answer_may_go_and_a_byte_more(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all, portions := pieces(t, []string{"a", "bc", "\n", "d\n", " \r"})
		var w firstLine
		for _, p := range portions {
			if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatalf("wrote %d of %d: %v", n, len(p), err)
			}
		}
		want, _, _ := strings.Cut(strings.TrimLeft(all, " \r\n"), "\n")
		if len(want) > maxAnswerLine {
			want = want[:maxAnswerLine+1]
		}
		if got := string(w.line()); got != want {
			t.Fatalf("got %d bytes, want %d", len(got), len(want))
		}
		if cap(w.kept) > 4*maxAnswerLine {
			t.Fatalf("it holds %d bytes", cap(w.kept))
		}
	})
}
