package app

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"

	"breakwater/internal/config"
	"breakwater/internal/socket"
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

// advisedError is an error with what a person can do about it.
type advisedError struct {
	err  error
	hint string
}

// Error is the error's text.
func (e *advisedError) Error() string { return e.err.Error() }

// Unwrap is the error.
func (e *advisedError) Unwrap() error { return e.err }

// Advice says what to do.
func (e *advisedError) Advice() string { return e.hint }

// listenError is why a socket could not be made.
func listenError(name string, c config.Socket, err error) error {
	dir, hint := filepath.Dir(c.Path), ""
	var group user.UnknownGroupError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &noParentError{what: fmt.Sprintf("%q, the folder of the %s socket", dir, name), parent: filepath.Dir(dir), err: err}
	case errors.Is(err, socket.ErrInUse):
		hint = "stop what listens there, or give this breakwater a run_dir of its own"
	case errors.Is(err, socket.ErrNotSocket):
		hint = "see what it is and move it away, or set another path for the socket"
	case errors.Is(err, socket.ErrOpenDirectory):
		hint = fmt.Sprintf("chmod o-w %q, or set another run_dir", dir)
	case errors.Is(err, socket.ErrPath):
		hint = "set another run_dir, or another path for the socket"
	case errors.As(err, &group):
		hint = "make the group (groupadd), or name one that this host has"
	}
	err = fmt.Errorf("%s socket: %w", name, err)
	if hint == "" {
		return err // the system's own: known by its number
	}
	return &advisedError{err: err, hint: hint}
}
