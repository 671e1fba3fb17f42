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
	// The first signal drains, the second ends at once.
	stop, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	hurry, second := context.WithCancel(context.Background())
	go func() {
		<-stop.Done()
		again := make(chan os.Signal, 1)
		signal.Notify(again, syscall.SIGTERM, os.Interrupt)
		<-again
		second()
	}()
	os.Exit(cli.Run(stop, hurry, cli.Process{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Version: version,
	}))
}
