package boltstore

import (
	"path/filepath"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
	"breakwater/storage/boltstore/dbfile"
)

// room is what the limits on bytes compare with, looked up once a transaction.
// Free pages inside the file are room like any other: after a big drain the file
// is large and nearly empty.
type room struct {
	file   int64 // size of the file
	inside int64 // free pages in it
	disk   int64 // free on its disk; -1: not known
	used   int64 // by this transaction so far, estimated
}

// growth estimates what a stored line costs in all: its record, its part of a
// block of the trail, its ledger entry, and what becomes of them later.
const (
	growthFactor = 2
	growthFixed  = 1024
)

// room looks up how much there is.
func (s *Store) room(tx *bolt.Tx) room {
	r := room{file: tx.Size(), disk: -1, inside: s.file.FreeInside()}
	if free, err := dbfile.FreeSpace(filepath.Dir(s.options.Path)); err == nil {
		r.disk = free
	}
	s.inUse.Store(r.file - r.inside)
	return r
}

// take notes that a line of n bytes is stored.
func (r *room) take(n int) { r.used += int64(n)*growthFactor + growthFixed }

// noRoom names the limit that leaves no room for one more message, if any.
func (a *admission) noRoom(newKey bool) queue.Saturation {
	t, l := a.t, a.r.Limits
	switch {
	case l.MaxBacklog > 0 && t.backlog() >= l.MaxBacklog:
		return queue.FullBacklog
	case newKey && l.MaxOpenKeys > 0 && t.depth.keys >= l.MaxOpenKeys:
		return queue.FullOpenKeys
	case l.MaxLedgerKeys > 0 && t.count.remembered >= l.MaxLedgerKeys:
		return queue.FullLedger
	}
	return a.room.forBytes(l)
}

// forLetter names the limit that leaves no room for one more dead letter, if any.
func (r *room) forLetter(t *tables, l queue.Limits) queue.Saturation {
	if l.MaxDeadLetters > 0 && t.dead >= l.MaxDeadLetters {
		return queue.FullDeadLetters
	}
	return r.forBytes(l)
}

// forBytes names the limit on bytes that is reached, if any.
func (r *room) forBytes(l queue.Limits) queue.Saturation {
	if l.MaxStoreBytes > 0 && r.file-r.inside+r.used >= l.MaxStoreBytes {
		return queue.FullStore
	}
	if l.MinFreeBytes > 0 && r.disk >= 0 && r.disk+r.inside-r.used < l.MinFreeBytes {
		return queue.FullDisk
	}
	return ""
}
