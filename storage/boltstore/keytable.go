package boltstore

import (
	"bytes"
	"iter"
	"slices"

	"breakwater/queue"
)

// keyRows is how many rows the table of keys has. A key's row is the first 12 bits of
// its hash, which nobody can choose: so a million keys are 244 to a row, and a list of
// them in the order of their hashes sorts a row at a time.
const keyRows = 1 << 12

// keyTable is the keys that there is anything to know about, by hash. Beside them it
// counts how many of a row are in which state, so that the few that are blocked are
// found among a million without looking at the others.
type keyTable struct {
	rows   [keyRows]map[keyHash]*key
	states [len(queue.KeyStates) + 1][keyRows]int32
	number int
	looked int // where evict goes on
}

func rowOf(h keyHash) int { return int(h[0])<<4 | int(h[1])>>4 }

// get returns a key, nil if there is nothing to know about it.
func (t *keyTable) get(h keyHash) *key { return t.rows[rowOf(h)][h] }

func (t *keyTable) put(k *key) {
	row := rowOf(k.hash)
	if t.rows[row] == nil {
		t.rows[row] = map[keyHash]*key{}
	}
	t.rows[row][k.hash] = k
	t.number++
}

func (t *keyTable) remove(k *key) {
	delete(t.rows[rowOf(k.hash)], k.hash)
	t.number--
}

// all yields every key, in no order.
func (t *keyTable) all() iter.Seq[*key] {
	return func(yield func(*key) bool) {
		for _, row := range t.rows {
			for _, k := range row {
				if !yield(k) {
					return
				}
			}
		}
	}
}

// count counts a key in (sign 1) or out (sign -1) under its state.
func (t *keyTable) count(k *key, sign int32) {
	if s := k.state(); s != 0 {
		t.states[s][rowOf(k.hash)] += sign
	}
}

// state is what becomes of the key at the moment; 0 if there is nothing to know.
func (k *key) state() queue.KeyState {
	switch {
	case k.idle():
		return 0
	case k.blocked():
		return queue.KeyBlocked
	case k.held():
		return queue.KeyHeld
	case k.leased > 0:
		return queue.KeyBusy
	}
	return queue.KeyReady
}

// inRow returns the keys of one state in a row whose hash comes after one, in the
// order of their hashes.
func (t *keyTable) inRow(state queue.KeyState, row int, after keyHash) (found []*key) {
	if t.states[state][row] == 0 {
		return nil
	}
	for _, k := range t.rows[row] {
		if k.state() == state && bytes.Compare(k.hash[:], after[:]) > 0 {
			found = append(found, k)
		}
	}
	slices.SortFunc(found, func(a, b *key) int { return bytes.Compare(a.hash[:], b.hash[:]) })
	return found
}

// lastOf is the greatest hash that a row can have.
func lastOf(row int) (h keyHash) {
	for i := range h {
		h[i] = 0xff
	}
	h[0], h[1] = byte(row>>4), byte(row<<4)|0x0f
	return h
}
