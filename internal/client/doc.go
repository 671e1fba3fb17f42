// Package client asks and steers a running breakwater over control.sock, as the
// command line does. What producers and consumers need is the package breakwater/client.
package client
