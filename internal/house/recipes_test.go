package house

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What README.md and docs/operating.md tell people to type is typed here. A block
//
//	```sh
//
// is run by sh, all blocks of a page one after the other in one shell and one folder,
// with a freshly built breakwater in PATH. A block
//
//	```output
//
// right after it is what it prints; "…" stands for whatever differs from run to run.
// A block "sh norun", for what needs root or builds this very tree, has its reason
// in a comment above it: <!-- norun: why -->.

// block is one fenced block of a page.
type block struct {
	line   int    // of its text, from 1
	kind   string // the info string: "sh", "sh norun", "output"
	text   string
	above  string // the line above the fence
	output *block // what it prints, if the page says
}

const (
	// maxNoRun bounds the blocks of a page that nobody checks.
	maxNoRun = 8
	// recipeTime bounds all blocks of one page.
	recipeTime = 2 * time.Minute
)

// blocksOf finds the fenced blocks of a page. An output block belongs to the sh block
// before it.
func blocksOf(page string) (blocks []*block) {
	var open *block
	var before string
	for i, line := range strings.Split(page, "\n") {
		fence := strings.HasPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &block{line: i + 2, kind: strings.TrimSpace(line[3:]), above: before}
		case fence:
			if n := len(blocks); open.kind == "output" && n > 0 && blocks[n-1].kind == "sh" {
				blocks[n-1].output = open
			}
			blocks, open = append(blocks, open), nil
		case open != nil:
			open.text += line + "\n"
		}
		if open == nil && strings.TrimSpace(line) != "" {
			before = line
		}
	}
	return blocks
}

// wrongBlocks lists what is wrong with a page's blocks before they are run.
func wrongBlocks(blocks []*block) (wrong []string) {
	norun := 0
	for i, b := range blocks {
		switch {
		case b.kind == "output" && (i == 0 || blocks[i-1].output != b):
			wrong = append(wrong, fmt.Sprintf("line %d: an output of nothing that is run", b.line))
		case b.kind == "sh norun":
			norun++
			if !regexp.MustCompile(`^<!-- norun: \S.* -->$`).MatchString(b.above) {
				wrong = append(wrong, fmt.Sprintf("line %d: no reason above a block that is not run", b.line))
			}
		case strings.HasPrefix(b.kind, "sh ") || b.kind == "bash" || b.kind == "shell" || b.kind == "console":
			wrong = append(wrong, fmt.Sprintf("line %d: a block %q is not run: call it sh", b.line, b.kind))
		}
	}
	if norun > maxNoRun {
		wrong = append(wrong, fmt.Sprintf("%d blocks are not run, more than %d", norun, maxNoRun))
	}
	return wrong
}

// marker ends a block's output, with its number and exit status.
const marker = "@@@ block"

// recipe is the script of a page.
func recipe(blocks []*block) string {
	var b strings.Builder
	for i, one := range blocks {
		if one.kind == "sh" {
			fmt.Fprintf(&b, "%sprintf '%s %d %%d\\n' $?\n", one.text, marker, i)
		}
	}
	return b.String()
}

// printed splits what a script printed by block.
func printed(out string) (texts map[int]string, statuses map[int]int) {
	texts, statuses = map[int]string{}, map[int]int{}
	for _, m := range regexp.MustCompile(`(?s)(.*?)`+marker+` (\d+) (\d+)\n`).FindAllStringSubmatch(out, -1) {
		i, _ := strconv.Atoi(m[2])
		texts[i] = m[1]
		statuses[i], _ = strconv.Atoi(m[3])
	}
	return texts, statuses
}

// same reports whether a block printed what the page says. How many blanks stand
// between words does not count: columns are as wide as what differs from run to run.
func same(got, want string) bool {
	blanks := regexp.MustCompile(` +`)
	tidy := func(s string) string { return blanks.ReplaceAllString(strings.TrimRight(s, "\n"), " ") }
	pattern := strings.ReplaceAll(regexp.QuoteMeta(tidy(want)), "…", `[^\n]*`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(tidy(got))
}

// runRecipe runs a page's blocks and returns what they printed. Whatever they left in
// the background is killed.
func runRecipe(t *testing.T, blocks []*block) string {
	t.Helper()
	s := newSite(t, "")
	if err := os.Remove(s.path("config.hcl")); err != nil {
		t.Fatal(err)
	}
	out, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("sh", "-u", "-c", recipe(blocks))
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, out, out
	cmd.Env = []string{"PATH=" + filepath.Dir(s.binary) + ":" + os.Getenv("PATH"), "HOME=" + s.dir, "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	group := -cmd.Process.Pid
	late := time.AfterFunc(recipeTime, func() { _ = syscall.Kill(group, syscall.SIGKILL) }) // what was printed says where it hung
	_ = cmd.Wait()                                                                          // each block's own status counts
	late.Stop()
	_ = syscall.Kill(group, syscall.SIGKILL) // most have ended
	text, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRecipes(t *testing.T) {
	for page, least := range map[string]int{"README.md": 6, "docs/operating.md": 10} {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root(t), page))
			if err != nil {
				t.Fatal(err)
			}
			blocks, run := blocksOf(string(text)), 0
			for _, finding := range wrongBlocks(blocks) {
				t.Errorf("%s: %s", page, finding)
			}
			for _, program := range []string{"nc", "curl"} {
				if _, err := exec.LookPath(program); err != nil && bytes.Contains(text, []byte(program+" -")) {
					t.Skipf("there is no %s, which this page uses", program)
				}
			}
			out := runRecipe(t, blocks)
			texts, statuses := printed(out)
			for i, b := range blocks {
				if b.kind != "sh" {
					continue
				}
				run++
				status, ended := statuses[i]
				switch {
				case !ended:
					t.Fatalf("%s:%d: it did not end:\n%s\nall output:\n%s", page, b.line, b.text, out)
				case status != 0:
					t.Errorf("%s:%d: status %d:\n%s\nprinted:\n%s", page, b.line, status, b.text, texts[i])
				case b.output != nil && !same(texts[i], b.output.text):
					t.Errorf("%s:%d: it printed\n%s\nthe page says\n%s", page, b.output.line, texts[i], b.output.text)
				}
			}
			if run < least {
				t.Errorf("%s: only %d blocks were run", page, run)
			}
		})
	}
}

func TestRecipes_flag(t *testing.T) {
	page := "```output\nx\n```\n```sh\necho a b\necho c\n```\n```output\na …\nc\n```\ntext\n```sh norun\nreboot\n```\n" +
		"<!-- norun: it needs root -->\n```sh norun\nreboot\n```\n```bash\ntrue\n```\n```sh\nfalse\n```\n"
	blocks := blocksOf(page)
	wrong := strings.Join(wrongBlocks(blocks), "; ")
	for _, want := range []string{"line 2: an output of nothing", "line 14: no reason", `line 21: a block "bash"`} {
		if !strings.Contains(wrong, want) {
			t.Errorf("not flagged: %s (%s)", want, wrong)
		}
	}
	if n := strings.Count(wrong, "line"); n != 3 {
		t.Errorf("%d findings, want 3: %s", n, wrong)
	}
	texts, statuses := printed(runRecipe(t, blocks))
	if texts[1] != "a b\nc\n" || statuses[1] != 0 || statuses[6] != 1 || len(statuses) != 2 {
		t.Errorf("printed %v, statuses %v", texts, statuses)
	}
	if !same(texts[1], blocks[1].output.text) || same("a b\nd\n", blocks[1].output.text) || same("a b\nc\nd\n", blocks[1].output.text) {
		t.Error("same takes what differs, or not what is the same")
	}
}
