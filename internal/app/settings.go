package app

import (
	"errors"
	"fmt"
	"reflect"

	"breakwater/internal/config"
	"breakwater/internal/socket"
	"breakwater/queue"
	"breakwater/queue/dispatch"
	"breakwater/queue/handler"
)

// settingsOf turns the configuration into the core's words.
func settingsOf(c config.Config) dispatch.Settings {
	q := c.Queue
	return dispatch.Settings{
		Prefetch: q.Prefetch,
		Lease:    q.LeaseTimeout,
		Policy:   policyOf(c),
		Limits: queue.Limits{
			MaxBacklog: q.MaxBacklog, MaxOpenKeys: q.MaxOpenKeys, MaxDeadLetters: q.MaxDeadLetters,
			MaxLedgerKeys: c.Ledger.MaxKeys, MaxStoreBytes: q.MaxStoreBytes, MinFreeBytes: q.MinFreeBytes,
		},
		RejectWhenFull: q.OnSaturated == config.RejectIntake,
		ConsumerLag:    q.ConsumerLag,
		DrainTimeout:   q.DrainTimeout,
		Retention:      dispatch.Retention{Ledger: c.Ledger.Retention, Audit: c.Audit.Retention, RequireArchive: c.Audit.RequireArchive},
	}
}

// policyOf is how failures are counted and spaced.
func policyOf(c config.Config) queue.Policy {
	q := c.Queue
	p := queue.Policy{
		MaxAttempts: q.MaxAttempts, MaxDeliveries: q.MaxDeliveries,
		RetryInitial: q.RetryInitial, RetryMax: q.RetryMax, OnDeadLetter: queue.HoldKey,
	}
	if q.OnDeadLetter == config.SkipKey {
		p.OnDeadLetter = queue.SkipDead
	}
	return p
}

// linesOf is how the enqueue socket treats its connections.
func linesOf(c config.Config) socket.EnqueueOptions {
	return socket.EnqueueOptions{
		MaxLineBytes: int(c.Queue.MaxLineBytes), MaxIntakeBytes: c.Queue.MaxIntakeBytes,
		ReceiptTimeout: c.Queue.ReceiptTimeout,
	}
}

// consumersOf is what consumers may ask for.
func consumersOf(c config.Config) socket.ConsumeOptions {
	q := c.Queue
	return socket.ConsumeOptions{Lease: q.LeaseTimeout, MaxLease: q.MaxLeaseTimeout, MaxPrefetch: q.MaxPrefetch}
}

// handlersOf makes the in-process handler of each route that has one. A route
// whose handler is consumers has none. One that is configured as before is the one
// before, with its connections.
func (a *appliance) handlersOf(c config.Config) (map[queue.Route]any, error) {
	made := map[queue.Route]any{}
	old := a.config()
	for _, route := range queue.Routes {
		h, ok := c.Handler(c.Routes.Of(route).Handler)
		if !ok {
			return nil, fmt.Errorf("route %s: no handler %q", route, c.Routes.Of(route).Handler)
		}
		if h.Kind == config.KindConsumers {
			continue
		}
		was, _ := old.Handler(old.Routes.Of(route).Handler)
		// Connections are as many as workers.
		sized := h.Kind == config.KindHTTP && old.Queue.Concurrency != c.Queue.Concurrency
		if present, ok := a.handlers[route]; ok && !sized && reflect.DeepEqual(was, h) {
			made[route] = present
			continue
		}
		one, err := a.newHandler(h, c.Queue.Concurrency)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", route, err)
		}
		made[route] = one
	}
	return made, nil
}

// newHandler makes a handler for so many workers.
func (a *appliance) newHandler(h config.Handler, workers int) (any, error) {
	switch h.Kind {
	case config.KindLog:
		return handler.Log{}, nil
	case config.KindExec:
		return handler.NewExec(handler.ExecOptions{Name: h.Name, Command: h.Command, Timeout: h.Timeout, Env: h.Env, Starting: a.commandStarts})
	case config.KindHTTP:
		return handler.NewHTTP(handler.HTTPOptions{
			Name: h.Name, URL: h.URL, Timeout: h.Timeout, Connections: workers, Version: a.o.Version,
			AuthorizationFile: h.AuthorizationFile, AuthorizationEnv: h.AuthorizationEnv,
		})
	}
	return nil, fmt.Errorf("handlers of kind %s are not known", h.Kind)
}

// unusableError is a configuration that is valid, but names what cannot be used on
// this host. It is refused at the start: better than evidence that is missing.
type unusableError struct{ what, hint string }

// Error says what is wrong.
func (e *unusableError) Error() string { return e.what }

// Advice says what to do instead.
func (e *unusableError) Advice() string { return e.hint }

// IsConfig reports whether an error of Run is about what the configuration asks
// for.
func IsConfig(err error) bool {
	var u *unusableError
	return errors.As(err, &u)
}
