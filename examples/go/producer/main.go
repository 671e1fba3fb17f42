// Producer sends the exceptions on its standard input, one JSON object per line, and
// shows the receipts that a person has to look at.
//
//	matcher | producer [SOCKET]
//
// It may be run again with the same input at any time: what is stored is answered
// "duplicate", and nothing is stored twice.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"breakwater/client"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	path := "/run/breakwater/enqueue.sock"
	if len(os.Args) > 1 {
		path = os.Args[1]
	}
	p := client.Producer{
		Path: path,
		Receipt: func(receipt []byte) error {
			if bytes.Contains(receipt, []byte(`"status":"accepted"`)) || bytes.Contains(receipt, []byte(`"status":"duplicate"`)) {
				return nil // it is on the server's disk
			}
			_, err := os.Stdout.Write(receipt)
			return err
		},
		Waiting: func(err error, after time.Duration) { fmt.Fprintln(os.Stderr, "producer: connecting again:", err) },
	}
	result, err := p.Send(ctx, os.Stdin)
	fmt.Fprintf(os.Stderr, "producer: %+v\n", result.Counts)
	if err != nil {
		fmt.Fprintln(os.Stderr, "producer:", err)
		if result.Next != nil {
			fmt.Fprintln(os.Stderr, "producer: go on from", result.Next)
		}
	}
	switch {
	case errors.Is(err, client.ErrRejected): // stored nowhere, and it has waited long enough
		os.Exit(4)
	case err != nil:
		os.Exit(1)
	case result.Rejected > 0: // the last line is cut off
		os.Exit(4)
	}
}
