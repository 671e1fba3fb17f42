package control

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

const (
	// probeEvery is how often the store is made to commit for /readyz, at most: all
	// that ask within it share one probe.
	probeEvery = time.Second
	// readyWait is how long the store may take to say how it is.
	readyWait = 5 * time.Second
)

// readyz says whether lines would be taken and worked on: 503 while the process
// drains, while a probe does not commit, and while a route is stuck. A process that
// drains is not probed: its store may be closing.
func (s *Server) readyz(x *exchange) error {
	now := s.o.Now()
	ready := s.o.Ready(nil, now)
	var doc api.Readiness
	var broken error
	if !ready.Draining {
		// The probe first: it is the one question that a store which hangs, and does
		// not look at contexts, cannot hang on us.
		if broken = s.prober.check(x.r.Context()); broken == nil {
			ready, broken = s.observe(x.r.Context(), &doc, now)
		}
	}
	doc.Draining, doc.Consumers = ready.Draining, ready.Consumers
	doc.Intake, doc.Unavailable = ready.intake(), ready.outages()
	for _, route := range ready.Stuck {
		doc.Stuck = append(doc.Stuck, string(route))
	}
	if p := trouble(&ready, broken); p != nil {
		if broken != nil {
			s.o.Log.Warn("not ready", "error", broken.Error())
		}
		return x.write(p.status, api.Trouble, api.NotReady{Problem: p.body(), Readiness: doc})
	}
	doc.Ready = true
	return x.ok(doc)
}

// observe reads the status for what the answer tells of it.
func (s *Server) observe(ctx context.Context, doc *api.Readiness, now time.Time) (Readiness, error) {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	st, err := s.o.Store.Status(ctx, now)
	if err != nil {
		return s.o.Ready(nil, now), err
	}
	backlog := st.Backlog()
	doc.Paused, doc.Backlog, doc.HeldKeys = pauseOf(st.Paused), &backlog, &st.HeldKeys
	return s.o.Ready(&st, now), nil
}

// trouble collects why the process is not ready; nil: it is. The code is that of the
// gravest reason.
func trouble(r *Readiness, broken error) *problem {
	p := &problem{status: http.StatusServiceUnavailable, code: queue.CodeInternal, reasons: slices.Clone(r.Reasons)}
	for _, route := range r.Stuck {
		p.code = queue.CodeConsumerLag
		p.reasons = append(p.reasons, fmt.Sprintf("route %s has claimable exceptions and settles none", route))
	}
	if broken != nil {
		p.code = queue.CodeStorageUnavailable
		p.reasons = append(p.reasons, "the store does not commit")
	}
	if r.Draining {
		p.code = queue.CodeDraining
		p.reasons = append(p.reasons, "the process drains")
	}
	if len(p.reasons) == 0 {
		return nil
	}
	p.detail = "not ready: " + strings.Join(p.reasons, "; ")
	return p
}

// prober makes the store commit, now and then and once for all that ask.
type prober struct {
	probe func(context.Context) error
	now   func() time.Time

	mu   sync.Mutex
	last *probing
}

// probing is one probe; done is closed when err is there.
type probing struct {
	at   time.Time
	done chan struct{}
	err  error
}

// check returns what the latest probe met, which is at most probeEvery old, or that
// it takes too long.
func (p *prober) check(ctx context.Context) error {
	latest := p.latest()
	limit := time.NewTimer(readyWait)
	defer limit.Stop()
	select {
	case <-latest.done:
		return latest.err
	case <-limit.C:
		return fmt.Errorf("a probe has not committed in %v", readyWait)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// latest returns the probe under way, a fresh enough one, or begins one. It runs
// apart from who asked first: that one may leave, and a store that hangs is asked
// once and not by everyone.
func (p *prober) latest() *probing {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if p.last != nil {
		select {
		case <-p.last.done:
			if age := now.Sub(p.last.at); age >= 0 && age < probeEvery {
				return p.last
			}
		default:
			return p.last
		}
	}
	p.last = &probing{at: now, done: make(chan struct{})}
	go func(one *probing) {
		ctx, cancel := context.WithTimeout(context.Background(), readyWait)
		defer cancel()
		one.err = p.probe(ctx)
		close(one.done)
	}(p.last)
	return p.last
}
