package dbfile

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

func someWitness(n uint64) Witness {
	w := Witness{Block: n, Txid: n + 100, Seq: n * 3}
	w.StoreID[0], w.Head[31] = 0xAB, byte(n)
	return w
}

// TestWitnessGolden: the format is read by programs of later years.
func TestWitnessGolden(t *testing.T) {
	got := string(appendSlot(nil, someWitness(7), 5))
	const want = "breakwater-head 1 turn=5 store=ab000000000000000000000000000000 block=7 " +
		"head=0000000000000000000000000000000000000000000000000000000000000007 txid=107 seq=21 crc=490beaa5"
	if strings.TrimRight(got, " \n") != want || len(got) != slotBytes || got[slotBytes-1] != '\n' {
		t.Errorf("%q", got)
	}
}

func openWitness(t *testing.T, path string) *WitnessFile {
	t.Helper()
	wf, err := OpenWitness(path, someWitness(0))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { wf.Close() })
	return wf
}

func wantWitness(t *testing.T, path string, want Witness) {
	t.Helper()
	got, found, err := ReadWitness(path)
	if err != nil || !found || got != want {
		t.Fatalf("%+v %v %v, want %+v", got, found, err, want)
	}
}

func TestWitness(t *testing.T) {
	t.Run("none is no error", func(t *testing.T) {
		if _, found, err := ReadWitness(filepath.Join(t.TempDir(), "x.head")); found || err != nil {
			t.Errorf("%v %v", found, err)
		}
	})
	t.Run("the newest is read, also after a restart, also when it goes back", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.head")
		wf := openWitness(t, path)
		wantWitness(t, path, someWitness(0))
		wantMode(t, path, fileMode)
		for _, n := range []uint64{1, 2, 3, 9, 4} { // 4: a restore, allowed by the operator
			if err := wf.Write(someWitness(n)); err != nil {
				t.Fatal(err)
			}
			wantWitness(t, path, someWitness(n))
			wf.Close()
			wf = openWitness(t, path)
		}
		if size := mustStat(t, path).Size(); size != slotCount*slotBytes {
			t.Errorf("%d bytes", size)
		}
	})
	t.Run("a torn write leaves the one before it", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.head")
		wf := openWitness(t, path)
		for n := uint64(1); n < 6; n++ {
			before, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := wf.Write(someWitness(n)); err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for cut := range len(after) {
				torn := append(bytes.Clone(after[:cut]), before[cut:]...)
				w, _, err := readSlots(bytes.NewReader(torn), path)
				if err != nil || w != someWitness(n) && w != someWitness(n-1) {
					t.Fatalf("write %d torn at %d: %+v %v", n, cut, w, err)
				}
			}
		}
	})
	t.Run("one that cannot be read is refused and kept", func(t *testing.T) {
		for _, raw := range []string{"", "x", strings.Repeat(" ", 1024), strings.Repeat("\x00", 1024)} {
			path := filepath.Join(t.TempDir(), "x.head")
			if err := os.WriteFile(path, []byte(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := ReadWitness(path)
			wantKind(t, err, ErrWitness, path)
			_, err = OpenWitness(path, someWitness(1))
			wantKind(t, err, ErrWitness, path)
			if now, _ := os.ReadFile(path); string(now) != raw {
				t.Errorf("changed: %q", now)
			}
		}
	})
	t.Run("a link or a pipe is not followed", func(t *testing.T) {
		dir := t.TempDir()
		fifo, link := filepath.Join(dir, "fifo"), filepath.Join(dir, "link")
		if err := unix.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink("/etc/passwd", link); err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{fifo, link, dir} {
			_, err := OpenWitness(path, someWitness(1))
			wantKind(t, err, ErrNotRegular, path)
		}
	})
	t.Run("a leftover of a killed creation is no obstacle", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "x.head")
		if err := os.WriteFile(creatingPath(path), []byte("half"), 0o600); err != nil {
			t.Fatal(err)
		}
		openWitness(t, path)
		wantWitness(t, path, someWitness(0))
		if left := names(t, filepath.Dir(path)); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestWitnessSlot: what is written is read, and of all that is one bit away
// nothing is.
func TestWitnessSlot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := Witness{Block: rapid.Uint64().Draw(t, "block"), Txid: rapid.Uint64().Draw(t, "txid"), Seq: rapid.Uint64().Draw(t, "seq")}
		copy(w.StoreID[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "store"))
		copy(w.Head[:], rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "head"))
		turn := rapid.Uint64Min(1).Draw(t, "turn")
		slot := appendSlot(nil, w, turn)
		got, gotTurn, err := parseSlot(slot)
		if len(slot) != slotBytes || err != nil || got != w || gotTurn != turn {
			t.Fatalf("%q: %+v %d %v", slot, got, gotTurn, err)
		}
		slot[rapid.IntRange(0, slotBytes-1).Draw(t, "byte")] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
		if got, _, err := parseSlot(slot); err == nil {
			t.Fatalf("%q is read as %+v", slot, got)
		}
	})
}

// FuzzWitnessSlot: no bytes end the process, and only what we would write is
// accepted.
func FuzzWitnessSlot(f *testing.F) {
	f.Add(appendSlot(nil, someWitness(3), 9))
	f.Add([]byte("breakwater-head 1 turn=1 crc="))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if w, turn, err := parseSlot(raw); err == nil && !bytes.Equal(raw, appendSlot(nil, w, turn)) {
			t.Errorf("%q", raw)
		}
	})
}

func BenchmarkWitnessWrite(b *testing.B) {
	wf, err := OpenWitness(filepath.Join(b.TempDir(), "x.head"), someWitness(0))
	if err != nil {
		b.Fatal(err)
	}
	defer wf.Close()
	for i := 0; b.Loop(); i++ {
		if err := wf.Write(someWitness(uint64(i))); err != nil {
			b.Fatal(err)
		}
	}
}
