package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	ucli "github.com/urfave/cli/v2"
)

// Process is what a command has of its surroundings.
type Process struct {
	Args           []string
	Stdin          *os.File
	Stdout, Stderr *os.File
	Getenv         func(string) string
	Version        string
}

// Exit statuses; see the package comment.
const (
	exitDone     = 0
	exitFailed   = 1
	exitUsage    = 2
	exitFindings = 3
	exitRejected = 4
	exitUnclean  = 5
)

// Run runs one command and returns its exit status. stop ends it (serve drains),
// hurry ends a drain at once.
func Run(stop, hurry context.Context, p Process) int {
	e := &env{Process: p, hurry: hurry, said: p.Stderr, flush: func() {}}
	defer e.flush()
	return e.report(e.run(stop))
}

// env is what every command shares.
type env struct {
	Process
	hurry    context.Context
	said     io.Writer // where the error goes that ends the command
	flush    func()    // gives what was said a last moment
	aim      aim       // whom the command line names
	dashes   bool      // "--" stands on the command line
	trailing int       // how many words stand after it
}

func (e *env) run(stop context.Context) error {
	if len(e.Args) == 2 && e.Args[1] == "--version" {
		e.Args = []string{e.Args[0], "version"} // what people try first with any program
	}
	app := e.app()
	line, err := arrange(app, e.Args)
	switch {
	case err != nil:
		return err
	case line.help:
		return write(e.Stdout, page(app, line))
	}
	e.aim = aimOf(app, line)
	e.dashes, e.trailing = line.dashes, line.trailing
	return app.RunContext(stop, line.args)
}

// app is the command tree.
func (e *env) app() *ucli.App {
	app := &ucli.App{
		Name:           "breakwater",
		Usage:          "durable, ordered hand-over of reconciliation exceptions",
		HideVersion:    true,
		HideHelp:       true, // pages are ours
		Reader:         e.Stdin,
		Writer:         e.Stdout,
		ErrWriter:      e.Stderr,
		ExitErrHandler: func(*ucli.Context, error) {}, // Run decides the status
		OnUsageError:   onUsageError,

		DisableSliceFlagSeparator: true, // a comma is part of a value
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "config", TakesFile: true, Usage: "read the configuration from `FILE`; default $BREAKWATER_CONFIG, ./config.hcl, /etc/breakwater/config.hcl, built-in values"},
			&ucli.BoolFlag{Name: "json", Usage: "print JSON: one document, or one per line for a list, and nothing else"},
		},
		Commands: e.commands(),
	}
	settle(app.Commands)
	return app
}

// settle sets what all commands have alike.
func settle(commands []*ucli.Command) {
	for _, c := range commands {
		c.HideHelp, c.OnUsageError = true, onUsageError
		settle(c.Subcommands)
	}
}

// commands lists every command, in the order of a working day.
func (e *env) commands() []*ucli.Command {
	return []*ucli.Command{
		e.serveCommand(),
		e.enqueueCommand(),
		e.consumeCommand(),
		withSocket(e.statusCommand()),
		withSocket(e.topCommand()),
		withSocket(e.showCommand()),
		withSocket(e.whyCommand()),
		withSocket(e.dlqCommand()),
		withSocket(e.keysCommand()),
		withSocket(e.leasesCommand()),
		withSocket(e.pauseCommand()),
		withSocket(e.resumeCommand()),
		withSocket(e.drainCommand()),
		withSocket(e.reloadCommand()),
		withSocket(e.archiveCommand()),
		e.compactCommand(),
		e.auditCommand(),
		e.configCommand(),
		withSocket(e.doctorCommand()),
		e.benchCommand(),
		e.versionCommand(),
		e.helpCommand(),
		e.completionCommand(),
		e.completeCommand(),
		e.sealArchiveCommand(),
		e.guardCommand(),
	}
}

// failure is an error with its exit status and what to do about it.
type failure struct {
	status int
	err    error
	hint   string
}

// Error is the error's text, without the hint.
func (f *failure) Error() string { return f.err.Error() }

// Unwrap is the error beneath.
func (f *failure) Unwrap() error { return f.err }

// usageError marks a wrong command line.
func usageError(err error) error {
	return &failure{status: exitUsage, err: err, hint: `see "breakwater --help"`}
}

func usageErrorf(format string, args ...any) error { return usageError(fmt.Errorf(format, args...)) }

// onUsageError is the OnUsageError of every command.
func onUsageError(_ *ucli.Context, err error, _ bool) error { return usageError(err) }

// noMoreArgs refuses what a command does not know what to do with.
func noMoreArgs(c *ucli.Context) error { return atMostArgs(c, 0) }

// atMostArgs refuses arguments after the n-th.
func atMostArgs(c *ucli.Context, n int) error {
	if c.NArg() > n {
		return usageFor(c, "unexpected argument %q", c.Args().Get(n))
	}
	return nil
}

// usageFor is a usage error whose hint names the page of the command.
func usageFor(c *ucli.Context, format string, args ...any) error {
	path := c.Command.HelpName // as the library has it: "breakwater dlq show"
	return &failure{
		status: exitUsage, err: fmt.Errorf(path+": "+format, args...), hint: fmt.Sprintf("see \"%s --help\"", path),
	}
}

// quiet is an exit status without an error to print.
type quiet int

// Error names the status.
func (q quiet) Error() string { return fmt.Sprintf("exit status %d", int(q)) }

// coded is an error with a stable word that scripts may rely on.
type coded interface {
	error
	Code() string
}

// report prints an error and returns the exit status.
func (e *env) report(err error) int {
	var q quiet
	var f *failure
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &q):
		return int(q)
	case errors.Is(err, errPipe):
		return exitDone // whoever read us has seen enough
	}
	status := exitFailed
	if errors.As(err, &f) {
		status = f.status
	}
	text := err.Error()
	var c coded
	if errors.As(err, &c) && !strings.Contains(text, c.Code()) {
		text += " (" + c.Code() + ")"
	}
	printError(e.said, text, e.aim.at(hintOf(err)))
	return status
}

// printError writes an error as people read it. Its text may quote input, so nothing in
// it reaches the terminal unescaped, and a line feed begins no line that looks like ours.
func printError(w io.Writer, text, hint string) {
	indented := func(s string) string { return strings.ReplaceAll(escape(s), "\n", "\n  ") }
	_, _ = fmt.Fprintf(w, "breakwater: error: %s\nhint: %s\n", indented(text), indented(hint)) // there is nowhere else to complain
}
