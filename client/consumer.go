package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// leaveTime is how long a consumer that is to end waits for the server, once nothing
// of its own is left to be done.
const leaveTime = 10 * time.Second

// Consumer takes exceptions from a consume socket. Path and Name are required. It may
// be used again after it has ended, but not twice at once: a name is attached once.
type Consumer struct {
	Path string // of the socket
	// Name is what the consumer is known by, in the trail too: 1 to 64 bytes that can
	// be seen. Who attaches under the same name, as the same user, has its leases.
	Name     string
	Prefetch int           // at most so many deliveries without an answer, and never more than Max; 0: 1
	Routes   []string      // only of these; nil: of all
	Lease    time.Duration // how long a delivery is its own; 0: as the server is configured
	Max      int           // Run ends when so many deliveries were answered; 0: it does not

	// Waiting is told of each lost or refused connection that will be tried again.
	Waiting func(err error, after time.Duration)
	// Answered is told what became of each answer that Run gave. In the place of one that
	// cannot be taken, as it is not UTF-8 or the server does not understand it, Run gives
	// a Retry whose Reason says so.
	Answered func(d Delivery, a Answer, e Event)
}

// ErrLeaseLost is the cause with which the context of a handler ends: the delivery is
// not its own any more, and is handed out again.
var ErrLeaseLost = errors.New("the lease was lost")

// Run attaches and calls handle for each delivery, in a goroutine of its own, at most
// Prefetch at a time and never two of one partition key. It extends leases while handle
// works, sends answers that come together together, and comes back after lost
// connections and restarts of the server: the work goes on meanwhile.
//
// When ctx ends, or Max is reached, it takes nothing more, waits for what has begun and
// for its answers to be confirmed, and detaches; then it returns nil. The context of
// handle does not end with ctx, but when the lease is lost. Any other error is that of
// [Consumer.Attach] or [Session.Next].
func (c *Consumer) Run(ctx context.Context, handle func(ctx context.Context, d Delivery) Answer) error {
	s, err := c.Attach(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil // it was told to end before there was anything
		}
		return err
	}
	defer s.Close()
	r := &running{c: c, s: s, handle: handle, taking: true, jobs: map[string]*job{}, busy: map[string]bool{}}
	r.working, r.lose = context.WithCancelCause(context.WithoutCancel(ctx))
	defer r.lose(nil)
	return r.run(ctx)
}

// running is one Run. What is not guarded belongs to its goroutine.
type running struct {
	c      *Consumer
	s      *Session
	handle func(context.Context, Delivery) Answer

	working context.Context // of all handlers
	lose    context.CancelCauseFunc
	hands   sync.WaitGroup
	taking  bool       // else it ends what it has begun
	taken   int        // deliveries that were begun
	waiting []Delivery // not begun: for a hand, for their key, or as there are more than Max

	mu   sync.Mutex
	jobs map[string]*job // by lease, until the answer is confirmed
	busy map[string]bool // the partition keys of what is worked on
}

// job is a delivery that is worked on, or whose answer is not confirmed.
type job struct {
	d      Delivery
	answer *Answer // nil: it is worked on
	faulty bool    // the answer before was not understood
	lose   context.CancelCauseFunc
}

// run goes on until it is told to end and has nothing more to do.
func (r *running) run(ctx context.Context) error {
	ending, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	listening := ctx
	for {
		if r.taking && (ctx.Err() != nil || r.c.Max > 0 && r.taken >= r.c.Max) {
			r.taking, listening = false, ending
			go r.loseHeart(ctx, ending, giveUp)
		}
		if !r.taking && r.unfinished() == 0 {
			r.leave(ending)
			return nil
		}
		e, err := r.s.Next(listening)
		switch {
		case err == nil:
			r.heed(&e)
			r.start()
		case listening == ctx && ctx.Err() != nil:
		case listening.Err() != nil:
			return fmt.Errorf("%w: %d answers are not confirmed", ErrLost, r.unfinished())
		default:
			r.lose(err)
			r.hands.Wait()
			return err
		}
	}
}

// loseHeart ends the waiting for a server that is not there, some time after Run was
// told to end and nothing is worked on any more.
func (r *running) loseHeart(ctx, ending context.Context, giveUp func()) {
	r.hands.Wait()
	select {
	case <-ctx.Done():
	case <-ending.Done():
	}
	sleep(ending, leaveTime)
	giveUp()
}

// leave has the server put back what was not begun. If it is not there, that waits
// until the leases end.
func (r *running) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTime)
	defer cancel()
	_ = r.s.Detach(ctx, nil)
}

// unfinished is how many deliveries are worked on or not confirmed.
func (r *running) unfinished() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.jobs)
}

// heed does what an event asks for.
func (r *running) heed(e *Event) {
	switch e.Kind {
	case Delivered:
		r.waiting = append(r.waiting, *e.Delivery)
	case Attached:
		r.mu.Lock()
		defer r.mu.Unlock()
		for lease := range r.jobs {
			r.extend(lease)
		}
	case LeaseEnding:
		r.mu.Lock()
		defer r.mu.Unlock()
		r.extend(e.Lease)
		r.giveBack(e.Lease)
	case Settled, Refused, Faulty:
		r.answered(e)
	}
}

// extend asks for a new lease of what is worked on. If it is refused, the work ends.
func (r *running) extend(lease string) {
	if j := r.jobs[lease]; j != nil && j.answer == nil {
		_ = r.say(lease, &Answer{Verb: Extend}) // a lease that was received is text
	}
}

// giveBack puts back what was not begun: the end of its lease would count as a delivery.
// Sooner it is not, as the next one would come in its place, again and again.
func (r *running) giveBack(lease string) {
	if i := slices.IndexFunc(r.waiting, func(d Delivery) bool { return d.Lease == lease }); i >= 0 {
		r.waiting = slices.Delete(r.waiting, i, i+1)
		_ = r.say(lease, &Answer{Verb: Release, Reason: "not begun"}) // a lease that was received is text
	}
}

// say has an answer sent; it returns the error of one that cannot be spelled.
func (r *running) say(lease string, a *Answer) error {
	line, err := a.line(lease)
	if err == nil {
		r.s.put(&sent{lease: lease, text: line})
	}
	return err
}

// give has what a handler said of a job sent. What cannot be said is a failure: it counts,
// so that it ends some time, and nothing is settled by mistake. The lock is held.
func (r *running) give(j *job, a Answer) {
	j.answer = &a
	if err := r.say(j.d.Lease, j.answer); err != nil {
		r.fail(j, err.Error())
	}
}

// fail has a job answered as failed, since its answer cannot be taken. The lock is held.
func (r *running) fail(j *job, why string) {
	j.faulty, j.answer = true, &Answer{Verb: Retry, Reason: "the answer cannot be taken: " + why, Unanswered: true}
	_ = r.say(j.d.Lease, j.answer) // it is text: a lease that was received, and our own
}

// answered notes what became of an answer, or of the wish for a longer lease.
func (r *running) answered(e *Event) {
	r.mu.Lock()
	j := r.jobs[e.Lease]
	switch {
	case j == nil:
		r.mu.Unlock()
		return
	case j.answer == nil:
		r.mu.Unlock()
		j.lose(ErrLeaseLost)
		return
	}
	a := *j.answer
	if again := e.Kind == Faulty && !j.faulty; again {
		r.fail(j, e.Error)
	} else {
		delete(r.jobs, e.Lease)
	}
	r.mu.Unlock()
	if r.c.Answered != nil {
		r.c.Answered(j.d, a, *e)
	}
}

// start begins what waits, as far as there are hands and its key is not worked on.
func (r *running) start() {
	r.mu.Lock()
	defer r.mu.Unlock()
	rest := r.waiting[:0]
	for _, d := range r.waiting {
		switch {
		case !d.Deadline.After(time.Now()): // somebody else has it by now
		case !r.taking || r.c.Max > 0 && r.taken >= r.c.Max || r.busy[d.PartitionKey] || len(r.busy) >= max(r.c.Prefetch, 1):
			rest = append(rest, d)
		default:
			r.begin(d)
		}
	}
	r.waiting = rest
}

// begin begins one delivery. The lock is held.
func (r *running) begin(d Delivery) {
	r.taken++
	ctx, lose := context.WithCancelCause(r.working)
	j := &job{d: d, lose: lose}
	r.jobs[d.Lease], r.busy[d.PartitionKey] = j, true
	r.hands.Go(func() {
		defer lose(nil)
		a := r.handle(ctx, d)
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.busy, d.PartitionKey)
		r.give(j, a)
	})
}
