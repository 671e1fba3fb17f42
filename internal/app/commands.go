package app

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"breakwater/internal/kin"
)

// GuardCommand is the hidden command that ends what handlers have started when this
// process has ended otherwise than it should: see [kin.Guard]. The command line hands its
// argument to it.
const GuardCommand = "__guard-commands"

// succeed ends what the handlers of a former process have left, before anything is
// handed out again: two of one delivery must not be at work at once (P4). It is called
// under the store's lock, which that process has therefore let go of.
func (a *appliance) succeed() error {
	if a.o.Guard == nil {
		return nil // the mark is the process's, and this is a part of one: a test
	}
	line, err := lineOf(a.o.Config.Store.Path)
	if err != nil {
		return fmt.Errorf("look for commands of a former process: %w", err)
	}
	commands, found, err := kin.Lead(line, a.o.Guard)
	if err != nil {
		return err
	}
	a.commands = commands
	if found.Count > 0 {
		a.log.Warn("killed what commands of a former process had left", "processes", found.Count)
	}
	if len(found.Foreign) > 0 {
		a.log.Error("a former process has left commands that run as other users, and cannot be killed; they may still be at work",
			"pids", fmt.Sprint(found.Foreign))
	}
	for _, err := range found.Troubles {
		a.log.Warn("if this process is killed, its commands may live on and meet their own redelivery", "error", err.Error())
	}
	return nil
}

// lineOf names the place of a store: what can be had by one process at a time. Two copies
// of a store are two places.
func lineOf(path string) (string, error) {
	info, err := os.Stat(filepath.Dir(path))
	if err != nil {
		return "", err
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return "", fmt.Errorf("the inode of %s is not known", filepath.Dir(path))
	}
	return fmt.Sprintf("store %d:%d %s", st.Dev, st.Ino, filepath.Base(path)), nil
}

// commandStarts is told before a handler starts a command.
func (a *appliance) commandStarts() {
	if a.commands == nil {
		return
	}
	if err := a.commands.Guarded(); err != nil {
		a.log.Warn("what commands start will be ended at the next start, if this process is killed, and not at once", "error", err.Error())
	}
}

// endCommands ends what is left of commands, after the last handler has returned.
func (a *appliance) endCommands() {
	if a.commands == nil {
		return
	}
	left, err := a.commands.Release()
	if left > 0 {
		a.log.Warn("killed what commands had left", "processes", left)
	}
	if err != nil {
		a.log.Warn("end what commands have left", "error", err.Error())
	}
}
