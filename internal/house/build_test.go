package house

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Who builds the same source elsewhere gets the same bytes, so that a binary can be
// checked against its source: with the flags of the Makefile no path and no time is in it.
func TestBuild_is_the_same_in_another_folder(t *testing.T) {
	elsewhere := filepath.Join(t.TempDir(), "another", "place")
	if err := os.MkdirAll(elsewhere, 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := exec.Command("git", "-C", "../..", "ls-files", "-z", "--", "*.go", "go.mod", "go.sum", "*.dict", "*.hcl").Output()
	if err != nil {
		t.Skipf("the files of the source are not known: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimSuffix(string(files), "\x00"), "\x00") {
		src, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(elsewhere, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, src, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	sum := func(dir string) string {
		t.Helper()
		out := filepath.Join(t.TempDir(), "breakwater")
		build := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", out, ".")
		build.Dir = dir
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if said, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, said)
		}
		b, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x, %d bytes", sha256.Sum256(b), len(b))
	}
	if here, there := sum("../.."), sum(elsewhere); here != there {
		t.Errorf("built here: %s\nelsewhere:  %s", here, there)
	}
}
