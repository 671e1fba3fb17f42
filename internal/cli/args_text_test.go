package cli

import (
	"slices"
	"strings"
	"testing"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
)

// TestArrange_text: whatever becomes JSON is UTF-8, or is refused with its name. Each flag
// of each command is tried, so that a new one is too.
func TestArrange_text(t *testing.T) {
	tree, refused, files := new(env).tested(t), 0, []string{}
	each(tree.Commands, "breakwater", func(path string, c *ucli.Command) {
		for _, f := range c.Flags {
			name := "--" + f.Names()[0]
			if s, ok := f.(*ucli.StringFlag); ok && s.TakesFile {
				files = append(files, name)
				continue
			}
			switch f.(type) {
			case *ucli.StringFlag, *ucli.StringSliceFlag:
			default:
				continue // read as a number, a time or a yes
			}
			for _, words := range [][]string{{name, "a\xff"}, {name + "=a\xff"}} {
				_, err := arrange(tree, append(strings.Fields(path), words...))
				refused++
				failed, ok := err.(*failure)
				if want := path + ": " + name + `: "a\xff" is not UTF-8`; !ok || failed.status != exitUsage || failed.Error() != want || !strings.Contains(failed.hint, path+" --help") {
					t.Errorf("%v: %v, want %s", words, err, want)
				}
			}
			if _, err := arrange(tree, append(strings.Fields(path), name, "ä\ufffd")); err != nil {
				t.Errorf("%s %s: %v", path, name, err)
			}
		}
		if c.Hidden || len(c.Subcommands) > 0 {
			return
		}
		_, err := arrange(tree, append(strings.Fields(path), "a", "--", "a\xff"))
		if takes := slices.Contains(takeBytes, c.Name); takes != (err == nil) {
			t.Errorf("%s: an argument of other bytes: %v", path, err)
		}
	})
	slices.Sort(files)
	want := []string{"--checkpoint", "--dir", "--file", "--key", "--line", "--out", "--receipts", "--socket"}
	if got := slices.Compact(files); refused < 60 || !slices.Equal(got, want) {
		t.Errorf("%d were refused; the names of files are %q, want %q", refused, got, want)
	}
	if _, err := arrange(tree, []string{"breakwater", app.SealCommand, "/a\xff", "{}"}); err != nil {
		t.Errorf("a folder's name may be of any bytes: %v", err)
	}
}

// TestArrange_empty: a value that is empty is that of a variable nobody has set. No flag
// that selects, or names whom to ask, takes it for one that was not given.
func TestArrange_empty(t *testing.T) {
	tree, refused := new(env).tested(t), 0
	words := func(path, name string) [][]string {
		return [][]string{append(strings.Fields(path), name, ""), append(strings.Fields(path), name+"=")}
	}
	each(tree.Commands, "breakwater", func(path string, c *ucli.Command) {
		for _, f := range append(slices.Clone(c.Flags), tree.Flags...) {
			name := "--" + f.Names()[0]
			for _, words := range words(path, name) {
				_, err := arrange(tree, words)
				switch f.(type) {
				case *ucli.StringFlag, *ucli.StringSliceFlag:
				default:
					continue
				}
				failed, ok := err.(*failure)
				if slices.Contains([]string{"--by", "--reason", "--env"}, name) {
					if ok && strings.Contains(failed.Error(), "is empty") {
						t.Errorf("%q: %v", words, err)
					}
					continue
				}
				refused++
				if !ok || failed.status != exitUsage || !strings.HasSuffix(failed.Error(), ": "+name+" is empty") || !strings.Contains(failed.hint, "not set") {
					t.Errorf("%q: %v", words, err)
				}
			}
		}
	})
	if refused < 50 {
		t.Errorf("only %d were tried", refused)
	}
}
