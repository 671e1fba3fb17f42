package boltstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"breakwater/storage/boltstore/ledger"
	"breakwater/storage/storetest"
)

// BenchmarkDisk is what a commit cannot be faster than: 4 KiB written over
// allocated blocks and synced, on the disk of the temporary folder. bbolt does it
// twice for each commit. The other benchmarks are to be read as ratios to it.
func BenchmarkDisk(b *testing.B) {
	const size = 16 << 20
	f, err := os.Create(filepath.Join(b.TempDir(), "disk"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for at := int64(0); at < size; at += int64(len(block)) {
		if _, err := f.WriteAt(block, at); err != nil {
			b.Fatal(err)
		}
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	n := int64(0)
	for b.Loop() {
		block[0]++
		if _, err := f.WriteAt(block, n*int64(len(block))%size); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "syncs/s")
}

// BenchmarkStore is the work that every backend is measured with.
func BenchmarkStore(b *testing.B) { storetest.Bench(b, openHarness(0)) }

// BenchmarkRemembered is the same work on a store whose ledger remembers keys that
// are done with: 0 and a million, or as many as BREAKWATER_BENCH_KEYS says. The
// store should hardly notice.
func BenchmarkRemembered(b *testing.B) {
	most := 1_000_000
	if text := os.Getenv("BREAKWATER_BENCH_KEYS"); text != "" {
		var err error
		if most, err = strconv.Atoi(text); err != nil {
			b.Fatal(err)
		}
	}
	for _, keys := range []int{0, most} {
		full := filepath.Join(b.TempDir(), "full.db")
		remember(b, full, keys)
		b.Run(fmt.Sprintf("keys=%d", keys), func(b *testing.B) {
			storetest.BenchBatch(b, func(tb testing.TB, _ storetest.Options) storetest.Harness {
				h := &harness{t: tb}
				h.options.Path = filepath.Join(h.folder(), "breakwater.db")
				copyFile(tb, full, h.options.Path)
				flush(tb, h.options.Path) // or the first commit would pay for the copy
				h.open()
				return storetest.Harness{Store: h.store, Close: h.close}
			}, 1000, 16)
		})
	}
}

func flush(tb testing.TB, path string) {
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		tb.Fatal(err)
	}
}

// remember makes a store whose ledger has n keys that were decided a minute ago.
func remember(b *testing.B, path string, n int) {
	s, err := Open(Options{Path: path})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	entries := make([]ledger.Entry, 0, 4096)
	settled := time.Now().Add(-time.Minute).UnixMicro()
	for i := 0; i < n; {
		entries = entries[:0]
		for ; i < n && len(entries) < cap(entries); i++ {
			entries = append(entries, ledger.Entry{
				Key: ledger.KeyOf(s.secret, "remembered-"+strconv.Itoa(i)), Seq: uint64(i + 1),
				State: ledger.StateDone, New: true, Outcome: "DONE", SettledAt: settled,
			})
		}
		if err := s.file.DB().Update(func(tx *bolt.Tx) error { return s.t.ledger.Put(tx, entries) }); err != nil {
			b.Fatal(err)
		}
	}
}
