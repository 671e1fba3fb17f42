package cli

import (
	"errors"
	"io"
	"os"
	"testing"
)

// TestListing_to_its_end: what was read of a list is shown also when the rest cannot be, and where
// there is nothing that is said in the place of an empty table.
func TestListing_to_its_end(t *testing.T) {
	broken := errors.New("the second page failed")
	for _, c := range []struct {
		what string
		end  func(*listing) error
		rows int
		want string
		err  error
	}{
		{"two rows", func(l *listing) error { return l.end("no row") }, 2, "A  B\n1  x\n1  x\n", nil},
		{"none", func(l *listing) error { return l.end("no row of \x1b[2J") }, 0, "no row of \\x1b[2J\n", nil},
		{"broken off", func(l *listing) error { return l.cut(broken) }, 2, "A  B\n1  x\n1  x\n", broken},
		{"broken before the first", func(l *listing) error { return l.cut(broken) }, 0, "", broken},
	} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		e := &env{Process: Process{Stdout: w}}
		l := e.listing("A", "B")
		for range c.rows {
			if err := l.add("1", "x"); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.end(l); !errors.Is(err, c.err) {
			t.Errorf("%s: %v", c.what, err)
		}
		w.Close()
		got, err := io.ReadAll(r)
		if r.Close(); err != nil || string(got) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.what, got, err, c.want)
		}
	}
}
