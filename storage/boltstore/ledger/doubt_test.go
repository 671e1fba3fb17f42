package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

var damageSeed = flag.Uint64("damage.seed", 1, "seed of the tests that spoil blocks, 0: a new one")

// dice are what these tests roll, each its own; the log has what repeats them.
func dice(t *testing.T) *rand.Rand {
	seed := *damageSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-damage.seed=%d", seed)
	own := fnv.New64a()
	_, _ = own.Write([]byte(t.Name()))
	return rand.New(rand.NewPCG(seed, own.Sum64()))
}

// block is a stored block of a published segment.
type block struct {
	seg        *segment
	key, value []byte
}

// blocks returns all blocks of the published segments.
func (m *machine) blocks() (list []block) {
	for _, s := range m.l.segments {
		c := m.tx.Bucket(bucketBlocks).Cursor()
		for key, value := c.Seek(segmentKey(s.id, Key{})); ofSegment(key, s.id); key, value = c.Next() {
			list = append(list, block{s, bytes.Clone(key), bytes.Clone(value)})
		}
	}
	return list
}

// keys returns the keys that the block has.
func (b *block) keys() map[Key]bool {
	keys := map[Key]bool{}
	for rest := b.value[crcLen:]; len(rest) > 0; {
		r, tail, _ := cutRecord(rest)
		keys[r.key()], rest = true, tail
	}
	return keys
}

// spoil changes a byte of the block's value.
func (b *block) spoil(t *testing.T, m *machine, rng *rand.Rand) {
	bad := bytes.Clone(b.value)
	bad[rng.IntN(len(bad))] ^= byte(1 + rng.IntN(255))
	put(t, m.tx.Bucket(bucketBlocks), b.key, bad)
}

// mend puts it right again, unless it is gone: a merge may have read it before it was
// spoilt.
func (b *block) mend(t *testing.T, m *machine) (there bool) {
	t.Helper()
	if there = m.tx.Bucket(bucketBlocks).Get(b.key) != nil; there {
		put(t, m.tx.Bucket(bucketBlocks), b.key, b.value)
	}
	return there
}

// newest says whether nothing newer than a block's segment has a key.
func (m *machine) newest(b *block, k Key) bool {
	if m.l.active.get(k) != nil || m.l.frozen.get(k) != nil {
		return false
	}
	for _, s := range m.l.segments {
		if s == b.seg {
			return true
		}
		if r, err := s.find(m.tx, k); r != nil || err != nil {
			return false
		}
	}
	return false
}

// doubts asks for every key and some that were never put, and returns those that are in
// doubt. Every other answer must be the model's.
func (m *machine) doubts(t *testing.T) map[Key]bool {
	t.Helper()
	in := map[Key]bool{}
	for n := range 2000 {
		k := numbered(n)
		got, ok, err := m.l.Get(m.tx, k)
		want, wanted := m.model[k]
		switch {
		case errors.As(err, new(*DoubtError)) && errors.Is(err, queue.ErrDamaged):
			in[k] = true
		case err != nil || ok != wanted || got != want:
			t.Fatalf("Get(key %d) = %+v, %v, %v, want %+v, %v", n, got, ok, err, want, wanted)
		}
	}
	return in
}

func TestDoubt(t *testing.T) {
	t.Run("is_of_the_damaged_blocks_keys_and_of_no_others", func(t *testing.T) {
		m := damaged(t)
		rng := dice(t)
		strangers, asked := 0, 0
		for _, b := range m.blocks() {
			keys := b.keys()
			must := map[Key]bool{}
			for k := range keys {
				must[k] = m.newest(&b, k)
			}
			b.spoil(t, m, rng)
			in := m.doubts(t)
			for k := range keys {
				if in[k] != must[k] {
					t.Fatalf("a key of damaged block %x is in doubt: %v; it should be: %v", b.key, in[k], must[k])
				}
				delete(in, k)
			}
			strangers += len(in) // for which the filter errs
			asked += 2000
			b.mend(t, m)
		}
		if asked < 40000 || strangers*1000 > asked {
			t.Errorf("of %d keys %d others were in doubt", asked, strangers)
		}
		if in := m.doubts(t); len(in) > 0 {
			t.Errorf("%d keys are in doubt when all is mended", len(in))
		}
	})

	t.Run("more_damaged_segments_than_the_limit_are_no_doubt_but_an_end", func(t *testing.T) {
		m := damaged(t)
		m.l.sizes.maxDamaged = 1
		spoilt := map[*segment]bool{}
		var last block
		for _, b := range m.blocks() {
			if !spoilt[b.seg] && len(spoilt) < 2 {
				spoilt[b.seg], last = true, b
				b.spoil(t, m, dice(t))
			}
		}
		var err error
		for k := range last.keys() {
			if _, _, e := m.l.Get(m.tx, k); e != nil {
				err = e
			}
		}
		if !errors.As(err, new(*DoubtError)) {
			t.Fatalf("one is damaged: %v", err)
		}
		for n := range 400 {
			if _, _, err = m.l.Get(m.tx, numbered(n)); err != nil && !errors.As(err, new(*DoubtError)) {
				break
			}
		}
		if !errors.Is(err, queue.ErrDamaged) || errors.As(err, new(*DoubtError)) {
			t.Errorf("two are damaged: %v", err)
		}
	})
}

// TestMerging_around_damage lives on with damaged blocks, through merges, sweeps and
// restarts. When they are mended everything is as if nothing had been: nothing was
// lost, and nothing older has come in front of anything newer.
func TestMerging_around_damage(t *testing.T) {
	for n := range 6 {
		t.Run("nothing_is_lost_or_out_of_order", func(t *testing.T) {
			rng := dice(t)
			s := smallSizes()
			if n%2 == 0 { // all are top tier soon: what must not be joined could be
				s.fanIn, s.topTier = 2, 1
			}
			m := newMachine(t, s)
			live(t, m, rng, 200+rng.IntN(1500))
			var spoilt []block
			segments := map[uint64]bool{}
			for range 1 + rng.IntN(4) {
				all := m.blocks()
				b := all[rng.IntN(len(all))]
				if segments[b.seg.id] {
					continue
				}
				segments[b.seg.id] = true
				b.spoil(t, m, rng)
				spoilt = append(spoilt, b)
				m.doubts(t)
				for range 1 + rng.IntN(3) {
					most := len(m.l.jobs) // while they begin again
					live(t, m, rng, 400+rng.IntN(800))
					if n := len(m.l.segments); n > 16+2*len(spoilt)+most {
						t.Fatalf("%d segments, %d of them damaged", n, len(spoilt))
					}
					if m.l.active.keys > m.sizes.headKeys {
						t.Fatalf("the head has %d keys", m.l.active.keys)
					}
					if rng.IntN(2) == 0 {
						m.commit(t)
						m.reopen(t)
					}
				}
				if len(m.doubts(t)) > 0 && len(m.l.Damaged()) == 0 {
					t.Fatal("keys are in doubt, and nothing is said to be damaged")
				}
			}
			for m.maintain(t, 1000) {
			}
			m.commit(t) // a manifest is held against the length of the file
			found := m.l.Check(m.tx)
			mended := 0
			for _, b := range spoilt {
				if b.mend(t, m) {
					mended++
				}
			}
			if errors.Is(found, queue.ErrDamaged) != (mended > 0) {
				t.Fatalf("%d blocks were damaged, and Check says %v", mended, found)
			}
			m.commit(t)
			m.reopen(t)
			m.compare(t)
			if n := len(m.doubts(t)); n > 0 {
				t.Fatalf("%d keys are in doubt", n)
			}
			for range 3 { // what was parted is merged again
				live(t, m, rng, 500)
				m.compare(t)
			}
			if n := len(m.l.segments); n > 16 {
				t.Errorf("%d segments when all is well again", n)
			}
		})
	}
}

// live puts entries of up to 1,500 keys, and works on the ledger now and then.
func live(t *testing.T, m *machine, rng *rand.Rand, entries int) {
	t.Helper()
	for range entries {
		m.put(t, []Entry{m.next(rng.IntN(1500), State(1+rng.IntN(5)))})
		switch rng.IntN(40) {
		case 0:
			m.maintain(t, 1+rng.IntN(3000))
		case 1:
			if err := m.l.Sweep(m.tx); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestSpoilt_job wants a job whose half-made segment is damaged to begin again.
func TestSpoilt_job(t *testing.T) {
	for _, bucket := range [][]byte{bucketBlocks, bucketFilters} {
		t.Run(string(bucket), func(t *testing.T) {
			rng := dice(t)
			begun := 0
			for range 24 {
				m := newMachine(t, smallSizes())
				live(t, m, rng, 300+rng.IntN(900))
				for len(m.l.jobs) == 0 || m.l.jobs[0].clearing {
					m.put(t, []Entry{m.next(rng.IntN(1500), StateOpen)})
				}
				m.maintain(t, 400+rng.IntN(1500))
				m.commit(t)
				if len(m.l.jobs) == 0 || m.l.jobs[0].clearing {
					continue
				}
				out := m.l.jobs[0].out.id
				var keys [][]byte
				b := m.tx.Bucket(bucket)
				for c, key := b.Cursor(), segmentKey(out, Key{}); ; {
					if key, _ = c.Seek(key); !ofSegment(key, out) {
						break
					}
					keys = append(keys, bytes.Clone(key))
					key = append(bytes.Clone(key), 0)
				}
				if len(keys) == 0 {
					continue
				}
				key := keys[len(keys)-1] // of the last run, which a restart reads
				bad := bytes.Clone(b.Get(key))
				bad[rng.IntN(len(bad))] ^= 1
				put(t, b, key, bad)
				m.commit(t)
				m.reopen(t)
				goesOn := slices.ContainsFunc(m.l.jobs, func(j *job) bool { return !j.clearing && j.out.id == out })
				if bytes.Equal(bucket, bucketBlocks) && goesOn {
					continue // it ends a run, which nobody reads now
				}
				if len(m.l.Repaired()) == 0 {
					t.Error("nothing is said of it")
				}
				begun++
				if n := len(m.doubts(t)); n > 0 {
					t.Fatalf("%d keys are in doubt", n)
				}
				live(t, m, rng, 300)
				for m.maintain(t, 1000) {
				}
				m.compare(t)
				m.close()
			}
			if begun < 5 {
				t.Errorf("only %d jobs were spoilt", begun)
			}
		})
	}
}

// TestFlipped_keys changes bits in keys of ledger_blocks and ledger_filters, wherever
// bbolt has them: in a leaf, or in a page above it. No look-up may miss silently then, and
// no merge lose anything. That bbolt cannot write there is an error, and no panic; but
// what it makes of a page above that is damaged is its own affair.
func TestFlipped_keys(t *testing.T) {
	rng := dice(t)
	found := map[string]int{}
	for range 60 {
		m := newMachine(t, smallSizes())
		live(t, m, rng, 900)
		for rng.IntN(2) == 0 && m.maintain(t, 1000) {
		}
		m.commit(t)
		name := [][]byte{bucketBlocks, bucketFilters}[rng.IntN(2)]
		var keys [][]byte
		_ = m.tx.Bucket(name).ForEach(func(k, _ []byte) error { keys = append(keys, bytes.Clone(k)); return nil })
		key := keys[rng.IntN(len(keys))]
		above := flipInFile(t, m, key, rng)
		m.afterFlip(t, rng, above, found)
		m.close()
	}
	t.Log(found)
	if found["in doubt"] < 5 || found["mended"] < 5 || found["lived on"] < 20 || found["above"] < 3 {
		t.Errorf("too few of some kind: %v", found)
	}
}

// flipInFile changes one bit of one place in the file where a key stands, and opens it
// again. above: the place is in a page above the leaves.
func flipInFile(t *testing.T, m *machine, key []byte, rng *rand.Rand) (above bool) {
	t.Helper()
	path := m.db.Path()
	_ = m.tx.Rollback()
	m.db.NoFreelistSync = false // as a clean stop leaves it: or bbolt reads all keys when it opens
	if err := m.db.Update(func(tx *bolt.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	m.close()
	body, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var at []int
	for i := 0; ; i++ {
		j := bytes.Index(body[i:], key)
		if j < 0 {
			break
		}
		i += j
		at = append(at, i)
	}
	place := at[rng.IntN(len(at))]
	above = binary.LittleEndian.Uint16(body[place/os.Getpagesize()*os.Getpagesize()+8:]) == 1 // see docs/format.md
	body[place+rng.IntN(len(key))] ^= 1 << rng.IntN(8)
	if err := os.WriteFile(path, body, 0o600); err != nil {
		t.Fatal(err)
	}
	if m.db, err = bolt.Open(path, 0o600, &bolt.Options{NoSync: true}); err != nil {
		t.Fatal(err)
	}
	m.begin(t)
	return above
}

// afterFlip reads and lives on.
func (m *machine) afterFlip(t *testing.T, rng *rand.Rand, above bool, found map[string]int) {
	t.Helper()
	l, err := openSized(m.tx, m.sizes)
	if err != nil {
		t.Fatalf("it cannot be opened: %v", err)
	}
	m.l = l
	if len(l.Repaired()) > 0 {
		found["mended"]++
	}
	m.doubts(t)
	if above {
		found["above"]++
		return
	}
	for range 4 {
		for range 150 {
			e := m.next(rng.IntN(1500), State(1+rng.IntN(5)))
			if err := m.l.Put(m.tx, []Entry{e}); err != nil {
				if !errors.Is(err, queue.ErrDamaged) {
					t.Fatal(err)
				}
				found["ended"]++
				return
			}
			e.New = false
			m.model[e.Key] = e
		}
		m.commit(t)
		if len(m.doubts(t)) > 0 || len(m.l.Damaged()) > 0 {
			found["in doubt"]++
		}
		m.reopen(t)
	}
	found["lived on"]++
}
