package socket

import "errors"

// What Listen refuses, before it has changed anything. Each is wrapped with the
// path, and with what a person can do about it.
var (
	// ErrPath: the path cannot be that of a socket: too long, empty, or abstract.
	ErrPath = errors.New("not a usable socket path")

	// ErrInUse: a live process listens there, or it cannot be known that none does.
	ErrInUse = errors.New("socket is in use")

	// ErrNotSocket: something else has the name, and it is left alone.
	ErrNotSocket = errors.New("path exists and is not a socket")

	// ErrOpenDirectory: everyone may replace files in the socket's directory.
	ErrOpenDirectory = errors.New("directory is writable by everyone")
)
