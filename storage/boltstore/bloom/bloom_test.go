package bloom

import (
	"fmt"
	"slices"
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

func TestFilter(t *testing.T) {
	t.Run("never_denies_a_key_it_has", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			f := make(Filter, LineWords*rapid.IntRange(1, 40).Draw(rt, "lines"))
			keys := rapid.SliceOfN(rapid.Uint64(), 1, 2000).Draw(rt, "keys")
			for _, k := range keys {
				f.Add(uint32(k>>32), k)
			}
			for _, k := range keys {
				if !f.May(uint32(k>>32), k) {
					rt.Fatalf("key %x is denied", k)
				}
			}
		})
	})

	for _, lines := range []int{31, 159} { // the ledger's and the trail's
		t.Run(fmt.Sprintf("of_%d_lines_is_wrong_about_once_in_a_hundred_when_it_is_full", lines), func(t *testing.T) {
			wrong, asked := 0, 0
			for round := range uint64(50) {
				f := make(Filter, lines*LineWords)
				n := uint64(len(f) * 64 / BitsPerKey)
				for i := range n {
					k := numbered(round<<32 + i)
					f.Add(uint32(k>>32), k)
				}
				for i := range n {
					if k := numbered(round<<32 + n + i); f.May(uint32(k>>32), k) {
						wrong++
					}
					asked++
				}
			}
			if wrong > asked*3/200 || wrong == 0 {
				t.Errorf("%d of %d absent keys may be there", wrong, asked)
			}
		})
	}

	t.Run("sets_the_bits_that_stored_filters_have", func(t *testing.T) {
		f := make(Filter, 3*LineWords)
		f.Add(0x80000000, 0x0123456789abcdef) // the second of three lines
		want := Filter{9: 1<<42 | 1<<22, 11: 1 << 49, 12: 1 << 26, 15: 1<<47 | 1<<38, 23: 0}
		if !slices.Equal(f, want) {
			t.Errorf("got %x, want %x", f, want)
		}
	})
}

// numbered spreads numbers as the hashes of keys are spread.
func numbered(n uint64) uint64 {
	return xxhash.Sum64(fmt.Appendf(nil, "%d", n))
}
