package dbfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// checkPath judges the name before anything is opened or created, and says
// whether there is a file.
func checkPath(path string) (exists bool, err error) {
	if path == "" {
		return false, &FileError{Kind: ErrAbsent, Path: path, Err: errors.New("no path given")}
	}
	st, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, ioErr(path, "looking at the path", err)
	case !st.Mode().IsRegular():
		return false, notRegular(path, st.Mode())
	}
	return true, nil
}

// checkOwn is checkPath for a name that a person does not give: that of a file of our own
// beside the store (the lock, the witness, what is made or written anew). What is no file
// there is not ours. It is neither opened nor followed nor removed.
func checkOwn(path string) (exists bool, err error) {
	exists, err = checkPath(path)
	if e := (*FileError)(nil); errors.As(err, &e) && e.Kind == ErrNotRegular {
		e.Hint = "breakwater gives this name to a file of its own: see what it is, and move it away"
	}
	return exists, err
}

// mustBeRegular repeats the check on the open descriptor: between the look and
// the open somebody may have changed what the name means.
func mustBeRegular(f *os.File, path string) error {
	st, err := f.Stat()
	if err != nil {
		return ioErr(path, "looking at the file", err)
	}
	if !st.Mode().IsRegular() {
		return notRegular(path, st.Mode())
	}
	return nil
}

func notRegular(path string, m fs.FileMode) *FileError {
	what := "a device"
	switch {
	case m&fs.ModeSymlink != 0:
		what = "a symbolic link"
	case m.IsDir():
		what = "a folder"
	case m&fs.ModeSocket != 0:
		what = "a socket"
	case m&fs.ModeNamedPipe != 0:
		what = "a pipe"
	}
	return fileErr(ErrNotRegular, path, errors.New("it is "+what))
}

// makeParent creates the file's folder if that one level is missing. More is
// not created: a mistyped path, or a volume that is not mounted, must not grow
// a tree with an empty store in it.
func makeParent(path string) error {
	dir := filepath.Dir(path)
	st, err := os.Stat(dir) // a link to a folder is an administrator's choice
	switch {
	case err == nil && st.IsDir():
		return nil
	case err == nil:
		return fileErr(ErrNotRegular, dir, errors.New("it should be the folder of the store, and is not a folder"))
	case !errors.Is(err, fs.ErrNotExist):
		return ioErr(dir, "looking at the store's folder", err)
	}
	if err := os.Mkdir(dir, dirMode); err != nil && !errors.Is(err, fs.ErrExist) {
		return ioErr(dir, "creating the store's folder", err)
	}
	return syncDir(filepath.Dir(dir))
}

// syncDir makes names in dir durable: a file's own fsync does not.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return ioErr(dir, "opening the folder", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return ioErr(dir, "syncing the folder", err)
	}
	return nil
}

// openExisting opens the file itself, never what a link points to, and waits
// for no pipe.
func openExisting(o Options) (*os.File, error) {
	mode := os.O_RDWR
	if o.ReadOnly {
		mode = os.O_RDONLY
	}
	f, err := os.OpenFile(o.Path, mode|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, ioErr(o.Path, "opening", err)
	}
	if err := mustBeRegular(f, o.Path); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// tightenOwn tightens the mode of one of the files beside the store, and returns a line
// for an operator if that was needed. Of what belongs to somebody else the line says so:
// the store can be used without it.
func tightenOwn(f *os.File, path string) (warning string) {
	st, err := f.Stat()
	if err != nil || st.Mode().Perm()&^fileMode == 0 {
		return "" // what cannot be looked at cannot be used either, and says so
	}
	what := "tightened to 0600; who could write it before may have"
	if err := f.Chmod(fileMode); err != nil {
		what = "open to others, and cannot be tightened: " + err.Error()
	}
	return fmt.Sprintf("%q had mode %04o: %s", path, st.Mode().Perm(), what)
}

// checkOwnership tightens a mode looser than 0600 (not when read-only), and
// returns a line for everything that an operator should look at.
func checkOwnership(f *os.File, o Options) (warnings []string, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return nil, ioErr(o.Path, "looking at the file", err)
	}
	if perm := st.Mode & 0o7777; perm&^fileMode != 0 {
		what := "open to others"
		if !o.ReadOnly {
			if err := f.Chmod(fileMode); err != nil {
				return nil, ioErr(o.Path, "tightening the mode", err)
			}
			what = "tightened to 0600; who could read it before may hold a copy"
		}
		warnings = append(warnings, fmt.Sprintf("%q had mode %04o: %s", o.Path, perm, what))
	}
	if uid := os.Geteuid(); st.Uid != uint32(uid) {
		warnings = append(warnings, fmt.Sprintf("%q belongs to user %d, and this process is user %d", o.Path, st.Uid, uid))
	}
	if st.Nlink > 1 {
		warnings = append(warnings, fmt.Sprintf("%q has %d names (hard links): it can be changed under another one", o.Path, st.Nlink))
	}
	return warnings, nil
}
