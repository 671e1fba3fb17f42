package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/app"
	"breakwater/internal/client"
	"breakwater/internal/config"
	"breakwater/internal/doctor"
	"breakwater/queue"
	"breakwater/storage"
	"breakwater/storage/archive"
)

const (
	// statusPatience is how long the doctor waits for each answer of a breakwater that
	// may be what is ill.
	statusPatience = 10 * time.Second
	// startSlack is how long before it answered a process may have written STARTED.
	startSlack = time.Hour

	// The metrics that it reads.
	handlerSeconds = "breakwater_handler_seconds"
	maxDescriptors = "process_max_fds"
	diskFree       = "breakwater_disk_free_bytes"
	limitInForce   = "breakwater_limit"
	routeStuck     = "breakwater_route_stuck"
)

// factsOfCopy gathers what a copy says. One that cannot be looked at is an error; one
// that is damaged is a fact.
func (e *env) factsOfCopy(c *ucli.Context, path string) (*doctor.Facts, error) {
	const why = "a copy is read without a configuration"
	f := &doctor.Facts{Mode: doctor.Copy, Now: time.Now(), HandlersWhy: why}
	f.Config.Why, f.File.Path = why, path
	f.Host.Places = []doctor.Place{place("the copy", path, 0o600, 0)}
	compareManifest(&f.File)
	if err := e.openFile(c.Context, f); err != nil && (f.File.Absent || f.File.Held || f.File.Why != "") {
		return nil, err
	}
	return f, c.Context.Err()
}

// compareManifest compares a file with the manifest beside it, if there is one.
func compareManifest(file *doctor.File) {
	found, err := archive.Check(file.Path)
	file.Manifest = found
	var differs *archive.Mismatch
	switch {
	case errors.As(err, &differs):
		file.ManifestErr = err
	case errors.Is(err, fs.ErrNotExist): // the copy is not there, which opening says
	case err != nil:
		file.ManifestWhy = err.Error()
	}
}

// factsOfHost gathers what the configuration, this host, and a breakwater that runs or
// has ended say.
func (e *env) factsOfHost(c *ucli.Context) (*doctor.Facts, error) {
	f := &doctor.Facts{Mode: doctor.Stopped, Now: time.Now()}
	f.Config.Path, _ = config.Find(c.String("config"), e.Getenv)
	cfg, err := config.Load(f.Config.Path)
	switch {
	case errors.As(err, &f.Config.Problems):
		f.Config.Why = "the configuration cannot be used, see config.problems"
		f.StatusWhy, f.FutureWhy, f.HandlersWhy, f.Host.DescriptorsWhy = f.Config.Why, f.Config.Why, f.Config.Why, f.Config.Why
		return f, nil
	case err != nil:
		return nil, err
	}
	f.Config.Value, f.Config.Host, f.Config.Warnings = &cfg, cfg.CheckHost(), cfg.Warnings()
	f.File.Path = cfg.Store.Path
	f.Host.Places = places(&cfg)
	uid, folder := os.Geteuid(), f.Host.Places[0]
	f.Host.Foreign = uid != 0 && (folder.Err != nil || folder.Exists && folder.UID != uint32(uid))
	lookAtFile(f) // before anybody is asked: a witness that was read first has seen no more
	control := client.NewControl(cfg.Sockets.Control.Path)
	defer control.Close()
	ctx, cancel := context.WithTimeout(c.Context, statusPatience)
	defer cancel()
	st, err := control.Status(ctx)
	switch {
	case err == nil:
		f.Mode, f.Status = doctor.Running, &st
		e.askRunning(c.Context, f, control)
	case errors.Is(err, client.ErrNobody):
		f.HandlersWhy, f.Host.DescriptorsWhy = "nothing answers on the control socket", "the limit cannot be read"
		if errors.Is(err, os.ErrPermission) {
			f.HandlersWhy = "the control socket is for the user that breakwater runs as, and root"
		}
		ownDescriptors(f)
		_ = e.openFile(c.Context, f) // what is wrong with it is a fact like the others
	default:
		silent(f, err)
	}
	return f, c.Context.Err() // what was cut off is no fact
}

// factsOfSocket gathers what a breakwater says that is named by its control socket,
// whatever has become of its configuration. One that cannot be asked is an error:
// nothing else is known.
func (e *env) factsOfSocket(c *ucli.Context, path string) (*doctor.Facts, error) {
	const why = "with --socket no configuration is read"
	f := &doctor.Facts{Mode: doctor.Running, Now: time.Now()}
	f.Config.Why, f.File.Why = why, why
	control := client.NewControl(path)
	defer control.Close()
	ctx, cancel := context.WithTimeout(c.Context, statusPatience)
	defer cancel()
	st, err := control.Status(ctx)
	switch {
	case err == nil:
		f.Status = &st
		e.askRunning(c.Context, f, control)
	case errors.Is(err, client.ErrNobody), errors.Is(err, client.ErrOtherSocket):
		return nil, explain(err)
	default:
		silent(f, err)
	}
	return f, c.Context.Err()
}

// silent files that somebody listens on the control socket and gives no answer.
func silent(f *doctor.Facts, err error) {
	f.Mode, f.Silent = doctor.Running, explain(err)
	const why = "breakwater gives no answer, see work.answers"
	f.StatusWhy, f.FutureWhy, f.HandlersWhy, f.Host.DescriptorsWhy, f.File.Why = why, why, why, why, why
}

// lookAtFile looks at the store's file from outside.
func lookAtFile(f *doctor.Facts) {
	s, to := storage.Look(f.File.Path), &f.File
	to.FileSystem, to.Network, to.Volatile, to.FileSystemErr = s.FileSystem, s.Network, s.Volatile, s.FSErr
	to.FreeSpace, to.FreeSpaceErr = s.FreeSpace, s.SpaceErr
	to.Mount = mountOptions(filepath.Dir(f.File.Path))
	to.WitnessErr = s.WitnessErr
	if s.Witness != nil {
		to.WitnessBlock, to.WitnessHead, to.WitnessOrigin = s.Witness.Block, s.Witness.Hash.String(), s.Origin
	}
}

// askRunning asks a breakwater that runs for the rest. What it does not answer is not
// checked.
func (e *env) askRunning(ctx context.Context, f *doctor.Facts, control *client.Control) {
	ctx, cancel := context.WithTimeout(ctx, statusPatience)
	defer cancel()
	askTrail(ctx, f, control)
	clean, err := lastStop(ctx, control, f.Status.StartedAt.Time)
	if f.File.Opened, f.File.Clean = err == nil, clean; err != nil {
		f.File.Why = err.Error()
	}
	samples, err := control.Metrics(ctx, handlerSeconds, maxDescriptors, diskFree, limitInForce, routeStuck)
	if err != nil {
		f.HandlersWhy = err.Error()
		f.Host.DescriptorsWhy = f.HandlersWhy
		return
	}
	if f.Host.Descriptors = int64(samples[maxDescriptors]); f.Host.Descriptors == 0 {
		f.Host.DescriptorsWhy = "the metrics do not say the limit of the process"
	}
	if free, known := samples[diskFree]; known { // as its user sees it: root sees more
		f.File.FreeSpace, f.File.FreeSpaceErr = int64(free), nil
	}
	f.InForce = map[string]int64{}
	for series, value := range samples {
		if limit, ok := strings.CutPrefix(series, limitInForce+`{limit="`); ok {
			f.InForce[strings.TrimSuffix(limit, `"}`)] = int64(value)
		}
	}
	f.Handlers = []doctor.Handled{}
	for _, route := range queue.Routes {
		if samples[routeStuck+`{route="`+string(route)+`"}`] > 0 {
			f.Stuck = append(f.Stuck, string(route))
		}
		p99, of := samples.Quantile(handlerSeconds, "route", string(route), .99)
		if of > 0 {
			f.Handlers = append(f.Handlers, doctor.Handled{Route: string(route), Of: of, P99: time.Duration(p99 * float64(time.Second))})
		}
	}
}

// askTrail asks for the records that say something.
func askTrail(ctx context.Context, f *doctor.Facts, control *client.Control) {
	f.Future, f.FutureWhy = futureRecord(ctx, control, f.Now)
	for line, err := range control.Records(ctx, queue.TrailQuery{}) {
		r, parsed := queue.ParseRecord(line)
		if err = cmp.Or(err, parsed); err != nil {
			f.FutureWhy = err.Error()
		} else {
			f.First = &doctor.Record{N: r.N, TS: r.TS}
		}
		break
	}
	if f.Status != nil && f.Status.Archived == nil {
		f.Restored = lastRestore(ctx, control)
	}
}

// restoredPatience is how long a restore is looked for: all of a long trail is read for it.
const restoredPatience = 5 * time.Second

// lastRestore is the newest RESTORED of the trail; nil: there is none, or it cannot be
// known in time.
func lastRestore(ctx context.Context, control *client.Control) (last *doctor.Record) {
	ctx, cancel := context.WithTimeout(ctx, restoredPatience)
	defer cancel()
	for line, err := range control.Records(ctx, queue.TrailQuery{Event: queue.EventRestored}) {
		if err != nil {
			return nil
		}
		r, err := queue.ParseRecord(line)
		if err != nil {
			return nil
		}
		last = &doctor.Record{N: r.N, TS: r.TS}
	}
	return last
}

// futureRecord finds the first record that is later than now.
func futureRecord(ctx context.Context, control *client.Control, now time.Time) (*doctor.Record, string) {
	for line, err := range control.Records(ctx, queue.TrailQuery{Since: now.Add(doctor.ClockSlack)}) {
		if err != nil {
			return nil, err.Error()
		}
		r, err := queue.ParseRecord(line)
		if err != nil {
			return nil, fmt.Sprintf("a record that cannot be read: %v", err)
		}
		// What was written while this was asked is none: it is of that moment.
		if time.Now().Add(doctor.ClockSlack).After(r.TS) {
			continue
		}
		return &doctor.Record{N: r.N, TS: r.TS}, ""
	}
	return nil, ""
}

// lastStop says whether the process before the one that started at this time has closed
// the file, as its STARTED has it.
func lastStop(ctx context.Context, control *client.Control, started time.Time) (clean bool, err error) {
	found := false
	q := queue.TrailQuery{Event: queue.EventStarted, Since: started.Add(-startSlack), Until: started.Add(doctor.ClockSlack)}
	for line, err := range control.Records(ctx, q) {
		if err != nil {
			return false, err
		}
		r, err := queue.ParseRecord(line)
		if err != nil {
			return false, err
		}
		var detail struct{ Clean bool }
		found = json.Unmarshal(r.Detail, &detail) == nil
		clean = detail.Clean
	}
	if !found {
		return false, errors.New("the trail has no record of the start")
	}
	q.Event = queue.EventRestored
	for _, err := range control.Records(ctx, q) {
		if err != nil {
			return false, err
		}
		clean = true // an archive, or an older file: nobody was killed
	}
	return clean, nil
}

// openFile opens the file of a breakwater that does not run, for reading, and asks it.
// The error is why it cannot be opened; f has it too.
func (e *env) openFile(ctx context.Context, f *doctor.Facts) error {
	file := &f.File
	progress, end := e.stepBar()
	copied, err := app.OpenCopy(ctx, file.Path, e.Version, progress)
	end()
	if err != nil {
		if gone := storage.Look(file.Path).Lost; f.Mode == doctor.Stopped && gone != nil {
			err = gone // in the words of a start
		}
		refuse(file, err)
		f.StatusWhy = "the file is not open, see file.open"
		f.FutureWhy = f.StatusWhy
		return err
	}
	defer copied.Close() // it was only read
	control := client.NewControlOver(copied.Dial)
	defer control.Close()
	if found, err := copied.Found(); err != nil {
		file.Why = err.Error()
	} else {
		file.Opened, file.Clean, file.Format, file.Fallback = true, found.Clean, found.Format, found.Fallback
		file.Older = found.Format < storage.FormatVersion
		file.Origin, file.Marked = found.Refused, errors.Is(found.Refused, storage.ErrArchive)
		if file.Marked && f.Mode == doctor.Stopped {
			compareManifest(file) // as a start with --restore will
		}
	}
	if st, err := control.Status(ctx); err != nil {
		f.StatusWhy = err.Error()
	} else {
		f.Status = &st
	}
	askTrail(ctx, f, control)
	return nil
}

// refuse files an error of opening under what it says: of the file, or only of us.
func refuse(file *doctor.File, err error) {
	file.Refused = err
	var c coded
	var a adviser
	if errors.As(err, &a) {
		file.RefusedHint = a.Advice()
	}
	if !errors.As(err, &c) {
		file.Why = err.Error()
		return
	}
	switch file.RefusedCode = c.Code(); file.RefusedCode {
	case "STORE_ABSENT":
		file.Absent = true
	case "STORE_LOCKED":
		file.Held, file.Why = true, "another process has the file"
	case "STORE_PERMISSION":
		file.Refused, file.Why = nil, "this user may not read the file: ask as root, or as the user that breakwater runs as"
	}
}

// ownDescriptors asks for the limit of this process, raised as the runtime has done:
// a breakwater that is started from here has the same.
func ownDescriptors(f *doctor.Facts) {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit) == nil {
		f.Host.Descriptors, f.Host.Ours = int64(min(limit.Cur, 1<<62)), true
	}
}

// places are the files and folders of a configuration, the store's folder first.
func places(c *config.Config) []doctor.Place {
	const key, folder = 0o600, 0o700
	dir, role := filepath.Dir(c.Store.Path), "data_dir"
	if dir != c.DataDir {
		role = "the folder of store.path"
	}
	list := []doctor.Place{place(role, dir, folder, folder)}
	if dir != c.DataDir {
		list = append(list, place("data_dir", c.DataDir, folder, folder))
	}
	list = append(list, place("run_dir", c.RunDir, 0o750, folder))
	for i := range list {
		list[i].Folder, list[i].Ours = true, true
	}
	for _, one := range []struct{ role, suffix string }{{"the store", ""}, {"its witness", ".head"}, {"its lock file", ".lock"}} {
		p := place(one.role, c.Store.Path+one.suffix, key, key)
		p.Ours = true
		list = append(list, p)
	}
	for _, s := range []struct {
		role string
		of   config.Socket
	}{{"socket.enqueue", c.Sockets.Enqueue}, {"socket.consume", c.Sockets.Consume}, {"socket.control", c.Sockets.Control}} {
		p := place(s.role, s.of.Path, s.of.Mode, s.of.Mode)
		p.Socket = true
		list = append(list, p)
	}
	return list
}

// mountOptions are the options of the mount that a folder lies on, which is that with
// the longest path above it; none: not known.
func mountOptions(dir string) (options []string) {
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	longest := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 {
			continue
		}
		at := unescape.Replace(fields[1])
		if (dir == at || strings.HasPrefix(dir, strings.TrimSuffix(at, "/")+"/")) && len(at) >= longest {
			longest, options = len(at), strings.Split(fields[3], ",") // of two, the later lies on top
		}
	}
	return options
}

// place looks at one.
func place(role, path string, widest, least fs.FileMode) doctor.Place {
	p := doctor.Place{Role: role, Path: path, Widest: widest, Least: least}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return p
	case err != nil:
		p.Err = err
		return p
	}
	p.Exists, p.Mode = true, info.Mode().Perm()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		p.UID = st.Uid
	}
	return p
}
