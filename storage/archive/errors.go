package archive

import (
	"errors"
	"fmt"
	"io/fs"

	"golang.org/x/sys/unix"
)

// Kind says what sort of failure an [Error] is.
type Kind int

// The kinds of failure. After each of them nothing is under the archive's name.
const (
	Failed    Kind = iota // the system refused something
	BadDest               // the destination can never be one
	Exists                // something has its name already
	Busy                  // another archive is being made
	NoRoom                // it does not fit, or would not leave enough room
	TooSlow               // the destination takes it more slowly than a copy may last
	Unsound               // the copy was made, and is not what it should be
	Ended                 // the check was ended from outside, or had no memory: nothing is known of the copy
	Stopped               // whoever asked has left, or the process is ending
	NotStored             // the archive could not be recorded in the store
)

// Error is why there is no archive.
type Error struct {
	Kind Kind
	Err  error
	Hint string // what a person can do; may be empty
}

// Error is what went wrong.
func (e *Error) Error() string { return e.Err.Error() }

// Unwrap is the cause.
func (e *Error) Unwrap() error { return e.Err }

// Advice is the hint.
func (e *Error) Advice() string { return e.Hint }

func refuse(k Kind, hint, format string, args ...any) *Error {
	return &Error{Kind: k, Err: fmt.Errorf(format, args...), Hint: hint}
}

// sandboxed is the hint for a folder that cannot be written to: under systemd the
// usual reason is not the folder.
const sandboxed = "choose a folder that the user breakwater runs as may write to; under systemd it needs ReadWritePaths= in a drop-in (systemctl edit breakwater)"

// systemErr files an error of the operating system.
func systemErr(doing string, err error) *Error {
	var known *Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT), errors.Is(err, unix.EFBIG):
		return refuse(NoRoom, "make room, or choose another disk; nothing was left behind", "%s: %w", doing, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, unix.EROFS):
		return refuse(Failed, sandboxed, "%s: %w", doing, err)
	}
	return refuse(Failed, "choose another folder, on a disk of this machine; nothing was left behind", "%s: %w", doing, err)
}
