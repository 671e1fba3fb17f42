package cli

import (
	"fmt"
	"slices"
	"strconv"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) dlqCommand() *ucli.Command {
	return &ucli.Command{
		Name: "dlq", Usage: "list, replay and discard dead letters",
		Subcommands: []*ucli.Command{e.dlqListCommand(), e.dlqShowCommand(), e.replayCommand(), e.discardCommand()},
	}
}

// letterFlags select dead letters.
func letterFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "code", Usage: "those that are dead for this `CODE`"},
		&ucli.StringFlag{Name: "key", Usage: "those of this partition `KEY`"},
		&ucli.StringFlag{Name: "older-than", Usage: "those that have been dead for longer than `AGE` (90m, 24h, 7d)"},
	}
}

// lettersOf reads what letterFlags select.
func lettersOf(c *ucli.Context) (s client.Letters, err error) {
	s.Code, s.PartitionKey = c.String("code"), c.String("key")
	if s.Code != "" && !slices.Contains(deadCodes, queue.Code(s.Code)) {
		return s, usageFor(c, "%q is not a code of dead letters; there are %s", s.Code, deadCodeNames())
	}
	s.DeadBefore, err = ageFlag(c, "older-than")
	return s, err
}

func deadCodeNames() (names string) {
	for i, code := range deadCodes {
		if i > 0 {
			names += ", "
		}
		names += string(code)
	}
	return names
}

func (e *env) dlqListCommand() *ucli.Command {
	return &ucli.Command{
		Name: "list", Usage: "list dead letters",
		Description: manual(`
Lists dead letters by seq, those that all of the flags select: lines that a gate
refused (POISON_MESSAGE), lines that use a known idempotency key for something else
(IDEMPOTENCY_CONFLICT), and exceptions that a handler rejected or failed too often.
With --json each line is a dead letter with the line that was sent.`,
			[]string{"0  done, also if there are none", status1, status2},
			"breakwater dlq list", "breakwater dlq list --code ATTEMPTS_EXHAUSTED --older-than 24h",
			"breakwater dlq list --json --file copy.db | jq -r .partition_key"),
		Flags: append([]ucli.Flag{fileFlag()}, letterFlags()...),
		Action: func(c *ucli.Context) error {
			if err := noMoreArgs(c); err != nil {
				return err
			}
			s, err := lettersOf(c)
			if err != nil {
				return err
			}
			s.Lines = c.Bool("json")
			return e.ask(c, func(control *client.Control) error { return e.dlqList(c, control, s) })
		},
	}
}

// listPiece is how many rows get their columns together: what has been read is shown
// before the whole list is.
const listPiece = 1000

func (e *env) dlqList(c *ucli.Context, control *client.Control, s client.Letters) error {
	heading := []string{"SEQ", "CODE", "DEAD SINCE", "PARTITION KEY", "AMOUNT", "REASON"}
	rows := [][]string{heading}
	for x, err := range control.DeadLetters(c.Context, s) {
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			if err := e.printJSON(x); err != nil {
				return err
			}
			continue
		}
		reason := x.Reason
		if x.Field != "" {
			reason = x.Field + ": " + reason
		}
		rows = append(rows, []string{
			strconv.FormatUint(x.Seq, 10), x.Code, moment(x.DeadAt), short(x.PartitionKey, 32),
			x.VarianceAmount + " " + x.Currency, short(reason, 80),
		})
		if len(rows) > listPiece {
			if err := write(e.Stdout, table(rows)); err != nil {
				return err
			}
			rows = rows[:0]
		}
	}
	if c.Bool("json") || len(rows) == 0 {
		return nil
	}
	return write(e.Stdout, table(rows))
}

func (e *env) dlqShowCommand() *ucli.Command {
	return &ucli.Command{
		Name: "show", Usage: "show one dead letter and its history", ArgsUsage: "SEQ",
		Description: manual(`
Shows a dead letter with the line that was sent, why it is dead, and everything that
happened to it. "breakwater show" does the same for an exception in any state.`,
			[]string{status0, "1  it is not a dead letter, it failed, or nothing listens on the control socket", status2},
			"breakwater dlq show 42", "breakwater dlq show 42 --json | jq -r .line"),
		Flags: []ucli.Flag{fileFlag()},
		Action: func(c *ucli.Context) error {
			seqs, err := seqArgs(c)
			if err != nil {
				return err
			}
			if len(seqs) != 1 {
				return usageFor(c, "one seq is wanted")
			}
			return e.ask(c, func(control *client.Control) error {
				d, err := control.DeadLetter(c.Context, seqs[0])
				if isCode(err, queue.CodeNotFound) {
					return &failure{status: exitFailed, err: err, hint: fmt.Sprintf(`"breakwater show %d" shows it whatever its state`, seqs[0])}
				}
				if err != nil {
					return err
				}
				return e.printDetail(c, &d)
			})
		},
	}
}

// seqArgs reads the arguments as seqs, in rising order and each once: dead letters
// are dealt with in the order in which they came.
func seqArgs(c *ucli.Context) (seqs []uint64, err error) {
	for _, arg := range c.Args().Slice() {
		seq, ok := parseSeq(arg)
		if !ok {
			return nil, usageFor(c, "%q is not a seq", arg)
		}
		seqs = append(seqs, seq)
	}
	slices.Sort(seqs)
	return slices.Compact(seqs), nil
}

// outcome is what became of the dead letters that were dealt with. Items are those
// that were not done, and with DryRun all.
type outcome struct {
	Matched   int          `json:"matched"`
	Replayed  *int         `json:"replayed,omitempty"`
	Discarded *int         `json:"discarded,omitempty"`
	Failed    int          `json:"failed"`
	DryRun    bool         `json:"dry_run,omitempty"`
	Items     []api.Result `json:"items"`
}

// add adds what one request did.
func (o *outcome) add(l *api.Letters) {
	o.Matched += l.Matched
	o.Failed += l.Failed
	for _, r := range l.Items {
		if r.Code != "" || o.DryRun {
			o.Items = append(o.Items, r)
		}
	}
}
