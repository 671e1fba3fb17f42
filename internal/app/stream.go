package app

import (
	"bufio"
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
		f, err := openAppend(to)
		if err != nil {
			return nil, err
		}
		s.out = f
	}
	go s.write()
	return s, nil
}

// openAppend opens the stream's file, for its owner only. It waits for nobody: what is no
// file any more, like a FIFO that nobody reads, is an error.
func openAppend(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600)
	if err != nil {
		return nil, &unusableError{fmt.Sprintf("audit.stream: %v", err), "its folder must be there, and this user be able to write to it; under systemd it needs ReadWritePaths="}
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &unusableError{fmt.Sprintf("audit.stream: %s is not a file", path), `give a file's path, or "stdout"`}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
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
	w := bufio.NewWriterSize(s.out, 64<<10)
	for records := range s.commits {
		var err error
		if w.Available() < len(records) { // whole lines in each write: stdout may have other writers
			err = w.Flush()
		}
		if err == nil {
			_, err = w.Write(records)
		}
		s.waiting.Add(-int64(len(records)))
		if err == nil && len(s.commits) == 0 {
			err = w.Flush()
		}
		if err == nil && len(s.commits) == 0 {
			err = s.followRename(w)
		}
		if err != nil {
			s.failed(err)
			s.skipped.Add(uint64(bytes.Count(records, []byte("\n"))))
			w.Reset(s.out)
		}
	}
	if err := w.Flush(); err != nil {
		s.failed(err)
	}
}

// followRename opens the file anew when it was renamed or removed, so that a log
// rotation needs no signal and loses no line.
func (s *auditStream) followRename(w *bufio.Writer) error {
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
	again, err := openAppend(s.path)
	if err != nil {
		return err
	}
	s.out = again
	w.Reset(again)
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
