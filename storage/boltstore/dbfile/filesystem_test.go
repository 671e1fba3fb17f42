package dbfile

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// TestFilesystem: B17, with the answers of file systems that this machine has
// not got.
func TestFilesystem(t *testing.T) {
	for _, c := range []struct {
		magic             int64
		name              string
		network, volatile bool
	}{
		{0xEF53, "ext4", false, false},
		{0x58465342, "xfs", false, false},
		{0x9123683E, "btrfs", false, false},
		{0x794C7630, "overlayfs", false, false},
		{0x01021994, "tmpfs", false, true},
		{0x6969, "nfs", true, false},
		{0xFF534D42, "cifs", true, false},
		{-0xACB2BE, "cifs", true, false}, // the same, sign-extended by a 32-bit field
		{0x01021997, "9p", true, false},
		{0x65735546, "fuse", true, false},
		{0x12345678, "0x12345678", false, false},
	} {
		got, err := filesystem(func(_ string, buf *unix.Statfs_t) error {
			buf.Type = c.magic
			return nil
		}, "/x")
		if err != nil || got != (Filesystem{c.name, c.network, c.volatile}) {
			t.Errorf("%#x: %+v %v", c.magic, got, err)
		}
		if concern := got.Concern(); (concern != "") != (c.network || c.volatile) {
			t.Errorf("%s: concern %q", c.name, concern)
		}
	}
	t.Run("a signal is not an answer, and an error is", func(t *testing.T) {
		calls := 0
		got, err := filesystem(func(_ string, buf *unix.Statfs_t) error {
			calls++
			if calls < 3 {
				return unix.EINTR
			}
			buf.Type = 0xEF53
			return nil
		}, "/x")
		if err != nil || got.Name != "ext4" || calls != 3 {
			t.Errorf("%+v %v after %d calls", got, err, calls)
		}
		_, err = filesystem(func(string, *unix.Statfs_t) error { return unix.ENOTCONN }, "/x")
		if !errors.Is(err, unix.ENOTCONN) {
			t.Errorf("%v", err)
		}
	})
	t.Run("the real one has a name and room", func(t *testing.T) {
		dir := t.TempDir()
		got, err := FilesystemOf(dir)
		free, freeErr := FreeSpace(dir)
		if err != nil || got.Name == "" || freeErr != nil || free <= 0 {
			t.Errorf("%+v %v, %d %v", got, err, free, freeErr)
		}
	})
	t.Run("free space is in bytes, and root may use the reserve", func(t *testing.T) {
		free, err := freeSpace(func(_ string, buf *unix.Statfs_t) error {
			buf.Bsize, buf.Frsize, buf.Bfree, buf.Bavail = 1<<20, 4096, 10, 10
			return nil
		}, "/x")
		if err != nil || free != 40960 {
			t.Errorf("%d %v", free, err)
		}
	})
}
