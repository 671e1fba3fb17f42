// Package cli is the command line: flags, what is printed, and exit statuses. It
// decides nothing about exceptions; what it shows comes from a running breakwater
// over its control socket, or from a copy of the store's file.
//
// # Exit statuses
//
//	0  done
//	1  failed
//	2  wrong usage or configuration
//	3  done, but something was quarantined, in conflict, or found wrong
//	4  rejected: try again
//	5  the drain was not clean; what was left is put back
//
// With --json stdout carries one document (lists: one per line) and nothing else.
// What a person should know goes to stderr, and an error ends in a hint.
package cli
