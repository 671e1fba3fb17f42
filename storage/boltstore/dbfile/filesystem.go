package dbfile

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Filesystem is what lies under a path, as far as it matters for a store.
type Filesystem struct {
	Name string // "ext4", or "0x…" if we do not know the number
	// Network: locks may not exclude other hosts, or hang; a sync may be a
	// promise of somebody else's.
	Network bool
	// Volatile: gone with the power, so that "accepted" outlives no reboot.
	Volatile bool
}

// Concern is a line for the operator, "" if there is nothing to say.
func (s Filesystem) Concern() string {
	switch {
	case s.Network:
		return "the store is on a network file system (" + s.Name + "): locks and syncs may not hold what they promise; use a local disk"
	case s.Volatile:
		return "the store is in memory (" + s.Name + "): what is accepted does not survive a loss of power"
	}
	return ""
}

// knownFilesystems are the magic numbers of statfs(2) that hosts of ours have.
// ext2 and ext3 share ext4's.
var knownFilesystems = map[uint32]Filesystem{
	0xEF53:     {Name: "ext4"},
	0x58465342: {Name: "xfs"},
	0x9123683E: {Name: "btrfs"},
	0x2FC12FC1: {Name: "zfs"},
	0xF2F52010: {Name: "f2fs"},
	0xCA451A4E: {Name: "bcachefs"},
	0x794C7630: {Name: "overlayfs"},
	0x4D44:     {Name: "vfat"},
	0x2011BAB0: {Name: "exfat"},
	0x7366746E: {Name: "ntfs"},
	0xF15F:     {Name: "ecryptfs"},
	0x73717368: {Name: "squashfs"},
	0x9660:     {Name: "iso9660"},
	0x01021994: {Name: "tmpfs", Volatile: true},
	0x858458F6: {Name: "ramfs", Volatile: true},
	0x6969:     {Name: "nfs", Network: true},
	0xFF534D42: {Name: "cifs", Network: true},
	0xFE534D42: {Name: "smb", Network: true},
	0x517B:     {Name: "smb", Network: true},
	0x01021997: {Name: "9p", Network: true},
	0x65735546: {Name: "fuse", Network: true}, // sshfs, glusterfs, s3fs, … look alike
	0x00C36400: {Name: "ceph", Network: true},
	0x0BD00BD0: {Name: "lustre", Network: true},
	0x47504653: {Name: "gpfs", Network: true},
	0x01161970: {Name: "gfs2", Network: true},
	0x7461636F: {Name: "ocfs2", Network: true},
	0x5346414F: {Name: "afs", Network: true},
	0x786F4256: {Name: "vboxsf", Network: true},
}

// Statfs asks the system about the file system at a path: [unix.Statfs], or what
// a test puts in its place.
type Statfs func(path string, buf *unix.Statfs_t) error

// FilesystemOf says what the file system at path is.
func FilesystemOf(path string) (Filesystem, error) { return filesystem(unix.Statfs, path) }

func filesystem(statfs Statfs, path string) (Filesystem, error) {
	st, err := retryStatfs(statfs, path)
	if err != nil {
		return Filesystem{}, fmt.Errorf("file system of %q: %w", path, err)
	}
	magic := uint32(st.Type) // some architectures sign-extend it
	if known, ok := knownFilesystems[magic]; ok {
		return known, nil
	}
	return Filesystem{Name: fmt.Sprintf("%#x", magic)}, nil
}

// FreeSpace is how many bytes this user may still write in dir: blocks that are
// reserved for root do not count, unless the caller is root.
func FreeSpace(dir string) (int64, error) { return freeSpace(unix.Statfs, dir) }

func freeSpace(statfs Statfs, dir string) (int64, error) {
	st, err := retryStatfs(statfs, dir)
	if err != nil {
		return 0, fmt.Errorf("free space in %q: %w", dir, err)
	}
	blocks := st.Bavail
	if os.Geteuid() == 0 {
		blocks = st.Bfree
	}
	return int64(blocks) * st.Frsize, nil
}

// retryStatfs: a slow (network) file system lets signals through.
func retryStatfs(statfs Statfs, path string) (st unix.Statfs_t, err error) {
	for {
		if err = statfs(path, &st); err != unix.EINTR {
			return st, err
		}
	}
}
