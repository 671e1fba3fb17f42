// Package bench measures a machine: what its disk takes, and what a store on it takes.
// It works in a folder that it makes and removes, and with stores of its own.
package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// What the measurements are made of.
const (
	Callers    = 16        // who send and work off at the same time
	Batch      = 100       // exceptions that one of them sends, or takes, at once
	BlockBytes = 4 << 10   // of one write to the disk
	Room       = 256 << 20 // that must be free; the folder never needs much more than storeBytes

	diskBytes  = 16 << 20  // of the file that is written over
	storeBytes = 192 << 20 // of a store; a measurement that reaches it ends early
)

// Options says where and for how long.
type Options struct {
	Dir          string        // exists; a folder is made in it
	Each         time.Duration // for which each of the three measurements runs
	MinFreeBytes int64         // that no store may leave less of on the disk
	// Progress is told, from another goroutine, how far a measurement has come, in
	// milliseconds; nil: nobody asks.
	Progress func(step string, done, total int64)
}

// Figure is one measurement.
type Figure struct {
	Count   int64         // of what was done and is durable
	Elapsed time.Duration // from the first to the last of them
	Full    bool          // it ended early, because the store had no more room
}

// PerSecond is how many there were in a second.
func (f Figure) PerSecond() float64 {
	if f.Elapsed <= 0 {
		return 0
	}
	return float64(f.Count) / f.Elapsed.Seconds()
}

// Result is what was measured.
type Result struct {
	Disk  Figure // writes of BlockBytes over allocated blocks, each with fdatasync, one after the other
	Admit Figure // exceptions that a new store has accepted
	Life  Figure // exceptions that were accepted, claimed and settled
}

// ErrLeft: the folder that was measured in could not be removed.
var ErrLeft = errors.New("the folder that was measured in is still there")

// Run measures. However it ends, its folder is removed, or the error is ErrLeft. It ends early with the error of ctx.
func Run(ctx context.Context, o Options) (r Result, err error) {
	dir, err := os.MkdirTemp(o.Dir, "breakwater-bench-")
	if err != nil {
		return r, fmt.Errorf("making a folder to measure in: %w", err)
	}
	defer func() {
		if gone := os.RemoveAll(dir); gone != nil {
			err = errors.Join(err, fmt.Errorf("%w: %w", ErrLeft, gone))
		}
	}()
	for _, part := range []struct {
		name string
		to   *Figure
		run  func(ctx context.Context, path string, o Options) (Figure, error)
	}{
		{"disk", &r.Disk, disk}, {"admit", &r.Admit, admit}, {"life", &r.Life, life},
	} {
		path := filepath.Join(dir, part.name)
		if err := os.Mkdir(path, 0o700); err != nil {
			return r, err
		}
		end := o.watch(part.name)
		*part.to, err = part.run(ctx, path, o)
		end()
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = os.RemoveAll(path) // the next one needs the room
		}
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// watch tells of the progress of a step until end is called.
func (o Options) watch(step string) (end func()) {
	if o.Progress == nil {
		return func() {}
	}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		begin, tick := time.Now(), time.NewTicker(100*time.Millisecond)
		defer tick.Stop()
		for {
			o.Progress(step, min(time.Since(begin), o.Each).Milliseconds(), o.Each.Milliseconds())
			select {
			case <-tick.C:
			case <-stop:
				return
			}
		}
	}()
	return func() { close(stop); <-stopped }
}

// disk measures what a commit cannot be faster than. The blocks are there before the
// clock runs: a file that grows costs the file system a commit of its own.
func disk(ctx context.Context, path string, o Options) (f Figure, err error) {
	file, err := os.Create(filepath.Join(path, "file"))
	if err != nil {
		return f, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	block := make([]byte, BlockBytes)
	for at := int64(0); at < diskBytes; at += BlockBytes {
		if _, err := file.WriteAt(block, at); err != nil {
			return f, err
		}
	}
	if err := file.Sync(); err != nil {
		return f, err
	}
	begin := time.Now()
	for ; f.Elapsed < o.Each && ctx.Err() == nil; f.Count++ {
		block[0]++
		if _, err := file.WriteAt(block, f.Count*BlockBytes%diskBytes); err != nil {
			return f, err
		}
		if err := unix.Fdatasync(int(file.Fd())); err != nil {
			return f, fmt.Errorf("fdatasync: %w", err)
		}
		f.Elapsed = time.Since(begin)
	}
	return f, nil
}
