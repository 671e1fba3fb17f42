package dbfile

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// readChunk is one read of the way through the file.
	readChunk = 1 << 20
	// gentleChunk is one read beside a store that works on the same disk. Measured in a small
	// program beside its commits (median and 99 % of their writing): alone 3.3 and 6 ms;
	// beside reads of readChunk, for half of the time and with the kernel reading ahead, 4
	// and 9 to 43; beside these 3.5 and 5, where the program besides gave way to commits.
	gentleChunk = 256 << 10
	// adviseChunk is one hint; Linux reads no more than a device's window per
	// call, whatever the length that it is given.
	adviseChunk = 128 << 10
	// fallbackBudget is taken where the system does not say what is available.
	fallbackBudget = int64(256) << 20
)

// readThrough brings the file into the page cache in its order on the disk, and
// checks it as much as the last stop demands. bbolt maps the file for random
// access: without this, a cold file comes in one 4 KiB fault after another
// (2.4 GB in 85 s instead of 5).
func (f *File) readThrough(m Meta) (err error) {
	if f.report.Clean {
		prefetch(f.file, m.Bytes(), f.opts)
		return nil
	}
	if err := preread(f.file, m.Bytes(), f.opts); err != nil {
		return err
	}
	f.report.Walk, err = walk(f.file, m, f.opts)
	if n := f.report.Walk.Leaked; n > 0 {
		f.report.Warnings = append(f.report.Warnings, fmt.Sprintf("%d pages are neither used nor free: compact reclaims them", n))
	}
	return err
}

// preread reads the file, from its start, as far as the budget goes. A sector
// that cannot be read is an error here, and a fatal signal once it is mapped.
func preread(f *os.File, size int64, o Options) error {
	size = min(size, o.readBudget())
	chunk, hint := int64(readChunk), unix.FADV_SEQUENTIAL
	if o.Gentle {
		chunk, hint = gentleChunk, unix.FADV_RANDOM // no more than is asked for
	}
	_ = unix.Fadvise(int(f.Fd()), 0, size, hint)
	buf := make([]byte, min(chunk, size))
	for off := int64(0); off < size; off += chunk {
		n := min(chunk, size-off)
		begun := time.Now()
		if _, err := f.ReadAt(buf[:n], off); err != nil {
			if err == io.EOF {
				return fileErr(ErrTruncated, o.Path, fmt.Errorf("it ends before byte %d", off+n))
			}
			return ioErr(o.Path, fmt.Sprintf("reading at byte %d", off), err)
		}
		if o.Gentle {
			time.Sleep(time.Since(begun))
		}
		o.progress(StepRead, off+n, size)
		if err := o.goOn(); err != nil {
			return fmt.Errorf("read %q: %w", o.Path, err)
		}
	}
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_NORMAL)
	return nil
}

// prefetch only asks for the file: nothing is copied, what is in the cache
// already costs next to nothing, and errors show up later.
func prefetch(f *os.File, size int64, o Options) {
	size = min(size, o.readBudget())
	for off := int64(0); off < size; off += adviseChunk {
		if unix.Fadvise(int(f.Fd()), off, min(adviseChunk, size-off), unix.FADV_WILLNEED) != nil {
			return
		}
		if next := off + adviseChunk; next%readChunk == 0 || next >= size {
			o.progress(StepRead, min(next, size), size)
		}
	}
}

func (o Options) readBudget() int64 {
	if o.ReadBudget > 0 {
		return o.ReadBudget
	}
	if n := availableMemory(); n > 0 {
		return n / 2
	}
	return fallbackBudget
}

// availableMemory is what the kernel could give without swapping, 0 if it does
// not say.
func availableMemory() int64 {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var kib int64
		if rest, ok := strings.CutPrefix(lines.Text(), "MemAvailable:"); ok {
			if _, err := fmt.Sscanf(strings.TrimSpace(rest), "%d kB", &kib); err == nil {
				return kib << 10
			}
		}
	}
	return 0
}
