package partition

import (
	"iter"
	"math/bits"

	"github.com/cespare/xxhash/v2"
)

// Slots is how many slots the space of partition keys is cut into. It is a power
// of two, so that the modulo is a mask, and far more than the owners one host
// runs, so that shares stay even. Changing it moves every key.
const Slots = 1024

// slotWords is the length of a [SlotSet] in 64-bit words.
const slotWords = Slots / 64

// Slot is one part of the key space, 0 to [Slots]-1.
type Slot uint16

// SlotOf returns the slot of a partition key. Keys are compared as bytes after
// decoding; the empty key, which the gates refuse, has a slot like any other.
func SlotOf(key string) Slot { return Slot(xxhash.Sum64String(key) % Slots) }

// SlotOfBytes is [SlotOf] for a key that is still in a buffer.
func SlotOfBytes(key []byte) Slot { return Slot(xxhash.Sum64(key) % Slots) }

// SlotSet is a set of slots, one bit each: slot s is bit s%64 of word s/64. The
// zero value is the empty set. It is an array, so sets compare with == and a copy
// shares nothing.
type SlotSet [slotWords]uint64

// AllSlots returns the set that holds every slot: what a single owner has.
func AllSlots() SlotSet {
	var s SlotSet
	for i := range s {
		s[i] = ^uint64(0)
	}
	return s
}

// Has reports whether slot is in the set. A slot outside the space is in none.
func (s *SlotSet) Has(slot Slot) bool {
	return slot < Slots && s[slot/64]&(1<<(slot%64)) != 0
}

// Add puts slot into the set. A slot outside the space is ignored, because there
// is no key that it could stand for.
func (s *SlotSet) Add(slot Slot) {
	if slot < Slots {
		s[slot/64] |= 1 << (slot % 64)
	}
}

// Remove takes slot out of the set.
func (s *SlotSet) Remove(slot Slot) {
	if slot < Slots {
		s[slot/64] &^= 1 << (slot % 64)
	}
}

// Count returns how many slots the set holds, 0 to [Slots].
func (s *SlotSet) Count() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// Empty reports whether the set holds nothing.
func (s *SlotSet) Empty() bool { return *s == SlotSet{} }

// And returns the slots that are in both sets.
func (s SlotSet) And(t SlotSet) SlotSet {
	for i := range s {
		s[i] &= t[i]
	}
	return s
}

// Or returns the slots that are in either set.
func (s SlotSet) Or(t SlotSet) SlotSet {
	for i := range s {
		s[i] |= t[i]
	}
	return s
}

// AndNot returns the slots of s that are not in t: with two assignments of one
// owner, what it has lost.
func (s SlotSet) AndNot(t SlotSet) SlotSet {
	for i := range s {
		s[i] &^= t[i]
	}
	return s
}

// From walks the set once, beginning at the first member that is not below start
// and wrapping around. A caller that advances start between walks serves all its
// slots equally often; one that always began at slot 0 would starve the high
// ones whenever it takes only a few. A start outside the space counts modulo
// [Slots]. The set is copied: changing it does not change a walk under way.
func (s SlotSet) From(start Slot) iter.Seq[Slot] {
	start %= Slots
	return func(yield func(Slot) bool) {
		_ = s.walk(start, Slots, yield) && s.walk(0, start, yield)
	}
}

// walk yields the members in [from, to) in rising order; false: asked to stop.
func (s *SlotSet) walk(from, to Slot, yield func(Slot) bool) bool {
	for i := int(from) / 64; i < slotWords; i++ {
		w := s[i]
		if i == int(from)/64 {
			w &= ^uint64(0) << (from % 64)
		}
		for ; w != 0; w &= w - 1 {
			slot := Slot(i*64 + bits.TrailingZeros64(w))
			if slot >= to {
				return true
			}
			if !yield(slot) {
				return false
			}
		}
	}
	return true
}
