package boltstore

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"breakwater/queue"
)

// deadLetter is a message that will not be handed out until somebody says so. Its
// stored form, under its seq:
//
//	offset 0  version
//	       1  CRC-32C of the seq (64 bits) and of all that follows
//	       5  flags
//	       6  SHA-256 of the line as it was sent, 32 bytes
//	      38  length of the JSON, 32 bits
//	      42  deadMeta as JSON
//	       …  the record, as the backlog keeps it
//
// What a start must know of every letter stands before the JSON.
type deadLetter struct {
	seq    uint64
	flags  byte
	line   queue.Hash
	meta   deadMeta
	record []byte

	damaged bool // what is stored of it can't be read: this is its stand-in
}

// Flags of a dead letter.
const (
	deadBlocks  = 1 << iota // its key waits for it
	deadAtDoor              // a gate refused it: it never entered the order
	deadDiffers             // a conflict: its idempotency key is another message's
	deadCut                 // only the first bytes of the line that was sent are kept
	deadEdited              // its record has other content than the line that was sent
)

const (
	deadVersion = 1
	deadHeader  = 42
)

// deadMeta is what people want to know of a dead letter.
type deadMeta struct {
	Code           queue.Code `json:"code"`
	Reason         string     `json:"reason,omitempty"`
	Field          string     `json:"field,omitempty"`
	Of             uint64     `json:"of,omitempty"`
	Place          string     `json:"place,omitempty"`
	DeadAt         time.Time  `json:"dead_at"`
	LineBytes      int64      `json:"line_bytes"`
	Deliveries     int        `json:"deliveries,omitempty"`
	FailedAttempts int        `json:"failed_attempts,omitempty"`
	Unanswered     int        `json:"unanswered,omitempty"`
}

// ordered reports whether the letter has a place to go back to.
func (d *deadLetter) ordered() bool { return d.flags&(deadAtDoor|deadDiffers) == 0 }

// owns reports whether the ledger knows the letter by its idempotency key: from the
// door it does once the letter was edited to one of its own.
func (d *deadLetter) owns() bool { return d.ordered() || d.flags&deadEdited != 0 }

// repeats reports whether the same line sent again is answered with this letter.
func (d *deadLetter) repeats() bool { return !d.owns() }

// place is where the letter goes back to; zero if it never was in the order.
func (d *deadLetter) place() queue.Place {
	p, _ := queue.ParsePlace(d.meta.Place)
	return p
}

// rank is where the letter stands in the order of replays.
func (d *deadLetter) rank() queue.Place {
	if p := d.place(); !p.IsZero() {
		return p
	}
	return queue.Place{Seq: d.seq}
}

// appendDead encodes a dead letter.
func appendDead(dst []byte, d *deadLetter) ([]byte, error) {
	meta, err := json.Marshal(&d.meta)
	if err != nil {
		return nil, fmt.Errorf("encode dead letter %d: %w", d.seq, err)
	}
	start := len(dst)
	dst = append(dst, deadVersion, 0, 0, 0, 0, d.flags)
	dst = append(dst, d.line[:]...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(meta)))
	dst = append(dst, meta...)
	dst = append(dst, d.record...)
	binary.BigEndian.PutUint32(dst[start+1:], seqSum(d.seq, dst[start+5:]))
	return dst, nil
}

// parseDeadHeader checks a dead letter and decodes what stands before its JSON.
func parseDeadHeader(seq uint64, b []byte) (d deadLetter, err error) {
	if len(b) < deadHeader || b[0] != deadVersion || binary.BigEndian.Uint32(b[1:]) != seqSum(seq, b[5:]) ||
		uint64(binary.BigEndian.Uint32(b[38:])) > uint64(len(b)-deadHeader) {
		return d, fmt.Errorf("%w: dead letter %d does not match its checksum", queue.ErrDamaged, seq)
	}
	d = deadLetter{seq: seq, flags: b[5], record: b[deadHeader+binary.BigEndian.Uint32(b[38:]):]}
	copy(d.line[:], b[6:])
	return d, nil
}

// parseDead decodes a dead letter; its record shares memory with b.
func parseDead(seq uint64, b []byte) (d deadLetter, err error) {
	if d, err = parseDeadHeader(seq, b); err != nil {
		return d, err
	}
	meta := b[deadHeader : len(b)-len(d.record)]
	if err := json.Unmarshal(meta, &d.meta); err != nil {
		return d, fmt.Errorf("%w: dead letter %d: %w", queue.ErrDamaged, seq, err)
	}
	return d, nil
}

// deadCode reads the code alone, which stands first in the JSON, for a start that has
// a million letters to count.
func deadCode(d *deadLetter, b []byte) (queue.Code, error) {
	text, ok := bytes.CutPrefix(b[deadHeader:len(b)-len(d.record)], []byte(`{"code":"`))
	if end := bytes.IndexByte(text, '"'); ok && end >= 0 && bytes.IndexByte(text[:end], '\\') < 0 {
		return queue.Code(text[:end]), nil
	}
	full, err := parseDead(d.seq, b)
	return full.meta.Code, err
}

// letter reads a dead letter, or what stands in for it; ok is false if there is none
// under this seq.
func (x *txn) letter(seq uint64) (d deadLetter, ok bool, err error) {
	b := x.b.dead.Get(seqKey(seq))
	if b == nil {
		return d, false, nil
	}
	d, err = x.letterIn(seq, b)
	return d, err == nil, err
}

// letterIn decodes a dead letter, or makes its stand-in.
func (x *txn) letterIn(seq uint64, b []byte) (d deadLetter, err error) {
	if d, err = parseDead(seq, b); err == nil {
		_, err = parseHeader(d.record)
	}
	if err != nil {
		return x.deadStandIn(seq, err)
	}
	return d, nil
}

// bury stores a dead letter and counts it.
func (x *txn) bury(d *deadLetter) error {
	b, err := appendDead(nil, d)
	if err != nil {
		return err
	}
	counted := *d
	if d.damaged { // its bytes are kept as they are; what it is worth they do not say
		counted.record = x.t.standIns[d.seq].record
	}
	x.t.countLetter(&counted, 1)
	if d.repeats() {
		x.t.letters[letterOf(d.line)] = int64(d.seq)
	}
	if p := d.place(); p.Sub != 0 {
		x.t.late.add(p, d.seq)
	}
	return x.b.dead.Put(seqKey(d.seq), b)
}

// countLetter counts a dead letter in (sign 1) or out (sign -1).
func (t *tables) countLetter(d *deadLetter, sign int64) {
	t.dead += sign
	if d.flags&deadAtDoor != 0 {
		t.quarantined += sign
	}
	if t.byCode[d.meta.Code] += sign; t.byCode[d.meta.Code] == 0 {
		delete(t.byCode, d.meta.Code)
	}
	t.deadAges.add(minuteIn(d.record), sign)
	w := worthIn(d.record)
	if t.deadWorth.change(w, int(sign)); !w.known {
		t.unvalued += sign
	}
}

// exhume removes a dead letter, which goes back to the order or ends.
func (x *txn) exhume(d *deadLetter) error {
	x.t.countLetter(d, -1)
	delete(x.t.standIns, d.seq)
	if id := letterOf(d.line); x.t.letters[id] == int64(d.seq) {
		delete(x.t.letters, id)
	}
	if p := d.place(); p.Sub != 0 {
		x.t.late.remove(p)
	}
	return x.b.dead.Delete(seqKey(d.seq))
}
