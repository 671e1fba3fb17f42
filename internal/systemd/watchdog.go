package systemd

import (
	"context"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// pingsPerLimit is how many pings fall into the manager's limit: one may be
// late and one may be lost before the process is taken for dead.
const pingsPerLimit = 3

// WatchdogInterval returns how often Watchdog should probe: a third of the
// manager's limit, or 0 when the manager wants no signs of life.
func (n *Notifier) WatchdogInterval() time.Duration {
	if !n.Enabled() {
		return 0
	}
	return n.watchdog / pingsPerLimit
}

// Watchdog probes at once and then every interval, and pings the manager after
// each probe that succeeded, until ctx ends. It returns at once when interval is
// 0 or there is no manager.
//
// The probe should do a small piece of the real work (a round trip through the
// store's committer) and end with ctx. One that fails costs a ping and is tried
// again at the next interval; it knows its error and is the one to report it.
// One that never comes back is what the watchdog is for: no ping is sent, and
// the manager ends the process.
//
// Watchdog returns nil when ctx has ended, and otherwise the error of the last
// of pingsPerLimit pings in a row that could not be sent: by then the manager's
// limit has passed.
func (n *Notifier) Watchdog(ctx context.Context, interval time.Duration, probe func(context.Context) error) error {
	if interval <= 0 || !n.Enabled() {
		return nil
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	lost := 0
	for ctx.Err() == nil {
		// A probe that was cut off by the end proves nothing either way.
		if err := probe(ctx); err == nil && ctx.Err() == nil {
			if err := n.send(daemon.SdNotifyWatchdog); err == nil {
				lost = 0
			} else if lost++; lost == pingsPerLimit {
				return err
			}
		}
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	return nil
}
