package queue

import (
	"strings"
	"time"
)

// MaxYear is the last year that not_before may name. Later ones are a sender's
// "never", for which there is no place in a queue, and would not fit the 64-bit
// nanoseconds that times are stored in, which end in April 2262.
const MaxYear = 2261

const notTimestamp = "is not an RFC 3339 date and time"

// parseTimestamp reads an RFC 3339 date-time by its grammar. time.Parse is not
// used because it takes less (no lower-case t and z, no leap second) and more (a
// comma before the fraction, offsets of 24 hours and above). A time before
// 1970 means at once, like every time in the past, and comes back as 1970.
// Digits finer than a nanosecond are dropped. The reason is empty when s is good.
func parseTimestamp(s string) (t time.Time, reason string) {
	const shape = "0000-00-00T00:00:00"
	if len(s) <= len(shape) || !hasShape(s[:len(shape)], shape) {
		return time.Time{}, notTimestamp
	}
	nanos, rest, ok := cutFraction(s[len(shape):])
	if !ok {
		return time.Time{}, notTimestamp
	}
	offset, ok := parseOffset(rest)
	if !ok {
		return time.Time{}, notTimestamp
	}
	month, day := number(s[5:7]), number(s[8:10])
	hour, minute, second := number(s[11:13]), number(s[14:16]), number(s[17:19])
	if month < 1 || month > 12 || hour > 23 || minute > 59 || second > 60 {
		return time.Time{}, notTimestamp
	}
	// time.Date carries 30 February over into March: the day then differs.
	t = time.Date(number(s[:4]), time.Month(month), day, hour, minute, min(second, 59), nanos, time.UTC)
	if t.Day() != day {
		return time.Time{}, notTimestamp
	}
	t = t.Add(-offset)
	if second == 60 {
		// A leap second is only ever the last one of a UTC month (RFC 3339, 5.7). Clocks
		// here have none; the instant after it is the first that is not before it.
		if t.Hour() != 23 || t.Minute() != 59 || t.AddDate(0, 0, 1).Day() != 1 {
			return time.Time{}, notTimestamp
		}
		t = t.Truncate(time.Second).Add(time.Second)
	}
	if t.Year() > MaxYear {
		return time.Time{}, "is later than the year 2261"
	}
	if epoch := time.Unix(0, 0).UTC(); t.Before(epoch) {
		t = epoch
	}
	return t, ""
}

// hasShape compares s with a shape of the same length, in which 0 stands for
// any digit, T for either case of it, and the rest for itself.
func hasShape(s, shape string) bool {
	for i := range len(shape) {
		switch {
		case shape[i] == '0':
			if s[i] < '0' || s[i] > '9' {
				return false
			}
		case s[i] != shape[i] && !(shape[i] == 'T' && s[i] == 't'):
			return false
		}
	}
	return true
}

// cutFraction reads ".5" and its like from the front of s, in nanoseconds.
func cutFraction(s string) (nanos int, rest string, ok bool) {
	if !strings.HasPrefix(s, ".") {
		return 0, s, true
	}
	digits, rest := cutDigits(s[1:])
	if digits == "" {
		return 0, s, false
	}
	for i := range 9 {
		nanos *= 10
		if i < len(digits) {
			nanos += int(digits[i] - '0')
		}
	}
	return nanos, rest, true
}

// parseOffset reads Z or the distance from UTC, which must be all of s.
func parseOffset(s string) (offset time.Duration, ok bool) {
	if s == "Z" || s == "z" {
		return 0, true
	}
	const shape = "00:00"
	if len(s) != 1+len(shape) || s[0] != '+' && s[0] != '-' || !hasShape(s[1:], shape) {
		return 0, false
	}
	hours, minutes := number(s[1:3]), number(s[4:6])
	if hours > 23 || minutes > 59 {
		return 0, false
	}
	offset = time.Duration(hours)*time.Hour + time.Duration(minutes)*time.Minute
	if s[0] == '-' {
		offset = -offset
	}
	return offset, true
}

// number returns what a few digits, already checked, are worth.
func number(digits string) (n int) {
	for i := range len(digits) {
		n = n*10 + int(digits[i]-'0')
	}
	return n
}
