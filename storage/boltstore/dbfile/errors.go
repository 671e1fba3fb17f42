package dbfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is what is wrong with a file, in one word that scripts may rely on. Each
// kind is an error to be asked for with [errors.Is].
type Kind string

// The catalogue. While opening:
const (
	ErrLocked     Kind = "STORE_LOCKED"      // another process has it
	ErrEmpty      Kind = "STORE_EMPTY"       // zero bytes; never re-initialised
	ErrForeign    Kind = "STORE_FOREIGN"     // not a bbolt file at all
	ErrTruncated  Kind = "STORE_TRUNCATED"   // shorter than its own meta page says
	ErrDamaged    Kind = "STORE_DAMAGED"     // meta pages or tree do not hold together
	ErrNewer      Kind = "STORE_NEWER"       // written by a later version
	ErrNotRegular Kind = "STORE_NOT_REGULAR" // link, folder, device, socket, pipe
	ErrReadOnlyFS Kind = "STORE_READ_ONLY"   // the file system allows no writing
	ErrPermission Kind = "STORE_PERMISSION"  // ours to open, but not for this user
	ErrAbsent     Kind = "STORE_ABSENT"      // nothing there, and nothing may be created
	ErrNoSpace    Kind = "STORE_NO_SPACE"    // creation found the disk full
	ErrIO         Kind = "STORE_IO"          // the device or the kernel refused

	// Sound in itself, and taken into service only on request:
	ErrRolledBack Kind = "STORE_ROLLED_BACK" // older than, or not the same as, what its witness has seen
	ErrCopy       Kind = "STORE_COPY"        // marked as a copy
)

// Later in a file's life:
const (
	ErrGone    Kind = "STORE_GONE"      // deleted, replaced or cut short while open
	ErrUnclean Kind = "STORE_UNCLEAN"   // closed, but without the clean mark: the next open walks
	ErrWitness Kind = "WITNESS_DAMAGED" // no slot of the witness can be read
)

// kindText says each kind in words, as the middle of a sentence that starts
// with the path.
func kindText(k Kind) string {
	switch k {
	case ErrLocked:
		return "is in use by another breakwater"
	case ErrEmpty:
		return "is empty (0 bytes)"
	case ErrForeign:
		return "is not a breakwater store"
	case ErrTruncated:
		return "is cut short"
	case ErrDamaged:
		return "is damaged"
	case ErrNewer:
		return "was written by a newer version"
	case ErrNotRegular:
		return "is not a regular file"
	case ErrReadOnlyFS:
		return "is on a read-only file system"
	case ErrPermission:
		return "may not be opened by this user"
	case ErrAbsent:
		return "does not exist"
	case ErrNoSpace:
		return "cannot be created: no room"
	case ErrIO:
		return "cannot be read or written"
	case ErrRolledBack:
		return "is not the one that its witness has seen last"
	case ErrCopy:
		return "is a copy"
	case ErrGone:
		return "was deleted, replaced or cut short while in use"
	case ErrUnclean:
		return "was closed without its clean-stop mark"
	case ErrWitness:
		return "is damaged: neither slot can be read"
	}
	return string(k)
}

// Error is the kind in words.
func (k Kind) Error() string { return "the store " + kindText(k) }

// Code is the stable code, the same as string(k).
func (k Kind) Code() string { return string(k) }

// FileError says which file, what is wrong with it, the particulars, and what a
// person can do about it. errors.Is finds both its Kind and Err.
type FileError struct {
	Kind Kind
	Path string
	Err  error  // the particulars; nil when the kind says it all
	Hint string // what to do, without "hint:"; may be empty
}

// Error does not repeat the hint: whoever shows errors to a person asks for it.
func (e *FileError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%q %s", e.Path, kindText(e.Kind))
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	}
	return b.String()
}

// Unwrap gives errors.Is both the kind and the cause.
func (e *FileError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Code is the kind's stable code.
func (e *FileError) Code() string { return e.Kind.Code() }

// Advice is the hint; a method, so that a caller can ask for it by interface.
func (e *FileError) Advice() string { return e.Hint }

// defaultHint is what to do about a kind where the place of the error knows
// nothing better.
func defaultHint(k Kind) string {
	switch k {
	case ErrLocked:
		return "stop the other one first; commands for a running store go through its control socket"
	case ErrEmpty:
		return "put your last good copy in its place and start with \"breakwater serve --restore\"; only if it never held anything, remove it and it is created anew"
	case ErrForeign:
		return "check store.path in the configuration; the file was left as it is"
	case ErrTruncated, ErrDamaged:
		return "put your last good copy in its place and start with \"breakwater serve --restore\"; keep this file for inspection, it was left as it is"
	case ErrNewer:
		return "install the version that wrote it, or a later one"
	case ErrNotRegular:
		return "give the path of the file itself; links are not followed"
	case ErrReadOnlyFS:
		return "remount it for writing (a disk error may have made it read-only: see the kernel's log)"
	case ErrPermission:
		return "run as the owner of the file, or give it to this user"
	case ErrAbsent:
		return "check the path"
	case ErrNoSpace:
		return "make room; nothing was left behind"
	case ErrIO:
		return "look at the path and its folder, and for errors of the disk at the kernel's log (dmesg)"
	case ErrRolledBack:
		return "see that the right disk is mounted, and put back the file that was here last; only if this one is meant, run \"breakwater serve --restore\": it voids all leases, starts paused, and what was done since is handed out again"
	case ErrCopy:
		return "if that is meant, run \"breakwater serve --restore\": it voids all leases and starts paused"
	case ErrGone:
		return "do not move, replace or copy over the file of a running store; restart to see what is there now"
	}
	return ""
}

// Fault is an error of this kind, for whoever judges a file by what it holds.
func Fault(k Kind, path string, err error) *FileError { return fileErr(k, path, err) }

// fileErr builds a FileError with the kind's usual hint.
func fileErr(k Kind, path string, err error) *FileError {
	return &FileError{Kind: k, Path: path, Err: err, Hint: defaultHint(k)}
}

// damaged is the commonest case of fileErr.
func damaged(path, format string, args ...any) *FileError {
	return fileErr(ErrDamaged, path, fmt.Errorf(format, args...))
}

// ioErr files an error of the operating system under the kind that tells a
// person most. doing is what was attempted. An error that is filed already stays what it
// is.
func ioErr(path, doing string, err error) *FileError {
	if known, ok := err.(*FileError); ok {
		return known
	}
	kind := ErrIO
	switch {
	case errors.Is(err, fs.ErrNotExist):
		kind = ErrAbsent
	case errors.Is(err, unix.EROFS):
		kind = ErrReadOnlyFS
	case errors.Is(err, fs.ErrPermission):
		kind = ErrPermission
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind = ErrNoSpace
	case errors.Is(err, unix.ELOOP):
		kind = ErrNotRegular
	}
	return fileErr(kind, path, fmt.Errorf("%s: %w", doing, err))
}
