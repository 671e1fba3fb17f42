package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

const reference = "../../config.hcl"

func TestReference(t *testing.T) {
	t.Run("the reference file is the default", func(t *testing.T) {
		t.Setenv("RUNTIME_DIRECTORY", "")
		got, err := Load(reference)
		if err != nil {
			t.Fatal(err)
		}
		root, err := filepath.Abs("../..")
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(root)
		if want := Default(); !got.Equal(want) {
			t.Errorf("config.hcl gives\n%s\nthe default is\n%s", got.HCL(), want.HCL())
		}
	})

	t.Run("the reference file explains every key", func(t *testing.T) {
		text, err := os.ReadFile(reference)
		if err != nil {
			t.Fatal(err)
		}
		keys := 0
		for _, s := range (&reader{}).allSections() {
			for _, one := range s.settings {
				keys++
				if !regexp.MustCompile(`(?m)^\s*(# *)?` + one.name + `\s+= `).Match(text) {
					t.Errorf("config.hcl does not show %s", s.id(one.name))
				}
			}
		}
		if keys < 50 {
			t.Errorf("only %d keys were looked for", keys)
		}
	})
}
