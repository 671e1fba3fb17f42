package config

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// FuzzParse: whatever the bytes, Parse ends, and gives either a Config that
// prints and reads back as itself or problems that are fit for a terminal.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/*.hcl")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("%d seeds, %v", len(seeds), err)
	}
	for _, seed := range append(seeds, reference) {
		src, err := os.ReadFile(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(src)
	}
	f.Add([]byte("\xef\xbb\xbflog {\r\n}\r\n"))
	f.Add([]byte(`data_dir = "\u0000\U0001f600$${%%{\\\""`))
	f.Fuzz(func(t *testing.T, src []byte) {
		c, err := Parse("config.hcl", src, "/srv")
		if err != nil {
			checkProblems(t, err)
			if !c.Equal(Config{}) {
				t.Error("a Config comes with problems")
			}
			return
		}
		for _, h := range c.Handlers {
			if masked(h.URL) != h.URL {
				return // what is masked reads back as something else
			}
		}
		again, err := Parse("config.hcl", c.HCL(), "/elsewhere")
		if err != nil || !again.Equal(c) {
			t.Errorf("%v: prints as\n%s\nreads back as\n%s", err, c.HCL(), again.HCL())
		}
	})
}

func checkProblems(t *testing.T, err error) {
	t.Helper()
	var problems *Problems
	if !errors.As(err, &problems) || len(problems.List) == 0 || len(problems.List) > MaxProblems {
		t.Fatalf("%T: %v", err, err)
	}
	for _, p := range problems.List {
		if p.Line < 0 || p.Message == "" {
			t.Errorf("incomplete problem %+v", p)
		}
	}
}
