package boltstore

import (
	"slices"

	"breakwater/partition"
	"breakwater/queue"
)

// messageRef is what the window keeps of a message that waits to be claimed.
type messageRef struct {
	place    queue.Place
	route    uint8
	priority uint8
}

func refOf(p queue.Place, h header) messageRef {
	return messageRef{place: p, route: h.route, priority: h.priority}
}

// key is the state of one partition key: of every key with an open message with
// a place, and of every key that an operator holds or a dead letter blocks. Only
// the committer touches it.
//
// Invariants: window is sorted by place and holds the key's unleased messages
// up to some place; what comes after is in the parked bucket (then parked > 0) or
// ahead of the walk. While leased > 0 nothing of the key can be claimed (P4, P5).
type key struct {
	hash     keyHash
	slot     partition.Slot
	opHold   bool
	relisted bool  // the start has held bucket parked against its messages: an entry that leads to none stands for none
	open     int32 // messages with a place, leased ones included
	leased   int32
	parked   int32  // of them, in the parked bucket
	damaged  uint64 // a message that could not be read back; 0: none
	blockers []uint64
	wait     *wait
	aside    *aside
	window   []messageRef
	worth    purse  // of the open messages
	out      *purse // of the leased ones; nil: none are

	lastParked queue.Place // the greatest place in the parked bucket
	newest     queue.Place // the greatest place that a message of it has had

	// Where the key is filed while it can be claimed; see ready.go and oldest.go.
	class      class
	heap       int32 // where in the heap of its route, from 1; 0: it is in none
	list       *readyList
	turn       uint64
	prev, next *key
}

// aside keeps a released key from the owner that gave it back, for a while.
type aside struct {
	owner queue.Owner
	until moment
}

// held reports whether the key waits for anything.
func (k *key) held() bool { return k.opHold || k.wait != nil || k.blocked() }

// blocked reports whether it waits for what only a person can end.
func (k *key) blocked() bool { return len(k.blockers) > 0 || k.damaged != 0 }

// idle reports whether nothing is left to know about the key.
func (k *key) idle() bool { return k.open == 0 && !k.opHold && !k.blocked() }

// movable reports whether a message of the key could be claimed now.
func (k *key) movable() bool { return k.open > 0 && k.leased == 0 && !k.held() }

// insert files a message in the window, in the order of places. Nearly always
// that is at the end; a put-back or replayed one belongs before.
func (k *key) insert(m messageRef) {
	at := len(k.window)
	for at > 0 && m.place.Less(k.window[at-1].place) {
		at--
	}
	k.window = slices.Insert(k.window, at, m)
}

// unblock removes a dead letter from what blocks the key.
func (k *key) unblock(seq uint64) {
	k.blockers = slices.DeleteFunc(k.blockers, func(b uint64) bool { return b == seq })
}

// come counts a message in that is the key's now, leave one out. The key must be
// lifted.
func (k *key) come(p queue.Place, w worth) {
	k.open++
	k.worth.add(w)
	if k.newest.Less(p) {
		k.newest = p
	}
}

func (k *key) leave(w worth) {
	k.open--
	k.worth.take(w)
}

// lend counts a message of the key as leased, unlend as leased no more. The key must
// be lifted.
func (k *key) lend(w worth) {
	k.leased++
	if k.out == nil {
		k.out = new(purse)
	}
	k.out.add(w)
}

func (k *key) unlend(w worth) {
	k.leased--
	if k.out.take(w); k.leased == 0 {
		k.out = nil
	}
}

// depths counts messages with a place, by what can be done with them, what they are
// worth, and their keys.
type depths struct {
	open, leased, held, keys, heldKeys int64
	blockedKeys, operatorHolds         int64
	worth, heldWorth                   sums
}

// add counts a key in (sign 1) or out (sign -1).
func (d *depths) add(k *key, sign int64) {
	if k.opHold {
		d.operatorHolds += sign
	}
	if k.blocked() {
		d.blockedKeys += sign
	}
	if k.open == 0 {
		return
	}
	d.keys += sign
	d.open += sign * int64(k.open)
	d.leased += sign * int64(k.leased)
	d.worth.all(&k.worth, int(sign))
	if k.held() {
		d.held += sign * int64(k.open-k.leased)
		d.heldKeys += sign
		d.heldWorth.all(&k.worth, int(sign))
		if k.out != nil {
			d.heldWorth.all(k.out, -int(sign))
		}
	}
}

// keyOf returns the state of a key, made if it is new.
func (t *tables) keyOf(h keyHash, slot partition.Slot) *key {
	k := t.keys.get(h)
	if k == nil {
		k = &key{hash: h, slot: slot}
		t.keys.put(k)
	}
	return k
}

// countKey counts a key in (sign 1) or out (sign -1), wherever keys are counted.
func (t *tables) countKey(k *key, sign int64) {
	t.depth.add(k, sign)
	t.keys.count(k, int32(sign))
}

// lift takes a key out of the counts before it is changed; settle puts it back,
// files it anew if it can be claimed, and forgets it when nothing is left of it.
// Every change of a key happens between the two, so counts and lists can't drift.
func (t *tables) lift(k *key) { t.countKey(k, -1) }

func (x *txn) settle(k *key) error {
	t := x.t
	t.countKey(k, 1)
	if k.idle() {
		t.unfile(k)
		t.waits.end(k)
		t.keys.remove(k)
		return nil
	}
	if !k.movable() {
		t.unfile(k)
		return nil
	}
	if len(k.window) == 0 && k.parked > 0 {
		if err := x.unpark(k); err != nil {
			return err
		}
	}
	if !k.movable() { // it has met damage
		t.unfile(k)
		return nil
	}
	t.file(k)
	return nil
}
