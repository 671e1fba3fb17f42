package dispatch

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"breakwater/partition"
)

// crew is the workers there are. The feeder alone changes it while they run: who is
// in it is who it gives work to.
type crew struct {
	mu      sync.Mutex
	present []*worker // never changed in place
	leaving map[*worker]struct{}
}

// fed returns the workers that get work.
func (c *crew) fed() []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.present
}

// holders returns all that may hold leases, those that leave included.
func (c *crew) holders() []*worker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.AppendSeq(slices.Clone(c.present), maps.Keys(c.leaving))
}

// staffing is how many workers there are to be, and their room together.
type staffing struct{ workers, room int }

// assign makes the crew that is asked for out of the present one: a worker whose name
// and room stay is kept. It returns those that begin and those that leave. The slots
// are shared out anew; only as many move as have to.
func (c *crew) assign(r *Runner, want staffing) (begin, leave []*worker) {
	names := make([]string, want.workers)
	for i := range names {
		names[i] = fmt.Sprintf("w-%d", i)
	}
	slots := partition.Assign(names)
	c.mu.Lock()
	defer c.mu.Unlock()
	next := make([]*worker, want.workers)
	for i, name := range names {
		share := want.room / want.workers
		if i < want.room%want.workers {
			share++
		}
		if i < len(c.present) && cap(c.present[i].items) == share {
			next[i] = c.present[i]
			next[i].slots = slots.Set(i)
			continue
		}
		next[i] = newWorker(r, name, slots.Set(i), share)
		begin = append(begin, next[i])
	}
	for i, w := range c.present {
		if i >= len(next) || next[i] != w {
			leave = append(leave, w)
			c.leaving[w] = struct{}{}
		}
	}
	c.present = next
	return begin, leave
}

// forget takes a worker off the list that has left.
func (c *crew) forget(w *worker) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.leaving, w)
}

// begin puts a worker to work in a shift.
func (s *shift) begin(w *worker) {
	s.hands.Go(func() {
		defer close(w.gone)
		w.run(s)
	})
}

// restaff changes the crew while it works. Who leaves finishes what it has begun; what
// is queued for it goes back at once. The store hands out no key that has a lease, so
// that no key is ever at two workers, whoever owns its slot; until the last one has
// left, more may run at once than is configured. Only the feeder calls it.
func (s *shift) restaff(r *Runner, want staffing) {
	begin, leave := r.crew.assign(r, want)
	for _, w := range leave {
		close(w.items)
		s.hands.Go(func() {
			w.putBackQueued(s, "its worker leaves")
			<-w.gone
			r.crew.forget(w)
		})
	}
	for _, w := range begin {
		s.begin(w)
	}
}
