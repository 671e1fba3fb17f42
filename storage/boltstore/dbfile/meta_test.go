package dbfile

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"os"
	"path/filepath"
	"strings"
	"testing"

	bolt "go.etcd.io/bbolt"
)

// putMeta writes a meta page as bbolt does.
func putMeta(page []byte, m Meta) {
	le := binary.LittleEndian
	le.PutUint64(page, uint64(m.Slot))
	le.PutUint16(page[8:], flagMeta)
	b := page[pageHeaderSize:]
	le.PutUint32(b, metaMagic)
	le.PutUint32(b[4:], metaVersion)
	le.PutUint32(b[8:], uint32(m.PageSize))
	le.PutUint64(b[16:], m.Root)
	le.PutUint64(b[32:], m.Freelist)
	le.PutUint64(b[40:], m.HighWater)
	le.PutUint64(b[48:], m.Txid)
	sealMeta(page)
}

func sealMeta(page []byte) {
	h := fnv.New64a()
	h.Write(page[pageHeaderSize : pageHeaderSize+56])
	binary.LittleEndian.PutUint64(page[pageHeaderSize+56:], h.Sum64())
}

// TestMetaGolden: a meta page as bbolt 1.5.0 wrote it, byte for byte.
func TestMetaGolden(t *testing.T) {
	raw, err := hex.DecodeString(strings.ReplaceAll(goldenMeta, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	m := parseMeta(raw, 1)
	want := Meta{Slot: 1, Txid: 1, PageSize: 4096, Root: 3, Freelist: 2, HighWater: 4}
	if m != want {
		t.Errorf("%+v, want %+v", m, want)
	}
}

const goldenMeta = "01000000000000000400000000000000edda0ced020000000010000000000000030000000000000000000000000000000200000000000000040000000000000001000000000000000f4879511a354c26"

func TestReadMeta(t *testing.T) {
	t.Run("every page size that bbolt can have", func(t *testing.T) {
		for size := minPageSize; size <= maxPageSize; size *= 2 {
			path := filepath.Join(t.TempDir(), "store.db")
			db, err := bolt.Open(path, 0o600, &bolt.Options{PageSize: size, NoFreelistSync: true})
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if err := db.Update(func(tx *bolt.Tx) error {
					_, err := tx.CreateBucketIfNotExists(testBucket)
					return err
				}); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			newest, other, err := ReadMeta(path)
			if err != nil || newest.PageSize != int64(size) || newest.Txid != 4 || other.Txid != 3 || newest.HasFreelist() {
				t.Errorf("page size %d: %+v %+v %v", size, newest, other, err)
			}
			spoilFirstMeta(t, path)
			newest, other, err = ReadMeta(path)
			if err != nil || newest.Txid != 3 || newest.Slot != 1 || other.Err == nil {
				t.Errorf("page size %d, first meta page lost: %+v %+v %v", size, newest, other, err)
			}
			f := mustOpen(t, storeOptions(path))
			if r := f.Report(); !r.MetaFallback || !contains(r.Fallback, "transaction 3") {
				t.Errorf("page size %d: fallback is silent: %+v", size, r)
			}
			addRecords(t, f, 0, 50)
			mustClose(t, f)
		}
	})
	t.Run("a later bbolt format is refused as newer", func(t *testing.T) {
		path := newStore(t, 3)
		editFile(t, path, func(raw []byte) {
			for slot := range 2 {
				page := raw[slot*os.Getpagesize():]
				binary.LittleEndian.PutUint32(page[pageHeaderSize+4:], 3)
				sealMeta(page)
			}
		})
		_, err := Open(Options{Path: path})
		wantKind(t, err, ErrNewer, path, "format 3")
	})
	t.Run("a root or a list outside the file is damage", func(t *testing.T) {
		for _, m := range []Meta{
			{Root: 1, Freelist: noFreelist, HighWater: 9},
			{Root: 9, Freelist: noFreelist, HighWater: 9},
			{Root: 3, Freelist: 1, HighWater: 9},
			{Root: 3, Freelist: 9, HighWater: 9},
			{Root: 3, Freelist: noFreelist, HighWater: 0},
			{Root: 3, Freelist: noFreelist, HighWater: 1 << 60},
		} {
			m.PageSize = 4096
			path := filepath.Join(t.TempDir(), "store.db")
			raw := make([]byte, 16*4096)
			m.Txid, m.Slot = 1, 1
			putMeta(raw[4096:], m)
			m.Txid, m.Slot = 2, 0
			putMeta(raw, m)
			if err := os.WriteFile(path, raw, fileMode); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Options{Path: path})
			wantKind(t, err, ErrDamaged, path)
		}
	})
	t.Run("meta pages that do not follow each other are reported", func(t *testing.T) {
		path := newStore(t, 3)
		editFile(t, path, func(raw []byte) {
			newest, other := newestOf(t, raw)
			other.Txid -= 4
			putMeta(raw[int64(other.Slot)*other.PageSize:], other)
			_ = newest
		})
		if r := mustOpen(t, Options{Path: path}).Report(); !contains(r.Fallback, "follow each other") {
			t.Errorf("%+v", r)
		}
	})
}

// editFile changes a file in place.
func editFile(t *testing.T, path string, edit func(raw []byte)) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	edit(raw)
	if err := os.WriteFile(path, raw, fileMode); err != nil {
		t.Fatal(err)
	}
}

func spoilFirstMeta(t *testing.T, path string) {
	t.Helper()
	editFile(t, path, func(raw []byte) { raw[pageHeaderSize+50] ^= 1 })
}

// FuzzFile: whatever the bytes, judging and walking them ends with an answer.
func FuzzFile(f *testing.F) {
	f.Add([]byte("not a store"))
	f.Add(branchChain(3))
	f.Add(bytes.Repeat([]byte{0}, 9000))
	small := filepath.Join(f.TempDir(), "small.db")
	db, err := bolt.Open(small, 0o600, &bolt.Options{PageSize: 1024})
	if err != nil {
		f.Fatal(err)
	}
	if err := db.Update(func(tx *bolt.Tx) error {
		b, err := tx.CreateBucket(testBucket)
		for i := byte(0); err == nil && i < 90; i++ {
			err = b.Put([]byte{'k', i}, make([]byte, 20))
		}
		return err
	}); err != nil {
		f.Fatal(err)
	}
	db.Close()
	raw, err := os.ReadFile(small)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw[:min(len(raw), 16<<10)])
	f.Fuzz(func(t *testing.T, raw []byte) {
		// The fuzzer cannot guess a checksum: seal what is there.
		for _, at := range []int{0, 1024, 4096} {
			if len(raw) >= at+metaPageBytes {
				sealMeta(raw[at:])
			}
		}
		path := filepath.Join(t.TempDir(), "fuzz.db")
		if err := os.WriteFile(path, raw, fileMode); err != nil {
			t.Fatal(err)
		}
		if _, err := Verify(Options{Path: path}); err != nil && err.Error() == "" {
			t.Error("an error without a text")
		}
	})
}
