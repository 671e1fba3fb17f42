package queue

import (
	"cmp"
	"slices"
	"time"
)

// Reason is a stable word for why something does not run.
type Reason string

// The reasons, those that a person can do something about first.
const (
	WhyDead        Reason = "dead"                // it is a dead letter
	WhyBlocked     Reason = "blocked"             // its key waits for a dead letter
	WhyDamaged     Reason = "damaged"             // stored bytes of its key are damaged
	WhyOperator    Reason = "operator"            // an operator holds its key
	WhyRetry       Reason = "retry"               // its key waits before the next attempt
	WhyHold        Reason = "hold"                // a handler asked to wait until a time
	WhyLeased      Reason = "leased"              // somebody works on it, or on what comes first
	WhyBehind      Reason = "behind"              // another of its key comes first
	WhyNotDue      Reason = "not_due"             // its not_before lies ahead
	WhyPaused      Reason = "paused"              // an operator paused all claims
	WhyDraining    Reason = "draining"            // the process is ending
	WhyUnavailable Reason = "handler_unavailable" // its route's handler could not be had
	WhyNoConsumer  Reason = "no_consumer"         // nobody is attached who takes its route
	WhyConsumers   Reason = "consumers_full"      // those who are have as much as they may
	WhyAside       Reason = "aside"               // it is kept from the one that has put it back
	WhyNext        Reason = "next"                // nothing: it waits its turn
	WhyNothing     Reason = "nothing_open"        // there is nothing of it to run
	WhySettled     Reason = "settled"             // it is done, or discarded
)

// WhyQuery names a message by its seq, or a partition key.
type WhyQuery struct {
	Now time.Time
	Seq uint64
	Key string // if Seq is 0
}

// Standing is what a store knows of why something does not run, as of one moment.
type Standing struct {
	Exception *Exception // the message that was asked about; nil: a key was
	Key       *Key       // its key, or the one asked about; nil: it is not in the order
	Due       *KeyDue    // of a key that is not in the order: the soonest that is scheduled
	Ahead     int        // of a key that can be claimed: how many keys of its route come first
	AheadMore bool       // at least so many: no more were counted
	Paused    *Pause
}

// KeyDue is a message that waits for its time.
type KeyDue struct {
	Seq  uint64
	Time time.Time
}

// Cause is one thing that keeps something from running. What does not apply is zero.
type Cause struct {
	Reason   Reason
	Seq      uint64    // the message that is the cause
	Since    time.Time // dead, held, paused, unavailable
	Until    time.Time // waiting, leased: until when
	By       string    // who ordered it
	Owner    string    // who has the lease
	Consumer bool      // Owner is a consumer, not a worker of the process
	Route    Route
	Code     Code   // of a dead letter
	Text     string // why, in the words of whoever caused it
	Outcome  string // settled
	State    State  // settled: how it ended
	Count    int    // dead letters of the key; failures so far; keys that come first
	Most     int    // failures until it is a dead letter; 0: not known
	More     bool   // there are more than Count
}

// Circumstances is what the process knows besides the store. The zero value is that of
// a file that nobody serves.
type Circumstances struct {
	Running     bool
	Draining    bool
	MaxAttempts int
	Routes      []Serving
}

// Serving is who works on a route.
type Serving struct {
	Route     Route
	InProcess bool // a handler of the process does; else consumers
	Consumers int  // attached that take the route
	Room      int  // how many more they would take now
	Down      bool // the handler could not be had when it was last tried …
	Since     time.Time
	Next      time.Time // … and is tried again then
	Text      string    // … and why
}

// Causes are why it does not run, what a person can change first. There is always at
// least one: WhyNext says that nothing keeps it.
func (s *Standing) Causes(c *Circumstances) []Cause {
	if s.Exception != nil && (s.Key == nil || s.Exception.State != Ready && s.Exception.State != Held) {
		return s.ofMessage(c)
	}
	if s.Key == nil {
		return []Cause{s.nothingInOrder()}
	}
	causes := s.ofKey(c)
	if k, x := s.Key, s.Exception; x != nil && k.First != 0 && k.First != x.Seq {
		causes = append(causes, Cause{Reason: WhyBehind, Seq: k.First})
	}
	if s.Key.Open == 0 {
		if len(causes) == 0 {
			causes = append(causes, s.nothingInOrder())
		}
		return causes
	}
	causes = append(causes, s.ofProcess(c)...)
	if len(causes) == 0 {
		causes = append(causes, Cause{Reason: WhyNext, Route: s.Key.Route, Count: s.Ahead, More: s.AheadMore})
	}
	return causes
}

// Causes are why nothing of one of the page's keys runs, as [Standing.Causes] gives
// them for the key; none if nothing keeps it. What they cost does not depend on what the
// store holds.
func (p *KeyPage) Causes(k *Key, c *Circumstances) []Cause {
	causes := (&Standing{Key: k, Paused: p.Paused}).Causes(c)
	if r := causes[0].Reason; r == WhyNext || r == WhyNothing {
		return nil
	}
	return causes
}

// nothingInOrder is the cause of a key without a message that has its place.
func (s *Standing) nothingInOrder() Cause {
	if s.Due != nil {
		return Cause{Reason: WhyNotDue, Seq: s.Due.Seq, Until: s.Due.Time}
	}
	return Cause{Reason: WhyNothing}
}

// ofMessage is why a message does not run that does not wait in the order.
func (s *Standing) ofMessage(c *Circumstances) []Cause {
	x := s.Exception
	switch x.State {
	case Dead:
		return []Cause{{Reason: WhyDead, Seq: x.Seq, Since: x.DeadAt, Code: x.Code, Text: cmp.Or(x.Reason, x.Field)}}
	case Done, Discarded:
		return []Cause{{Reason: WhySettled, Seq: x.Seq, Since: x.SettledAt, State: x.State, Outcome: x.Outcome}}
	case Scheduled:
		return append([]Cause{{Reason: WhyNotDue, Seq: x.Seq, Until: x.DueAt}}, s.stopped(c)...)
	}
	leased := Cause{Reason: WhyLeased, Seq: x.Seq, Owner: x.Owner, Until: x.Deadline, Route: x.Route}
	if s.Key != nil && s.Key.Holder != nil {
		leased.Consumer = s.Key.Holder.Owner.Kind == Consumer
	}
	return []Cause{leased}
}

// ofKey are the reasons that a key has to wait.
func (s *Standing) ofKey(c *Circumstances) (causes []Cause) {
	k := s.Key
	if k.Damage != 0 {
		causes = append(causes, Cause{Reason: WhyDamaged, Seq: k.Damage})
	}
	if l := k.Letter; l != nil {
		causes = append(causes, Cause{Reason: WhyBlocked, Seq: l.Seq, Since: l.DeadAt, Code: l.Code, Text: l.Reason, Count: l.Count})
	}
	if h := k.Hold; h != nil {
		causes = append(causes, Cause{Reason: WhyOperator, By: h.By, Since: h.Since, Text: h.Reason})
	}
	if w := k.Wait; w != nil {
		cause := Cause{Reason: WhyHold, Seq: w.Seq, Until: w.Until}
		if w.Retry {
			cause.Reason, cause.Count, cause.Most = WhyRetry, w.Failed, c.MaxAttempts
		}
		causes = append(causes, cause)
	}
	if h := k.Holder; h != nil {
		causes = append(causes, Cause{Reason: WhyLeased, Seq: h.Seq, Owner: h.Owner.Name, Until: h.Deadline,
			Consumer: h.Owner.Kind == Consumer, Route: k.Route})
	}
	return causes
}

// stopped are the reasons that keep everything from being claimed.
func (s *Standing) stopped(c *Circumstances) (causes []Cause) {
	if p := s.Paused; p != nil {
		causes = append(causes, Cause{Reason: WhyPaused, By: p.By, Since: p.Since, Text: p.Reason})
	}
	if c.Draining {
		causes = append(causes, Cause{Reason: WhyDraining})
	}
	return causes
}

// ofProcess are the reasons that lie outside of the key: everything stands still, or
// nobody works on the route of its first message.
func (s *Standing) ofProcess(c *Circumstances) []Cause {
	causes := s.stopped(c)
	k := s.Key
	if k.Holder != nil {
		return causes // somebody works on the route
	}
	at := slices.IndexFunc(c.Routes, func(r Serving) bool { return r.Route == k.Route })
	if at < 0 {
		return causes
	}
	switch r := &c.Routes[at]; {
	case r.Down:
		causes = append(causes, Cause{Reason: WhyUnavailable, Route: k.Route, Since: r.Since, Until: r.Next, Text: r.Text})
	case r.InProcess:
	case r.Consumers == 0:
		causes = append(causes, Cause{Reason: WhyNoConsumer, Route: k.Route})
	case r.Room == 0:
		causes = append(causes, Cause{Reason: WhyConsumers, Route: k.Route, Count: r.Consumers})
	}
	if a := k.Aside; a != nil && len(causes) == 0 && k.State == KeyReady {
		causes = append(causes, Cause{Reason: WhyAside, Owner: a.Owner.Name, Until: a.Until, Consumer: a.Owner.Kind == Consumer})
	}
	return causes
}
