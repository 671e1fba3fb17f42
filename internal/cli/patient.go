package cli

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// logPatience is how long an entry of the log is waited for, where what reads it takes
	// none, before nothing is waited for any more. The log must not stop the service.
	logPatience = time.Second
	// logQueue is how much waits for such a reader, in bytes; further entries are left out.
	logQueue = 256 << 10
)

// patientWriter writes entries in the order in which they come, and each before Write
// returns: what was said before a crash has been said. Only where that does not go on, as
// with a pipe that nobody reads, does it go on without: then entries wait in a queue, or are
// left out, until all that waits was taken. An error of out loses its entry; there is nowhere
// to tell.
type patientWriter struct {
	out io.Writer
	// note is the entry which says that so many were left out here.
	note func(entries int) []byte

	mu             sync.Mutex
	queue          [][]byte
	bytes          int // of the queue
	left           int // entries left out behind the queue
	stuck          bool
	given, written uint64        // entries
	changed        chan struct{} // closed, and made anew, when an entry was written
	writing        bool          // a goroutine empties the queue
}

func newPatientWriter(out io.Writer, note func(entries int) []byte) *patientWriter {
	return &patientWriter{out: out, note: note, changed: make(chan struct{})}
}

// Write writes an entry, or has it written later, or leaves it out. There is no error.
func (w *patientWriter) Write(entry []byte) (int, error) {
	w.mu.Lock()
	if w.bytes+len(entry) > logQueue && len(w.queue) > 0 {
		w.left++
		w.mu.Unlock()
		return len(entry), nil
	}
	w.noteLeft()
	w.put(bytes.Clone(entry))
	mine, stuck := w.given, w.stuck
	w.mu.Unlock()
	if !stuck {
		w.await(mine)
	}
	return len(entry), nil
}

// put queues an entry and sees to it that somebody writes it. The lock is held.
func (w *patientWriter) put(entry []byte) {
	w.queue = append(w.queue, entry)
	w.bytes += len(entry)
	w.given++
	if !w.writing {
		w.writing = true
		go w.write()
	}
}

// noteLeft queues the entry about those that were left out. The lock is held.
func (w *patientWriter) noteLeft() {
	if n := w.left; n > 0 {
		w.left = 0
		w.put(w.note(n))
	}
}

// write empties the queue.
func (w *patientWriter) write() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if len(w.queue) == 0 {
			w.noteLeft()
		}
		if len(w.queue) == 0 {
			w.writing, w.stuck = false, false
			return
		}
		entry := w.queue[0]
		w.mu.Unlock()
		_, _ = w.out.Write(entry)
		w.mu.Lock()
		w.queue[0], w.queue = nil, w.queue[1:]
		w.bytes -= len(entry)
		w.written++
		close(w.changed)
		w.changed = make(chan struct{})
	}
}

// await waits until so many entries were written, for as long as patience lasts.
func (w *patientWriter) await(entries uint64) {
	patience := time.NewTimer(logPatience)
	defer patience.Stop()
	for {
		w.mu.Lock()
		done, changed := w.written >= entries, w.changed
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-patience.C:
			w.mu.Lock()
			w.stuck = w.written < entries
			w.mu.Unlock()
			return
		}
	}
}

// flush gives what waits a last moment.
func (w *patientWriter) flush() {
	w.mu.Lock()
	all := w.given
	w.mu.Unlock()
	w.await(all)
}
