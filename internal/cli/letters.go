package cli

import (
	"context"
	"fmt"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
)

// actFlags are those of replay and discard besides their own.
func actFlags() []ucli.Flag {
	return append(letterFlags(),
		&ucli.BoolFlag{Name: "all", Usage: "all dead letters"},
		&ucli.BoolFlag{Name: "dry-run", Usage: "change nothing, say what would be done"},
		byFlag())
}

// statusesOfAct are the exit statuses of replay and discard.
var statusesOfAct = []string{
	"0  all that were selected are done (or would be); also if none are", "1  a seq is not a dead letter or was refused, or it failed", status2,
}

func (e *env) replayCommand() *ucli.Command {
	return &ucli.Command{
		Name: "replay", Usage: "put dead letters back", ArgsUsage: "[SEQ…]",
		Description: manual(`
Puts dead letters back: an exception to its own place in the order of its key, with
its counters at zero and its history kept; a line that a gate refused goes through
the gates again and keeps its seq. A line in conflict is refused. Which ones is
said by SEQ…, or by flags, all of which must hold. They are taken in the order in
which they came.

With --json one document: how many matched, how many were put back, and in "items"
those that were not (with --dry-run: all that would be).`,
			statusesOfAct,
			"breakwater dlq replay 42 43", "breakwater dlq replay --code ATTEMPTS_EXHAUSTED --dry-run",
			"breakwater dlq replay --all --json"),
		Flags: append(actFlags(), &ucli.StringFlag{Name: "reason", Usage: "record `WHY`"}),
		Action: func(c *ucli.Context) error {
			o := outcome{Replayed: new(int)}
			return e.deal(c, "put back", o, func(ctx context.Context, control *client.Control, a api.LettersAct, o *outcome) error {
				r, err := control.Replay(ctx, a)
				*o.Replayed += r.Replayed
				o.add(&r.Letters)
				return err
			})
		},
	}
}

func (e *env) discardCommand() *ucli.Command {
	return &ucli.Command{
		Name: "discard", Usage: "end dead letters for good", ArgsUsage: "[SEQ…]",
		Description: manual(`
Ends dead letters without an outcome. That, the reason and who did it are recorded;
the line that was sent is not kept. It cannot be undone. A key that waited behind a
dead letter goes on. The idempotency key stays known, so that the same line sent
again is a duplicate; --forget frees it for a corrected one.

Which ones is said by SEQ…, or by flags, all of which must hold.`,
			statusesOfAct,
			"breakwater dlq discard 42 --reason \"booked by hand\"",
			"breakwater dlq discard --code POISON_MESSAGE --older-than 7d --reason \"test lines\" --dry-run",
			"breakwater dlq discard 42 --forget --reason \"sent again as corrected\""),
		Flags: append(actFlags(),
			&ucli.StringFlag{Name: "reason", Usage: "record `WHY`; required"},
			&ucli.BoolFlag{Name: "forget", Usage: "free the idempotency keys"}),
		Action: func(c *ucli.Context) error {
			if c.String("reason") == "" {
				return usageFor(c, "--reason is missing: it is recorded with each")
			}
			o := outcome{Discarded: new(int)}
			return e.deal(c, "discarded", o, func(ctx context.Context, control *client.Control, a api.LettersAct, o *outcome) error {
				a.Forget = c.Bool("forget")
				r, err := control.Discard(ctx, a)
				*o.Discarded += r.Discarded
				o.add(&r.Letters)
				return err
			})
		},
	}
}

// act applies a verb to at most api.MaxLimit dead letters and adds up what it did.
type act func(context.Context, *client.Control, api.LettersAct, *outcome) error

// deal applies a verb to the dead letters that the command line selects. They are
// found first and dealt with then: one that dies again meanwhile is not met twice.
// o has the count of this verb, so that it is there also when nothing was selected.
func (e *env) deal(c *ucli.Context, done string, o outcome, verb act) error {
	seqs, err := seqArgs(c)
	if err != nil {
		return err
	}
	byFlags := c.Bool("all") || c.IsSet("code") || c.IsSet("key") || c.IsSet("older-than")
	switch {
	case len(seqs) > 0 && byFlags:
		return usageFor(c, "either SEQ… or flags select, not both")
	case len(seqs) == 0 && !byFlags:
		return usageFor(c, "say which: SEQ…, --all, --code, --key or --older-than")
	}
	selected, err := lettersOf(c)
	if err != nil {
		return err
	}
	o.DryRun, o.Items = c.Bool("dry-run"), []api.Result{}
	err = e.steer(c, func(control *client.Control) error {
		if byFlags {
			for x, err := range control.DeadLetters(c.Context, selected) {
				if err != nil {
					return err
				}
				seqs = append(seqs, x.Seq)
			}
		}
		a := api.LettersAct{By: e.by(c), Reason: c.String("reason"), DryRun: o.DryRun}
		for some := range slices.Chunk(seqs, api.MaxLimit) {
			a.Seqs = some
			if err := verb(c.Context, control, a, &o); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && o.Matched+o.Failed == 0 {
		return err
	}
	printed := e.printOutcome(c, &o, done)
	switch {
	case err != nil:
		return err
	case o.Failed > 0:
		return quiet(exitFailed)
	}
	return printed
}

// printOutcome prints what was done, and what was not.
func (e *env) printOutcome(c *ucli.Context, o *outcome, done string) error {
	if c.Bool("json") {
		return e.printJSON(o)
	}
	var text []byte
	for _, r := range o.Items {
		if r.Code != "" {
			text = fmt.Appendf(text, "seq %d: %s\n", r.Seq, oneLine(r.Code+": "+r.Error))
		} else {
			text = fmt.Appendf(text, "seq %d would be %s\n", r.Seq, done)
		}
	}
	n := 0
	for _, count := range []*int{o.Replayed, o.Discarded} {
		if count != nil {
			n = *count
		}
	}
	if o.DryRun {
		text = fmt.Appendf(text, "%s matched; nothing was changed\n", number(o.Matched))
	} else {
		text = fmt.Appendf(text, "%s matched, %s %s, %s refused\n", number(o.Matched), number(n), done, number(o.Failed))
	}
	return write(e.Stdout, text)
}
