package cli

import (
	"bytes"
	"encoding/csv"
	"io"
	"slices"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/queue"
)

func (e *env) auditCommand() *ucli.Command {
	return &ucli.Command{
		Name: "audit", Usage: "verify, export and follow the trail, and make a key that signs it",
		Subcommands: []*ucli.Command{withSocket(e.verifyCommand()), withSocket(e.exportCommand()), withSocket(e.traceCommand()), e.keygenCommand()},
	}
}

func (e *env) exportCommand() *ucli.Command {
	return &ucli.Command{
		Name: "export", Usage: "print records of the trail, as NDJSON or CSV",
		Description: manual(`
Prints the records that all of the flags select, in the order in which they were
written, exactly as they are in the trail: one JSON object per line. With --csv it
prints a table with a heading, one row per record. There, a text that a spreadsheet
would compute (it begins with = + - or @) gets an apostrophe in front; an amount is a
number and gets none.

Only ACCEPTED and QUARANTINED name an idempotency key; --seq has all records of an
exception, and "audit trace" shows them to people.

A time is RFC 3339 (2026-11-30T17:00:00Z), a date (2026-11-30, which begins at
0:00 UTC), or an age (90m, 24h, 7d).`,
			[]string{"0  all records were printed", "1  it failed on the way: what was printed is not all", status2},
			"breakwater audit export --since 24h >trail.ndjson", "breakwater audit export --event DECIDED --csv",
			"breakwater audit export --file copy.db --key ACME --since 2026-11-01 --until 2026-12-01",
			"breakwater audit export --trace 4bf92f35"),
		Flags: []ucli.Flag{
			fileFlag(),
			&ucli.BoolFlag{Name: "csv", Usage: "print CSV"},
			&ucli.StringFlag{Name: "since", Usage: "only records from `TIME` on"},
			&ucli.StringFlag{Name: "until", Usage: "only records before `TIME`"},
			&ucli.StringFlag{Name: "key", Usage: "only records of this partition `KEY`"},
			&ucli.StringFlag{Name: "event", Usage: "only records of this `EVENT`"},
			&ucli.StringFlag{Name: "seq", Usage: "only records of the exception `SEQ`, also those that only name it"},
			&ucli.StringFlag{Name: "trace", Usage: "only records of this trace `ID`"},
			&ucli.StringFlag{Name: "idempotency-key", Usage: "only records that name this idempotency `KEY`"},
		},
		Action: e.export,
	}
}

func (e *env) export(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	if c.Bool("csv") && c.Bool("json") {
		return usageFor(c, "--csv and --json exclude each other")
	}
	q := queue.TrailQuery{
		PartitionKey: c.String("key"), Event: queue.Event(c.String("event")),
		TraceID: c.String("trace"), IdempotencyKey: c.String("idempotency-key"),
	}
	if seq := c.String("seq"); seq != "" {
		var ok bool
		if q.Seq, ok = parseSeq(seq); !ok {
			return usageFor(c, "--seq %q is no seq", seq)
		}
	}
	if q.Event != "" && !slices.Contains(queue.Events[:], q.Event) {
		return noSuchEvent(c, string(q.Event))
	}
	if err := spanFlags(c, &q); err != nil {
		return err
	}
	return e.ask(c, func(control *client.Control) error {
		if c.Bool("csv") {
			return e.exportCSV(c, control, q)
		}
		return e.exportLines(c, control, q)
	})
}

// noSuchEvent names the event that was probably meant; where none is near, all of
// them.
func noSuchEvent(c *ucli.Context, name string) error {
	var names []string
	for _, event := range queue.Events {
		names = append(names, string(event))
	}
	if near := nearest(strings.ToUpper(name), names); near != "" {
		return usageFor(c, "there is no event %q; is %q meant?", name, near)
	}
	return usageFor(c, "there is no event %q; there are %s", name, strings.Join(names, ", "))
}

// exportPiece is how many bytes are printed at a time.
const exportPiece = 64 << 10

func (e *env) exportLines(c *ucli.Context, control *client.Control, q queue.TrailQuery) error {
	var b bytes.Buffer
	for line, err := range control.Records(c.Context, q) {
		if err != nil {
			_ = write(e.Stdout, b.Bytes()) // what came is worth having
			return err
		}
		b.Write(visible(line))
		b.WriteByte('\n')
		if b.Len() >= exportPiece {
			if err := write(e.Stdout, b.Bytes()); err != nil {
				return err
			}
			b.Reset()
		}
	}
	return write(e.Stdout, b.Bytes())
}

func (e *env) exportCSV(c *ucli.Context, control *client.Control, q queue.TrailQuery) error {
	out := csv.NewWriter(pipeWriter{e.Stdout})
	if err := out.Write(csvColumns); err != nil {
		return err
	}
	for line, err := range control.Records(c.Context, q) {
		var cells []string
		if err == nil {
			cells, err = csvCells(line)
		}
		if err == nil {
			err = out.Write(cells)
		}
		if err != nil {
			out.Flush()
			return err
		}
	}
	out.Flush()
	return out.Error()
}

// pipeWriter is write as an io.Writer.
type pipeWriter struct{ w io.Writer }

// Write writes b.
func (p pipeWriter) Write(b []byte) (int, error) {
	if err := write(p.w, b); err != nil {
		return 0, err
	}
	return len(b), nil
}
