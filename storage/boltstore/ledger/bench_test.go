package ledger

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// BenchmarkAdmit is what the intake asks of the ledger: one durable commit per
// batch of keys that are looked up, absent, and put. It compares an empty
// ledger with ones that remember many keys, taking turns commit by commit, so
// that a disk's moods meet all of them. The large ones take a minute to fill:
//
//	LEDGER_BENCH_LARGE=1 go test -run '^$' -bench Admit -benchtime 5000x ./storage/boltstore/ledger
//
// ns is a whole commit's time per entry, own-ns the ledger's part of it (Get,
// Put and the maintenance Put does), cpu-ns the processor time of the commit,
// which a busy machine does not distort, written what went to the file per entry.
func BenchmarkAdmit(b *testing.B) {
	var subjects []*subject
	for _, n := range remembered() {
		s := &subject{name: fmt.Sprintf("%dM", n/1_000_000), path: filepath.Join(b.TempDir(), "ledger.db")}
		fill(b, s.path, n)
		s.open(b)
		defer s.db.Close()
		subjects = append(subjects, s)
	}
	for _, batch := range []int{100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			for _, s := range subjects {
				s.own, s.whole, s.cpu, s.written = 0, 0, 0, 0
			}
			for b.Loop() {
				for _, s := range subjects {
					s.admit(b, batch)
				}
			}
			for _, s := range subjects {
				s.report(b, float64(b.N*batch), subjects[0])
			}
		})
	}
}

// remembered lists the numbers of keys that are measured.
func remembered() []int {
	if os.Getenv("LEDGER_BENCH_LARGE") == "" {
		return []int{0, 1_000_000}
	}
	return []int{0, 1_000_000, 5_000_000, 10_000_000}
}

// BenchmarkOpen opens ledgers that remember many keys, and says what memory
// they take then: of the heap, and of the process beyond its mapped files.
func BenchmarkOpen(b *testing.B) {
	for _, n := range remembered() {
		path := filepath.Join(b.TempDir(), "ledger.db")
		fill(b, path, n)
		db := openBench(b, path, true)
		b.Run(fmt.Sprintf("remembered=%dM", n/1_000_000), func(b *testing.B) {
			var l *Ledger
			heap := heapAlloc()
			for b.Loop() {
				l = nil
				must(b, db.View(func(tx *bolt.Tx) (err error) { l, err = Open(tx); return err }))
			}
			b.ReportMetric(float64(heapAlloc()-heap)/1e6, "MB-heap")
			b.ReportMetric(float64(proc("status", "RssAnon"))/1e3, "MB-RssAnon")
			entries, segments, _ := l.Len()
			b.ReportMetric(float64(segments), "segments")
			b.ReportMetric(float64(entries), "entries")
		})
		must(b, db.Close())
	}
}

func heapAlloc() int64 {
	var m runtime.MemStats
	runtime.GC()
	debug.FreeOSMemory()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// subject is one ledger under measurement.
type subject struct {
	name       string
	path       string
	db         *bolt.DB
	l          *Ledger
	next       uint64
	own, whole time.Duration
	cpu        time.Duration
	written    int64
}

func (s *subject) open(b *testing.B) {
	s.db = openBench(b, s.path, false)
	s.next = 1 << 40
	must(b, s.db.View(func(tx *bolt.Tx) (err error) { s.l, err = Open(tx); return err }))
}

// admit commits one batch of new keys.
func (s *subject) admit(b *testing.B, batch int) {
	entries := make([]Entry, batch)
	for i := range entries {
		entries[i] = Entry{Key: spread(s.next), Seq: s.next, State: StateOpen, New: true}
		s.next++
	}
	wrote, used, start := written(), cpuTime(), time.Now()
	tx, err := s.db.Begin(true)
	must(b, err)
	own := time.Now()
	for i := range entries {
		if _, found, err := s.l.Get(tx, entries[i].Key); found || err != nil {
			b.Fatal(found, err)
		}
	}
	must(b, s.l.Put(tx, entries))
	s.own += time.Since(own)
	must(b, tx.Commit())
	s.whole += time.Since(start)
	s.cpu += cpuTime() - used
	s.written += written() - wrote
}

func (s *subject) report(b *testing.B, entries float64, empty *subject) {
	_, segments, _ := s.l.Len()
	b.ReportMetric(float64(s.whole)/entries, s.name+"-ns")
	b.ReportMetric(float64(s.own)/entries, s.name+"-own-ns")
	b.ReportMetric(float64(s.cpu)/entries, s.name+"-cpu-ns")
	b.ReportMetric(float64(s.written)/entries, s.name+"-written")
	b.ReportMetric(float64(segments), s.name+"-segments")
	b.ReportMetric(float64(s.l.Memory())/1e6, s.name+"-MB")
	b.ReportMetric(float64(s.whole)/float64(empty.whole), s.name+"-ratio")
}

// spread returns the n-th of keys that are spread evenly and never repeat.
func spread(n uint64) (k Key) {
	binary.BigEndian.PutUint64(k[:], mix(n+1))
	binary.BigEndian.PutUint64(k[8:], mix(^n))
	return k
}

// mix is the finaliser of splitmix64 (Steele, Lea and Flood 2014).
func mix(n uint64) uint64 {
	n = (n ^ n>>30) * 0xbf58476d1ce4e5b9
	n = (n ^ n>>27) * 0x94d049bb133111eb
	return n ^ n>>31
}

func openBench(b *testing.B, path string, noSync bool) *bolt.DB {
	db, err := bolt.Open(path, 0o600, &bolt.Options{
		NoSync: noSync, NoFreelistSync: true, FreelistType: bolt.FreelistMapType, InitialMmapSize: 8 << 30,
	})
	if err != nil {
		b.Fatal(err)
	}
	return db
}

// fill makes a file with n settled keys.
func fill(b *testing.B, path string, n int) {
	b.Helper()
	db := openBench(b, path, true)
	defer db.Close()
	if err := db.Update(Init); err != nil {
		b.Fatal(err)
	}
	var l *Ledger
	must(b, db.View(func(tx *bolt.Tx) (err error) { l, err = Open(tx); return err }))
	entries := make([]Entry, 0, 20_000)
	for done := 0; done < n; done += len(entries) {
		entries = entries[:0]
		for i := range min(cap(entries), n-done) {
			entries = append(entries, Entry{
				Key: spread(uint64(done + i)), Seq: uint64(done + i), State: StateDone, New: true,
				Outcome: "APPROVED", SettledAt: 1_700_000_000_000_000,
			})
		}
		must(b, db.Update(func(tx *bolt.Tx) error { return l.Put(tx, entries) }))
	}
	must(b, db.Sync())
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// cpuTime returns the processor time of this process.
func cpuTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// written returns the bytes this process has passed to write calls.
func written() int64 { return proc("io", "wchar") }

// proc returns a number that Linux keeps of this process, 0 where it does not.
func proc(file, name string) (n int64) {
	text, err := os.ReadFile("/proc/self/" + file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			fmt.Sscan(value, &n)
		}
	}
	return n
}
