package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// PublicSuffix is what the public key's file adds to the private one's path.
const PublicSuffix = ".pub"

// WriteKey makes a key of this name and writes the private one into a file that only
// its owner can read, the public one beside it. Neither file may exist: a key that is
// written over signs nothing any more, and what it signed is checked by nobody. It
// returns the public key, and its name and hash.
func WriteKey(path, name string) (public, id string, err error) {
	secret, public, err := Generate(name)
	if err != nil {
		return "", "", err
	}
	k, err := ReadKeys(public)
	if err != nil {
		return "", "", err
	}
	// The public one first: what is left of a failure is then no secret.
	if err := create(path+PublicSuffix, public, 0o644); err != nil {
		return "", "", err
	}
	if err := create(path, secret, 0o600); err != nil {
		return "", "", errors.Join(err, os.Remove(path+PublicSuffix))
	}
	return public, k.Names()[0], syncFolder(filepath.Dir(path))
}

// create writes one line into a new file, and sees it on the disk.
func create(path, line string, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY|syscall.O_NOFOLLOW, mode)
	if errors.Is(err, fs.ErrExist) {
		return keyErrorf("a key is never written over: name another file with --out", "%s exists already", path)
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	_, err = f.WriteString(line + "\n")
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(fmt.Errorf("write the key: %w", err), os.Remove(path))
	}
	return nil
}

func syncFolder(dir string) error {
	d, err := os.Open(dir)
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("write the key: %w", err)
	}
	return nil
}
