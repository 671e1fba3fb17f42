package cli

import (
	"errors"
	"os"
	"os/signal"
	"syscall"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
	"breakwater/internal/config"
)

func (e *env) serveCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "serve",
		Usage: "run the appliance until SIGTERM or SIGINT",
		Description: manual(`
Opens the store, makes the sockets and works until a signal. The first SIGTERM or
SIGINT drains: lines that wait are refused, running handlers finish within
queue.drain_timeout_s, everything else is put back; a second one ends at once.
What was answered "accepted" is on disk in any case, also after kill -9.

A store that is damaged, locked, empty or of another program is refused and left
as it is. A file older than its witness (<store>.head), or one that is marked as a
copy, is refused without --restore, which records RESTORED, voids all leases and
starts paused: "breakwater resume" lets the work go on. Where there is a witness and
no store, none is made, with or without --restore.`,
			[]string{
				"0  the drain was clean", "1  the store or a socket could not be had, or a commit failed",
				status2, "5  the drain was cut off; what was left is put back",
			},
			"breakwater serve", "breakwater --config /etc/breakwater/config.hcl serve", "breakwater serve --restore"),
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "restore", Usage: "take a file older than its witness, or a copy, into service"},
		},
		Action: e.serve,
	}
}

func (e *env) serve(c *ucli.Context) error {
	// Before anything else: until then the signal kills.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	if err := noMoreArgs(c); err != nil {
		return err
	}
	cfg, err := e.config(c)
	if err != nil {
		return err
	}
	// Whatever reads our stderr may stop reading: it must stop neither the work nor the end.
	out := newPatientWriter(e.Stderr, leftOut(cfg))
	e.said, e.flush = out, out.flush
	log := logger(cfg, out)
	defer hushLibraries(log)()
	for _, p := range append(cfg.Warnings(), cfg.CheckHost()...) {
		log.Warn("configuration", "problem", p.String())
	}
	err = app.Run(c.Context, e.hurry, app.Options{
		Config: cfg, Load: func() (config.Config, error) { return config.Load(cfg.File()) }, Version: e.Version, Restore: c.Bool("restore"), Stdout: e.Stdout, Log: log,
		Reload: reload, Guard: []string{os.Args[0], app.GuardCommand},
	})
	var unusable interface{ Advice() string }
	switch {
	case errors.Is(err, app.ErrUncleanDrain) && e.hurry.Err() != nil:
		return &failure{status: exitUnclean, err: err, hint: "a second signal ended it at once; the next start goes on with what was left"}
	case errors.Is(err, app.ErrUncleanDrain):
		return &failure{status: exitUnclean, err: err, hint: "raise queue.drain_timeout_s above the handlers' usual time"}
	case app.IsConfig(err) && errors.As(err, &unusable):
		return &failure{status: exitUsage, err: err, hint: unusable.Advice()}
	case err != nil && !errors.As(err, &unusable):
		return &failure{status: exitFailed, err: err, hint: `"breakwater doctor" and "breakwater config check" look for what is wrong with this host`}
	}
	return err
}
