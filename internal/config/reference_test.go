package config

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

const reference = "../../config.hcl"

func TestReference(t *testing.T) {
	t.Setenv("RUNTIME_DIRECTORY", "")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(reference)
	if err != nil {
		t.Fatal(err)
	}

	t.Run("every key is at its default", func(t *testing.T) {
		got, err := Load(reference)
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(root)
		if want := Default(); !got.Equal(want) {
			t.Errorf("config.hcl gives\n%s\nthe default is\n%s", got.HCL(), want.HCL())
		}
		if warnings := got.Warnings(); len(warnings) > 0 {
			t.Errorf("the default has the warnings %v", warnings)
		}
	})

	// A key whose default depends on another one stands in a comment; a newcomer
	// takes the # away, and the line has to work.
	uncommented := regexp.MustCompile(`(?m)^( *)# ?( *\w+ += |handler "|\}$)`).ReplaceAll(text, []byte("$1$2"))
	full, err := Parse("config.hcl", uncommented, root)
	if err != nil {
		t.Fatalf("without its comment signs:\n%v", err)
	}

	t.Run("every key is shown in its block", func(t *testing.T) {
		if len(full.Handlers) != len(handlerKinds()) {
			t.Errorf("%d handlers are shown, there are %d kinds", len(full.Handlers), len(handlerKinds()))
		}
		keys := 0
		for _, s := range schema(&full, root) {
			for _, one := range s.settings {
				keys++
				if _, ok := full.origin.places[s.id(one.name)]; !ok {
					t.Errorf("config.hcl does not show %s", s.id(one.name))
				}
			}
		}
		if keys < 50 {
			t.Errorf("only %d keys were looked for", keys)
		}
	})

	t.Run("the commented keys show their defaults", func(t *testing.T) {
		for i := range full.Handlers {
			if full.Handlers[i].Timeout != DefaultHandlerTimeout {
				t.Errorf("handler %s shows a timeout of %v", full.Handlers[i].Name, full.Handlers[i].Timeout)
			}
		}
		full.Handlers = nil
		for _, s := range []*Socket{&full.Sockets.Enqueue, &full.Sockets.Consume, &full.Sockets.Control} {
			s.Group = "" // an example, there is no name to show for the default
		}
		t.Chdir(root)
		if want := Default(); !full.Equal(want) {
			t.Errorf("the comments show\n%s\nthe default is\n%s", full.HCL(), want.HCL())
		}
	})
}
