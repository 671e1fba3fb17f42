package dbfile

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"
	"golang.org/x/sys/unix"
)

func TestClassify(t *testing.T) {
	write := func(e error) error { return &fs.PathError{Op: "write", Path: "x.db", Err: e} }
	for _, c := range []struct {
		name  string
		err   error
		moved bool
		want  Verdict
	}{
		{"no room for a write", write(unix.ENOSPC), false, CleanRefusal},
		{"no quota for a write", fmt.Errorf("settle: %w", write(unix.EDQUOT)), false, CleanRefusal},
		{"file too large for a write", write(unix.EFBIG), false, CleanRefusal},
		{"the largest size", fmt.Errorf("admit: %w", berrors.ErrMaxSizeReached), false, CleanRefusal},
		{"no room to grow", errors.New("file resize error: truncate x.db: no space left on device"), false, CleanRefusal},
		{"no room, but visible", write(unix.ENOSPC), true, FailStop},
		{"the largest size, but visible", berrors.ErrMaxSizeReached, true, FailStop},
		{"a failed write", write(unix.EIO), false, FailStop},
		{"a failed sync", unix.EIO, false, FailStop},
		{"no room for a sync", unix.ENOSPC, false, FailStop},
		{"no room for a sync of the file", &fs.PathError{Op: "sync", Path: "x.db", Err: unix.ENOSPC}, false, FailStop},
		{"no room for the sync after growing", errors.New("file sync error: sync x.db: no space left on device"), false, FailStop},
		{"a failed resize", errors.New("file resize error: truncate x.db: input/output error"), false, FailStop},
		{"a failed mapping", errors.New("mmap allocate error: cannot allocate memory"), false, FailStop},
		{"no mapping", berrors.ErrInvalidMapping, false, FailStop},
		{"a closed transaction", berrors.ErrTxClosed, false, FailStop},
		{"a read-only file system", write(unix.EROFS), false, FailStop},
		{"nothing known", errors.New("?"), false, FailStop},
		{"no error at all", nil, false, FailStop},
	} {
		t.Run(c.name, func(t *testing.T) {
			after := uint64(7)
			if c.moved {
				after++
			}
			if got := Classify(c.err, 7, after); got != c.want {
				t.Errorf("%v: %v, want %v", c.err, got, c.want)
			}
		})
	}
	if FailStop != 0 {
		t.Error("the zero verdict must be the safe one")
	}
}

// TestFullDisk: file systems that are really full, in memory and on a loop
// device. What was answered is there, what was refused is not, and once there is
// room again the same open database goes on.
func TestFullDisk(t *testing.T) {
	t.Run("tmpfs", func(t *testing.T) {
		dir := t.TempDir()
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=20m"); err != nil {
			skipFault(t, "mount tmpfs: "+err.Error())
		}
		defer unix.Unmount(dir, unix.MNT_DETACH)
		fillDisk(t, dir, func() {
			if err := unix.Mount("", dir, "", unix.MS_REMOUNT, "size=60m"); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("ext4", func(t *testing.T) {
		dir := loopMount(t, 24<<20)
		ballast := filepath.Join(dir, "ballast")
		if err := os.WriteFile(ballast, make([]byte, 8<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		fillDisk(t, dir, func() {
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			unix.Sync()
		})
	})
}

func fillDisk(t *testing.T, dir string, makeRoom func()) {
	t.Helper()
	path := filepath.Join(dir, "store.db")
	f := mustOpen(t, storeOptions(path))
	put := func(i int) (Verdict, error) {
		before, err := f.Txid()
		if err != nil {
			t.Fatal(err)
		}
		err = f.DB().Update(func(tx *bolt.Tx) error {
			return tx.Bucket(testBucket).Put(binary.BigEndian.AppendUint32(nil, uint32(i)), make([]byte, 300<<10))
		})
		after, txErr := f.Txid()
		if txErr != nil {
			t.Fatal(txErr)
		}
		return Classify(err, before, after), err
	}
	stored, refused := 0, 0
	for i := 0; i < 500 && refused < 5; i++ {
		verdict, err := put(i)
		switch {
		case err == nil:
			stored++
		case verdict == CleanRefusal:
			refused++
		default:
			t.Fatalf("record %d: %v: %v", i, verdict, err)
		}
	}
	if stored == 0 || refused == 0 {
		t.Fatalf("%d stored, %d refused", stored, refused)
	}
	if free, err := FreeSpace(dir); err != nil || free > 8<<20 {
		t.Errorf("free space %d %v", free, err)
	}
	makeRoom()
	if _, err := put(1000); err != nil {
		t.Errorf("with room again: %v", err)
	}
	if n := countRecords(t, f); n != stored+1 {
		t.Errorf("%d records, %d answered", n, stored+1)
	}
	mustClose(t, f)
	f = mustOpen(t, Options{Path: path})
	if n := countRecords(t, f); n != stored+1 {
		t.Errorf("reopened: %d records, %d answered", n, stored+1)
	}
	mustClose(t, f)
}

// loopMount makes an ext4 in a file and mounts it; skipped where that is not
// allowed.
func loopMount(t *testing.T, size int64) string {
	t.Helper()
	img := filepath.Join(scratch(t), "disk.img")
	if err := os.WriteFile(img, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(img, size); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", "-F", "-m", "0", img).CombinedOutput(); err != nil {
		skipFault(t, fmt.Sprintf("mkfs.ext4: %v: %s", err, out))
	}
	dir := t.TempDir()
	if out, err := exec.Command("mount", "-o", "loop", img, dir).CombinedOutput(); err != nil {
		skipFault(t, fmt.Sprintf("mount -o loop: %v: %s", err, out))
	}
	t.Cleanup(func() {
		if out, err := exec.Command("umount", dir).CombinedOutput(); err != nil {
			t.Errorf("umount: %v: %s", err, out)
		}
	})
	return dir
}

// TestDiskFullAtBirth: a store that cannot be created leaves nothing behind.
func TestDiskFullAtBirth(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k"); err != nil {
		skipFault(t, "mount tmpfs: "+err.Error())
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if err := os.WriteFile(filepath.Join(dir, "ballast"), make([]byte, 56<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(storeOptions(filepath.Join(dir, "store.db")))
	wantKind(t, err, ErrNoSpace, "no room")
	for _, name := range names(t, dir) {
		if name != "ballast" && name != "store.db"+lockSuffix {
			t.Errorf("left behind: %s", name)
		}
	}
}
