package queue

import (
	"time"
	"unicode/utf8"
)

// AppendText appends s as a JSON string, spelled as records of the trail spell it:
// valid UTF-8 whatever s holds (each bad byte becomes U+FFFD), and nothing in it that
// a terminal or a line splitter would obey. It is for every line of ours that carries
// untrusted text, so that a key looks the same wherever a person meets it.
func AppendText(dst []byte, s string) []byte { return appendQuoted(dst, s) }

// Quote returns untrusted text between quotation marks, for an error that repeats it: no
// more than its first limit bytes, whole characters, and an ellipsis if there was more.
// Nothing in it is escaped: that is for whoever encodes the error ([AppendText],
// encoding/json) or shows it to a person. Escaped here, it would be escaped twice.
func Quote(s string, limit int) string {
	if len(s) <= limit {
		return `"` + s + `"`
	}
	cut := limit
	for cut > limit-utf8.UTFMax && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return `"` + s[:cut] + `"...`
}

// AppendTime appends t as records of the trail spell it: RFC 3339 in UTC, with six
// digits of a second, without quotes.
func AppendTime(dst []byte, t time.Time) []byte { return appendTime(dst, t) }

// ParseTime reads an RFC 3339 date and time by the rules of not_before: a time in
// the distant past is 1970, a year after MaxYear is refused.
func ParseTime(s string) (t time.Time, ok bool) {
	t, reason := parseTimestamp(s)
	return t, reason == ""
}
