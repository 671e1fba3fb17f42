package boltstore

import (
	"container/heap"
	"math/bits"

	"breakwater/partition"
	"breakwater/queue"
)

// class is what a key that can be claimed is filed under: the route and priority
// of its head. A key is filed once, so neither can overtake within a key.
type class struct {
	route    uint8
	priority uint8
}

const (
	priorities = queue.MaxPriority + 1
	slotWords  = len(partition.SlotSet{})
)

// readyList is the keys of one class and slot that can be claimed, in the order
// of their turns. It is a list through the keys themselves.
type readyList struct{ first, last *key }

// readyShelf is the lists of one class, with a bit for each that is not empty.
type readyShelf struct {
	lists [partition.Slots]readyList
	some  partition.SlotSet
}

// shelves is every list: two routes by ten priorities by 1,024 slots.
type shelves [len(queue.Routes)][priorities]readyShelf

// file puts a key that can be claimed at the end of the list of its head's class.
// A key that is there already keeps its turn. A key whose head the walk has not
// reached yet is not filed; the walk does it.
func (t *tables) file(k *key) {
	if len(k.window) == 0 {
		t.unfile(k)
		return
	}
	head := k.window[0]
	c := class{route: head.route, priority: head.priority}
	if k.list != nil && k.class == c {
		t.heads[c.route].put(k, head.place)
		return
	}
	t.unfile(k)
	t.heads[c.route].put(k, head.place)
	shelf := &t.ready[c.route][c.priority]
	l := &shelf.lists[k.slot]
	t.turn++
	k.list, k.class, k.turn = l, c, t.turn
	k.prev, k.next = l.last, nil
	if l.last != nil {
		l.last.next = k
	} else {
		l.first = k
		shelf.some.Add(k.slot)
	}
	l.last = k
}

// unfile takes a key out of its list, if it is in one.
func (t *tables) unfile(k *key) {
	l := k.list
	if l == nil {
		return
	}
	t.heads[k.class.route].remove(k)
	if k.prev != nil {
		k.prev.next = k.next
	} else {
		l.first = k.next
	}
	if k.next != nil {
		k.next.prev = k.prev
	} else {
		l.last = k.prev
	}
	if l.first == nil {
		t.ready[k.class.route][k.class.priority].some.Remove(k.slot)
	}
	k.list, k.prev, k.next = nil, nil, nil
}

// candidates yields the keys of one priority that a want may have, oldest turn
// first: a merge of the slots' lists, each of which is in the order of turns.
type candidates []*key

// Len, Less, Swap, Push and Pop make a heap of the first unseen key of each list.
func (c candidates) Len() int           { return len(c) }
func (c candidates) Less(i, j int) bool { return c[i].turn < c[j].turn }
func (c candidates) Swap(i, j int)      { c[i], c[j] = c[j], c[i] }
func (c *candidates) Push(k any)        { *c = append(*c, k.(*key)) }
func (c *candidates) Pop() any {
	last := len(*c) - 1
	k := (*c)[last]
	*c = (*c)[:last]
	return k
}

// gather fills c with the lists of one priority that a want may take from.
func (t *tables) gather(c *candidates, w *queue.Want, priority int) {
	*c = (*c)[:0]
	for r := range queue.Routes {
		if !w.Routes.Has(queue.Routes[r]) {
			continue
		}
		shelf := &t.ready[r][priority]
		for i := range slotWords {
			for word := shelf.some[i] & w.Slots[i]; word != 0; word &= word - 1 {
				*c = append(*c, shelf.lists[i*64+bits.TrailingZeros64(word)].first)
			}
		}
	}
	heap.Init(c)
}

// next returns the oldest candidate and moves on in its list.
func (c *candidates) next() *key {
	if len(*c) == 0 {
		return nil
	}
	k := (*c)[0]
	if k.next != nil {
		(*c)[0] = k.next
		heap.Fix(c, 0)
	} else {
		heap.Pop(c)
	}
	return k
}
