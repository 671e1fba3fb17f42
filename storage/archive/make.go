package archive

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore"
	"breakwater/storage/boltstore/dbfile"
)

// Store is what an archive is made of.
type Store interface {
	Snapshot(ctx context.Context, to *os.File, step func(boltstore.SnapshotStep) error) (boltstore.SnapshotInfo, error)
	Archived(ctx context.Context, a queue.Action, i queue.ArchiveInfo) error
}

// Options says of which store, and how. All but Ending are required.
type Options struct {
	Store   Store
	Path    string // of its file
	Version string
	Limits  func() Limits          // in force now
	Config  func() json.RawMessage // in force now, secrets masked
	Now     func() time.Time

	// Ending is closed when the process ends, and nobody waits for a commit any more:
	// what is removed then may go at once. nil: it never is.
	Ending <-chan struct{}

	// Child is the command line of a process of this program that calls [Seal] with
	// the two arguments that follow it.
	Child []string
}

// Maker makes archives, one at a time.
type Maker struct {
	o    Options
	turn sync.Mutex
	now  atomic.Pointer[Progress]
}

// New returns a Maker.
func New(o Options) *Maker { return &Maker{o: o} }

// Progress is how far an archive has come. Done and Total are bytes, or blocks of the
// trail, as the step has it; 0: not known.
type Progress struct {
	Path        string
	By          string
	Since       time.Time
	Step        string
	Done, Total int64
}

// Progress returns how far the archive is that is being made; nil: none is.
func (m *Maker) Progress() *Progress { return m.now.Load() }

// Make makes an archive at dest and returns its manifest. Its error is an [*Error];
// then nothing is under that name. The end of ctx is a failure like others.
func (m *Maker) Make(ctx context.Context, a queue.Action, dest string) (*Manifest, error) {
	if !m.turn.TryLock() {
		return nil, refuse(Busy, "wait until it is done", "another archive is being made")
	}
	defer m.turn.Unlock()
	defer m.now.Store(nil)
	p, err := newPlace(dest, m.o.Path)
	if err != nil {
		return nil, err
	}
	defer p.dir.Close()
	man, err := m.make(ctx, a, p)
	if err != nil {
		// Some of what is called knows the end of ctx, and not why.
		if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
			if errors.Is(cause, context.Canceled) {
				cause = fmt.Errorf("whoever asked for the archive has left: %w", cause)
			}
			return nil, &Error{Kind: Stopped, Err: cause, Hint: "nothing was left behind; ask again"}
		}
		return nil, systemErr("make the archive", err)
	}
	return man, nil
}

func (m *Maker) make(ctx context.Context, a queue.Action, p *place) (man *Manifest, err error) {
	tell := func(step string, done, total int64) {
		m.now.Store(&Progress{Path: p.path, By: a.By, Since: a.Now, Step: step, Done: done, Total: total})
	}
	tell("preparing", 0, 0)
	if err := p.sweep(m.o.Ending); err != nil {
		return nil, err
	}
	f, err := p.create(p.temp)
	if err != nil {
		return nil, systemErr("make the archive's file", err)
	}
	defer f.Close()
	man, err = m.fill(ctx, a, p, f, tell)
	if err != nil {
		tell("removing", 0, 0)
		p.discard()
		giveBack(f, m.o.Ending)
		return nil, err
	}
	return man, nil
}

// fill makes the new file f an archive. After an error it has at most its temporary name.
func (m *Maker) fill(ctx context.Context, a queue.Action, p *place, f *os.File, tell func(step string, done, total int64)) (*Manifest, error) {
	info, err := m.copy(ctx, f, tell)
	if err != nil {
		return nil, err
	}
	s, err := m.seal(ctx, f, a, &info, tell)
	if err != nil {
		return nil, err
	}
	man := &Manifest{
		Format: manifestFormat, Archive: p.name, MadeAt: a.Now.UTC().Truncate(time.Microsecond), By: a.By, Reason: a.Reason,
		Version: m.o.Version, Bytes: s.Bytes, SHA256: s.SHA256, Contents: s.Contents, Config: m.o.Config(),
	}
	tell("naming", 0, 0)
	if err := man.write(p); err != nil {
		return nil, err
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if err := p.publish(); err != nil {
		return nil, err
	}
	if err := m.record(ctx, a, p, &info, s); err != nil {
		p.undo()
		return nil, err
	}
	return man, nil
}

// copy copies the store into f and syncs it.
func (m *Maker) copy(ctx context.Context, f *os.File, tell func(step string, done, total int64)) (boltstore.SnapshotInfo, error) {
	g := guard{to: f, store: m.o.Path, limits: m.o.Limits(), now: m.o.Now, space: dbfile.FreeSpace, same: sameDisk}
	info, err := m.o.Store.Snapshot(ctx, f, func(s boltstore.SnapshotStep) error {
		tell("copying", s.Done, s.Total)
		return g.step(s)
	})
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return info, systemErr("copy the store", err)
	}
	return info, nil
}

// seal has the copy checked, and compares what was found with what was copied.
func (m *Maker) seal(ctx context.Context, f *os.File, a queue.Action, info *boltstore.SnapshotInfo, tell func(step string, done, total int64)) (*sealed, error) {
	note, err := json.Marshal(map[string]string{"made_at": string(queue.AppendTime(nil, a.Now)), "version": m.o.Version})
	if err != nil {
		return nil, systemErr("mark the copy", err)
	}
	s, err := sealInChild(ctx, m.o.Child, f, string(note), tell)
	const look = `check the disks: the copy or what it was copied from is not right; "breakwater audit verify" looks at the live file`
	var known *Error
	switch {
	case err != nil && ctx.Err() != nil, errors.As(err, &known):
		return nil, err
	case err != nil:
		return nil, refuse(Unsound, look, "the copy cannot be checked: %w", err)
	case len(s.Findings) > 0:
		return nil, refuse(Unsound, look, "the copy is not sound: %s (%d findings)", s.Findings[0], len(s.Findings))
	case s.Audit != (Audit{info.Head.Block, info.Head.Hash.String(), info.Records, queue.Origin(info.StoreID)}):
		return nil, refuse(Unsound, look, "the copy is of another moment than it was made at")
	}
	return s, nil
}

// record tells the store of its archive.
func (m *Maker) record(ctx context.Context, a queue.Action, p *place, info *boltstore.SnapshotInfo, s *sealed) error {
	sum, err := parseHash(s.SHA256)
	if err != nil {
		return systemErr("read the archive's SHA-256", err)
	}
	a.Now = m.o.Now()
	err = m.o.Store.Archived(context.WithoutCancel(ctx), a, queue.ArchiveInfo{
		Path: p.path, Head: info.Head, Records: info.Records, SHA256: sum, Bytes: s.Bytes,
	})
	switch {
	case errors.Is(err, queue.ErrNoRoom):
		return refuse(NotStored, "the store's disk has no room left for as much as a record: make a little, then ask again", "record the archive: %w", err)
	case err != nil:
		return refuse(NotStored, "see the log", "record the archive: %w", err)
	}
	return nil
}
