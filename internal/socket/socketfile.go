package socket

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// directoryMode is that of a directory that has to be made for a socket.
	directoryMode = 0o750

	// A starter waits this long for another one that is creating a socket in the
	// same directory, which takes some system calls and no more.
	directoryLockWait = 5 * time.Second
	directoryLockPoll = 10 * time.Millisecond
)

// socketFile is the name that this process gave to a socket it listens on. It
// knows the directory by descriptor, so that it finds the file again even if the
// directory was renamed, and the file by its inode, so that it never removes what
// someone else put under the same name.
type socketFile struct {
	dir  *os.File
	base string
	id   inode
}

// inode tells files apart. It is compared only while the socket is listened on:
// the kernel then holds the inode, and its number cannot have been given again.
type inode struct{ dev, ino uint64 }

// createSocket makes path and returns it with the descriptor of a socket that
// listens there.
//
// How others are kept out (B21): the socket is bound, its file gets group and mode,
// and only then is listen called. Until listen a connection is refused by the
// kernel, whatever the mode says. The other way, binding in a private directory and
// renaming, needs a longer path than the one asked for, which sun_path may not hold,
// and a rename that replaces a live socket without a word. The process's umask is
// left alone: other goroutines create files meanwhile.
//
// In the time between bind and listen the socket looks stale to another starter. A
// lock on the directory itself keeps those apart: unlike a lock file it leaves
// nothing behind, and the kernel drops it with the process.
func createSocket(path string, mode fs.FileMode, gid int) (*socketFile, int, error) {
	dir, err := openDirectory(filepath.Dir(path), gid)
	if err != nil {
		return nil, -1, err
	}
	name := &socketFile{dir: dir, base: filepath.Base(path)}
	fd, err := name.create(path, uint32(mode.Perm()), gid)
	if err != nil {
		dir.Close()
		return nil, -1, err
	}
	return name, fd, nil
}

func (n *socketFile) create(path string, mode uint32, gid int) (int, error) {
	if err := lockDirectory(n.dir); err != nil {
		return -1, err
	}
	defer unix.Flock(int(n.dir.Fd()), unix.LOCK_UN) // closing the descriptor would do it too
	if err := n.clear(path); err != nil {
		return -1, err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("create socket: %w", err)
	}
	if err := n.bind(fd, path, mode, gid); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// bind names the socket, fits its file to mode and group, and listens.
func (n *socketFile) bind(fd int, path string, mode uint32, gid int) error {
	// Linux creates the file with the mode of the socket's own inode, less the
	// umask: so it is at no time looser than it will be.
	if err := unix.Fchmod(fd, mode); err != nil {
		return fmt.Errorf("set the mode of the unbound socket: %w", err)
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return fmt.Errorf("bind: %w", err)
	}
	err := n.fit(mode, gid)
	if err == nil {
		err = unix.Listen(fd, acceptQueue)
	}
	if err != nil {
		// Still under the directory's lock, and bound by us: it is our own.
		unix.Unlinkat(int(n.dir.Fd()), n.base, 0)
		return fmt.Errorf("prepare the bound socket: %w", err)
	}
	return nil
}

// fit gives the file its group and its exact mode, and remembers which file it is.
func (n *socketFile) fit(mode uint32, gid int) error {
	dir := int(n.dir.Fd())
	if gid >= 0 {
		if err := unix.Fchownat(dir, n.base, -1, gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return fmt.Errorf("set group %d: %w", gid, err)
		}
	}
	// The umask may have taken bits away.
	err := unix.Fchmodat(dir, n.base, mode, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.EOPNOTSUPP) { // before Linux 6.6
		err = unix.Fchmodat(dir, n.base, mode, 0)
	}
	if err != nil {
		return fmt.Errorf("set mode %04o: %w", mode, err)
	}
	st, err := n.stat()
	if err != nil {
		return err
	}
	if st.Mode != unix.S_IFSOCK|mode {
		return fmt.Errorf("%w: %s has taken its place", ErrNotSocket, kind(st.Mode))
	}
	n.id = inode{dev: st.Dev, ino: st.Ino}
	return nil
}

func (n *socketFile) stat() (unix.Stat_t, error) {
	var st unix.Stat_t
	err := unix.Fstatat(int(n.dir.Fd()), n.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// clear makes the name free, if it is certain that nobody uses it (B19).
func (n *socketFile) clear(path string) error {
	st, err := n.stat()
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return err
	case st.Mode&unix.S_IFMT != unix.S_IFSOCK:
		return fmt.Errorf("%w but %s: move it away, or choose another path", ErrNotSocket, kind(st.Mode))
	}
	if err := probe(path); err != nil {
		return err
	}
	again, err := n.stat()
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil || again.Ino != st.Ino || again.Dev != st.Dev {
		return fmt.Errorf("%w: it changed while it was looked at", ErrInUse)
	}
	if err := unix.Unlinkat(int(n.dir.Fd()), n.base, 0); err != nil {
		return fmt.Errorf("remove the stale socket: %w", err)
	}
	return nil
}

// probe returns nil if the socket at path is stale. Only a refused connection says
// so. A listener that is stopped, or whose queue is full, does not refuse; an error
// of any other kind proves nothing.
func probe(path string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("create socket: %w", err)
	}
	defer unix.Close(fd)
	err = unix.Connect(fd, &unix.SockaddrUnix{Name: path})
	switch {
	case errors.Is(err, unix.ECONNREFUSED), errors.Is(err, unix.ENOENT):
		return nil
	case err == nil:
		if u, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
			return fmt.Errorf("%w by process %d: stop it first", ErrInUse, u.Pid)
		}
		return ErrInUse
	case errors.Is(err, unix.EAGAIN):
		return fmt.Errorf("%w by a process that does not answer", ErrInUse)
	}
	return fmt.Errorf("%w, or not known to be free: connect: %w", ErrInUse, err)
}

// remove deletes the file if it is still the one that was made, and is to be called
// while the socket still listens.
func (n *socketFile) remove() error {
	defer n.dir.Close()
	st, err := n.stat()
	switch {
	case errors.Is(err, unix.ENOENT):
		return nil
	case err != nil:
		return fmt.Errorf("look for the socket's file: %w", err)
	case (inode{dev: st.Dev, ino: st.Ino}) != n.id:
		return nil // someone else's by now
	}
	if err := unix.Unlinkat(int(n.dir.Fd()), n.base, 0); err != nil {
		return fmt.Errorf("remove the socket's file: %w", err)
	}
	return nil
}

// openDirectory opens the directory of a socket, and makes it if it is not there.
func openDirectory(path string, gid int) (*os.File, error) {
	if err := makeDirectory(path, gid); err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, err
	}
	info, err := dir.Stat()
	if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky == 0 {
		err = fmt.Errorf("%w: %s has mode %04o, anyone could replace the socket", ErrOpenDirectory, path, info.Mode().Perm())
	}
	if err != nil {
		dir.Close()
		return nil, err
	}
	return dir, nil
}

// makeDirectory leaves a directory that exists as it is. Those above it are people's to
// make, as with the store's: a typo should be told, not become a tree of directories.
func makeDirectory(path string, gid int) error {
	err := os.Mkdir(path, directoryMode)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil
	case err != nil:
		return err
	}
	// It is ours alone to change: nobody else can have replaced it but by leave of
	// the directory above. The umask may have taken bits away.
	if gid >= 0 {
		if err := os.Lchown(path, -1, gid); err != nil {
			return err
		}
	}
	return os.Chmod(path, directoryMode)
}

// lockDirectory waits for its turn to create a socket in dir. It polls, because a
// blocking flock could be held up for ever by anyone who may read the directory.
func lockDirectory(dir *os.File) error {
	deadline := time.Now().Add(directoryLockWait)
	for {
		err := unix.Flock(int(dir.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			return fmt.Errorf("lock %s: %w", dir.Name(), err)
		case time.Now().After(deadline):
			return fmt.Errorf("%w: another process has held the lock on %s for %v", ErrInUse, dir.Name(), directoryLockWait)
		}
		time.Sleep(directoryLockPoll)
	}
}

// CheckGroup reports why a socket cannot be given to a group, or nil.
func CheckGroup(group string) error {
	_, err := lookupGroup(group)
	return err
}

// lookupGroup returns a group's number, or -1 for the process's own.
func lookupGroup(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(n), nil
	}
	g, err := user.LookupGroup(group)
	if err != nil {
		return -1, fmt.Errorf("group %q: %w", group, err)
	}
	return strconv.Atoi(g.Gid)
}

// kind names a file's type in words.
func kind(mode uint32) string {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return "a regular file"
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFLNK:
		return "a symbolic link"
	case unix.S_IFSOCK:
		return "another socket"
	}
	return "a special file"
}
