package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/internal/config"
	"breakwater/internal/control"
	"breakwater/internal/metrics"
	"breakwater/internal/socket"
	"breakwater/queue"
)

// inherited is what the service manager handed over, by name.
type inherited map[string]*net.UnixListener

// doors are the sockets and their servers.
type doors struct {
	enqueue *socket.Listener
	consume *socket.Listener
	control *socket.Listener
	scrapes net.Listener // nil: metrics.listen is not set

	lines     *socket.EnqueueServer
	consumers *socket.ConsumeServer
	operators *control.Server
	scraped   *control.MetricsServer
}

// Names of the sockets, as configuration and service manager spell them.
const (
	enqueueSocket = "enqueue"
	consumeSocket = "consume"
	controlSocket = "control"
)

// counts are the connection counts of each socket, for a scrape. They are asked
// for only once the sockets are open.
func (d *doors) counts() map[string]func() metrics.Connections {
	of := func(l **socket.Listener) func() metrics.Connections {
		return func() metrics.Connections {
			if *l == nil {
				return metrics.Connections{}
			}
			c := (*l).Counts()
			return metrics.Connections{Open: c.Open, Accepted: c.Accepted, Refused: c.Refused, Failed: c.Failed}
		}
	}
	return map[string]func() metrics.Connections{
		enqueueSocket: of(&d.enqueue), consumeSocket: of(&d.consume), controlSocket: of(&d.control),
	}
}

// open makes the servers and binds the sockets. Connections wait until serve.
func (d *doors) open(a *appliance, from inherited) (err error) {
	o := linesOf(a.o.Config)
	o.Log = a.log.Named("enqueue")
	o.Events = socket.EnqueueEvents{Answered: a.metrics.Lines, ReceiptsDropped: a.metrics.ReceiptsDropped}
	d.lines, err = socket.NewEnqueueServer(intake{a.runner, a.store}, o)
	if err != nil {
		return fmt.Errorf("enqueue socket: %w", err)
	}
	served := consumersOf(a.o.Config)
	served.Log = a.log.Named(consumeSocket)
	d.consumers, err = socket.NewConsumeServer(desk{a}, served)
	if err != nil {
		return fmt.Errorf("consume socket: %w", err)
	}
	operators := control.Options{
		Store: operated{a.store, a.runner}, Version: a.o.Version, Started: time.Now(), Log: a.log.Named(controlSocket),
		Ready: a.readiness, Policy: func() queue.Policy { return policyOf(a.config()) }, Peer: peerOf, Checkpoint: a.checkpoints.report, Metrics: a.metrics.Handler(), Drain: a.drainFor, Reload: a.reloadFor,
	}
	if a.archives = a.newArchives(); a.archives != nil {
		operators.Archive, operators.Archiving = a.archiveFor, a.archiving
	}
	d.operators, err = control.New(operators)
	if err != nil {
		return fmt.Errorf("control socket: %w", err)
	}
	d.scraped = control.NewMetricsServer(a.metrics.Handler(), a.o.Version, a.log.Named("metrics"))
	return d.bind(a, from)
}

// bind binds the sockets, or none of them. A socket that was handed over and that
// nobody will answer is closed: who connects must not hang.
func (d *doors) bind(a *appliance, from inherited) (err error) {
	c := a.o.Config
	for name, l := range from {
		if name != enqueueSocket && name != consumeSocket && name != controlSocket {
			a.log.Warn("socket handed over, but this version does not serve it", "socket", name)
			_ = l.Close() // nothing was accepted on it
		}
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.control, err = listen(controlSocket, c.Sockets.Control, control.Refusal(), from, a); err != nil {
		return err
	}
	if d.enqueue, err = listen(enqueueSocket, c.Sockets.Enqueue, nil, from, a); err != nil {
		return err
	}
	if d.consume, err = listen(consumeSocket, c.Sockets.Consume, nil, from, a); err != nil {
		return err
	}
	if c.Metrics.Listen == "" {
		return nil
	}
	if d.scrapes, err = net.Listen("tcp", c.Metrics.Listen); err != nil {
		return fmt.Errorf("metrics.listen: %w", err)
	}
	a.log.Info("listening", "socket", "metrics", "address", d.scrapes.Addr().String())
	return nil
}

// reconfigure puts the limits of another configuration into force. What is open or was
// read stays, also where it is more than they allow now.
func (d *doors) reconfigure(c config.Config) error {
	d.enqueue.SetMaxConnections(c.Sockets.Enqueue.MaxConnections)
	d.consume.SetMaxConnections(c.Sockets.Consume.MaxConnections)
	d.control.SetMaxConnections(c.Sockets.Control.MaxConnections)
	return errors.Join(d.lines.Reconfigure(linesOf(c)), d.consumers.Reconfigure(consumersOf(c)))
}

// peerOf says who is at the other end of an operator's connection.
func peerOf(c net.Conn) queue.Peer {
	if known, ok := c.(interface{ Peer() queue.Peer }); ok {
		return known.Peer()
	}
	return queue.Peer{}
}

// checkGroups refuses groups that this host does not have, before a store is opened for
// sockets that cannot be made. A new start would not heal it.
func checkGroups(s config.Sockets) error {
	for name, one := range map[string]config.Socket{enqueueSocket: s.Enqueue, consumeSocket: s.Consume, controlSocket: s.Control} {
		if err := socket.CheckGroup(one.Group); err != nil {
			return &unusableError{fmt.Sprintf("socket %q: %s", name, err), "create the group, or name another: \"breakwater config check\" says where"}
		}
	}
	return nil
}

// listen takes a socket over from the service manager, or makes it.
func listen(name string, c config.Socket, refusal []byte, from inherited, a *appliance) (*socket.Listener, error) {
	o := socket.ListenOptions{
		Path: c.Path, Mode: c.Mode, Group: c.Group, MaxConnections: c.MaxConnections,
		Refusal: refusal, Log: a.log.Named(name),
	}
	if l := from[name]; l != nil {
		a.log.Info("socket taken over from the service manager", "socket", name)
		return socket.FromListener(l, o), nil
	}
	l, err := socket.Listen(o)
	if err != nil {
		return nil, listenError(name, c, err)
	}
	a.log.Info("listening", "socket", name, "path", c.Path)
	return l, nil
}

// serving is what runs behind the doors.
type serving struct {
	enqueued chan error
	consumed chan error
	cut      atomic.Bool

	// Consumers are answered until the last handler has ended: so long an answer can
	// still be settled.
	endConsumers context.CancelFunc

	// Operators and scrapes are answered until the drain has ended: they are how it
	// is watched.
	others    sync.WaitGroup
	endOthers context.CancelFunc
}

// serve answers connections: producers until stop ends.
func (d *doors) serve(stop context.Context, a *appliance) *serving {
	s := &serving{enqueued: make(chan error, 1), consumed: make(chan error, 1)}
	go func() { s.enqueued <- d.lines.Serve(stop, d.enqueue) }()
	var consuming, late context.Context
	consuming, s.endConsumers = context.WithCancel(context.WithoutCancel(stop))
	go func() { s.consumed <- d.consumers.Serve(consuming, d.consume) }()
	late, s.endOthers = context.WithCancel(context.WithoutCancel(stop))
	answer := func(name string, serve func() error) {
		s.others.Go(func() {
			if err := serve(); err != nil {
				a.log.Error("server ended", "socket", name, "error", err.Error())
			}
		})
	}
	answer(controlSocket, func() error { return d.operators.Serve(late, d.control) })
	if d.scrapes != nil {
		answer("metrics", func() error { return d.scraped.Serve(late, d.scrapes) })
	}
	return s
}

// end ends the servers that outlive the drain.
func (s *serving) end() {
	s.endOthers()
	s.others.Wait()
}

// drain waits until every line that was read is answered. When hurry ends, what is
// still open is cut.
func (d *doors) drain(s *serving, hurry context.Context) error {
	return d.await(s, enqueueSocket, d.enqueue, s.enqueued, hurry)
}

// drainConsumers ends the connections of consumers, once every answer that was read is
// settled. When hurry ends, they are cut.
func (d *doors) drainConsumers(s *serving, hurry context.Context) error {
	s.endConsumers()
	return d.await(s, consumeSocket, d.consume, s.consumed, hurry)
}

// await waits for the end of a server, which the end of hurry brings about.
func (d *doors) await(s *serving, name string, l *socket.Listener, ended <-chan error, hurry context.Context) error {
	defer context.AfterFunc(hurry, func() {
		s.cut.Store(true)
		_ = l.Close() // cutting is all that is wanted
	})()
	if err := <-ended; err != nil && !s.cut.Load() {
		return fmt.Errorf("%s socket: %w", name, err)
	}
	return nil
}

// close closes the sockets. Those that were made here are unlinked.
func (d *doors) close() {
	for _, l := range [...]*socket.Listener{d.enqueue, d.consume, d.control} {
		if l != nil {
			_ = l.Close() // nobody is left to tell
		}
	}
	if d.scrapes != nil {
		_ = d.scrapes.Close()
	}
}
