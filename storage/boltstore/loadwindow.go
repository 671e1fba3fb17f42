package boltstore

import (
	"fmt"

	"github.com/cespare/xxhash/v2"

	"breakwater/queue"
)

// This file fills the windows while a load walks over the backlog, in a transaction
// that cannot write. What a former process parked needs no place in a window; but
// between two parked messages of a key there may be others, which the walk of the
// process that parked them had not come to. To ask the parked bucket about each
// message made a start with a million parked ones twice as long. So the load takes
// those between a key's first and last parked place for parked, and compares sums at
// the end: of what is listed, and of what lies there. Only where a key's differ, the
// windows are filled again, and each message is asked for.

// filling is how far a load has filled the windows.
type filling struct {
	filing   bool // nothing was met yet that must wait for the walk
	asking   bool // whether a message is parked is looked up
	listings map[*key]*listing
}

// listing is what the parked bucket says of one key, of which key.parked and
// key.lastParked are the rest.
type listing struct {
	first queue.Place
	sum   uint64 // of the hashes of its places, less those of the messages that lie between the first and the last
}

// parked counts what each key has parked, and between which places.
func (l *loader) parked() error {
	l.listings = map[*key]*listing{}
	var k *key
	var of *listing
	return l.b.parked.ForEach(func(at, _ []byte) error {
		place, ok := queue.ParsePlaceKey(at[min(len(at), len(keyHash{})):])
		if !ok {
			return fmt.Errorf("%w: a key of %d bytes in bucket parked", queue.ErrDamaged, len(at))
		}
		if hash := keyHash(at[:len(keyHash{})]); k == nil || k.hash != hash {
			k = l.t.keyOf(hash, 0) // its slot comes with its messages
			of = &listing{first: place}
			l.listings[k] = of
		}
		k.parked++
		k.lastParked = place
		of.sum += placeSum(place)
		return nil
	})
}

func placeSum(p queue.Place) uint64 {
	var buf [queue.MaxPlaceKey]byte
	return xxhash.Sum64(p.AppendKey(buf[:0]))
}

// fill puts a message into its key's window. It stops for good at the first one that
// would have to be parked, that has been and now is its key's next, or for which the
// window has no room: the walk goes on from there, in transactions that may write.
func (l *loader) fill(k *key, ref messageRef, leased bool) {
	behind, parked := l.listed(k, ref.place, leased)
	switch {
	case !l.filing:
		return
	case leased:
	case parked:
		l.filing = len(k.window) > 0 || !k.movable()
	case behind, len(k.window) >= keyWindow, l.t.windowed >= l.t.windowMax:
		l.filing = false
	default:
		k.window = append(k.window, ref)
		l.t.windowed++
	}
	if l.filing {
		l.t.walked = ref.place
	}
}

// listed reports whether a message lies behind a parked one of its key, and whether it
// is parked itself.
func (l *loader) listed(k *key, p queue.Place, leased bool) (behind, parked bool) {
	if k.parked == 0 || leased {
		return false, false
	}
	of := l.listings[k]
	if p.Less(of.first) || k.lastParked.Less(p) {
		return of.first.Less(p), false
	}
	if l.asking {
		return true, l.parkedAlready(k, p.AppendKey(nil))
	}
	of.sum -= placeSum(p)
	return true, true
}

// filled ends the filling.
func (l *loader) filled() error {
	for _, of := range l.listings {
		if of.sum != 0 && !l.t.walked.Less(of.first) {
			if err := l.refill(); err != nil {
				return err
			}
			break
		}
	}
	for k, of := range l.listings {
		k.relisted = of.sum != 0
	}
	l.listings = nil
	l.t.walkedAll = l.filing
	return nil
}

// refill fills the windows again, and asks for each message whether it is parked.
func (l *loader) refill() error {
	t := l.t
	for k := range t.keys.all() {
		k.window = nil
	}
	t.windowed, t.walked, l.filing, l.asking = 0, queue.Place{}, true, true
	c := l.b.backlog.Cursor()
	for at, rec := c.First(); at != nil && l.filing; at, rec = c.Next() {
		place, _ := queue.ParsePlaceKey(at) // it was counted
		h, _, err := l.readableAt(place, rec)
		if err != nil {
			return err
		}
		f := t.flights[h.seq]
		l.fill(t.keys.get(h.key), refOf(place, h), f != nil && f.leased())
	}
	return nil
}
