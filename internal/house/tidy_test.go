package house

import (
	"fmt"
	"strings"
	"testing"
)

// Limits of size. What separates calm code from tiring code is the tail, so the
// tail is cut off: the median is left to taste.
const (
	maxFuncLines = 80
	maxFileLines = 450
)

// check is one rule about Go code.
type check struct {
	name    string
	applies func(source) bool           // which files it looks at
	run     func(pkg []source) []string // findings in the files of one package that apply
	flags   map[string]string           // sources that break the rule, by file name
	passes  map[string]string           // sources that keep it, though they look similar
}

// each makes a check's run of a function that looks at one file at a time.
func each(look func(source) []string) func([]source) []string {
	return func(pkg []source) []string {
		var findings []string
		for _, f := range pkg {
			findings = append(findings, look(f)...)
		}
		return findings
	}
}

func anyFile(source) bool       { return true }
func testFile(s source) bool    { return s.test() }
func shippedFile(s source) bool { return !s.test() }
func writtenFile(s source) bool { return !s.test() && !s.generated() }
func inPackage(dirs ...string) func(source) bool {
	return func(s source) bool {
		for _, d := range dirs {
			if s.dir() == d {
				return true
			}
		}
		return false
	}
}

// apply runs a check over files and returns what it found, and how many files
// it looked at.
func (c check) apply(files []source) (findings []string, looked int) {
	var mine []source
	for _, f := range files {
		if c.applies(f) {
			mine = append(mine, f)
		}
	}
	dirs, packages := byPackage(mine)
	for _, d := range dirs {
		findings = append(findings, c.run(packages[d])...)
	}
	return findings, len(mine)
}

// TestTidy runs every check over the house.
func TestTidy(t *testing.T) {
	files := sources(t)
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			findings, looked := c.apply(files)
			if looked == 0 {
				t.Fatal("found no file to look at")
			}
			for _, f := range findings {
				t.Error(f)
			}
		})
	}
}

// TestTidy_checks_flag runs every check over small sources that break its rule,
// and over some that keep it.
func TestTidy_checks_flag(t *testing.T) {
	for _, c := range checks {
		t.Run(c.name, func(t *testing.T) {
			if len(c.flags) == 0 {
				t.Fatal("the check has no source that it must flag")
			}
			for name, text := range c.flags {
				if findings, looked := c.apply([]source{parse(t, name, text)}); looked == 0 || len(findings) == 0 {
					t.Errorf("not flagged (files looked at: %d):\n%s", looked, text)
				}
			}
			for name, text := range c.passes {
				if findings, _ := c.apply([]source{parse(t, name, text)}); len(findings) > 0 {
					t.Errorf("flagged: %s\n%s", strings.Join(findings, "; "), text)
				}
			}
		})
	}
}

// lines makes n lines of Go between two others, for the checks of size.
func lines(before string, n int, after string) string {
	return before + strings.Repeat("\t_ = 0\n", n) + after
}

func TestTidy_limits_are_exact(t *testing.T) {
	// A function of n statements has n+2 lines, a file of it two more.
	for _, c := range []struct {
		statements int
		flagged    bool
	}{{maxFuncLines - 2, false}, {maxFuncLines - 1, true}} {
		src := parse(t, "queue/a.go", lines("package queue\n\nfunc f() {\n", c.statements, "}\n"))
		if got := len(longFunctions(src)) > 0; got != c.flagged {
			t.Errorf("a function of %d lines: flagged %v, want %v", c.statements+2, got, c.flagged)
		}
	}
	for _, n := range []int{maxFileLines, maxFileLines + 1} {
		src := parse(t, "queue/a.go", "package queue\n"+strings.Repeat("// .\n", n-1))
		if got, want := len(longFiles(src)) > 0, n > maxFileLines; got != want {
			t.Errorf("a file of %d lines: flagged %v, want %v", n, got, want)
		}
	}
	if fmt.Sprint(lines("a", 1, "b")) != "a\t_ = 0\nb" {
		t.Error("lines does not make what the limits are tested with")
	}
}
