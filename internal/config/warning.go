package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"
)

// Warnings lists what is allowed and still probably not meant. They refuse
// nothing.
func (c Config) Warnings() []Problem {
	var found []finding
	if c.Routes.RouteReview.Handler == KindLog {
		found = append(found, finding{[]string{"route.ROUTE_REVIEW.handler"},
			`the route ROUTE_REVIEW has the handler "log", which settles every exception unseen`, `"consumers" is its default`})
	}
	if limit := usualDrain; c.Queue.DrainTimeout > limit {
		found = append(found, finding{[]string{"queue.drain_timeout_s"},
			fmt.Sprintf("a stop may take as long as queue.drain_timeout_s, %v", c.Queue.DrainTimeout),
			"it is in seconds; a service manager waits for less, unless it is told to (TimeoutStopSec)"})
	}
	if half := int64(c.Sockets.Enqueue.MaxConnections) * c.Queue.MaxLineBytes; half > mostHalfLines {
		found = append(found, finding{[]string{"socket.enqueue.max_connections", "queue.max_line_bytes"},
			fmt.Sprintf("socket.enqueue.max_connections times queue.max_line_bytes is %d MiB: so much may wait for the ends of lines, besides queue.max_intake_bytes", half>>20),
			fmt.Sprintf("more than %d MiB are seldom meant: lower one of the two", int64(mostHalfLines)>>20)})
	}
	for _, h := range c.Handlers {
		id := "handler." + h.Kind + "." + h.Name
		if h.Timeout > c.Queue.DrainTimeout {
			found = append(found, finding{[]string{id + ".timeout_ms", id, "queue.drain_timeout_s"},
				fmt.Sprintf("%s may run for %v, a drain waits for %v only", id, h.Timeout, c.Queue.DrainTimeout),
				"a longer run is cut off at a stop and repeated after the next start"})
		}
		if u, err := url.Parse(h.URL); err == nil && u.Scheme == "http" && !isLoopback(u.Hostname()) {
			found = append(found, finding{[]string{id + ".url"},
				id + ".url sends exceptions unencrypted to another host, and its authorization if it has one", "use https"})
		}
	}
	if host, _, err := net.SplitHostPort(c.Metrics.Listen); err == nil && !isLoopback(host) {
		found = append(found, finding{[]string{"metrics.listen"},
			"metrics.listen is open to the network, without a password", `"127.0.0.1:PORT" keeps it on this host`})
	}
	return c.problems(found)
}

// usualDrain is the longest drain that nobody asks about: a longer one is likely to
// be meant in milliseconds.
const usualDrain = time.Hour

// mostHalfLines is how many bytes of lines that have not ended are meant to be held at
// most: as many as max_intake_bytes can be. They are not counted there. A peer that stops
// within a line may do so for ever, and what it held would be missing to all others.
const mostHalfLines = MaxIntakeBytes

// isLoopback judges the text alone: nothing is looked up.
func isLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && address.IsLoopback()
}
