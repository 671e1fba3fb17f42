package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/config"
	"breakwater/queue"
	"breakwater/queue/dispatch"
)

// heedReloads answers signals to read the configuration again, until ctx ends. The
// signal's default is to kill the process: it must be taken from the first moment
// on. One that comes during the start is answered after it; many are answered once.
func (a *appliance) heedReloads(ctx context.Context) {
	for {
		select {
		case <-a.o.Reload:
		case <-ctx.Done():
			return
		}
		select {
		case <-a.served:
		case <-ctx.Done():
			return
		}
		reasons, err := a.reload(ctx, queue.Action{Now: time.Now(), Reason: "SIGHUP"})
		if err != nil {
			reasons = append(reasons, err.Error())
		}
		for _, reason := range reasons {
			a.log.Error("reload refused; the configuration before stays in force", "problem", reason)
		}
	}
}

// reloadFor reloads because an operator asked for it. What has begun is ended also
// if the operator is gone: half of it would be worse.
func (a *appliance) reloadFor(ctx context.Context, by queue.Action) (reasons []string, err error) {
	select {
	case <-a.served:
	default:
		return []string{"breakwater is still starting"}, nil
	}
	return a.reload(context.WithoutCancel(ctx), by)
}

// reload reads the configuration again and puts all of it into force, or nothing:
// then the reasons say why, or err that it could not be recorded.
func (a *appliance) reload(ctx context.Context, by queue.Action) (reasons []string, err error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.runner.Draining() {
		return []string{"breakwater is ending"}, nil
	}
	_ = a.notify.Reloading() // the log says it too
	defer func() {
		if !a.runner.Draining() {
			_ = a.notify.Ready("serving")
		}
	}()
	next, reasons := a.read()
	if len(reasons) > 0 {
		return reasons, nil
	}
	old := a.config()
	changed, _ := config.Reloadable(old, next)
	if len(changed) == 0 {
		a.log.Info("reloaded: the configuration is the same")
		return nil, nil
	}
	handlers, err := a.handlersOf(next)
	if err != nil {
		return []string{err.Error()}, nil
	}
	work := dispatch.Configuration{
		Settings: settingsOf(next), Workers: next.Queue.Concurrency, Room: next.Queue.MaxSize, Handlers: handlers,
	}
	if err := a.runner.Check(work); err != nil {
		return []string{err.Error()}, nil
	}
	before, after, err := config.Changes(old, next)
	if err != nil {
		return nil, err
	}
	// Recorded first: what is in force and not in the trail would be the worse lie.
	if err := a.store.SetConfig(ctx, by, next.Effective(), before, after); err != nil {
		return nil, fmt.Errorf("record the new configuration: %w", err)
	}
	return nil, a.take(next, work, changed)
}

// read returns the configuration of the file, or why it cannot be put into force.
func (a *appliance) read() (next config.Config, reasons []string) {
	if a.o.Load == nil {
		return next, []string{"this process cannot read its configuration again"}
	}
	next, err := a.o.Load()
	var problems *config.Problems
	switch {
	case errors.As(err, &problems):
		for _, p := range problems.List {
			reasons = append(reasons, p.String())
		}
		if problems.Omitted > 0 {
			reasons = append(reasons, fmt.Sprintf("and %d more", problems.Omitted))
		}
		return next, reasons
	case err != nil:
		return next, []string{err.Error()}
	}
	_, refused := config.Reloadable(a.config(), next)
	for _, key := range refused {
		reasons = append(reasons, key+" changes only at a restart")
	}
	return next, reasons
}

// take puts a configuration into force that was checked and recorded: what fails
// now is a mistake of ours.
func (a *appliance) take(next config.Config, work dispatch.Configuration, changed []string) error {
	err := errors.Join(a.doors.lines.Reconfigure(linesOf(next)), a.doors.consumers.Reconfigure(consumersOf(next)), a.runner.Reconfigure(work))
	a.handlers = work.Handlers
	a.inForce.Store(&next)
	a.log.SetLevel(hclog.LevelFromString(next.Log.Level))
	for _, p := range append(next.Warnings(), next.CheckHost()...) {
		a.log.Warn("configuration", "problem", p.String())
	}
	a.log.Info("reloaded", "changed", changed)
	return err
}
