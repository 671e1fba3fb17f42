package queue

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// largest is a block of the one largest record.
func largest() Block {
	r := Record{Event: EventStarted, Note: strings.Repeat("\x01", MaxRecordText), Detail: []byte(`"` + strings.Repeat("x", MaxRecordRaw-2) + `"`)}
	var w BlockWriter
	w.Add(&r)
	return w.Blocks()[0]
}

// sameBlock compares without cmp, which takes a byte at a time.
func sameBlock(a, b Block) bool {
	return a.Head() == b.Head() && a.FirstN == b.FirstN && a.Count == b.Count && bytes.Equal(a.Plain, b.Plain)
}

func TestBlock(t *testing.T) {
	t.Run("comes_back_from_its_stored_form", rapid.MakeCheck(func(t *rapid.T) {
		runs := rapid.SliceOfN(rapid.IntRange(0, 60), 1, 3).Draw(t, "runs")
		compress := rapid.Bool().Draw(t, "compress")
		prefix := rapid.SliceOfN(rapid.Byte(), 0, 3).Draw(t, "prefix")
		for _, b := range append(writeTrail(runs...), largest()) {
			stored := AppendBlock(bytes.Clone(prefix), b, compress)
			if !bytes.HasPrefix(stored, prefix) {
				t.Fatal("what was in dst is gone")
			}
			got, err := ParseBlock(b.Number, stored[len(prefix):])
			if err != nil {
				t.Fatal(err)
			}
			if !sameBlock(b, got) {
				t.Fatalf("block %d of %d records reads back as %d of %d", b.Number, b.Count, got.Number, got.Count)
			}
		}
	}))
	t.Run("has_the_bytes_of_the_format", func(t *testing.T) {
		b := Block{Number: 3, FirstN: 0x0102030405060708, Count: 1, Plain: []byte("{}\n"), Hash: Hash{0xaa}}
		want := "01" + "00" + "0102030405060708" + "00000001" + "00000003" + "aa" + strings.Repeat("00", 31) + hex.EncodeToString([]byte("{}\n"))
		body, _ := hex.DecodeString(want)
		sum := crc32.Checksum(append([]byte{0, 0, 0, 0, 0, 0, 0, 3}, body...), crc32.MakeTable(crc32.Castagnoli))
		body = binary.BigEndian.AppendUint32(body, sum)
		if diff := cmp.Diff(body, AppendBlock(nil, b, true)); diff != "" {
			t.Errorf("(-format +stored)\n%s", diff)
		}
	})
	t.Run("is_compressed_only_when_that_is_shorter", func(t *testing.T) {
		full := writeTrail(38)[0]
		plain, packed := AppendBlock(nil, full, false), AppendBlock(nil, full, true)
		if plain[1] != codecPlain || packed[1] != codecZstd || len(packed) > len(plain)/3 {
			t.Errorf("%d bytes as codec %d, %d as codec %d", len(plain), plain[1], len(packed), packed[1])
		}
		noise := full
		noise.Count = 1
		noise.Plain = nil
		for i := byte(0); len(noise.Plain) < 4096; i++ {
			sum := sha256.Sum256([]byte{i})
			noise.Plain = append(noise.Plain, sum[:]...)
		}
		if got := AppendBlock(nil, noise, true); got[1] != codecPlain || len(got) != blockHeader+len(noise.Plain)+blockTrailer {
			t.Errorf("noise was stored as %d bytes of codec %d", len(got), got[1])
		}
	})
	t.Run("its_dictionary_has_not_changed", func(t *testing.T) {
		// Every compressed block of every file depends on it.
		const frozen = "42507d191cae7418861ed98ac7b925eb3b5b61eafd387fe76bdbb70c5553bcb4"
		if got := Hash(sha256.Sum256(trailDict)).String(); got != frozen {
			t.Errorf("the dictionary's SHA-256 is %s", got)
		}
	})
	t.Run("shares_no_memory_with_what_it_was_read_from", func(t *testing.T) {
		for _, compress := range []bool{false, true} {
			b := writeTrail(20)[0]
			data := AppendBlock(nil, b, compress)
			got, err := ParseBlock(1, data)
			clear(data)
			if err != nil || !bytes.Equal(got.Plain, b.Plain) {
				t.Errorf("compress %v: %v", compress, err)
			}
		}
	})
}

// restamp makes the checksum right again, so that the checks behind it are tried.
func restamp(number uint64, data []byte) []byte {
	if len(data) < blockTrailer {
		return data
	}
	body := data[:len(data)-blockTrailer]
	return binary.BigEndian.AppendUint32(bytes.Clone(body), blockSum(number, body))
}

func TestParseBlock(t *testing.T) {
	b := writeTrail(20)[0]
	plain, packed := AppendBlock(nil, b, false), AppendBlock(nil, b, true)
	t.Run("notices_every_flipped_bit", func(t *testing.T) {
		for i := range packed {
			for bit := range 8 {
				bad := bytes.Clone(packed)
				bad[i] ^= 1 << bit
				if _, err := ParseBlock(1, bad); !errors.Is(err, ErrDamaged) {
					t.Fatalf("byte %d, bit %d: %v", i, bit, err)
				}
			}
		}
	})
	t.Run("notices_every_cut", func(t *testing.T) {
		for n := range packed {
			if _, err := ParseBlock(1, packed[:n]); !errors.Is(err, ErrDamaged) {
				t.Fatalf("%d bytes of %d: %v", n, len(packed), err)
			}
		}
	})
	t.Run("notices_a_block_in_the_place_of_another", func(t *testing.T) {
		if _, err := ParseBlock(2, plain); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "audit block 2") {
			t.Errorf("got %v", err)
		}
	})
	set := func(data []byte, at int, v ...byte) []byte { data = bytes.Clone(data); copy(data[at:], v); return data }
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"a_newer_format":           {set(plain, 0, 2), "format 2 is not known"},
		"an_unknown_codec":         {set(plain, 1, 9), "codec 9 is not known"},
		"no_first_record":          {set(plain, 2, 0, 0, 0, 0, 0, 0, 0, 0), "records from 0"},
		"numbers_that_wrap_around": {set(plain, 2, 255, 255, 255, 255, 255, 255, 255, 255), "records from"},
		"no_records":               {set(plain, 10, 0, 0, 0, 0), "0 records"},
		"a_length_of_gigabytes":    {set(packed, 14, 255, 255, 255, 255), "4294967295 bytes"},
		"a_length_over_a_block":    {set(packed, 14, 0, 0, 0x40, 1), "16385 bytes"},
		"a_plain_length_too_short": {set(plain, 14, 0, 0, 0, 99), "instead of 99"},
		"a_frame_too_long":         {set(packed, 14, 0, 0, 0, 99), ""},
		"a_frame_too_short":        {set(packed, 14, 0, 0, 0x40, 0), "instead of 16384"},
		"a_frame_that_is_none":     {set(plain, 1, codecZstd), ""},
		"more_than_any_block":      {make([]byte, MaxStoredBlock+1), "bytes"},
	} {
		t.Run("refuses_"+name, func(t *testing.T) {
			_, err := ParseBlock(1, restamp(1, c.data))
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	t.Run("refuses_block_0", func(t *testing.T) {
		if _, err := ParseBlock(0, restamp(0, plain)); !errors.Is(err, ErrDamaged) {
			t.Errorf("got %v", err)
		}
	})
}

func FuzzParseBlock(f *testing.F) {
	for _, b := range append(writeTrail(1, 45), Block{Number: 1, FirstN: 1, Count: 1, Plain: []byte("{}\n")}) {
		f.Add(b.Number, AppendBlock(nil, b, false), true)
		f.Add(b.Number, AppendBlock(nil, b, true), true)
	}
	f.Fuzz(func(t *testing.T, number uint64, data []byte, stamp bool) {
		if stamp { // else nearly every input ends at the checksum
			data = restamp(number, data)
		}
		b, err := ParseBlock(number, data)
		if err != nil {
			if !errors.Is(err, ErrDamaged) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		if len(b.Plain) > MaxRecordBytes || cap(b.Plain) > MaxRecordBytes {
			t.Fatalf("%d bytes came out", cap(b.Plain))
		}
		again, err := ParseBlock(number, AppendBlock(nil, b, true))
		if err != nil {
			t.Fatalf("what was read cannot be stored: %v", err)
		}
		if !sameBlock(b, again) {
			t.Fatalf("%v reads back as %v", b.Head(), again.Head())
		}
	})
}

func BenchmarkBlock(b *testing.B) {
	for name, records := range map[string]int{"one_record": 1, "full": 38} {
		block := writeTrail(records)[0]
		for _, compress := range []bool{false, true} {
			kind := map[bool]string{false: "/plain", true: "/zstd"}[compress]
			stored := AppendBlock(nil, block, compress)
			b.Run("append/"+name+kind, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(block.Plain)))
				buf := make([]byte, 0, MaxStoredBlock)
				for b.Loop() {
					buf = AppendBlock(buf[:0], block, compress)
				}
			})
			b.Run("parse/"+name+kind, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(len(block.Plain)))
				for b.Loop() {
					if _, err := ParseBlock(1, stored); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkVerify(b *testing.B) {
	trail := writeTrail(300)
	stored := make([][]byte, len(trail))
	plain := 0
	for i, t := range trail {
		stored[i] = AppendBlock(nil, t, true)
		plain += len(t.Plain)
	}
	b.ReportAllocs()
	b.SetBytes(int64(plain))
	for b.Loop() {
		var v ChainVerifier
		for i, data := range stored {
			if err := v.AddStored(uint64(i+1), data); err != nil {
				b.Fatal(err)
			}
		}
	}
}
