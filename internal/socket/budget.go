package socket

import "sync"

// budget is what all connections share for the lines that are read but not yet stored.
// Who has to wait is served in the order of asking, so that many small batches never
// keep a large one out.
//
// There is no semaphore.Weighted because the size changes with a reload, and a share is
// cut to the size at the moment at which it is given: a batch that is larger than all
// there is takes all, whatever that is when its turn comes, and never waits for ever.
type budget struct {
	mu      sync.Mutex
	size    int64 // bytes
	used    int64 // bytes; over size only after size became less
	waiting []*share
}

// share is what somebody waits for.
type share struct {
	want  int64
	given int64         // set before ready is closed
	ready chan struct{} // closed when it is given
}

func newBudget(size int64) *budget { return &budget{size: size} }

// take waits for a share of n bytes, or of all there is if that is less, and returns
// how much it is: what give has to be called with.
func (b *budget) take(n int64) int64 {
	s := b.ask(n)
	<-s.ready
	return s.given
}

// ask puts a share of n bytes behind those that wait.
func (b *budget) ask(n int64) *share {
	s := &share{want: n, ready: make(chan struct{})}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting = append(b.waiting, s)
	b.serve()
	return s
}

// give returns a share of n bytes.
func (b *budget) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.used -= n
	b.serve()
}

// resize changes how much there is. What was given stays given: while that is more than
// there is now, nobody gets anything.
func (b *budget) resize(size int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.size = size
	b.serve()
}

// serve gives to those in front what there is for them. b.mu is held.
func (b *budget) serve() {
	n := 0
	for ; n < len(b.waiting); n++ {
		s := b.waiting[n]
		s.given = min(s.want, b.size)
		if b.used+s.given > b.size {
			break
		}
		b.used += s.given
		close(s.ready)
	}
	clear(b.waiting[:n]) // the rest of the array keeps nothing alive
	b.waiting = b.waiting[n:]
	if len(b.waiting) == 0 {
		b.waiting = nil
	}
}
