package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// maxUnconfirmed is how many answers may be without a reply before Send waits.
	maxUnconfirmed = 8192
	// againAfter is when an answer that found no room is given again.
	againAfter = 500 * time.Millisecond
	// manyLeases is how many leases are known, besides those that can be had at once,
	// before those are forgotten that ran out without an answer long ago. forgetAfter
	// is how long ago, besides the length of a lease, which a restart gives them again.
	manyLeases  = 1024
	forgetAfter = time.Hour
	// comeBack is in which part of a lease's length a lost connection is tried again, if
	// that is sooner than it would be anyway.
	comeBack = 4
)

// Session is a consumer that is attached, and stays so over lost connections and
// restarts of the server: it attaches again under its name, which gives it its leases
// back, and gives again what was not confirmed. Next makes all that happen: call it in
// a loop, from one goroutine, also when nothing is expected. Send may be called from
// any.
type Session struct {
	c Consumer

	mu      sync.Mutex
	changed sync.Cond            // of what mu guards
	link    *link                // nil while there is none
	queue   []*sent              // without a reply, in order; the first of them are written
	later   []*sent              // refused for now: to be given again
	known   map[string]time.Time // leases that the caller was given, until when
	lease   time.Duration
	closed  bool
	writing sync.WaitGroup
}

// sent is a line that has no reply yet.
type sent struct {
	lease string // "" where the caller has spelled it
	text  []byte
	again bool // it was written to a connection that was lost
}

// Attach connects to the socket and attaches. Where nobody listens it tries for some
// 6 s: the server may just be starting. The error is ErrNameInUse, ErrUsage,
// ErrOtherSocket, ErrLost, or that of ctx.
func (c *Consumer) Attach(ctx context.Context) (*Session, error) {
	s := &Session{c: *c, known: map[string]time.Time{}}
	s.changed.L = &s.mu
	for n := 1; ; n++ {
		err := notEnqueue(ctx, c.Path)
		if err == nil {
			err = s.connect(ctx)
		}
		switch {
		case err == nil:
			return s, nil
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case errors.Is(err, ErrNameInUse) || errors.Is(err, ErrUsage) || errors.Is(err, ErrOtherSocket):
			return nil, err
		case n > maxFirst:
			return nil, fmt.Errorf("%w: %w", ErrLost, err)
		}
		if err := s.wait(ctx, n, err); err != nil {
			return nil, err
		}
	}
}

// wait waits before the next try.
func (s *Session) wait(ctx context.Context, n int, why error) error {
	d := s.pause(n)
	if errors.Is(why, ErrNameInUse) {
		d = pause(n) // its own former connection holds the name, until the server has noticed
	}
	if s.c.Waiting != nil {
		s.c.Waiting(why, d)
	}
	if !sleep(ctx, d) {
		return context.Cause(ctx)
	}
	return nil
}

// pause is how long to wait before the n-th try. Leases run their full length again from a
// restart of the server on: who comes back within a part of that still has them, and what
// was worked on meanwhile is not handed out a second time.
func (s *Session) pause(n int) time.Duration {
	d := pause(n)
	if lease := s.Lease(); lease > 0 {
		d = min(d, max(lease/comeBack, firstRetry))
	}
	return d
}

// Lease is how long its leases are.
func (s *Session) Lease() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lease
}

// connect makes a connection the session's, and has it given what was not confirmed.
func (s *Session) connect(ctx context.Context) error {
	l, lease, err := open(ctx, &s.c)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = l.conn.Close()
		return errClosed
	}
	s.link, s.lease = l, lease
	s.queue, s.later = append(s.queue, s.later...), nil
	s.writing.Go(func() { s.write(l) })
	return nil
}

var errClosed = errors.New("the session is closed")

// write hands lines of the queue to a connection until it is given up. What gathered
// while one write was under way goes out with the next: the server settles together
// what it reads together.
func (s *Session) write(l *link) {
	var out []byte
	for {
		s.mu.Lock()
		for s.link == l && l.written == len(s.queue) {
			s.changed.Wait()
		}
		if s.link != l {
			s.mu.Unlock()
			return
		}
		out = out[:0]
		for _, one := range s.queue[l.written:] {
			out = append(out, one.text...)
		}
		l.written = len(s.queue)
		s.mu.Unlock()
		if _, err := l.conn.Write(out); err != nil {
			_ = l.conn.Close() // which Next notices
			return
		}
	}
}

// drop gives a connection up. What it was given and has not confirmed will be given
// again.
func (s *Session) drop(l *link) {
	s.mu.Lock()
	for _, one := range s.queue[:l.written] {
		one.again = true
	}
	s.link = nil
	s.changed.Broadcast()
	s.mu.Unlock()
	_ = l.conn.Close() // it was given up already
	s.writing.Wait()
}

// Close ends the session. Its leases stay until their deadline, for whoever attaches
// under its name.
func (s *Session) Close() {
	s.mu.Lock()
	l := s.link
	s.closed, s.link = true, nil
	s.changed.Broadcast()
	s.mu.Unlock()
	if l != nil {
		_ = l.conn.Close() // nothing more is expected of it
	}
	s.writing.Wait()
}

// Next returns the next event. A lost connection is made again, for as long as ctx
// lasts; then the event is Attached: leases may have ended meanwhile. The error is
// that of ctx, after which Next may be called again, ErrNameInUse if somebody else has
// taken the name, ErrUsage, or ErrOtherSocket if the path leads to another socket now.
func (s *Session) Next(ctx context.Context) (Event, error) {
	for {
		s.mu.Lock()
		l, closed := s.link, s.closed
		s.mu.Unlock()
		if closed {
			return Event{}, errClosed
		}
		if l == nil {
			if err := s.reconnect(ctx); err != nil {
				return Event{}, err
			}
			return Event{Kind: Attached}, nil
		}
		line, err := l.read(ctx)
		switch {
		case err != nil && ctx.Err() != nil:
			return Event{}, context.Cause(ctx)
		case err != nil:
			s.drop(l)
			if s.c.Waiting != nil && !s.isClosed() {
				s.c.Waiting(err, 0)
			}
			continue
		}
		e, tell, err := s.hear(l, line)
		if err != nil || tell {
			return e, err
		}
	}
}

func (s *Session) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// reconnect tries until it is attached again. The server may take a moment to notice
// that the connection before is gone: so long the name is in use.
func (s *Session) reconnect(ctx context.Context) error {
	inUse := 0
	for n := 1; ; n++ {
		err := s.connect(ctx)
		if errors.Is(err, ErrNameInUse) {
			inUse++
		}
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case inUse > maxFirst || errors.Is(err, ErrUsage) || errors.Is(err, ErrOtherSocket) || errors.Is(err, errClosed):
			return err
		}
		if err := s.wait(ctx, n, err); err != nil {
			return err
		}
	}
}

// hear makes an event of a line, if there is one for the caller.
func (s *Session) hear(l *link, line []byte) (e Event, tell bool, err error) {
	var h heard
	if err := json.Unmarshal(line, &h); err != nil {
		return e, false, fmt.Errorf("a line of the server that is not JSON: %.80q", line)
	}
	e = Event{Kind: Kind(h.Event), Lease: h.Lease, Deadline: steady(h.Deadline, time.Now()), Code: h.Code, Error: h.Error}
	switch e.Kind {
	case Delivered:
		d := new(Delivery)
		if err := json.Unmarshal(line, d); err != nil {
			return e, false, fmt.Errorf("a delivery that cannot be read: %w", err)
		}
		d.Deadline = e.Deadline
		e.Delivery, e.Line = d, bytes.Clone(line)
		return e, s.isNew(d), nil
	case LeaseEnding, Draining:
		return e, true, nil
	case Settled, Extended, Refused, Faulty, detached:
		return s.confirm(l, e)
	}
	return e, false, nil // of a later version
}

// steady is a time that the server named now, as one that no later step of the clock moves:
// leases run by the time that passes. It is of the zone of now: another would take that away.
func steady(t, now time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return now.Add(t.Sub(now))
}

// isNew reports whether a lease was not handed to the caller yet. After a lost
// connection the server hands out again what was not answered, under the same lease.
func (s *Session) isNew(d *Delivery) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, had := s.known[d.Lease]
	s.known[d.Lease] = d.Deadline
	if len(s.known) > manyLeases+max(s.c.Prefetch, 1) {
		for lease, deadline := range s.known {
			if time.Since(deadline) > s.lease+forgetAfter {
				delete(s.known, lease)
			}
		}
	}
	return !had
}

// confirm notes the reply to the first line that has none: replies come in the order
// of the lines.
func (s *Session) confirm(l *link, e Event) (Event, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.written == 0 || len(s.queue) == 0 {
		return e, false, fmt.Errorf("a reply to nothing that was sent: %s %s", e.Code, e.Error)
	}
	one := s.queue[0]
	s.queue = s.queue[1:]
	l.written--
	e.Resent = one.again
	if e.Kind == Faulty {
		e.Lease = one.lease
	}
	switch {
	case e.Kind == Refused && (e.Code == codeDraining || e.Code == codeNoRoom):
		s.later = append(s.later, one)
		time.AfterFunc(againAfter, s.again)
		return e, false, nil
	case e.Kind == Refused || e.Kind == Settled:
		delete(s.known, e.Lease)
	case e.Kind == Extended:
		s.known[e.Lease] = e.Deadline
	}
	s.changed.Broadcast() // there is room
	return e, true, nil
}

// again gives what found no room once more. On a connection that is lost meanwhile
// nothing is: the next one has it.
func (s *Session) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.link != nil {
		s.queue, s.later = append(s.queue, s.later...), nil
		s.changed.Broadcast()
	}
}

// detached is the reply to who leaves.
const detached Kind = "detached"

// put queues a line.
func (s *Session) put(one *sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue = append(s.queue, one)
	s.changed.Broadcast()
}

// Send gives an answer for a lease. It returns soon: that the answer counts is said by
// the event Settled. While very many have no reply it waits. The error is that of ctx, or
// ErrUsage, which names what is not UTF-8: then nothing is sent.
func (s *Session) Send(ctx context.Context, lease string, a Answer) error {
	line, err := a.line(lease)
	if err != nil {
		return err
	}
	return s.send(ctx, &sent{lease: lease, text: line})
}

// SendLine gives an answer that is spelled already, as one line. The server judges it, and
// there is one event for it. The error is that of ctx, or ErrUsage for what is blank or
// more than one line: the server has no reply to the one, and several to the other.
func (s *Session) SendLine(ctx context.Context, line []byte) error {
	line = bytes.TrimRight(line, "\r\n")
	if len(bytes.TrimSpace(line)) == 0 || bytes.IndexByte(line, '\n') >= 0 {
		return fmt.Errorf("%w: %s: an answer is one line, and not blank: %.80q", ErrUsage, codeUsage, line)
	}
	return s.send(ctx, &sent{text: append(bytes.Clone(line), '\n')})
}

func (s *Session) send(ctx context.Context, one *sent) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.changed.Broadcast()
	})
	defer stop()
	for len(s.queue) >= maxUnconfirmed && ctx.Err() == nil && !s.closed {
		s.changed.Wait()
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.closed:
		return errClosed
	}
	s.queue = append(s.queue, one)
	s.changed.Broadcast()
	return nil
}

// Unconfirmed is how many answers have no reply yet.
func (s *Session) Unconfirmed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) + len(s.later)
}

// Detach leaves: what was not answered is put back, which counts as nothing. It returns
// when the server has confirmed that; nothing else may be called any more, and no other
// goroutine may be in Next. What events still come goes to seen, which may be nil.
func (s *Session) Detach(ctx context.Context, seen func(Event)) error {
	defer s.Close()
	s.put(&sent{text: []byte("{\"detach\":true}\n")})
	for {
		e, err := s.Next(ctx)
		switch {
		case err != nil:
			return err
		case e.Kind == detached:
			return nil
		case seen != nil:
			seen(e)
		}
	}
}
