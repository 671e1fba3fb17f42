// Package app is the appliance: it wires the parts together and is the only
// package that knows more than one of them. A program is a value with a Run.
//
// Start: open the store, give back what the last process held, bind the sockets,
// say READY. Stop: refuse lines that wait, answer those that were read, let
// running handlers finish, put back the rest, write DRAINED, close the store.
package app
