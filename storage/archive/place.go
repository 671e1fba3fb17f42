package archive

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

const (
	// ManifestSuffix is appended to an archive's path.
	ManifestSuffix = ".manifest.json"
	// tempSuffix ends the names of files that are not archives yet.
	tempSuffix = ".archiving"
	// maxName bounds an archive's name: a file system takes 255 bytes, and the names of
	// the temporary files are 42 longer.
	maxName = 200
	// fileMode is that of everything made here.
	fileMode = 0o600
)

// place is a destination that has been judged: a folder that is open, and a name in it
// that is free.
type place struct {
	dir  *os.File
	path string // of the archive to be
	name string // its last part
	temp string // the name of the copy until it is an archive
	note string // the name of the manifest until then
}

// newPlace judges a destination. store is the path of the live file.
func newPlace(dest, store string) (*place, error) {
	if err := goodName(dest, store); err != nil {
		return nil, err
	}
	dir, err := os.OpenFile(filepath.Dir(dest), os.O_RDONLY|unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, refuse(BadDest, "make the folder first, for the user that breakwater runs as", "the folder of \"%s\" does not exist", dest)
	case errors.Is(err, unix.ENOTDIR):
		return nil, refuse(BadDest, "give a path in a folder", "\"%s\" is not in a folder", dest)
	case err != nil:
		return nil, systemErr("open the folder of the archive", err)
	}
	if belongs(dir, filepath.Base(dest), store) {
		return nil, errors.Join(notTheStores(dest), dir.Close())
	}
	var random [8]byte
	if _, err := rand.Read(random[:]); err != nil {
		return nil, errors.Join(systemErr("make a temporary name", err), dir.Close())
	}
	p := &place{dir: dir, path: dest, name: filepath.Base(dest)}
	unique := "." + p.name + "." + hex.EncodeToString(random[:])
	p.temp, p.note = unique+tempSuffix, unique+ManifestSuffix+tempSuffix
	if err := p.free(store); err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return p, nil
}

// goodName judges the text of a destination.
func goodName(dest, store string) error {
	name := filepath.Base(dest)
	switch {
	case dest == "":
		return refuse(BadDest, "give the new file's absolute path, like /var/backups/breakwater.db", "the archive has no path")
	case !filepath.IsAbs(dest):
		return refuse(BadDest, "give its absolute path: the server writes it, and has another working directory", "\"%s\" is not an absolute path", dest)
	case !utf8.ValidString(dest) || strings.ContainsRune(dest, 0):
		return refuse(BadDest, "", "the archive's path is not UTF-8 text")
	case strings.HasSuffix(dest, "/") || name == "." || name == "..":
		return refuse(BadDest, "give the path of the new file itself", "\"%s\" is the path of a folder", dest)
	case len(name) > maxName:
		return refuse(BadDest, "choose a shorter name", "the archive's name is longer than %d bytes", maxName)
	case strings.HasSuffix(name, ManifestSuffix) || strings.HasSuffix(name, tempSuffix):
		return refuse(BadDest, "choose another name", "\"%s\" ends like a file that is made beside an archive", dest)
	case filepath.Clean(dest) == store:
		return refuse(BadDest, "choose another path", "\"%s\" is the live store itself", dest)
	}
	return nil
}

// belongs reports whether a name is one that the store gives to files beside its own:
// the lock and the witness (NAME.…), and what is made or written anew (.NAME.…), which
// the next opening removes. The folder may have been named by another path.
func belongs(dir *os.File, name, store string) bool {
	base := filepath.Base(store)
	if !strings.HasPrefix(name, base+".") && !strings.HasPrefix(name, "."+base+".") {
		return false
	}
	var here, stores unix.Stat_t
	return unix.Fstat(int(dir.Fd()), &here) == nil && unix.Stat(filepath.Dir(store), &stores) == nil &&
		here.Dev == stores.Dev && here.Ino == stores.Ino
}

func notTheStores(dest string) error {
	return refuse(BadDest, "choose another name", "\"%s\" is the name of a file that belongs to the live store", dest)
}

// free makes sure that nothing has the archive's names.
func (p *place) free(store string) error {
	var st unix.Stat_t
	err := unix.Fstatat(int(p.dir.Fd()), p.name, &st, unix.AT_SYMLINK_NOFOLLOW)
	switch {
	case errors.Is(err, unix.ENOENT):
		return p.freeManifest()
	case err != nil:
		return systemErr("look for the archive's name", err)
	}
	var live unix.Stat_t
	what := "exists already"
	switch {
	case unix.Stat(store, &live) == nil && live.Dev == st.Dev && live.Ino == st.Ino:
		what = "is the live store itself"
	case st.Mode&unix.S_IFMT == unix.S_IFDIR:
		what = "is a folder"
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		what = "is a symbolic link"
	}
	return refuse(Exists, "an archive never replaces a file: choose a new name, with the date in it, for instance", "\"%s\" %s", p.path, what)
}

// freeManifest refuses a file that has the manifest's name, unless it is the manifest
// of an archive of this name that came to nothing.
func (p *place) freeManifest() error {
	f, err := p.open(p.name+ManifestSuffix, os.O_RDONLY)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var m Manifest
	if err == nil {
		var text []byte
		text, err = io.ReadAll(io.LimitReader(f, maxManifest))
		err = errors.Join(err, f.Close(), json.Unmarshal(text, &m))
	}
	if err != nil || m.Format == 0 || m.Archive != p.name {
		return refuse(Exists, "choose a new name", "\"%s\" exists already, and is not a manifest that was left behind", p.path+ManifestSuffix)
	}
	return nil
}

// open opens a file of the folder; a link is not followed.
func (p *place) open(name string, flags int) (*os.File, error) {
	fd, err := unix.Openat(int(p.dir.Fd()), name, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: filepath.Join(p.dir.Name(), name), Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(p.dir.Name(), name)), nil
}

// create makes a temporary file and locks it, so that nobody takes it for a leftover.
func (p *place) create(name string) (*os.File, error) {
	f, err := p.open(name, os.O_RDWR|os.O_CREATE|os.O_EXCL)
	if err != nil {
		return nil, err
	}
	err = f.Chmod(fileMode) // whatever the umask
	if err == nil {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), p.remove(name))
	}
	return f, nil
}

// sweep removes what archives to the same name have left that were killed, gently until
// hurry. What is locked belongs to one that lives.
func (p *place) sweep(hurry <-chan struct{}) error {
	entries, err := os.ReadDir(p.dir.Name())
	if err != nil {
		return systemErr("look for archives that were cut off", err)
	}
	for _, e := range entries {
		rest, ours := strings.CutPrefix(e.Name(), "."+p.name+".")
		rest, temp := strings.CutSuffix(rest, tempSuffix)
		rest = strings.TrimSuffix(rest, ManifestSuffix)
		if b, err := hex.DecodeString(rest); !ours || !temp || err != nil || len(b) != 8 || !e.Type().IsRegular() {
			continue
		}
		f, err := p.open(e.Name(), os.O_RDWR)
		if err != nil {
			continue // another user's, or gone
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil && p.remove(e.Name()) == nil {
			giveBack(f, hurry)
		}
		_ = f.Close() // one that stays does no harm
	}
	return nil
}

func (p *place) remove(name string) error { return unix.Unlinkat(int(p.dir.Fd()), name, 0) }

// discard removes what is not an archive yet.
func (p *place) discard() {
	for _, name := range []string{p.temp, p.note} {
		_ = p.remove(name) // the failure before it is the one to tell
	}
}

// undo removes an archive that has its name already.
func (p *place) undo() {
	_, _ = p.remove(p.name), p.remove(p.name+ManifestSuffix)
	_ = p.sync()
}

// sync makes the folder's names durable, on file systems that know such a thing.
func (p *place) sync() error {
	err := p.dir.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) {
		return nil
	}
	return err
}

// publish gives manifest and archive their names, in this order: where there is an
// archive, its manifest is beside it.
func (p *place) publish() error {
	if err := p.publishManifest(); err != nil {
		return err
	}
	err := p.sync()
	if err == nil {
		err = p.renameNew(p.temp, p.name)
	}
	if err == nil {
		if err = p.sync(); err == nil {
			return nil
		}
		_ = p.remove(p.name)
	}
	_ = p.remove(p.name + ManifestSuffix)
	if errors.Is(err, unix.EEXIST) {
		return refuse(Exists, "choose a new name", "\"%s\" exists by now: somebody else made it meanwhile", p.path)
	}
	return systemErr("give the archive its name", err)
}

// publishManifest gives the manifest its name: that of one which was left behind, or one
// that is free. Whatever has it by now else is somebody's.
func (p *place) publishManifest() error {
	name := p.name + ManifestSuffix
	if err := p.freeManifest(); err != nil {
		return err
	}
	if err := p.remove(name); err != nil && !errors.Is(err, unix.ENOENT) {
		return systemErr("remove a manifest that was left behind", err)
	}
	if err := p.renameNew(p.note, name); err != nil {
		return systemErr("give the manifest its name", err)
	}
	return nil
}

// renameNew renames only to a name that is free. File systems that cannot (some
// network ones) can link.
func (p *place) renameNew(from, to string) error {
	fd := int(p.dir.Fd())
	err := unix.Renameat2(fd, from, fd, to, unix.RENAME_NOREPLACE)
	if !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOSYS) {
		return err
	}
	if err := unix.Linkat(fd, from, fd, to, 0); err != nil {
		return err
	}
	return p.remove(from)
}
