package app

import "context"

// heedReloads answers requests to read the configuration again, until ctx ends.
// They come from a signal whose default is to kill the process: it must be taken
// from the first moment on, also by a version that cannot reload.
func (a *appliance) heedReloads(ctx context.Context) {
	for {
		select {
		case <-a.o.Reload:
			a.log.Warn("reload is not supported by this version", "hint", "restart to take a changed configuration")
		case <-ctx.Done():
			return
		}
	}
}
