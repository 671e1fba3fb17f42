// Package bloom is a blocked Bloom filter over hashes: it says of a key that it is
// certainly not in a set, or that it may be.
//
// All bits of a key lie in one cache line (Putze, Sanders and Singler, "Cache-,
// hash- and space-efficient Bloom filters", 2007): a key that is absent costs one
// cache miss. At ten bits a key about one answer in a hundred is a false "may be"; there
// is no false "no". A library's filter was the road not taken: it would hash again
// what is a hash already, and spread its probes over the memory.
//
// A filter is the memory of its caller, who also stores it: the ledger keeps many
// side by side in one slice, the trail one for each of its spans.
package bloom

const (
	// LineWords is a cache line, 512 bits. The length of a Filter is a multiple of it.
	LineWords = 8
	// BitsPerKey is how much room a key needs for one false answer in a hundred.
	BitsPerKey = 10
	// probes is how many bits a key sets; nine bits of its hash choose each.
	probes = 6
)

// Filter is a set of keys that can be added to. The zero length holds nothing and
// must not be asked.
//
// A key is two hashes that do not depend on each other: spread chooses the line and
// must be spread evenly over its 32 bits, probe chooses the bits by its low 54.
type Filter []uint64

// line returns the cache line of a key. It multiplies where a remainder would
// divide, so the leading bits of spread count most.
func (f Filter) line(spread uint32) *[LineWords]uint64 {
	lines := uint64(len(f) / LineWords)
	return (*[LineWords]uint64)(f[int(uint64(spread)*lines>>32)*LineWords:])
}

// Add puts a key into the set.
func (f Filter) Add(spread uint32, probe uint64) {
	words := f.line(spread)
	for range probes {
		words[probe>>6%LineWords] |= 1 << (probe & 63)
		probe >>= 9
	}
}

// May says whether a key can be among those that were added. It looks at all bits
// without a branch: to stop at the first zero would be a guess that the processor
// gets wrong half the time, just when it waits for memory. This way it goes ahead
// to the caller's next filter meanwhile: measured with ten million keys in eight of
// the ledger's segments, half the time.
func (f Filter) May(spread uint32, probe uint64) bool {
	words := f.line(spread)
	all := words[probe>>6%LineWords] >> (probe & 63)
	for range probes - 1 {
		probe >>= 9
		all &= words[probe>>6%LineWords] >> (probe & 63)
	}
	return all&1 != 0
}
