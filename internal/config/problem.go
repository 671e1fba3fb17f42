package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a configuration. Message and Hint repeat
// what is in the file as it is: whoever shows them to a person escapes them.
type Problem struct {
	File    string `json:"file"`             // "" for the built-in defaults
	Line    int    `json:"line,omitempty"`   // from 1; 0 when it is about no line in particular
	Column  int    `json:"column,omitempty"` // from 1, in characters
	Message string `json:"message"`          // what is wrong, without a full stop
	Hint    string `json:"hint,omitempty"`   // what to do about it

	// Denied: it may only be that whoever asks has no permission to look.
	Denied bool `json:"-"`
}

// String is the form for people: file:line: message; hint.
func (p Problem) String() string {
	var b strings.Builder
	if p.File == "" {
		b.WriteString("built-in config")
	} else {
		b.WriteString(p.File)
	}
	if p.Line > 0 {
		fmt.Fprintf(&b, ":%d", p.Line)
	}
	b.WriteString(": " + p.Message)
	if p.Hint != "" {
		b.WriteString("; " + p.Hint)
	}
	return b.String()
}

// Problems is the error of Load and Parse: everything that is wrong, in the
// order of the file.
type Problems struct {
	List    []Problem // at least one, at most MaxProblems
	Omitted int       // how many more there were

	cause error // of a file that could not be read
}

// Error lists every problem, one a line.
func (p *Problems) Error() string {
	lines := make([]string, 0, len(p.List)+1)
	for _, one := range p.List {
		lines = append(lines, one.String())
	}
	if p.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", p.Omitted))
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the operating system's error where the file could not be read,
// so that errors.Is(err, fs.ErrNotExist) works; else nil.
func (p *Problems) Unwrap() error { return p.cause }

func (p *Problems) add(one Problem) {
	if len(p.List) == MaxProblems {
		p.Omitted++
		return
	}
	p.List = append(p.List, one)
}

// sortProblems brings problems into the order of the file; those without a line
// come first.
func sortProblems(list []Problem) {
	slices.SortStableFunc(list, func(a, b Problem) int {
		return cmp.Or(a.Line-b.Line, a.Column-b.Column)
	})
}

// complaint is a Problem before it has a place; nil means that all is well.
type complaint struct {
	what, hint string
	denied     bool // see Problem
	unmade     bool // a folder is not there, and cannot be made
}

// complain formats what is wrong.
func complain(hint, format string, args ...any) *complaint {
	return &complaint{what: fmt.Sprintf(format, args...), hint: hint}
}

// maxShown is how much of a value a message repeats, in bytes.
const maxShown = 80

// shown is a value as a message repeats it: quoted, and cut.
func shown(s string) string {
	if len(s) > maxShown {
		return `"` + strings.ToValidUTF8(s[:maxShown], "") + `"…`
	}
	return `"` + s + `"`
}
