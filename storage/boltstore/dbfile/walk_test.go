package dbfile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
	"pgregory.net/rapid"
)

// TestWalkAcceptsWhatBoltWrites: the walk is stricter than bbolt's own check, so
// it must be shown never to refuse a sound file. Random transactions, with and
// without a list of free pages, over small and large keys and values, and
// buckets in buckets; after each, the walk agrees and counts what is there.
func TestWalkAcceptsWhatBoltWrites(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		path := filepath.Join(dir, fmt.Sprintf("%d.db", n))
		pageSize := rapid.SampledFrom([]int{1 << 10, 4 << 10, 16 << 10}).Draw(t, "page size")
		db, err := bolt.Open(path, 0o600, &bolt.Options{
			PageSize: pageSize, NoSync: true, NoGrowSync: true, FreelistType: bolt.FreelistMapType})
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(path)
		defer db.Close()
		for range rapid.IntRange(1, 8).Draw(t, "transactions") {
			db.NoFreelistSync = rapid.Bool().Draw(t, "no list")
			randomTx(t, db)
			checkWalk(t, db, path)
		}
	})
	if n < 10 {
		t.Errorf("only %d cases", n)
	}
}

// randomTx changes many neighbouring keys at once, so that pages split, merge,
// and lose their first key.
func randomTx(t *rapid.T, db *bolt.DB) {
	err := db.Update(func(tx *bolt.Tx) error {
		for range rapid.IntRange(1, 6).Draw(t, "runs") {
			name := fmt.Appendf(nil, "b%d", rapid.IntRange(0, 2).Draw(t, "bucket"))
			if rapid.IntRange(0, 9).Draw(t, "drop") == 0 && tx.Bucket(name) != nil {
				if err := tx.DeleteBucket(name); err != nil {
					return err
				}
			}
			b, err := tx.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			if rapid.Bool().Draw(t, "nested") {
				if b, err = b.CreateBucketIfNotExists([]byte("nested")); err != nil {
					return err
				}
			}
			if err := randomRun(t, b); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func randomRun(t *rapid.T, b *bolt.Bucket) error {
	from := rapid.IntRange(0, 3000).Draw(t, "from")
	count := rapid.IntRange(1, 400).Draw(t, "count")
	step := rapid.IntRange(1, 7).Draw(t, "step")
	keyPad := strings.Repeat("p", rapid.SampledFrom([]int{0, 1, 30, 700}).Draw(t, "key pad"))
	value := make([]byte, rapid.SampledFrom([]int{0, 8, 100, 900, 9000}).Draw(t, "value"))
	remove := rapid.Bool().Draw(t, "remove")
	for i := range count {
		key := fmt.Appendf(nil, "%06d%s", from+i*step, keyPad)
		var err error
		if remove {
			err = b.Delete(key)
		} else {
			err = b.Put(key, value)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkWalk(t *rapid.T, db *bolt.DB, path string) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	newest, _, err := readMeta(f, path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := walk(f, newest, Options{Path: path})
	if err != nil {
		t.Fatalf("the walk refuses what bbolt wrote: %v", err)
	}
	keys, buckets := int64(0), int64(1)
	err = db.View(func(tx *bolt.Tx) error {
		for err := range tx.Check() {
			t.Errorf("bbolt's own check: %v", err)
		}
		return countAll(tx.Cursor(), tx.Bucket, &keys, &buckets)
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Keys != keys || got.Buckets != buckets || got.Leaked != 0 {
		t.Fatalf("walk: %+v; want %d keys in %d buckets, none leaked", got, keys, buckets)
	}
}

func countAll(c *bolt.Cursor, sub func([]byte) *bolt.Bucket, keys, buckets *int64) error {
	for k, v := c.First(); k != nil; k, v = c.Next() {
		*keys++
		if v == nil {
			*buckets++
			b := sub(k)
			if err := countAll(b.Cursor(), b.Bucket, keys, buckets); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestWalkNames: each kind of damage is found where it is and said in words.
func TestWalkNames(t *testing.T) {
	base := richStore(t)
	m, _ := newestOf(t, base)
	leaf, branchPage := findPages(t, base, m)
	le := binary.LittleEndian
	at := func(page uint64, off int) int { return int(page)*int(m.PageSize) + off }
	for _, c := range []struct {
		name, says string
		spoil      func(raw []byte)
	}{
		{"a page with another's number", "says that it is page", func(b []byte) { b[at(leaf, 0)]++ }},
		{"a page of no kind", "neither branch nor leaf", func(b []byte) { b[at(leaf, 8)] = 0 }},
		{"a page of two kinds", "neither branch nor leaf", func(b []byte) { b[at(leaf, 8)] = 3 }},
		{"overflow past the end", "outside the file", func(b []byte) { le.PutUint32(b[at(leaf, 12):], 1<<30) }},
		{"overflow over a page in use", "overflow pages", func(b []byte) { le.PutUint32(b[at(branchPage, 12):], 200) }},
		{"a table longer than the page", "outside its page", func(b []byte) { le.PutUint16(b[at(leaf, 10):], 60000) }},
		{"a key outside the page", "outside its page", func(b []byte) { le.PutUint32(b[at(leaf, 16+4):], 1<<31) }},
		{"a key inside the table", "outside its page", func(b []byte) { le.PutUint32(b[at(leaf, 16+4):], 0) }},
		{"a key without length", "impossible length", func(b []byte) { le.PutUint32(b[at(leaf, 16+8):], 0) }},
		{"a value outside the page", "outside its page", func(b []byte) { le.PutUint32(b[at(leaf, 16+12):], 1<<30) }},
		{"unknown flags", "unknown flags", func(b []byte) { le.PutUint32(b[at(leaf, 32):], 8) }},
		{"a value called a bucket", "bucket", func(b []byte) { le.PutUint32(b[at(leaf, 32):], 1) }},
		{"keys out of order", "out of order", func(b []byte) { swapElements(b[at(leaf, 0):]) }},
		{"a child far away", "outside the file", func(b []byte) { le.PutUint64(b[at(branchPage, 16+8):], 1<<40) }},
		{"a child that is a meta page", "outside the file", func(b []byte) { le.PutUint64(b[at(branchPage, 16+8):], 1) }},
		{"a cycle", "used elsewhere", func(b []byte) { le.PutUint64(b[at(branchPage, 16+8):], branchPage) }},
		{"one child twice", "used elsewhere", func(b []byte) {
			copy(b[at(branchPage, 32+8):at(branchPage, 32+16)], b[at(branchPage, 16+8):])
		}},
		{"a branch without children", "without children", func(b []byte) { le.PutUint16(b[at(branchPage, 10):], 0) }},
		{"a record beside the buckets", "plain record", func(b []byte) { le.PutUint32(b[at(m.Root, 16):], 0) }},
		{"a leaf emptied", "empty page", func(b []byte) { le.PutUint16(b[at(leaf, 10):], 0) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := bytes.Clone(base)
			c.spoil(raw)
			path := filepath.Join(t.TempDir(), "store.db")
			if err := os.WriteFile(path, raw, fileMode); err != nil {
				t.Fatal(err)
			}
			_, err := Verify(Options{Path: path})
			wantKind(t, err, ErrDamaged, path, c.says, "page")
			_, openErr := Open(Options{Path: path})
			wantKind(t, openErr, ErrDamaged, c.says)
		})
	}
}

// swapElements exchanges where the first two entries of a leaf point to.
func swapElements(page []byte) {
	a, b := page[16:32], page[32:48]
	tmp := bytes.Clone(a)
	copy(a, b)
	copy(b, tmp)
	le := binary.LittleEndian // positions count from the element itself
	le.PutUint32(a[4:], le.Uint32(a[4:])+16)
	le.PutUint32(b[4:], le.Uint32(b[4:])-16)
}

// findPages gives a full leaf of plain records and the branch above it.
func findPages(t *testing.T, raw []byte, m Meta) (leaf, parent uint64) {
	t.Helper()
	le := binary.LittleEndian
	reachable := map[uint64]bool{}
	w := newWalker(bytes.NewReader(raw), m, Options{})
	if err := w.run(); err != nil {
		t.Fatal(err)
	}
	for id := uint64(2); id < m.HighWater; id++ {
		reachable[id] = w.isSeen(id)
	}
	for id := uint64(2); id < m.HighWater; id++ {
		page := raw[int64(id)*m.PageSize : int64(id+1)*m.PageSize]
		h := parseHeader(page)
		if !reachable[id] || h.id != id || h.flags != flagBranch || h.count < 3 {
			continue
		}
		child := le.Uint64(page[pageHeaderSize+8:])
		c := parseHeader(raw[int64(child)*m.PageSize:])
		if c.flags == flagLeaf && c.count > 3 && c.overflow == 0 {
			return child, id
		}
	}
	t.Fatal("no leaf below a branch")
	return 0, 0
}

// TestWalkBounds: what the file says decides neither memory nor depth.
func TestWalkBounds(t *testing.T) {
	t.Run("a value of 64 MiB is skipped, not read", func(t *testing.T) {
		path := newStore(t, 10)
		f := mustOpen(t, Options{Path: path})
		err := f.DB().Update(func(tx *bolt.Tx) error {
			return tx.Bucket(testBucket).Put([]byte("huge"), make([]byte, 64<<20))
		})
		if err != nil {
			t.Fatal(err)
		}
		mustClose(t, f)
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		newest, _, err := readMeta(file, path)
		if err != nil {
			t.Fatal(err)
		}
		counted := &countingReader{r: file}
		if _, err := walk(counted, newest, Options{Path: path}); err != nil {
			t.Fatal(err)
		}
		if counted.n > 1<<20 {
			t.Errorf("%d bytes read", counted.n)
		}
	})
	t.Run("a chain of branches is cut at the limit", func(t *testing.T) {
		raw := branchChain(maxDepth + 5)
		path := filepath.Join(t.TempDir(), "store.db")
		if err := os.WriteFile(path, raw, fileMode); err != nil {
			t.Fatal(err)
		}
		_, err := Open(Options{Path: path})
		wantKind(t, err, ErrDamaged, "deeper than")
	})
	t.Run("a sparse file of 10 GB opens at once", func(t *testing.T) {
		path := newStore(t, 10)
		if err := os.Truncate(path, 10<<30); err != nil {
			t.Skip(err)
		}
		f := mustOpen(t, Options{Path: path})
		if size, free := f.Size(); size != 10<<30 || free < 9<<30 || countRecords(t, f) != 10 {
			t.Errorf("size %d, free %d", size, free)
		}
	})
}

type countingReader struct {
	r interface {
		ReadAt([]byte, int64) (int, error)
	}
	n int64
}

func (c *countingReader) ReadAt(b []byte, off int64) (int, error) {
	c.n += int64(len(b))
	return c.r.ReadAt(b, off)
}

// branchChain is a file whose root is a branch with one child, which is a branch
// with one child, and so on.
func branchChain(n int) []byte {
	const size = 4096
	le := binary.LittleEndian
	raw := make([]byte, (n+4)*size)
	for i := range n {
		id := uint64(i + 2)
		p := raw[int(id)*size:]
		le.PutUint64(p, id)
		le.PutUint16(p[8:], flagBranch)
		le.PutUint16(p[10:], 1)
		le.PutUint32(p[16:], 16)
		le.PutUint32(p[20:], 1)
		le.PutUint64(p[24:], id+1)
		p[32] = 'k'
	}
	for slot := range 2 {
		putMeta(raw[slot*size:], Meta{Slot: slot, Txid: uint64(slot + 5), PageSize: size, Root: 2,
			Freelist: noFreelist, HighWater: uint64(n + 3)})
	}
	return raw
}
