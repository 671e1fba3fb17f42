package partition

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The values were computed once. They change only if the hash changes, and then
// every key of every running host would move: that must not go unnoticed.
func TestSlotOf(t *testing.T) {
	golden := []struct {
		key  string
		slot Slot
	}{
		{"", 409}, // XXH64("") = ef46db3751d8e999, the specification's own vector
		{"E1", 970},
		{"ACC-1001", 634},
		{"acct:DE89 3704 0044 0532 0130 00", 688},
		{"a\x00b", 193},
		{"Zürich", 633},
	}
	for _, g := range golden {
		if got := SlotOf(g.key); got != g.slot {
			t.Errorf("SlotOf(%q) = %d, want %d", g.key, got, g.slot)
		}
	}
	if want := Slot(0xef46db3751d8e999 % uint64(Slots)); SlotOf("") != want {
		t.Errorf("the slot is not XXH64 mod %d", Slots)
	}
}

func TestSlotOfBytes(t *testing.T) {
	t.Run("agrees_with_the_string_and_stays_in_the_space", rapid.MakeCheck(func(t *rapid.T) {
		key := rapid.SliceOf(rapid.Byte()).Draw(t, "key")
		if s := SlotOf(string(key)); s != SlotOfBytes(key) || s >= Slots {
			t.Fatalf("%d for the string, %d for the bytes", s, SlotOfBytes(key))
		}
	}))
}

// TestSlotSet compares the bit set with a map, which is obviously right.
func TestSlotSet(t *testing.T) {
	slots := rapid.SliceOfN(rapid.Uint16Range(0, Slots+3), 0, 300)
	build := func(in []uint16) (SlotSet, map[Slot]bool) {
		var s SlotSet
		m := map[Slot]bool{}
		for _, n := range in {
			s.Add(Slot(n))
			if n < Slots {
				m[Slot(n)] = true
			}
		}
		return s, m
	}
	t.Run("is_a_set", rapid.MakeCheck(func(t *rapid.T) {
		a, am := build(slots.Draw(t, "a"))
		b, bm := build(slots.Draw(t, "b"))
		and, or, not := a.And(b), a.Or(b), a.AndNot(b)
		for s := range Slot(Slots + 8) {
			if a.Has(s) != am[s] || and.Has(s) != (am[s] && bm[s]) || or.Has(s) != (am[s] || bm[s]) || not.Has(s) != (am[s] && !bm[s]) {
				t.Fatalf("slot %d differs from the model", s)
			}
		}
		if a.Count() != len(am) || a.Empty() != (len(am) == 0) {
			t.Fatalf("Count %d, Empty %v, model has %d", a.Count(), a.Empty(), len(am))
		}
		gone := Slot(rapid.Uint16Range(0, Slots+3).Draw(t, "gone"))
		c := a
		c.Remove(gone)
		if c.Has(gone) || c.Or(a) != a || a.Has(gone) != am[gone] {
			t.Fatalf("removing %d did more or less than that", gone)
		}
	}))
	t.Run("is_walked_once_from_a_rotating_start", rapid.MakeCheck(func(t *rapid.T) {
		a, am := build(slots.Draw(t, "a"))
		start := Slot(rapid.Uint16Range(0, 2*Slots).Draw(t, "start"))
		want := make([]Slot, 0, len(am))
		for i := range Slot(Slots) {
			if s := (start + i) % Slots; am[s] {
				want = append(want, s)
			}
		}
		if got := slices.Collect(a.From(start)); !slices.Equal(got, want) {
			t.Fatalf("from %d: got %v, want %v", start, got, want)
		}
		stop := rapid.IntRange(0, len(want)).Draw(t, "stop")
		n := 0
		for range a.From(start) {
			if n++; n > stop {
				break
			}
		}
		if n != min(stop+1, len(want)) {
			t.Fatalf("asked to stop after %d, yielded %d", stop+1, n)
		}
	}))
	t.Run("all_slots", func(t *testing.T) {
		all := AllSlots()
		if all.Count() != Slots || !all.Has(0) || !all.Has(Slots-1) || all.Has(Slots) {
			t.Errorf("AllSlots is not exactly all slots")
		}
	})
}

func BenchmarkSlotOf(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		SlotOf("ACC-1001-entity-main")
	}
}
