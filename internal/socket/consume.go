package socket

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/queue"
)

const (
	// maxAnswerLine is how long a line of a consumer may be: its texts at their limits
	// with every byte escaped to six, and room for its members.
	maxAnswerLine = 64 << 10

	// answerBatch is how many answers that arrived together go into one request.
	answerBatch = 1024

	// keptAnswers is for how many answers a connection keeps the memory between reads.
	keptAnswers = 64

	// minLease is the shortest lease that a consumer may ask for, as in the
	// configuration.
	minLease = 10 * time.Millisecond

	// answerTime is how long an answer that was read may still wait for its turn, or
	// for room, when the connections are being closed.
	answerTime = 10 * time.Second

	// lastWords is how long a consumer whose connection ends may go without taking
	// anything of what is still to be said to it.
	lastWords = time.Second
)

// Desk is where consumers attach: the core's door, as this package needs it.
type Desk interface {
	// Attach gives a consumer its name and whatever leases it holds. The error is
	// queue.ErrNameInUse, queue.ErrDraining, or the end of the store.
	Attach(ctx context.Context, a queue.Attachment) (Session, error)
}

// Session is what a consumer that is attached may do. One goroutine calls Next, one
// the others.
type Session interface {
	// Next waits for something to tell the consumer.
	Next(ctx context.Context) (queue.Notice, error)

	// Answer settles leases in one transaction; only Token, Verb, At and what the
	// answer says are given. There is one result for each. An error means that
	// nothing was applied (queue.ErrNoRoom) or that nobody knows.
	Answer(ctx context.Context, answers []queue.Settlement) ([]queue.SettleResult, error)

	// Extend gives leases their full length again, from at.
	Extend(ctx context.Context, at time.Time, tokens []queue.Token) ([]queue.ExtendResult, error)

	// Holds reports whether a lease of a notice is still the consumer's: not when it was
	// settled or taken back since Next returned it. It is quick, and any goroutine may
	// ask.
	Holds(t queue.Token) bool

	// Detach gives the name back and puts back what was not answered; Break only
	// gives the name back. After either nothing else may be called.
	Detach(ctx context.Context) error
	Break(ctx context.Context) error
}

// ConsumeOptions says what consumers may ask for. The zero value has the documented
// defaults.
type ConsumeOptions struct {
	Lease       time.Duration // of who asks for none; 0: 30 s
	MaxLease    time.Duration // 0: 1 h
	MaxPrefetch int           // 0: 1024
	Log         hclog.Logger  // nil: nothing is logged
}

// complete fills in the defaults and checks what is given.
func (o *ConsumeOptions) complete() error {
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.MaxLease == 0 {
		o.MaxLease = time.Hour
	}
	if o.MaxPrefetch == 0 {
		o.MaxPrefetch = 1024
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	switch {
	case o.Lease < minLease:
		return fmt.Errorf("lease_timeout_ms is %d, must be at least %d", o.Lease.Milliseconds(), minLease.Milliseconds())
	case o.MaxLease < o.Lease:
		return fmt.Errorf("max_lease_timeout_ms is %d, must be at least lease_timeout_ms, %d", o.MaxLease.Milliseconds(), o.Lease.Milliseconds())
	case o.MaxPrefetch < 1:
		return fmt.Errorf("max_prefetch is %d, must be positive", o.MaxPrefetch)
	}
	return nil
}

// ConsumeServer hands exceptions to consumers and takes their answers (contract,
// consume.sock).
type ConsumeServer struct {
	desk    Desk
	options atomic.Pointer[ConsumeOptions]
	pool    bufferPool
}

// NewConsumeServer returns a server whose consumers attach to desk. The error names
// the option at fault.
func NewConsumeServer(desk Desk, o ConsumeOptions) (*ConsumeServer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &ConsumeServer{desk: desk}
	s.options.Store(&o)
	return s, nil
}

// Reconfigure puts other options into force, for those who attach from now on. Log
// stays what it was.
func (s *ConsumeServer) Reconfigure(o ConsumeOptions) error {
	o.Log = s.options.Load().Log
	if err := o.complete(); err != nil {
		return err
	}
	s.options.Store(&o)
	return nil
}

// Serve serves the connections of l until ctx ends: answers on their way are still
// taken, then the connections are closed and Serve returns. Leases stay. That no more
// is delivered before is the desk's part. Closing l cuts it short.
func (s *ConsumeServer) Serve(ctx context.Context, l *Listener) error {
	return l.Serve(ctx, s.handle)
}

// handle serves one consumer: it reads and has answers settled, another goroutine
// waits for what there is to tell, a third sends. It returns when all have left.
func (s *ConsumeServer) handle(ctx context.Context, c *Conn) {
	o := s.options.Load()
	log := o.Log.With("connection", c.ID(), "uid", c.Peer().UID, "pid", c.Peer().PID)
	answering, giveUp := context.WithCancel(context.WithoutCancel(ctx))
	defer giveUp()
	k := &consumer{
		server: s, conn: c, peer: c.Peer(), log: log,
		closing: ctx, answering: answering,
		out: newOutbox(c, o.Lease),
	}
	var sending sync.WaitGroup
	sending.Go(func() {
		if k.out.run() {
			log.Warn("consumer takes nothing for the length of its leases: its connection is closed")
		}
		c.Close() // who cannot be told anything is not listened to
	})
	stop := context.AfterFunc(ctx, func() {
		c.SetReadDeadline(time.Now().Add(drainGrace))
		time.AfterFunc(answerTime, giveUp)
	})
	k.serve()
	stop()
	k.out.finish(lastWords)
	sending.Wait()
}
