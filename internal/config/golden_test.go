package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the .problems files anew")

// TestProblems compares what Parse says about each testdata/*.hcl with the
// .problems file beside it; an empty one stands for a file without problems.
func TestProblems(t *testing.T) {
	files, err := filepath.Glob("testdata/*.hcl")
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	t.Setenv("RUNTIME_DIRECTORY", "")
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".hcl"), func(t *testing.T) {
			src, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := problemsOf(t, filepath.Base(file), src)
			golden := strings.TrimSuffix(file, ".hcl") + ".problems"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if strings.Contains(got, "verysecret") {
				t.Error("a problem repeats a secret")
			}
		})
	}
}

// problemsOf is the text of all problems, a line each, or nothing.
func problemsOf(t *testing.T, name string, src []byte) string {
	t.Helper()
	_, err := Parse(name, src, "/srv/breakwater")
	if err == nil {
		return ""
	}
	var problems *Problems
	if !errors.As(err, &problems) {
		t.Fatalf("Parse returns a %T, not a *Problems", err)
	}
	for _, p := range problems.List {
		if p.File != name || p.Message == "" {
			t.Errorf("incomplete problem %+v", p)
		}
	}
	var text strings.Builder
	for _, r := range err.Error() + "\n" {
		if r != '\n' && unprintable(r) { // so that the golden file can be read
			quoted := strconv.QuoteRuneToASCII(r)
			text.WriteString(quoted[1 : len(quoted)-1])
			continue
		}
		text.WriteRune(r)
	}
	return text.String()
}
