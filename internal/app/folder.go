package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// noParentError: a folder is not there, nor the one that it would be in. Of each folder
// that the configuration names breakwater makes the last level; its parents it leaves to
// people: a typo in them would become an empty store that takes lines while the real one
// lies elsewhere, or sockets that nobody finds.
type noParentError struct {
	what   string
	parent string
	err    error
}

// Error says which folder is missing.
func (e *noParentError) Error() string {
	return fmt.Sprintf("make %s: its parent %q does not exist", e.what, e.parent)
}

// Unwrap returns the operating system's error.
func (e *noParentError) Unwrap() error { return e.err }

// Advice says what to do.
func (e *noParentError) Advice() string {
	return fmt.Sprintf("if the path is meant, create it: mkdir -p %q", e.parent)
}

// makeDataDir makes the last level of the path, if it is not there.
func makeDataDir(path string) error {
	err := os.Mkdir(path, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // what else it may be than a folder, opening the store says
	case errors.Is(err, fs.ErrNotExist):
		return &noParentError{what: "data_dir", parent: filepath.Dir(path), err: err}
	case err != nil:
		return fmt.Errorf("make data_dir: %w", err)
	}
	return nil
}
