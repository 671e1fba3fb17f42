package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"sync/atomic"
	"time"

	"breakwater/queue"
)

// HTTPOptions says where to post, and how.
type HTTPOptions struct {
	// Name is the handler's name in the configuration.
	Name string
	// URL is http, https, or http+unix with the path of a socket that ends in .sock
	// before the path of the request. A user and password in it are sent as Basic
	// authorization.
	URL string
	// Timeout is the limit of one try: connecting, sending, and reading the answer.
	Timeout time.Duration
	// Connections bounds the open connections; as many as there are workers, so
	// that none waits for another's. Zero: 8.
	Connections int
	// AuthorizationFile is a file with the value of the Authorization header
	// ("Bearer …"). It is read for each try, so that a new secret needs no restart.
	AuthorizationFile string
	// AuthorizationEnv names a variable with that value; it is read once, here.
	AuthorizationEnv string
	// Version is the program's, for User-Agent.
	Version string
	// LookupEnv is where AuthorizationEnv's value comes from; nil: the process's
	// environment.
	LookupEnv func(name string) (value string, ok bool)

	wire wire // for tests
}

// HTTP posts each delivery to a URL; see the package comment. It may be used by
// several goroutines.
type HTTP struct {
	timeout   time.Duration
	target    target
	agent     string
	secret    secret
	transport *http.Transport
	now       func() time.Time
}

// NewHTTP returns the handler. The error names the option that is wrong and never
// repeats the URL or a secret. That somebody listens is not checked here: it may
// come and go, and each delivery finds out.
func NewHTTP(o HTTPOptions) (*HTTP, error) {
	if o.Timeout <= 0 {
		return nil, fmt.Errorf("handler %s: option Timeout cannot be %v", o.Name, o.Timeout)
	}
	if o.Connections < 0 {
		return nil, fmt.Errorf("handler %s: option Connections cannot be %d", o.Name, o.Connections)
	}
	target, err := parseTarget(o.URL)
	if err != nil {
		return nil, fmt.Errorf("handler %s: option URL: %w", o.Name, err)
	}
	secret, err := newSecret(&o, target)
	if err != nil {
		return nil, fmt.Errorf("handler %s: %w", o.Name, err)
	}
	now := o.wire.now
	if now == nil {
		now = time.Now
	}
	return &HTTP{
		timeout: o.Timeout, target: target, agent: userAgent(o.Version), secret: secret,
		transport: newTransport(target, o.Connections, o.wire), now: now,
	}, nil
}

// Handle posts the delivery and returns what the answer means. It returns soon
// after ctx has ended: that is the end of a grace already (the drain's).
//
// The transport is used without a client on top of it: there are no redirects, no
// cookies and no proxy to be switched off. Since the request has an
// Idempotency-Key, the transport sends it once more where a connection that was
// kept turns out to be closed; that is the same try, and says that it is redelivered.
func (h *HTTP) Handle(ctx context.Context, d *queue.Delivery) queue.Answer {
	if ctx.Err() != nil {
		return notBegun
	}
	authorization, err := h.secret.authorization()
	if err != nil {
		return queue.Unavailable(clip(err.Error()), 0)
	}
	limited, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	var connected atomic.Bool
	traced := httptrace.WithClientTrace(limited, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { connected.Store(true) },
	})
	resp, err := h.transport.RoundTrip(h.request(traced, d, authorization))
	t := try{h: h, ctx: ctx, limited: limited, cancel: cancel, hide: h.secret.hidden(authorization)}
	if err != nil {
		a := t.unanswered(connected.Load(), err)
		a.Unanswered = connected.Load() // without a connection nothing was sent
		return a
	}
	defer resp.Body.Close() // what is left of it was not wanted
	if resp.StatusCode >= 200 && resp.StatusCode <= 299 {
		return t.succeeded(resp.Body)
	}
	return t.refused(resp)
}

// try is one exchange with the other end.
type try struct {
	h       *HTTP
	ctx     context.Context // the caller's
	limited context.Context // of the exchange
	cancel  context.CancelFunc
	hide    func(string) string // takes secrets out of a text
}

// unanswered is the answer of a try without a status. Whatever the cause, the
// message is not known to be at fault: a restart of the other end must not
// dead-letter it. Only a time limit that passed while there was a connection is a
// failure that counts, because the other end had the message to work on.
func (t *try) unanswered(connected bool, err error) queue.Answer {
	switch {
	case t.ctx.Err() != nil:
		return cutOff
	case errors.Is(t.limited.Err(), context.DeadlineExceeded) && connected:
		return queue.Answer{Verb: queue.Retry, Reason: t.h.limit()}
	case errors.Is(t.limited.Err(), context.DeadlineExceeded):
		return queue.Unavailable("no connection within the "+t.h.limit(), 0)
	}
	return queue.Unavailable("connection: "+t.text(err.Error()), 0)
}

func (h *HTTP) limit() string { return fmt.Sprintf("time limit of %v", h.timeout) }

// refused is the answer to every status but 2xx. A redirect is refused like any
// other: it would take the message to an address that nobody has configured.
func (t *try) refused(resp *http.Response) queue.Answer {
	reason := "status " + strconv.Itoa(resp.StatusCode)
	if name := http.StatusText(resp.StatusCode); name != "" {
		reason += " " + name
	}
	if resp.StatusCode >= 300 && resp.StatusCode <= 399 {
		reason += ", redirects are not followed"
	}
	if said := t.text(t.excerpt(resp.Body)); said != "" {
		reason += ": " + said
	}
	after, understood := retryAfter(resp.Header, t.h.now())
	if !understood {
		reason += "; its Retry-After was ignored"
	}
	switch code := resp.StatusCode; {
	case code == http.StatusTooManyRequests, code == http.StatusBadGateway,
		code == http.StatusServiceUnavailable, code == http.StatusGatewayTimeout:
		a := queue.Unavailable(reason, after)
		// RFC 9110: these are a gateway's, which has asked and heard nothing of use.
		a.Unanswered = code == http.StatusBadGateway || code == http.StatusGatewayTimeout
		return a
	case code == http.StatusRequestTimeout, code == http.StatusConflict, // still being processed
		code == http.StatusTooEarly, code >= 500 && code <= 599:
		return queue.Answer{Verb: queue.Retry, Reason: reason, After: after}
	}
	return queue.Answer{Verb: queue.Reject, Reason: reason}
}
