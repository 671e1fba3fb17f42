package client_test

import "breakwater/client"

// breakwater starts one, as "breakwater serve" would, and returns the paths of its
// sockets.
func breakwater() (enqueue, consume string, stop func()) { return client.Breakwater() }
