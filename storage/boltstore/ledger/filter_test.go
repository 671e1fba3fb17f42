package ledger

import (
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// filterOf files keys, which ascend, in runs of the given length.
func filterOf(keys []Key, run int) *filter {
	f, p := &filter{}, &piece{}
	for i, k := range keys {
		p.add(k)
		if p.records == run || i == len(keys)-1 {
			f.add(p, k)
			p = &piece{}
		}
	}
	return f
}

func TestFilter(t *testing.T) {
	t.Run("never_denies_a_key_it_has_whatever_the_keys", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			h := newHead(8, 100)
			for range rapid.IntRange(1, 200).Draw(rt, "n") {
				e := Entry{Key: keyFrom(rt), State: StateOpen}
				h.put(appendRecord(nil, &e))
			}
			var keys []Key
			for s := newHeadSource(h, Key{}); s.current() != nil; s.advance() {
				keys = append(keys, s.current().key())
			}
			// keyFrom gives many keys one high half, so runs meet within it.
			f := filterOf(keys, rapid.IntRange(1, 20).Draw(rt, "run"))
			for _, k := range keys {
				if !f.may(k) {
					rt.Fatalf("key %x is denied", k)
				}
			}
		})
	})

	t.Run("is_wrong_about_once_in_a_hundred", func(t *testing.T) {
		var keys []Key
		for i := range 20 * runRecords {
			k := spread(uint64(i))
			binary.BigEndian.PutUint64(k[:], uint64(i)<<49+1<<40|k.high()>>24) // ascending
			keys = append(keys, k)
		}
		f := filterOf(keys, runRecords)
		wrong, asked := 0, 200_000
		for i := range asked {
			k := spread(uint64(1<<30 + i))
			binary.BigEndian.PutUint64(k[:], k.high()>>1) // where the runs are
			if f.may(k) {
				wrong++
			}
		}
		if wrong > asked*3/200 || wrong == 0 {
			t.Errorf("%d of %d absent keys may be there", wrong, asked)
		}
	})

	t.Run("a_piece_reads_back_as_it_was_written", func(t *testing.T) {
		m := newMachine(t, smallSizes())
		p := &piece{records: 1, blocks: 2, bytes: 3}
		p.add(numbered(1))
		key := segmentKey(7, numbered(1))
		b := m.tx.Bucket(bucketFilters)
		if err := p.put(b, key); err != nil {
			t.Fatal(err)
		}
		got, err := readPiece(key, b.Get(key))
		if err != nil || *got != *p {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}

// BenchmarkFilter asks the filters of eight segments with ten million keys for
// absent ones.
func BenchmarkFilter(b *testing.B) {
	var filters []*filter
	for i := range uint64(8) {
		var keys []Key
		const n = 1_250_000
		for j := range uint64(n) {
			k := spread(i<<32 + j)
			binary.BigEndian.PutUint64(k[:], j*(1<<64/n)+k.high()%(1<<64/n)) // ascending
			keys = append(keys, k)
		}
		filters = append(filters, filterOf(keys, runRecords))
	}
	n, wrong := uint64(1<<40), 0
	for b.Loop() {
		n++
		k := spread(n)
		for _, f := range filters {
			if f.may(k) {
				wrong++
			}
		}
	}
	b.ReportMetric(float64(wrong)/float64(b.N*len(filters)), "wrong")
}
