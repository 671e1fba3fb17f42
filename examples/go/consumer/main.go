// Consumer posts exceptions to a journal, each once.
//
//	consumer JOURNAL [SOCKET]
//
// The journal is a file, one line per posting. What matters is that the posting and the
// key by which it is known again are one: whoever dies between the posting and the
// answer is handed the exception again, and must find that it is posted.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"breakwater/client"
)

// journal is an append-only file of postings.
type journal struct {
	mu     sync.Mutex
	file   *os.File
	posted map[string]bool // by idempotency key
}

// posting is one line of it.
type posting struct {
	Key    string `json:"key"`
	Entity string `json:"entity"`
	Amount string `json:"amount"` // a decimal string: money never passes through a float
}

func openJournal(name string) (*journal, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	j := &journal{file: file, posted: map[string]bool{}}
	for in := bufio.NewScanner(file); in.Scan(); {
		var p posting
		if json.Unmarshal(in.Bytes(), &p) == nil { // half a line was never answered
			j.posted[p.Key] = true
		}
	}
	return j, nil
}

// post writes a posting, unless it is there.
func (j *journal) post(p posting) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.posted[p.Key] {
		return nil
	}
	line, err := json.Marshal(p)
	if err != nil {
		return err
	}
	// A line feed first ends the half of a line that a crash has left.
	if _, err := j.file.Write(append(append([]byte("\n"), line...), '\n')); err != nil {
		return err
	}
	if err := j.file.Sync(); err != nil {
		return err
	}
	j.posted[p.Key] = true
	return nil
}

// handle decides what becomes of one exception.
func (j *journal) handle(_ context.Context, d client.Delivery) client.Answer {
	var e struct {
		LedgerEntity   string `json:"ledger_entity"`
		VarianceAmount string `json:"variance_amount"`
	}
	if err := json.Unmarshal(d.Exception, &e); err != nil {
		return client.Answer{Verb: client.Reject, Reason: err.Error()} // a person looks at it
	}
	if err := j.post(posting{Key: d.IdempotencyKey, Entity: e.LedgerEntity, Amount: e.VarianceAmount}); err != nil {
		return client.Answer{Verb: client.Retry, Reason: err.Error()} // again later, in its place
	}
	return client.Answer{Verb: client.Ack, Outcome: "POSTED", By: "journal"}
}

func run() error {
	if len(os.Args) < 2 {
		return fmt.Errorf("usage: consumer JOURNAL [SOCKET]")
	}
	j, err := openJournal(os.Args[1])
	if err != nil {
		return err
	}
	c := client.Consumer{
		Path: "/run/breakwater/consume.sock", Name: "go-journal", Prefetch: 8, // eight at once, of eight keys
		Waiting: func(err error, after time.Duration) { fmt.Fprintln(os.Stderr, "consumer: connecting again:", err) },
	}
	if len(os.Args) > 2 {
		c.Path = os.Args[2]
	}
	// SIGTERM lets what runs finish, has its answers confirmed, and puts the rest back.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return c.Run(ctx, j.handle)
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "consumer:", err)
		os.Exit(1)
	}
}
