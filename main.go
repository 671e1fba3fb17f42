// Breakwater stands between a financial matching engine and the people and
// programs that resolve its exceptions; see README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"breakwater/internal/cli"
)

// version is set by the build.
var version = "devel"

func main() {
	stop, drain := context.WithCancel(context.Background())
	hurry, end := context.WithCancel(context.Background())
	// One channel for both, and room in it: a second signal that comes right after
	// the first must not fall between two registrations.
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, os.Interrupt)
	go func() {
		<-signals // the first drains
		drain()
		<-signals // the second ends at once
		end()
	}()
	// A closed stdout would end the process by signal. Caught, it is an error of the
	// write; not ignored, because commands that handlers start would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(cli.Run(stop, hurry, cli.Process{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Version: version,
	}))
}
