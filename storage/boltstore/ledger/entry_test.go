package ledger

import (
	"encoding/hex"
	"testing"

	"pgregory.net/rapid"
)

func TestKeyOf(t *testing.T) {
	// SHA-256 of 32 bytes 0x01 and "k1", by coreutils: the stored format depends on it.
	secret := [32]byte{}
	for i := range secret {
		secret[i] = 1
	}
	k := KeyOf(secret, "k1")
	if got, want := hex.EncodeToString(k[:]), "bc14524bca735f8f5437e1c1ae888035"; got != want {
		t.Errorf("KeyOf = %s, want %s", got, want)
	}
	if KeyOf([32]byte{2}, "k1") == k {
		t.Error("another secret gives the same key")
	}
	if n := testing.AllocsPerRun(100, func() { KeyOf(secret, "a key of an ordinary length") }); n != 0 {
		t.Errorf("KeyOf allocates %v times", n)
	}
}

func anyEntry(rt *rapid.T) Entry {
	e := Entry{
		Seq:       rapid.Uint64().Draw(rt, "seq"),
		State:     State(rapid.IntRange(1, 5).Draw(rt, "state")),
		SettledAt: rapid.Int64().Draw(rt, "settled at"),
		Outcome:   rapid.StringN(0, -1, MaxOutcome).Draw(rt, "outcome"),
	}
	copy(e.Key[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "key"))
	copy(e.Fingerprint[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(rt, "fingerprint"))
	for i := range e.Members {
		e.Members[i] = rapid.Uint16().Draw(rt, "member")
	}
	return e
}

func TestRecord(t *testing.T) {
	t.Run("reads_back_what_was_written", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			e := anyEntry(rt)
			put := e
			put.New = rapid.Bool().Draw(rt, "new")
			b := append(appendRecord(nil, &put), "rest"...)
			r, rest, ok := cutRecord(b)
			if !ok || string(rest) != "rest" || r.entry() != e {
				rt.Fatalf("%+v reads back as %+v, rest %q", e, r.entry(), rest)
			}
			for n := range len(r) {
				if _, _, ok := cutRecord(r[:n]); ok {
					rt.Fatalf("a record cut to %d of %d bytes passes", n, len(r))
				}
			}
		})
	})

	t.Run("keeps_its_stored_form", func(t *testing.T) {
		e := Entry{
			Key: Key{0xaa, 15: 0xab}, Fingerprint: [16]byte{0xba, 15: 0xbb}, Members: Digests{1, 2, 3, 4, 5},
			Seq: 42, State: StateDone, New: true, Outcome: "OK", SettledAt: 7, Epoch: 9,
		}
		want := "aa0000000000000000000000000000ab" + "ba0000000000000000000000000000bb" +
			"00010002000300040005" + "000000000000002a" + "c2" + "0000000000000007" + "00000009" + "02" + "4f4b"
		if got := hex.EncodeToString(appendRecord(nil, &e)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		e = Entry{State: StateOpen}
		if n := len(appendRecord(nil, &e)); n != recordFixed {
			t.Errorf("an open entry takes %d bytes, want %d", n, recordFixed)
		}
	})
}

func FuzzCutRecord(f *testing.F) {
	e := Entry{State: StateDone, Outcome: "OK"}
	f.Add(appendRecord(nil, &e))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, ok := cutRecord(b)
		if !ok {
			return
		}
		if len(r)+len(rest) != len(b) || len(r) < recordFixed {
			t.Fatalf("%d and %d bytes cut from %d", len(r), len(rest), len(b))
		}
		r.entry() // must not panic
	})
}

func TestDigests(t *testing.T) {
	a := Digests{1, 2, 3, 4, 5}
	if got := a.Diff(a); got != "" {
		t.Errorf("equal digests differ in %q", got)
	}
	for i, want := range []string{"ledger_entity", "variance_amount", "match_decision", "currency", "partition_key"} {
		b := a
		b[i]++
		b[PartitionKey] += 9
		if got := a.Diff(b); got != want {
			t.Errorf("member %d: got %q, want %q", i, got, want)
		}
	}
	if Digest("E1") == Digest("E2") {
		t.Error("Digest does not tell E1 and E2 apart")
	}
}
