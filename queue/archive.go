package queue

import (
	"encoding/json"
	"time"
)

// ArchiveInfo describes an archive: a copy of a whole store as it was at a head of
// its trail, checked, under its final name.
type ArchiveInfo struct {
	Path    string // of the copy's file
	Head    Head   // of its trail: the copy has all blocks up to this one
	Records uint64 // number of its last record
	SHA256  Hash   // of the copy's file
	Bytes   int64  // of the copy's file
}

// ArchiveMark says how far a store's trail is in an archive: everything up to Head,
// which is record N. The zero mark: nothing is. A mark never goes back.
type ArchiveMark struct {
	Head Head
	N    uint64
	At   time.Time // when the archive that moved it was reported
}

// archiveDetail is what ARCHIVED says of the copy.
type archiveDetail struct {
	Path    string `json:"path"`
	Block   uint64 `json:"block"`
	Head    string `json:"head"`
	Records uint64 `json:"records"`
	SHA256  string `json:"sha256"`
	Bytes   int64  `json:"bytes"`
}

// ArchivedRecord: a copy of the store was made and checked.
func ArchivedRecord(a *Action, i *ArchiveInfo) Record {
	detail, err := json.Marshal(archiveDetail{
		i.Path, i.Head.Block, i.Head.Hash.String(), i.Records, i.SHA256.String(), i.Bytes,
	})
	if err != nil {
		detail = nil // a struct of strings and numbers always marshals
	}
	r := acted(Record{Event: EventArchived, TS: a.Now}, a)
	r.Detail = detail
	return r
}
