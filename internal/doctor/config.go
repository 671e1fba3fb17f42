package doctor

import (
	"time"

	"breakwater/internal/config"
)

// configProblems folds in what makes a configuration unusable.
func configProblems(f *Facts, s *sheet) {
	p := f.Config.Problems
	switch {
	case p != nil:
		for _, one := range p.List {
			s.found(Wrong, one)
		}
		if p.Omitted > 0 {
			s.find(Wrong, f.Config.Path, "breakwater config check", "%s", count(int64(p.Omitted), "more problem is not listed", "more problems are not listed"))
		}
	case f.Config.Value == nil:
		s.skip(f.Config.Why)
	}
}

// configHost folds in what the host lacks.
func configHost(f *Facts, s *sheet) {
	if f.Config.Value == nil {
		s.skip(f.Config.Why)
	}
	for _, one := range f.Config.Host {
		if one.Denied && f.Host.Foreign {
			s.skip(one.Message)
			continue
		}
		s.found(Wrong, one)
	}
}

// configWarnings folds in what is probably not meant.
func configWarnings(f *Facts, s *sheet) {
	if f.Config.Value == nil {
		s.skip(f.Config.Why)
	}
	for _, one := range f.Config.Warnings {
		s.found(Smell, one)
	}
}

// found takes over a problem of the configuration.
func (s *sheet) found(how Severity, p config.Problem) {
	hint := p.Hint
	if hint == "" {
		hint = "breakwater config check"
	}
	s.find(how, placeOf(p), hint, "%s", p.Message)
}

// placeOf is file and line of a problem.
func placeOf(p config.Problem) string {
	bare := config.Problem{File: p.File, Line: p.Line}
	text := bare.String()
	return text[:len(text)-len(": ")]
}

// inForce compares the limits of the file with those that a running breakwater has: the
// others it does not tell.
func inForce(f *Facts, s *sheet) {
	c := f.Config.Value
	switch {
	case f.Mode != Running:
		s.needless()
		return
	case c == nil:
		s.skip(f.Config.Why)
		return
	case f.InForce == nil:
		s.skip(f.HandlersWhy)
		return
	}
	for _, one := range []struct {
		limit string
		here  int64
	}{
		{"max_backlog", c.Queue.MaxBacklog}, {"max_open_keys", c.Queue.MaxOpenKeys},
		{"max_dead_letters", c.Queue.MaxDeadLetters}, {"max_ledger_keys", c.Ledger.MaxKeys},
		{"max_store_bytes", c.Queue.MaxStoreBytes}, {"min_free_bytes", c.Queue.MinFreeBytes},
	} {
		if there, known := f.InForce[one.limit]; known && there != one.here {
			s.find(Smell, setting(one.limit), "breakwater reload puts the file into force; if another file is meant, name it with --config",
				"the file says %d, and %d is in force", one.here, there)
		}
	}
}

// enoughAnswers is how many answers a 99th percentile needs to be one.
const enoughAnswers = 100

// leases compares how long handlers take with how long a lease is. Workers renew the
// leases of what they run, so that a long run loses nothing by itself; but a process
// that hangs is noticed only by leases that end, and a consumer has to ask for more.
func leases(f *Facts, s *sheet) {
	c := f.Config.Value
	switch {
	case c == nil:
		s.skip(f.Config.Why)
		return
	case f.Handlers == nil:
		s.skip("not measured: " + f.HandlersWhy)
		return
	}
	measured := false
	for _, h := range f.Handlers {
		if h.Of < enoughAnswers {
			continue
		}
		measured = true
		if h.P99 >= c.Queue.LeaseTimeout {
			s.find(Smell, "queue.lease_timeout_ms", "raise queue.lease_timeout_ms above what the handler takes, or find out why it takes so long",
				"1 of 100 answers of the handler of %s takes about %v or longer, and a lease is %v: each such run depends on its renewal",
				h.Route, h.P99.Round(time.Millisecond), c.Queue.LeaseTimeout)
		}
	}
	if !measured {
		s.skip("not measured: no handler in the process has answered 100 times since the start")
	}
}

// nearTimeout is the share of its timeout_ms, in percent, that a handler's slowest
// answers are to stay below.
const nearTimeout = 80

// timeouts compares how long handlers take with what ends them: their own limit, and a
// drain. What is cut off is repeated.
func timeouts(f *Facts, s *sheet) {
	c := f.Config.Value
	switch {
	case c == nil:
		s.skip(f.Config.Why)
		return
	case f.Handlers == nil:
		s.skip("not measured: " + f.HandlersWhy)
		return
	}
	measured := false
	for _, h := range f.Handlers {
		if h.Of < enoughAnswers {
			continue
		}
		measured = true
		took := h.P99.Round(time.Millisecond)
		name := c.Routes.RouteReview.Handler
		if h.Route == "AUTO_RESOLVE" {
			name = c.Routes.AutoResolve.Handler
		}
		handler, _ := c.Handler(name) // a built-in one has no limit
		if handler.Timeout > 0 && h.P99 >= handler.Timeout/100*nearTimeout {
			s.find(Smell, "handler."+handler.Kind+"."+handler.Name+".timeout_ms", "raise its timeout_ms, or find out why it takes so long",
				"1 of 100 answers of the handler of %s takes about %v or longer, and it is cut off after %v", h.Route, took, handler.Timeout)
		}
		if h.P99 >= c.Queue.DrainTimeout {
			s.find(Smell, "queue.drain_timeout_s", "raise queue.drain_timeout_s, and TimeoutStopSec of the unit above it",
				"1 of 100 answers of the handler of %s takes about %v or longer, and a drain waits for %v", h.Route, took, c.Queue.DrainTimeout)
		}
	}
	if !measured {
		s.skip("not measured: no handler in the process has answered 100 times since the start")
	}
}

// usualStop is systemd's TimeoutStopSec, its default and that of the packaged unit, and
// stopMargin what the last commits of a stop may take of it.
const (
	usualStop  = 90 * time.Second
	stopMargin = 15 * time.Second
)

// drain compares the drain with what a service manager waits for.
func drain(f *Facts, s *sheet) {
	c := f.Config.Value
	if c == nil {
		s.skip(f.Config.Why)
		return
	}
	if c.Queue.DrainTimeout+stopMargin > usualStop {
		s.find(Smell, "queue.drain_timeout_s", "set TimeoutStopSec of the unit above it (systemctl edit breakwater), or lower queue.drain_timeout_s",
			"a drain may take %v, and systemd kills after %v unless the unit says otherwise (TimeoutStopSec)", c.Queue.DrainTimeout, usualStop)
	}
}
