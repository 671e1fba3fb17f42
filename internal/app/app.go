package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"breakwater/internal/config"
	"breakwater/internal/kin"
	"breakwater/internal/metrics"
	"breakwater/internal/socket"
	"breakwater/internal/systemd"
	"breakwater/queue"
	"breakwater/queue/dispatch"
	"breakwater/storage"
	"breakwater/storage/archive"
)

// Options says what to run.
type Options struct {
	Config  config.Config
	Load    func() (config.Config, error) // reads the same file again; nil: it cannot be read again
	Version string
	Restore bool
	Log     hclog.Logger
	Stdout  io.Writer        // for audit.stream = "stdout"
	Reload  <-chan os.Signal // each is a request to read the configuration again; nil: none come
	Guard   []string         // the command line of a guard; nil: nobody ends what handlers leave behind, see commands.go
}

// ErrUncleanDrain: the drain's time was up and handlers were cut off. What they
// had was put back; nothing is lost.
var ErrUncleanDrain = errors.New("the drain was not clean: running handlers were cut off and their exceptions put back")

const (
	// startPatience is how much more time the service manager is asked for at each
	// sign of progress while the store opens.
	startPatience = time.Minute
	// closeTime bounds the last records of a stop.
	closeTime = 30 * time.Second
)

// appliance is a running breakwater.
type appliance struct {
	o           Options
	inForce     atomic.Pointer[config.Config] // o.Config, until a reload
	log         hclog.Logger
	notify      *systemd.Notifier
	store       queue.Store
	stream      *auditStream
	checkpoints *checkpoints
	runner      *dispatch.Runner
	metrics     *metrics.Metrics
	doors       doors
	draining    context.CancelCauseFunc // begins the drain, as SIGTERM does; an [*ordered] says who asked
	stop        context.Context         // ends when the drain begins
	archives    *archive.Maker          // nil: the store is of a kind that cannot be copied
	commands    *kin.Leader             // of what handlers start; nil: nobody

	served    chan struct{} // closed when everything that a reload changes is there
	reloading sync.Mutex    // one reload at a time
	handlers  map[queue.Route]any
}

// config is the configuration in force.
func (a *appliance) config() config.Config { return *a.inForce.Load() }

// Run serves until stop ends, and drains; hurry ends the drain at once. It returns
// nil after a clean drain, ErrUncleanDrain after one that was not, and the error
// that ended it otherwise.
func Run(stop, hurry context.Context, o Options) (err error) {
	stop, drain := context.WithCancelCause(stop)
	defer drain(nil)
	a := &appliance{o: o, log: o.Log, draining: drain, stop: stop, served: make(chan struct{})}
	a.inForce.Store(&o.Config)
	reloads, endReloads := context.WithCancel(context.WithoutCancel(stop))
	var heeding sync.WaitGroup
	heeding.Go(func() { a.heedReloads(reloads) })
	defer heeding.Wait()
	defer endReloads()
	if a.notify, err = systemd.New(); err != nil {
		a.log.Warn("service manager", "error", err.Error())
		a.notify = &systemd.Notifier{}
	}
	inherited, err := systemd.Listeners()
	if err != nil {
		return fmt.Errorf("socket activation: %w", err)
	}
	if err := checkGroups(o.Config.Sockets); err != nil {
		return err
	}
	if a.handlers, err = a.handlersOf(o.Config); err != nil {
		return &unusableError{err.Error(), "nothing was opened: mend what the handler names; \"breakwater config check\" says where"}
	}
	if err := a.openStore(stop); err != nil {
		if stop.Err() != nil && errors.Is(err, context.Canceled) {
			return nil // told to stop before there was anything to drain
		}
		return err
	}
	defer func() { err = errors.Join(err, a.closeStore()) }()
	defer a.endCommands()
	if err := a.build(inherited); err != nil {
		return err
	}
	return a.serve(stop, hurry)
}

// damagedHint is what to do about damage that is met while the store runs.
const damagedHint = `look at the disk; "breakwater audit verify" says what else is damaged; a copy from before has it`

// openStore opens the store and takes it into service.
func (a *appliance) openStore(stop context.Context) error {
	c := a.o.Config
	if err := makeDataDir(c.DataDir); err != nil {
		return err
	}
	err := checkOutputs(c)
	if err != nil {
		return err
	}
	if a.checkpoints, err = a.openCheckpoints(); err != nil {
		return err
	}
	a.stream, err = openStream(c.Audit.Stream, a.o.Stdout, func(err error) {
		a.log.Error("audit stream", "error", err.Error())
	})
	if err != nil {
		return err
	}
	var report storage.Report
	a.store, report, err = storage.Open(storage.Options{
		Backend: c.Store.Backend, Path: c.Store.Path, Restore: a.o.Restore, Vouch: vouch(c.Store.Path, a.log),
		Committed: a.stream.committed, Context: stop, Progress: a.progress(),
		Damaged: func(what string) {
			a.log.Error("the store is damaged, and goes on without it", "error", what, "hint", damagedHint)
		},
	})
	if err != nil {
		return errors.Join(err, a.stream.close())
	}
	for _, w := range report.Warnings {
		a.log.Warn("store", "warning", w)
	}
	if err := a.succeed(); err != nil {
		return errors.Join(err, a.closeStore())
	}
	res, err := a.store.Start(context.Background(), queue.StartRequest{
		Now: time.Now(), Policy: policyOf(c), Version: a.o.Version,
		Config: c.Effective(), Diff: configDiff, Restored: report.Restored, Why: report.Why, By: processUser(),
	})
	if err != nil {
		a.endCommands()
		return errors.Join(fmt.Errorf("take the store into service: %w", err), a.closeStore())
	}
	if report.Restored {
		retireManifest(c.Store.Path, a.log)
	}
	if report.Created {
		a.log.Warn("made a new, empty store", "path", c.Store.Path,
			"expected_one", "stop breakwater; see whether its disk is mounted, and data_dir and store.path (breakwater config show)")
	}
	a.log.Info("store opened", "path", c.Store.Path, "created", report.Created, "clean", res.Clean,
		"gave_back", res.GaveBack, "kept", res.Kept, "dead", res.DeadAgain)
	return nil
}

// checkOutputs refuses a configuration that has records or checkpoints written to what
// is no file.
func checkOutputs(c config.Config) error {
	for _, p := range c.CheckOutputs() {
		if !p.Denied { // what cannot be looked at may be there later
			hint := p.Hint
			p.Hint = ""
			return &unusableError{p.String(), hint}
		}
	}
	return nil
}

// progress tells the log and the service manager how far opening has come.
func (a *appliance) progress() func(step string, done, total int64) {
	var told time.Time
	return func(step string, done, total int64) {
		if now := time.Now(); now.Sub(told) > time.Second {
			told = now
			a.log.Info("opening the store", "step", step, "done", done, "total", total)
			_ = a.notify.ExtendTimeout(startPatience, fmt.Sprintf("%s the store: %d", step, done)) // nobody to tell
		}
	}
}

// configDiff is what a CONFIG_CHANGED record says.
func configDiff(before, after []byte) (b, a json.RawMessage) {
	doc, err := config.Diff(before, after)
	if err != nil || doc == nil {
		return before, after
	}
	var changed struct{ Before, After json.RawMessage }
	if json.Unmarshal(doc, &changed) != nil {
		return before, after
	}
	return changed.Before, changed.After
}

// build makes the parts and binds the sockets.
func (a *appliance) build(inherited inherited) error {
	a.metrics = metrics.New(metrics.Options{Version: a.o.Version, Status: a.store.Status, Sockets: a.doors.counts(),
		StreamSkipped: a.stream.skippedRecords, Checkpoints: a.checkpoints.counts,
		// Nobody scrapes before the runner is there: it is made before the doors open.
		Available: func(route queue.Route) (up, inProcess bool) { return a.runner.Available(route) },
		Health:    a.health,
		Consumers: func() int { return a.runner.Consumers() }})
	q := a.o.Config.Queue
	var err error
	a.runner, err = dispatch.New(dispatch.Options{
		Store: a.store, Log: a.log.Named("dispatch"), Settings: settingsOf(a.o.Config),
		Workers: q.Concurrency, Room: q.MaxSize, Handlers: a.handlers,
		Observer: dispatch.Observer{
			Admitted: a.metrics.Admitted, Claimed: a.metrics.Claimed, Handled: a.metrics.Handled,
			Answered: a.metrics.Answered, Settled: a.metrics.Settled, Raised: a.metrics.Raised,
			Expired: a.metrics.Expired, Trimmed: a.metrics.Trimmed,
		},
	})
	if err != nil {
		return err
	}
	return a.doors.open(a, inherited)
}

// serve runs everything until the drain has ended.
func (a *appliance) serve(stop, hurry context.Context) error {
	work := make(chan struct{})
	var drained dispatch.Drained
	var failed error
	go func() {
		defer close(work)
		drained, failed = a.runner.Run(stop, hurry)
		a.draining(failed) // a store that failed ends everything
	}()
	doors := a.doors.serve(stop, a)
	a.checkpoints.begin(a.store.Status)
	defer a.checkpoints.end()
	a.ready(stop)
	close(a.served)

	<-stop.Done()
	a.log.Info("draining", "timeout_ms", a.config().Queue.DrainTimeout.Milliseconds())
	_ = a.notify.Stopping("draining") // nobody to tell
	a.runner.Drain()
	doorErr := a.doors.drain(doors, hurry)
	<-work
	doorErr = errors.Join(doorErr, a.doors.drainConsumers(doors, hurry))
	doors.end()
	a.doors.close()
	if failed != nil {
		return failed
	}
	if err := a.noteDrained(drained); err != nil {
		return err
	}
	a.checkpoints.farewell()
	if !drained.Clean() {
		return errors.Join(ErrUncleanDrain, doorErr)
	}
	return doorErr
}

// ready says that everything accepts, and starts the watchdog.
func (a *appliance) ready(stop context.Context) {
	if err := a.notify.Ready("serving"); err != nil {
		a.log.Warn("service manager", "error", err.Error())
	}
	a.log.Info("ready", "version", a.o.Version)
	go func() {
		err := a.notify.Watchdog(stop, a.notify.WatchdogInterval(), alive(a.store.Probe))
		if err != nil && stop.Err() == nil {
			a.log.Error("watchdog", "error", err.Error())
		}
	}()
}

// alive is a probe that a store passes which answers, if only that there is no room:
// a restart makes none, and a process that is restarted answers nobody.
func alive(probe func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		err := probe(ctx)
		if errors.Is(err, queue.ErrNoRoom) {
			return nil
		}
		return err
	}
}

// noteDrained writes the last record of the process. Who sent a signal is not known.
func (a *appliance) noteDrained(d dispatch.Drained) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
	defer cancel()
	now := time.Now()
	st, err := a.store.Status(ctx, now)
	if err != nil {
		return fmt.Errorf("read the status for the last record: %w", err)
	}
	detail, err := json.Marshal(map[string]any{
		"clean": d.Clean(), "released": d.Released, "cut_off": d.CutOff,
		"ready": st.Ready, "scheduled": st.Scheduled, "leased": st.Leased, "held": st.Held,
		"done": st.Done, "dead": st.Dead, "discarded": st.Discarded,
	})
	if err != nil {
		return fmt.Errorf("encode the last record: %w", err)
	}
	record := queue.Record{Event: queue.EventDrained, Detail: detail}
	if o := (*ordered)(nil); errors.As(context.Cause(a.stop), &o) {
		record.By, record.Reason, record.Peer = o.by.By, o.by.Reason, o.by.Peer
	}
	err = a.store.Note(ctx, now, []queue.Record{record})
	if err != nil {
		return fmt.Errorf("write the last record: %w", err)
	}
	a.log.Info("drained", "clean", d.Clean(), "released", d.Released, "cut_off", d.CutOff)
	return nil
}

// closeStore ends the store, then the stream that it feeds.
func (a *appliance) closeStore() error {
	err := a.store.Close()
	if n := a.stream.skippedRecords(); n > 0 {
		a.log.Warn("audit stream left out records; they are in the store", "records", n)
	}
	return errors.Join(err, a.stream.close())
}

// intake is the core's door as the enqueue socket needs it.
type intake struct {
	runner *dispatch.Runner
	store  queue.Store
}

var _ socket.Intake = intake{}

// Stream stores lines of a producer; see [dispatch.Runner.Stream].
func (i intake) Stream(ctx context.Context, peer queue.Peer, lines []queue.Submission, answered func([]queue.Receipt, queue.Head)) error {
	return i.runner.Stream(ctx, peer, lines, answered)
}

// Head returns the trail's head, for the end line.
func (i intake) Head(ctx context.Context) (queue.Head, error) { return i.store.Head(ctx) }

// desk is where consumers attach, as the consume socket needs it.
type desk struct{ *appliance }

var _ socket.Desk = desk{}

// Attach takes a consumer in; see [dispatch.Runner.Attach].
func (d desk) Attach(ctx context.Context, a queue.Attachment) (socket.Session, error) {
	s, err := d.runner.Attach(ctx, a)
	if err != nil {
		return nil, err // not s: an interface that holds no session is not nil
	}
	if routes := d.config().Routes; !slices.ContainsFunc(queue.Routes[:], func(r queue.Route) bool {
		return a.Routes.Has(r) && routes.Of(r).Handler == config.KindConsumers
	}) {
		d.log.Warn("a consumer is attached that gets nothing: each route that it asks for has a handler", "consumer", a.Owner.Name)
	}
	return s, nil
}
