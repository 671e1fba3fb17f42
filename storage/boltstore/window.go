package boltstore

import (
	"bytes"
	"fmt"
	"slices"

	"breakwater/queue"
)

// This file is the walk over the backlog. The store reads forward once, in the
// order of places, and files what it finds under its key; the number of messages
// so held in memory is bounded by windowMax. A key that takes more than its share,
// or that cannot move while the window is full, has its messages listed in the
// parked bucket instead (a pointer of 24 bytes or so, not the message), and is
// served from there. So nothing is walked twice, and neither a hot key, nor ten
// thousand held ones, nor a route that nobody works on keep the walk from reaching
// the others.

const (
	// defaultWindow is how many messages all windows hold together, about 24
	// bytes each, beside a head for every open key.
	defaultWindow = 1 << 16
	// keyWindow is one key's share: enough for the largest claim.
	keyWindow = 1024
	// crowdedWindow is what a leased key keeps when the window is full.
	crowdedWindow = 16
	// unparkStep is how many parked messages of a key come back to the window at once,
	// where one transaction brings back no more than unparkMost in all; further keys of
	// it then get no more than unparkLeast.
	unparkStep  = 256
	unparkMost  = 1024
	unparkLeast = 16
	// walkStep bounds the messages one transaction walks over, evictStep the keys
	// that it looks at to make room.
	walkStep  = 4096
	evictStep = 256
	// parkStep bounds what a walk lists in the bucket parked, and takes from it, in one
	// transaction: each of another key writes a page of its own, so that a commit of
	// walkStep of them took up to 77 ms beside an archive, three in a row, and one of
	// parkStep takes some 5 ms more than one without.
	parkStep = 256
	// headStep is how many heads a walk looks for that goes on beside a full window: as
	// soon as a claim has found enough, nothing more need be parked for it.
	headStep = 256
)

// roomy reports whether the walk may go on: while the window has room, or when what
// fills it is not what somebody wants. Then it files the heads of keys that have
// nothing at hand, and parks what is not a head.
func (t *tables) roomy() bool { return t.windowed < t.windowMax || t.starved }

// crowded reports whether the window is so full that what can't move must leave.
func (t *tables) crowded() bool { return t.windowed >= t.windowMax/4*3 }

// scaled is a bound for windows of the usual size in one that is far smaller.
func (t *tables) scaled(n int) int { return min(n, max(1, t.windowMax/2)) }

// beyond reports whether the walk has yet to reach a place.
func (t *tables) beyond(p queue.Place) bool { return !t.walkedAll && t.walked.Less(p) }

// enter files the newest message of the order under its key, whose open count
// includes it. While the walk is behind, the message is left for the walk.
func (x *txn) enter(k *key, m messageRef) error {
	t := x.t
	if t.walkedAll && t.windowed >= t.windowMax {
		t.walkedAll = false // walked is the place before this one
	}
	if !t.walkedAll {
		return nil
	}
	t.walked = m.place
	return x.shelve(k, m)
}

// shelve puts the next message of the walk into its key's window, or parks it.
func (x *txn) shelve(k *key, m messageRef) error {
	share := x.t.scaled(keyWindow)
	full := x.t.windowed >= x.t.windowMax && len(k.window) > 0 // a head always has room
	if k.parked > 0 || full || len(k.window) >= share || (k.held() && x.t.crowded()) {
		return x.park(k, m.place)
	}
	k.window = append(k.window, m)
	x.t.windowed++
	return nil
}

// park lists a message of a key in the parked bucket.
func (x *txn) park(k *key, p queue.Place) error {
	x.dirty = true
	x.moved++
	k.parked++
	if k.lastParked.Less(p) {
		k.lastParked = p
	}
	return x.b.parked.Put(p.AppendKey(append(make([]byte, 0, 28), k.hash[:]...)), nil)
}

// firstParked is the first place of a key in the parked bucket; zero: none.
func (x *txn) firstParked(k *key) (first queue.Place) {
	if k.parked == 0 {
		return first
	}
	if at, _ := x.b.parked.Cursor().Seek(k.hash[:]); bytes.HasPrefix(at, k.hash[:]) {
		first, _ = queue.ParsePlaceKey(at[len(k.hash):])
	}
	return first
}

// unpark brings a key's next parked messages into its window. What a former
// process parked beyond the walk of this one stays where it is until the walk has
// passed it: there may be a message of the key before it that was at hand in that
// process and is still ahead in this one.
func (x *txn) unpark(k *key) error {
	var taken, stale [][]byte
	most := max(unparkLeast, min(unparkStep, (unparkMost-x.moved)/4))
	c := x.b.parked.Cursor()
	for at, _ := c.Seek(k.hash[:]); bytes.HasPrefix(at, k.hash[:]) && len(taken)+len(stale) < most; at, _ = c.Next() {
		place, ok := queue.ParsePlaceKey(at[len(k.hash):])
		if !ok {
			return fmt.Errorf("%w: a key of %d bytes in bucket parked", queue.ErrDamaged, len(at))
		}
		if x.t.beyond(place) {
			break
		}
		h, ok, err := x.parkedMessage(k, place)
		if err != nil {
			return err
		}
		if !ok && k.relisted {
			stale = append(stale, bytes.Clone(at))
			continue
		}
		if !ok {
			if len(taken) == 0 {
				x.holdStrayed(k, place)
			}
			break
		}
		k.window = append(k.window, refOf(place, h))
		taken = append(taken, bytes.Clone(at))
	}
	for _, at := range append(stale, taken...) {
		x.dirty = true
		if err := x.b.parked.Delete(at); err != nil {
			return err
		}
	}
	x.moved += len(taken)
	k.parked -= int32(len(taken) + len(stale))
	x.t.windowed += len(taken)
	if k.parked == 0 {
		k.lastParked = queue.Place{}
	}
	return nil
}

// parkedMessage reads the message to which a key's entry in bucket parked leads; ok is
// false if that is none of this key. The entry is damaged then: it has stood for another
// place, or another key.
func (x *txn) parkedMessage(k *key, place queue.Place) (h header, ok bool, err error) {
	rec := x.b.backlog.Get(place.AppendKey(nil))
	if rec == nil {
		return h, false, nil
	}
	if h, _, err = x.readableAt(place, rec); err != nil {
		return h, false, err
	}
	return h, h.key == k.hash, nil
}

// holdStrayed makes a key wait whose next entry in bucket parked is damaged: the message
// that it has stood for would be passed over (P5).
func (x *txn) holdStrayed(k *key, place queue.Place) {
	x.t.lift(k)
	k.damaged = max(place.Seq, 1)
	x.t.countKey(k, 1)
	if len(x.t.strayed) < maxDamaged && !slices.Contains(x.t.strayed, k.damaged) {
		x.t.strayed = append(x.t.strayed, k.damaged)
	}
}

// rejoin puts a message that was leased or dead back at its own place, wherever the
// messages of its key are kept: what the walk has not reached since the last start
// stays for the walk, what lies behind a parked one is parked.
func (x *txn) rejoin(k *key, m messageRef) error {
	if x.t.beyond(m.place) {
		return nil
	}
	if x.t.walked.Less(m.place) {
		x.t.walked = m.place // a later walk begins behind all that are filed
	}
	if first := x.firstParked(k); !first.IsZero() && first.Less(m.place) {
		return x.park(k, m.place)
	}
	if n := len(k.window); n > 0 && k.window[n-1].place.Less(m.place) {
		return x.shelve(k, m) // a replay of many must not outgrow the window
	}
	k.insert(m)
	x.t.windowed++
	return nil
}

// walk goes on reading the backlog where it stopped, as far as the window has
// room, in one bounded step.
func (x *txn) walk() error {
	t := x.t
	if t.walkedAll {
		return nil
	}
	moves := x.moved + 2*t.scaled(parkStep/2)
	if t.windowed >= t.windowMax {
		if err := x.evict(x.moved + t.scaled(parkStep/2)); err != nil {
			return err
		}
	}
	most := t.windowMax
	if t.starved {
		most = max(most, t.windowed) + t.scaled(headStep)
	}
	c := x.b.backlog.Cursor()
	from := t.walked.AppendKey(nil)
	at, rec := c.Seek(from)
	if bytes.Equal(at, from) {
		at, rec = c.Next()
	}
	for step := 0; at != nil; at, rec = c.Next() {
		if t.windowed >= most || step == walkStep || x.moved >= moves {
			return nil
		}
		step++
		if err := x.meet(at, rec); err != nil {
			return err
		}
	}
	t.walkedAll = true
	return nil
}

// meet files one message that the walk has come to.
func (x *txn) meet(at, rec []byte) error {
	place, ok := queue.ParsePlaceKey(at)
	if !ok {
		return fmt.Errorf("%w: a key of %d bytes in bucket backlog", queue.ErrDamaged, len(at))
	}
	h, _, err := x.readableAt(place, rec)
	if err != nil {
		return err
	}
	t := x.t
	t.walked = place
	k := t.keys.get(h.key)
	if k == nil {
		return fmt.Errorf("%w: message at place %s is of a key that was never counted", queue.ErrDamaged, place)
	}
	if f := t.flights[h.seq]; f != nil && f.leased() {
		return nil
	}
	if k.parked > 0 && !k.lastParked.Less(place) {
		if !x.parkedAlready(k, at) {
			if err := x.park(k, place); err != nil {
				return err
			}
		}
		if len(k.window) == 0 && k.movable() {
			if err := x.unpark(k); err != nil {
				return err
			}
		}
	} else if err := x.shelve(k, refOf(place, h)); err != nil {
		return err
	}
	if k.movable() {
		t.file(k)
	}
	return nil
}

// parkedAlready reports whether the parked bucket lists a message: what a former
// process parked is met again by the walk of this one.
func (x *txn) parkedAlready(k *key, place []byte) bool {
	want := append(append(make([]byte, 0, 28), k.hash[:]...), place...)
	at, _ := x.b.parked.Cursor().Seek(want)
	return bytes.Equal(at, want)
}

// evict makes room in the window: of the keys it looks at, held ones leave it and
// leased ones keep a few messages. It looks at some keys only, and at the next ones
// when it is called again, while the window stays full. It ends at so many moves, which
// are half of a walk's: so the walk gets on, too.
func (x *txn) evict(moves int) error {
	t := &x.t.keys
	for looked, rows := 0, 0; looked < evictStep && rows < keyRows; rows++ {
		row := t.rows[t.looked]
		if err := x.evictRow(row, moves); err != nil || x.moved >= moves {
			return err // what is left of the row is looked at again
		}
		t.looked = (t.looked + 1) % keyRows
		looked += len(row)
	}
	return nil
}

func (x *txn) evictRow(row map[keyHash]*key, moves int) error {
	for _, k := range row {
		keep := len(k.window)
		if k.held() {
			keep = 0
		} else if k.leased > 0 {
			keep = min(keep, crowdedWindow)
		}
		// From its end: what is parked of a key lies behind what is at hand.
		for last := len(k.window) - 1; last >= keep && x.moved < moves; last-- {
			if err := x.park(k, k.window[last].place); err != nil {
				return err
			}
			k.window = k.window[:last]
			x.t.windowed--
		}
	}
	return nil
}
