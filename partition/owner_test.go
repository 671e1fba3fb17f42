package partition

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestOwner(t *testing.T) {
	t.Run("has_not_moved_since_the_first_release", func(t *testing.T) {
		owners := []string{"w-0", "w-1", "w-2", "review-ui-1"}
		for slot, want := range map[Slot]int{0: 3, 1: 3, 2: 1, 511: 1, 512: 2, 1023: 3} {
			if got := Owner(slot, owners); got != want {
				t.Errorf("Owner(%d) = %d, want %d", slot, got, want)
			}
		}
	})
	t.Run("is_nobody_without_owners", func(t *testing.T) {
		if got := Owner(7, nil); got != NoOwner {
			t.Errorf("Owner without owners = %d, want %d", got, NoOwner)
		}
	})
	t.Run("of_a_name_listed_twice_is_its_first_place", func(t *testing.T) {
		for s := range Slot(Slots) {
			if got := Owner(s, []string{"a", "a"}); got != 0 {
				t.Fatalf("slot %d went to place %d", s, got)
			}
		}
	})
	t.Run("takes_names_of_any_length", func(t *testing.T) {
		long := strings.Repeat("n", 300)
		owners := []string{"", long, "x"}
		a := Assign(owners)
		for s := range Slot(Slots) {
			if Owner(s, owners) != a.Owner(s) {
				t.Fatalf("slot %d: Owner and Assign differ", s)
			}
		}
	})
}

// names draws distinct owner names.
func names(least int) *rapid.Generator[[]string] {
	return rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z]{1,3}-?[0-9]{0,3}`), least, 20, rapid.ID)
}

func TestAssign(t *testing.T) {
	t.Run("gives_every_slot_to_exactly_one_owner", rapid.MakeCheck(func(t *rapid.T) {
		owners := names(1).Draw(t, "owners")
		a := Assign(owners)
		var union SlotSet
		for i, name := range owners {
			set := a.Set(i)
			if shared := set.And(union); !shared.Empty() {
				t.Fatalf("%s shares %d slots", name, shared.Count())
			}
			if a.SetOf(name) != set || a.Name(i) != name {
				t.Fatalf("%s is not found by name", name)
			}
			for s := range set.From(0) {
				if a.Owner(s) != i || Owner(s, owners) != i {
					t.Fatalf("slot %d is in the set of %s, owned by %d and %d", s, name, a.Owner(s), Owner(s, owners))
				}
			}
			union = union.Or(set)
		}
		if union != AllSlots() {
			t.Fatalf("%d slots have no owner", Slots-union.Count())
		}
	}))
	t.Run("does_not_depend_on_the_order_of_owners", rapid.MakeCheck(func(t *rapid.T) {
		owners := names(1).Draw(t, "owners")
		shuffled := rapid.Permutation(owners).Draw(t, "shuffled")
		a, b := Assign(owners), Assign(shuffled)
		for _, name := range owners {
			if a.SetOf(name) != b.SetOf(name) {
				t.Fatalf("%s has other slots in another order", name)
			}
		}
	}))
	t.Run("moves_only_the_share_of_one_who_leaves_or_comes", rapid.MakeCheck(func(t *rapid.T) {
		owners := names(2).Draw(t, "owners")
		k := rapid.IntRange(0, len(owners)-1).Draw(t, "who")
		rest := slices.Delete(slices.Clone(owners), k, k+1)
		with, without := Assign(owners), Assign(rest)
		for s := range Slot(Slots) {
			before, after := with.Name(with.Owner(s)), without.Name(without.Owner(s))
			if before != after && before != owners[k] {
				t.Fatalf("slot %d moved from %s to %s though %s left", s, before, after, owners[k])
			}
		}
	}))
	t.Run("without_owners_is_empty", func(t *testing.T) {
		var zero Assignment
		none := Assign(nil)
		for _, a := range []*Assignment{&zero, &none} {
			if a.Len() != 0 || a.Owner(3) != NoOwner || a.OwnerOf("k") != NoOwner || a.SetOf("w") != (SlotSet{}) {
				t.Errorf("an assignment without owners has some")
			}
		}
	})
	t.Run("gives_a_name_listed_twice_its_slots_at_the_first_place", func(t *testing.T) {
		a := Assign([]string{"b", "a", "b", "a"})
		b := Assign([]string{"b", "a"})
		if a.Set(0) != b.Set(0) || a.Set(1) != b.Set(1) || a.Set(2) != (SlotSet{}) || a.Set(3) != (SlotSet{}) {
			t.Errorf("the second mention of a name has slots")
		}
	})
	t.Run("is_bounded", func(t *testing.T) {
		owners := make([]string, MaxOwners+5)
		for i := range owners {
			owners[i] = fmt.Sprint(i)
		}
		a := Assign(owners)
		if a.Len() != MaxOwners {
			t.Errorf("%d owners, the limit is %d", a.Len(), MaxOwners)
		}
	})
	t.Run("keeps_its_own_copy_of_the_names", func(t *testing.T) {
		owners := []string{"a", "b"}
		a := Assign(owners)
		owners[0] = "changed"
		if a.Name(0) != "a" {
			t.Errorf("the caller's slice is the assignment's")
		}
	})
}

// TestBalance states how uneven shares may be: every owner within four standard
// deviations, 4·√fair, of its fair share, and none without slots. Measured for
// these names: 3.2 at worst (64 owners: 8 to 28 slots, fair 16; 8 owners: 120 to
// 137, fair 128). The names are fixed, so the test cannot flicker.
func TestBalance(t *testing.T) {
	for n := 2; n <= 64; n++ {
		owners := make([]string, n)
		for i := range owners {
			owners[i] = fmt.Sprintf("w-%d", i)
		}
		a := Assign(owners)
		fair := float64(Slots) / float64(n)
		for i, name := range owners {
			set := a.Set(i)
			got := set.Count()
			if got == 0 || math.Abs(float64(got)-fair) > 4*math.Sqrt(fair) {
				t.Errorf("%d owners: %s has %d slots, fair are %.1f", n, name, got, fair)
			}
		}
	}
	t.Run("of_keys_over_slots", func(t *testing.T) {
		// Keys as a matching engine numbers them: a hash that did not mix low
		// digits would crowd them. Fair are 100 keys per slot, σ = 10.
		var per [Slots]int
		for i := range 100 * Slots {
			per[SlotOf(fmt.Sprintf("ACC-%07d", i))]++
		}
		for s, n := range per {
			if n < 50 || n > 150 {
				t.Errorf("slot %d has %d of %d keys", s, n, 100*Slots)
			}
		}
	})
}

func BenchmarkAssign(b *testing.B) {
	for _, n := range []int{8, 64} {
		owners := make([]string, n)
		for i := range owners {
			owners[i] = fmt.Sprintf("consumer-%d", i)
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				Assign(owners)
			}
		})
	}
}
