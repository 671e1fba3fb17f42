package dbfile

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
)

var markKey = []byte("clean")

func setMark(tx *bolt.Tx) error { return tx.Bucket(testBucket).Put(markKey, []byte("yes")) }

func hasMark(t *testing.T, f *File) (found bool) {
	t.Helper()
	if err := f.DB().View(func(tx *bolt.Tx) error {
		found = tx.Bucket(testBucket).Get(markKey) != nil
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return found
}

func mustReadMeta(t *testing.T, path string) Meta {
	t.Helper()
	m, _, err := ReadMeta(path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestCloseClean(t *testing.T) {
	t.Run("writes the list of free pages with the mark, and the next open walks nothing", func(t *testing.T) {
		path := newStore(t, 2000)
		f := mustOpen(t, Options{Path: path})
		freeAll(t, f)
		if mustReadMeta(t, path).HasFreelist() {
			t.Error("a running store has a list in its file")
		}
		before, _ := f.Txid()
		if err := f.CloseClean(setMark); err != nil {
			t.Fatal(err)
		}
		m := mustReadMeta(t, path)
		if !m.HasFreelist() || m.Txid != before+1 {
			t.Fatalf("after a clean stop: %+v, transaction before %d", m, before)
		}
		wantFreelistPage(t, path, m)
		f = mustOpen(t, Options{Path: path})
		if r := f.Report(); !r.Clean || r.Walk != (WalkReport{}) || !hasMark(t, f) {
			t.Errorf("after a clean stop: %+v", r)
		}
		if _, free := f.Size(); free == 0 {
			t.Error("the list came back empty")
		}
		addRecords(t, f, 0, 100)
		mustClose(t, f) // as a crash leaves it
		if mustReadMeta(t, path).HasFreelist() {
			t.Error("after a crash there is a list")
		}
		f = mustOpen(t, Options{Path: path})
		if r := f.Report(); r.Clean || r.Walk.Keys == 0 {
			t.Errorf("after a crash: %+v", r)
		}
	})
	t.Run("a stop without any commit since a clean one is not believed after a crash", func(t *testing.T) {
		path := newStore(t, 10)
		f := mustOpen(t, Options{Path: path})
		if err := f.CloseClean(nil); err != nil {
			t.Fatal(err)
		}
		mustClose(t, mustOpen(t, Options{Path: path}))
		if r := mustOpen(t, Options{Path: path}).Report(); r.Clean {
			t.Errorf("%+v", r)
		}
	})
	t.Run("an edited, copied or distrusted file is walked", func(t *testing.T) {
		path := newStore(t, 10)
		f := mustOpen(t, Options{Path: path})
		if err := f.CloseClean(nil); err != nil {
			t.Fatal(err)
		}
		if r := openReport(t, Options{Path: path, ReadOnly: true}); !r.Clean {
			t.Errorf("read-only, untouched: %+v", r)
		}
		if r := openReport(t, Options{Path: path, ReadOnly: true, Distrust: true}); r.Clean {
			t.Errorf("distrusted: %+v", r)
		}
		editFile(t, path, func([]byte) {}) // the same bytes, written again
		if r := openReport(t, Options{Path: path, ReadOnly: true}); r.Clean {
			t.Errorf("written again: %+v", r)
		}
	})
	t.Run("who only reads counts the same free pages, from the list or by walking", func(t *testing.T) {
		path := newStore(t, 2000)
		f := mustOpen(t, Options{Path: path})
		if err := f.DB().Update(func(tx *bolt.Tx) error { return tx.DeleteBucket(testBucket) }); err != nil {
			t.Fatal(err)
		}
		if err := f.CloseClean(nil); err != nil {
			t.Fatal(err)
		}
		listed := mustOpen(t, Options{Path: path, ReadOnly: true})
		walked := mustOpen(t, Options{Path: path, ReadOnly: true, Distrust: true})
		n, m := listed.FreeInside(), walked.FreeInside()
		if n == 0 || n != m || n%listed.Report().Meta.PageSize != 0 {
			t.Errorf("free: %d by the list, %d by walking", n, m)
		}
	})
	t.Run("a refused file keeps its clean note", func(t *testing.T) {
		path := newStore(t, 10)
		f := mustOpen(t, Options{Path: path})
		if err := f.CloseClean(nil); err != nil {
			t.Fatal(err)
		}
		held := mustOpen(t, Options{Path: path, ReadOnly: true})
		_, err := Open(Options{Path: path, LockTimeout: 1}) // has the side lock, not the file's
		wantKind(t, err, ErrLocked)
		mustClose(t, held)
		if r := openReport(t, Options{Path: path}); !r.Clean {
			t.Errorf("%+v", r)
		}
	})
	t.Run("a mark that fails leaves the store intact and unclean", func(t *testing.T) {
		path := newStore(t, 10)
		f := mustOpen(t, Options{Path: path})
		boom := errors.New("boom")
		err := f.CloseClean(func(tx *bolt.Tx) error { return errors.Join(setMark(tx), boom) })
		wantKind(t, err, ErrUnclean, path)
		if !errors.Is(err, boom) {
			t.Errorf("%v", err)
		}
		f = mustOpen(t, Options{Path: path})
		if f.Report().Clean || hasMark(t, f) || countRecords(t, f) != 10 {
			t.Errorf("%+v", f.Report())
		}
	})
	t.Run("a spoilt list is not believed", func(t *testing.T) {
		path := newStore(t, 500)
		f := mustOpen(t, Options{Path: path})
		freeAll(t, f)
		if err := f.CloseClean(nil); err != nil {
			t.Fatal(err)
		}
		m := mustReadMeta(t, path)
		refused := 0
		for _, off := range []int64{0, 8, 10, 16, 24, 31} {
			undo := rot(t, path, int64(m.Freelist)*m.PageSize+off)
			f, err := Open(Options{Path: path, ReadOnly: true})
			if err != nil {
				wantKind(t, err, ErrDamaged, "free pages")
				refused++
			} else {
				if r := f.Report(); r.Clean || r.Walk.Leaked == 0 || len(r.Warnings) == 0 {
					t.Errorf("byte %d: %+v", off, r)
				}
				mustClose(t, f)
			}
			undo()
		}
		if refused < 3 {
			t.Errorf("only %d refused", refused)
		}
		if r := openReport(t, Options{Path: path}); !r.Clean {
			t.Errorf("repaired: %+v", r)
		}
	})
}

// rot changes one byte and nothing else that a program could notice.
func rot(t *testing.T, path string, at int64) (undo func()) {
	t.Helper()
	st := mustStat(t, path)
	flip := func() {
		file, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		var b [1]byte
		if _, err := file.ReadAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 0xF0
		if _, err := file.WriteAt(b[:], at); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, st.ModTime(), st.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	return flip
}

func openReport(t *testing.T, o Options) Report {
	t.Helper()
	f := mustOpen(t, o)
	defer f.Close()
	return f.Report()
}

// freeAll deletes the records, so that there is much to put into the list.
func freeAll(t *testing.T, f *File) {
	t.Helper()
	if err := f.DB().Update(func(tx *bolt.Tx) error {
		if err := tx.DeleteBucket(testBucket); err != nil {
			return err
		}
		_, err := tx.CreateBucket(testBucket)
		return err
	}); err != nil {
		t.Fatal(err)
	}
}

func wantFreelistPage(t *testing.T, path string, m Meta) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	h := parseHeader(raw[int64(m.Freelist)*m.PageSize:])
	if h.flags != flagFreelist || h.count == 0 {
		t.Errorf("page %d: %+v is no list of free pages", m.Freelist, h)
	}
}

func TestSize(t *testing.T) {
	path := newStore(t, 3000)
	f := mustOpen(t, Options{Path: path})
	size, free := f.Size()
	freeAll(t, f)
	addRecords(t, f, 0, 1) // the pages that the commit before let go count from here on
	size2, free2 := f.Size()
	if size != mustStat(t, path).Size() || size2 != size || free2 <= free || free2 < size*9/10 || free2 > size {
		t.Errorf("size %d, free %d; after deleting all: %d, %d", size, free, size2, free2)
	}
	mustClose(t, f)
	if a, b := f.Size(); a != 0 || b != 0 {
		t.Errorf("closed: %d %d", a, b)
	}
	if _, err := f.Txid(); !errors.Is(err, berrors.ErrDatabaseNotOpen) {
		t.Errorf("closed: %v", err)
	}
}

// TestMaxBytes: the file never grows beyond it, at any size, and a refused
// commit is clean.
func TestMaxBytes(t *testing.T) {
	for _, most := range []int64{1 << 20, 5 << 20, 40 << 20} {
		path := newStore(t, 1)
		f := mustOpen(t, Options{Path: path, MaxBytes: most})
		var err error
		var before uint64
		stored := 0
		for i := range 1000 {
			if before, err = f.Txid(); err != nil {
				t.Fatal(err)
			}
			err = f.DB().Update(func(tx *bolt.Tx) error {
				return tx.Bucket(testBucket).Put(binary.BigEndian.AppendUint64(nil, uint64(i)), make([]byte, 200<<10))
			})
			if err != nil {
				break
			}
			stored++
		}
		after, txErr := f.Txid()
		if !errors.Is(err, berrors.ErrMaxSizeReached) || txErr != nil || Classify(err, before, after) != CleanRefusal {
			t.Fatalf("max %d: %v, %v", most, err, txErr)
		}
		if size := mustStat(t, path).Size(); size > most || size < most/3 {
			t.Errorf("max %d: the file has %d bytes, %d records", most, size, stored)
		}
		if n := countRecords(t, f); n != stored+1 {
			t.Errorf("max %d: %d records of %d", most, n, stored+1)
		}
		mustClose(t, f)
	}
}

// TestPresent: F16.
func TestPresent(t *testing.T) {
	open := func(t *testing.T) (string, *File) {
		path := newStore(t, 100)
		f := mustOpen(t, Options{Path: path})
		if err := f.Present(); err != nil {
			t.Fatal(err)
		}
		return path, f
	}
	t.Run("deleted", func(t *testing.T) {
		path, f := open(t)
		os.Remove(path)
		wantKind(t, f.Present(), ErrGone, path)
	})
	t.Run("replaced", func(t *testing.T) {
		path, f := open(t)
		if err := os.Rename(newStore(t, 1), path); err != nil {
			t.Fatal(err)
		}
		wantKind(t, f.Present(), ErrGone, path, "another file")
	})
	t.Run("cut short", func(t *testing.T) {
		path, f := open(t)
		if err := os.Truncate(path, 9000); err != nil {
			t.Fatal(err)
		}
		wantKind(t, f.Present(), ErrGone, path, "9000 bytes")
	})
}

// TestMapRoom is how long a reader may go on while the file grows.
func TestMapRoom(t *testing.T) {
	for size, want := range map[int64]int64{
		0: 32 << 10, 32 << 10: 32 << 10, 32<<10 + 1: 64 << 10, 1 << 30: 1 << 30, 1<<30 + 1: 2 << 30, 3 << 30: 3 << 30,
	} {
		if got := boltMap(size); got != want {
			t.Errorf("a file of %d bytes is mapped as %d, want %d", size, got, want)
		}
	}
	f := mustOpen(t, storeOptions(filepath.Join(t.TempDir(), "store.db")))
	size, _ := f.Size()
	if room, err := f.MapRoom(); err != nil || room != minMap-size {
		t.Errorf("%d bytes of room (%v), want %d", room, err, minMap-size)
	}
}
