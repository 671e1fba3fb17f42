package cli

import (
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) dlqExportCommand() *ucli.Command {
	return &ucli.Command{
		Name: "export", Usage: "print dead letters as NDJSON, CSV, or the lines that were sent", ArgsUsage: "[SEQ…]",
		Description: manual(`
Prints dead letters with the bytes that were sent, why they are dead and their hashes, one
JSON object per line, in the order of replays: all, or those that SEQ… or all of the flags
select. "line" is what was sent, "line_base64" where it is not UTF-8; of one that was edited
"edited_line" is what it is now, and the other members are of that.

--csv prints a table instead, in which "line" is for people and "line_base64" has the bytes
of each. --lines prints the lines that were sent and nothing else, byte for byte: what
"breakwater enqueue" takes, once they are mended and their dead letters are discarded with
--forget. A line of which only the beginning was kept is left out, and said.

Nothing is held in memory, so a million letters need no more than ten.`,
			[]string{"0  done, also if there are none", "1  a seq is not a dead letter, it failed, or nothing listens on the control socket",
				status2, "3  done, but a line was left out of --lines"},
			"breakwater dlq export --file copy.db > letters.ndjson", "breakwater dlq export --csv --older-than 7d > letters.csv",
			"breakwater dlq export --lines --code POISON_MESSAGE | sed s/EURO/EUR/ > corrected.ndjson"),
		Flags: append([]ucli.Flag{
			fileFlag(),
			&ucli.BoolFlag{Name: "csv", Usage: "print CSV (RFC 4180) with a heading"},
			&ucli.BoolFlag{Name: "lines", Usage: "print the lines that were sent, and nothing else"},
		}, letterFlags()...),
		Action: func(c *ucli.Context) error {
			s, err := selectionOf(c)
			if err != nil {
				return err
			}
			if n := slices.DeleteFunc([]bool{c.Bool("csv"), c.Bool("lines"), c.Bool("json")}, func(b bool) bool { return !b }); len(n) > 1 {
				return usageFor(c, "--csv, --lines and --json exclude each other")
			}
			s.letters.Lines = true
			return e.ask(c, func(control *client.Control) error { return e.dlqExport(c, control, &s) })
		},
	}
}

// letterColumns are the columns of an export.
var letterColumns = []string{
	"seq", "code", "field", "reason", "of", "dead_at", "deaths", "place", "idempotency_key", "trace_id", "partition_key",
	"ledger_entity", "match_decision", "variance_amount", "currency", "source_hash", "accepted_at", "deliveries",
	"failed_attempts", "unanswered", "line_bytes", "line_sha256", "edited_sha256", "line", "line_base64", "edited_line",
}

func (e *env) dlqExport(c *ucli.Context, control *client.Control, s *selection) error {
	out := csv.NewWriter(pipeWriter{e.Stdout})
	if c.Bool("csv") {
		if err := out.Write(letterColumns); err != nil {
			return err
		}
	}
	cut := 0
	for x, err := range s.rows(c, control) {
		switch {
		case err != nil:
		case c.Bool("csv"):
			err = out.Write(letterCells(&x))
		case !c.Bool("lines"):
			err = e.printJSON(x)
		case x.LineBytes > int64(len(sentLine(&x))):
			cut++
		default:
			err = write(e.Stdout, append(sentLine(&x), '\n'))
		}
		if err != nil {
			out.Flush() // what came is worth having
			return err
		}
	}
	out.Flush()
	if err := out.Error(); err != nil || cut == 0 {
		return err
	}
	_, _ = fmt.Fprintf(e.Stderr, "breakwater: %s left out: only the beginning was kept\n", number(cut)) // the status says it too
	return quiet(exitFindings)
}

// letterCells are the cells of one dead letter, in the order of letterColumns.
func letterCells(x *api.Exception) []string {
	cells := []string{
		strconv.FormatUint(x.Seq, 10), x.Code, x.Field, x.Reason, uintText(x.Of), exact(x.DeadAt), strconv.Itoa(x.Deaths), x.Place,
		x.IdempotencyKey, x.TraceID, x.PartitionKey, x.LedgerEntity, x.MatchDecision, x.VarianceAmount, x.Currency, x.SourceHash,
		exact(x.AcceptedAt), strconv.Itoa(x.Deliveries), strconv.Itoa(x.FailedAttempts), strconv.Itoa(x.Unanswered), strconv.FormatInt(x.LineBytes, 10),
		x.LineSHA256, x.EditedSHA256, x.Line, base64.StdEncoding.EncodeToString(sentLine(x)), x.EditedLine,
	}
	for i, name := range letterColumns {
		if name != "line_base64" {
			cells[i] = csvText(name, cells[i])
		}
	}
	return cells
}

// uintText is a number; "" for none.
func uintText(n uint64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatUint(n, 10)
}

// exact is a time as the API writes it; "" for none.
func exact(t api.Time) string {
	if t.IsZero() {
		return ""
	}
	return string(queue.AppendTime(nil, t.Time))
}
