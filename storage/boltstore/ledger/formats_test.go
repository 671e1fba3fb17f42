package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/klauspost/compress/zstd"
	bolt "go.etcd.io/bbolt"
)

// formatVersions are the folders of testdata/formats whose ledgers have the form of today.
var formatVersions = []string{"v1"}

// TestFormats reads the ledgers of the stores of old versions, value by value, and writes
// each anew: what comes out must be what is there, or old files and new ones would differ
// under one number. Package boltstore has the stores live on.
func TestFormats(t *testing.T) {
	seen := map[string]int{}
	for _, version := range formatVersions {
		names, err := filepath.Glob("../../../testdata/formats/" + version + "/*.db.zst")
		if err != nil || len(names) == 0 {
			t.Fatalf("no stores of %s (%v)", version, err)
		}
		for _, name := range names {
			t.Run(version+"/"+filepath.Base(name), func(t *testing.T) { rewriteAll(t, name, seen) })
		}
	}
	for _, what := range []string{"record of the log", "record of a block", "first of its key", "settled", "outcome", "piece of a filter", "manifest", "state forgotten"} {
		if seen[what] == 0 {
			t.Errorf("there is no %s", what)
		}
	}
}

// rewriteAll decodes and encodes every value of a ledger.
func rewriteAll(t *testing.T, name string, seen map[string]int) {
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	body, err := d.DecodeAll(packed, nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "copy.db")
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, one := range []struct {
			bucket []byte
			again  func(key, value []byte) ([]byte, error)
		}{
			{bucketLog, func(key, value []byte) ([]byte, error) { return recordsAgain(bucketLog, key, value, "log", seen) }},
			{bucketBlocks, func(key, value []byte) ([]byte, error) { return recordsAgain(bucketBlocks, key, value, "block", seen) }},
			{bucketFilters, func(key, value []byte) ([]byte, error) { return pieceAgain(tx, key, value, seen) }},
			{bucketManifest, func(_, _ []byte) ([]byte, error) { return manifestAgain(tx, seen) }},
		} {
			err := tx.Bucket(one.bucket).ForEach(func(key, value []byte) error {
				again, err := one.again(key, value)
				if err == nil && !bytes.Equal(again, value) {
					err = fmt.Errorf("bucket %s, key %x is written otherwise now:\n%x\nin the file\n%x", one.bucket, key, again, value)
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Error(err)
	}
}

// recordsAgain is a value of the log or a block, from the entries in it.
func recordsAgain(bucket, key, value []byte, where string, seen map[string]int) ([]byte, error) {
	rest, err := body(bucket, key, value)
	if err != nil {
		return nil, err
	}
	again := make([]byte, crcLen)
	for len(rest) > 0 {
		r, tail, ok := cutRecord(rest)
		if !ok {
			return nil, damage(bucket, key, "record cut short")
		}
		e := r.entry()
		e.New = r[stateByte]&flagFresh != 0 // it is for the log's replay, not for readers
		seen["record of the log"] += count(where == "log")
		seen["record of a block"] += count(where == "block")
		seen["first of its key"] += count(e.New)
		seen["settled"] += count(e.SettledAt != 0)
		seen["outcome"] += count(e.Outcome != "")
		seen["state "+e.State.String()]++
		again, rest = appendRecord(again, &e), tail
	}
	sign(key, again)
	return again, nil
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// pieceAgain is a piece of a filter, from the blocks of its run. The blocks of a segment
// that is being cleared away may be gone before its pieces.
func pieceAgain(tx *bolt.Tx, key, value []byte, seen map[string]int) ([]byte, error) {
	p, err := readPiece(key, value)
	if err != nil {
		return nil, err
	}
	seen["piece of a filter"]++
	if tx.Bucket(bucketBlocks).Get(key) != nil {
		c := tx.Bucket(bucketFilters).Cursor()
		_, _ = c.Seek(key)
		before, _ := c.Prev()
		if !ofSegment(before, binary.BigEndian.Uint64(key)) {
			before = nil
		}
		made, _, err := rebuildPiece(tx, binary.BigEndian.Uint64(key), before, key)
		if err != nil {
			return nil, err
		}
		p = made
	}
	scratch, err := tx.CreateBucketIfNotExists([]byte("scratch"))
	if err != nil {
		return nil, err
	}
	if err := p.put(scratch, key); err != nil {
		return nil, err
	}
	return scratch.Get(key), nil
}

// manifestAgain is the manifest, from what was read of it.
func manifestAgain(tx *bolt.Tx, seen map[string]int) ([]byte, error) {
	m, err := readManifest(tx)
	if err != nil {
		return nil, err
	}
	seen["manifest"]++
	text, err := json.Marshal(m)
	again := append(make([]byte, crcLen), text...)
	sign(manifestKey, again)
	return again, err
}
