package boltstore

import (
	"encoding/hex"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/storage/boltstore/bloom"
)

func TestSpan(t *testing.T) {
	sp := span{first: 3, last: 70, earliest: -1, latest: 1_000_000, filter: make(bloom.Filter, spanWords)}
	sp.filter[0], sp.filter[spanWords-1] = 1, 2
	stored := sp.append(nil)

	t.Run("has_the_stored_form_that_is_documented", func(t *testing.T) {
		const head = "02" + "b6ad3dfa" + "0000000000000003" + "ffffffffffffffff" + "00000000000f4240" + "0000000000000001"
		if got := hex.EncodeToString(stored[:len(head)/2]); got != head {
			t.Errorf("got  %s\nwant %s", got, head)
		}
		if want := 29 + 159*64; len(stored) != want {
			t.Errorf("%d bytes, want %d", len(stored), want)
		}
	})

	t.Run("reads_back_as_it_was_written", func(t *testing.T) {
		var got span
		if err := got.parse(seqKey(70), stored); err != nil || !reflect.DeepEqual(got, sp) {
			t.Errorf("got %+v, %v", got, err)
		}
	})

	t.Run("of_version_1_is_read_and_knows_no_events", func(t *testing.T) {
		old := sp
		old.old = true
		v1 := old.append(nil)
		var got span
		if err := got.parse(seqKey(70), v1); err != nil || !reflect.DeepEqual(got, old) {
			t.Errorf("got %+v, %v", got, err)
		}
		q := queue.TrailQuery{Event: queue.EventKeyHeld}
		if !sieveOf(&q).passes(&old) || sieveOf(&q).passes(&sp) {
			t.Error("a filter without events denies one, or one with them has what was never added")
		}
		for want, stored := range map[byte][]byte{2: v1, 1: stored} { // a version that became another
			bad := slices.Clone(stored)
			bad[0] = want
			if err := got.parse(seqKey(70), bad); !errors.Is(err, queue.ErrDamaged) {
				t.Errorf("taken for version %d: %v", want, err)
			}
		}
	})

	t.Run("is_not_read_when_a_bit_of_it_or_its_key_is_another", func(t *testing.T) {
		var got span
		for _, at := range []int{0, 1, 5, 13, 21, 29, len(stored) - 1} {
			bad := slices.Clone(stored)
			bad[at] ^= 0x10
			if err := got.parse(seqKey(70), bad); !errors.Is(err, queue.ErrDamaged) {
				t.Errorf("with byte %d changed: %v", at, err)
			}
		}
		for name, err := range map[string]error{
			"in another's place": got.parse(seqKey(71), stored),
			"under a short key":  got.parse(seqKey(70)[1:], stored),
			"cut short":          got.parse(seqKey(70), stored[:len(stored)-64]),
			"empty":              got.parse(seqKey(70), nil),
		} {
			if !errors.Is(err, queue.ErrDamaged) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})

	t.Run("without_a_filter_may_hold_anything", func(t *testing.T) {
		blind := span{first: 1, last: 9}
		q := queue.TrailQuery{Seq: 1, TraceID: "t", PartitionKey: "p", Since: time.Unix(1, 0), Until: time.Unix(2, 0)}
		if !sieveOf(&q).passes(&blind) {
			t.Error("it is passed over")
		}
	})
}

// The names are part of the format: the values were computed by another program.
func TestNames(t *testing.T) {
	t.Run("are_hashes_of_kind_and_value", func(t *testing.T) {
		for want, got := range map[uint64]uint64{
			0x3e5135c70047a9ba: nameOfSeq(42),
			0xb2668eb28d79d081: nameOf(nameTrace, "trace-1"),
			0xcf93806a29595343: nameOf(namePartition, "entity"),
			0x9bd6f3f6a203e8e5: nameOf(nameIdempotency, "entity"),
		} {
			if got != want {
				t.Errorf("got %#x, want %#x", got, want)
			}
		}
	})

	t.Run("are_of_what_the_line_says", func(t *testing.T) {
		r := queue.Record{
			N: 1, TS: time.Unix(0, 0), Event: queue.EventQuarantined, Seq: 3, Of: 2, Seqs: []uint64{7, 8},
			TraceID: strings.Repeat("é", queue.MaxRecordID), PartitionKey: "bad \xff", IdempotencyKey: "plain",
		}
		want := []uint64{
			nameOfSeq(3), nameOfSeq(2), nameOfSeq(7), nameOfSeq(8),
			nameOf(nameTrace, strings.Repeat("é", queue.MaxRecordID/2)), nameOf(namePartition, "bad \uFFFD"),
			nameOf(nameIdempotency, "plain"), nameOf(nameEvent, "QUARANTINED"),
		}
		if got := appendNames(nil, &r); !slices.Equal(got, want) {
			t.Errorf("got %x, want %x", got, want)
		}
		read, err := queue.ParseRecord(r.AppendNDJSON(nil))
		if err != nil {
			t.Fatal(err)
		}
		if got := appendNames(nil, &read); !slices.Equal(got, want) {
			t.Errorf("read back: got %x, want %x", got, want)
		}
	})
}
