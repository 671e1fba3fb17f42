package boltstore

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"breakwater/queue"
	"breakwater/storage/boltstore/ledger"
	"breakwater/storage/memstore"
	"breakwater/storage/storetest"
)

func init() { storetest.Programs(20) }

func TestStore(t *testing.T) { storetest.Run(t, openHarness(0)) }

// openHarness opens stores in temporary files. A crash is the file as the disk has
// it at that moment, without the last process's clean stop.
func openHarness(window int) storetest.Open {
	return func(t testing.TB, o storetest.Options) storetest.Harness {
		h := newHarness(t, Options{Window: window, Committed: o.Committed})
		return storetest.Harness{Store: h.store, Crash: h.crash, Reopen: h.reopen, Close: h.close}
	}
}

// harness is a store and its folder, which lives as long as the store is open: a
// run of many random programs would fill the disk otherwise.
type harness struct {
	t       testing.TB
	options Options
	store   *Store
	ends    int // crashes so far
}

func newHarness(t testing.TB, o Options) *harness {
	h := &harness{t: t, options: o}
	h.options.Path = filepath.Join(h.folder(), "breakwater.db")
	h.open()
	return h
}

func (h *harness) folder() string {
	dir, err := os.MkdirTemp("", "boltstore")
	if err != nil {
		h.t.Fatal(err)
	}
	return dir
}

func (h *harness) open() {
	s, err := openLight(h.t, Open, h.options)
	if err != nil {
		h.t.Fatal(err)
	}
	h.store = s
}

// openLight opens a store without what tests of its answers pay most for, and do not
// look at: the flush of each commit (a crash is a copy of the file here, and a loss of
// power is package dbfile's affair), and a ledger's memory for hundreds of thousands of
// keys. Benchmarks get the store as it is.
func openLight(t testing.TB, open func(Options) (*Store, error), o Options) (*Store, error) {
	if _, measured := t.(*testing.B); measured {
		return open(o)
	}
	if o.ledger == nil {
		o.ledger = ledger.OpenLean
	}
	s, err := open(o)
	if err == nil {
		s.file.DB().NoSync = true // before the committer's first transaction
	}
	return s, err
}

// crash copies the file while nothing is being committed, and goes on with the
// copy: what kill -9 leaves behind.
func (h *harness) crash() queue.Store {
	to := filepath.Join(h.folder(), "breakwater.db")
	copyFile(h.t, h.options.Path, to)
	h.close()
	h.options.Path = to
	if h.ends++; h.ends%2 == 0 {
		h.compact()
	}
	h.open()
	return h.store
}

// reopen closes the store, and opens it after a compaction, which nobody must notice.
func (h *harness) reopen() queue.Store {
	if err := h.store.Close(); err != nil {
		h.t.Error(err)
	}
	h.compact()
	h.open()
	return h.store
}

func (h *harness) compact() {
	if _, err := Compact(Options{Path: h.options.Path, ledger: ledger.OpenLean}); err != nil {
		h.t.Errorf("compact: %v", err)
	}
}

func (h *harness) close() {
	if err := errors.Join(h.store.Close(), os.RemoveAll(filepath.Dir(h.options.Path))); err != nil {
		h.t.Error(err)
	}
}

func copyFile(t testing.TB, from, to string) {
	t.Helper()
	in, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	st, err := in.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(copyData(out, in), out.Truncate(st.Size()), out.Close()); err != nil {
		t.Fatal(err)
	}
}

// copyData copies what a file has, each piece to its place, and leaves out its holes: a
// store is 16 MiB long from its first commit on, and has some KiB.
func copyData(out, in *os.File) error {
	for at := int64(0); ; {
		from, err := in.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // from here on there is nothing
			return nil
		}
		if err != nil {
			return err
		}
		if at, err = in.Seek(from, unix.SEEK_HOLE); err != nil {
			return err
		}
		if _, err := io.Copy(io.NewOffsetWriter(out, from), io.NewSectionReader(in, from, at-from)); err != nil {
			return err
		}
	}
}

// TestModel compares with a ledger so small that it seals, merges and sweeps all the
// time.
func TestModel(t *testing.T) {
	t.Parallel()
	storetest.RunModel(t, openModel, func(t testing.TB, o storetest.Options) storetest.Harness {
		h := newHarness(t, Options{ledger: ledger.OpenSmall, Committed: o.Committed})
		return storetest.Harness{Store: h.store, Crash: h.crash, Reopen: h.reopen, Close: h.close}
	})
}

// openModel opens the model.
func openModel(_ testing.TB, o storetest.Options) storetest.Harness {
	s := memstore.New(memstore.Options{Committed: o.Committed})
	reopen := func() queue.Store { s = s.Reopen(); return s }
	return storetest.Harness{
		Store: s,
		Crash: reopen,
		Reopen: func() queue.Store {
			_ = s.Close() // of a store in memory cannot fail
			return reopen()
		},
	}
}

// submission is line i of a usual engine, with one of so many partition keys.
func submission(tb testing.TB, i, keys int) queue.Submission {
	line := fmt.Appendf(nil, `{"idempotency_key":"idem-%08d","trace_id":"trace-%08d","partition_key":"entity-%d","ledger_entity":"E%d","match_decision":"PARTIAL","variance_amount":"-1042.37","currency":"EUR","source":"engine-7","counterparty":"ACME Holdings (Netherlands) B.V.","booking":{"ref":"2026-11-30/%d","lines":[1,2,3],"text":"settlement difference on invoice"}}`, i, i, i%keys, i%keys, i)
	m, err := queue.ParseLine(line)
	if err != nil {
		tb.Fatal(err)
	}
	return queue.Submission{Message: m, LineBytes: int64(len(line)), LineHash: queue.LineHash(line)}
}

// longSubmission is one whose line has so many bytes: what fills a disk, or makes a file
// grow, need not be many messages.
func longSubmission(tb testing.TB, i, keys, bytes int) queue.Submission {
	s := submission(tb, i, keys)
	s.Message.Line = append(s.Message.Line, make([]byte, max(0, bytes-len(s.Message.Line)))...)
	s.LineBytes, s.LineHash = int64(len(s.Message.Line)), queue.LineHash(s.Message.Line)
	return s
}
