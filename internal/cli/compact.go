package cli

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"
	ucli "github.com/urfave/cli/v2"
	"golang.org/x/term"

	"breakwater/storage"
)

func (e *env) compactCommand() *ucli.Command {
	return &ucli.Command{
		Name: "compact", Usage: "make the file of a stopped store smaller",
		Description: manual(`
Writes the store anew, without the pages that are free in it, and puts the new file in
the place of the old one. What is stored, the head of the trail and the witness stay as
they are. Free pages are used again in any case: it is worth it after a large backlog
that will not come again, or when many records have expired; "status" and "doctor" say
how much is free. The file grows ahead of what is written to it, so it may be longer than
what it takes of the disk: both are printed where they differ.

The store must be stopped, and the command be run as the owner of the file. Beside the
old file there must be room for what is in use of it. The new file is read and compared
before it gets the name; if it fails, is interrupted or killed, at whatever moment, the
old file or the new one is there, whole.`,
			[]string{status0, "1  it failed, or the store is in use: the file is as it was", status2},
			"breakwater compact", "breakwater compact --json"),
		Action: e.compact,
	}
}

// compacted is the answer as a program reads it.
type compacted struct {
	Path       string `json:"path"`
	Before     int64  `json:"before_bytes"`
	BeforeDisk int64  `json:"before_disk_bytes"`
	After      int64  `json:"after_bytes"`
	AfterDisk  int64  `json:"after_disk_bytes"`
}

// extentText is the length of a file, and what it takes of the disk where that is less: it
// is that which a compaction gives back.
func extentText(bytes, disk int64) string {
	if disk >= bytes {
		return bytesText(bytes)
	}
	return bytesText(bytes) + " (" + bytesText(disk) + " of the disk)"
}

func (e *env) compact(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	cfg, err := e.config(c)
	if err != nil {
		return err
	}
	progress, end := e.stepBar()
	r, err := storage.Compact(storage.Options{Backend: cfg.Store.Backend, Path: cfg.Store.Path, Context: c.Context, Progress: progress})
	end()
	switch {
	case errors.Is(err, context.Canceled):
		return &failure{status: exitFailed, err: errors.New("interrupted"), hint: "the file is as it was"}
	case err != nil:
		return err
	case c.Bool("json"):
		return e.printJSON(compacted{cfg.Store.Path, r.Before, r.BeforeDisk, r.After, r.AfterDisk})
	}
	return write(e.Stdout, fmt.Appendf(nil, "%s: %s before, %s now\n", oneLine(cfg.Store.Path), extentText(r.Before, r.BeforeDisk), extentText(r.After, r.AfterDisk)))
}

// stepBar draws, on a terminal, the progress of something that has several steps, until
// end is called.
func (e *env) stepBar() (progress func(step string, done, total int64), end func()) {
	if !term.IsTerminal(int(e.Stderr.Fd())) {
		return nil, func() {}
	}
	bar := progressbar.NewOptions64(-1, progressbar.OptionSetWriter(e.Stderr), progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100*time.Millisecond))
	last := ""
	progress = func(step string, done, total int64) {
		if step != last {
			last = step
			bar.Describe(step)
		}
		if total <= 0 {
			total = -1
		}
		bar.ChangeMax64(total)
		_ = bar.Set64(max(0, min(done, total-1))) // a full bar ends itself; one that cannot be drawn is no reason to stop
	}
	return progress, func() { _ = bar.Finish() }
}
