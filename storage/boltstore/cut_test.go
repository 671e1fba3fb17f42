package boltstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// TestCut cuts the tail of a trail at every block, in two ways. Whoever kept an older
// file puts it back: it is sound in itself, whatever is checked. Whoever can write the
// file takes away the last blocks, what the index says of them, and sets the counters
// accordingly. Both are found by whoever has a checkpoint, and the verdict is that the
// end is missing, not that something is another.
func TestCut(t *testing.T) {
	t.Parallel()
	sp := newSpecimen(t)
	path := filepath.Join(t.TempDir(), "copy.db")
	t.Run("an_older_file", func(t *testing.T) {
		for _, body := range sp.snapshots {
			sp.write(t, path, body)
			v := sp.verify(t, path)
			if len(v.Findings) > 0 || v.Head == sp.witness.Head {
				t.Errorf("up to block %d: %+v", v.Head.Block, v.Findings)
			}
			if v.Verdicts[0] != queue.WitnessCut {
				t.Errorf("up to block %d the verdict is %q", v.Head.Block, v.Verdicts[0])
			}
		}
		if len(sp.snapshots) < 20 {
			t.Errorf("only %d older files", len(sp.snapshots))
		}
	})
	t.Run("blocks_taken_away", func(t *testing.T) {
		last := sp.witness.Block
		seed := uint64(time.Now().UnixNano())
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 4))
		for range min(int(last)-1, *damageRounds) {
			keep := 1 + rng.Uint64N(last-1)
			sp.write(t, path, sp.body)
			cutTrail(t, path, keep)
			v := sp.verify(t, path)
			if v.Verdicts[0] != queue.WitnessCut || v.Head.Block != keep {
				t.Errorf("cut to %d of %d blocks: the trail ends at %d, the verdict is %q", keep, last, v.Head.Block, v.Verdicts[0])
			}
		}
	})
}

// TestRewritten changes an outcome and writes every block behind it anew, hashes and
// all. Nothing in the file contradicts that; a checkpoint does, unless it is of before.
func TestRewritten(t *testing.T) {
	sp := newSpecimen(t)
	path := filepath.Join(t.TempDir(), "copy.db")
	sp.write(t, path, sp.body)
	first := rewriteTrail(t, path)
	v := sp.verify(t, path)
	if len(v.Findings) > 0 {
		t.Errorf("a chain that was written anew is whole in itself: %+v", v.Findings)
	}
	if v.Verdicts[0] != queue.WitnessDiffers {
		t.Errorf("the verdict is %q", v.Verdicts[0])
	}
	if first < 2 || first >= sp.witness.Block {
		t.Fatalf("block %d was rewritten", first)
	}
}

func (sp *specimen) verify(t *testing.T, path string) queue.Verification {
	t.Helper()
	o := damageOptions
	o.Path = path
	s, err := openLight(t, OpenCopy, o)
	if err != nil {
		t.Fatal(err)
	}
	v, err := s.Verify(context.Background(), queue.VerifyOptions{Buckets: true, Witnesses: []queue.Witness{sp.witness}})
	if err := errors.Join(err, s.Close()); err != nil {
		t.Fatal(err)
	}
	return v
}

// cutTrail takes every block behind one out of a file.
func cutTrail(t *testing.T, path string, keep uint64) {
	t.Helper()
	amendFile(t, path, func(tx *bolt.Tx) error {
		audit, index := tx.Bucket(bucketAudit), tx.Bucket(bucketTrailIndex)
		for _, b := range []*bolt.Bucket{audit, index} {
			c := b.Cursor()
			for at, _ := c.Seek(seqKey(keep + 1)); at != nil; at, _ = c.Next() {
				if err := c.Delete(); err != nil {
					return err
				}
			}
		}
		b, err := queue.ParseBlock(keep, audit.Get(seqKey(keep)))
		if err != nil {
			return err
		}
		return setHead(tx, b)
	})
}

// setHead makes the counters say that the trail ends with a block.
func setHead(tx *bolt.Tx, b queue.Block) error {
	meta := tx.Bucket(bucketMeta)
	c, err := parseCounters(meta.Get(metaCounters))
	if err != nil {
		return err
	}
	c.head, c.lastN = b.Head(), b.LastN()
	if err := meta.Put(metaCounters, c.append(nil)); err != nil {
		return err
	}
	y, err := parseTally(meta.Get(metaTally))
	if err != nil {
		return err
	}
	y.lastN = c.lastN
	return errors.Join(meta.Put(metaTally, y.append(nil)), meta.Delete(metaArchived))
}

// rewriteTrail changes the first outcome of a trail, and returns in which block.
func rewriteTrail(t *testing.T, path string) (first uint64) {
	t.Helper()
	amendFile(t, path, func(tx *bolt.Tx) error {
		audit := tx.Bucket(bucketAudit)
		var blocks []queue.Block
		err := audit.ForEach(func(at, data []byte) error {
			b, err := queue.ParseBlock(binary.BigEndian.Uint64(at), data)
			blocks = append(blocks, b)
			return err
		})
		if err != nil {
			return err
		}
		head := queue.Head{}
		for _, b := range blocks {
			if first == 0 && bytes.Contains(b.Plain, []byte("APPROVED")) {
				first = b.Number
				b.Plain = bytes.Replace(b.Plain, []byte("APPROVED"), []byte("REJECTED"), 1)
			}
			head = head.Next(b.FirstN, b.Count, b.Plain)
			b.Hash = head.Hash
			if err := audit.Put(seqKey(b.Number), queue.AppendBlock(nil, b, true)); err != nil {
				return err
			}
			if err := setHead(tx, b); err != nil {
				return err
			}
		}
		return nil
	})
	return first
}

// amendFile changes a file that nobody has open.
func amendFile(t *testing.T, path string, change func(*bolt.Tx) error) {
	t.Helper()
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(db.Update(change), db.Close()); err != nil {
		t.Fatal(err)
	}
}
