package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/hashicorp/go-hclog"
	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
	"breakwater/internal/config"
	"breakwater/storage"
)

// commands lists every command, in the order of a working day.
func (e *env) commands() []*ucli.Command {
	return []*ucli.Command{
		e.serveCommand(),
		e.enqueueCommand(),
		e.versionCommand(),
	}
}

func (e *env) serveCommand() *ucli.Command {
	return &ucli.Command{
		Name:  "serve",
		Usage: "run the appliance until SIGTERM or SIGINT",
		Description: "The first signal drains: lines that wait are refused, running handlers finish\n" +
			"within queue.drain_timeout_s, the rest is put back. A second signal ends at once.\n" +
			"Exit status: 0 after a clean drain, 5 after one that was not, 2 for a wrong\nconfiguration, 1 when the store failed.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "restore", Usage: "take an archive copy, or a file older than its witness, into service"},
		},
		OnUsageError: onUsageError,
		Action:       e.serve,
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
	err = app.Run(c.Context, e.hurry, app.Options{
		Config: cfg, Version: e.Version, Restore: c.Bool("restore"), Stdout: e.Stdout,
		Log: logger(cfg, e.Stderr), Reload: reload,
	})
	var unsupported interface{ Advice() string }
	switch {
	case errors.Is(err, app.ErrUncleanDrain):
		return &failure{status: exitUnclean, err: err, hint: "raise queue.drain_timeout_s above the handlers' usual time"}
	case errors.Is(err, storage.ErrRolledBack), errors.Is(err, storage.ErrArchive):
		return &failure{status: exitFailed, err: err,
			hint: `if that is meant, run "breakwater serve --restore": it voids all leases and starts paused`}
	case app.IsConfig(err) && errors.As(err, &unsupported):
		return &failure{status: exitUsage, err: err, hint: unsupported.Advice()}
	}
	return err
}

// logger is the log on stderr. The format "text" is for people; both keep a
// message on one line.
func logger(c config.Config, w io.Writer) hclog.Logger {
	return hclog.New(&hclog.LoggerOptions{
		Name: "breakwater", Level: hclog.LevelFromString(c.Log.Level), Output: w, JSONFormat: c.Log.Format == "json",
	})
}

// config reads the configuration that the command line, the environment or the
// usual places name.
func (e *env) config(c *ucli.Context) (config.Config, error) {
	path, explicit := config.Find(c.String("config"), e.Getenv)
	cfg, err := config.Load(path)
	var problems *config.Problems
	switch {
	case err == nil:
		return cfg, nil
	case errors.As(err, &problems):
		for _, p := range problems.List {
			_, _ = fmt.Fprintln(e.Stderr, escape(p.String())) // the error below says it too
		}
		return cfg, &failure{status: exitUsage, err: fmt.Errorf("the configuration has %d problem(s)", len(problems.List)+problems.Omitted),
			hint: `"breakwater config check" lists them again`}
	case explicit && errors.Is(err, os.ErrNotExist):
		return cfg, usageError(err)
	}
	return cfg, &failure{status: exitUsage, err: err}
}

// noMoreArgs refuses what a command does not know what to do with.
func noMoreArgs(c *ucli.Context) error {
	if c.Args().Present() {
		return usageErrorf("%s: unexpected argument %q", c.Command.FullName(), c.Args().First())
	}
	return nil
}

// onUsageError is the OnUsageError of every command.
func onUsageError(_ *ucli.Context, err error, _ bool) error { return usageError(err) }
