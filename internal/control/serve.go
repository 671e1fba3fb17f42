package control

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

// Limits of a connection.
const (
	// headerTime is how long a request's head may take, maxHeader how long it may be.
	headerTime = 5 * time.Second
	maxHeader  = 16 << 10

	// bodyTime is how long a request's body may take, MaxBody how long it may be.
	bodyTime = 10 * time.Second
	MaxBody  = 1 << 20

	// pastTime is how long the body of a refused request is read past before the
	// answer goes out: a client that is still sending may not look before it is done.
	pastTime = time.Second

	// writeTime is how long the client may take to read a piece of an answer.
	writeTime = 30 * time.Second

	// stopTime is how long requests under way get when the server stops.
	stopTime = 5 * time.Second
)

// site serves a set of endpoints over connections.
type site struct {
	log    hclog.Logger
	routes routes
	peer   func(net.Conn) any // what of a connection its requests know; nil: nothing
	idle   time.Duration      // how long a connection may wait for a request; 0: for ever

	handlers gate
}

// Values of a request's context.
type (
	peerKey   struct{} // who asks
	endingKey struct{} // a context that ends when the server begins to stop
)

// serve answers connections of l until ctx ends, then lets what is under way finish,
// streams excepted, and closes l. It returns when the last handler has left: nil if
// it was asked to stop, else the error of accept.
func (s *site) serve(ctx context.Context, l net.Listener) error {
	calm := newCalmListener(l)
	srv := &http.Server{
		Handler:           http.HandlerFunc(s.guard),
		ReadHeaderTimeout: headerTime,
		IdleTimeout:       s.idle,
		MaxHeaderBytes:    maxHeader,
		Protocols:         new(http.Protocols),
		ErrorLog:          s.log.StandardLogger(&hclog.StandardLoggerOptions{ForceLevel: hclog.Debug}),
		BaseContext: func(net.Listener) context.Context {
			return context.WithValue(context.WithoutCancel(ctx), endingKey{}, ctx)
		},
		// OPTIONS * is a method like others: refused.
		DisableGeneralOptionsHandler: true,
	}
	srv.Protocols.SetHTTP1(true) // no h2c: what is not offered cannot be reset 10,000 times
	if s.peer != nil {
		srv.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
			return context.WithValue(ctx, peerKey{}, s.peer(c.(translated).Conn))
		}
	}
	served := make(chan error, 1)
	go func() { served <- srv.Serve(calm) }()
	var err error
	select {
	case err = <-served:
		err = fmt.Errorf("accept on %s: %w", l.Addr(), err)
	case <-ctx.Done():
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTime)
		_ = srv.Shutdown(limit) // what has not finished by then is cut
		cancel()
		<-served
	}
	_ = srv.Close() // and so are those that wait for a request
	_ = l.Close()   // its own error, if any, was that of accept
	<-calm.ended
	s.handlers.close()
	return err
}

// guard answers one request, and outlives what a handler does.
func (s *site) guard(w http.ResponseWriter, r *http.Request) {
	if !s.handlers.enter() {
		panic(http.ErrAbortHandler) // the server has stopped; net/http closes the connection
	}
	defer s.handlers.leave()
	x := &exchange{site: s, w: w, r: r, control: http.NewResponseController(w)}
	x.answer()
}

// calmListener gives out connections that are translated, and separates the end of accepting from the end of the connections: the
// Close of a socket's listener cuts every connection, while http.Server closes the
// listener first and then waits for the requests under way.
type calmListener struct {
	net.Listener
	accepted chan net.Conn
	closing  chan struct{}
	once     sync.Once
	ended    chan struct{} // closed when the listener beneath gives no more
	failed   error         // why; set before that
}

func newCalmListener(l net.Listener) *calmListener {
	c := &calmListener{Listener: l, accepted: make(chan net.Conn), closing: make(chan struct{}), ended: make(chan struct{})}
	go c.accept()
	return c
}

// accept hands connections on until the listener beneath is closed.
func (c *calmListener) accept() {
	defer close(c.ended)
	for {
		conn, err := c.Listener.Accept()
		if err != nil {
			c.failed = err
			return
		}
		select {
		case c.accepted <- conn:
		case <-c.closing:
			_ = conn.Close() // it came too late, and has not been read from
		}
	}
}

// Accept returns the next connection; net.ErrClosed after Close.
func (c *calmListener) Accept() (net.Conn, error) {
	select {
	case conn := <-c.accepted:
		return translated{conn}, nil
	case <-c.closing:
		return nil, net.ErrClosed
	case <-c.ended:
		return nil, c.failed
	}
}

// Close ends accepting. The listener beneath is closed by whoever made it.
func (c *calmListener) Close() error {
	c.once.Do(func() { close(c.closing) })
	return nil
}

// gate counts the handlers that are inside, and lets nobody in after close.
type gate struct {
	mu     sync.Mutex
	shut   bool
	inside sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.shut {
		g.inside.Add(1)
	}
	return !g.shut
}

func (g *gate) leave() { g.inside.Done() }

// close lets nobody in any more and waits until all have left.
func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.inside.Wait()
}
