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
	// batchLines is how many lines one read may become at most. A chunk of ordinary
	// lines holds fewer; the limit is for those of a few bytes, whose receipts are
	// larger than they are.
	batchLines = 1024

	// queuedBatches is how many batches of a connection wait while one is being
	// stored. They then go to the store together, as one request.
	queuedBatches = 3

	// lineOverhead is what a line that is read but not stored costs besides its
	// bytes, roughly: its message, its receipt, and their strings.
	lineOverhead = 512

	// drainGrace is how long a connection is still read from when a drain has begun,
	// so that lines already on their way get an answer, which is DRAINING.
	drainGrace = 100 * time.Millisecond
)

// Intake is where the lines go: the core's door, as this package needs it.
type Intake interface {
	// Stream stores lines of one producer, in order. It calls answered with the
	// receipts of the next lines, each time that some are due: after the commit that
	// made them durable (P1), or when they are refused. With them comes the trail's
	// head. It returns when every line has its receipt, which may take as long as there
	// is no room and the drain has not begun; with an error, after which nobody knows
	// what became of the rest. It keeps nothing of lines.
	Stream(ctx context.Context, peer queue.Peer, lines []queue.Submission, answered func([]queue.Receipt, queue.Head)) error

	// Head returns the trail's present head.
	Head(ctx context.Context) (queue.Head, error)
}

// EnqueueOptions says how lines are taken. The zero value has the documented defaults.
type EnqueueOptions struct {
	MaxLineBytes   int           // of one line, its end not counted; 0: 256 KiB
	MaxIntakeBytes int64         // read but not yet stored, all connections together; 0: 32 MiB
	ReceiptTimeout time.Duration // for a peer to take some of its receipts; 0: 5 s
	Events         EnqueueEvents
	Log            hclog.Logger // nil: nothing is logged
}

// EnqueueEvents hears of what happens on the socket, for metrics. Any may be nil. They
// are called from many goroutines, wait for nothing, and keep nothing they are given.
type EnqueueEvents struct {
	// Answered: so many receipts of this status are on their way, after their commit.
	Answered func(status queue.Status, n int)
	// ReceiptsDropped: so many receipts were not sent, as their peer did not read.
	ReceiptsDropped func(n int)
}

// EnqueueServer takes lines from producers and answers each (contract, enqueue.sock).
type EnqueueServer struct {
	intake  Intake
	options atomic.Pointer[EnqueueOptions]
	pool    bufferPool
	spent   sync.Pool // *judgedBatch
	// budget is what all connections share for lines that are read but not stored.
	// Besides it each may hold one buffer that it is reading into.
	budget *budget
}

// NewEnqueueServer returns a server that hands lines to intake. The error names the
// option at fault.
func NewEnqueueServer(intake Intake, o EnqueueOptions) (*EnqueueServer, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	s := &EnqueueServer{intake: intake, budget: newBudget(o.MaxIntakeBytes)}
	s.options.Store(&o)
	return s, nil
}

// Reconfigure puts other options into force: MaxIntakeBytes at once, for whatever is read
// from now on, the others for new connections. Where more than the new MaxIntakeBytes is
// read, nothing further is taken from any connection until enough of it is stored. Events
// and Log stay what they were.
func (s *EnqueueServer) Reconfigure(o EnqueueOptions) error {
	old := s.options.Load()
	o.Events, o.Log = old.Events, old.Log
	if err := o.complete(); err != nil {
		return err
	}
	s.options.Store(&o)
	s.budget.resize(o.MaxIntakeBytes)
	return nil
}

// complete fills in the defaults and checks what is given.
func (o *EnqueueOptions) complete() error {
	if o.MaxLineBytes == 0 {
		o.MaxLineBytes = 256 << 10
	}
	if o.MaxIntakeBytes == 0 {
		o.MaxIntakeBytes = 32 << 20
	}
	if o.ReceiptTimeout == 0 {
		o.ReceiptTimeout = 5 * time.Second
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	o.Events.complete()
	switch {
	case o.MaxLineBytes < 0:
		return fmt.Errorf("max_line_bytes is %d, must be positive", o.MaxLineBytes)
	case o.MaxIntakeBytes < int64(o.MaxLineBytes):
		return fmt.Errorf("max_intake_bytes is %d, must hold a line of max_line_bytes, %d", o.MaxIntakeBytes, o.MaxLineBytes)
	case o.ReceiptTimeout < 0:
		return fmt.Errorf("receipt_timeout_ms is %d, must be positive", o.ReceiptTimeout.Milliseconds())
	}
	return nil
}

func (e *EnqueueEvents) complete() {
	if e.Answered == nil {
		e.Answered = func(queue.Status, int) {}
	}
	if e.ReceiptsDropped == nil {
		e.ReceiptsDropped = func(int) {}
	}
}

// Serve takes lines from the connections of l until ctx ends, which begins the drain:
// what was read before is stored and answered, what was still on its way is rejected as
// DRAINING, each connection gets its end line, and Serve returns. That lines which wait
// for room are rejected too is the intake's part, which has to be told of the drain.
// Closing l cuts it short.
func (s *EnqueueServer) Serve(ctx context.Context, l *Listener) error {
	return l.Serve(ctx, s.handle)
}

// handle serves one producer: it reads, another goroutine has the lines stored, a
// third sends the receipts. It returns when all three have left.
func (s *EnqueueServer) handle(ctx context.Context, c *Conn) {
	o := s.options.Load()
	log := o.Log.With("connection", c.ID(), "uid", c.Peer().UID, "pid", c.Peer().PID)
	p := &producer{
		server:   s,
		conn:     c,
		peer:     c.Peer(),
		log:      log,
		drain:    ctx,
		receipts: newReceiptWriter(c, o.ReceiptTimeout, stallEvents(o.Events, log)),
		batches:  make(chan *judgedBatch, queuedBatches),
	}
	var others sync.WaitGroup
	others.Go(p.receipts.run)
	others.Go(p.store)
	// A deadline in the past would not even read what has already arrived.
	stop := context.AfterFunc(ctx, func() { c.SetReadDeadline(time.Now().Add(drainGrace)) })
	p.read(o.MaxLineBytes)
	stop()
	close(p.batches)
	others.Wait()
}

// judged returns an empty batch. Its lines take as much memory as their text, and as
// often: without the pool they were five sixths of all that a busy server allocates.
func (s *EnqueueServer) judged() *judgedBatch {
	if j, ok := s.spent.Get().(*judgedBatch); ok {
		return j
	}
	return new(judgedBatch)
}

// stallEvents logs the first time that a peer falls behind; the counter has the rest.
func stallEvents(e EnqueueEvents, log hclog.Logger) receiptEvents {
	var once sync.Once
	return receiptEvents{
		stalled: func() {
			once.Do(func() { log.Warn("producer does not read its receipts: they are dropped, its lines are stored") })
		},
		dropped: e.ReceiptsDropped,
	}
}
