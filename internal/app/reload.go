package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/config"
	"breakwater/internal/control"
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
		done, err := a.reload(ctx, queue.Action{Now: time.Now(), Reason: "SIGHUP"})
		if err != nil {
			done.Refused = append(done.Refused, err.Error())
		}
		for _, reason := range done.Refused {
			a.log.Error("reload refused; the configuration before stays in force", "problem", reason)
		}
	}
}

// reloadFor reloads because an operator asked for it. What has begun is ended also
// if the operator is gone: half of it would be worse.
func (a *appliance) reloadFor(ctx context.Context, by queue.Action) (control.Reloaded, error) {
	select {
	case <-a.served:
	default:
		return refused("breakwater is still starting"), nil
	}
	return a.reload(context.WithoutCancel(ctx), by)
}

// reload reads the configuration again and puts all of it into force, or nothing:
// then the answer says why, or err that it could not be recorded.
func (a *appliance) reload(ctx context.Context, by queue.Action) (control.Reloaded, error) {
	a.reloading.Lock()
	defer a.reloading.Unlock()
	if a.runner.Draining() {
		return refused("breakwater is ending"), nil
	}
	_ = a.notify.Reloading() // the log says it too
	defer func() {
		if !a.runner.Draining() {
			_ = a.notify.Ready("serving")
		}
	}()
	next, no := a.read()
	if len(no.Refused) > 0 {
		return no, nil
	}
	old := a.config()
	changed, _ := config.Reloadable(old, next)
	done := control.Reloaded{File: fileOf(next), Changed: changed}
	if len(changed) == 0 {
		a.log.Info("reloaded: the configuration is the same", "file", fileName(done.File))
		return done, nil
	}
	handlers, err := a.handlersOf(next)
	if err != nil {
		return refused(err.Error()), nil
	}
	work := dispatch.Configuration{
		Settings: settingsOf(next), Workers: next.Queue.Concurrency, Room: next.Queue.MaxSize, Handlers: handlers,
	}
	if err := a.runner.Check(work); err != nil {
		return refused(err.Error()), nil
	}
	before, after, err := config.Changes(old, next)
	if err != nil {
		return control.Reloaded{}, err
	}
	// Recorded first: what is in force and not in the trail would be the worse lie.
	if err := a.store.SetConfig(ctx, by, next.Effective(), before, after); err != nil {
		return control.Reloaded{}, fmt.Errorf("record the new configuration: %w", err)
	}
	return done, a.take(next, work, changed)
}

// refused is the answer to a reload that was not taken.
func refused(reasons ...string) control.Reloaded { return control.Reloaded{Refused: reasons} }

// fileOf is where a configuration was read, "" for built-in values. It is absolute:
// who reads the answer need not be where this process was started.
func fileOf(cfg config.Config) string {
	file := cfg.File()
	if path, err := filepath.Abs(file); err == nil && file != "" {
		return path
	}
	return file
}

// fileName is the file for the log.
func fileName(file string) string {
	if file == "" {
		return "none: built-in values"
	}
	return file
}

// read returns the configuration of the file, or why it cannot be put into force.
func (a *appliance) read() (next config.Config, no control.Reloaded) {
	if a.o.Load == nil {
		return next, refused("this process cannot read its configuration again")
	}
	next, err := a.o.Load()
	var problems *config.Problems
	switch {
	case errors.As(err, &problems):
		for _, p := range problems.List {
			no.Refused = append(no.Refused, p.String())
		}
		if problems.Omitted > 0 {
			no.Refused = append(no.Refused, fmt.Sprintf("and %d more", problems.Omitted))
		}
		no.Hint = `mend the file; "breakwater config check" names the same without a reload`
		return next, no
	case err != nil:
		return next, refused(err.Error())
	}
	_, fixed := config.Reloadable(a.config(), next)
	for _, key := range fixed {
		no.Refused = append(no.Refused, key+" changes only at a restart")
		// The check cannot tell: it does not know what is in force.
		no.Hint = "restart breakwater to put the file into force, or take these changes back and reload"
	}
	return next, no
}

// take puts a configuration into force that was checked and recorded: what fails
// now is a mistake of ours.
func (a *appliance) take(next config.Config, work dispatch.Configuration, changed []string) error {
	err := errors.Join(a.doors.reconfigure(next), a.runner.Reconfigure(work))
	a.handlers = work.Handlers
	a.inForce.Store(&next)
	a.log.SetLevel(hclog.LevelFromString(next.Log.Level))
	for _, p := range append(next.Warnings(), next.CheckHost()...) {
		a.log.Warn("configuration", "problem", p.String())
	}
	a.log.Info("reloaded", "file", fileName(fileOf(next)), "changed", changed)
	return err
}
