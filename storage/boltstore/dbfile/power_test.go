package dbfile

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	"golang.org/x/sys/unix"
)

// powerCut ends an ext4 at once: nothing that was not synced reaches the image,
// the journal included. Then the image is mounted again.
func powerCut(t *testing.T, dir string, while func()) {
	t.Helper()
	d, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	const ext4Shutdown, noLogFlush = 0x8004587d, 2
	if err := unix.IoctlSetPointerInt(int(d.Fd()), ext4Shutdown, noLogFlush); err != nil {
		d.Close()
		skipFault(t, "shutdown of the file system: "+err.Error())
	}
	d.Close()
	while() // what still has the file open must let go, whatever errors it meets
	source := mountSource(t, dir)
	for _, cmd := range [][]string{{"umount", dir}, {"mount", "-o", "loop", source, dir}} {
		if out, err := exec.Command(cmd[0], cmd[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", cmd, err, out)
		}
	}
}

// mountSource is the image behind a loop mount of loopMount.
func mountSource(t *testing.T, dir string) string {
	t.Helper()
	out, err := exec.Command("findmnt", "-n", "-o", "SOURCE", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var device string
	fmt.Sscan(string(out), &device)
	img, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(device), "loop/backing_file"))
	if err != nil {
		t.Fatal(err)
	}
	return string(img[:len(img)-1])
}

// TestPowerCut: on a real ext4 that loses what was not synced. What Open, a
// commit and CloseClean have returned for is there; and the witness, which is
// never synced, is an older one or the newest, but one that can be read.
func TestPowerCut(t *testing.T) {
	dir := loopMount(t, 64<<20)
	path := filepath.Join(dir, "sub", "store.db")
	stored, wrote := 0, uint64(0)
	for round := range 8 {
		f := mustOpen(t, storeOptions(path))
		if got := countRecords(t, f); got != stored {
			t.Fatalf("round %d: %d records, %d were answered", round, got, stored)
		}
		wf, err := OpenWitness(path+WitnessSuffix, someWitness(0))
		if err != nil {
			t.Fatal(err)
		}
		if w, found, err := ReadWitness(path + WitnessSuffix); err != nil || !found || w.Block > wrote {
			t.Fatalf("round %d: witness %+v %v %v, newest written %d", round, w, found, err, wrote)
		}
		for range round { // in the first round only the creation is at stake
			key := binary.BigEndian.AppendUint32([]byte("r"), uint32(stored))
			if err := f.DB().Update(func(tx *bolt.Tx) error {
				return tx.Bucket(testBucket).Put(key, make([]byte, 5000))
			}); err != nil {
				t.Fatal(err)
			}
			stored++
			wrote++
			if err := wf.Write(someWitness(wrote)); err != nil {
				t.Fatal(err)
			}
		}
		clean := round%3 == 2
		if clean {
			if err := f.CloseClean(nil); err != nil {
				t.Fatal(err)
			}
		}
		powerCut(t, dir, func() { f.Close(); wf.Close() })
		if !clean && round > 0 && openReport(t, Options{Path: path, ReadOnly: true}).Clean {
			t.Errorf("round %d: a power cut is taken for a clean stop", round)
		}
	}
	// The control: a commit that is not synced must be lost, or all this has
	// tested nothing.
	f := mustOpen(t, Options{Path: path})
	f.DB().NoSync = true
	addRecords(t, f, 0, 1)
	powerCut(t, dir, func() { f.Close() })
	f = mustOpen(t, Options{Path: path, ReadOnly: true})
	if n := countRecords(t, f); n != stored {
		t.Errorf("control: %d records, %d were synced: the power cut loses nothing", n, stored)
	}
	mustClose(t, f)
}
