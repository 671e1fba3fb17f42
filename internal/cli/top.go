package cli

import (
	"context"
	"errors"
	"time"

	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
)

const (
	// defaultInterval is how often top asks, leastInterval as often as it may.
	defaultInterval = 2 * time.Second
	leastInterval   = time.Second
	// topKeys is how many partition keys it asks for.
	topKeys = 50
	// leastKeyLines is how many lines of them a small terminal has, if there are so many:
	// for their sake it goes without other tables.
	leastKeyLines = 5
)

func (e *env) topCommand() *ucli.Command {
	return &ucli.Command{
		Name: "top", Usage: "show the status live",
		Description: manual(`
Shows what "status" and "keys list" show, again and again: depths, rates, what is at
risk, dead letters by code, the oldest exceptions, and the partition keys that wait
with what they wait for, blocked ones first. q or Esc ends it.

Off a terminal, and with --plain, it prints one block of lines each time, and with
--json one document a line. It asks two short questions each time, the next ones not
before it has the answers, and never more often than once a second.`,
			[]string{status0, "1  the first question had no answer; off a terminal: any of them", status2},
			"breakwater top", "breakwater top --interval 10s", "breakwater top --plain --count 1", "breakwater top --json --interval 60s >>status.ndjson"),
		Flags: []ucli.Flag{
			&ucli.DurationFlag{Name: "interval", Usage: "ask every `TIME`; default " + defaultInterval.String(), Value: defaultInterval},
			&ucli.IntFlag{Name: "count", Usage: "end after `N` times; without it, when told to"},
			&ucli.BoolFlag{Name: "plain", Usage: "print lines, also on a terminal"},
		},
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			o := topOptions{interval: c.Duration("interval"), count: c.Int("count"), aim: e.aim}
			switch {
			case o.interval < leastInterval:
				return usageFor(c, "--interval must be at least %s", leastInterval)
			case c.IsSet("count") && o.count < 1:
				return usageFor(c, "--count must be a number from 1")
			}
			return e.steer(c, func(control *client.Control) error {
				switch {
				case c.Bool("json"):
					return topPlain(c.Context, control, o, e.printTopJSON)
				case c.Bool("plain") || !e.onScreen():
					return topPlain(c.Context, control, o, e.printTop)
				}
				return e.topOnScreen(c.Context, control, o)
			})
		},
	}
}

// topOptions says how often top asks, and how many times; 0: until it is told to end.
type topOptions struct {
	aim      aim // of what it suggests
	interval time.Duration
	count    int
}

// onScreen reports whether there is a terminal to draw on.
func (e *env) onScreen() bool {
	kind := e.Getenv("TERM")
	return kind != "" && kind != "dumb" && term.IsTerminal(int(e.Stdin.Fd())) && term.IsTerminal(int(e.Stdout.Fd()))
}

// ask asks what top shows.
func askTop(ctx context.Context, control *client.Control) (l look) {
	l.at = time.Now()
	if l.status, l.err = control.Status(ctx); l.err != nil {
		return l
	}
	for k, err := range control.Keys(ctx, "", topKeys) {
		if err != nil {
			l.err = err
			return l
		}
		if l.keys = append(l.keys, k); len(l.keys) == topKeys {
			break
		}
	}
	return l
}

// looks asks again and again, an interval after each answer, and hands the answers on
// until ctx ends or it has asked so many times. It closes the channel.
func looks(ctx context.Context, o topOptions, ask func(context.Context) look) <-chan look {
	out := make(chan look)
	go func() {
		defer close(out)
		for n := 1; ; n++ {
			select {
			case out <- ask(ctx):
			case <-ctx.Done():
				return
			}
			if n == o.count {
				return
			}
			pause := time.NewTimer(o.interval)
			select {
			case <-pause.C:
			case <-ctx.Done():
				pause.Stop()
				return
			}
		}
	}()
	return out
}

// topPlain prints each answer. A question without an answer ends it.
func topPlain(ctx context.Context, control *client.Control, o topOptions, print func(*topView) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	v := &topView{aim: o.aim}
	for l := range looks(ctx, o, func(ctx context.Context) look { return askTop(ctx, control) }) {
		switch {
		case ctx.Err() != nil:
			return nil // told to end
		case l.err != nil:
			return l.err
		}
		v.take(l)
		if err := print(v); err != nil {
			return err
		}
	}
	return nil
}

// printTop prints a block of lines.
func (e *env) printTop(v *topView) error {
	var text []byte
	for _, l := range v.lines(0) {
		text = append(append(text, l.text...), '\n')
	}
	return write(e.Stdout, append(text, '\n'))
}

// printTopJSON prints one document.
func (e *env) printTopJSON(v *topView) error {
	keys := v.keys
	if keys == nil {
		keys = []api.Key{}
	}
	return e.printJSON(struct {
		Status *api.Status `json:"status"`
		Keys   []api.Key   `json:"keys"`
	}{v.status, keys})
}

// keyRow is a partition key as a row of a list.
func keyRow(k *api.Key) []string {
	return []string{keyName(k), k.State, number(k.Open), moment(k.AcceptedAt), amountsText(k.Amounts), clock{}.waits(k)}
}

var errNoTerminal = errors.New("the terminal cannot be drawn on: --plain prints lines")
