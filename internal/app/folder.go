package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// noParentError: data_dir is not there, nor the folder that it would be in.
type noParentError struct {
	parent string
	err    error
}

// Error says which folder is missing.
func (e *noParentError) Error() string {
	return fmt.Sprintf("make data_dir: its parent %q does not exist", e.parent)
}

// Unwrap returns the operating system's error.
func (e *noParentError) Unwrap() error { return e.err }

// Advice says what to do.
func (e *noParentError) Advice() string {
	return fmt.Sprintf("if the path is meant, create it: mkdir -p %q", e.parent)
}

// makeDataDir makes the last level of the path, if it is not there. Its parents it
// leaves to people: a typo in them would become an empty store that takes lines
// while the real one lies elsewhere.
func makeDataDir(path string) error {
	err := os.Mkdir(path, 0o700)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil // what else it may be than a folder, opening the store says
	case errors.Is(err, fs.ErrNotExist):
		return &noParentError{parent: filepath.Dir(path), err: err}
	case err != nil:
		return fmt.Errorf("make data_dir: %w", err)
	}
	return nil
}
