package api

// ArchiveAct asks for an archive at Dest, an absolute path as the server sees it.
type ArchiveAct struct {
	Dest   string `json:"dest"`
	By     string `json:"by,omitzero"`
	Reason string `json:"reason,omitzero"`
}

// Archive is an archive that was made: its file, its manifest, and what is in it.
type Archive struct {
	Path     string `json:"path"`
	Manifest string `json:"manifest"` // path of the manifest
	MadeAt   Time   `json:"made_at"`
	Bytes    int64  `json:"bytes"`
	SHA256   string `json:"sha256"`
	Audit    Audit  `json:"audit"` // the head of its trail
	LastSeq  uint64 `json:"last_seq"`
}

// Archiving is how far the archive is that is being made. Done and Total are bytes
// while it is copied and read, blocks of the trail while it is verified; absent where
// they are not known.
type Archiving struct {
	Running bool   `json:"running"`
	Path    string `json:"path,omitzero"`
	By      string `json:"by,omitzero"`
	Since   Time   `json:"since,omitzero"`
	Step    string `json:"step,omitzero"`
	Done    int64  `json:"done,omitzero"`
	Total   int64  `json:"total,omitzero"`
}

// Archived says how far the trail is in an archive.
type Archived struct {
	Block   uint64 `json:"block"`
	Records uint64 `json:"records"` // all up to this number
	At      Time   `json:"at"`
}
