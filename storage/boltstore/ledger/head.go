package ledger

import (
	"bytes"
	"slices"
)

// head is the newest part of the ledger, in memory: a hash table that is always
// sorted. A key's home slot is given by its leading bits, and within a cluster
// of occupied slots keys stand in order. Since keys are spread evenly, that is
// ordinary linear probing, yet walking the slots visits the keys in order: a
// head is sealed, walked and resumed without ever being sorted.
//
// Records lie in one slab in the order they came; a newer record of a key is
// appended and the slot repointed. They hold no pointers, so the collector never
// looks inside. A head that is only replayed grows with its records, from nothing;
// one that is written to gets slab and slots at full size at once (reserve), which are
// reused (untouched pages cost no memory).
type head struct {
	slab  []byte
	slots []uint64 // leading 32 bits of the key ‖ offset in slab + 1; 0 is empty
	shift uint     // leading bits >> shift is the home slot
	limit int      // keys the slots can hold, half the home slots
	keys  int
	last  int // highest slot in use
}

// newHead returns a head for at least the given number of keys and bytes.
func newHead(keys, slabBytes int) *head {
	bits := uint(1)
	for 1<<bits < 2*keys {
		bits++
	}
	limit := 1 << bits / 2
	return &head{
		slab: make([]byte, 0, slabBytes),
		// A cluster at the end may spill past the last home slot. With room for
		// every key behind it, no choice of keys can run off the table, and the
		// last slot is always empty: probing needs no bounds of its own.
		slots: make([]uint64, 1<<bits+limit+1),
		shift: 32 - bits,
		limit: limit,
	}
}

// reserve makes room for so many keys and bytes in all, unless there is.
func (h *head) reserve(keys, slabBytes int) {
	if h.limit < keys {
		h.rehash(keys)
	}
	h.slab = slices.Grow(h.slab, max(0, slabBytes-len(h.slab)))
}

// find returns the slot of k, or the slot where k belongs.
func (h *head) find(k Key) (slot int, found bool) {
	tag := uint32(k.high() >> 32)
	for i := int(tag >> h.shift); ; i++ {
		s := h.slots[i]
		if s == 0 || uint32(s>>32) > tag {
			return i, false
		}
		if uint32(s>>32) < tag {
			continue
		}
		// Equal leading bits are rare; only then the slab is read.
		switch c := bytes.Compare(h.slab[uint32(s)-1:][:len(k)], k[:]); {
		case c == 0:
			return i, true
		case c > 0:
			return i, false
		}
	}
}

// get returns the newest record of k, or nil. It is valid until reset.
func (h *head) get(k Key) record {
	if h.keys == 0 {
		return nil // the frozen head mostly is empty: leave its memory alone
	}
	i, found := h.find(k)
	if !found {
		return nil
	}
	return h.at(i)
}

// at returns the record of an occupied slot.
func (h *head) at(slot int) record {
	r, _, _ := cutRecord(h.slab[uint32(h.slots[slot])-1:])
	return r
}

// put stores a copy of r, in place of an older record of the same key.
func (h *head) put(r record) {
	k := r.key()
	i, found := h.find(k)
	if !found && h.keys == h.limit {
		h.rehash(2 * h.limit)
		i, _ = h.find(k)
	}
	s := k.high()>>32<<32 | uint64(len(h.slab)+1)
	h.slab = append(h.slab, r...)
	if found {
		h.slots[i] = s
		return
	}
	h.keys++
	for ; s != 0; i++ { // move the rest of the cluster up by one
		h.slots[i], s = s, h.slots[i]
	}
	h.last = max(h.last, i-1)
}

// rehash makes the slots that so many keys need.
func (h *head) rehash(keys int) {
	bigger := newHead(keys, 0)
	bigger.slab = h.slab
	for i := 0; i <= h.last; i++ {
		if s := h.slots[i]; s != 0 {
			j, _ := bigger.find(h.at(i).key())
			bigger.slots[j] = s // in order, so always at a cluster's end
			bigger.last = j
		}
	}
	h.slots, h.shift, h.limit, h.last = bigger.slots, bigger.shift, bigger.limit, bigger.last
}

// reset empties the head and keeps its memory.
func (h *head) reset() {
	clear(h.slots[:h.last+1])
	h.slab, h.keys, h.last = h.slab[:0], 0, 0
}

// memory returns the bytes held, touched or not.
func (h *head) memory() int64 { return int64(cap(h.slab)) + int64(8*len(h.slots)) }

// headSource walks a head in key order. The head must not change meanwhile.
type headSource struct {
	h    *head
	slot int
}

// newHeadSource starts at the first key that is at least from.
func newHeadSource(h *head, from Key) *headSource {
	slot, _ := h.find(from)
	s := &headSource{h: h, slot: slot}
	s.skipEmpty()
	return s
}

func (s *headSource) current() record {
	if s.slot > s.h.last {
		return nil
	}
	return s.h.at(s.slot)
}

func (s *headSource) advance() error {
	s.slot++
	s.skipEmpty()
	return nil
}

func (s *headSource) skipEmpty() {
	for s.slot <= s.h.last && s.h.slots[s.slot] == 0 {
		s.slot++
	}
}
