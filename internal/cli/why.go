package cli

import (
	"errors"
	"fmt"
	"strconv"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) whyCommand() *ucli.Command {
	return &ucli.Command{
		Name: "why", Usage: "say why an exception or a partition key does not run", ArgsUsage: "SEQ|KEY",
		Description: manual(`
Says in words everything that keeps an exception, or a partition key, from being
handed out: the dead letter that it waits for and why that died, an operator's hold,
a retry and what failed, who has it until when, what of its key comes first, its
not_before, a pause, a drain, a handler that cannot be had, a route on which nobody
works; or that nothing does and how many keys come first. What a person can change
comes first, and the last line names the command for it.

A number is a seq. Anything else is a partition key if there is anything open, held or
blocked of it, else an idempotency key, else a trace id. With --json each cause has a
stable word in "reason".`,
			[]string{status0, "1  there is no such exception or key, it failed, or nothing listens on the control socket", status2},
			"breakwater why 42", "breakwater why ACME", "breakwater why --key 2026-11-30/ACME/17",
			"breakwater why --partition 4711 --json | jq -r .causes[].reason", "breakwater why ACME --file copy.db"),
		Flags: append(nameFlags(), &ucli.BoolFlag{Name: "partition", Usage: "the argument is a partition key"}),
		Action: func(c *ucli.Context) error {
			name := c.Args().First()
			_, isSeq := parseSeq(name)
			switch {
			case !c.Args().Present():
				return usageFor(c, "a seq, partition key, idempotency key or trace id is missing")
			case c.Bool("partition") && (c.Bool("key") || c.Bool("trace")):
				return usageFor(c, "--partition, --key and --trace exclude each other")
			case c.Bool("key") || c.Bool("trace") || isSeq && !c.Bool("partition"):
				return e.named(c, func(control *client.Control, seq uint64, _ bool) error { return e.whySeq(c, control, seq) })
			}
			if err := checkKey(c, name); err != nil {
				return err
			}
			if err := atMostArgs(c, 1); err != nil {
				return err
			}
			return e.ask(c, func(control *client.Control) error { return e.whyKey(c, control, name) })
		},
	}
}

// whyKey asks about a partition key, and where there is none of that name about the
// exceptions that it may mean instead.
func (e *env) whyKey(c *ucli.Context, control *client.Control, name string) error {
	w, err := control.WhyKey(c.Context, name)
	if err == nil {
		return e.printWhy(c, &w)
	}
	if !isCode(err, queue.CodeNotFound) || c.Bool("partition") {
		return err
	}
	err = e.each(c, control, name, func(control *client.Control, seq uint64, _ bool) error { return e.whySeq(c, control, seq) })
	var absent *failure
	if errors.As(err, &absent) {
		absent.err = fmt.Errorf("there is no exception %q, and nothing of a partition key of that name is open, held or blocked", name)
	}
	return err
}

func (e *env) whySeq(c *ucli.Context, control *client.Control, seq uint64) error {
	w, err := control.Why(c.Context, seq)
	if err != nil {
		return err
	}
	return e.printWhy(c, &w)
}

func (e *env) printWhy(c *ucli.Context, w *api.Why) error {
	if c.Bool("json") {
		return e.printJSON(w)
	}
	return write(e.Stdout, append(whyText(w), nextText(e.aim.at(nextOfWhy(w)))...))
}

// whyText is the answer for people.
func whyText(w *api.Why) []byte {
	var rows [][]string
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	if w.Seq != 0 {
		add("seq", strconv.FormatUint(w.Seq, 10))
	}
	add("partition key", w.PartitionKey)
	add("state", w.State)
	if k := w.Key; k != nil && k.Open > 0 {
		open := number(k.Open) + plural(k.Open, " exception", " exceptions")
		if amounts := amountsText(k.Amounts); amounts != "" {
			open += ", " + amounts
		}
		if k.Seq != 0 {
			open += fmt.Sprintf(", first seq %d of %s", k.Seq, moment(k.AcceptedAt))
		}
		add("open", open)
	}
	for i := range w.Causes {
		name := "why"
		if i > 0 {
			name = "and"
		}
		add(name, w.Causes[i].Words)
	}
	return table(rows)
}
