package handler

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// defaultConnections is how many connections a hook has where nobody says.
	defaultConnections = 8
	// connectTime bounds the connecting, and again the TLS handshake, within the
	// time limit of the try.
	connectTime = 10 * time.Second
	// idleTime is how long a connection is kept without use. Many servers close
	// theirs after a minute: the shorter of the two should be ours.
	idleTime = 30 * time.Second
	// maxHeader bounds the header of an answer, its status line included.
	maxHeader = 64 << 10
)

// wire is what a test puts in place of the network and the clock.
type wire struct {
	roots *x509.CertPool // nil: the system's
	dial  func(ctx context.Context, network, address string) (net.Conn, error)
	now   func() time.Time
}

// target is where a hook listens.
type target struct {
	url    url.URL       // of the request: http or https, without user and password
	socket string        // the path of a Unix socket; "": TCP
	user   *url.Userinfo // nil: none
}

// schemeUnix is http over a Unix socket: the URL's path is the socket's, which ends
// in .sock, and then that of the request.
const schemeUnix = "http+unix"

// parseTarget reads the URL of a hook. The errors do not repeat it: it may hold a
// password. The configuration has judged it already, in more words.
func parseTarget(text string) (target, error) {
	u, err := url.Parse(text)
	if err != nil {
		return target{}, errors.New("not a URL") // the parser's words repeat it
	}
	t := target{url: *u, user: u.User}
	t.url.User, t.url.Fragment, t.url.RawFragment = nil, "", ""
	switch {
	case u.Scheme == schemeUnix:
		return t, t.splitSocket()
	case u.Scheme != "http" && u.Scheme != "https":
		return target{}, errors.New("must begin with http://, https:// or http+unix://")
	case u.Hostname() == "":
		return target{}, errors.New("names no host")
	}
	return t, nil
}

// splitSocket takes the socket's path off the front of the URL's. The rest keeps
// its escapes.
func (t *target) splitSocket() error {
	if t.url.Host != "" {
		return errors.New("http+unix has no host: an absolute path has three slashes after the colon")
	}
	escaped := t.url.EscapedPath()
	for end := 1; end <= len(escaped); end++ {
		if end < len(escaped) && escaped[end] != '/' {
			continue
		}
		socket, err := url.PathUnescape(escaped[:end])
		if err != nil || !strings.HasSuffix(socket, ".sock") {
			continue
		}
		t.socket = socket
		t.url.Scheme, t.url.Host = "http", "localhost"
		t.url.RawPath = escaped[end:]
		t.url.Path, err = url.PathUnescape(escaped[end:])
		return err
	}
	return errors.New("contains no path of a socket that ends in .sock")
}

// newTransport returns the one pool of connections of a hook.
func newTransport(t target, connections int, w wire) *http.Transport {
	if connections == 0 {
		connections = defaultConnections
	}
	dial := w.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: connectTime, Control: admissible}).DialContext
	}
	if t.socket != "" {
		tcp := dial
		dial = func(ctx context.Context, _, _ string) (net.Conn, error) { return tcp(ctx, "unix", t.socket) }
	}
	plain := dial
	dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := plain(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &listening{Conn: c}, nil
	}
	only1 := new(http.Protocols)
	only1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // the environment decides nothing here
		DialContext:            dial,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: w.roots},
		TLSHandshakeTimeout:    connectTime,
		DisableCompression:     true, // a small body may be a large one unpacked
		MaxIdleConns:           connections,
		MaxIdleConnsPerHost:    connections,
		MaxConnsPerHost:        connections,
		IdleConnTimeout:        idleTime,
		MaxResponseHeaderBytes: maxHeader,
		Protocols:              only1,
	}
}

// listening is a connection whose answer is heard also where the other end has said it
// without reading all of the request, and closed: a status for a message that is too
// large, say. The transport gives such a connection up at the first write that fails, and
// with it an answer that has come; the message would seem to have met a handler that
// cannot be had, and hold up its whole route. So what cannot be written any more is
// taken for written: whether there is an answer, reading tells.
type listening struct {
	net.Conn
	deaf atomic.Bool // the other end takes nothing more
}

// Write fails only where the other end may still be reading.
func (l *listening) Write(p []byte) (int, error) {
	if l.deaf.Load() {
		return len(p), nil
	}
	n, err := l.Conn.Write(p)
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, net.ErrClosed) {
		l.deaf.Store(true)
		return len(p), nil
	}
	return n, err
}

// admissible looks at the address that a name has resolved to, just before the
// connection is made: whoever answers for the name decides it anew each time. The
// addresses of this link hold what no hook is, above all the metadata services of
// clouds, which give credentials to whoever asks.
func admissible(network, address string, _ syscall.RawConn) error {
	if strings.HasPrefix(network, "unix") {
		return nil
	}
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %s: %w", address, err)
	}
	if ip := at.Addr().Unmap(); ip.IsLinkLocalUnicast() || ip.IsMulticast() {
		return fmt.Errorf("address %s is link-local or multicast; nothing is posted there", ip)
	}
	return nil
}
