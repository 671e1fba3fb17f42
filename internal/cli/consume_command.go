package cli

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"

	"breakwater/client"
	"breakwater/internal/app"
	"breakwater/internal/kin"
	"breakwater/queue"
	"breakwater/queue/handler"
)

const (
	firstBackoff   = time.Second // before a command that was not available is tried again
	longestBackoff = time.Minute
)

// commandRuns hands each exception to a run of a command.
type commandRuns struct {
	*consuming
	exec *handler.Exec
	kin  *kin.Leader              // of what the command starts
	bar  *progressbar.ProgressBar // nil: nobody watches

	mu      sync.Mutex
	counts  consumed
	away    map[string]bool // leases for which the command was not available, in this turn
	backoff time.Duration
}

// consumed counts what became of what was taken.
type consumed struct {
	Taken       int `json:"taken"`
	Acked       int `json:"acked"`
	Retried     int `json:"retried"`
	Released    int `json:"released"`
	Held        int `json:"held"`
	Rejected    int `json:"rejected"`
	Refused     int `json:"refused"`     // answers that changed nothing
	Unavailable int `json:"unavailable"` // put back, as the command was not available
}

func newCommandRuns(a *consuming, command []string, timeout time.Duration, env []string) (*commandRuns, error) {
	r := &commandRuns{consuming: a}
	var err error
	r.exec, err = handler.NewExec(handler.ExecOptions{Name: "consume", Command: command, Timeout: timeout, Env: env, Starting: r.starting})
	if err != nil {
		return nil, err
	}
	a.Answered = r.answered
	if term.IsTerminal(int(a.Stderr.Fd())) {
		r.bar = progressbar.NewOptions64(-1, progressbar.OptionSetWriter(a.Stderr), progressbar.OptionShowCount(),
			progressbar.OptionSetDescription("consume"), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return r, nil
}

// lead sees to it that what the command starts ends with this process, however that ends.
// The returned function is for a good end.
func (r *commandRuns) lead() (release func(), err error) {
	var found kin.Found
	r.kin, found, err = kin.Lead("", []string{os.Args[0], app.GuardCommand})
	if err != nil {
		return nil, err
	}
	for _, err := range found.Troubles {
		r.say("if this process is killed, what the command has started may live on: %v", err)
	}
	return func() {
		if _, err := r.kin.Release(); err != nil {
			r.say("%v", err)
		}
	}, nil
}

// starting is told before the command is started.
func (r *commandRuns) starting() {
	if err := r.kin.Guarded(); err != nil {
		r.say("if this process is killed, what the command has started may live on: %v", err)
	}
}

// run takes turns at the work. While the command is not available it is not attached,
// so that others may have what it cannot run.
func (r *commandRuns) run(ctx context.Context) error {
	release, err := r.lead()
	if err != nil {
		return err
	}
	defer release()
	most := r.Max
	for {
		turn, end := context.WithCancel(ctx)
		r.away = map[string]bool{}
		err := r.Run(turn, func(ctx context.Context, d client.Delivery) client.Answer { return r.handle(ctx, d, end) })
		end()
		r.mu.Lock()
		r.Max = most - r.counts.Taken
		finished := err != nil || len(r.away) == 0 || ctx.Err() != nil || most > 0 && r.Max <= 0
		r.backoff = min(max(2*r.backoff, firstBackoff), longestBackoff)
		wait := r.backoff
		r.mu.Unlock()
		if finished {
			return err
		}
		r.say("the command is not available: trying again in %v", wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// handle runs the command once. A second signal cuts it off. leave ends the turn.
func (r *commandRuns) handle(ctx context.Context, d client.Delivery, leave func()) client.Answer {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.hurry, cancel)()
	a := r.exec.Handle(ctx, deliveryOf(&d))
	r.mu.Lock()
	defer r.mu.Unlock()
	if a.Unavailable {
		r.away[d.Lease] = true
		leave()
	} else {
		r.backoff = 0
	}
	if a.Verb != queue.Ack {
		r.say("seq %d: %s: %s", d.Seq, verbNames[a.Verb], a.Reason)
	}
	return r.answer(&a)
}

// deliveryOf is a delivery as handlers know it.
func deliveryOf(d *client.Delivery) *queue.Delivery {
	q := &queue.Delivery{
		Route: queue.Route(d.Route), Number: d.Number, FailedAttempts: d.FailedAttempts, Redelivered: d.Redelivered,
		AcceptedAt: d.AcceptedAt, Deadline: d.Deadline,
		Message: queue.Stored{
			Seq: d.Seq, IdempotencyKey: d.IdempotencyKey, TraceID: d.TraceID, PartitionKey: d.PartitionKey, Line: d.Exception,
		},
	}
	_, _ = hex.Decode(q.Message.SourceHash[:], []byte(d.SourceHash)[:min(len(d.SourceHash), 2*len(q.Message.SourceHash))])
	return q
}

var verbNames = map[queue.Verb]client.Verb{
	queue.Ack: client.Ack, queue.Retry: client.Retry, queue.Release: client.Release, queue.Hold: client.Hold, queue.Reject: client.Reject,
}

// answer is what a command has said as the socket takes it: its texts no longer than
// a record keeps them.
func (r *commandRuns) answer(a *queue.Answer) client.Answer {
	by := a.By
	if by == "" {
		by = r.by
	}
	return client.Answer{
		Verb: verbNames[a.Verb], Outcome: a.Outcome, By: begin(by, queue.MaxRecordID), Note: begin(a.Note, queue.MaxRecordText),
		Reason: begin(a.Reason, queue.MaxRecordText), After: a.After, Until: a.Until, Stderr: a.Stderr, // at most so much, and UTF-8
		Unanswered: a.Unanswered,
	}
}

// begin returns the beginning of a text, in bytes of valid UTF-8.
func begin(s string, limit int) string {
	s = string([]rune(s)) // each bad byte becomes U+FFFD
	if len(s) <= limit {
		return s
	}
	for !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// answered counts what became of an answer.
func (r *commandRuns) answered(d client.Delivery, a client.Answer, e client.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.bar != nil {
		_ = r.bar.Add(1) // a bar that cannot be drawn is no reason to stop
	}
	n := &r.counts
	switch again := e.Resent && e.Code == client.CodeAlreadySettled; {
	case r.away[d.Lease]:
		n.Unavailable++
	case e.Kind == client.Settled || again:
		n.Taken++
		*map[client.Verb]*int{
			client.Ack: &n.Acked, client.Retry: &n.Retried, client.Release: &n.Released, client.Hold: &n.Held, client.Reject: &n.Rejected,
		}[a.Verb]++
	case e.Kind == client.Refused:
		n.Taken++
		n.Refused++
		r.say("seq %d: refused: %s: %s", d.Seq, e.Code, e.Error)
	}
}

// summary prints the counts.
func (r *commandRuns) summary(c *ucli.Context) error {
	if r.bar != nil {
		_ = r.bar.Finish()
		_, _ = fmt.Fprintln(r.Stderr)
	}
	n := r.counts
	if c.Bool("json") {
		return r.printJSON(n)
	}
	text := fmt.Appendf(nil, "%d taken: %d acked, %d retried, %d released, %d held, %d rejected, %d refused\n",
		n.Taken, n.Acked, n.Retried, n.Released, n.Held, n.Rejected, n.Refused)
	if n.Unavailable > 0 {
		text = fmt.Appendf(text, "%d put back because the command was not available\n", n.Unavailable)
	}
	return write(r.Stdout, text)
}
