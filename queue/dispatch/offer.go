package dispatch

import (
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

const (
	// spillAfter is how long a consumer may have more work than room before others
	// with room are asked for its keys too.
	spillAfter = time.Second
	// maxOffer is how many deliveries one claim asks for on behalf of all consumers.
	maxOffer = 1024
)

// offered is one consumer that a claim asks for.
type offered struct {
	*Session
	from, to int  // its wants
	halved   bool // it had one place, and was asked for one of its routes only
}

// offer adds what the consumers have room for to a request. Each is asked for its own
// share of the slots of its routes, and for what others have had no room for.
func (f *feeder) offer(a *asking, now time.Time) {
	r := f.r
	seats, left := r.desk.attached(), r.leftToConsumers()
	if len(seats) == 0 || left == 0 {
		return
	}
	spilled := f.spilled(seats, now)
	f.firstSeat++ // nobody is always first at what is spilled
	most := max(1, maxOffer/len(seats))
	var mute []*seat // asked for what is left
	for i := range seats {
		at := &seats[(f.firstSeat+i)%len(seats)]
		if at.isMute() {
			mute = append(mute, at)
		} else {
			a.offerTo(at, left, &spilled, most)
		}
	}
	for _, at := range mute {
		a.offerTo(at, left, &spilled, most)
	}
}

// offerTo adds what one consumer has room for, at most so many.
func (a *asking) offerTo(at *seat, left queue.RouteSet, spilled *[len(queue.Routes)]partition.SlotSet, most int) {
	if at.a.Routes&left == 0 {
		return
	}
	room, bytes := at.beginClaim()
	if room == 0 {
		return
	}
	o := offered{Session: at.Session, from: len(a.wants)}
	o.halved = a.addConsumer(at, left, spilled, min(room, most), bytes)
	if o.to = len(a.wants); o.to == o.from {
		at.endClaim() // among so many that no slot is left for it
		return
	}
	a.offered = append(a.offered, o)
}

// spilled returns, for each route, the slots that every consumer may be asked for:
// those of consumers that have had more work than room for a while or are mute, and those
// of keys that one has put back.
func (f *feeder) spilled(seats []seat, now time.Time) (slots [len(queue.Routes)]partition.SlotSet) {
	opened := f.r.desk.openedAt(now)
	for i := range slots {
		slots[i] = opened
	}
	for n := range seats {
		at := &seats[n]
		if at.room() == 0 && at.fullSince.IsZero() {
			at.fullSince = now
		}
		full := !at.fullSince.IsZero() && now.Sub(at.fullSince) >= spillAfter
		if !full && !at.isMute() {
			continue
		}
		for i := range slots {
			slots[i] = slots[i].Or(at.slots[i])
		}
	}
	return slots
}

// nextSpill is when the next consumer will have had no room for so long that others are
// asked for its keys; zero: none will.
func (f *feeder) nextSpill(now time.Time) (next time.Time) {
	for _, at := range f.r.desk.attached() {
		due := at.fullSince.Add(spillAfter)
		if !at.fullSince.IsZero() && due.After(now) && (next.IsZero() || due.Before(next)) {
			next = due
		}
	}
	return next
}

// addConsumer asks for one consumer: at once for both routes if its slots are the same
// for both, else for each by itself. It reports whether one of them was left out.
func (a *asking) addConsumer(at *seat, left queue.RouteSet, spilled *[len(queue.Routes)]partition.SlotSet, room, bytes int) (halved bool) {
	var wants []queue.Want
	for i, route := range queue.Routes {
		routes := queue.RoutesOf(route) & left & at.a.Routes
		slots := at.slots[i].Or(spilled[i])
		switch {
		case routes == 0 || slots.Empty():
		case len(wants) > 0 && wants[0].Slots == slots:
			wants[0].Routes |= routes
		default:
			wants = append(wants, queue.Want{Owner: at.a.Owner, Slots: slots, Routes: routes, PerKey: 1, Lease: at.a.Lease})
		}
	}
	at.turn++
	for i := range wants {
		w := &wants[(i+at.turn)%len(wants)]
		// The last one gets what the others leave.
		w.Max = (room + len(wants) - 1 - i) / (len(wants) - i)
		w.MaxBytes = max(1, bytes/len(wants))
		room -= w.Max
		if w.Max == 0 {
			halved = true
			continue
		}
		a.wants = append(a.wants, *w)
		a.to, a.probing = append(a.to, claimant(at.Session)), append(a.probing, nil)
	}
	return halved
}

// seated ends the claims of the consumers that were asked for; res is nil when the
// store has refused. It reports whether it is worth asking again at once.
func (f *feeder) seated(a *asking, res *queue.ClaimResult, now time.Time) (again bool) {
	for i := range a.offered {
		o := &a.offered[i]
		room := o.endClaim()
		if res == nil {
			continue
		}
		filled := false
		for n := o.from; n < o.to; n++ {
			filled = filled || a.wants[n].Full(len(res.Deliveries[n]), lineBytes(res.Deliveries[n]))
		}
		again = f.noteRoom(o, room, filled, res.More, now) || again
	}
	return again
}

// noteRoom notes how a consumer stands after a claim: full since when, or with room to
// spare. It reports whether there may be more for it at once.
//
// Where it was asked for one of its routes only, the next claim asks for the other one.
// That two claims in a row have found nothing ends it for all: counted for each by
// itself, two consumers could keep each other asking for ever.
func (f *feeder) noteRoom(o *offered, room int, filled, more bool, now time.Time) (again bool) {
	switch {
	case room == 0:
		if o.fullSince.IsZero() {
			o.fullSince = now
		}
	case filled, o.halved && f.dry < len(queue.Routes):
		return true
	case !more:
		o.fullSince = time.Time{}
	}
	return false
}

// lineBytes is how long the lines of deliveries are together.
func lineBytes(deliveries []queue.Delivery) (n int) {
	for i := range deliveries {
		n += len(deliveries[i].Message.Line)
	}
	return n
}
