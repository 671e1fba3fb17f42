package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// restated is the chain's formula once more, written another way than Next.
func restated(prev [32]byte, block, firstN, count uint64, plain string) (sum [32]byte) {
	var b strings.Builder
	b.WriteString("breakwater audit block v1\x0a")
	b.Write(prev[:])
	for _, n := range []uint64{block, firstN, count, uint64(len(plain))} {
		for shift := 56; shift >= 0; shift -= 8 {
			b.WriteByte(byte(n >> shift))
		}
	}
	b.WriteString(plain)
	return sha256.Sum256([]byte(b.String()))
}

func TestHead(t *testing.T) {
	t.Run("follows_the_formula", rapid.MakeCheck(func(t *rapid.T) {
		h := Head{Block: rapid.Uint64Max(1<<60).Draw(t, "block")}
		copy(h.Hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		firstN, count, plain := rapid.Uint64().Draw(t, "firstN"), rapid.Uint32().Draw(t, "count"), rapid.String().Draw(t, "plain")
		want := Head{Block: h.Block + 1, Hash: restated(h.Hash, h.Block+1, firstN, uint64(count), plain)}
		if got := h.Next(firstN, count, []byte(plain)); got != want {
			t.Fatalf("got %v, want %v", got, want)
		}
	}))
	t.Run("has_not_changed_since_the_first_release", func(t *testing.T) {
		// Computed by testdata/trail/chain.py, which shares no code with us.
		first := Head{}.Next(1, 1, []byte("{}\n"))
		if want := "1:24c6855b14a65ffb6564d15b36455b72c017a70bfb5d12fa55603cd030127360"; first.String() != want {
			t.Errorf("got %v, want %s", first, want)
		}
		if got, want := first.Next(2, 3, []byte("{}\n{}\n{}\n")).String(), "2:3ba28ca730445b4d6c3f1b11cc1c38cff13136adc6afed53978c908fae8be470"; got != want {
			t.Errorf("got %v, want %s", got, want)
		}
	})
	t.Run("comes_back_from_its_text", rapid.MakeCheck(func(t *rapid.T) {
		h := Head{Block: rapid.Uint64().Draw(t, "block")}
		copy(h.Hash[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "hash"))
		if got, ok := ParseHead(h.String()); !ok || got != h {
			t.Fatalf("%v reads as %v, %v", h, got, ok)
		}
	}))
	t.Run("reads_nothing_else", func(t *testing.T) {
		digest := strings.Repeat("ab", 32)
		for _, s := range []string{"", ":", "1", "1:", ":" + digest, "01:" + digest, "+1:" + digest, "1:" + digest + "00", "1:" + digest[1:], "1:" + strings.ToUpper(digest), "1:" + digest + ":", "18446744073709551616:" + digest} {
			if h, ok := ParseHead(s); ok {
				t.Errorf("%q reads as %v", s, h)
			}
		}
	})
}

// trailRecord is a plausible record of about 400 bytes that differs with i.
func trailRecord(i int) Record {
	var seed [8]byte
	binary.BigEndian.PutUint64(seed[:], uint64(i))
	h := Hash(sha256.Sum256(seed[:]))
	r := decided()
	r.Seq, r.SourceHash, r.TraceID = uint64(i+1), h, fmt.Sprintf("%x", h[16:])
	r.TS = r.TS.Add(time.Duration(i) * 37 * time.Microsecond)
	return r
}

// writeTrail commits records in runs of the given lengths and returns a copy of
// all blocks.
func writeTrail(runs ...int) []Block {
	var w BlockWriter
	var trail []Block
	i := 0
	for _, n := range runs {
		w.Reset(w.Head(), w.LastN())
		for range n {
			r := trailRecord(i)
			w.Add(&r)
			i++
		}
		for _, b := range w.Blocks() {
			b.Plain = bytes.Clone(b.Plain)
			trail = append(trail, b)
		}
	}
	return trail
}

func TestBlockWriter(t *testing.T) {
	t.Run("has_the_chain_of_the_golden_file", func(t *testing.T) {
		var w BlockWriter
		var lines, heads []byte
		for i, r := range goldenRecords() {
			if i%5 == 0 {
				w.Reset(w.Head(), w.LastN())
			}
			w.Add(&r)
			if i%5 == 4 || i == len(goldenRecords())-1 {
				for _, b := range w.Blocks() {
					lines = append(lines, b.Plain...)
					heads = fmt.Appendf(heads, "%d %d %d %v\n", b.Number, b.FirstN, b.Count, b.Hash)
				}
			}
		}
		golden(t, "chain.ndjson", lines)
		golden(t, "chain.txt", heads)
	})
	t.Run("numbers_cuts_and_chains_whatever_it_is_given", rapid.MakeCheck(func(t *rapid.T) {
		var w BlockWriter
		var v ChainVerifier
		head, n := Head{}, uint64(0)
		commits := rapid.SliceOfN(rapid.SliceOfN(rapid.SampledFrom([]int{0, 1, 4000, 8000, 20000}), 0, 12), 1, 5).Draw(t, "commits")
		for _, sizes := range commits {
			w.Reset(head, n)
			var want []byte
			var in []uint64 // which block each record went into
			first := n + 1
			for _, size := range sizes {
				n++
				r := Record{Event: EventStarted, Reason: "r", Detail: []byte(`"` + strings.Repeat("x", size) + `"`)}
				if got := w.Add(&r); got != n || r.N != n {
					t.Fatalf("numbered %d and %d, want %d", got, r.N, n)
				}
				want = r.AppendNDJSON(want)
				in = append(in, w.OpenBlock())
			}
			if w.Len() != len(sizes) || w.Size() != len(want) {
				t.Fatalf("%d records of %d bytes, want %d of %d", w.Len(), w.Size(), len(sizes), len(want))
			}
			blocks := w.Blocks()
			checkBlocks(t, blocks, head, want)
			for _, b := range blocks {
				if err := v.Add(b); err != nil {
					t.Fatal(err)
				}
				for i := b.FirstN; i <= b.LastN(); i++ {
					if in[i-first] != b.Number {
						t.Fatalf("record %d was said to lie in block %d and lies in %d", i, in[i-first], b.Number)
					}
				}
			}
			if !bytes.Equal(w.Plain(), want) || w.Head() != v.Head() || w.LastN() != n || v.LastN() != n {
				t.Fatalf("the writer ends at %v and %d, the verifier at %v and %d", w.Head(), w.LastN(), v.Head(), v.LastN())
			}
			head = w.Head()
		}
	}))
	t.Run("forgets_a_commit_that_failed", func(t *testing.T) {
		good := writeTrail(2, 3)
		var w BlockWriter
		for i := range 2 {
			r := trailRecord(i)
			w.Add(&r)
		}
		head, lastN := w.Blocks()[0].Head(), w.LastN()
		w.Reset(head, lastN)
		lost := trailRecord(99)
		w.Add(&lost)
		w.Blocks()
		w.Reset(head, lastN)
		for i := range 3 {
			r := trailRecord(2 + i)
			w.Add(&r)
		}
		if diff := cmp.Diff(good[1], w.Blocks()[0]); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("gives_the_same_blocks_when_asked_twice", func(t *testing.T) {
		var w BlockWriter
		r := trailRecord(0)
		w.Add(&r)
		first := append([]Block(nil), w.Blocks()...)
		if diff := cmp.Diff(first, w.Blocks()); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("without_records_has_no_block", func(t *testing.T) {
		var w BlockWriter
		if n := len(w.Blocks()); n != 0 {
			t.Errorf("%d blocks", n)
		}
	})
	t.Run("does_not_keep_the_buffer_of_a_huge_commit", func(t *testing.T) {
		var w BlockWriter
		r := Record{Event: EventStarted, Detail: []byte(`"` + strings.Repeat("x", MaxRecordRaw-2) + `"`)}
		for w.Size() <= keepWriterBytes {
			w.Add(&r)
		}
		w.Blocks()
		w.Reset(w.Head(), w.LastN())
		if c := cap(w.buf); c > keepWriterBytes {
			t.Errorf("keeps %d bytes", c)
		}
	})
	t.Run("costs_no_allocation_once_warm", func(t *testing.T) {
		var w BlockWriter
		records := make([]Record, 100)
		for i := range records {
			records[i] = trailRecord(i)
		}
		run := func() {
			w.Reset(w.Head(), w.LastN())
			for i := range records {
				w.Add(&records[i])
			}
			w.Blocks()
		}
		run()
		if n := testing.AllocsPerRun(20, run); n > 0 {
			t.Errorf("%v allocations per commit of 100 records", n)
		}
	})
}

// checkBlocks holds blocks against the rules of a block and the lines of a commit.
func checkBlocks(t *rapid.T, blocks []Block, before Head, want []byte) {
	var lines []byte
	for i, b := range blocks {
		if b.Number != before.Block+uint64(i)+1 {
			t.Fatalf("block %d is numbered %d", i, b.Number)
		}
		if got := bytes.Count(b.Plain, []byte("\n")); got != int(b.Count) || got == 0 {
			t.Fatalf("block of %d records says %d", got, b.Count)
		}
		if len(b.Plain) > MaxBlockBytes && b.Count != 1 {
			t.Fatalf("block of %d records has %d bytes", b.Count, len(b.Plain))
		}
		if i > 0 && len(blocks[i-1].Plain)+bytes.IndexByte(b.Plain, '\n')+1 <= MaxBlockBytes {
			t.Fatalf("block %d was cut before it was full", i-1)
		}
		lines = append(lines, b.Plain...)
	}
	if !bytes.Equal(lines, want) {
		t.Fatalf("the blocks do not hold the lines of the commit")
	}
}

func BenchmarkBlockWriter(b *testing.B) {
	records := make([]Record, 300)
	for i := range records {
		records[i] = trailRecord(i)
	}
	var w BlockWriter
	b.ReportAllocs()
	for b.Loop() {
		w.Reset(w.Head(), w.LastN())
		for i := range records {
			w.Add(&records[i])
		}
		w.Blocks()
	}
	b.SetBytes(int64(w.Size()))
}
