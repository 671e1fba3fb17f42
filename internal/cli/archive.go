package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
	"breakwater/internal/client"
	"breakwater/internal/control/api"
	"breakwater/storage/archive"
)

func (e *env) archiveCommand() *ucli.Command {
	return &ucli.Command{
		Name: "archive", Usage: "have the running breakwater write a checked copy of its store", ArgsUsage: "DEST",
		Description: manual(`
Copies the whole store, as it is at one moment, to the new file DEST, while work goes
on. The server writes it, so DEST is an absolute path as the server sees it, in a
folder that is there and that the user it runs as may write to; DEST itself must not
exist. Beside it DEST.manifest.json says what it is: size, SHA-256, the head of the
trail, the counts, the configuration.

Before the copy gets its name it is read back from the disk and checked as "audit
verify --file" does. It is recorded as ARCHIVED, and the trail up to its head counts
as archived: "status" says up to where. If it fails, is interrupted, or breakwater
drains meanwhile, nothing is left.

An archive is read with --file by every read command, on any machine; to take it into
service, see "breakwater serve --restore". Never cp the file of a running store: the
copy would be of several moments.

While it is copied, what is written makes the store's file grow. An archive to the
store's own disk is refused unless it leaves queue.min_free_bytes and room for that;
one to another disk needs room only there, so that a full disk can be archived. Either
is given up before the store comes to a limit, and so is one to a disk that takes less
than 1 MiB a second.`,
			[]string{status0, "1  it failed, DEST exists, another archive is being made, or nothing listens on the control socket",
				"2  wrong usage or configuration, or DEST can never be an archive"},
			"breakwater archive /var/backups/breakwater-2026-11-30.db", "breakwater archive /mnt/audit/nov.db --by alice --reason \"month end\" --json"),
		Flags:  []ucli.Flag{reasonFlag(), byFlag()},
		Action: e.archive,
	}
}

func (e *env) archive(c *ucli.Context) error {
	if err := atMostArgs(c, 1); err != nil {
		return err
	}
	dest := c.Args().First()
	switch {
	case dest == "":
		return usageFor(c, "the new file's path is missing")
	case !filepath.IsAbs(dest):
		err := usageFor(c, "%q is not an absolute path", dest).(*failure)
		if full, wrong := filepath.Abs(dest); wrong == nil {
			err.hint = "the server writes the file, and has another working directory; if it is meant for this one, give " + full
		}
		return err
	}
	err := e.steer(c, func(control *client.Control) error {
		ended := e.watchArchive(c.Context, control)
		done, err := control.Archive(c.Context, api.ArchiveAct{Dest: dest, By: e.by(c), Reason: c.String("reason")})
		ended()
		switch {
		case err != nil:
			return err
		case c.Bool("json"):
			return e.printJSON(done)
		}
		return write(e.Stdout, archiveText(&done))
	})
	return archiveError(err)
}

// statusConflict is HTTP's: the request is right, and something is in its way.
const statusConflict = 409

// archiveError: what is in the way of an archive is no mistake in the command.
func archiveError(err error) error {
	var p *client.Problem
	var f *failure
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return &failure{status: exitFailed, err: errors.New("interrupted"), hint: "unless it was just done, there is no archive: the server removes what there was of it"}
	case errors.As(err, &f) && errors.As(err, &p) && p.Status == statusConflict:
		return &failure{status: exitFailed, err: err, hint: f.hint}
	}
	return err
}

// archiveText says what was made.
func archiveText(a *api.Archive) []byte {
	return table([][]string{
		{"archive", a.Path},
		{"manifest", a.Manifest},
		{"size", bytesText(a.Bytes)},
		{"sha256", a.SHA256},
		{"trail", fmt.Sprintf("%s %s, head %d:%s", number(a.Audit.Records), plural(a.Audit.Records, "record", "records"), a.Audit.Block, a.Audit.Head)},
	})
}

// archiveLook is how often the progress of an archive is asked for.
const archiveLook = 300 * time.Millisecond

// watchArchive draws the progress on a terminal until the function that it returns is
// called.
func (e *env) watchArchive(ctx context.Context, control *client.Control) (end func()) {
	progress, last := e.stepBar()
	if progress == nil {
		return last
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		again := time.NewTicker(archiveLook)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-ctx.Done():
				last()
				return
			}
			if now, err := control.Archiving(ctx); err == nil && now.Running {
				progress(now.Step, now.Done, now.Total)
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// sealArchiveCommand is the child that checks a copy.
func (e *env) sealArchiveCommand() *ucli.Command {
	return &ucli.Command{
		Name: app.SealCommand, Hidden: true, Usage: "check a copy for the server that made it", ArgsUsage: "PATH NOTE",
		Action: func(c *ucli.Context) error {
			if c.NArg() != 2 {
				return usageFor(c, "it is the server's own")
			}
			return archive.Seal(c.Context, c.Args().Get(0), c.Args().Get(1), e.Stdout)
		},
	}
}
