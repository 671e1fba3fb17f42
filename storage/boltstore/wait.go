package boltstore

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// moment is a time to wait for. Backoffs run on the monotonic clock while the
// process lives: their time carries a monotonic reading, which After prefers.
// not_before and hold-until follow the wall clock: theirs carries none.
type moment = time.Time

// wait is what a key waits for; at most one at a time.
type wait struct {
	key   *key
	seq   uint64 // the head, in whose flight record the wait is stored
	until moment
	wall  bool   // until is a time on the wall clock
	began uint64 // order in which waits began
	over  bool   // ended early; the heap drops it when it comes up
}

// waits orders waits by when they end. Backoffs and wall-clock waits have a heap
// each, because a step of the wall clock would make their orders disagree.
type waits struct {
	elapsed, wall waitHeap
	began         uint64
}

// start makes a key wait. A wait that the key has is replaced.
func (w *waits) start(k *key, seq uint64, until moment, wall bool) {
	w.end(k)
	w.began++
	k.wait = &wait{key: k, seq: seq, until: until, wall: wall, began: w.began}
	if wall {
		heap.Push(&w.wall, k.wait)
	} else {
		heap.Push(&w.elapsed, k.wait)
	}
}

// end ends the wait of a key, if it has one.
func (w *waits) end(k *key) {
	if k.wait != nil {
		k.wait.over, k.wait = true, nil
	}
}

// sweep forgets the waits that ended early. Times that were read from the file have
// no monotonic reading; beside ones that have, they would disorder the heap as soon
// as the wall clock is set.
func (w *waits) sweep() {
	for _, h := range [...]*waitHeap{&w.elapsed, &w.wall} {
		*h = slices.DeleteFunc(*h, func(x *wait) bool { return x.over })
		heap.Init(h)
	}
}

// due removes and returns the waits that are over by now, ordered by the wall
// reading of their time, then by when they began. Their keys still name them.
func (w *waits) due(now time.Time) []*wait {
	var ended []*wait
	for _, h := range [...]*waitHeap{&w.elapsed, &w.wall} {
		for len(*h) > 0 && ((*h)[0].over || !(*h)[0].until.After(now)) {
			if x := heap.Pop(h).(*wait); !x.over {
				ended = append(ended, x)
			}
		}
	}
	slices.SortFunc(ended, func(a, b *wait) int {
		return cmp.Or(cmp.Compare(a.until.UnixMicro(), b.until.UnixMicro()), cmp.Compare(a.began, b.began))
	})
	return ended
}

// next returns when the next wait ends, zero if nothing waits.
func (w *waits) next(now time.Time) (next moment) {
	for _, h := range [...]*waitHeap{&w.elapsed, &w.wall} {
		for len(*h) > 0 && (*h)[0].over {
			heap.Pop(h)
		}
		if len(*h) > 0 {
			next = earlier(next, (*h)[0].until, now)
		}
	}
	return next
}

// earlier returns whichever of two moments comes first as seen from now, where
// zero is never.
func earlier(a, b moment, now time.Time) moment {
	if a.IsZero() || (!b.IsZero() && b.Sub(now) < a.Sub(now)) {
		return b
	}
	return a
}

// waitHeap is a heap by the time waited for.
type waitHeap []*wait

// Len, Less, Swap, Push and Pop are what container/heap asks for.
func (h waitHeap) Len() int           { return len(h) }
func (h waitHeap) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h waitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *waitHeap) Push(x any)        { *h = append(*h, x.(*wait)) }
func (h *waitHeap) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return x
}
