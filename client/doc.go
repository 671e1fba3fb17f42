// Package client is for programs that send exceptions to breakwater.
package client
