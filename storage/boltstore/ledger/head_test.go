package ledger

import (
	"bytes"
	"encoding/binary"
	"testing"

	"pgregory.net/rapid"
)

// keyFrom makes keys that crowd: equal leading bits, neighbours, both ends.
func keyFrom(rt *rapid.T) (k Key) {
	lead := rapid.SampledFrom([]uint32{0, 1, 0x7fffffff, 0x80000000, 0xfffffffe, 0xffffffff}).Draw(rt, "lead")
	binary.BigEndian.PutUint32(k[:], lead)
	k[15] = rapid.Byte().Draw(rt, "tail")
	return k
}

func TestHead(t *testing.T) {
	t.Run("answers_as_a_map_does_and_stays_sorted_whatever_the_keys", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			h := newHead(8, 100) // so that it must grow
			model := map[Key]uint64{}
			rt.Repeat(map[string]func(*rapid.T){
				"put": func(rt *rapid.T) {
					e := Entry{Key: keyFrom(rt), State: StateOpen, Seq: rapid.Uint64().Draw(rt, "seq")}
					h.put(appendRecord(nil, &e))
					model[e.Key] = e.Seq
				},
				"get": func(rt *rapid.T) {
					k := keyFrom(rt)
					seq, ok := model[k]
					if r := h.get(k); (r != nil) != ok || ok && r.entry().Seq != seq {
						rt.Fatalf("get(%x) = %x, want seq %d, %v", k, r, seq, ok)
					}
				},
				"walk": func(rt *rapid.T) {
					from := keyFrom(rt)
					want := 0
					for k := range model {
						if bytes.Compare(k[:], from[:]) >= 0 {
							want++
						}
					}
					before := []byte(nil)
					for s := newHeadSource(h, from); s.current() != nil; s.advance() {
						r := s.current()
						if before != nil && bytes.Compare(before, r[:16]) >= 0 || bytes.Compare(r[:16], from[:]) < 0 {
							rt.Fatalf("%x after %x, from %x", r[:16], before, from)
						}
						before = r[:16]
						want--
					}
					if want != 0 {
						rt.Fatalf("walk from %x left out %d keys", from, want)
					}
				},
				"reset": func(rt *rapid.T) {
					h.reset()
					clear(model)
				},
			})
		})
	})

	t.Run("two_heads_stay_under_40_MB", func(t *testing.T) {
		s := defaultSizes()
		if n := 2 * newHead(s.headKeys, s.headBytes).memory(); n >= 40_000_000 {
			t.Errorf("two heads take %d bytes", n)
		}
	})
}
