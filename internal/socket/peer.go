package socket

import (
	"fmt"
	"net"

	"golang.org/x/sys/unix"

	"breakwater/queue"
)

// peerOf asks the kernel who connected (SO_PEERCRED, unix(7)). The answer was fixed
// at connect: it belongs to the connection, also when its descriptor is passed on,
// and a peer cannot forge it. The pid may be another process's by now; it is good for
// the record only.
func peerOf(c *net.UnixConn) (queue.Peer, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return queue.Peer{}, err
	}
	var cred *unix.Ucred
	var credErr error
	err = raw.Control(func(fd uintptr) {
		cred, credErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
	})
	if err == nil {
		err = credErr
	}
	if err != nil {
		return queue.Peer{}, fmt.Errorf("ask for the peer's credentials: %w", err)
	}
	return queue.Peer{UID: cred.Uid, GID: cred.Gid, PID: cred.Pid}, nil
}
