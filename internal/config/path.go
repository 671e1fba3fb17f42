package config

import (
	"path/filepath"
	"strings"
)

// resolve makes a path absolute relative to base, and clean.
func resolve(base, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(base, path)
}

// place fills the paths that were left out from the ones they depend on.
// runtimeDirectory is the value of $RUNTIME_DIRECTORY: systemd lists there, with
// colons between, every directory that the unit asked for; the first is ours.
func (c *Config) place(base, runtimeDirectory string) {
	if c.RunDir == "" {
		first, _, _ := strings.Cut(runtimeDirectory, ":")
		if first != "" {
			c.RunDir = resolve(base, first)
		} else {
			c.RunDir = filepath.Join(c.DataDir, "run")
		}
	}
	if c.Store.Path == "" {
		c.Store.Path = filepath.Join(c.DataDir, "breakwater.db")
	}
	for name, s := range map[string]*Socket{
		"enqueue.sock": &c.Sockets.Enqueue,
		"consume.sock": &c.Sockets.Consume,
		"control.sock": &c.Sockets.Control,
	} {
		if s.Path == "" {
			s.Path = filepath.Join(c.RunDir, name)
		}
	}
}
