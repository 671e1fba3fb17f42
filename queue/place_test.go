package queue

import (
	"bytes"
	"cmp"
	"testing"

	"pgregory.net/rapid"
)

// places draws places near each other as often as far apart, so that the border
// cases (same seq, sub 0 beside sub 1) come up.
func places() *rapid.Generator[Place] {
	return rapid.Custom(func(t *rapid.T) Place {
		return Place{
			Seq: rapid.OneOf(rapid.Uint64Range(0, 3), rapid.Uint64()).Draw(t, "seq"),
			Sub: rapid.OneOf(rapid.Uint32Range(0, 2), rapid.Uint32()).Draw(t, "sub"),
		}
	})
}

func TestPlace(t *testing.T) {
	t.Run("the_order_of_keys_is_the_order_of_places", rapid.MakeCheck(func(t *rapid.T) {
		p, q := places().Draw(t, "p"), places().Draw(t, "q")
		// The model: compare as one 96-bit number, spelled out.
		want := cmp.Compare(p.Seq, q.Seq)
		if want == 0 {
			want = cmp.Compare(p.Sub, q.Sub)
		}
		if got := bytes.Compare(p.AppendKey(nil), q.AppendKey(nil)); got != want {
			t.Fatalf("keys of %v and %v compare as %d, places as %d", p, q, got, want)
		}
		if p.Compare(q) != want || p.Less(q) != (want < 0) {
			t.Fatalf("Compare and Less disagree about %v and %v", p, q)
		}
	}))
	t.Run("comes_back_from_its_key_and_its_text", rapid.MakeCheck(func(t *rapid.T) {
		p := places().Draw(t, "p")
		if q, ok := ParsePlaceKey(p.AppendKey(nil)); !ok || q != p {
			t.Fatalf("key of %v reads as %v, %v", p, q, ok)
		}
		if q, ok := ParsePlace(p.String()); !ok || q != p {
			t.Fatalf("text %q reads as %v, %v", p, q, ok)
		}
	}))
	t.Run("a_scheduled_message_stands_between_two_others", func(t *testing.T) {
		order := []Place{{41, 0}, {42, 0}, {42, 1}, {42, 2}, {42, 300}, {43, 0}}
		for i := 1; i < len(order); i++ {
			if !order[i-1].Less(order[i]) || order[i].Less(order[i-1]) {
				t.Errorf("%v does not come before %v", order[i-1], order[i])
			}
		}
	})
	t.Run("an_ordinary_key_has_eight_bytes", func(t *testing.T) {
		if got := (Place{Seq: 42}).AppendKey([]byte("x")); !bytes.Equal(got, []byte("x\x00\x00\x00\x00\x00\x00\x00\x2a")) {
			t.Errorf("got %x", got)
		}
	})
}

func TestParsePlace(t *testing.T) {
	for _, s := range []string{"", "x", "042", "+42", "42.", "42.0", "42.03", ".3", "42.3.1", "-1", "18446744073709551616", "1.4294967296", "42 "} {
		if p, ok := ParsePlace(s); ok {
			t.Errorf("%q reads as %v", s, p)
		}
	}
	for _, k := range []string{"", "1234567", "123456789", "12345678\x00\x00\x00\x00", "1234567812345"} {
		if p, ok := ParsePlaceKey([]byte(k)); ok {
			t.Errorf("key %x reads as %v", k, p)
		}
	}
	if !(Place{}).IsZero() || (Place{Seq: 1}).IsZero() || (Place{Sub: 1}).IsZero() {
		t.Error("IsZero is wrong")
	}
}
