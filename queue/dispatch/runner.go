package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// Runner runs a store's messages through handlers. Make one with New; Run works
// until it is told to stop; Submit may be called before, during and after, as long
// as the store is open.
type Runner struct {
	store    queue.Store
	log      hclog.Logger
	observer Observer
	now      func() time.Time
	random   func() uint32
	settings atomic.Pointer[Settings]

	crew   crew
	wanted atomic.Pointer[staffing] // what the crew is to be; the feeder takes it
	routes map[queue.Route]*route   // all there are; the map never changes
	desk   desk                     // the consumers that are attached

	// moving is held while leases are given out or expired ones taken back: who let
	// one run out is known before its message is given to anybody.
	moving turn

	samples  samples       // for Recent
	waiters  waiters       // producers whose lines wait for room
	soonest  soonest       // of the messages scheduled since the feeder looked
	wake     signal        // there may be work to claim, or room to claim it for
	room     signal        // there may be room for lines that wait
	draining chan struct{} // closed when the taking ends
	drain    sync.Once
	ended    chan struct{} // closed when Run has ended

	failOnce sync.Once
	failed   chan struct{} // closed when the store has failed
	failure  error         // set before failed is closed
}

// New returns a Runner that does nothing until Run. The error names the option
// that is wrong.
func New(o Options) (*Runner, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	r := &Runner{
		store: o.Store, log: o.Log, observer: o.Observer, now: o.Now, random: o.Random,
		routes: map[queue.Route]*route{}, moving: newTurn(), wake: newSignal(), room: newSignal(),
		draining: make(chan struct{}), failed: make(chan struct{}), ended: make(chan struct{}),
	}
	if r.log == nil {
		r.log = hclog.NewNullLogger()
	}
	if r.now == nil {
		r.now = time.Now
	}
	if r.random == nil {
		r.random = rand.Uint32
	}
	r.settings.Store(&o.Settings)
	for _, name := range queue.Routes {
		r.routes[name] = &route{}
	}
	r.setHandlers(o.Handlers)
	r.crew.leaving = map[*worker]struct{}{}
	r.crew.assign(r, staffing{o.Workers, o.Room})
	return r, nil
}

// Wake says that somebody else has changed the store: a consumer's answer, an
// operator's release or replay. There may be work to claim now, and room.
func (r *Runner) Wake() {
	r.wake.raise()
	r.room.raise()
}

// Drained says how a Run ended.
type Drained struct {
	Released int // deliveries put back that had not been started
	CutOff   int // running handlers that the drain's time limit ended; put back
}

// Clean reports whether nothing had to be cut off.
func (d Drained) Clean() bool { return d.CutOff == 0 }

// shift is one Run: what its workers share.
type shift struct {
	asked    chan struct{}   // closed shortly before working ends, at a drain: who can end by itself should
	working  context.Context // ends the handlers that still run
	settling context.Context // ends the patience of settlements

	// hands are the workers. The feeder adds to them, and has left before anybody
	// waits for them.
	hands sync.WaitGroup

	released, cutOff atomic.Int64
}

func (s *shift) drained() Drained {
	return Drained{Released: int(s.released.Load()), CutOff: int(s.cutOff.Load())}
}

// Run works until stop ends, then drains: claims and waiting lines end at once,
// what is queued is put back, running handlers get DrainTimeout, or less if hurry
// ends before. It returns when the last goroutine has left. Its error is the
// store's failure, after which nothing more was written. A Runner runs once.
func (r *Runner) Run(stop, hurry context.Context) (Drained, error) {
	lasting := context.WithoutCancel(stop)
	working, endWork := context.WithCancel(lasting)
	defer endWork()
	settling, endSettling := context.WithCancel(lasting)
	defer endSettling()
	s := &shift{asked: make(chan struct{}), working: working, settling: settling}

	var taking, keeper sync.WaitGroup
	for _, w := range r.crew.fed() {
		s.begin(w)
	}
	taking.Go(func() { (&feeder{r: r, shift: s}).run(stop) })
	taking.Go(func() { r.watch(stop) })
	taking.Go(func() { r.expire(stop) })
	keeping, endKeeping := context.WithCancel(lasting)
	defer endKeeping()
	keeper.Go(func() { r.keepLeases(keeping) })

	select {
	case <-stop.Done():
	case <-r.failed:
	}
	r.stopTaking()
	taking.Wait() // nobody sends to the workers any more
	for _, w := range r.crew.fed() {
		close(w.items)
		s.hands.Go(func() { w.putBackQueued(s, draining) })
	}
	s.hands.Go(func() { s.released.Add(r.clearDesk(settling)) })
	finished := make(chan struct{})
	go func() { s.hands.Wait(); close(finished) }()
	r.awaitHands(s, finished, hurry)
	endWork()
	defer time.AfterFunc(settleTime, endSettling).Stop()
	<-finished
	endKeeping()
	keeper.Wait()
	close(r.ended)
	return s.drained(), r.failedWith()
}

// askedBefore is how long before the drain's limit handlers are asked to end, but no more
// than a tenth of it: as commands are before their own time limit.
const askedBefore = 2 * time.Second

// awaitHands gives running handlers the drain's time, and asks them to end shortly before
// it is over.
func (r *Runner) awaitHands(s *shift, finished <-chan struct{}, hurry context.Context) {
	timeout := r.settings.Load().DrainTimeout
	grace := min(askedBefore, timeout/10)
	limit := time.NewTimer(timeout - grace)
	defer limit.Stop()
	for asked := false; ; asked = true {
		select {
		case <-limit.C:
			if asked {
				return
			}
			close(s.asked)
			limit.Reset(grace)
		case <-finished:
			return
		case <-hurry.Done():
			return
		case <-r.failed:
			return
		}
	}
}

// stopTaking ends claims, and the waiting of lines for room.
func (r *Runner) stopTaking() { r.drain.Do(func() { close(r.draining) }) }

// Drain makes lines that wait for room be refused, from now on, and ends claims.
// Run does it too; a caller that wants its sockets answered first calls it before.
func (r *Runner) Drain() { r.stopTaking() }

// Draining reports whether the taking has ended.
func (r *Runner) Draining() bool {
	select {
	case <-r.draining:
		return true
	default:
		return false
	}
}

// fail notes that the store is over; Run ends, and nothing more is begun: there
// is nowhere to write down what became of it. Only the first error counts.
func (r *Runner) fail(doing string, err error) {
	r.failOnce.Do(func() {
		r.failure = fmt.Errorf("%s: %w", doing, err)
		close(r.failed)
	})
	r.stopTaking()
}

func (r *Runner) hasFailed() bool {
	select {
	case <-r.failed:
		return true
	default:
		return false
	}
}

// failedWith returns the error that the store ended with, if it has.
func (r *Runner) failedWith() error {
	if r.hasFailed() {
		return r.failure
	}
	return nil
}

// fatal reports whether an error means that the store will never answer again.
func fatal(err error) bool { return errors.Is(err, queue.ErrFailed) || errors.Is(err, queue.ErrClosed) }
