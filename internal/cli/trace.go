package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/queue"
)

func (e *env) traceCommand() *ucli.Command {
	return &ucli.Command{
		Name: "trace", Usage: "print one exception's whole life", ArgsUsage: "SEQ|KEY",
		Description: manual(`
Prints every record of an exception, from its acceptance on, and with them when an
operator held its partition key, or released it, while it was there. The argument is
found as in "breakwater show"; where it names several, a line above each says which it
is. With --json the records are printed as they are in the trail, one per line.`,
			[]string{status0, status1Absent, status2},
			"breakwater audit trace 42", "breakwater audit trace --key k1 --json", "breakwater audit trace 42 --file copy.db"),
		Flags: nameFlags(),
		Action: func(c *ucli.Context) error {
			return e.named(c, func(control *client.Control, seq uint64, several bool) error {
				return e.trace(c, control, seq, several)
			})
		},
	}
}

// trace prints a life; with several, first whose it is. The records of its key, of which there are few, are fetched
// first, and put in their places as the others come.
func (e *env) trace(c *ucli.Context, control *client.Control, seq uint64, several bool) error {
	d, err := control.Exception(c.Context, seq)
	if p := (*client.Problem)(nil); errors.As(err, &p) && p.Code == string(queue.CodeNotFound) {
		if p.Hint != "" { // there was one
			return &failure{status: exitFailed, err: fmt.Errorf("exception %d: %s", seq, p.Detail), hint: p.Hint + ": see --file"}
		}
		return &failure{status: exitFailed, err: fmt.Errorf("there is no exception %d", seq),
			hint: `if it is a key, say so: "breakwater audit trace --key …"`}
	}
	if err != nil {
		return err
	}
	var holds []keyRecord
	if d.Place != "" || !d.NotBefore.IsZero() { // what never entered the order waits for no key
		if holds, err = keyRecords(c, control, d.PartitionKey); err != nil {
			return err
		}
	}
	if several && !c.Bool("json") {
		if err := write(e.Stdout, []byte(oneLine(whose(&d.Exception))+"\n")); err != nil {
			return err
		}
	}
	t := tracing{e: e, c: c, seq: seq, holds: holds, rows: [][]string{{"N", "TIME", "EVENT", ""}}}
	for line, err := range control.Records(c.Context, queue.TrailQuery{Seq: seq}) {
		if err == nil {
			err = t.record(line)
		}
		if err != nil {
			return err
		}
	}
	if err := t.end(); err != nil || !d.HistoryTrimmed || c.Bool("json") {
		return err
	}
	return write(e.Stdout, []byte(historyTrimmed))
}

// whose names an exception among others.
func whose(x *api.Exception) string {
	text := fmt.Sprintf("seq %d: %s", x.Seq, x.State)
	for _, id := range [][2]string{{"idempotency key", x.IdempotencyKey}, {"partition key", x.PartitionKey}, {"conflict of", uintText(x.Of)}} {
		if id[1] != "" {
			text += ", " + id[0] + " " + id[1]
		}
	}
	return text
}

// keyRecord is a record of a key's hold or release.
type keyRecord struct {
	n    uint64
	held bool
	line []byte
}

// maxKeyRecords bounds how many of each are shown in one life: the newest.
const maxKeyRecords = 1000

// keyRecords returns when a key was held and released, in order.
func keyRecords(c *ucli.Context, control *client.Control, key string) (all []keyRecord, err error) {
	for _, event := range []queue.Event{queue.EventKeyHeld, queue.EventKeyReleased} {
		var some []keyRecord
		for line, err := range control.Records(c.Context, queue.TrailQuery{PartitionKey: key, Event: event}) {
			if err != nil {
				return nil, err
			}
			r, err := queue.ParseRecord(line)
			if err != nil {
				return nil, fmt.Errorf("a record that cannot be read: %w", err)
			}
			if len(some) == maxKeyRecords {
				some = slices.Delete(some, 0, maxKeyRecords/2)
			}
			some = append(some, keyRecord{n: r.N, held: event == queue.EventKeyHeld, line: slices.Clone(line)})
		}
		all = append(all, some...)
	}
	slices.SortFunc(all, func(a, b keyRecord) int { return cmp.Compare(a.n, b.n) })
	return all, nil
}

// tracing prints a life as it is read.
type tracing struct {
	e     *env
	c     *ucli.Context
	seq   uint64
	holds []keyRecord // that are not printed yet
	begun bool
	ended bool // by DECIDED or DISCARDED: nothing that follows concerns it
	rows  [][]string
}

// record takes the next record of the exception.
func (t *tracing) record(line []byte) error {
	r, err := queue.ParseRecord(line)
	if err != nil {
		return fmt.Errorf("a record that cannot be read: %w", err)
	}
	if !t.begun {
		t.begun = true
		t.holds = t.holds[inForce(t.holds, r.N):]
	}
	for len(t.holds) > 0 && t.holds[0].n < r.N && !t.ended {
		if err := t.print(t.holds[0].line); err != nil {
			return err
		}
		t.holds = t.holds[1:]
	}
	if len(t.holds) > 0 && t.holds[0].n == r.N {
		t.holds = t.holds[1:] // it ended a wait of this exception, and is a record of both
	}
	if r.Seq == t.seq && (r.Event == queue.EventDecided || r.Event == queue.EventDiscarded) {
		t.ended = true
	}
	return t.print(line)
}

// inForce returns the index of the first record that concerns what begins with record
// n: of those before it, a hold that still holds.
func inForce(holds []keyRecord, n uint64) int {
	i := 0
	for i < len(holds) && holds[i].n < n {
		i++
	}
	if i > 0 && holds[i-1].held {
		i--
	}
	return i
}

// print prints one record, or keeps its row.
func (t *tracing) print(line []byte) error {
	if t.c.Bool("json") {
		return write(t.e.Stdout, append(slices.Clone(visible(line)), '\n'))
	}
	row, err := recordRow(line, t.seq)
	t.rows = append(t.rows, row)
	return err
}

// end prints what is left.
func (t *tracing) end() error {
	for _, h := range t.holds {
		if t.ended {
			break
		}
		if err := t.print(h.line); err != nil {
			return err
		}
	}
	if t.c.Bool("json") {
		return nil
	}
	return write(t.e.Stdout, table(t.rows))
}
