package archive

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"breakwater/queue"
)

// manifestFormat is the version of the manifest. A member may be added in it, none is
// changed.
const manifestFormat = 1

// maxManifest bounds what is read of a manifest: a configuration has at most 256 KiB of
// HCL, and the rest is small.
const maxManifest = 4 << 20

// Manifest says what an archive is. It names no host and no folder: both may be others
// by the time it is read. (The configuration, which is the store's own, has paths.)
type Manifest struct {
	Format  int       `json:"manifest"`
	Archive string    `json:"archive"` // name of the file, without its folder
	MadeAt  time.Time `json:"made_at"` // when the copy was begun
	By      string    `json:"by,omitzero"`
	Reason  string    `json:"reason,omitzero"`
	Version string    `json:"version"` // of the program
	Bytes   int64     `json:"bytes"`
	SHA256  string    `json:"sha256"`
	Contents
	Config json.RawMessage `json:"config,omitzero"` // in force, secrets masked
}

// Contents is what was found in a copy by reading all of it.
type Contents struct {
	StoreFormat int               `json:"store_format"`
	Audit       Audit             `json:"audit"`
	Counts      Counts            `json:"counts"`
	Events      map[string]uint64 `json:"events"` // records of the trail, by event
}

// Audit is the head of a copy's trail.
type Audit struct {
	Block   uint64 `json:"block"`
	Head    string `json:"head"`
	Records uint64 `json:"records"`
	Origin  string `json:"origin"` // which store's it is
}

// Counts are those of the status.
type Counts struct {
	Ready       int64  `json:"ready"`
	Scheduled   int64  `json:"scheduled"`
	Leased      int64  `json:"leased"`
	Held        int64  `json:"held"`
	Done        int64  `json:"done"`
	Dead        int64  `json:"dead"`
	Discarded   int64  `json:"discarded"`
	Quarantined int64  `json:"quarantined"`
	OpenKeys    int64  `json:"open_keys"`
	LedgerKeys  int64  `json:"ledger_keys"`
	LastSeq     uint64 `json:"last_seq"`
}

func countsOf(st *queue.StoreStatus) Counts {
	return Counts{
		Ready: st.Ready, Scheduled: st.Scheduled, Leased: st.Leased, Held: st.Held,
		Done: st.Done, Dead: st.Dead, Discarded: st.Discarded, Quarantined: st.Quarantined,
		OpenKeys: st.OpenKeys, LedgerKeys: st.LedgerKeys, LastSeq: st.LastSeq,
	}
}

// write writes the manifest under its temporary name.
func (m *Manifest) write(p *place) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return systemErr("write the manifest", err)
	}
	f, err := p.create(p.note)
	if err != nil {
		return systemErr("write the manifest", err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return systemErr("write the manifest", err)
	}
	return nil
}

// Mismatch is what a file and its manifest disagree in.
type Mismatch struct {
	Path string
	What string
}

// Error says in what.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("%q is not the archive that its manifest describes: %s", m.Path, m.What)
}

// Advice says what to do about it.
func (m *Mismatch) Advice() string {
	return "take another copy of the archive and its manifest; if this file is meant all the same, remove its manifest"
}

const noFile = "what lies beside it under the manifest's name is not a file"

// ReadManifest reads the manifest of the archive at path; nil if there is none.
func ReadManifest(path string) (*Manifest, error) {
	name := path + ManifestSuffix
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENXIO): // a link, or a socket
		return nil, &Mismatch{path, noFile}
	case err != nil:
		return nil, fmt.Errorf("read the manifest: %w", err)
	}
	defer f.Close()
	switch st, err := f.Stat(); {
	case err != nil:
		return nil, fmt.Errorf("look at the manifest: %w", err)
	case !st.Mode().IsRegular():
		return nil, &Mismatch{path, noFile}
	}
	text, err := io.ReadAll(io.LimitReader(f, maxManifest))
	if err != nil {
		return nil, fmt.Errorf("read the manifest %q: %w", name, err)
	}
	var m Manifest
	switch err := json.Unmarshal(text, &m); {
	case err != nil:
		return nil, &Mismatch{path, fmt.Sprintf("the manifest cannot be read: %v", err)}
	case m.Format == 0 || m.SHA256 == "":
		return nil, &Mismatch{path, "the file beside it is no manifest"}
	case m.Format > manifestFormat:
		return nil, fmt.Errorf("the manifest %q has format %d, this program knows %d", name, m.Format, manifestFormat)
	}
	return &m, nil
}

// Check compares the file at path, byte by byte, with the manifest beside it. found is
// false if there is none. A disagreement is a [*Mismatch].
func Check(path string) (found bool, err error) {
	m, err := ReadManifest(path)
	if err != nil || m == nil {
		return false, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return true, fmt.Errorf("compare %s with its manifest: %w", filepath.Base(path), err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return true, fmt.Errorf("compare %s with its manifest: %w", filepath.Base(path), err)
	}
	if st.Size() != m.Bytes {
		return true, &Mismatch{path, fmt.Sprintf("it has %d bytes, the archive had %d", st.Size(), m.Bytes)}
	}
	sum, err := hashOf(f)
	if err != nil {
		return true, fmt.Errorf("compare %s with its manifest: %w", filepath.Base(path), err)
	}
	if hex.EncodeToString(sum[:]) != m.SHA256 {
		return true, &Mismatch{path, "its SHA-256 is another"}
	}
	return true, nil
}

// RetiredSuffix is appended to a manifest's name when its archive is in service.
const RetiredSuffix = ".restored"

// Retire renames the manifest beside the file at path, which is in service now and no
// archive any more: one that is put in its place later would be compared with it. It
// takes the place of one that was retired before. retired is its path; "" if there was
// none.
func Retire(path string) (retired string, err error) {
	name := path + ManifestSuffix
	switch err := os.Rename(name, name+RetiredSuffix); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("retire the manifest: %w", err)
	}
	return name + RetiredSuffix, nil
}

// hashOf is the SHA-256 of a file.
func hashOf(f *os.File) (sum queue.Hash, err error) {
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, 1<<62)); err != nil {
		return sum, err
	}
	h.Sum(sum[:0])
	return sum, nil
}

// parseHash reads a hash's text.
func parseHash(text string) (h queue.Hash, err error) {
	b, err := hex.DecodeString(text)
	if err == nil && len(b) != len(h) {
		err = errors.New("it has another length")
	}
	return queue.Hash(append(b, make([]byte, len(h))...)[:len(h)]), err
}
