package boltstore

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"breakwater/queue"
)

// TestHeadHeap files, refiles and removes keys at random; the first is always the
// smallest place of those that are filed.
func TestHeadHeap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var h headHeap
		keys := make([]key, 20)
		filed := map[int]queue.Place{}
		for range 200 {
			i := rapid.IntRange(0, len(keys)-1).Draw(t, "key")
			if _, in := filed[i]; in && rapid.Bool().Draw(t, "remove") {
				h.remove(&keys[i])
				delete(filed, i)
			} else {
				place := queue.Place{Seq: rapid.Uint64Range(1, 50).Draw(t, "seq"), Sub: rapid.Uint32Range(0, 2).Draw(t, "sub")}
				h.put(&keys[i], place)
				filed[i] = place
			}
			var want []queue.Place
			for _, p := range filed {
				want = append(want, p)
			}
			first := queue.Place{}
			if len(want) > 0 {
				first = slices.MinFunc(want, queue.Place.Compare)
			}
			if got := h.first(); got != first || len(h) != len(filed) {
				t.Fatalf("%s of %d, want %s of %d", got, len(h), first, len(filed))
			}
			for at, e := range h {
				if int(e.key.heap) != at+1 {
					t.Fatalf("a key at %d takes itself to be at %d", at+1, e.key.heap)
				}
			}
		}
	})
}
