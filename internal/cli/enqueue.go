package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"

	"breakwater/client"
)

func (e *env) enqueueCommand() *ucli.Command {
	return &ucli.Command{
		Name:      "enqueue",
		Usage:     "send exceptions from files or stdin",
		ArgsUsage: "[FILE…]",
		Description: manual(`
Sends one JSON object per line to the enqueue socket and waits for every receipt.
Without a FILE, and for "-", it reads stdin. A lost connection is made again, and
what has no receipt is sent again: what was stored already is answered "duplicate"
and not stored twice. The same goes for a second run after an interrupted one.

A line that is rejected, since breakwater stops, is full (with on_saturated =
"reject") or has no room on its disk, is sent again, too, and nothing that stands
behind it before it is stored: the order of the input is kept. It counts once, as
what became of it at last. With --no-wait the first one ends the command. Where
nobody listens from the start it gives up after some 6 seconds; later, when some 76
have stored nothing. Then it says from which line of which file to go on. A full queue
makes its producers wait as long as it takes: where nothing is answered for a while,
stderr says so.

A last line without a line end counts if it is one complete object. Else it is cut
off: it is not sent, counts as rejected, and is named.

With --receipts, FILE gets one receipt per line, the last one; "line" counts all
lines of all inputs, from 1.`,
			[]string{
				"0  every line is stored, or was before (duplicate)", "1  the connection was lost for good, or an input could not be read",
				status2, "3  something was quarantined or in conflict: it is a dead letter now",
				"4  lines were rejected, at last or with --no-wait, or cut off: they are stored",
				"   nowhere, send them again",
			},
			"breakwater enqueue breaks.ndjson", "matcher | breakwater enqueue --receipts receipts.ndjson",
			"breakwater enqueue --json a.ndjson b.ndjson"),
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "receipts", TakesFile: true, Usage: "keep the receipts, one per line, in `FILE`"},
			&ucli.BoolFlag{Name: "no-wait", Usage: "end with 4 when a line is rejected; default is to wait and send it again"},
			&ucli.StringFlag{Name: "socket", TakesFile: true, Usage: "send to the socket at `PATH` instead of the configured one"},
		},
		Action: e.enqueue,
	}
}

func (e *env) enqueue(c *ucli.Context) (err error) {
	path := c.String("socket")
	if path == "" {
		cfg, err := e.config(c)
		if err != nil {
			return err
		}
		path = cfg.Sockets.Enqueue.Path
	}
	inputs, size, err := e.inputs(c.Args().Slice())
	if err != nil {
		return nothingSent(err)
	}
	p := &client.Producer{Path: path, Waiting: e.saysWaiting(), Silent: e.saySilent, NoWait: c.Bool("no-wait")}
	if name := c.String("receipts"); c.IsSet("receipts") {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
		if err != nil {
			return nothingSent(fmt.Errorf("open the receipts file: %w", err))
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		p.Receipt = func(line []byte) error { return write(f, line) }
	}
	bar := e.bar(size)
	if bar != nil {
		p.Progress = func(n int) { _ = bar.Add(n) } // a bar that cannot be drawn is no reason to stop
	}
	res, err := p.Send(c.Context, inputs...)
	if bar != nil {
		_ = bar.Finish()
		_, _ = fmt.Fprintln(e.Stderr)
	}
	return e.summarize(c, res, err)
}

// nothingSent is the error of a file that is in the way before anything is sent.
func nothingSent(err error) error {
	return &failure{status: exitFailed, err: err, hint: "nothing was sent: name a file that this user can open, or leave it out"}
}

// inputs are what is to be sent; size is their length together, -1 if it is not known.
func (e *env) inputs(names []string) (inputs []io.Reader, size int64, err error) {
	if len(names) == 0 {
		names = []string{"-"}
	}
	for _, name := range names {
		if name == "-" {
			inputs, size = append(inputs, e.Stdin), -1
			continue
		}
		n, err := canRead(name)
		if err != nil {
			return nil, 0, err
		}
		if size >= 0 {
			size += n
		}
		inputs = append(inputs, &lazyFile{name: name})
	}
	return inputs, size, nil
}

// canRead opens a file to see whether that can be done, before anything is sent, and
// returns its length. One that has readers and writers, like a FIFO, is not opened twice.
func canRead(name string) (size int64, err error) {
	info, err := os.Stat(name)
	switch {
	case err != nil:
		return 0, err
	case info.IsDir():
		return 0, fmt.Errorf("%s is a directory", name)
	case !info.Mode().IsRegular():
		return 0, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	return info.Size(), f.Close()
}

// lazyFile is a file that is opened when it is first read, so that many do not need many
// descriptors.
type lazyFile struct {
	name string
	f    *os.File
}

// Name is the name under which it is read.
func (l *lazyFile) Name() string { return l.name }

// Read opens the file at the first call and closes it at its end.
func (l *lazyFile) Read(b []byte) (n int, err error) {
	if l.f == nil {
		if l.f, err = os.Open(l.name); err != nil {
			return 0, err
		}
	}
	n, err = l.f.Read(b)
	if errors.Is(err, io.EOF) {
		if closed := l.f.Close(); closed != nil {
			return n, closed
		}
	}
	return n, err
}

// bar is a progress bar on stderr, only on a terminal.
func (e *env) bar(size int64) *progressbar.ProgressBar {
	if !term.IsTerminal(int(e.Stderr.Fd())) {
		return nil
	}
	return progressbar.NewOptions64(size, progressbar.OptionSetWriter(e.Stderr), progressbar.OptionShowBytes(true),
		progressbar.OptionSetDescription("enqueue"), progressbar.OptionThrottle(100*time.Millisecond))
}

// sayWaiting tells a person that the connection is being tried again.
func (e *env) sayWaiting(err error, after time.Duration) {
	_, _ = fmt.Fprintf(e.Stderr, "breakwater: connecting again in %s: %s\n", after, oneLine(err.Error())) // nowhere else to say it
}

// saySilent tells a person that nothing is answered. It is not given up: a queue that is
// full makes its producers wait as long as it takes.
func (e *env) saySilent(waited time.Duration, lines int) {
	_, _ = fmt.Fprintf(e.Stderr, "breakwater: no answer for %s (%d %s): there is no room, or it hangs; %s\n", // nowhere else to say it
		waited.Round(time.Second), lines, plural(lines, "line waits", "lines wait"), e.aim.at(`"breakwater status" says which`))
}

// saysWaiting is sayWaiting that does not repeat itself: where a full queue takes a few
// lines at a time, the same is the case twice a second.
func (e *env) saysWaiting() func(error, time.Duration) {
	var said string
	return func(err error, after time.Duration) {
		if now := fmt.Sprint(err, after); now != said || !errors.Is(err, client.ErrRejected) {
			said = now
			e.sayWaiting(err, after)
		}
	}
}

// summarize prints the counts and turns them into an exit status.
func (e *env) summarize(c *ucli.Context, res client.Result, err error) error {
	for _, at := range res.Incomplete {
		_, _ = fmt.Fprintf(e.Stderr, "breakwater: %s is cut off, and was not sent: no line end, and no complete object\n", oneLine(at.String())) // nowhere else to say it
	}
	out := e.printSummary(c, res)
	switch {
	case errors.Is(err, client.ErrRejected):
		return &failure{status: exitRejected, err: err, hint: "send the same input again, later: what is stored is answered \"duplicate\""}
	case errors.Is(err, client.ErrRefused):
		return &failure{status: exitFailed, err: err, hint: `end another producer, or raise max_connections of socket "enqueue"`}
	case errors.Is(err, client.ErrOtherSocket):
		return &failure{status: exitUsage, err: err, hint: "exceptions go to enqueue.sock: give its path with --socket, or leave it out and the configuration has it"}
	case errors.Is(err, client.ErrLost):
		return &failure{status: exitFailed, err: err, hint: `start it with "breakwater serve", or name its socket with --socket`}
	case errors.Is(err, client.ErrLongLine):
		return &failure{status: exitFailed, err: err, hint: "no server takes such a line: take it out, or mend what wrote it"}
	case errors.Is(err, context.Canceled):
		return &failure{status: exitFailed, err: errors.New("interrupted"), hint: "send the same input again: what is stored is answered \"duplicate\""}
	case err != nil:
		return &failure{status: exitFailed, err: err,
			hint: "what has a receipt counts; mend what failed and send the same again: what is stored is answered \"duplicate\""}
	case res.Rejected > 0:
		return quiet(exitRejected)
	case res.Quarantined+res.Conflict > 0:
		return quiet(exitFindings)
	}
	return out
}

func (e *env) printSummary(c *ucli.Context, res client.Result) error {
	if c.Bool("json") {
		return e.printJSON(res)
	}
	text := fmt.Appendf(nil, "%d %s: %d accepted, %d duplicate, %d conflict, %d quarantined, %d rejected\n",
		res.Lines, plural(res.Lines, "line", "lines"), res.Accepted, res.Duplicate, res.Conflict, res.Quarantined, res.Rejected)
	if res.Resent > 0 {
		text = fmt.Appendf(text, "%d %s sent again after a lost connection; what was stored counts as duplicate\n",
			res.Resent, plural(res.Resent, "line was", "lines were"))
	}
	if res.Next != nil {
		text = fmt.Appendf(text, "go on from %s: what comes before it has its receipt\n", oneLine(res.Next.String()))
	}
	if res.Audit != nil {
		text = fmt.Appendf(text, "audit head %d:%s\n", res.Audit.Block, res.Audit.Head)
	}
	return write(e.Stdout, text)
}
