package ledger

import (
	"encoding/json"
	"fmt"
	"slices"

	bolt "go.etcd.io/bbolt"

	"breakwater/queue"
)

// manifest says what the buckets hold. It is the last thing a structural step
// writes, in the same transaction, and JSON because it is written rarely and
// read by people with a damaged file.
type manifest struct {
	Version int `json:"version"`
	// NextID is the id of the next segment; a newer segment has a higher id only within its tier.
	NextID uint64 `json:"next_id"`
	// Log values before Floor are sealed, and only wait to be deleted; those in
	// [Floor, Frozen) make up the frozen head, the rest the active one.
	Floor  uint64 `json:"floor"`
	Frozen uint64 `json:"frozen"`
	// Live is the number of live keys when LiveAt was the next log number; the
	// log values from there on say how it has changed since.
	Live   int64  `json:"live"`
	LiveAt uint64 `json:"live_at"`
	// Segments are listed newest first.
	Segments []segmentLine `json:"segments"`
	Jobs     []jobLine     `json:"jobs"`
}

// segmentLine is a segment in the manifest. Records is what its filter pieces
// must add up to.
type segmentLine struct {
	ID      uint64 `json:"id"`
	Tier    int    `json:"tier"`
	Records int    `json:"records"`
}

// jobLine is a job in the manifest.
type jobLine struct {
	Out      uint64   `json:"out"`
	Tier     int      `json:"tier"`  // of the new segment
	Level    int      `json:"level"` // tier of the inputs, -1: the frozen head
	Inputs   []uint64 `json:"inputs,omitempty"`
	Cursor   *Key     `json:"cursor,omitempty"` // done up to here, where records were dropped
	Clearing bool     `json:"clearing,omitempty"`
}

const manifestVersion = 1

// manifestKey is the only key of its bucket.
var manifestKey = []byte("manifest")

// put stores the manifest.
func (m *manifest) put(tx *bolt.Tx) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	value := append(make([]byte, crcLen), text...)
	sign(manifestKey, value)
	return tx.Bucket(bucketManifest).Put(manifestKey, value)
}

// readManifest loads the manifest.
func readManifest(tx *bolt.Tx) (*manifest, error) {
	for _, name := range [][]byte{bucketManifest, bucketLog, bucketBlocks, bucketFilters} {
		if tx.Bucket(name) == nil {
			return nil, fmt.Errorf("%w: bucket %s is missing", queue.ErrDamaged, name)
		}
	}
	text, err := body(bucketManifest, manifestKey, tx.Bucket(bucketManifest).Get(manifestKey))
	if err != nil {
		return nil, err
	}
	m := &manifest{}
	if err := json.Unmarshal(text, m); err != nil {
		return nil, damage(bucketManifest, manifestKey, err.Error())
	}
	if m.Version != manifestVersion {
		return nil, fmt.Errorf("ledger: manifest has version %d, this program knows %d", m.Version, manifestVersion)
	}
	if !m.sound(tx.Size() / recordFixed) {
		return nil, damage(bucketManifest, manifestKey, "its parts do not fit together")
	}
	return m, nil
}

// sound says whether segments have no more records than the file can hold, and
// whether jobs fit the segments: a checksum does not prove that it was this
// program that wrote the manifest.
func (m *manifest) sound(maxRecords int64) bool {
	for _, s := range m.Segments {
		if s.Records < 0 || int64(s.Records) > maxRecords {
			return false
		}
	}
	for _, j := range m.Jobs {
		if j.Clearing || j.Level == sealing {
			continue
		}
		at := slices.IndexFunc(m.Segments, func(s segmentLine) bool { return len(j.Inputs) > 0 && s.ID == j.Inputs[0] })
		if at < 0 || at+len(j.Inputs) > len(m.Segments) {
			return false
		}
		for i, id := range j.Inputs {
			if m.Segments[at+i].ID != id {
				return false
			}
		}
	}
	return true
}

// save writes the manifest of the ledger as it is in memory.
func (l *Ledger) save(tx *bolt.Tx) error {
	m := manifest{
		Version: manifestVersion,
		NextID:  l.nextID,
		Floor:   l.floor,
		Frozen:  l.frozenEnd,
		Live:    l.live,
		LiveAt:  l.nextLog,
	}
	for _, s := range l.segments {
		m.Segments = append(m.Segments, segmentLine{ID: s.id, Tier: s.tier, Records: s.records})
	}
	for _, j := range l.jobs {
		line := jobLine{Out: j.out.id, Tier: j.out.tier, Level: j.level, Clearing: j.clearing, Inputs: slices.Clone(j.inputs)}
		if j.begun {
			line.Cursor = &j.cursor
		}
		m.Jobs = append(m.Jobs, line)
	}
	if err := m.put(tx); err != nil {
		return err
	}
	l.unsaved = false
	return nil
}
