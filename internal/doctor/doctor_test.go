package doctor

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/internal/config"
	"breakwater/internal/control/api"
)

var now = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// healthy is a host on which nothing is worth a word.
func healthy(mode Mode) *Facts {
	c := config.Default()
	c.Checkpoint.Key = "/etc/breakwater/checkpoint.key"
	f := &Facts{
		Mode: mode, Now: now, Config: Config{Value: &c},
		Host: Host{Descriptors: 8192, Places: []Place{
			{Role: "data_dir", Path: "/v", Widest: 0o700, Least: 0o700, Folder: true, Ours: true, Exists: true, Mode: 0o700, UID: 9},
			{Role: "the store", Path: "/v/breakwater.db", Widest: 0o600, Least: 0o600, Ours: true, Exists: true, Mode: 0o600, UID: 9},
			{Role: "socket.enqueue", Path: "/r/enqueue.sock", Widest: 0o660, Least: 0o660, Socket: true, Exists: true, Mode: 0o660},
		}},
		File: File{Path: "/v/breakwater.db", Manifest: true, Opened: true, Clean: true, Format: 1, FileSystem: "ext4", Mount: []string{"rw", "relatime"}, FreeSpace: 100 << 30,
			WitnessBlock: 7, WitnessHead: "aa", WitnessOrigin: "breakwater/1"},
		Status: &api.Status{
			Audit: api.Audit{Block: 8, Head: "bb", Origin: "breakwater/1", Records: 9}, LastSeq: 1_000_000,
			Store: api.Store{FileBytes: 1 << 30, FreeBytes: 1 << 20}, Archived: &api.Archived{At: api.Time{Time: now.Add(-time.Hour)}},
			Checkpoint: &api.Checkpoint{N: 9}, Recent: &api.Recent{Seconds: 60, Stored: 0, Done: 6},
			Intake: api.Intake{Intake: api.IntakeOpen},
			Routes: []api.Route{{Route: "AUTO_RESOLVE", InProcess: true}, {Route: "ROUTE_REVIEW"}},
		},
		First:    &Record{N: 1, TS: now.Add(-48 * time.Hour)},
		InForce:  map[string]int64{"max_backlog": 10_000_000, "max_ledger_keys": 50_000_000, "min_free_bytes": 64 << 20},
		Handlers: []Handled{{Route: "AUTO_RESOLVE", Of: 1000, P99: time.Millisecond}},
	}
	if mode == Copy {
		f.Config = Config{Why: "a copy"}
	}
	return f
}

// cases is what each check finds on a host in trouble.
var cases = []struct {
	check    string
	trouble  string
	mode     Mode
	spoil    func(*Facts)
	severity Severity
	seen     string // a part of what is seen
}{
	{"config.problems", "a problem", Stopped, func(f *Facts) {
		f.Config = Config{Why: "unusable", Problems: &config.Problems{List: []config.Problem{{File: "c.hcl", Line: 3, Message: "queue.prefetch is 0"}}}}
	}, Wrong, "queue.prefetch is 0"},
	{"config.problems", "more than are listed", Stopped, func(f *Facts) {
		f.Config = Config{Why: "unusable", Problems: &config.Problems{List: []config.Problem{{Message: "x"}}, Omitted: 4}}
	}, Wrong, "4 more"},
	{"config.host", "a program is missing", Running, func(f *Facts) { f.Config.Host = []config.Problem{{Message: "no program"}} }, Wrong, "no program"},
	{"config.host", "breakwater's own user may not look", Running, func(f *Facts) {
		f.Config.Host = []config.Problem{{Message: "permission denied", Denied: true}}
	}, Wrong, "permission denied"},
	{"config.warnings", "a warning", Running, func(f *Facts) { f.Config.Warnings = []config.Problem{{Message: "odd", Hint: "even"}} }, Smell, "odd"},
	{"config.in_force", "a limit was changed", Running, func(f *Facts) { f.InForce["max_backlog"] = 7 }, Smell, "the file says 10000000, and 7 is in force"},
	{"config.in_force", "of the ledger", Running, func(f *Facts) { f.InForce["max_ledger_keys"] = 0 }, Smell, "and 0 is in force"},
	{"config.lease", "handlers take longer", Running, func(f *Facts) {
		f.Handlers[0].P99, f.Config.Value.Queue.DrainTimeout = 31*time.Second, time.Minute
	}, Smell, "about 31s"},
	{"config.timeout", "near its limit", Running, func(f *Facts) {
		f.Config.Value.Handlers = []config.Handler{{Name: "post", Kind: config.KindExec, Timeout: 10 * time.Second}}
		f.Config.Value.Routes.AutoResolve.Handler = "post"
		f.Handlers[0].P99 = 8 * time.Second
	}, Smell, "cut off after 10s"},
	{"config.timeout", "longer than a drain", Running, func(f *Facts) {
		f.Config.Value.Queue.DrainTimeout, f.Handlers[0].P99 = 5*time.Second, 6*time.Second
	}, Smell, "a drain waits for 5s"},
	{"config.drain", "longer than systemd waits", Stopped, func(f *Facts) { f.Config.Value.Queue.DrainTimeout = 80 * time.Second }, Smell, "1m20s"},

	{"host.clock", "behind the trail", Running, func(f *Facts) { f.Future = &Record{N: 4, TS: now.Add(time.Hour)} }, Wrong, "record 4"},
	{"host.clock", "behind the trail of a copy", Copy, func(f *Facts) { f.Future = &Record{N: 4, TS: now.Add(time.Hour)} }, Smell, "1h0m0s later"},
	{"host.descriptors", "too few", Running, func(f *Facts) { f.Host.Descriptors = 256 }, Wrong, "384 may be needed"},
	{"host.descriptors", "handlers need some too", Running, func(f *Facts) {
		f.Config.Value.Handlers = []config.Handler{{Name: "p", Kind: config.KindExec}}
		f.Config.Value.Routes.RouteReview.Handler = "p"
		f.Config.Value.Metrics.Listen = "127.0.0.1:1"
		f.Host.Descriptors = 384 + 8*8 + 16 - 1
	}, Wrong, "464 may be needed"},
	{"host.descriptors", "too few in a shell", Stopped, func(f *Facts) { f.Host.Descriptors, f.Host.Ours = 256, true }, Smell, "this shell"},
	{"host.owners", "the store is root's", Stopped, func(f *Facts) { f.Host.Places[1].UID = 0 }, Wrong, "user 0"},
	{"host.sockets", "one was removed", Running, func(f *Facts) { f.Host.Places[2].Exists = false }, Wrong, "socket.enqueue is not there"},
	{"host.modes", "a folder that all may write to", Stopped, func(f *Facts) { f.Host.Places[0].Mode = 0o777 }, Wrong, "0777"},
	{"host.modes", "a folder that others may read", Stopped, func(f *Facts) { f.Host.Places[0].Mode = 0o755 }, Smell, "0755"},
	{"host.modes", "a store that others may read", Stopped, func(f *Facts) { f.Host.Places[1].Mode = 0o604 }, Wrong, "0604"},
	{"host.modes", "a copy that others may read", Copy, func(f *Facts) { f.Host.Places[1].Mode = 0o644 }, Smell, "0644"},
	{"host.modes", "a store that the group may read", Stopped, func(f *Facts) { f.Host.Places[1].Mode = 0o640 }, Smell, "0640"},
	{"host.modes", "a socket without its group", Running, func(f *Facts) { f.Host.Places[2].Mode = 0o600 }, Smell, "less than 0660"},

	{"disk.filesystem", "nfs", Running, func(f *Facts) { f.File.FileSystem, f.File.Network = "nfs", true }, Wrong, "nfs"},
	{"disk.filesystem", "fuse", Running, func(f *Facts) { f.File.FileSystem, f.File.Network = "fuse", true }, Smell, "FUSE"},
	{"disk.filesystem", "tmpfs", Stopped, func(f *Facts) { f.File.FileSystem, f.File.Volatile = "tmpfs", true }, Smell, "in memory"},
	{"disk.filesystem", "overlay", Stopped, func(f *Facts) { f.File.FileSystem = "overlayfs" }, Smell, "container"},
	{"disk.filesystem", "squashfs", Stopped, func(f *Facts) { f.File.FileSystem = "squashfs" }, Wrong, "cannot be written"},
	{"disk.mount", "tells the disk at once", Stopped, func(f *Facts) { f.File.Mount = []string{"rw", "discard"} }, Note, "old archive"},
	{"disk.mount", "without barriers", Running, func(f *Facts) { f.File.Mount = []string{"rw", "nobarrier"} }, Wrong, "nobarrier"},
	{"disk.free", "no room", Running, func(f *Facts) { f.File.FreeSpace = 62 << 20 }, Wrong, "less than queue.min_free_bytes"},
	{"disk.free", "little room", Running, func(f *Facts) { f.File.FreeSpace = 65 << 20 }, Smell, "66 MiB"},
	{"disk.free", "nearly as large as it may be", Running, func(f *Facts) { f.Config.Value.Queue.MaxStoreBytes = 1100 << 20 }, Smell, "max_store_bytes"},
	{"disk.growth", "the disk fills", Running, func(f *Facts) {
		f.Status.Recent.Stored, f.Status.Recent.Done = 600, 600
		f.File.FreeSpace = 36_000*1_073 + 63<<20 // an hour of 10 lines a second
	}, Smell, "in 1h0m0s"},
	{"disk.growth", "the backlog fills", Running, func(f *Facts) {
		f.Status.Recent.Stored, f.Status.Ready, f.Config.Value.Queue.MaxBacklog = 606, 4000, 40000
		f.InForce = map[string]int64{}
	}, Smell, "in 1h0m0s"},

	{"file.open", "no store", Stopped, func(f *Facts) { f.File.Absent, f.File.Opened, f.Status = true, false, nil }, Note, "no store yet"},
	{"file.open", "damaged", Stopped, func(f *Facts) {
		f.File.Opened, f.File.Refused, f.File.RefusedCode = false, errors.New("spoilt"), "STORE_DAMAGED"
		f.File.RefusedHint = "put the last good copy back"
	}, Wrong, "spoilt (STORE_DAMAGED)"},
	{"file.open", "held by one that does not answer", Stopped, func(f *Facts) {
		f.File.Opened, f.File.Refused, f.File.Held, f.File.Why = false, errors.New("held by process 7"), true, "held"
	}, Smell, "held by process 7"},
	{"file.new", "an hour ago", Running, func(f *Facts) { f.First.TS = now.Add(-time.Hour) }, Note, "new and empty on 2026-11-30T11:00:00"},
	{"file.new", "stopped", Stopped, func(f *Facts) { f.First.TS = now.Add(-time.Hour) }, Note, "new and empty"},
	{"file.format", "an older one", Stopped, func(f *Facts) { f.File.Older = true }, Note, "format 1"},
	{"file.commit", "a copy with a spoilt meta page", Copy, func(f *Facts) { f.File.Fallback = "meta page 1 cannot be used" }, Wrong, "meta page 1"},
	{"file.commit", "after a loss of power", Stopped, func(f *Facts) { f.File.Fallback = "meta page 1 cannot be used" }, Smell, "meta page 1"},
	{"file.stop", "killed", Stopped, func(f *Facts) { f.File.Clean = false }, Smell, "did not close"},
	{"file.stop", "the one before was killed", Running, func(f *Facts) { f.File.Clean = false }, Smell, "before this one"},
	{"file.witness", "an older file", Stopped, func(f *Facts) { f.File.Origin = errors.New("block 9") }, Wrong, "block 9"},
	{"file.witness", "a copy in service's place", Stopped, func(f *Facts) { f.File.Origin, f.File.Marked = errors.New("a copy"), true }, Wrong, "a copy"},
	{"file.witness", "a copy", Copy, func(f *Facts) { f.File.Origin, f.File.Marked = errors.New("a copy"), true }, Note, "marked"},
	{"file.witness", "has seen more", Running, func(f *Facts) { f.File.WitnessBlock = 9 }, Wrong, "9:aa"},
	{"file.witness", "has seen something else", Running, func(f *Facts) { f.File.WitnessBlock = 8 }, Wrong, "8:aa"},
	{"file.witness", "of another store", Running, func(f *Facts) { f.File.WitnessOrigin = "breakwater/2" }, Wrong, "another store"},
	{"file.witness", "unreadable", Running, func(f *Facts) { f.File.WitnessErr = errors.New("torn") }, Smell, "torn"},
	{"file.witness", "none", Running, func(f *Facts) { f.File.WitnessOrigin = "" }, Smell, "no witness"},
	{"file.manifest", "another file", Copy, func(f *Facts) { f.File.ManifestErr = errors.New("its SHA-256 is another") }, Wrong, "SHA-256"},
	{"file.manifest", "before it is restored", Stopped, func(f *Facts) { f.File.ManifestErr = errors.New("cut") }, Wrong, "cut"},
	{"file.manifest", "none", Copy, func(f *Facts) { f.File.Origin, f.File.Marked, f.File.Manifest = errors.New("a copy"), true, false }, Note, "not beside it"},
	{"file.records", "damaged", Copy, func(f *Facts) { f.Status.Damaged = 2 }, Wrong, "2 open exceptions cannot be read"},
	{"file.records", "damaged segment", Running, func(f *Facts) { f.Status.DamagedSegments = 1 }, Wrong, "1 segment of the ledger cannot be read in full"},
	{"file.free_pages", "mostly free", Stopped, func(f *Facts) { f.Status.Store.FreeBytes = 600 << 20 }, Smell, "600 MiB"},

	{"trail.archive", "never", Running, func(f *Facts) { f.Status.Archived = nil }, Smell, "no archive"},
	{"trail.archive", "none since a restore", Running, func(f *Facts) {
		f.Status.Archived, f.Restored = nil, &Record{N: 4, TS: now.Add(-time.Hour)}
	}, Smell, "no archive was made since the restore of 2026-11-30T11:00:00"},
	{"trail.archive", "a week ago", Running, func(f *Facts) { f.Status.Archived.At.Time = now.Add(-8 * 24 * time.Hour) }, Note, "8 days"},
	{"trail.archive", "holds up retention", Stopped, func(f *Facts) {
		f.Status.Archived.At.Time, f.Config.Value.Audit.Retention = now.Add(-50*time.Hour), 49*time.Hour
	}, Smell, "2 days old: records older"},
	{"trail.checkpoints", "none", Running, func(f *Facts) { f.Status.Checkpoint = nil }, Note, "no checkpoints"},
	{"trail.checkpoints", "none configured", Stopped, func(f *Facts) { f.Config.Value.Checkpoint.Key = "" }, Note, "no checkpoints"},
	{"trail.checkpoints", "failing", Running, func(f *Facts) {
		f.Status.Checkpoint.FailingSince, f.Status.Checkpoint.Error = api.Time{Time: now}, "no room"
	}, Wrong, "no room"},

	{"work.answers", "silent", Running, func(f *Facts) { f.Status, f.StatusWhy, f.Silent = nil, "silent", errors.New("timeout") }, Wrong, "timeout"},
	{"work.pause", "paused", Stopped, func(f *Facts) { f.Status.Paused = &api.Pause{By: "restore", Reason: "r"} }, Smell, "paused by restore: r"},
	{"work.pause", "draining", Running, func(f *Facts) { f.Status.Draining = true }, Note, "draining"},
	{"work.intake", "producers wait", Running, func(f *Facts) {
		f.Status.Intake = api.Intake{Intake: api.IntakeWaiting, Saturated: "max_backlog", Waiting: 3}
	}, Smell, "3 producers"},
	{"work.intake", "full", Running, func(f *Facts) { f.Status.Intake = api.Intake{Intake: api.IntakeFull, Saturated: "max_backlog"} }, Smell, "max_backlog"},
	{"work.handlers", "an outage", Running, func(f *Facts) { f.Status.Unavailable = []api.Outage{{Route: "AUTO_RESOLVE", Reason: "down"}} }, Smell, ": down"},
	{"work.handlers", "one hangs", Running, func(f *Facts) { f.Stuck = []string{"AUTO_RESOLVE"} }, Wrong, "settled nothing"},
	{"work.handlers", "no consumer", Running, func(f *Facts) { f.Status.Oldest = []api.Oldest{{Route: "ROUTE_REVIEW"}} }, Smell, "none is attached"},
	{"work.lag", "late", Running, func(f *Facts) {
		f.Status.Routes[1].Consumers, f.Status.Oldest = 1, []api.Oldest{{Route: "ROUTE_REVIEW", Seq: 5, AgeMS: 300_001}}
	}, Smell, "CONSUMER_LAG: seq 5"},
	{"work.blocked_keys", "blocked", Copy, func(f *Facts) { f.Status.BlockedKeys = 2 }, Smell, "2 partition keys"},
	{"work.blocked_keys", "held", Running, func(f *Facts) { f.Status.OperatorHolds = 2 }, Note, "operators hold 2"},
	{"work.dead_letters", "one", Stopped, func(f *Facts) { f.Status.Dead = 1 }, Smell, "1 dead letter waits"},
	{"work.dead_letters", "some", Stopped, func(f *Facts) { f.Status.Dead = 3 }, Smell, "3 dead letters wait"},
}

func TestExamine_nothing_is_wrong(t *testing.T) {
	for _, mode := range []Mode{Running, Stopped, Copy} {
		f := healthy(mode)
		if mode == Stopped {
			f.Handlers = nil
		}
		r := Examine(f)
		if !r.OK || len(r.Findings) > 0 {
			t.Errorf("%s: %+v", mode, r.Findings)
		}
		if mode == Running && (len(r.Checked) != len(checks) || len(r.Unchecked) > 0) {
			t.Errorf("of %d checks %d were made; not checked: %v", len(checks), len(r.Checked), r.Unchecked)
		}
	}
}

func TestExamine_finds(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range cases {
		tried[c.check] = true
		t.Run(c.check+"/"+c.trouble, func(t *testing.T) {
			f := healthy(c.mode)
			c.spoil(f)
			r := Examine(f)
			at := slices.IndexFunc(r.Findings, func(f Finding) bool { return f.Check == c.check && strings.Contains(f.Seen, c.seen) })
			if at < 0 {
				t.Fatalf("found nothing with %q: %+v", c.seen, r)
			}
			if got := r.Findings[at]; got.Severity != c.severity || got.Hint == "" {
				t.Errorf("found %+v, want %s and a hint", got, c.severity)
			}
			if len(r.Findings) > 1 && r.Findings[1].Check != c.check && r.Findings[0].Check != "file.witness" {
				t.Errorf("and more: %+v", r.Findings)
			}
			if r.OK != (c.severity != Wrong) {
				t.Errorf("ok is %v", r.OK)
			}
		})
	}
	for _, c := range checks {
		if !tried[c.name] {
			t.Errorf("%s: no trouble was tried", c.name)
		}
	}
}

// TestExamine_says_what_it_could_not_see: no check is silent about what it needs.
func TestExamine_says_what_it_could_not_see(t *testing.T) {
	for _, mode := range []Mode{Running, Stopped, Copy} {
		f := &Facts{Mode: mode, Now: now, StatusWhy: "w", FutureWhy: "w", HandlersWhy: "w"}
		f.Config.Why, f.Host.DescriptorsWhy, f.File.Why = "w", "w", "w"
		f.Host.Places = []Place{{Role: "data_dir", Err: fs.ErrPermission}}
		f.File.FreeSpaceErr, f.File.FileSystemErr = fs.ErrPermission, fs.ErrPermission
		r := Examine(f)
		if len(r.Findings) > 0 {
			t.Errorf("%s: %+v", mode, r.Findings)
		}
		for _, name := range r.Checked {
			if mode == Running && (name == "file.open" || name == "file.format" || name == "file.commit" || name == "file.manifest" || name == "work.answers") {
				continue // it runs: that is what they ask
			}
			t.Errorf("%s: %s saw nothing and says nothing", mode, name)
		}
	}
}

// TestExamine_for_somebody_else: what another user may not see is not wrong.
func TestExamine_for_somebody_else(t *testing.T) {
	f := healthy(Stopped)
	f.Host.Foreign = true
	f.Config.Host = []config.Problem{{Message: "store.path may not be looked at", Denied: true}}
	f.Host.Places[1].Exists, f.Host.Places[1].Err = false, fs.ErrPermission
	r := Examine(f)
	if !r.OK || len(r.Findings) > 0 {
		t.Errorf("%+v", r.Findings)
	}
	for _, name := range []string{"config.host", "host.owners", "host.modes"} {
		if !slices.ContainsFunc(r.Unchecked, func(u Unchecked) bool { return u.Check == name }) {
			t.Errorf("%s is not among the unchecked: %+v", name, r.Unchecked)
		}
	}
}

// TestExamine_an_unreadable_manifest: what cannot be compared is not wrong.
func TestExamine_an_unreadable_manifest(t *testing.T) {
	f := healthy(Copy)
	f.File.Manifest, f.File.ManifestWhy = false, "permission denied"
	r := Examine(f)
	if !r.OK || len(r.Findings) > 0 || !slices.Contains(r.Unchecked, Unchecked{"file.manifest", "permission denied"}) {
		t.Errorf("%+v, not checked: %+v", r.Findings, r.Unchecked)
	}
}

// TestExamine_an_archive_in_place: nobody was killed who wrote a copy.
func TestExamine_an_archive_in_place(t *testing.T) {
	f := healthy(Stopped)
	f.File.Origin, f.File.Marked, f.File.Clean = errors.New("a copy"), true, false
	r := Examine(f)
	if r.Wrong != 1 || len(r.Findings) != 1 || r.Findings[0].Check != "file.witness" || slices.Contains(r.Checked, "file.stop") {
		t.Errorf("%+v, checked: %v", r.Findings, r.Checked)
	}
}

func TestExamine_worst_first(t *testing.T) {
	f := healthy(Running)
	f.Status.OperatorHolds, f.Status.Damaged, f.Status.Dead = 1, 1, 1
	r := Examine(f)
	var got []Severity
	for _, one := range r.Findings {
		got = append(got, one.Severity)
	}
	if !slices.Equal(got, []Severity{Wrong, Smell, Note}) || r.Wrong != 1 || r.Smells != 1 || r.Notes != 1 {
		t.Errorf("%v, %+v", got, r)
	}
}
