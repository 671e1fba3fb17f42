package checkpoint

import (
	"bytes"
	"testing"
)

// FuzzRead: whatever a file holds, reading it ends, and what it takes for a checkpoint
// was signed.
func FuzzRead(f *testing.F) {
	s, k := newKey(f, "fuzz/breakwater")
	one, two := sign(f, s, sample(41)), sign(f, s, sample(42))
	f.Add(append(append(one[:len(one):len(one)], '\n'), two...))
	f.Add(append(Line(one), Line(two)...))
	f.Add([]byte("\n\n\xe2\x80\x94 a b\n"))
	f.Add([]byte(`{"checkpoint":"\u0000\n\n\u2014 x y\n"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		err := Read(bytes.NewReader(text), k, func(e Entry) error {
			if e.Err == nil && e.Checkpoint != sample(41) && e.Checkpoint != sample(42) {
				t.Errorf("%+v was never signed", e.Checkpoint)
			}
			if e.Line < 1 || e.Line > bytes.Count(text, lineFeed)+1 {
				t.Errorf("line %d of %d", e.Line, bytes.Count(text, lineFeed))
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}
