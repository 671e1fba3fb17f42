package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"time"

	ucli "github.com/urfave/cli/v2"

	"breakwater/internal/bench"
	"breakwater/storage"
)

// maxBenchSeconds is the longest that one measurement may be told to run.
const maxBenchSeconds = 60

func (e *env) benchCommand() *ucli.Command {
	return &ucli.Command{
		Name: "bench", Usage: "measure this machine",
		Description: manual(`
Measures, one after the other, each for --seconds:

  disk   writes of 4 KiB with fdatasync, one after the other, over blocks that are there
  admit  exceptions that a new store accepts durably: 16 senders, 100 at a time
  life   exceptions that a new store accepts, hands out and settles, by the same 16

It needs no running breakwater and never touches the store. It works in a folder that
it makes in --dir and removes, also when it is interrupted; after a kill -9 the folder
breakwater-bench-… stays, and may be removed. There must be 256 MiB free besides
queue.min_free_bytes. A measurement whose store reaches 192 MiB ends early, and says so.

A figure alone says little: a commit is as fast as the disk, and a disk that forgets
what it said it had written is fast. So look at "disk" first: hundreds to some
thousands are usual for a disk that keeps its word; what is far beyond that, or any
memory file system, deserves doubt. "per sync" is a figure divided by that of the
disk. At most 1,600 exceptions are under way, and a commit syncs twice, so that it
comes to 800 at the very most: hundreds say that the syncs are what is short, and a
faster disk would help; tens, that it is the processors, or what the disk can write
beside the syncs.

Sockets, parsing and handlers are not measured; the whole program does less. A store
that is large, other work on the machine, and a breakwater that runs on the same disk
(which is slowed meanwhile) make a difference, too. Run it more than once.`,
			[]string{status0, "1  it failed, was interrupted, or there is no folder or not enough room", status2},
			"breakwater bench", "breakwater bench --dir /srv/candidate --seconds 10",
			"breakwater bench --json | jq .admit.per_sync"),
		Flags: []ucli.Flag{
			&ucli.StringFlag{Name: "dir", TakesFile: true, Usage: "measure on the disk of `FOLDER`; default data_dir"},
			&ucli.IntFlag{Name: "seconds", Usage: "run each of the three for `N` seconds, 1 to 60; default 3", Value: 3},
		},
		Action: e.bench,
	}
}

func (e *env) bench(c *ucli.Context) error {
	if err := noMoreArgs(c); err != nil {
		return err
	}
	seconds := c.Int("seconds")
	if seconds < 1 || seconds > maxBenchSeconds {
		return usageFor(c, "--seconds must be 1 to %d", maxBenchSeconds)
	}
	cfg, err := e.config(c)
	if err != nil {
		return err
	}
	dir := cfg.DataDir
	if c.IsSet("dir") {
		if dir, err = filepath.Abs(c.String("dir")); err != nil {
			return err
		}
	}
	seen, err := benchRoom(dir, cfg.Queue.MinFreeBytes)
	if err != nil {
		return err
	}
	progress, end := e.stepBar()
	r, err := bench.Run(c.Context, bench.Options{
		Dir: dir, Each: time.Duration(seconds) * time.Second, MinFreeBytes: cfg.Queue.MinFreeBytes, Progress: progress,
	})
	end()
	switch {
	case errors.Is(err, bench.ErrLeft):
		return &failure{status: exitFailed, err: err, hint: "remove it by hand"}
	case errors.Is(err, context.Canceled):
		return &failure{status: exitFailed, err: errors.New("interrupted"), hint: "nothing is left in " + dir}
	case err != nil:
		return &failure{status: exitFailed, err: err, hint: "--dir names another folder to measure in, one that this user may write to"}
	}
	m := measuredOf(dir, &seen, &r)
	if c.Bool("json") {
		return e.printJSON(m)
	}
	return write(e.Stdout, benchText(&m))
}

// benchRoom looks whether dir is there, with room to measure in it.
func benchRoom(dir string, minFree int64) (seen storage.Sight, err error) {
	const hint = "--dir names another folder to measure in"
	switch info, err := os.Stat(dir); {
	case err != nil:
		return seen, &failure{status: exitFailed, err: err, hint: "the folder must be there already; " + hint}
	case !info.IsDir():
		return seen, &failure{status: exitFailed, err: fmt.Errorf("%s is not a folder", dir), hint: hint}
	}
	seen = storage.Look(filepath.Join(dir, "breakwater-bench"))
	switch need := minFree + bench.Room; {
	case seen.SpaceErr != nil:
		return seen, &failure{status: exitFailed, err: fmt.Errorf("%s: asking for the free space: %w", dir, seen.SpaceErr), hint: hint}
	case seen.FreeSpace < need:
		return seen, &failure{
			status: exitFailed, hint: hint,
			err: fmt.Errorf("%s: %s are free, and %s are needed (queue.min_free_bytes and %s)", dir, bytesText(seen.FreeSpace), bytesText(need), bytesText(bench.Room)),
		}
	}
	return seen, nil
}

// measured is the answer as a program reads it.
type measured struct {
	Dir        string         `json:"dir"`
	FileSystem string         `json:"file_system"`
	Volatile   bool           `json:"volatile"`
	Network    bool           `json:"network"`
	Processors int            `json:"processors"`
	Callers    int            `json:"callers"`
	Batch      int            `json:"batch"`
	Disk       measuredFigure `json:"disk"`
	Admit      measuredFigure `json:"admit"`
	Life       measuredFigure `json:"life"`
}

// measuredFigure is one measurement. The disk's own share of a sync is 1.
type measuredFigure struct {
	Count     int64   `json:"count"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	PerSync   float64 `json:"per_sync"`
	Full      bool    `json:"full"`
}

func measuredOf(dir string, seen *storage.Sight, r *bench.Result) measured {
	figure := func(f bench.Figure) measuredFigure {
		m := measuredFigure{Count: f.Count, Seconds: rounded(f.Elapsed.Seconds(), 1000), PerSecond: rounded(f.PerSecond(), 10), Full: f.Full}
		if syncs := r.Disk.PerSecond(); syncs > 0 {
			m.PerSync = rounded(f.PerSecond()/syncs, 1000)
		}
		return m
	}
	return measured{
		Dir: dir, FileSystem: seen.FileSystem, Volatile: seen.Volatile, Network: seen.Network,
		Processors: runtime.GOMAXPROCS(0), Callers: bench.Callers, Batch: bench.Batch,
		Disk: figure(r.Disk), Admit: figure(r.Admit), Life: figure(r.Life),
	}
}

// rounded keeps as much of x as a measurement is good for.
func rounded(x, parts float64) float64 { return math.Round(x*parts) / parts }

// benchText is what was measured, for people.
func benchText(m *measured) []byte {
	rows := [][]string{{"", "per second", "per sync", ""}}
	for _, row := range []struct {
		name, what string
		f          *measuredFigure
	}{
		{"disk", "4 KiB written and synced", &m.Disk},
		{"admit", "accepted", &m.Admit},
		{"life", "accepted, handed out and settled", &m.Life},
	} {
		what := row.what
		if row.f.Full {
			what += fmt.Sprintf(" (ended after %.1f s: the store had no more room)", row.f.Seconds)
		}
		rows = append(rows, []string{row.name, number(int64(math.Round(row.f.PerSecond))), fmt.Sprintf("%.1f", row.f.PerSync), what})
	}
	text := append(table(rows), oneLine(fmt.Sprintf("%s: %s, %d %s, %d callers, batches of %d",
		m.Dir, m.FileSystem, m.Processors, plural(m.Processors, "processor", "processors"), m.Callers, m.Batch))+"\n"...)
	switch {
	case m.Volatile:
		text = append(text, "this file system is gone with the power: its syncs cost nothing, and say nothing of a disk\n"...)
	case m.Network:
		text = append(text, "this is a network file system: its syncs may not hold what they promise\n"...)
	}
	return text
}
