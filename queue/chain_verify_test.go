package queue

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// rechained numbers and hashes blocks anew, as somebody would who can write the
// whole file: what a chain alone cannot show.
func rechained(blocks []Block) []Block {
	head := Head{}
	out := slices.Clone(blocks)
	for i := range out {
		head = head.Next(out[i].FirstN, out[i].Count, out[i].Plain)
		out[i].Number, out[i].Hash = head.Block, head.Hash
	}
	return out
}

func TestChainVerifier(t *testing.T) {
	trail := writeTrail(3, 50, 1, 90, 2)
	feed := func(v *ChainVerifier, blocks []Block) error {
		for _, b := range blocks {
			if err := v.Add(b); err != nil {
				return err
			}
		}
		return nil
	}
	t.Run("shows_every_record_of_a_sound_trail", func(t *testing.T) {
		var seen []uint64
		v := ChainVerifier{Visit: func(r Record) { seen = append(seen, r.Seq) }}
		if err := feed(&v, trail); err != nil {
			t.Fatal(err)
		}
		last := trail[len(trail)-1]
		if v.Head() != last.Head() || v.LastN() != 146 || v.Records() != 146 || v.Broken() != nil {
			t.Errorf("ends at %v, record %d, %d records", v.Head(), v.LastN(), v.Records())
		}
		if len(seen) != 146 || !slices.IsSorted(seen) || seen[0] != 1 {
			t.Errorf("visited %v", seen)
		}
	})
	t.Run("reads_stored_blocks", func(t *testing.T) {
		var v ChainVerifier
		for i, b := range trail {
			if err := v.AddStored(b.Number, AppendBlock(nil, b, i%2 == 0)); err != nil {
				t.Fatal(err)
			}
		}
		if v.Head() != trail[len(trail)-1].Head() {
			t.Errorf("ends at %v", v.Head())
		}
	})
	t.Run("says_where_in_words", func(t *testing.T) {
		for want, b := range map[string]ChainBreak{
			"audit chain breaks at block 3: missing":              {Block: 3, Reason: "missing"},
			"audit chain breaks at block 3, record 70: misplaced": {Block: 3, N: 70, Reason: "misplaced"},
		} {
			if got := b.Error(); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		}
	})
	t.Run("starts_after_the_head_that_a_trim_left", func(t *testing.T) {
		var v ChainVerifier
		v.StartAfter(trail[1].Head(), trail[1].LastN())
		if err := feed(&v, trail[2:]); err != nil {
			t.Error(err)
		}
		var w ChainVerifier
		w.StartAfter(trail[0].Head(), trail[0].LastN())
		if err := feed(&w, trail[2:]); err == nil {
			t.Error("a gap after the anchor is taken")
		}
	})
	t.Run("names_the_first_break", func(t *testing.T) { testBreaks(t, trail, feed) })
	t.Run("notices_any_change_of_any_block", rapid.MakeCheck(func(t *rapid.T) {
		blocks := slices.Clone(trail)
		i := rapid.IntRange(0, len(blocks)-1).Draw(t, "block")
		b := &blocks[i]
		b.Plain = slices.Clone(b.Plain)
		switch rapid.IntRange(0, 3).Draw(t, "what") {
		case 0:
			at := rapid.IntRange(0, len(b.Plain)-1).Draw(t, "at")
			b.Plain[at] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 1:
			b.Hash[rapid.IntRange(0, 31).Draw(t, "at")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		case 2:
			b.Count++
		case 3:
			b.FirstN++
		}
		var v ChainVerifier
		var broken *ChainBreak
		if err := feed(&v, blocks); !errors.As(err, &broken) || broken.Block != b.Number {
			t.Fatalf("block %d was changed, verdict %v", b.Number, err)
		}
		if i > 0 && v.Head() != trail[i-1].Head() {
			t.Fatalf("proven up to %v", v.Head())
		}
	}))
	t.Run("a_trail_written_anew_needs_a_witness", func(t *testing.T) {
		edited := slices.Clone(trail)
		edited[1].Plain = []byte(strings.Replace(string(edited[1].Plain), "APPROVED", "REJECTED", 1))
		edited = rechained(edited)
		var v ChainVerifier
		shown := trail[2].Head()
		v.Watch(Witness{Head: trail[0].Head()})
		v.Watch(Witness{Head: shown})
		if err := feed(&v, edited); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]Verdict{WitnessFound, WitnessDiffers}, v.Verdicts()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("finds_the_heads_that_were_shown", func(t *testing.T) {
		var v ChainVerifier
		v.StartAfter(trail[0].Head(), trail[0].LastN())
		for _, b := range trail {
			v.Watch(Witness{Head: b.Head(), N: b.LastN()})
		}
		if err := feed(&v, trail[1:]); err != nil || slices.ContainsFunc(v.Verdicts(), func(f Verdict) bool { return f != WitnessFound }) {
			t.Errorf("%v, %v", v.Verdicts(), err)
		}
	})
	t.Run("tells_witnesses_apart", func(t *testing.T) {
		var v ChainVerifier
		v.StartAfter(trail[0].Head(), trail[0].LastN())
		other := trail[2].Head()
		other.Hash[31] ^= 1
		v.Watch(Witness{Head: Head{}})                                   // before what was kept
		v.Watch(Witness{Head: trail[0].Head(), N: 7})                    // the head that was kept, with another count
		v.Watch(Witness{Head: trail[2].Head(), N: trail[2].LastN()})     // found
		v.Watch(Witness{Head: trail[2].Head(), N: trail[2].LastN() + 1}) // another count
		v.Watch(Witness{Head: other})                                    // another hash of the same block
		v.Watch(Witness{Head: trail[4].Head()})                          // behind the end
		if err := feed(&v, trail[1:4]); err != nil {
			t.Fatal(err)
		}
		want := []Verdict{WitnessTrimmed, WitnessDiffers, WitnessFound, WitnessDiffers, WitnessDiffers, WitnessCut}
		if diff := cmp.Diff(want, v.Verdicts()); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
		if v.Add(trail[0]) == nil {
			t.Fatal("a block out of order is taken")
		}
		want[5] = WitnessUnproven
		if diff := cmp.Diff(want, v.Verdicts()); diff != "" {
			t.Errorf("after a break (-want +got)\n%s", diff)
		}
	})
}

// testBreaks has one case per reason that a break can have.
func testBreaks(t *testing.T, trail []Block, feed func(*ChainVerifier, []Block) error) {
	with := func(i int, change func(*Block)) []Block {
		blocks := slices.Clone(trail)
		change(&blocks[i])
		return blocks
	}
	second := func(plain func(string) string) []Block {
		return rechained(with(1, func(b *Block) { b.Plain = []byte(plain(string(b.Plain))) }))
	}
	cut := func(s string) string { _, rest, _ := strings.Cut(s, "\n"); return rest }
	for name, c := range map[string]struct {
		blocks []Block
		block  uint64
		reason string
	}{
		"a_missing_block":           {slices.Delete(slices.Clone(trail), 1, 2), 2, "missing; the next block is 3"},
		"a_missing_beginning":       {trail[1:], 1, "missing; the next block is 2"},
		"a_block_twice":             {slices.Insert(slices.Clone(trail), 1, trail[0]), 1, "out of order; block 2 was due"},
		"a_record_number_left_out":  {rechained(with(1, func(b *Block) { b.FirstN++ })), 2, "begins with record 5; record 4 was due"},
		"another_hash":              {with(2, func(b *Block) { b.Hash[0]++ }), 3, "hash differs"},
		"a_record_that_is_none":     {second(func(s string) string { return "{" + s }), 2, "record: json"},
		"a_record_numbered_wrongly": {second(func(s string) string { return strings.Replace(s, `"n":5,`, `"n":6,`, 1) }), 2, "record is numbered 6"},
		"fewer_records_than_stated": {second(func(s string) string { return s[:strings.LastIndexByte(s[:len(s)-1], '\n')+1] }), 2, "records, says"},
		"a_first_record_taken_out":  {second(cut), 2, "record is numbered 5"},
	} {
		t.Run(name, func(t *testing.T) {
			var v ChainVerifier
			err := feed(&v, c.blocks)
			var broken *ChainBreak
			if !errors.As(err, &broken) || broken.Block != c.block || !strings.Contains(broken.Reason, c.reason) {
				t.Fatalf("got %v, want block %d, %s", err, c.block, c.reason)
			}
			if again := v.Add(trail[0]); !errors.Is(again, err) || v.Broken() != broken {
				t.Errorf("after the break: %v", again)
			}
		})
	}
	t.Run("a_damaged_block", func(t *testing.T) {
		var v ChainVerifier
		data := AppendBlock(nil, trail[0], false)
		data[60]++
		err := v.AddStored(1, data)
		if err == nil || !strings.Contains(err.Error(), "checksum differs") {
			t.Errorf("got %v", err)
		}
		if again := v.AddStored(1, AppendBlock(nil, trail[0], false)); !errors.Is(again, err) {
			t.Errorf("after the break: %v", again)
		}
	})
}

func TestBlockRecords(t *testing.T) {
	t.Run("end_with_the_first_that_does_not_parse", func(t *testing.T) {
		b := writeTrail(3)[0]
		b.Plain = []byte(strings.Replace(string(b.Plain), `{"n":2`, `["n":2`, 1))
		var good, bad int
		for _, err := range b.Records() {
			if err != nil {
				bad++
			} else {
				good++
			}
		}
		if good != 1 || bad != 1 {
			t.Errorf("%d records and %d errors", good, bad)
		}
	})
	t.Run("stop_when_asked", func(t *testing.T) {
		n := 0
		for range writeTrail(3)[0].Records() {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%d records", n)
		}
	})
}
