package house

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// rule is something that no text file of the repository may say. Patterns and
// samples are written in pieces ("a"+"b"), so that this file keeps them too.
type rule struct {
	name   string
	stems  []string // in lower case; a line without any of them is not looked at further
	bad    *regexp.Regexp
	flags  []string // lines that break it
	passes []string // lines that do not, though they look similar
}

var rules = []rule{
	{
		name:  "no path of one machine",
		stems: []string{"/wor" + "k", "/roo" + "t", "/hom" + "e/", "/user" + "s/"},
		bad:   regexp.MustCompile(`(?:^|[^\w./$}~-])/(?:wor` + `k|roo` + `t|hom` + `e/\w+|User` + `s/\w+)(?:/|\b)`),
		flags: []string{
			"cd /wor" + "k/main", `dir := "/roo` + `t/x"`, "see (/hom" + "e/alice/x)", "/wor" + "k",
		},
		passes: []string{"/v1/wor" + "k", "$HOME/wor" + "k", "./wor" + "k/x", "/workers", "/rooted", "ProtectHome=yes", "https://x.example/roo" + "t"},
	},
	{
		name:   "nothing left to do",
		stems:  []string{"to" + "do", "fix" + "me", "x" + "xx"},
		bad:    regexp.MustCompile(`\b(?:TO` + `DO|FIX` + `ME)\b|\bX` + `XX[:(]`),
		flags:  []string{"// TO" + "DO: later", "# FIX" + "ME", "// X" + "XX(me): odd"},
		passes: []string{`"currency":"X` + `XX"`, "mktemp /tmp/x.XXX" + "XXX", "todo"},
	},
	{
		name: "the project speaks of itself, not of the place where it was written",
		stems: []string{
			"agen" + "t", "cla" + "ude", "anth" + "ropic", "open" + "ai", "chat" + "gpt", "language mo" + "del", " sess" + "ion",
			".gol" + "ang", ".np" + "mjs", ".deb" + "ian", "mission.m" + "d", "contract.m" + "d", "faults.m" + "d", "reliability.m" + "d", "seed.t" + "xt",
		},
		bad: regexp.MustCompile(`(?i)\b(?:` + strings.Join([]string{
			"sub" + "-?agents?", "(?:ai|coding) a" + "gents?", "cla" + "ude", "anth" + "ropic", "open" + "ai", "chat" + "gpt", "language mo" + "dels?",
			"(?:this|earlier|previous|next) sess" + "ion", "proxy\\.gol" + "ang", "sum\\.gol" + "ang", "registry\\.np" + "mjs", "deb\\.deb" + "ian",
			"(?:mission|contract|faults|reliability)\\.m" + "d", "seed\\.t" + "xt",
		}, "|") + `)\b`),
		flags: []string{
			"a sub" + "agent wrote this", "Cla" + "ude", "GOPROXY=https://proxy.gol" + "ang.org", "see contract.m" + "d", "in this sess" + "ion",
		},
		passes: []string{"User-Agent: breakwater", "the contract of a store", "a session key", "CONTRIBUTING.md"},
	},
	{
		name:   "no conflict left in",
		stems:  []string{strings.Repeat("<", 7), strings.Repeat("=", 7), strings.Repeat(">", 7)},
		bad:    regexp.MustCompile(`^(?:<{7} |={7}$|>{7} )`),
		flags:  []string{strings.Repeat("<", 7) + " main", strings.Repeat("=", 7), strings.Repeat(">", 7) + " x"},
		passes: []string{strings.Repeat("=", 8), "a " + strings.Repeat("=", 7)},
	},
}

// find returns the numbers of the lines that break the rule.
func (r rule) find(body []byte) (numbers []int) {
	if !r.near(bytes.ToLower(body)) {
		return nil
	}
	for i, line := range bytes.Split(body, []byte("\n")) {
		if r.near(bytes.ToLower(line)) && r.bad.Match(line) {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// near reports whether a text has a stem of the rule: what the pattern alone would take
// minutes for under the race detector.
func (r rule) near(lower []byte) bool {
	return slices.ContainsFunc(r.stems, func(stem string) bool { return bytes.Contains(lower, []byte(stem)) })
}

// texts returns every file of the repository that is text: no NUL byte in its
// first 8,000, which is also how git tells.
func texts(t testing.TB) map[string][]byte {
	t.Helper()
	top := root(t)
	found := map[string][]byte{}
	walk(t, func(name string) {
		body, err := os.ReadFile(filepath.Join(top, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(body[:min(len(body), 8000)], []byte{0}) {
			found[name] = body
		}
	})
	if len(found) == 0 {
		t.Fatal("found no text file")
	}
	return found
}

func TestText(t *testing.T) {
	all := texts(t)
	for _, want := range []string{"go.mod", "internal/house/text_test.go"} {
		if _, ok := all[want]; !ok {
			t.Errorf("%s was not looked at", want)
		}
	}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for name, body := range all {
				for _, n := range r.find(body) {
					t.Errorf("%s:%d: %s", name, n, r.name)
				}
			}
		})
	}
}

func TestText_rules_flag(t *testing.T) {
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			if len(r.flags) == 0 {
				t.Fatal("the rule has no line that it must flag")
			}
			for _, line := range r.flags {
				if got := r.find([]byte("fine\n" + line + "\n")); !slices.Equal(got, []int{2}) {
					t.Errorf("%q: lines %v flagged, want [2]", line, got)
				}
			}
			for _, line := range r.passes {
				if got := r.find([]byte(line)); got != nil {
					t.Errorf("%q is flagged", line)
				}
			}
		})
	}
}

// link matches the target of a Markdown link or image.
var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

// deadLinks returns the relative links of a document that lead to no file.
func deadLinks(name string, body []byte, exists func(string) bool) (dead []string) {
	for _, m := range link.FindAllSubmatch(body, -1) {
		target, _, _ := strings.Cut(string(m[1]), "#")
		if target == "" || strings.Contains(target, ":") {
			continue // within the page, or to another host
		}
		if !exists(path.Join(path.Dir(name), target)) {
			dead = append(dead, fmt.Sprintf("%s: the link to %s leads nowhere", name, target))
		}
	}
	return dead
}

// TestDocs_links fails when a document sends its reader to a file that is not there.
func TestDocs_links(t *testing.T) {
	top, pages := root(t), 0
	exists := func(name string) bool {
		_, err := os.Stat(filepath.Join(top, filepath.FromSlash(name)))
		return err == nil
	}
	for name, body := range texts(t) {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		pages++
		for _, finding := range deadLinks(name, body, exists) {
			t.Error(finding)
		}
	}
	if pages == 0 {
		t.Fatal("found no document")
	}
}

// decision matches the file of a decision.
var decision = regexp.MustCompile(`^docs/adr/(\d{4})-[a-z0-9-]+\.md$`)

// misnumbered returns what is wrong with the numbers of decisions: each has one of its
// own, in its name and in its title, and none is left out.
func misnumbered(pages map[string][]byte) (wrong []string, decisions int) {
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(pages)) {
		m := decision.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		decisions++
		if first, twice := owner[m[1]]; twice {
			wrong = append(wrong, fmt.Sprintf("%s has the number of %s", name, first))
			continue
		}
		owner[m[1]] = name
		if !bytes.HasPrefix(pages[name], []byte("# "+m[1]+". ")) {
			wrong = append(wrong, fmt.Sprintf("%s: its title has another number", name))
		}
		if n := fmt.Sprintf("%04d", len(owner)); m[1] != n {
			wrong = append(wrong, fmt.Sprintf("%s: number %s is expected here", name, n))
		}
	}
	return wrong, decisions
}

func TestDocs_decisions(t *testing.T) {
	wrong, decisions := misnumbered(texts(t))
	for _, w := range wrong {
		t.Error(w)
	}
	if decisions == 0 {
		t.Fatal("found no decision")
	}
}

func TestDocs_decisions_flag(t *testing.T) {
	wrong, decisions := misnumbered(map[string][]byte{
		"docs/adr/0001-a.md": []byte("# 0001. A\n"), "docs/adr/0001-b.md": []byte("# 0001. B\n"),
		"docs/adr/0002-c.md": []byte("# 0003. C\n"), "docs/adr/0004-d.md": []byte("# 0004. D\n"),
		"docs/adr/template.md": []byte("# NNNN. A decision\n"),
	})
	if decisions != 4 || len(wrong) != 3 {
		t.Errorf("%d decisions, wrong: %q; want 4, all but the first wrong", decisions, wrong)
	}
}

func TestDocs_links_flag(t *testing.T) {
	body := []byte("[a](adr/0001.md) [b](../README.md#install) [c](https://x.example/y) [d](#here) [e](gone.md)")
	var asked []string
	dead := deadLinks("docs/index.md", body, func(name string) bool {
		asked = append(asked, name)
		return name != "docs/gone.md"
	})
	if want := []string{"docs/adr/0001.md", "README.md", "docs/gone.md"}; !slices.Equal(asked, want) {
		t.Errorf("looked for %v, want %v", asked, want)
	}
	if len(dead) != 1 || !strings.Contains(dead[0], "gone.md") {
		t.Errorf("dead links: %v, want the one to gone.md", dead)
	}
}
