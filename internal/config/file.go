package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// Places that are looked at where neither flag nor variable names a file.
const (
	localFile  = "config.hcl"
	systemFile = "/etc/breakwater/config.hcl"
)

// Find decides which file to load: the flag's, $BREAKWATER_CONFIG's, ./config.hcl,
// /etc/breakwater/config.hcl, in this order. The path is "" where there is none,
// which Load takes for the built-in defaults. explicit tells that the user named
// the file, so that its absence is an error.
//
// A file that exists but cannot be read is still the one: going on to the next
// would run with another configuration than the operator sees.
func Find(flag string, getenv func(string) string) (path string, explicit bool) {
	return find(flag, getenv, localFile, systemFile)
}

func find(flag string, getenv func(string) string, candidates ...string) (string, bool) {
	if flag != "" {
		return flag, true
	}
	if named := getenv("BREAKWATER_CONFIG"); named != "" {
		return named, true
	}
	for _, candidate := range candidates {
		if _, err := os.Lstat(candidate); !errors.Is(err, fs.ErrNotExist) {
			return candidate, false
		}
	}
	return "", false
}

// Load reads a configuration from a file, or the built-in defaults where path is
// "". Relative paths in it count from the file's folder. The error is a *Problems.
func Load(path string) (Config, error) {
	if path == "" {
		r := &reader{cfg: Default()}
		r.interlocks()
		return r.result()
	}
	src, err := readFile(path)
	if err != nil {
		return Config{}, err
	}
	absolute, err := filepath.Abs(path)
	if err != nil {
		return Config{}, unreadable(path, err, "the working directory is unknown", "give an absolute path")
	}
	return Parse(path, src, filepath.Dir(absolute))
}

// readFile reads a regular file of at most MaxFileBytes. O_NONBLOCK keeps the
// opening of a FIFO or a device from waiting for its other end.
func readFile(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	defer f.Close() // read only: nothing can be lost
	info, err := f.Stat()
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	if !info.Mode().IsRegular() {
		return nil, unreadable(path, nil, "is "+fileType(info.Mode())+", not a file", "")
	}
	src, err := io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
	if err != nil {
		return nil, cannotOpen(path, err)
	}
	return src, nil // Parse refuses the byte too many
}

// cannotOpen says it in words of the file; the system's error stays reachable
// through Unwrap.
func cannotOpen(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return unreadable(path, err, "does not exist", "without --config and $BREAKWATER_CONFIG the built-in defaults are used")
	case errors.Is(err, fs.ErrPermission):
		return unreadable(path, err, "cannot be read: permission denied", fmt.Sprintf("this process runs as user %d", os.Geteuid()))
	case errors.Is(err, syscall.ENXIO):
		return unreadable(path, err, "is a socket or device, not a file", "")
	}
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err // the path is in front already
	}
	return unreadable(path, err, "cannot be read: "+err.Error(), "")
}

func unreadable(path string, cause error, what, hint string) *Problems {
	return &Problems{List: []Problem{{File: path, Message: what, Hint: hint}}, cause: cause}
}

func fileType(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
