package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"breakwater/queue"
)

const (
	// streamQueue is how many commits may wait for the stream's writer. A stream
	// that is slower than that skips, and the skip is counted: it is never waited
	// for. The records are in the file.
	streamQueue = 1024
	// streamMaxBytes bounds what those commits hold.
	streamMaxBytes = 16 << 20
	// streamPatience is how long the end of the process waits for a stream that does
	// not move.
	streamPatience = 5 * time.Second
	// streamBuffer is how much is gathered for one write.
	streamBuffer = 64 << 10
	// streamComplain is how often the log hears of a stream that cannot be written.
	streamComplain = 10 * time.Second
)

// auditStream copies the trail's records, after their commit, to a file or stdout.
type auditStream struct {
	path    string // "": stdout
	out     io.WriteCloser
	commits chan []byte
	waiting atomic.Int64 // bytes
	skipped atomic.Uint64
	ended   chan struct{}
	failed  func(error)

	// Of the writer's goroutine.
	unwritten  []byte    // whole lines
	torn       bool      // the last line that was written has no end
	nameless   bool      // the file was removed, and there is none in its place
	complained time.Time // when failed was told last
}

// openStream starts a stream to where the configuration says; nil for nowhere.
// failed is told of write errors, from the writer's goroutine.
func openStream(to string, stdout io.Writer, failed func(error)) (*auditStream, error) {
	if to == "" {
		return nil, nil
	}
	s := &auditStream{commits: make(chan []byte, streamQueue), ended: make(chan struct{}), failed: failed}
	if to == "stdout" {
		s.out = nopCloser{stdout}
	} else {
		s.path = to
		f, torn, err := openAppend(to)
		if err != nil {
			return nil, err
		}
		s.out, s.torn = f, torn
	}
	go s.write()
	return s, nil
}

// openAppend opens the stream's file, for its owner only, and says whether its last line
// has no end, as a kill or a power cut may leave it. It waits for nobody: what is no file any more,
// like a FIFO that nobody reads, is an error.
func openAppend(path string) (f *os.File, torn bool, err error) {
	const calm = syscall.O_NONBLOCK | syscall.O_NOCTTY
	f, err = os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|calm, 0o600)
	if err != nil {
		return nil, false, &unusableError{fmt.Sprintf("audit.stream: %v", err), "its folder must be there, and this user be able to write to it; under systemd it needs ReadWritePaths="}
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &unusableError{fmt.Sprintf("audit.stream: %s is not a file", path), `give a file's path, or "stdout"`}
	}
	if err != nil {
		return nil, false, errors.Join(err, f.Close())
	}
	return f, info.Size() > 0 && lastByte(path, calm, info.Size()) != '\n', nil
}

// lastByte reads the last byte of a file; a line feed where it cannot.
func lastByte(path string, flags int, size int64) byte {
	f, err := os.OpenFile(path, os.O_RDONLY|flags, 0)
	if err != nil {
		return '\n'
	}
	defer f.Close() // nothing was written
	end := []byte{'\n'}
	_, _ = f.ReadAt(end, size-1)
	return end[0]
}

// committed queues the records of a commit; it never waits.
func (s *auditStream) committed(c queue.Commit) {
	if s == nil {
		return
	}
	n := int64(len(c.Records))
	if s.waiting.Load()+n > streamMaxBytes {
		s.skipped.Add(uint64(c.Count))
		return
	}
	s.waiting.Add(n)
	select {
	case s.commits <- append([]byte(nil), c.Records...):
	default:
		s.waiting.Add(-n)
		s.skipped.Add(uint64(c.Count))
	}
}

// write copies commits until the stream is closed. It flushes whenever nothing
// waits, so that a reader of the stream is never behind for longer than a write.
func (s *auditStream) write() {
	defer close(s.ended)
	for records := range s.commits {
		if len(s.unwritten) > 0 && len(s.unwritten)+len(records) > streamBuffer {
			s.flush()
		}
		s.unwritten = append(s.unwritten, records...)
		s.waiting.Add(-int64(len(records)))
		if len(s.commits) == 0 {
			s.flush()
			if err := s.followRename(); err != nil {
				s.complain(err)
			}
		}
	}
	s.flush()
}

// flush writes what was gathered, which is whole lines: stdout may have other writers. What
// cannot be written is left out and counted. Of a line that was cut off nothing stays in a
// file, and what follows it on stdout begins on a line of its own: whatever is refused
// meanwhile, a line is a record.
func (s *auditStream) flush() {
	if len(s.unwritten) == 0 {
		return
	}
	if s.nameless {
		s.skip(s.unwritten)
	} else {
		s.put()
	}
	s.unwritten = s.unwritten[:0]
	if cap(s.unwritten) > 2*streamBuffer {
		s.unwritten = nil
	}
}

// put writes what was gathered, and sees to what was refused of it.
func (s *auditStream) put() {
	text := s.unwritten
	if s.torn {
		text = append([]byte("\n"), text...)
	}
	n, err := s.out.Write(text)
	whole := bytes.LastIndexByte(text[:n], '\n') + 1
	if n > 0 {
		s.torn = whole < n && !s.takeBack(n-whole)
	}
	if err != nil {
		left := text[max(whole, len(text)-len(s.unwritten)):]
		s.skip(left)
		s.complain(err)
	}
}

// skip counts records that are left out.
func (s *auditStream) skip(records []byte) {
	s.skipped.Add(uint64(bytes.Count(records, []byte("\n"))))
}

// takeBack cuts so many bytes off the end of the stream's file, and says whether they are
// gone: not of stdout, which is not ours.
func (s *auditStream) takeBack(n int) bool {
	f, ok := s.out.(*os.File)
	if !ok || s.path == "" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Size() >= int64(n) && f.Truncate(info.Size()-int64(n)) == nil
}

// complain tells of an error, but not again and again: a full disk refuses each commit.
func (s *auditStream) complain(err error) {
	if now := time.Now(); s.complained.IsZero() || now.Sub(s.complained) >= streamComplain {
		s.complained = now
		s.failed(fmt.Errorf("%w; so far %d records were left out, which are in the store", err, s.skipped.Load()))
	}
}

// followRename opens the file anew when it was renamed or removed, so that a log
// rotation needs no signal and loses no line.
func (s *auditStream) followRename() error {
	f, ok := s.out.(*os.File)
	if !ok || s.path == "" {
		return nil
	}
	open, err := f.Stat()
	if err != nil {
		return err
	}
	if named, err := os.Stat(s.path); err == nil && os.SameFile(open, named) {
		return nil
	}
	again, torn, err := openAppend(s.path)
	if err != nil {
		st, known := open.Sys().(*syscall.Stat_t)
		s.nameless = known && st.Nlink == 0 // what is written there is gone with it
		return err
	}
	s.out, s.torn, s.nameless = again, torn, false
	return f.Close()
}

// close writes what waits and ends the stream.
func (s *auditStream) close() error {
	if s == nil {
		return nil
	}
	close(s.commits)
	select {
	case <-s.ended:
		return s.out.Close()
	case <-time.After(streamPatience):
		return errors.New("audit.stream takes nothing any more; what waits is in the store")
	}
}

// skippedRecords is how many records the stream has left out so far.
func (s *auditStream) skippedRecords() uint64 {
	if s == nil {
		return 0
	}
	return s.skipped.Load()
}

// nopCloser keeps stdout open.
type nopCloser struct{ io.Writer }

// Close does nothing.
func (nopCloser) Close() error { return nil }
