package cli

import (
	"context"
	"encoding/base64"
	"fmt"
	"iter"
	"strconv"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

// maxNamed bounds how many exceptions one trace id may name on the command line.
const maxNamed = 1000

// nameFlags say what the argument of show and audit trace is.
func nameFlags() []ucli.Flag {
	return []ucli.Flag{
		fileFlag(),
		&ucli.BoolFlag{Name: "key", Usage: "the argument is an idempotency key, even if it is a number"},
		&ucli.BoolFlag{Name: "trace", Usage: "the argument is a trace id"},
	}
}

func (e *env) showCommand() *ucli.Command {
	return &ucli.Command{
		Name: "show", Usage: "show one exception and its history", ArgsUsage: "SEQ|KEY",
		Description: manual(`
Shows an exception, whatever its state, with the line that was sent and everything
that happened to it. A number is a seq; anything else is looked up as an idempotency
key, then as a trace id. A trace id may name several. The line of a settled
exception is not kept, its SHA-256 is.`,
			[]string{status0, status1Absent, status2},
			"breakwater show 42", "breakwater show --key 2026-11-30/ACME/17", "breakwater show --trace t-1 --json",
			"breakwater show 42 --file copy.db"),
		Flags: nameFlags(),
		Action: func(c *ucli.Context) error {
			return e.named(c, func(control *client.Control, seq uint64, _ bool) error {
				d, err := control.Exception(c.Context, seq)
				if err != nil {
					return err
				}
				return e.printDetail(c, &d)
			})
		},
	}
}

// onEach does something with one exception that a name means; several: it means others, too.
type onEach func(control *client.Control, seq uint64, several bool) error

// named does something with each exception that the command's argument names.
func (e *env) named(c *ucli.Context, do onEach) error {
	switch {
	case !c.Args().Present():
		return usageFor(c, "a seq, idempotency key or trace id is missing")
	case c.Bool("key") && c.Bool("trace"):
		return usageFor(c, "--key and --trace exclude each other")
	}
	if err := atMostArgs(c, 1); err != nil {
		return err
	}
	return e.ask(c, func(control *client.Control) error { return e.each(c, control, c.Args().First(), do) })
}

// each does something with each exception that a name means.
func (e *env) each(c *ucli.Context, control *client.Control, name string, do onEach) error {
	seqs, err := seqsOf(c, control, name)
	if err != nil {
		return err
	}
	for i, seq := range seqs {
		if i > 0 && !c.Bool("json") {
			if err := write(e.Stdout, []byte("\n")); err != nil {
				return err
			}
		}
		if err := do(control, seq, len(seqs) > 1); err != nil {
			return absentSeq(c, err)
		}
	}
	return nil
}

// absentSeq says of a number that is no seq what else it may be.
func absentSeq(c *ucli.Context, err error) error {
	if !isCode(err, queue.CodeNotFound) || c.Bool("key") || c.Bool("trace") {
		return err
	}
	return &failure{status: exitFailed, err: err, hint: "a number is read as a seq: --key and --trace say that it is something else"}
}

// seqsOf finds the exceptions that name means; at least one, or an error.
func seqsOf(c *ucli.Context, control *client.Control, name string) (seqs []uint64, err error) {
	byKey, byTrace := c.Bool("key"), c.Bool("trace")
	if !byKey && !byTrace {
		if seq, ok := parseSeq(name); ok {
			return []uint64{seq}, nil
		}
		byKey, byTrace = true, true
	}
	lists := []struct {
		wanted bool
		list   func(context.Context, string) iter.Seq2[api.Exception, error]
	}{{byKey, control.WithKey}, {byTrace, control.WithTrace}}
	for _, l := range lists {
		if !l.wanted || len(seqs) > 0 || name == "" {
			continue
		}
		for x, err := range l.list(c.Context, name) {
			if err != nil {
				return nil, err
			}
			if seqs = append(seqs, x.Seq); len(seqs) > maxNamed {
				return nil, &failure{status: exitFailed, err: fmt.Errorf("more than %d exceptions have this trace id", maxNamed),
					hint: fmt.Sprintf(`"breakwater audit export --trace=%s" prints the records of all of them`, shellWord(name))}
			}
		}
	}
	if len(seqs) == 0 {
		return nil, &failure{status: exitFailed, err: fmt.Errorf("there is no exception %q", name),
			hint: `a line that a gate refused is not found by its key: see "breakwater dlq list"`}
	}
	return seqs, nil
}

// parseSeq reads a seq: a number from 1, without sign or leading zero.
func parseSeq(s string) (seq uint64, ok bool) {
	seq, err := strconv.ParseUint(s, 10, 64)
	return seq, err == nil && seq > 0 && strconv.FormatUint(seq, 10) == s
}

// historyTrimmed stands under a history that is not all there was.
const historyTrimmed = "retention has removed older records of it (audit.retention_h); what still holds was copied\n"

// printDetail prints an exception and its history.
func (e *env) printDetail(c *ucli.Context, d *api.Detail) error {
	if c.Bool("json") {
		return e.printJSON(d)
	}
	text := table(detailRows(&d.Exception))
	rows := [][]string{{"N", "TIME", "EVENT", ""}}
	for _, line := range d.History {
		row, err := recordRow(line, d.Seq)
		if err != nil {
			return err
		}
		rows = append(rows, row)
	}
	text = append(append(text, '\n'), table(rows)...)
	if d.HistoryTrimmed {
		text = append(text, historyTrimmed...)
	}
	if d.HistoryMore {
		text = append(text, oneLine(e.aim.at(fmt.Sprintf("and more: breakwater audit trace %d", d.Seq)))+"\n"...)
	}
	return write(e.Stdout, text)
}

// detailRows are the members of an exception that apply.
func detailRows(x *api.Exception) (rows [][]string) {
	add := func(name, value string) {
		if value != "" {
			rows = append(rows, []string{name, value})
		}
	}
	add("seq", strconv.FormatUint(x.Seq, 10))
	add("state", x.State)
	add("held by", x.HeldBy)
	add("due", moment(x.DueAt))
	add("owner", x.Owner)
	add("deadline", moment(x.Deadline))
	add("code", x.Code)
	add("field", x.Field)
	add("reason", x.Reason)
	if x.Of != 0 {
		add("conflict of", strconv.FormatUint(x.Of, 10))
	}
	add("outcome", x.Outcome)
	add("settled", moment(x.SettledAt))
	add("dead since", moment(x.DeadAt))
	if x.Deaths > 1 {
		add("died", fmt.Sprintf("%d times", x.Deaths))
	}
	add("idempotency key", x.IdempotencyKey)
	add("trace id", x.TraceID)
	add("partition key", x.PartitionKey)
	add("ledger entity", x.LedgerEntity)
	add("match decision", x.MatchDecision)
	add("variance amount", x.VarianceAmount)
	add("currency", x.Currency)
	add("route", x.Route)
	if x.Priority != nil && x.State != queue.Dead.String() {
		add("priority", strconv.Itoa(int(*x.Priority)))
	}
	add("accepted", moment(x.AcceptedAt))
	add("not before", moment(x.NotBefore))
	add("place", x.Place)
	add("deliveries", fmt.Sprintf("%d, %d failed", x.Deliveries, x.FailedAttempts))
	if x.Unanswered > 0 {
		add("unanswered", fmt.Sprintf("%d: its effect may exist", x.Unanswered))
	}
	add("source hash", x.SourceHash)
	add("line sha256", x.LineSHA256)
	add("line", lineText(x))
	if x.EditedSHA256 != "" {
		add("edited sha256", x.EditedSHA256)
		add("edited line", x.EditedLine)
	}
	if x.EditedLine != "" {
		rows = append(rows, changeRows(changesOf(sentLine(x), []byte(x.EditedLine)))...)
	}
	return rows
}

// lineText is the sender's line, or that it is not text, or not kept.
func lineText(x *api.Exception) string {
	switch {
	case x.Line != "":
		return x.Line
	case len(x.LineBase64) > 0:
		return "not UTF-8, in base64: " + base64.StdEncoding.EncodeToString(x.LineBase64)
	}
	return fmt.Sprintf("not kept (%d bytes)", x.LineBytes)
}
