package socket

import (
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// MaxPath is how long a socket's path may be, in bytes: sun_path has 108 and
	// ends with a NUL (unix(7)).
	MaxPath = 107

	// DefaultMode lets the group in and nobody else.
	DefaultMode fs.FileMode = 0o660

	// DefaultMaxConnections is enough for a branch host and little to be held up by.
	DefaultMaxConnections = 256

	// acceptQueue is how many connections wait for Accept; the kernel lowers it to
	// net.core.somaxconn.
	acceptQueue = 1024
)

// ListenOptions says where to listen and whom to let in. Only Path is required.
type ListenOptions struct {
	Path           string
	Mode           fs.FileMode  // permission bits; connecting needs the write bit. 0: DefaultMode
	Group          string       // name or number; "": the process's own
	MaxConnections int          // open at once; 0: DefaultMaxConnections. See SetMaxConnections
	Refusal        []byte       // what a connection that is not let in is sent; nil: the NDJSON error line
	Log            hclog.Logger // nil: nothing is logged
}

// Listener accepts connections on one socket, up to a limit. It is a net.Listener
// whose connections are of type *Conn. One goroutine accepts, by Serve or Accept; the
// other methods may be called by any.
type Listener struct {
	o     ListenOptions
	inner *net.UnixListener
	// name is the file that this process made for the socket; nil for a socket that
	// was handed over, whose file is not ours to touch.
	name *socketFile

	accept    func() (*net.UnixConn, error) // inner.AcceptUnix, or a test's
	closing   chan struct{}                 // closed when no more is accepted
	closeOnce sync.Once
	closeErr  error

	mu    sync.Mutex
	limit int                // of conns
	conns map[*Conn]struct{} // all that are open
	spare *os.File           // a descriptor to answer with when there are no more

	// Of the goroutine that accepts.
	backoff  time.Duration
	shortage occasionally
	refusals occasionally

	counts struct{ accepted, refused, failed atomic.Uint64 }
}

// CheckPath reports why path cannot be a socket's, or nil. It looks at the name
// only, so that a daemon can refuse a bad one before it touches anything.
func CheckPath(path string) error {
	switch {
	case path == "" || strings.HasSuffix(path, "/"):
		return fmt.Errorf("%w: %q names no file", ErrPath, path)
	case len(path) > MaxPath:
		return fmt.Errorf("%w: %q has %d bytes, the limit is %d: choose a shorter run_dir or path", ErrPath, path, len(path), MaxPath)
	case path[0] == '@' || strings.ContainsRune(path, 0):
		return fmt.Errorf("%w: %q would be abstract, and have no mode to keep others out", ErrPath, path)
	}
	return nil
}

// Listen makes a socket that others can connect to exactly as the options say,
// from its first instant on, and returns when they can. Its directory is made if it is
// not there, for the group; that above it is not, and the error is fs.ErrNotExist.
//
// A socket file that nobody listens on any more is replaced; only a refused
// connection proves that. A live listener, even one that is stopped and does not
// answer, is ErrInUse; anything that is not a socket is ErrNotSocket and is left
// alone. When several processes try at once, exactly one succeeds.
func Listen(o ListenOptions) (*Listener, error) {
	if err := CheckPath(o.Path); err != nil {
		return nil, err
	}
	o = o.withDefaults()
	gid, err := lookupGroup(o.Group)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Path, err)
	}
	name, fd, err := createSocket(o.Path, o.Mode, gid)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", o.Path, err)
	}
	inner, err := toListener(fd, o.Path)
	if err != nil {
		name.remove()
		return nil, fmt.Errorf("listen on %s: %w", o.Path, err)
	}
	return newListener(inner, name, o), nil
}

// FromListener takes over a socket that someone else made and listens on, such as
// the service manager. Its file is neither changed nor ever removed: it outlives
// this process, and whoever connects meanwhile waits for the next.
func FromListener(l *net.UnixListener, o ListenOptions) *Listener {
	l.SetUnlinkOnClose(false)
	o.Path = l.Addr().String()
	return newListener(l, nil, o.withDefaults())
}

func (o ListenOptions) withDefaults() ListenOptions {
	if o.Mode == 0 {
		o.Mode = DefaultMode
	}
	if o.MaxConnections <= 0 {
		o.MaxConnections = DefaultMaxConnections
	}
	if o.Log == nil {
		o.Log = hclog.NewNullLogger()
	}
	return o
}

func newListener(inner *net.UnixListener, name *socketFile, o ListenOptions) *Listener {
	l := &Listener{
		o:       o,
		inner:   inner,
		name:    name,
		accept:  inner.AcceptUnix,
		closing: make(chan struct{}),
		limit:   o.MaxConnections,
		conns:   make(map[*Conn]struct{}),
	}
	l.takeSpare() // without one a shortage is waited out unanswered
	return l
}

// toListener gives a listening descriptor to the runtime's poller. It owns fd.
func toListener(fd int, path string) (*net.UnixListener, error) {
	f := os.NewFile(uintptr(fd), path)
	defer f.Close() // FileListener works on a duplicate
	l, err := net.FileListener(f)
	if err != nil {
		return nil, err
	}
	return l.(*net.UnixListener), nil
}

// Addr returns the socket's address.
func (l *Listener) Addr() net.Addr { return &net.UnixAddr{Name: l.o.Path, Net: "unix"} }

// SetMaxConnections changes how many connections may be open at once; n is positive.
// Those that are open stay, also where they are more: then nobody new is let in until
// enough of them have been closed.
func (l *Listener) SetMaxConnections(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = n
}

// stop ends accepting; open connections are not touched. The file goes first, while
// the socket still listens: as long as it does, nobody else can have taken the name.
func (l *Listener) stop() error {
	l.closeOnce.Do(func() {
		close(l.closing)
		if l.name != nil {
			l.closeErr = l.name.remove()
		}
		if err := l.inner.Close(); err != nil && l.closeErr == nil {
			l.closeErr = err
		}
		l.giveSpare()
	})
	return l.closeErr
}

// Close ends accepting and cuts every connection that is still open. For an end that
// gives them time, cancel the context of Serve instead, and call Close when the time
// is over.
func (l *Listener) Close() error {
	err := l.stop()
	for _, c := range l.open() {
		c.Close()
	}
	return err
}

func (l *Listener) open() []*Conn {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := make([]*Conn, 0, len(l.conns))
	for c := range l.conns {
		all = append(all, c)
	}
	return all
}

// ConnectionCounts is what happened on a listener since it was made.
type ConnectionCounts struct {
	Open     int    // now
	Accepted uint64 // handed to the handler
	Refused  uint64 // over the limit, or without a descriptor for them
	Failed   uint64 // errors of accept
}

// Counts returns the counts as they are now.
func (l *Listener) Counts() ConnectionCounts {
	l.mu.Lock()
	open := len(l.conns)
	l.mu.Unlock()
	return ConnectionCounts{
		Open:     open,
		Accepted: l.counts.accepted.Load(),
		Refused:  l.counts.refused.Load(),
		Failed:   l.counts.failed.Load(),
	}
}

var _ net.Listener = (*Listener)(nil)
