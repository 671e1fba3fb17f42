package dispatch

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"breakwater/queue"
)

const (
	// mailboxBytes is how many bytes may wait for a consumer that does not ask for
	// them before nothing more is claimed for it.
	mailboxBytes = 256 << 10
	// deliveryOverhead is what a delivery counts against it besides its line.
	deliveryOverhead = 512
	// endingShare of a lease is left when its consumer is told that it ends.
	endingShare = 3
)

// Session is an attached consumer: what it holds, and what it has still to be told.
// One goroutine may ask for what is next while others answer.
type Session struct {
	r    *Runner
	a    queue.Attachment
	bell signal        // there may be something to tell
	over chan struct{} // closed when it is left

	// The feeder's: since when it has had no room for all that there is for it, and whose
	// turn it is of its routes.
	fullSince time.Time
	turn      int

	mu        sync.Mutex
	left      bool          // it is over
	busy      int           // claims and answers under way
	quiet     chan struct{} // when it was left: closed when nothing is under way
	unsettled map[queue.Token]*lent
	mailbox   []queue.Delivery // not told yet
	bytes     int              // of what it was not told
	unread    time.Time        // since when something lies in it
	stalled   bool             // it left its mailbox unread: nothing is claimed until it asks
	mute      bool             // a lease of it ran out, and it has not answered anything since
	ending    time.Time        // no lease is to be told to end before; zero: none is
	toldDrain bool             // Next's alone

	// claiming is set while the store may name leases of this owner that the session
	// does not know of yet. Those that end meanwhile are kept in early, so that they
	// are not taken in afterwards.
	claiming bool
	early    map[queue.Token]struct{}

	former takeover
	stale  stale
}

// lent is a lease that a consumer has.
type lent struct {
	route    queue.Route
	deadline time.Time
	warned   bool // it was told that it ends
	bytes    int  // in the mailbox; 0: it was told
	fresh    bool // no session was ever told of it
}

// Attach takes a consumer in. It gets its leases of before again, then new ones, as
// soon as it asks with Next. The error is ErrNameInUse, ErrDraining, the store's, or
// names what is wrong with the attachment.
func (r *Runner) Attach(ctx context.Context, a queue.Attachment) (*Session, error) {
	if err := checkAttachment(&a); err != nil {
		return nil, err
	}
	s := &Session{r: r, a: a, bell: newSignal(), over: make(chan struct{}), unsettled: map[queue.Token]*lent{}}
	if err := r.failedWith(); err != nil {
		return nil, err
	}
	if r.Draining() {
		return nil, queue.ErrDraining
	}
	if err := r.desk.reserve(s); err != nil {
		return nil, err
	}
	err := s.come(ctx)
	if err != nil {
		r.desk.free(s)
		return nil, err
	}
	r.wake.raise()
	return s, nil
}

func checkAttachment(a *queue.Attachment) error {
	switch {
	case a.Owner.Kind != queue.Consumer || a.Owner.Name == "":
		return errField("Attachment.Owner", a.Owner)
	case a.Prefetch < 1:
		return errField("Attachment.Prefetch", a.Prefetch)
	case a.Routes&queue.RoutesOf(queue.Routes[:]...) == 0:
		return errField("Attachment.Routes", a.Routes)
	case a.Lease <= 0:
		return errField("Attachment.Lease", a.Lease)
	}
	return nil
}

// come writes down that the consumer is here, and gives it its leases and its place.
func (s *Session) come(ctx context.Context) error {
	r := s.r
	if err := s.resume(ctx); err != nil {
		return err
	}
	err := r.store.Note(ctx, r.now(), []queue.Record{s.record(queue.EventAttached, "", s.terms())})
	if err != nil {
		if fatal(err) {
			r.fail("attach", err)
		}
		return err
	}
	r.desk.seat(s)
	return nil
}

// terms is what ATTACHED says of an attachment.
func (s *Session) terms() any {
	var routes []queue.Route
	for _, route := range queue.Routes {
		if s.a.Routes.Has(route) {
			routes = append(routes, route)
		}
	}
	return struct {
		Prefetch int           `json:"prefetch"`
		Routes   []queue.Route `json:"routes"`
		LeaseMs  int64         `json:"lease_timeout_ms"`
	}{s.a.Prefetch, routes, s.a.Lease.Milliseconds()}
}

// record is one of a consumer's coming or going.
func (s *Session) record(e queue.Event, reason string, detail any) queue.Record {
	text, err := json.Marshal(detail)
	if err != nil {
		text = nil // a struct of numbers and names always marshals
	}
	return queue.Record{Event: e, TS: s.r.now(), Worker: s.a.Owner.Name, Reason: reason, Detail: text, Peer: &s.a.Peer}
}

// Next returns what the consumer is to be told next, as soon as there is something.
// The error is that of ctx, ErrDetached, or the store's failure. One goroutine may ask
// at a time.
func (s *Session) Next(ctx context.Context) (queue.Notice, error) {
	for {
		now := s.r.now()
		n, ends, err := s.tell(now)
		if err != nil || n.Draining || len(n.Deliveries)+len(n.Ending) > 0 {
			return n, err
		}
		if s.hasMore() {
			if err := s.resume(ctx); err != nil {
				return n, err
			}
			continue
		}
		if err := s.await(ctx, ends, now); err != nil {
			return n, err
		}
	}
}

// hasMore reports whether there are leases of before that it was not given again, and
// room for one. A drain lets them be: they stay.
func (s *Session) hasMore() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.former.more && len(s.unsettled) < s.a.Prefetch && !s.r.Draining()
}

// await waits until there may be something to tell: at the latest when a lease ends.
func (s *Session) await(ctx context.Context, ends, now time.Time) error {
	pause := idleWait
	if !ends.IsZero() {
		pause = max(time.Millisecond, min(pause, ends.Sub(now)))
	}
	draining := s.r.draining
	if s.toldDrain {
		draining = nil
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-s.bell:
	case <-timer.C:
	case <-draining:
	case <-s.over:
	case <-s.r.failed:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// tell returns what there is to tell now, and when the next lease is to be told to
// end; zero: none is. Once the drain has begun it delivers nothing more.
func (s *Session) tell(now time.Time) (n queue.Notice, ends time.Time, err error) {
	draining := s.r.Draining()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.r.failedWith(); err != nil {
		return n, ends, err
	}
	switch {
	case s.left:
		return n, ends, queue.ErrDetached
	case !draining:
		n.Deliveries = s.takeMail()
	case !s.toldDrain:
		s.toldDrain, n.Draining = true, true
	}
	n.Ending = s.endings(now)
	return n, s.ending, nil
}

// takeMail empties the mailbox. What lay there and was taken back is left out.
func (s *Session) takeMail() []queue.Delivery {
	if s.stalled || s.former.more || s.bytes >= mailboxBytes {
		s.r.wake.raise() // there was no room for more
	}
	s.stalled = false
	told := s.mailbox[:0:len(s.mailbox)]
	for _, d := range s.mailbox {
		if l := s.unsettled[d.Token]; l != nil && l.bytes > 0 {
			s.bytes -= l.bytes
			l.bytes, l.fresh = 0, false
			d.Deadline = l.deadline
			s.endsAt(s.endingOf(l))
			told = append(told, d)
		}
	}
	s.mailbox = nil
	return told
}

// endings returns the leases of which a third is left and that were not told so.
func (s *Session) endings(now time.Time) (ends []queue.Ending) {
	if s.ending.IsZero() || s.ending.After(now) {
		return nil
	}
	s.ending = time.Time{}
	for t, l := range s.unsettled {
		at := s.endingOf(l)
		switch {
		case l.warned || l.bytes > 0:
		case !at.After(now):
			l.warned = true
			ends = append(ends, queue.Ending{Token: t, Deadline: l.deadline})
		default:
			s.endsAt(at)
		}
	}
	return ends
}

// endingOf is when the consumer is to be told that a lease ends.
func (s *Session) endingOf(l *lent) time.Time { return l.deadline.Add(-s.a.Lease / endingShare) }

// endsAt notes when a lease is to be told to end.
func (s *Session) endsAt(at time.Time) {
	if s.ending.IsZero() || at.Before(s.ending) {
		s.ending = at
	}
}

// room is how many more deliveries the consumer may have now.
func (s *Session) room() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.roomNow()
}

func (s *Session) roomNow() int {
	if s.left || s.stalled || s.former.more || s.bytes >= mailboxBytes {
		return 0
	}
	room := max(0, s.a.Prefetch-len(s.unsettled))
	if s.mute && len(s.unsettled) > 0 {
		return 0
	}
	if s.mute {
		return min(room, 1)
	}
	return room
}

// lapse forgets a lease that ran out. A consumer that lets leases run out may hang: if
// what it held made room for more, it would wear out the deliveries of one exception
// after the other. So it gets one at a time, and only what nobody else has room for,
// until it answers.
func (s *Session) lapse(t queue.Token) {
	if s.lose(t) == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mute = true
}

func (s *Session) isMute() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mute
}

// speaks notes that the consumer has answered, whatever: it has its room again.
func (s *Session) speaks() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mute {
		s.mute = false
		s.r.wake.raise()
	}
}

// beginClaim returns the room that may be claimed for, in deliveries and in bytes. If
// there is any, the store may lease to the consumer until endClaim.
func (s *Session) beginClaim() (room, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if room = s.roomNow(); room > 0 {
		s.claiming = true
		s.busy++
	}
	return room, mailboxBytes - s.bytes
}

// endClaim says that all that the store has named was given. It returns the room left.
func (s *Session) endClaim() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endClaimNow()
	return s.roomNow()
}

func (s *Session) endClaimNow() {
	s.claiming, s.early = false, nil
	s.doneNow()
}

// give puts deliveries into the mailbox.
func (s *Session) give(deliveries []queue.Delivery) {
	s.mu.Lock()
	for i := range deliveries {
		s.take(&deliveries[i], true)
	}
	s.mu.Unlock()
	s.bell.raise()
}

// Holds reports whether the consumer has a lease: not when it was settled, ran out or
// was taken back since Next told of it.
func (s *Session) Holds(t queue.Token) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsettled[t] != nil
}

// take takes one delivery in, unless its lease was taken back meanwhile.
func (s *Session) take(d *queue.Delivery, fresh bool) {
	if _, gone := s.early[d.Token]; gone {
		return
	}
	if len(s.mailbox) == 0 {
		s.unread = s.r.now()
	}
	l := &lent{
		route: d.Route, deadline: d.Deadline, bytes: len(d.Message.Line) + deliveryOverhead,
		fresh: fresh,
	}
	s.unsettled[d.Token] = l
	s.mailbox = append(s.mailbox, *d)
	s.bytes += l.bytes
}

// lose forgets a lease that was taken back, and returns it; nil: the session had it
// not.
func (s *Session) lose(t queue.Token) *lent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.finish(t)
}

// finish is drop for a lease that the session had, though it may not know of it yet.
func (s *Session) finish(t queue.Token) *lent {
	l := s.drop(t)
	if l == nil && s.claiming {
		if s.early == nil {
			s.early = map[queue.Token]struct{}{}
		}
		s.early[t] = struct{}{}
	}
	return l
}

// drop forgets a lease that is over, and returns it; nil: the session had it not.
func (s *Session) drop(t queue.Token) *lent {
	l := s.unsettled[t]
	if l != nil {
		delete(s.unsettled, t)
		s.bytes -= l.bytes
		if s.former.more {
			s.bell.raise() // there is room for the next of them
		}
	}
	return l
}
