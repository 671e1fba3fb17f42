package cli

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) dlqCommand() *ucli.Command {
	return &ucli.Command{
		Name: "dlq", Usage: "list, show, edit, replay, discard and export dead letters",
		Subcommands: []*ucli.Command{
			e.dlqListCommand(), e.dlqShowCommand(), e.dlqEditCommand(), e.replayCommand(), e.discardCommand(), e.dlqExportCommand(),
		},
	}
}

// letterFlags select dead letters.
func letterFlags() []ucli.Flag {
	return []ucli.Flag{
		&ucli.StringFlag{Name: "code", Usage: "those that are dead for this `CODE`"},
		&ucli.StringFlag{Name: "key", Usage: "those of this partition `KEY`"},
		&ucli.StringFlag{Name: "older-than", Usage: "those that have been dead for longer than `AGE` (90m, 24h, 7d)"},
		&ucli.BoolFlag{Name: "all", Usage: "all dead letters"},
	}
}

// selection is which dead letters a command line means.
type selection struct {
	seqs    []uint64 // these, or else …
	letters client.Letters
	byFlags bool // something was said
}

// selectionOf reads SEQ… and what letterFlags select.
func selectionOf(c *ucli.Context) (s selection, err error) {
	if s.seqs, err = seqArgs(c); err != nil {
		return s, err
	}
	l := &s.letters
	l.Code, l.PartitionKey = c.String("code"), c.String("key")
	if l.Code != "" && !slices.Contains(deadCodes, queue.Code(l.Code)) {
		return s, usageFor(c, "%q is not a code of dead letters; there are %s", l.Code, deadCodeNames())
	}
	if l.DeadBefore, err = ageFlag(c, "older-than"); err != nil {
		return s, err
	}
	s.byFlags = c.Bool("all") || c.IsSet("code") || c.IsSet("key") || c.IsSet("older-than")
	switch {
	case len(s.seqs) > 0 && s.byFlags:
		return s, usageFor(c, "either SEQ… or flags select, not both")
	case len(s.seqs) > api.MaxLimit:
		return s, usageFor(c, "at most %s seqs at a time; flags select as many as there are", number(api.MaxLimit))
	}
	return s, nil
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

// rows yields the letters that are selected, all of them if nothing was said.
func (s *selection) rows(c *ucli.Context, control *client.Control) iter.Seq2[api.Exception, error] {
	if len(s.seqs) == 0 {
		return control.DeadLetters(c.Context, s.letters)
	}
	return func(yield func(api.Exception, error) bool) {
		for _, seq := range s.seqs {
			d, err := control.DeadLetter(c.Context, seq)
			if !yield(d.Exception, letterError(err, seq)) || err != nil {
				return
			}
		}
	}
}

// letterError is the error of asking for a dead letter, with the hint that helps.
func letterError(err error, seq uint64) error {
	if isCode(err, queue.CodeNotFound) {
		return &failure{status: exitFailed, err: err, hint: fmt.Sprintf(`"breakwater show %d" shows it whatever its state`, seq)}
	}
	return err
}

func (e *env) dlqListCommand() *ucli.Command {
	return &ucli.Command{
		Name: "list", Usage: "list dead letters", ArgsUsage: "[SEQ…]",
		Description: manual(`
Lists dead letters in the order in which a replay would put them back, those that all
of the flags select: lines that a gate refused (POISON_MESSAGE), lines that use a
known idempotency key for something else (IDEMPOTENCY_CONFLICT), and exceptions that a
handler rejected or failed too often. DIED is how often it has: more than once means
that a replay did not help. An asterisk after the seq marks those that were edited;
their reason is that of the content they had before.

With --group they are counted by code, field and reason, the largest group first, with
the first and the last seq and since when the oldest is dead. The last line names the
command that puts those of the largest group back which need no edit before.

With --json each line is a dead letter with the line that was sent; with --group one
document.`,
			[]string{"0  done, also if there are none", "1  a seq is not a dead letter, it failed, or nothing listens on the control socket", status2},
			"breakwater dlq list", "breakwater dlq list --group", "breakwater dlq list --code ATTEMPTS_EXHAUSTED --older-than 24h",
			"breakwater dlq list --json --file copy.db | jq -r .partition_key"),
		Flags: append([]ucli.Flag{fileFlag(), &ucli.BoolFlag{Name: "group", Usage: "count them by code and reason"}}, letterFlags()...),
		Action: func(c *ucli.Context) error {
			s, err := selectionOf(c)
			if err != nil {
				return err
			}
			if c.Bool("group") {
				if len(s.seqs) > 0 {
					return usageFor(c, "--group counts what flags select, not SEQ…")
				}
				return e.ask(c, func(control *client.Control) error { return e.dlqGroups(c, control, s.letters) })
			}
			s.letters.Lines = c.Bool("json")
			return e.ask(c, func(control *client.Control) error { return e.dlqList(c, control, &s) })
		},
	}
}

func (e *env) dlqList(c *ucli.Context, control *client.Control, s *selection) error {
	rows := e.listing("SEQ", "CODE", "DEAD SINCE", "DIED", "PARTITION KEY", "AMOUNT", "REASON")
	for x, err := range s.rows(c, control) {
		switch {
		case err != nil:
		case c.Bool("json"):
			err = e.printJSON(x)
		default:
			err = rows.add(letterRow(&x)...)
		}
		if err != nil {
			return rows.cut(err)
		}
	}
	if c.Bool("json") {
		return nil
	}
	return rows.end(noLetter(s.byFlags))
}

// noLetter says that there are no dead letters.
func noLetter(selected bool) string {
	if selected {
		return "no dead letter is selected"
	}
	return "no dead letter"
}

func letterRow(x *api.Exception) []string {
	seq, reason := strconv.FormatUint(x.Seq, 10), reasonText(x.Field, x.Reason)
	if x.EditedSHA256 != "" { // why it died is of what it was
		seq, reason = seq+"*", "edited since: "+reason
	}
	amount := x.VarianceAmount
	if amount != "" { // else it cannot be read, and a currency alone is no amount
		amount = strings.TrimSpace(amount + " " + x.Currency)
	}
	return []string{
		seq, x.Code, moment(x.DeadAt), strconv.Itoa(x.Deaths), short(x.PartitionKey, 32),
		amount, short(reason, 80),
	}
}

// reasonText is why a letter is dead, with the member at fault.
func reasonText(field, reason string) string {
	if field == "" {
		return reason
	}
	return field + ": " + reason
}

func (e *env) dlqGroups(c *ucli.Context, control *client.Control, l client.Letters) error {
	g, err := control.LetterGroups(c.Context, l)
	switch {
	case err != nil:
		return err
	case c.Bool("json"):
		return e.printJSON(g)
	case g.Total == 0:
		return write(e.Stdout, []byte(noLetter(l != client.Letters{})+"\n"))
	}
	rows := [][]string{{"COUNT", "CODE", "FIRST", "LAST", "OLDEST", "REASON"}}
	for _, x := range g.Items {
		rows = append(rows, []string{
			number(x.Count), x.Code, strconv.FormatUint(x.FirstSeq, 10), strconv.FormatUint(x.LastSeq, 10),
			moment(x.Oldest), short(reasonText(x.Field, x.Reason), 100),
		})
	}
	text := table(rows)
	if g.Ungrouped > 0 {
		text = fmt.Appendf(text, "and %s with other reasons\n", number(g.Ungrouped))
	}
	text = fmt.Appendf(text, "%s in all\n", number(g.Total))
	return write(e.Stdout, append(text, nextText(e.aim.at(nextOfGroups(&g, selectedBy(c))))...))
}

// selectedBy is what else than a code selects the letters of a command line, as flags.
func selectedBy(c *ucli.Context) (flags string) {
	for _, name := range []string{"key", "older-than"} {
		if c.IsSet(name) {
			flags += " --" + name + "=" + shellWord(c.String(name))
		}
	}
	return flags
}

func (e *env) dlqShowCommand() *ucli.Command {
	return &ucli.Command{
		Name: "show", Usage: "show one dead letter and its history", ArgsUsage: "SEQ",
		Description: manual(`
Shows a dead letter with the line that was sent, why it is dead, and everything that
happened to it. Of one that was edited "line" is what was sent, "edited line" what it is
now, followed by the members that differ; the other rows are of what it is now.
"breakwater show" does the same for an exception in any state.`,
			[]string{status0, "1  it is not a dead letter, it failed, or nothing listens on the control socket", status2},
			"breakwater dlq show 42", "breakwater dlq show 42 --json | jq -r .line"),
		Flags: []ucli.Flag{fileFlag()},
		Action: func(c *ucli.Context) error {
			seq, err := oneSeqArg(c)
			if err != nil {
				return err
			}
			return e.ask(c, func(control *client.Control) error {
				d, err := control.DeadLetter(c.Context, seq)
				if err != nil {
					return letterError(err, seq)
				}
				return e.printDetail(c, &d)
			})
		},
	}
}

// oneSeqArg reads the only argument as a seq.
func oneSeqArg(c *ucli.Context) (uint64, error) {
	seqs, err := seqArgs(c)
	if err != nil {
		return 0, err
	}
	if len(seqs) != 1 {
		return 0, usageFor(c, "one seq is wanted")
	}
	return seqs[0], nil
}

// seqArgs reads the arguments as seqs, in rising order and each once.
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
