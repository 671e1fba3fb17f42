package dispatch

import (
	"slices"
	"sync"
	"time"

	"breakwater/partition"
	"breakwater/queue"
)

// desk is the consumers there are, and who of them is asked first for which slots.
// The zero value is ready.
type desk struct {
	mu    sync.Mutex
	names map[string]*Session // in use: also by those that come and go
	seats []seat              // those that get work; never changed in place

	// opened are the slots of keys that a consumer has put back, and until when any
	// other may have them too: the one that is preferred does not want them now.
	opened map[partition.Slot]time.Time
}

// seat is a consumer's place at the desk: its share of the slots of each route that
// it serves, among those who serve it too.
type seat struct {
	*Session
	slots [len(queue.Routes)]partition.SlotSet
}

// reserve takes a name into use.
func (d *desk) reserve(s *Session) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[s.a.Owner.Name] != nil {
		return queue.ErrNameInUse
	}
	if d.names == nil {
		d.names = map[string]*Session{}
	}
	d.names[s.a.Owner.Name] = s
	return nil
}

// free lets somebody else have the name.
func (d *desk) free(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.names[s.a.Owner.Name] == s {
		delete(d.names, s.a.Owner.Name)
	}
}

// find returns the consumer that an owner of leases is; nil: it is not here.
func (d *desk) find(o queue.Owner) *Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	if s := d.names[o.Name]; s != nil && s.a.Owner == o {
		return s
	}
	return nil
}

// seat gives a consumer that has a name its share of the work.
func (d *desk) seat(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seats = share(append(slices.Clone(d.seats), seat{Session: s}))
}

// unseat takes the work of a consumer away and shares it out among the others.
func (d *desk) unseat(s *Session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(d.seats), func(at seat) bool { return at.Session == s })
	if len(rest) < len(d.seats) {
		d.seats = share(rest)
	}
}

// attached returns who gets work.
func (d *desk) attached() []seat {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.seats
}

// share gives each seat its slots of each route. By rendezvous hashing who comes or
// goes moves only its own share.
func share(seats []seat) []seat {
	for i, route := range queue.Routes {
		var names []string
		var who []int
		for n := range seats {
			seats[n].slots[i] = partition.SlotSet{}
			if seats[n].a.Routes.Has(route) {
				names, who = append(names, seats[n].a.Owner.Name), append(who, n)
			}
		}
		shares := partition.Assign(names)
		for k, n := range who {
			seats[n].slots[i] = shares.Set(k)
		}
	}
	return seats
}

// open lets any consumer have a key, and those that share its slot, until a time.
func (d *desk) open(key string, until time.Time) {
	slot := partition.SlotOf(key)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.opened == nil {
		d.opened = map[partition.Slot]time.Time{}
	}
	if until.After(d.opened[slot]) {
		d.opened[slot] = until
	}
}

// openedAt returns the slots that are open to all.
func (d *desk) openedAt(now time.Time) (set partition.SlotSet) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for slot, until := range d.opened {
		if until.After(now) {
			set.Add(slot)
		} else {
			delete(d.opened, slot)
		}
	}
	return set
}

// Consumers returns how many consumers are attached.
func (r *Runner) Consumers() int { return len(r.desk.attached()) }

// ConsumersOf returns how many of the attached consumers serve a route, and how many
// more deliveries they would take now.
func (r *Runner) ConsumersOf(route queue.Route) (attached, room int) {
	for _, at := range r.desk.attached() {
		if at.a.Routes.Has(route) {
			attached++
			room += at.room()
		}
	}
	return attached, room
}

// leftToConsumers returns the routes that have no handler in this process.
func (r *Runner) leftToConsumers() (left queue.RouteSet) {
	for name, rt := range r.routes {
		if rt.inProcess() == nil {
			left |= queue.RoutesOf(name)
		}
	}
	return left
}
