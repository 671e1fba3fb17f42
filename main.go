// Breakwater stands between a financial matching engine and the people and
// programs that resolve its exceptions; see README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"breakwater/internal/cli"
)

// version is set by the build.
var version = "devel"

// lastPatience is how long a process that was told to end at once may take for it.
const lastPatience = 3 * time.Second

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
		// Whatever still waits for a pipe that nobody reads has had its time.
		<-time.After(lastPatience)
		os.Exit(5)
	}()
	// A closed stdout would end the process by signal. Caught, it is an error of the
	// write; not ignored, because commands that handlers start would inherit that.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	os.Exit(cli.Run(stop, hurry, cli.Process{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Version: version,
	}))
}
