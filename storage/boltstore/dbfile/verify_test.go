package dbfile

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

func TestVerify(t *testing.T) {
	t.Run("counts what is there, and changes nothing", func(t *testing.T) {
		path := newStore(t, 500)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := Verify(Options{Path: path})
		if err != nil || got.Keys != 501 || got.Buckets != 2 || got.Leaked != 0 || got.Pages < 50 {
			t.Errorf("%+v %v", got, err)
		}
		if now, _ := os.ReadFile(path); !bytes.Equal(now, before) {
			t.Error("the file has changed")
		}
	})
	t.Run("absent, and in use", func(t *testing.T) {
		path := newStore(t, 1)
		_, err := Verify(Options{Path: path + ".not"})
		wantKind(t, err, ErrAbsent)
		mustOpen(t, Options{Path: path})
		_, err = Verify(Options{Path: path, LockTimeout: 1})
		wantKind(t, err, ErrLocked, path, "process")
	})
	t.Run("a context that ends, ends it and Open, and is no damage", func(t *testing.T) {
		path := newStore(t, 3000)
		for _, at := range []Step{StepRead, StepWalk} {
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			o := Options{Path: path, Context: ctx, Progress: func(s Step, _, _ int64) {
				if s == at {
					cancel(why)
				}
			}}
			if _, err := Verify(o); !errors.Is(err, why) || errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v", at, err)
			}
			if _, err := Open(o); !errors.Is(err, why) || errors.Is(err, ErrDamaged) {
				t.Errorf("%s: %v", at, err)
			}
			cancel(nil)
		}
		mustClose(t, mustOpen(t, Options{Path: path}))
	})
	t.Run("a sector that cannot be read is no damage", func(t *testing.T) {
		raw := richStore(t)
		m, _ := newestOf(t, raw)
		for _, c := range []struct {
			err  error
			kind Kind
		}{{unix.EIO, ErrIO}, {nil, ErrTruncated}} {
			_, err := walk(badSector{raw, len(raw) / 2, c.err}, m, Options{Path: "x.db"})
			if !errors.Is(err, c.kind) || errors.Is(err, ErrDamaged) {
				t.Errorf("%v: %v, want %v", c.err, err, c.kind)
			}
		}
	})
}

// badSector is a file that ends, or whose disk fails, at a place.
type badSector struct {
	raw []byte
	at  int
	err error
}

func (b badSector) ReadAt(p []byte, off int64) (int, error) {
	if int(off)+len(p) > b.at && b.err != nil {
		return 0, &os.PathError{Op: "read", Path: "x.db", Err: b.err}
	}
	return bytes.NewReader(b.raw[:b.at]).ReadAt(p, off)
}

// TestLongFreelist: beyond 65,534 entries their number has another place.
func TestLongFreelist(t *testing.T) {
	const entries = 70_000
	const pages = 1 + (16+8+entries*8)/4096
	le := binary.LittleEndian
	list := func() []byte {
		raw := make([]byte, (3+pages)*4096)
		p := raw[2*4096:]
		le.PutUint64(p, 2)
		le.PutUint16(p[8:], flagFreelist)
		le.PutUint16(p[10:], manyFree)
		le.PutUint32(p[12:], pages-1)
		le.PutUint64(p[16:], entries)
		for i := range entries {
			le.PutUint64(p[24+i*8:], uint64(1000+i))
		}
		return raw
	}
	m := Meta{PageSize: 4096, Freelist: 2, HighWater: 1000 + entries}
	read := func(raw []byte) (n int64, err error) {
		l, err := openList(&pageReader{r: bytes.NewReader(raw), size: 4096, high: m.HighWater}, m)
		if err != nil {
			return 0, err
		}
		return l.count, l.each(func(uint64) error { return nil })
	}
	if n, err := read(list()); n != entries || err != nil {
		t.Errorf("%d %v", n, err)
	}
	for name, spoil := range map[string]func(p []byte){
		"has room for":  func(p []byte) { le.PutUint64(p[16:], 1<<40) },
		"has room":      func(p []byte) { le.PutUint64(p[16:], 1<<63) },
		"lists page":    func(p []byte) { le.PutUint64(p[24+8*60000:], 5) },
		"after page":    func(p []byte) { le.PutUint64(p[24+8*69999:], m.HighWater) },
		"no list":       func(p []byte) { p[8] = flagLeaf },
		"it is page":    func(p []byte) { p[0] = 9 },
		"overflow page": func(p []byte) { le.PutUint32(p[12:], 1<<31) },
	} {
		raw := list()
		spoil(raw[2*4096:])
		if _, err := read(raw); err == nil || !contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFreeAndUsed: a list that holds a page in use is the worst damage of all,
// since the next commit writes over that page.
func TestFreeAndUsed(t *testing.T) {
	path := newStore(t, 300)
	f := mustOpen(t, Options{Path: path})
	if err := f.CloseClean(nil); err != nil {
		t.Fatal(err)
	}
	m := mustReadMeta(t, path)
	editFile(t, path, func(raw []byte) { // the first entry becomes the root page
		p := raw[int64(m.Freelist)*m.PageSize:]
		binary.LittleEndian.PutUint16(p[10:], 1)
		binary.LittleEndian.PutUint64(p[16:], m.Root)
	})
	_, err := Open(Options{Path: path})
	wantKind(t, err, ErrDamaged, "free pages", "in use")
}

// TestInlineBuckets: the page inside a value is checked like any other.
func TestInlineBuckets(t *testing.T) {
	path := newStore(t, 1)
	f := mustOpen(t, Options{Path: path})
	err := f.DB().Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket([]byte("inline"))
		return errors.Join(err, b.Put([]byte("aaaa"), []byte("needle")), b.Put([]byte("bbbb"), []byte("value")))
	})
	if err != nil {
		t.Fatal(err)
	}
	mustClose(t, f)
	base, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	m := mustReadMeta(t, path)
	root := base[int64(m.Root)*m.PageSize:]
	page := int64(m.Root)*m.PageSize + int64(bytes.Index(root, []byte("aaaaneedle"))) - 2*elementSize - pageHeaderSize
	le := binary.LittleEndian
	for _, c := range []struct {
		says  string
		spoil func(p []byte)
	}{
		{"no leaf", func(p []byte) { p[8] = flagBranch }},
		{"no leaf", func(p []byte) { p[12] = 1 }},
		{"outside its page", func(p []byte) { le.PutUint16(p[10:], 900) }},
		{"outside its page", func(p []byte) { le.PutUint32(p[20:], 1<<20) }},
		{"outside its page", func(p []byte) { le.PutUint32(p[28:], 4000) }},
		{"unknown flags", func(p []byte) { p[16] = bucketElement }},
		{"impossible length", func(p []byte) { p[24] = 0 }},
		{"out of order", func(p []byte) { copy(p[48:], "cccc") }},
	} {
		raw := bytes.Clone(base)
		c.spoil(raw[page:])
		spoilt := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(spoilt, raw, fileMode); err != nil {
			t.Fatal(err)
		}
		_, err := Verify(Options{Path: spoilt})
		wantKind(t, err, ErrDamaged, c.says)
	}
}

// TestKinds: every kind can be shown to a person, with a code that is its own.
func TestKinds(t *testing.T) {
	seen := map[string]bool{}
	for _, k := range []Kind{ErrLocked, ErrEmpty, ErrForeign, ErrTruncated, ErrDamaged, ErrNewer, ErrNotRegular,
		ErrReadOnlyFS, ErrPermission, ErrAbsent, ErrNoSpace, ErrIO, ErrGone, ErrUnclean, ErrWitness} {
		e := fileErr(k, "/var/x\n.db", unix.EIO)
		text := e.Error()
		if seen[text] || contains(text, string(k)) || !contains(text, `"/var/x\n.db"`) || strings.ContainsRune(text, '\n') {
			t.Errorf("%s: %q", k, text)
		}
		seen[text] = true
		if !errors.Is(e, k) || !errors.Is(e, unix.EIO) || e.Code() != k.Code() || e.Advice() != e.Hint || k.Error() == "" {
			t.Errorf("%s: %+v", k, e)
		}
	}
}

// TestLockFileRemoved: the lock on the store itself still keeps others away.
func TestLockFileRemoved(t *testing.T) {
	path := newStore(t, 5)
	f := mustOpen(t, Options{Path: path})
	if err := os.Remove(path + lockSuffix); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Path: path, LockTimeout: 1})
	wantKind(t, err, ErrLocked, path)
	addRecords(t, f, 5, 10)
}

// BenchmarkWalk is what an unclean start pays beside reading the file.
func BenchmarkWalk(b *testing.B) {
	path := newStore(b, 20_000)
	f, err := os.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	m, _, err := readMeta(f, path)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(m.Bytes())
	for b.Loop() {
		if _, err := walk(f, m, Options{Path: path}); err != nil {
			b.Fatal(err)
		}
	}
}
