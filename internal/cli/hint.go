package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"syscall"

	"breakwater/internal/client"
	"breakwater/internal/config"
	"breakwater/queue"
)

// lastHint is for an error of which nothing better is known. None that can be provoked
// may end with it: TestHints and the scripts look.
const lastHint = `"breakwater doctor" says what is wrong with this host, its configuration or its file`

// adviser is an error that knows what to do about it.
type adviser interface{ Advice() string }

// hintOf is what can be done about an error. Whoever made it knows best; else it is told
// by its kind, by what the server says, or by what the system has refused.
func hintOf(err error) string {
	var f *failure
	if errors.As(err, &f) && f.hint != "" {
		return f.hint
	}
	var a adviser
	if errors.As(err, &a) && a.Advice() != "" {
		return a.Advice()
	}
	var p *client.Problem
	if errors.As(err, &p) {
		return hintOfCode(queue.Code(p.Code))
	}
	var problems *config.Problems
	if errors.As(err, &problems) {
		return `"breakwater config check" lists what is wrong; without a file the built-in values hold`
	}
	for _, known := range systemHints {
		if errors.Is(err, known.err) {
			return known.hint
		}
	}
	return lastHint
}

// hintOfCode is for an answer of the control socket that has no hint of its own.
func hintOfCode(code queue.Code) string {
	switch code {
	case queue.CodeUsage:
		return "see the page of the command: --help"
	case queue.CodeNotFound:
		return `"breakwater dlq list", "keys list" and "leases list" show what there is`
	case queue.CodeSaturated:
		return "another one is under way: wait for its end, and ask again"
	case queue.CodeDraining:
		return "breakwater is ending: ask again when it is back"
	case queue.CodeStorageUnavailable:
		return `nothing was changed; make room on the disk of data_dir ("breakwater doctor" says how much there is)`
	case queue.CodeInternal:
		return "breakwater's log says more"
	}
	return lastHint
}

// systemHints are what the store and the operating system say, and what it mostly means.
// The first that fits counts.
var systemHints = []struct {
	err  error
	hint string
}{
	{queue.ErrFailed, "what was answered before is kept; the log and the kernel's (dmesg) say what failed: mend it and start again"},
	{queue.ErrDamaged, `"breakwater audit verify --file COPY" says what is damaged; put your last good copy in its place and start with --restore`},
	{queue.ErrNoRoom, "nothing was changed; make room on the disk of data_dir"},
	{context.Canceled, "it was interrupted: run it again"},
	{context.DeadlineExceeded, `no answer came in time: "breakwater doctor" says whether it is alive`},
	{os.ErrDeadlineExceeded, `no answer came in time: "breakwater doctor" says whether it is alive`},
	{syscall.EISDIR, "that is a folder: name the file in it"},
	{syscall.ENOTDIR, "a part of the path is no folder: check it"},
	{fs.ErrNotExist, "check the path: nothing is there"},
	{fs.ErrExist, "it is there already: choose another name"},
	{fs.ErrPermission, "this user may not: run it as one who may, or give it the right to"},
	{syscall.EROFS, "the file system is read-only: choose another place, or remount it"},
	{syscall.ELOOP, "a link leads nowhere, or must not be followed: name the file itself"},
	{syscall.ENOSPC, "no room is left on that disk: make some"},
	{syscall.EDQUOT, "no room is left on that disk for this user: make some"},
	{syscall.EIO, "the device does not work: the kernel's log (dmesg) says more"},
	{syscall.ENXIO, "that is no file, or nobody is at its other end"},
	{syscall.EADDRINUSE, "somebody listens there already: stop it, or choose another address"},
	{syscall.EADDRNOTAVAIL, "this host has no such address: check it"},
	{syscall.EMFILE, "too many files are open: raise the limit (LimitNOFILE=, ulimit -n)"},
	{syscall.ENOEXEC, "that cannot be run: it needs a first line like #!/bin/sh"},
}
