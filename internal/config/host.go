package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"breakwater/internal/checkpoint"
)

// CheckHost looks at this host with the eyes of the configuration: folders,
// programs and files that it names, and who may write to them. It changes
// nothing. Parse cannot do it, because a file is also checked on another machine
// than the one it is for; "config check" and the start do.
func (c Config) CheckHost() []Problem {
	var found []Problem
	say := func(wrong *complaint, keys ...string) {
		if wrong != nil {
			p, _ := c.locate(finding{keys, keys[0] + " " + wrong.what, wrong.hint}, nil)
			p.Denied = wrong.denied
			found = append(found, p)
		}
	}
	if c.origin.file != "" {
		say(notWritableByAll(c.origin.file), "the config file")
	}
	say(folderOrNew(c.DataDir), "data_dir")
	if _, err := os.Stat(c.RunDir); err == nil || filepath.Dir(c.RunDir) != c.DataDir {
		say(folderOrNew(c.RunDir), "run_dir") // else it is made along with data_dir
	}
	for _, p := range append(c.socketPaths(), ownPath{"store.bbolt.path", c.Store.Path}) {
		if dir := filepath.Dir(p.path); dir != c.RunDir && dir != c.DataDir {
			wrong := folderOrNew(dir)
			if wrong != nil && wrong.unmade {
				wrong.what = "is in a folder that " + wrong.what
			}
			say(wrong, p.key)
		}
	}
	say(fileOrNew(c.Store.Path), "store.bbolt.path")
	for _, p := range c.outputs() {
		say(folderOfFile(p.path), p.key)
	}
	for _, s := range []struct{ group, key string }{
		{c.Sockets.Enqueue.Group, "socket.enqueue.group"}, {c.Sockets.Consume.Group, "socket.consume.group"}, {c.Sockets.Control.Group, "socket.control.group"},
	} {
		say(knownGroup(s.group), s.key)
	}
	if c.Metrics.Listen != "" {
		say(bindable(c.Metrics.Listen, c.Sockets.Control.Path), "metrics.listen")
	}
	if c.Checkpoint.Key != "" {
		say(signingKey(c.Checkpoint.Key), "checkpoint.key")
	}
	for _, h := range c.Handlers {
		if h.Kind == KindExec && len(h.Command) > 0 {
			say(program(h.Command[0]), "handler.exec."+h.Name+".command")
		}
		if h.AuthorizationFile != "" {
			say(secretFile(h.AuthorizationFile, "write the header's value into it, like Bearer …"), "handler."+h.Kind+"."+h.Name+".authorization_file")
		}
		if _, set := os.LookupEnv(h.AuthorizationEnv); h.AuthorizationEnv != "" && !set {
			say(complain("set it in the service's environment", "names the variable %s, which is not set here", h.AuthorizationEnv),
				"handler."+h.Kind+"."+h.Name+".authorization_env")
		}
	}
	found = append(found, c.CheckOutputs()...)
	sortProblems(found)
	return found
}

// outputs are the files that lines are added to.
func (c Config) outputs() (paths []ownPath) {
	for _, p := range []ownPath{{streamKey, c.Audit.Stream}, {"checkpoint.output", c.Checkpoint.Output}} {
		if isPath(p.path) {
			paths = append(paths, p)
		}
	}
	return paths
}

const streamKey = "audit.stream"

// CheckOutputs looks at what audit.stream and checkpoint.output name, where something is
// there: only a file keeps what it is given. A FIFO would hold up who opens it until
// somebody reads, a device may do anything. The start refuses what this finds: better
// than evidence that is missing.
func (c Config) CheckOutputs() (found []Problem) {
	for _, o := range c.outputs() {
		wrong := fileToAppend(o.path, o.key == streamKey)
		if wrong == nil {
			wrong = c.notOfOurs(o)
		}
		if wrong != nil {
			p, _ := c.locate(finding{[]string{o.key}, o.key + " " + wrong.what, wrong.hint}, nil)
			p.Denied = wrong.denied
			found = append(found, p)
		}
	}
	return found
}

// notOfOurs is a file that we do not have already, under another name: what is appended to
// the store, say, would be the end of it.
func (c Config) notOfOurs(o ownPath) *complaint {
	info, err := os.Stat(o.path)
	if err != nil {
		return nil // there is none yet, or it is told elsewhere
	}
	for _, p := range append(c.filePaths(), ownPath{"the config file", c.origin.file}) {
		if p.key == o.key || p.path == "" {
			continue
		}
		if other, err := os.Stat(p.path); err == nil && os.SameFile(info, other) {
			return complain("give each its own", "%s is the same file as %s %s", shownPath(o.path), p.key, shownPath(p.path))
		}
	}
	return nil
}

// fileToAppend is a file, or a name for one. A checkpoint is not written through a link:
// somebody else could have made it.
func fileToAppend(path string, links bool) *complaint {
	look := os.Lstat
	if links {
		look = os.Stat
	}
	info, err := look(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unseen(path, "looked at", err)
	case !info.Mode().IsRegular():
		return complain(`give a file's path, or "stdout"`, "%s is %s, not a file", shownPath(path), fileType(info.Mode()))
	}
	return nil
}

// problems gives findings their places, and the order of the file.
func (c Config) problems(found []finding) []Problem {
	var list []Problem
	for _, f := range found {
		p, _ := c.locate(f, nil)
		list = append(list, p)
	}
	sortProblems(list)
	return list
}

// writableByAll: with this permission every user of the host decides what we run
// or read. A group is the operator's own choice.
func writableByAll(info fs.FileInfo) bool { return info.Mode().Perm()&0o002 != 0 }

// notWritableByAll is for the config file itself.
func notWritableByAll(path string) *complaint {
	info, err := os.Stat(path)
	if err != nil {
		return nil // it has been read already; what became of it since is no matter
	}
	if writableByAll(info) {
		return complain("it decides which programs run: chmod o-w "+path, "can be written by everyone")
	}
	return nil
}

// folderOrNew is a folder in which files can be made, or that can be made in one that
// exists.
func folderOrNew(path string) *complaint {
	_, err := os.Stat(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return writableFolder(path)
	}
	parent := filepath.Dir(path)
	if wrong := writableFolder(parent); wrong != nil {
		return &complaint{what: "cannot be made: its parent " + wrong.what, hint: wrong.hint, denied: wrong.denied, unmade: true}
	}
	return nil
}

// folderOfFile wants the folder of a file to be there, and the file to be one that can be
// written, or made.
func folderOfFile(path string) *complaint {
	dir := filepath.Dir(path)
	if wrong := existingFolder(dir); wrong != nil {
		return wrong
	}
	if _, err := os.Stat(path); err == nil {
		return writable(path)
	}
	return writable(dir)
}

// writableFolder wants an existing folder in which this user can make files.
func writableFolder(path string) *complaint {
	if wrong := existingFolder(path); wrong != nil {
		return wrong
	}
	return writable(path)
}

// Permissions, as access(2) asks for them.
const mayWrite, mayEnter = 2, 1

// writable wants a file or folder that this user can write to. Whoever asks may be
// another one than the service's: that is said, and who has it.
func writable(path string) *complaint {
	info, err := os.Stat(path)
	if err != nil {
		return unseen(path, "looked at", err)
	}
	mode := uint32(mayWrite)
	if info.IsDir() {
		mode |= mayEnter
	}
	switch err := syscall.Access(path, mode); {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EROFS):
		return complain("remount it, or name a folder elsewhere", "%s is on a file system that is mounted read-only", shownPath(path))
	case !errors.Is(err, fs.ErrPermission):
		return unseen(path, "looked at", err)
	}
	wrong := complain("", "%s cannot be written by uid %d", shownPath(path), os.Geteuid())
	if owner, ok := info.Sys().(*syscall.Stat_t); ok && int(owner.Uid) != os.Geteuid() {
		wrong.hint = fmt.Sprintf("it belongs to uid %d: ask as that user, or chown it", owner.Uid)
	} else {
		wrong.hint = "chmod u+w " + path
	}
	wrong.denied = true
	return wrong
}

// existingFolder wants a folder in which nobody else can replace our files: one
// that everyone may write to needs the sticky bit, as /tmp has.
func existingFolder(path string) *complaint {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return complain("create it: mkdir -p "+path, "%s does not exist", shownPath(path))
	case err != nil:
		return unseen(path, "looked at", err)
	case !info.IsDir():
		return complain("", "%s is not a folder", shownPath(path))
	case writableByAll(info) && info.Mode()&fs.ModeSticky == 0:
		return complain("chmod o-w "+path, "%s can be written by everyone", shownPath(path))
	}
	return nil
}

// knownGroup wants a group that this host has. A number need not have a name.
func knownGroup(group string) *complaint {
	if _, err := strconv.ParseUint(group, 10, 32); group == "" || err == nil {
		return nil
	}
	if _, err := user.LookupGroup(group); err != nil {
		return complain("create it: groupadd --system "+group, "names a group that this host does not have: %s", shown(group))
	}
	return nil
}

// fileOrNew is for the store: what it holds, and its ledger's secret, is nobody
// else's to read. A folder or a device in its place is never replaced.
func fileOrNew(path string) *complaint {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return unseen(path, "looked at", err)
	case !info.Mode().IsRegular():
		return complain("", "%s is %s, not a file", shownPath(path), fileType(info.Mode()))
	case info.Mode().Perm()&0o007 != 0:
		return complain("chmod 600 "+path, "%s is open to everyone", shownPath(path))
	}
	return writable(path)
}

// secretFile wants a file that only its owner can read; absent says how to make it.
// One of root's that the group may read is good for everybody but root: that is how
// a service manager hands a credential over.
func secretFile(path, absent string) *complaint {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return complain(absent, "%s does not exist", shownPath(path))
	case err != nil:
		return unseen(path, "looked at", err)
	case !info.Mode().IsRegular():
		return complain("", "%s is %s, not a file", shownPath(path), fileType(info.Mode()))
	case info.Mode().Perm()&0o077 != 0 && !credential(info):
		return complain("chmod 600 "+path, "%s can be read by others than its owner", shownPath(path))
	}
	return nil
}

// signingKey wants a file that only its owner can read, and that holds a private key.
func signingKey(path string) *complaint {
	_, err := checkpoint.ReadSigner(path)
	var k *checkpoint.KeyError
	known := errors.As(err, &k)
	if wrong := secretFile(path, noKey); wrong != nil && !(known && k.Public) {
		return wrong
	}
	switch {
	case err == nil:
		return nil
	case known:
		return complain(k.Hint, "%s holds no private key", shownPath(path))
	}
	return unseen(path, "read", err)
}

func credential(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	return ok && owner.Uid == 0 && os.Geteuid() != 0 && info.Mode().Perm()&0o077 == 0o040
}

// program wants an executable file that nobody else can replace. A setuid one is
// refused: a handler runs with the appliance's rights, never with more.
func program(path string) *complaint {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return complain("", "%s does not exist", shownPath(path))
	case err != nil:
		return unseen(path, "looked at", err)
	case !info.Mode().IsRegular():
		return complain("", "%s is %s, not a program", shownPath(path), fileType(info.Mode()))
	case info.Mode().Perm()&0o111 == 0:
		return complain("chmod +x "+path, "%s is not executable", shownPath(path))
	case writableByAll(info):
		return complain("chmod o-w "+path, "%s can be written by everyone", shownPath(path))
	case info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0:
		return complain("chmod ug-s "+path, "%s is setuid or setgid", shownPath(path))
	}
	return existingFolder(filepath.Dir(path))
}

// unseen is for what cannot be looked at or read.
func unseen(path, what string, err error) *complaint {
	wrong := complain("", "%s cannot be %s: %s", shownPath(path), what, reason(err))
	wrong.denied = errors.Is(err, fs.ErrPermission)
	return wrong
}

// reason is an error without the path, which the message has already.
func reason(err error) string {
	var inner *fs.PathError
	if errors.As(err, &inner) {
		err = inner.Err
	}
	return err.Error()
}
