package config

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// value is how a setting is read from the file and given back. Complaints are
// predicates: the key's name is put in front of them.
type value interface {
	read(lit literal) *complaint
	// plain is the value in the file's own unit: int64, string, bool or []string.
	plain() any
}

// whole is a whole number with bounds, whatever field is behind it.
type whole struct {
	unit   string // "milliseconds", "bytes", or "" for a plain count
	lo, hi int64  // in that unit, both allowed
	none   bool   // 0 is allowed as well and means no limit
	get    func() int64
	set    func(int64)
}

// count is a number without a unit.
func count[T ~int | ~int64](dst *T, lo, hi int64) whole {
	return whole{lo: lo, hi: hi,
		get: func() int64 { return int64(*dst) },
		set: func(n int64) { *dst = T(n) },
	}
}

// size is a number of bytes.
func size(dst *int64, lo, hi int64) whole {
	w := count(dst, lo, hi)
	w.unit = "bytes"
	return w
}

// duration is a time in whole units. The bounds are durations too; hi keeps the
// product far from overflow.
func duration(dst *time.Duration, unit, lo, hi time.Duration) whole {
	names := map[time.Duration]string{time.Millisecond: "milliseconds", time.Second: "seconds", time.Hour: "hours"}
	return whole{unit: names[unit], lo: int64(lo / unit), hi: int64(hi / unit),
		get: func() int64 { return int64(*dst / unit) },
		set: func(n int64) { *dst = time.Duration(n) * unit },
	}
}

// orNone lets 0 stand for "no limit".
func orNone(w whole) whole {
	w.none = true
	return w
}

func (w whole) plain() any { return w.get() }

// read takes plain digits and nothing else. HCL itself would take "4", 4.0 and
// 4e0 for 4, and 010 for ten where people who write it mean eight.
func (w whole) read(lit literal) *complaint {
	if lit.kind != kindNumber {
		return complain(w.suggest(lit), "must be %s, is %s", w.describe(), describe(lit))
	}
	digits := strings.TrimPrefix(lit.text, "-")
	if strings.Trim(digits, "0123456789") != "" {
		return complain("write the number out in digits, without fraction or exponent", "must be %s, is %s", w.describe(), cut(lit.text))
	}
	if len(digits) > 1 && digits[0] == '0' {
		return complain("leave the leading zeros out", "must be %s, is %s", w.describe(), cut(lit.text))
	}
	n, err := strconv.ParseInt(lit.text, 10, 64)
	if err != nil || (n < w.lo || n > w.hi) && !(w.none && n == 0) {
		return complain("", "must be %s, is %s", w.bounds(), cut(lit.text))
	}
	w.set(n)
	return nil
}

func (w whole) describe() string {
	if w.unit == "" {
		return "a whole number"
	}
	return "a whole number of " + w.unit
}

func (w whole) bounds() string {
	s := fmt.Sprintf("between %d and %d", w.lo, w.hi)
	if w.unit != "" {
		s += " " + w.unit
	}
	if w.none {
		s += ", or 0 for no limit"
	}
	return s
}

// suggest reads what was probably meant: "4", "30s" or "256KiB" have one
// meaning each, and the hint says how to write it.
func (w whole) suggest(lit literal) string {
	if lit.kind == kindNull {
		return "leave the key out for its default"
	}
	if lit.kind != kindString {
		return ""
	}
	if n, err := strconv.ParseUint(lit.text, 10, 63); err == nil {
		return fmt.Sprintf("write %d, without quotes", n)
	}
	units := map[string]time.Duration{"milliseconds": time.Millisecond, "seconds": time.Second, "hours": time.Hour}
	if unit, ok := units[w.unit]; ok {
		if d, err := time.ParseDuration(lit.text); err == nil && d > 0 && d%unit == 0 {
			return fmt.Sprintf("write %d, the unit is in the key's name", d/unit)
		}
	}
	if n, ok := sizeOf(lit.text); ok && w.unit == "bytes" {
		return fmt.Sprintf("write %d, the unit is in the key's name", n)
	}
	return "write digits, without quotes and unit"
}

// sizeOf reads "64MiB" or "10 GB". Only a hint hangs on it.
func sizeOf(s string) (int64, bool) {
	sizes := []struct {
		suffix string
		bytes  int64
	}{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"KB", 1e3}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12},
	}
	for _, one := range sizes {
		digits, ok := strings.CutSuffix(s, one.suffix)
		if !ok {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(digits), 10, 20)
		return int64(n) * one.bytes, err == nil
	}
	return 0, false
}

// truth is true or false.
type truth struct{ dst *bool }

func (f truth) plain() any { return *f.dst }

func (f truth) read(lit literal) *complaint {
	if lit.kind != kindBool {
		return complain("write it without quotes", "must be true or false, is %s", describe(lit))
	}
	*f.dst = lit.text == "true"
	return nil
}

// choice is one of a few words, in lower case as they are written here.
type choice struct {
	dst   *string
	words []string
}

func (c choice) plain() any { return *c.dst }

func (c choice) read(lit literal) *complaint {
	must := `"` + strings.Join(c.words, `", "`) + `"`
	if lit.kind != kindString {
		return complain(hintQuotes(lit), "must be one of %s, is %s", must, describe(lit))
	}
	if !slices.Contains(c.words, lit.text) {
		return complain(didYouMean(lit.text, c.words), "must be one of %s, is %s", must, shown(lit.text))
	}
	*c.dst = lit.text
	return nil
}

// text is a string with a rule of its own.
type text struct {
	dst   *string
	check func(string) *complaint
}

func (t text) plain() any { return *t.dst }

func (t text) read(lit literal) *complaint {
	if lit.kind != kindString {
		return complain(hintQuotes(lit), "must be a text, is %s", describe(lit))
	}
	if wrong := checkControl(lit.text); wrong != nil {
		return wrong
	}
	if wrong := t.check(lit.text); wrong != nil {
		return wrong
	}
	*t.dst = lit.text
	return nil
}

// path is a file's or folder's path; a relative one counts from base.
type path struct {
	dst      *string
	base     string
	optional bool     // "" is a value of its own: none
	words    []string // values that are no paths, like "stdout"
}

func (p path) plain() any { return *p.dst }

func (p path) read(lit literal) *complaint {
	if lit.kind != kindString {
		return complain(hintQuotes(lit), "must be a path, is %s", describe(lit))
	}
	if p.optional && lit.text == "" || slices.Contains(p.words, lit.text) {
		*p.dst = lit.text
		return nil
	}
	if wrong := checkPath(lit.text); wrong != nil {
		return wrong
	}
	*p.dst = resolve(p.base, lit.text)
	return nil
}

// secretPath is the path of a file that holds an Authorization header's value. The
// value itself in its place would be shown as a path wherever the configuration is.
type secretPath struct{ path }

func (p secretPath) read(lit literal) *complaint {
	scheme, _, spaced := strings.Cut(strings.ToLower(lit.text), " ")
	if lit.kind == kindString && spaced && (scheme == "bearer" || scheme == "basic") {
		return complain("write the value into a file that only its owner can read", "must be the path of a file, not the value itself")
	}
	return p.path.read(lit)
}

// mode is the permissions of a socket in octal, quoted: an unquoted 0660 would
// be the decimal number 660.
type mode struct{ dst *os.FileMode }

// plain has the leading zero, by which people know that it is octal.
func (m mode) plain() any { return fmt.Sprintf("%04o", m.dst.Perm()) }

// read refuses what would be no access control: a socket open to everyone, or
// closed to the daemon's own command line. Execute bits mean nothing on a socket
// and set-id bits less, so they are taken for a slip.
func (m mode) read(lit literal) *complaint {
	if lit.kind != kindString {
		return complain(`write it like "0660"`, "must be an octal mode in quotes, is %s", describe(lit))
	}
	n, err := strconv.ParseUint(lit.text, 8, 12)
	if err != nil || len(lit.text) < 3 || len(lit.text) > 4 {
		return complain(`write it like "0660"`, "must be three or four octal digits, is %s", shown(lit.text))
	}
	switch {
	case n&0o007 != 0:
		return complain(`use "0660" and put the clients into the socket's group`, "must not open the socket to everyone, is %s", shown(lit.text))
	case n&^0o660 != 0:
		return complain(`use "0660" or "0600"`, "must hold only read and write permissions, is %s", shown(lit.text))
	case n&0o600 != 0o600:
		return complain(`use "0660" or "0600"`, "must let the owner read and write, is %s", shown(lit.text))
	}
	*m.dst = os.FileMode(n)
	return nil
}

// list is a list of strings.
type list struct {
	dst             *[]string
	atLeast, atMost int
	check           func(position int, item string) *complaint
}

// plain is never nil, so that an empty list is [] in every form.
func (l list) plain() any { return append([]string{}, *l.dst...) }

func (l list) read(lit literal) *complaint {
	if lit.kind != kindList {
		return complain(`write it like ["a", "b"]`, "must be a list of texts, is %s", describe(lit))
	}
	if n := len(lit.items); n < l.atLeast || n > l.atMost {
		return complain("", "must have between %d and %d items, has %d", l.atLeast, l.atMost, n)
	}
	var items []string
	for i, item := range lit.items {
		if item.kind != kindString {
			return complain(hintQuotes(item), "must be a list of texts, item %d is %s", i+1, describe(item))
		}
		if wrong := l.check(i, item.text); wrong != nil {
			return wrong
		}
		items = append(items, item.text)
	}
	*l.dst = items
	return nil
}

// describe repeats a value that has the wrong type.
func describe(lit literal) string {
	switch lit.kind {
	case kindString:
		return "the text " + shown(lit.text)
	case kindNumber:
		return "the number " + cut(lit.text)
	case kindBool, kindNull:
		return lit.text
	}
	return string(lit.kind)
}

// hintQuotes is for a text that was written as something else.
func hintQuotes(lit literal) string {
	switch lit.kind {
	case kindNull:
		return "leave the key out for its default"
	case kindNumber, kindBool:
		return "a text has quotes"
	}
	return ""
}

// cut keeps a number that goes on for pages out of a message. Its text is ASCII,
// or of no use anyway: printable mends what is cut in two.
func cut(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "…"
	}
	return s
}
