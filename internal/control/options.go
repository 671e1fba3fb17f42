package control

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// Store is what the server asks of a store: to read, and an operator's verbs.
type Store interface {
	queue.Reader
	Pause(ctx context.Context, a queue.Action) error
	Resume(ctx context.Context, a queue.Action) error
	Replay(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error)
	Discard(ctx context.Context, a queue.Action, seqs []uint64) ([]queue.ActionResult, error)
	Edit(ctx context.Context, a queue.Action, edits []queue.Edit) ([]queue.EditResult, error)
	HoldKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error)
	ReleaseKeys(ctx context.Context, a queue.Action, keys []string) ([]queue.ActionResult, error)
	Revoke(ctx context.Context, a queue.Action, p queue.Policy, leases []queue.LeaseRef) ([]queue.Revoked, error)
	Probe(ctx context.Context) error
}

// Readiness is what the rest of the process says of itself. The zero value is that
// of a process that is up and has nobody attached.
type Readiness struct {
	Draining  bool
	Reasons   []string         // why else it is not ready, in words: its intake is not open yet
	Stuck     []queue.Route    // in-process routes with claimable work that settle nothing
	Saturated queue.Saturation // the limit that new lines meet now; "": none
	Waiting   int              // producers whose lines wait for room
	Consumers int              // attached

	Unavailable []Outage // in-process routes whose handler is down

	Serving     []queue.Serving // who works on each route
	MaxAttempts int             // failures until an exception is a dead letter; 0: not known
	Recent      *Recent         // what happened lately; nil: not known yet
}

// Recent is what happened in a length of time up to now.
type Recent struct {
	Window                  time.Duration
	Stored, Done, Discarded int64
}

// Checkpoint is how the signed heads of the trail are doing.
type Checkpoint struct {
	Key                      string // name and hash of the key that signs
	N                        uint64 // of the newest one: the number of its last record; 0: there is none yet
	Head                     queue.Head
	At                       time.Time
	Written, Failed, Failing uint64    // Failing: failures since the last that was written
	FailingSince             time.Time // zero: it does not fail
	Error                    string
}

// doc is the checkpoint as the API shows it.
func (c *Checkpoint) doc() *api.Checkpoint {
	return &api.Checkpoint{
		Key: c.Key, N: c.N, Block: c.Head.Block, At: api.Time{Time: c.At}, Written: c.Written, Failed: c.Failed,
		FailingSince: api.Time{Time: c.FailingSince}, Error: c.Error,
	}
}

// Outage is a route whose handler could not be had when it was last tried; see
// [api.Outage].
type Outage struct {
	Route       queue.Route
	Since, Next time.Time
	Reason      string
}

// intake is what new lines meet, in the words of the API.
func (r *Readiness) intake() api.Intake {
	in := api.Intake{Intake: api.IntakeOpen, Saturated: string(r.Saturated), Waiting: r.Waiting}
	switch {
	case r.Draining:
		in.Intake = api.IntakeDraining
	case r.Waiting > 0:
		in.Intake = api.IntakeWaiting
	case r.Saturated != "":
		in.Intake = api.IntakeFull
	}
	return in
}

// outages are the handlers that are down, in the words of the API.
func (r *Readiness) outages() (down []api.Outage) {
	for _, o := range r.Unavailable {
		down = append(down, api.Outage{
			Route: string(o.Route), Since: api.Time{Time: o.Since}, Next: api.Time{Time: o.Next}, Reason: o.Reason,
		})
	}
	return down
}

// routes are who works on what, in the words of the API.
func (r *Readiness) routes() (all []api.Route) {
	for _, s := range r.Serving {
		all = append(all, api.Route{Route: string(s.Route), InProcess: s.InProcess, Consumers: s.Consumers, Room: s.Room})
	}
	return all
}

// recent is what happened lately, in the words of the API; nil: not known.
func (r *Readiness) recent() *api.Recent {
	if r.Recent == nil {
		return nil
	}
	return &api.Recent{
		Seconds: int64(r.Recent.Window / time.Second), Stored: r.Recent.Stored, Done: r.Recent.Done, Discarded: r.Recent.Discarded,
	}
}

// Options says what a Server works with. Store is required.
type Options struct {
	Store   Store
	Version string
	Started time.Time // of the process
	Log     hclog.Logger
	Now     func() time.Time // nil: time.Now

	// Ready is asked for each /readyz and /v1/status, with the store's status, or nil
	// where that is not known yet: then Stuck and Saturated are not looked at. It must
	// not block. Nil: always the zero Readiness.
	Ready func(st *queue.StoreStatus, now time.Time) Readiness

	// Policy is that in force: a delivery that is revoked may have been the last. Nil:
	// nothing can be revoked.
	Policy func() queue.Policy

	// Peer says who is at the other end of an accepted connection; nil: nobody knows.
	Peer func(c net.Conn) queue.Peer

	// Checkpoint says how the signed checkpoints are doing; nil, or a nil answer: there
	// are none.
	Checkpoint func() *Checkpoint

	// Metrics serves /metrics; nil: there is no such page.
	Metrics http.Handler

	// Drain begins the drain, as a signal does, and returns at once. Reload reads the
	// configuration again; an error means that it could not be tried. Nil ones are
	// answered 501.
	Drain  func(a queue.Action)
	Reload func(ctx context.Context, a queue.Action) (Reloaded, error)

	// Archive makes an archive of the store at dest, or nothing; Archiving says how far
	// it is. Nil ones: there is no such thing.
	Archive   func(ctx context.Context, a queue.Action, dest string) (api.Archive, error)
	Archiving func() api.Archiving
}

// withDefaults fills in what may be left out.
func (o Options) withDefaults() (Options, error) {
	if o.Store == nil {
		return o, errors.New("control: option Store is missing")
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Ready == nil {
		o.Ready = func(*queue.StoreStatus, time.Time) Readiness { return Readiness{} }
	}
	return o, nil
}

// Reloaded is what became of a reload: which file was read (absolute; "" if this
// process was started without one) and which keys changed by it, or the reasons why it
// was refused, with the old configuration still in force.
type Reloaded struct {
	File    string
	Changed []string
	Refused []string
	Hint    string // of the refused: what to do about it, if that is known
}
