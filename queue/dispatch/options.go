package dispatch

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

// Handler gets one delivery at a time. Its context ends when the drain's time is
// up: it must then return soon, and what it answers counts only if it is an ack. Whatever
// it answers then, or for what was cut off otherwise, it says in Unanswered whether the
// effect may exist.
type Handler interface {
	Handle(ctx context.Context, d *queue.Delivery) queue.Answer
}

// Asker is a Handler that can ask its work to end by itself before it makes it end:
// asked is closed shortly before ctx ends. What the work then says of itself counts as at
// any time; only a failure is put back, uncounted, since it may be the asking's.
type Asker interface {
	Handler
	HandleAsked(ctx context.Context, asked <-chan struct{}, d *queue.Delivery) queue.Answer
}

// Pure is a handler without an effect of its own: the record of the settlement is
// all there is. Many of its deliveries, also of one key, are settled together, up
// to the first that is not an ack. Decide must not block.
type Pure interface {
	Decide(d *queue.Delivery) queue.Answer
}

// Settings is what may change while a Runner runs; see [Runner.Reconfigure].
type Settings struct {
	Prefetch       int           // claimed at once, at most
	Lease          time.Duration // of what workers hold; renewed while they do
	Policy         queue.Policy
	Limits         queue.Limits
	RejectWhenFull bool // else lines wait for room
	ConsumerLag    time.Duration
	DrainTimeout   time.Duration
	Retention      Retention
}

// Retention is for how long what is over is kept. Zero is for ever.
type Retention struct {
	Ledger         time.Duration // a settled idempotency key is remembered
	Audit          time.Duration // a record stays in the trail
	RequireArchive bool          // and until an archive has it
}

// Options says what a Runner works with.
type Options struct {
	Store    queue.Store
	Log      hclog.Logger
	Settings Settings

	// Workers is how many in-process workers there are, Room how many deliveries
	// may wait in all their channels together.
	Workers int
	Room    int
	// Handlers has the in-process handler of each route that has one: a Handler,
	// or a Pure. The others are left to consumers.
	Handlers map[queue.Route]any

	Observer Observer
	Now      func() time.Time // nil: time.Now
	Random   func() uint32    // nil: math/rand/v2
}

// errField names an option that cannot be worked with.
func errField(name string, value any) error {
	return fmt.Errorf("dispatch: option %s cannot be %v", name, value)
}

// check says what is wrong with the options.
func (o *Options) check() error {
	switch {
	case o.Store == nil:
		return errors.New("dispatch: option Store is missing")
	case o.Workers < 1:
		return errField("Workers", o.Workers)
	case o.Room < o.Workers:
		return errField("Room (less than one for each worker)", o.Room)
	}
	if err := checkSettings(&o.Settings, o.Room); err != nil {
		return err
	}
	return checkHandlers(o.Handlers)
}

func checkSettings(s *Settings, room int) error {
	switch {
	case s.Prefetch < 1 || s.Prefetch > room:
		return errField("Settings.Prefetch (1 to Room)", s.Prefetch)
	case s.Lease <= 0:
		return errField("Settings.Lease", s.Lease)
	}
	return nil
}

func checkHandlers(handlers map[queue.Route]any) error {
	for route, h := range handlers {
		_, handler := h.(Handler)
		_, pure := h.(Pure)
		if queue.RouteIndex(route) < 0 || handler == pure {
			return errField("Handlers["+string(route)+"] (a Handler or a Pure)", h)
		}
	}
	return nil
}

// Observer is told what happened, after it happened. Its functions are called from
// the goroutine that did the work: they must not block. Nil ones are left out.
type Observer struct {
	// Admitted: the store answered lines, after so long a call.
	Admitted func(receipts []queue.Receipt, took time.Duration)
	// Claimed: deliveries were handed to one worker or consumer.
	Claimed func(deliveries []queue.Delivery)
	// Handled: a handler answered a delivery after so long.
	Handled func(d *queue.Delivery, a *queue.Answer, took time.Duration)
	// Answered: an answer of a consumer was applied.
	Answered func(route queue.Route, verb queue.Verb)
	// Settled: the store took answers, after so long a call.
	Settled func(results []queue.SettleResult, took time.Duration)
	// Expired and Trimmed: the store took a step of retention, of keys or of the trail,
	// or could not (err).
	Expired func(did queue.ExpireResult, err error)
	Trimmed func(did queue.TrimResult, err error)
	// Raised: one of the codes of the mission, or HANDLER_UNAVAILABLE. It is
	// logged already.
	Raised func(code queue.Code, route queue.Route)
}
