package config

import (
	"strconv"
	"testing"
)

// TestBounds tries both ends of every number, and one beyond each, so that no
// bound overflows the Go type behind it.
func TestBounds(t *testing.T) {
	c := unplaced("/srv")
	number := func(n int64) literal { return literal{kind: kindNumber, text: strconv.FormatInt(n, 10)} }
	numbers := 0
	for _, s := range schema(&c, "/srv") {
		for _, one := range s.settings {
			w, ok := one.value.(whole)
			if !ok {
				continue
			}
			numbers++
			id := s.id(one.name)
			if n := w.get(); (n < w.lo || n > w.hi) && !(w.none && n == 0) {
				t.Errorf("%s: the default %d is out of bounds", id, n)
			}
			for _, good := range []int64{w.lo, w.hi} {
				if wrong := w.read(number(good)); wrong != nil || w.get() != good {
					t.Errorf("%s = %d: %v, gives %d", id, good, wrong, w.get())
				}
			}
			for _, bad := range []int64{w.lo - 1, w.hi + 1, -1 << 63, 1<<63 - 1} {
				if w.none && bad == 0 {
					continue
				}
				if wrong := w.read(number(bad)); wrong == nil || w.get() != w.hi {
					t.Errorf("%s = %d is accepted, gives %d", id, bad, w.get())
				}
			}
			if zero := w.read(number(0)); (zero == nil) != (w.none || w.lo == 0) {
				t.Errorf("%s = 0: %v", id, zero)
			}
		}
	}
	if numbers < 25 {
		t.Errorf("only %d numbers were tried", numbers)
	}
}

func TestHandlerLookup(t *testing.T) {
	c := parse(t, `handler "exec" "post" { command = ["/bin/post"] }`)
	for name, kind := range map[string]string{"log": KindLog, "consumers": KindConsumers, "post": KindExec} {
		if h, ok := c.Handler(name); !ok || h.Name != name || h.Kind != kind {
			t.Errorf("Handler(%q) = %+v, %v", name, h, ok)
		}
	}
	if h, ok := c.Handler("absent"); ok {
		t.Errorf(`Handler("absent") = %+v`, h)
	}
}
