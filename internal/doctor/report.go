package doctor

import (
	"cmp"
	"fmt"
	"slices"
)

// Severity is how bad a finding is.
type Severity string

// The severities, worst first.
const (
	Wrong Severity = "wrong"
	Smell Severity = "smell"
	Note  Severity = "note"
)

// rank orders severities, worst first.
func (s Severity) rank() int { return slices.Index([]Severity{Wrong, Smell, Note}, s) }

// Finding is one thing that was seen. Texts may quote what came from outside: whoever
// shows them to a person escapes them.
type Finding struct {
	Check    string   `json:"check"`
	Severity Severity `json:"severity"`
	Seen     string   `json:"seen"`
	Where    string   `json:"where,omitempty"` // a path, a setting, or both
	Hint     string   `json:"hint,omitempty"`  // a command or a setting that mends it
}

// Unchecked is a check that could not see what it needs.
type Unchecked struct {
	Check string `json:"check"`
	Why   string `json:"why"`
}

// Report is everything that was found.
type Report struct {
	Mode      Mode        `json:"mode"`
	File      string      `json:"file,omitempty"`   // the store's
	Config    string      `json:"config,omitempty"` // its file; absent: built-in, or none was read
	OK        bool        `json:"ok"`               // nothing is wrong
	Wrong     int         `json:"wrong"`
	Smells    int         `json:"smells"`
	Notes     int         `json:"notes"`
	Findings  []Finding   `json:"findings"` // worst first, then in the order of the checks
	Checked   []string    `json:"checked"`
	Unchecked []Unchecked `json:"not_checked"`
}

// Examine makes every check that applies.
func Examine(f *Facts) Report {
	r := Report{Mode: f.Mode, File: f.File.Path, Config: f.Config.Path,
		Findings: []Finding{}, Checked: []string{}, Unchecked: []Unchecked{}}
	for _, c := range checks {
		s := sheet{check: c.name}
		c.look(f, &s)
		r.Findings = append(r.Findings, s.findings...)
		switch {
		case s.why != "":
			r.Unchecked = append(r.Unchecked, Unchecked{c.name, s.why})
		case !s.idle:
			r.Checked = append(r.Checked, c.name)
		}
	}
	slices.SortStableFunc(r.Findings, func(a, b Finding) int { return cmp.Compare(a.Severity.rank(), b.Severity.rank()) })
	for _, one := range r.Findings {
		switch one.Severity {
		case Wrong:
			r.Wrong++
		case Smell:
			r.Smells++
		case Note:
			r.Notes++
		}
	}
	r.OK = r.Wrong == 0
	return r
}

// sheet is what one check writes down.
type sheet struct {
	check    string
	findings []Finding
	why      string // not checked
	idle     bool   // it does not apply
}

// find adds a finding.
func (s *sheet) find(how Severity, where, hint, format string, args ...any) {
	s.findings = append(s.findings, Finding{s.check, how, fmt.Sprintf(format, args...), where, hint})
}

// skip says why it could not be checked.
func (s *sheet) skip(why string) { s.why = why }

// needless says that the check does not apply.
func (s *sheet) needless() { s.idle = true }
