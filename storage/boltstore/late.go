package boltstore

import (
	"bytes"
	"slices"

	"breakwater/queue"
)

// lateLetters are the dead letters whose place is not their seq, because they were
// scheduled, in the order of their places: the bucket has all letters by seq, so
// these are where it is not in the order of replays. Few exceptions are scheduled, and
// fewer die; each takes 24 bytes.
type lateLetters []lateLetter

type lateLetter struct {
	place queue.Place
	seq   uint64
}

// from returns the index of the first with a place after p.
func (l lateLetters) from(p queue.Place) int {
	i, found := slices.BinarySearchFunc(l, p, func(l lateLetter, p queue.Place) int { return l.place.Compare(p) })
	if found {
		i++
	}
	return i
}

// add adds a letter, mostly at the end: who dies now has fallen due late.
func (l *lateLetters) add(p queue.Place, seq uint64) {
	*l = slices.Insert(*l, l.from(p), lateLetter{p, seq})
}

// remove removes the letter with a place, which no other has.
func (l *lateLetters) remove(p queue.Place) {
	if i := l.from(p) - 1; i >= 0 && (*l)[i].place == p {
		*l = slices.Delete(*l, i, i+1)
	}
}

// memberPlace is how the place begins in the JSON of a dead letter. No text in it can
// hold these bytes: a quote in a text has a backslash before it.
var memberPlace = []byte(`"place":"`)

// placeIn finds the place in the JSON of a dead letter without decoding the rest, for
// a start, which looks at every letter; zero if there is none.
func placeIn(meta []byte) (p queue.Place) {
	if _, rest, ok := bytes.Cut(meta, memberPlace); ok {
		text, _, _ := bytes.Cut(rest, []byte{'"'})
		p, _ = queue.ParsePlace(string(text))
	}
	return p
}
