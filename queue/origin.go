package queue

import "encoding/hex"

// originPrefix begins the name of every trail of ours.
const originPrefix = "breakwater/"

// Origin names a store and its trail, for whoever holds something of it elsewhere
// (a checkpoint, a manifest): "breakwater/" and the store's id in hexadecimal. It
// stays the same in every copy of the store, and no two stores share it.
func Origin(id [16]byte) string { return originPrefix + hex.EncodeToString(id[:]) }
