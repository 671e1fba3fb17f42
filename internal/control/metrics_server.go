package control

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
)

const (
	// maxScrapers bounds the connections of the metrics page: scrapers are few.
	maxScrapers = 16
	// scraperIdle is how long one may be silent. Over the network, unlike on a
	// Unix socket, the other end may be gone without a word.
	scraperIdle = 2 * time.Minute
)

// MetricsServer serves the metrics page, and /healthz, over TCP (metrics.listen).
// Whoever can reach the address may read them; nothing can be changed here.
type MetricsServer struct{ site site }

// NewMetricsServer returns a server of the page; log may be nil.
func NewMetricsServer(metrics http.Handler, version string, log hclog.Logger) *MetricsServer {
	if log == nil {
		log = hclog.NewNullLogger()
	}
	return &MetricsServer{site{
		log: log, idle: scraperIdle,
		routes: newRoutes([]endpoint{
			{http.MethodGet, "/healthz", nil, healthz(version)},
			{http.MethodGet, "/metrics", nil, page(metrics)},
		}),
	}}
}

// Serve answers connections of l until ctx ends, and closes l; see [Server.Serve].
func (m *MetricsServer) Serve(ctx context.Context, l net.Listener) error {
	return m.site.serve(ctx, &limitedListener{Listener: l, room: make(chan struct{}, maxScrapers)})
}

// limitedListener closes connections over its limit at once: a scraper tries again
// by itself, and one that hangs must not make the others wait.
type limitedListener struct {
	net.Listener
	room chan struct{} // holds a value for each open connection
}

// Accept returns the next connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case l.room <- struct{}{}:
			return &limitedConn{Conn: c, leave: sync.OnceFunc(func() { <-l.room })}, nil
		default:
			_ = c.Close() // the scraper sees a reset, and counts it
		}
	}
}

// limitedConn makes room when it is closed.
type limitedConn struct {
	net.Conn
	leave func()
}

// Close closes the connection. It may be called more than once.
func (c *limitedConn) Close() error {
	defer c.leave()
	return c.Conn.Close()
}
