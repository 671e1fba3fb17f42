package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"breakwater/internal/config"
	"breakwater/internal/metrics"
	"breakwater/internal/socket"
)

// inherited is what the service manager handed over, by name.
type inherited map[string]*net.UnixListener

// doors are the sockets and their servers.
type doors struct {
	enqueue *socket.Listener
	control *socket.Listener
	lines   *socket.EnqueueServer
}

// Names of the sockets, as configuration and service manager spell them.
const (
	enqueueSocket = "enqueue"
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
	return map[string]func() metrics.Connections{enqueueSocket: of(&d.enqueue), controlSocket: of(&d.control)}
}

// open makes the servers and binds the sockets. Connections wait until serve.
func (d *doors) open(_ context.Context, a *appliance, from inherited) (err error) {
	c := a.o.Config
	d.lines, err = socket.NewEnqueueServer(intake{a.runner, a.store}, socket.EnqueueOptions{
		MaxLineBytes: int(c.Queue.MaxLineBytes), MaxIntakeBytes: c.Queue.MaxIntakeBytes,
		ReceiptTimeout: c.Queue.ReceiptTimeout, Log: a.log.Named("enqueue"),
		Events: socket.EnqueueEvents{ReceiptsDropped: a.metrics.ReceiptsDropped},
	})
	if err != nil {
		return fmt.Errorf("enqueue socket: %w", err)
	}
	if d.control, err = listen(controlSocket, c.Sockets.Control, from, a); err != nil {
		return err
	}
	if d.enqueue, err = listen(enqueueSocket, c.Sockets.Enqueue, from, a); err != nil {
		return errors.Join(err, d.control.Close())
	}
	return nil
}

// listen takes a socket over from the service manager, or makes it.
func listen(name string, c config.Socket, from inherited, a *appliance) (*socket.Listener, error) {
	o := socket.ListenOptions{
		Path: c.Path, Mode: c.Mode, Group: c.Group, MaxConnections: c.MaxConnections, Log: a.log.Named(name),
	}
	if l := from[name]; l != nil {
		a.log.Info("socket taken over from the service manager", "socket", name)
		return socket.FromListener(l, o), nil
	}
	l, err := socket.Listen(o)
	if err != nil {
		return nil, fmt.Errorf("%s socket: %w", name, err)
	}
	a.log.Info("listening", "socket", name, "path", c.Path)
	return l, nil
}

// serving is what runs behind the doors.
type serving struct {
	enqueued chan error
	cut      atomic.Bool
}

// serve answers connections until stop ends.
func (d *doors) serve(stop context.Context, _ *appliance) *serving {
	s := &serving{enqueued: make(chan error, 1)}
	go func() { s.enqueued <- d.lines.Serve(stop, d.enqueue) }()
	return s
}

// drain waits until every line that was read is answered. When hurry ends, what is
// still open is cut.
func (d *doors) drain(s *serving, hurry context.Context) error {
	defer context.AfterFunc(hurry, func() {
		s.cut.Store(true)
		_ = d.enqueue.Close() // cutting is all that is wanted
	})()
	err := <-s.enqueued
	if err != nil && !s.cut.Load() {
		return fmt.Errorf("enqueue socket: %w", err)
	}
	return nil
}

// close closes the sockets. Those that were made here are unlinked.
func (d *doors) close() {
	_ = d.enqueue.Close() // nobody is left to tell
	_ = d.control.Close()
}
