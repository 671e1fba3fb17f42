package partition

import (
	"github.com/cespare/xxhash/v2"
)

// NoOwner is the answer where there are no owners at all.
const NoOwner = -1

// Owner returns the index in owners of the one that slot belongs to, or
// [NoOwner] when there are none. The same names give the same owner in whatever
// order they are listed: equal weights go to the lesser name, and of a name that
// is listed twice the first counts. The work is one hash per owner; who asks for
// many slots uses [Assign].
func Owner(slot Slot, owners []string) int {
	buf := make([]byte, 0, 64) // longer names move to the heap, once per call
	best, top := NoOwner, uint64(0)
	for i, name := range owners {
		buf = append(buf[:0], name...)
		w := weight(buf, slot)
		if best == NoOwner || w > top || w == top && name < owners[best] {
			best, top = i, w
		}
	}
	return best
}

// weight is what the owner whose name stands in buf draws for slot. It writes
// behind the name and leaves buf itself as it was. Names of different length
// cannot be taken for each other: the suffix is two bytes for all of them.
func weight(buf []byte, slot Slot) uint64 {
	return xxhash.Sum64(append(buf, byte(slot>>8), byte(slot)))
}

// Assignment says which owner has which slots. It is made by [Assign] and never
// changes; a change of owners is a new assignment. The zero value is that of no
// owners.
type Assignment struct {
	owners []string
	sets   []SlotSet
	bySlot []uint16 // index into owners; empty without owners
}

// MaxOwners bounds the owners of one assignment. It is far above what a host
// runs (in-process workers and attached consumers together are in the hundreds)
// and keeps an index within 16 bits.
const MaxOwners = 1 << 14

// Assign gives each owner its slots: disjoint sets that together are all slots.
// Owners beyond [MaxOwners] get none. An owner may end up without slots when
// there are many; a name listed twice gets its slots at its first place.
func Assign(owners []string) Assignment {
	owners = append([]string(nil), owners[:min(len(owners), MaxOwners)]...)
	a := Assignment{owners: owners, sets: make([]SlotSet, len(owners))}
	if len(owners) == 0 {
		return a
	}
	a.bySlot = make([]uint16, Slots)
	tops := make([]uint64, Slots)
	var buf []byte
	for i, name := range owners {
		// Owner by owner, so that each name is copied once, not 1,024 times.
		buf = append(buf[:0], name...)
		for s := range Slot(Slots) {
			w := weight(buf, s)
			if i == 0 || w > tops[s] || w == tops[s] && name < owners[a.bySlot[s]] {
				tops[s], a.bySlot[s] = w, uint16(i)
			}
		}
	}
	for s, i := range a.bySlot {
		a.sets[i].Add(Slot(s))
	}
	return a
}

// Len returns the number of owners.
func (a *Assignment) Len() int { return len(a.owners) }

// Name returns the name of owner i, in the order given to [Assign].
func (a *Assignment) Name(i int) string { return a.owners[i] }

// Owner returns the index of the owner of slot, or [NoOwner] without owners.
func (a *Assignment) Owner(slot Slot) int {
	if len(a.bySlot) == 0 {
		return NoOwner
	}
	return int(a.bySlot[slot%Slots])
}

// OwnerOf returns the index of the owner of a partition key, or [NoOwner].
func (a *Assignment) OwnerOf(key string) int { return a.Owner(SlotOf(key)) }

// Set returns the slots of owner i.
func (a *Assignment) Set(i int) SlotSet { return a.sets[i] }

// SetOf returns the slots of the owner with this name; none for a stranger.
func (a *Assignment) SetOf(name string) SlotSet {
	for i, o := range a.owners {
		if o == name {
			return a.sets[i]
		}
	}
	return SlotSet{}
}
