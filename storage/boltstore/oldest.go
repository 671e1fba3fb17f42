package boltstore

import "breakwater/queue"

// headHeap is the keys that can be claimed by one route, by the places of their
// heads: so that the oldest of them is known at any moment. A key knows where in it
// it is. It is not container/heap, which would box each entry and compare through an
// interface: every claim and every settlement comes by here.
type headHeap []headAt

// headAt is a key and the place that it is filed under: beside it, so that comparing
// need not fetch the key and its window.
type headAt struct {
	place queue.Place
	key   *key
}

// put files a key, which is in none, or anew when its head has changed.
func (h *headHeap) put(k *key, place queue.Place) {
	if k.heap == 0 {
		*h = append(*h, headAt{key: k})
		k.heap = int32(len(*h))
	}
	at := int(k.heap) - 1
	(*h)[at].place = place
	h.down(h.up(at))
}

// remove takes a key out that is in it.
func (h *headHeap) remove(k *key) {
	at, last := int(k.heap)-1, len(*h)-1
	if at != last {
		h.set(at, (*h)[last])
	}
	(*h)[last] = headAt{}
	*h = (*h)[:last]
	k.heap = 0
	if at != last {
		h.down(h.up(at))
	}
}

// first is the smallest place in it; zero if it is empty.
func (h headHeap) first() (place queue.Place) {
	if len(h) > 0 {
		place = h[0].place
	}
	return place
}

func (h headHeap) set(at int, e headAt) {
	h[at] = e
	e.key.heap = int32(at) + 1
}

// up lets an entry rise to where it belongs, and returns where that is.
func (h headHeap) up(at int) int {
	e := h[at]
	for at > 0 {
		parent := (at - 1) / 2
		if !e.place.Less(h[parent].place) {
			break
		}
		h.set(at, h[parent])
		at = parent
	}
	h.set(at, e)
	return at
}

// down lets an entry sink to where it belongs.
func (h headHeap) down(at int) {
	e := h[at]
	for {
		child := 2*at + 1
		if child >= len(h) {
			break
		}
		if child+1 < len(h) && h[child+1].place.Less(h[child].place) {
			child++
		}
		if !h[child].place.Less(e.place) {
			break
		}
		h.set(at, h[child])
		at = child
	}
	h.set(at, e)
}
