package app

import (
	"context"
	"errors"
	"net"
	"sync"

	"breakwater/internal/control"
	"breakwater/queue"
	"breakwater/storage"
)

// ErrReadOnly: a copy is only read.
var ErrReadOnly = errors.New("a copy is only read")

// Copy answers questions about a store's file that nobody writes to: the control
// server itself, over pipes inside this process, so that a question has the same
// answer from a copy as from a running breakwater. Nothing listens anywhere.
type Copy struct {
	store  storage.Copy
	pipes  pipeListener
	stop   context.CancelFunc
	served chan error
}

// OpenCopy opens the file at path for reading, also one that a process which has
// ended left behind. Close it after use. The end of ctx ends the opening, which reads
// all of a file that was not closed in order, and nothing after it; progress, if not
// nil, is told how far it has come.
func OpenCopy(ctx context.Context, path, version string, progress func(step string, done, total int64)) (*Copy, error) {
	store, err := storage.OpenCopy(storage.Options{Path: path, Context: ctx, Progress: progress})
	if err != nil {
		return nil, err
	}
	server, err := control.New(control.Options{Store: readOnly{store}, Version: version})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	serving, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Copy{store: store, stop: stop, served: make(chan error, 1)}
	c.pipes.conns, c.pipes.closed = make(chan net.Conn), make(chan struct{})
	go func() { c.served <- server.Serve(serving, &c.pipes) }()
	return c, nil
}

// Dial makes a connection to the server of the copy.
func (c *Copy) Dial(ctx context.Context) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case c.pipes.conns <- theirs:
		return ours, nil
	case <-c.pipes.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Found says how the file was left, and whether it would be taken into service.
func (c *Copy) Found() (storage.Found, error) { return c.store.Found() }

// Close ends the server and closes the file.
func (c *Copy) Close() error {
	c.stop()
	return errors.Join(<-c.served, c.store.Close())
}

// readOnly is a copy as the server wants it: what would change it is refused.
type readOnly struct{ storage.Copy }

var _ control.Store = readOnly{}

// Verify compares what is stored with what the trail says, too: nobody changes either
// meanwhile. It follows all there is: the memory is that of whoever asks.
func (r readOnly) Verify(ctx context.Context, o queue.VerifyOptions) (queue.Verification, error) {
	o.Buckets, o.MaxOpen = true, 0
	return r.Copy.Verify(ctx, o)
}

// Pause is refused, Resume too.
func (readOnly) Pause(context.Context, queue.Action) error  { return ErrReadOnly }
func (readOnly) Resume(context.Context, queue.Action) error { return ErrReadOnly }

// Replay is refused.
func (readOnly) Replay(context.Context, queue.Action, []uint64) ([]queue.ActionResult, error) {
	return nil, ErrReadOnly
}

// Discard is refused.
func (readOnly) Discard(context.Context, queue.Action, []uint64) ([]queue.ActionResult, error) {
	return nil, ErrReadOnly
}

// Edit is refused.
func (readOnly) Edit(context.Context, queue.Action, []queue.Edit) ([]queue.EditResult, error) {
	return nil, ErrReadOnly
}

// HoldKeys is refused.
func (readOnly) HoldKeys(context.Context, queue.Action, []string) ([]queue.ActionResult, error) {
	return nil, ErrReadOnly
}

// ReleaseKeys is refused.
func (readOnly) ReleaseKeys(context.Context, queue.Action, []string) ([]queue.ActionResult, error) {
	return nil, ErrReadOnly
}

// Revoke is refused.
func (readOnly) Revoke(context.Context, queue.Action, queue.Policy, []queue.LeaseRef) ([]queue.Revoked, error) {
	return nil, ErrReadOnly
}

// Probe is refused: it would commit.
func (readOnly) Probe(context.Context) error { return ErrReadOnly }

// pipeListener hands on connections that were made inside the process.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

// Accept returns the next connection; net.ErrClosed after Close.
func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close ends accepting.
func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr is no address.
func (l *pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

// Network and String say that there is nowhere to connect to.
func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "this process" }
