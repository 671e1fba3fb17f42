package dbfile

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// WitnessSuffix is appended to the store's path.
const WitnessSuffix = ".head"

const (
	// slotBytes is one record. A disk writes a sector of this size whole or not
	// at all; where one does not, the checksum says so.
	slotBytes = 512
	// slotCount: the record that is written never overwrites the newest one.
	slotCount = 2

	// witnessLine is the whole record as text, so that a person can read it.
	// The checksum (CRC-32C) is over everything before " crc=".
	witnessLine = "breakwater-head 1 turn=%d store=%s block=%d head=%s txid=%d seq=%d"
)

// Witness is what a store's head was, kept outside the store: the newest block
// of the audit trail, its hash, and where the database stood. A store that is
// behind its witness has lost commits that were acknowledged, or is an old copy.
type Witness struct {
	StoreID [16]byte
	Block   uint64   // number of the newest block
	Head    [32]byte // its hash
	Txid    uint64   // bbolt's transaction that holds it
	Seq     uint64   // the newest message's
}

// WitnessFile writes the witness. It has no goroutine and no lock of its own: it
// belongs to the store's committer, which holds the store's lock.
type WitnessFile struct {
	// Warning is for an operator: the file was open to others. "": it was not.
	Warning string

	f    *os.File
	turn uint64 // of the newest record
	buf  []byte // the record that is being made; reused
}

// OpenWitness opens the witness at path, or makes it with first in it. An
// existing one that cannot be read is ErrWitness, and is left as it is.
func OpenWitness(path string, first Witness) (*WitnessFile, error) {
	_, found, err := ReadWitness(path)
	if err != nil {
		return nil, err
	}
	if !found {
		if err := createWitness(path, first); err != nil {
			return nil, ioErr(path, "creating the witness", err)
		}
	}
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, ioErr(path, "opening the witness", err)
	}
	if err := mustBeRegular(f, path); err != nil {
		f.Close()
		return nil, err
	}
	_, turn, err := readSlots(f, path)
	if err != nil {
		f.Close()
		return nil, err
	}
	return &WitnessFile{Warning: tightenOwn(f, path), f: f, turn: turn, buf: make([]byte, 0, slotBytes)}, nil
}

// Write records w with one pwrite of one sector over the older of two slots, and
// no sync: 5 µs. After a crash of the process it is all there; after a loss of
// power it may be some seconds old, which makes it a weaker witness but never a
// false one, since it is written only after its commit. Call it after the commit
// of w, and not more often than is useful.
func (wf *WitnessFile) Write(w Witness) error {
	wf.turn++
	wf.buf = appendSlot(wf.buf[:0], w, wf.turn)
	_, err := wf.f.WriteAt(wf.buf, int64(wf.turn%slotCount)*slotBytes)
	if err != nil {
		return fmt.Errorf("write the witness: %w", err)
	}
	return nil
}

// Sync makes the last Write durable; for a clean stop.
func (wf *WitnessFile) Sync() error { return wf.f.Sync() }

// Close closes the file.
func (wf *WitnessFile) Close() error { return wf.f.Close() }

// ReadWitness reads the witness at path. false: there is none, which an operator
// may have brought about. One slot of two that cannot be read is a write that
// was cut off, and the other counts; if neither can, the error is ErrWitness.
func ReadWitness(path string) (Witness, bool, error) {
	exists, err := checkOwn(path)
	if err != nil || !exists {
		return Witness{}, false, err
	}
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Witness{}, false, ioErr(path, "opening the witness", err)
	}
	defer f.Close()
	if err := mustBeRegular(f, path); err != nil {
		return Witness{}, false, err
	}
	w, _, err := readSlots(f, path)
	return w, err == nil, err
}

// readSlots gives the newer of the records that can be read.
func readSlots(f io.ReaderAt, path string) (newest Witness, turn uint64, err error) {
	buf := make([]byte, slotCount*slotBytes)
	n, err := f.ReadAt(buf, 0)
	if err != nil && err != io.EOF {
		return Witness{}, 0, ioErr(path, "reading the witness", err)
	}
	var reasons [slotCount]error
	for i := range slotCount {
		slot := buf[min(n, i*slotBytes):min(n, (i+1)*slotBytes)]
		w, t, err := parseSlot(slot)
		if err != nil {
			reasons[i] = err
		} else if t > turn {
			newest, turn = w, t
		}
	}
	if turn == 0 {
		return Witness{}, 0, &FileError{Kind: ErrWitness, Path: path,
			Err:  fmt.Errorf("slot 0: %w; slot 1: %w", reasons[0], reasons[1]),
			Hint: "compare the store's head with a producer's last receipt (\"audit verify --witness\"), then remove this file"}
	}
	return newest, turn, nil
}

// createWitness makes the file whole or not at all, so that one that cannot be
// read is always one that was damaged.
func createWitness(path string, w Witness) error {
	tmp := creatingPath(path)
	if err := sweepFile(tmp); err != nil {
		return err
	}
	var both []byte
	for turn := uint64(slotCount); turn < 2*slotCount; turn++ { // slot 0 first
		both = append(both, appendSlot(nil, w, turn)...)
	}
	f, err := os.OpenFile(tmp, os.O_RDWR|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, fileMode)
	if err != nil {
		return err
	}
	_, err = f.Write(both)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = renameNew(tmp, path)
	}
	if err != nil {
		_ = os.Remove(tmp) // the first error is the one to report
		return err
	}
	return syncDir(filepath.Dir(path))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendSlot appends one record of exactly slotBytes: the line, padded with
// spaces, a line feed at the very end.
func appendSlot(b []byte, w Witness, turn uint64) []byte {
	start := len(b)
	b = fmt.Appendf(b, witnessLine, turn, hex.EncodeToString(w.StoreID[:]),
		w.Block, hex.EncodeToString(w.Head[:]), w.Txid, w.Seq)
	b = fmt.Appendf(b, " crc=%08x", crc32.Checksum(b[start:], castagnoli))
	b = append(b, bytes.Repeat([]byte{' '}, slotBytes-1-(len(b)-start))...)
	return append(b, '\n')
}

var errSlot = errors.New("not a record, or torn")

// parseSlot is the inverse of appendSlot, and accepts nothing else.
func parseSlot(b []byte) (w Witness, turn uint64, err error) {
	var store, head string
	line, _, ok := bytes.Cut(b, []byte(" crc="))
	if !ok || len(b) != slotBytes {
		return Witness{}, 0, errSlot
	}
	_, err = fmt.Sscanf(string(line), witnessLine, &turn, &store, &w.Block, &head, &w.Txid, &w.Seq)
	if err != nil {
		return Witness{}, 0, errSlot
	}
	storeOK := decodeHex(w.StoreID[:], store)
	headOK := decodeHex(w.Head[:], head)
	// Only the bytes that this record would be written as are this record: so
	// that the checksum, the padding and every digit are checked at once.
	if !storeOK || !headOK || turn == 0 || !bytes.Equal(b, appendSlot(nil, w, turn)) {
		return Witness{}, 0, errSlot
	}
	return w, turn, nil
}

func decodeHex(dst []byte, s string) bool {
	raw, err := hex.DecodeString(s)
	return err == nil && copy(dst, raw) == len(dst) && len(raw) == len(dst)
}
