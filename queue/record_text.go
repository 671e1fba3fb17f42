package queue

import (
	"time"
	"unicode/utf16"
	"unicode/utf8"
)

// This file turns untrusted text into text of a record: bounded, valid UTF-8,
// and without characters that a terminal or a careless line splitter obeys.

// plainASCII marks the bytes that stand for themselves in a JSON string.
var plainASCII = func() (t [256]bool) {
	for c := ' '; c < 0x7f; c++ {
		t[c] = c != '"' && c != '\\'
	}
	return t
}()

const hexDigits = "0123456789abcdef"

// appendQuoted appends s as a JSON string. Nearly every string is plain ASCII and
// is copied whole.
func appendQuoted(dst []byte, s string) []byte {
	dst = append(dst, '"')
	i := 0
	for i < len(s) && plainASCII[s[i]] {
		i++
	}
	dst = append(dst, s[:i]...)
	for i < len(s) {
		c := s[i]
		if plainASCII[c] {
			dst = append(dst, c)
			i++
			continue
		}
		if c < utf8.RuneSelf {
			dst = appendEscape(dst, rune(c))
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = appendRune(dst, r)
		i += size
	}
	return append(dst, '"')
}

// appendEscaped appends a valid JSON text with its hidden characters escaped.
// Outside of strings JSON has none of them, so no parsing is needed.
func appendEscaped(dst []byte, doc string) []byte {
	for _, r := range doc {
		if r < 0x7f {
			dst = append(dst, byte(r))
			continue
		}
		dst = appendRune(dst, r)
	}
	return dst
}

func appendRune(dst []byte, r rune) []byte {
	if hidden(r) {
		return appendEscape(dst, r)
	}
	return utf8.AppendRune(dst, r) // a bad byte was decoded as U+FFFD
}

// appendEscape appends the escape of a character, from U+10000 on that of its two
// surrogates (RFC 8259, 7).
func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r > 0xffff {
		high, low := utf16.EncodeRune(r)
		return appendEscape(appendEscape(dst, high), low)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// hidden reports whether r, from U+007F on, is a control or format character. The
// list is fixed here and not taken from the Unicode tables of the day, so that
// the same record is the same bytes in every release.
func hidden(r rune) bool {
	switch {
	case r < 0xa0: // DEL and C1, CSI (U+009B) among them
		return true
	case r < 0x61c:
		return r == 0xad // soft hyphen
	case r < 0x200b:
		return r == 0x61c || r == 0x180e
	case r <= 0x200f, // zero width, directional marks
		r >= 0x2028 && r <= 0x202e,   // line and paragraph separator, embeddings
		r >= 0x2060 && r <= 0x206f,   // joiners, isolates
		r == 0xfeff,                  // byte order mark
		r >= 0xfff9 && r <= 0xfffb,   // interlinear annotation
		r >= 0x1bca0 && r <= 0x1bca3, // shorthand format controls
		r >= 0x1d173 && r <= 0x1d17a, // musical format controls
		r >= 0xe0000 && r <= 0xe007f: // tags: text that no terminal shows
		return true
	}
	return false
}

// keepStart returns the longest beginning of s, whole runes only, whose text has
// at most limit bytes once each bad byte has become U+FFFD (three bytes).
func keepStart(s string, limit int) string {
	if 3*len(s) <= limit || len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	n := 0
	for i := 0; i < len(s); {
		size, width := runeAt(utf8.DecodeRuneInString(s[i:]))
		if n += width; n > limit {
			return s[:i]
		}
		i += size
	}
	return s
}

// keepEnd is keepStart for the end of s.
func keepEnd(s string, limit int) string {
	if 3*len(s) <= limit || len(s) <= limit && utf8.ValidString(s) {
		return s
	}
	n := 0
	for i := len(s); i > 0; {
		size, width := runeAt(utf8.DecodeLastRuneInString(s[:i]))
		if n += width; n > limit {
			return s[i:]
		}
		i -= size
	}
	return s
}

// runeAt returns how many bytes a decoded rune takes in the source and in text.
func runeAt(r rune, size int) (source, text int) {
	if r == utf8.RuneError {
		return size, len("\uFFFD")
	}
	return size, size
}

// timeLayout is the text of every time in a record.
const timeLayout = "2006-01-02T15:04:05.000000Z"

// The years that RFC 3339 can write.
var (
	firstTime = time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC)
	lastTime  = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
)

// appendTime appends t in timeLayout. It is time.AppendFormat by hand, at a third
// of the cost. A time that RFC 3339 cannot write becomes the nearest it can.
func appendTime(dst []byte, t time.Time) []byte {
	t = t.UTC()
	if t.Before(firstTime) {
		t = firstTime
	} else if t.After(lastTime) {
		t = lastTime
	}
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	micro := t.Nanosecond() / 1000
	dst = appendTwo(dst, year/100)
	dst = append(appendTwo(dst, year%100), '-')
	dst = append(appendTwo(dst, int(month)), '-')
	dst = append(appendTwo(dst, day), 'T')
	dst = append(appendTwo(dst, hour), ':')
	dst = append(appendTwo(dst, minute), ':')
	dst = append(appendTwo(dst, second), '.')
	dst = appendTwo(dst, micro/10000)
	dst = appendTwo(dst, micro/100%100)
	return append(appendTwo(dst, micro%100), 'Z')
}

func appendTwo(dst []byte, n int) []byte {
	return append(dst, byte('0'+n/10), byte('0'+n%10))
}
