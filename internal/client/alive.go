package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

const (
	// quietTime is how long a request may be without an answer before the server is
	// asked, on a connection of its own, whether it lives at all.
	quietTime = 2 * time.Second
	// signTime is how long it may take to say so. One that never did is given up then.
	signTime = 5 * time.Second
	// laterSignTime is the same of a server that has said so during the request: what
	// may have come far, like an archive, does not end for a moment without breath.
	laterSignTime = time.Minute
	// signEvery is how often it is asked from then on.
	signEvery = 15 * time.Second
)

// ErrSilent: somebody listens on the control socket and answers nothing, not even that it
// lives. What was asked for may still be done, should it go on.
var ErrSilent = errors.New("it listens on the control socket and does not answer")

// doWhileAlive is the client's Do. It waits for an answer as long as req's context lets
// it, and for its body, but not for a server that shows no sign of life: that is ErrSilent.
func (c *Control) doWhileAlive(req *http.Request) (*http.Response, error) {
	ctx, end := context.WithCancelCause(req.Context())
	go c.watch(ctx, end)
	res, err := c.http.Do(req.WithContext(ctx))
	if err != nil {
		err = silence(ctx, err)
		end(nil)
		return nil, err
	}
	res.Body = &watchedBody{ReadCloser: res.Body, ctx: ctx, stop: func() { end(nil) }}
	return res, nil
}

// watch asks for signs of life until ctx ends, or ends it when none comes.
func (c *Control) watch(ctx context.Context, end context.CancelCauseFunc) {
	patience, pause := signTime, quietTime
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if err := c.sign(ctx, patience); err != nil {
			end(err)
			return
		}
		patience, pause = laterSignTime, signEvery
	}
}

// sign waits for a sign of life; ErrSilent: none came in time. Whatever comes is one, also
// the end of the connection: the request itself is told better what that means.
func (c *Control) sign(ctx context.Context, patience time.Duration) error {
	asking, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(asking, http.MethodGet, host+"/healthz", nil)
	if err != nil {
		return err
	}
	res, err := c.http.Do(req)
	switch {
	case err == nil:
		res.Body.Close()
		return nil
	case ctx.Err() == nil && asking.Err() != nil:
		return fmt.Errorf("%w: no sign of life in %s", ErrSilent, patience)
	}
	return nil
}

// watchedBody is an answer that is read while its server lives.
type watchedBody struct {
	io.ReadCloser
	ctx  context.Context
	stop func()
}

// Read reads; a server that fell silent within its answer is ErrSilent.
func (b *watchedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	return n, silence(b.ctx, err)
}

// Close closes it, and the server is not watched any more.
func (b *watchedBody) Close() error {
	b.stop()
	return b.ReadCloser.Close()
}

// silence is the error of a request, or ErrSilent if that is why it was given up.
func silence(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); err != nil && errors.Is(cause, ErrSilent) {
		return cause
	}
	return err
}
