package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

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
	e := &env{Process: p, hurry: hurry}
	app := e.app()
	args, err := arrange(app, p.Args)
	if err == nil {
		err = app.RunContext(stop, args)
	}
	return e.report(err)
}

// env is what every command shares.
type env struct {
	Process
	hurry context.Context
}

// app is the command tree.
func (e *env) app() *ucli.App {
	return &ucli.App{
		Name:            "breakwater",
		Usage:           "durable, ordered hand-over of reconciliation exceptions",
		HideVersion:     true,
		HideHelpCommand: true,
		Reader:          e.Stdin,
		Writer:          e.Stdout,
		ErrWriter:       e.Stderr,
		ExitErrHandler:  func(*ucli.Context, error) {}, // Run decides the status
		OnUsageError:    func(_ *ucli.Context, err error, _ bool) error { return usageError(err) },
		Action:          onlyHelp,
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "config", Usage: "read the configuration from `FILE`"},
			&ucli.BoolFlag{Name: "json", Usage: "print JSON"},
		},
		Commands: e.commands(),
	}
}

// onlyHelp is the action of a command that is nothing without a subcommand.
func onlyHelp(c *ucli.Context) error {
	if name := c.Args().First(); name != "" {
		return usageErrorf("there is no command %q", name)
	}
	if err := ucli.ShowSubcommandHelp(c); err != nil {
		return err
	}
	return usageErrorf("a command is missing")
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
	return &failure{status: exitUsage, err: err, hint: `see "breakwater help"`}
}

func usageErrorf(format string, args ...any) error { return usageError(fmt.Errorf(format, args...)) }

// quiet is an exit status without an error to print.
type quiet int

// Error names the status.
func (q quiet) Error() string { return fmt.Sprintf("exit status %d", int(q)) }

// adviser is an error that knows what to do about it.
type adviser interface{ Advice() string }

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
	status, hint := exitFailed, ""
	if errors.As(err, &f) {
		status, hint = f.status, f.hint
	}
	var a adviser
	if hint == "" && errors.As(err, &a) {
		hint = a.Advice()
	}
	printError(e.Stderr, err, hint)
	return status
}

// printError writes an error as people read it. Its text may quote input, so
// nothing in it reaches the terminal unescaped.
func printError(w io.Writer, err error, hint string) {
	_, _ = fmt.Fprintf(w, "breakwater: error: %s\n", escape(err.Error())) // there is nowhere else to complain
	if hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", escape(hint))
	}
}
