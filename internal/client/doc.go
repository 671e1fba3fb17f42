// Package client speaks with a running breakwater: lines to enqueue.sock, requests
// to control.sock. The command line is its user.
package client
