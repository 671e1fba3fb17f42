package app

import (
	"errors"
	"fmt"

	"breakwater/internal/config"
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

// handlersOf makes the in-process handler of each route that has one. A route
// whose handler is consumers has none.
func handlersOf(c config.Config, version string) (map[queue.Route]any, error) {
	made := map[queue.Route]any{}
	for _, route := range queue.Routes {
		h, ok := c.Handler(c.Routes.Of(route).Handler)
		if !ok {
			return nil, fmt.Errorf("route %s: no handler %q", route, c.Routes.Of(route).Handler)
		}
		switch h.Kind {
		case config.KindConsumers:
		case config.KindLog:
			made[route] = handler.Log{}
		case config.KindExec:
			e, err := handler.NewExec(handler.ExecOptions{Name: h.Name, Command: h.Command, Timeout: h.Timeout, Env: h.Env})
			if err != nil {
				return nil, err
			}
			made[route] = e
		case config.KindHTTP:
			e, err := handler.NewHTTP(handler.HTTPOptions{
				Name: h.Name, URL: h.URL, Timeout: h.Timeout, Connections: c.Queue.Concurrency, Version: version,
				AuthorizationFile: h.AuthorizationFile, AuthorizationEnv: h.AuthorizationEnv,
			})
			if err != nil {
				return nil, err
			}
			made[route] = e
		default:
			return nil, fmt.Errorf("route %s: handlers of kind %s are not known", route, h.Kind)
		}
	}
	return made, nil
}

// unsupportedError is a configuration that is valid, but asks for what this
// version cannot do. It is refused at the start: better than exceptions that wait
// for ever.
type unsupportedError struct{ what, hint string }

// Error says what was asked for.
func (e *unsupportedError) Error() string { return e.what }

// Advice says what to do instead.
func (e *unsupportedError) Advice() string { return e.hint }

// checkSupported refuses what a configuration asks for and this version does not
// have.
func checkSupported(c config.Config) error {
	if c.Checkpoint.Key != "" {
		return &unsupportedError{"checkpoint: this version writes no signed checkpoints", "leave the checkpoint block out"}
	}
	return nil
}

// IsConfig reports whether an error of Run is about what the configuration asks
// for.
func IsConfig(err error) bool {
	var u *unsupportedError
	return errors.As(err, &u)
}
