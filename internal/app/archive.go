package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/control"
	"breakwater/internal/control/api"
	"breakwater/queue"
	"breakwater/storage/archive"
)

// SealCommand is the hidden command that checks a copy in a process of its own: see
// [archive.Seal]. The command line hands its two arguments to it.
const SealCommand = "__seal-archive"

// errDraining is why an archive ends when the process does.
var errDraining = errors.New("breakwater is ending, and with it the archive")

// newArchives makes what makes archives; nil for a store that cannot be copied.
func (a *appliance) newArchives() *archive.Maker {
	store, ok := a.store.(archive.Store)
	if !ok {
		return nil
	}
	return archive.New(archive.Options{
		Store: store, Path: a.o.Config.Store.Path, Version: a.o.Version, Now: time.Now,
		Limits: func() archive.Limits {
			q := a.config().Queue
			return archive.Limits{MinFreeBytes: q.MinFreeBytes, MaxStoreBytes: q.MaxStoreBytes}
		},
		Config: func() json.RawMessage { return a.config().Effective() },
		Ending: a.stop.Done(),
		Child:  []string{os.Args[0], SealCommand},
	})
}

// archiveFor makes an archive for an operator. The drain ends it.
func (a *appliance) archiveFor(ctx context.Context, by queue.Action, dest string) (doc api.Archive, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.stop, func() { cancel(errDraining) })()
	a.log.Info("archive begun", "path", dest, "by", by.By)
	m, err := a.archives.Make(ctx, by, dest)
	if err != nil {
		a.log.Warn("no archive", "path", dest, "error", err.Error())
		return doc, refusedArchive(err)
	}
	a.checkpointArchive(ctx, m)
	return api.Archive{
		Path: dest, Manifest: dest + archive.ManifestSuffix, MadeAt: api.Time{Time: m.MadeAt}, Bytes: m.Bytes, SHA256: m.SHA256,
		Audit:   api.Audit{Block: m.Audit.Block, Head: m.Audit.Head, Records: m.Audit.Records, Origin: m.Audit.Origin},
		LastSeq: m.Counts.LastSeq,
	}, nil
}

// checkpointArchive signs the head that an archive ends at. An archive without a
// checkpoint is an archive: whoever asked for it waits for that no longer than a drain.
func (a *appliance) checkpointArchive(ctx context.Context, m *archive.Manifest) {
	head, ok := queue.ParseHead(fmt.Sprintf("%d:%s", m.Audit.Block, m.Audit.Head))
	if !ok {
		return // it is the text of a head that the store gave
	}
	ctx, cancel := context.WithTimeout(ctx, checkpointPatience)
	defer cancel()
	if err := a.checkpoints.ask(ctx, &queue.Witness{Head: head, N: m.Audit.Records}); err != nil {
		a.log.Error("the archive has no checkpoint", "error", err.Error())
	}
}

// archiving says how far the archive is that is being made.
func (a *appliance) archiving() api.Archiving {
	p := a.archives.Progress()
	if p == nil {
		return api.Archiving{}
	}
	return api.Archiving{
		Running: true, Path: p.Path, By: p.By, Since: api.Time{Time: p.Since}, Step: p.Step, Done: p.Done, Total: p.Total,
	}
}

// vouch compares an archive that is to be taken into service with the manifest beside
// it, if there is one: what was damaged on the way must not become the store.
func vouch(path string, log hclog.Logger) func() error {
	return func() error {
		found, err := archive.Check(path)
		if err == nil {
			log.Info("an archive is taken into service", "path", path, "compared_with_its_manifest", found)
		}
		return err
	}
}

// retireManifest puts away the manifest of an archive that is in service and recorded.
// One that stays does no harm before the next restore.
func retireManifest(path string, log hclog.Logger) {
	retired, err := archive.Retire(path)
	switch {
	case err != nil:
		log.Warn("the manifest of what was restored stays: remove it, or another archive will be compared with it", "error", err.Error())
	case retired != "":
		log.Info("the manifest of what was restored was renamed", "path", retired)
	}
}

// refusedArchive is why there is no archive, in the words of HTTP.
func refusedArchive(err error) error {
	r := &control.Refused{Code: queue.CodeInternal, Err: err}
	var e *archive.Error
	if !errors.As(err, &e) {
		return r
	}
	r.Hint = e.Hint
	switch e.Kind {
	case archive.BadDest:
		r.Code = queue.CodeUsage
	case archive.Exists:
		r.Code, r.Conflict = queue.CodeUsage, true
	case archive.Busy:
		r.Code = queue.CodeSaturated
	case archive.NoRoom, archive.TooSlow, archive.Failed, archive.NotStored, archive.Ended:
		r.Code = queue.CodeStorageUnavailable
	case archive.Stopped:
		r.Code = queue.CodeDraining
	}
	return r
}
