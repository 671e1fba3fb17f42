package boltstore

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"breakwater/queue"
)

// past is what is kept of a message that has been a dead letter, beside what it is
// now. In its record it stands before the line:
//
//	0  1: it was edited, and the rest follows; else 0
//	1  how often it came back from the dead letters, 32 bits
//	5  deliveries before the last time that ended without an answer, 32 bits
//	9  SHA-256 of the line that was sent, 32 bytes
//	41 the length of that line, 64 bits
//	49 how much of it is kept, 32 bits
//	53 the line that was sent, so far as it is kept
type past struct {
	returns    int // how often it was replayed
	unanswered int // what its flight begins with
	edited     bool
	sent       sentLine // of an edited one
}

// sentLine is a line as it was sent.
type sentLine struct {
	hash  queue.Hash
	bytes int64
	line  []byte // its beginning, if it was longer than a line may be
}

const (
	pastSize   = 1 + 4 + 4
	editedSize = 32 + 8 + 4
	pastEdited = 1
)

// appendPast encodes a past.
func appendPast(dst []byte, p *past) []byte {
	kind := byte(0)
	if p.edited {
		kind = pastEdited
	}
	dst = binary.BigEndian.AppendUint32(append(dst, kind), uint32(p.returns))
	dst = binary.BigEndian.AppendUint32(dst, uint32(p.unanswered))
	if !p.edited {
		return dst
	}
	dst = append(dst, p.sent.hash[:]...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.sent.bytes))
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(p.sent.line)))
	return append(dst, p.sent.line...)
}

// parsePast decodes the past of a checked record, whose strings end at end, and
// returns its line, which shares memory with rec.
func parsePast(rec []byte, end int) (p past, line []byte, err error) {
	rest := rec[end:]
	if rec[0] == recordVersion {
		return p, rest, nil
	}
	if len(rest) < pastSize {
		return p, nil, fmt.Errorf("%w: a record's past", queue.ErrDamaged)
	}
	p.edited, p.returns = rest[0] == pastEdited, int(binary.BigEndian.Uint32(rest[1:]))
	p.unanswered = int(binary.BigEndian.Uint32(rest[5:]))
	rest = rest[pastSize:]
	if !p.edited {
		return p, rest, nil
	}
	if len(rest) < editedSize || uint64(binary.BigEndian.Uint32(rest[40:])) > uint64(len(rest)-editedSize) {
		return p, nil, fmt.Errorf("%w: a record's past", queue.ErrDamaged)
	}
	p.sent = sentLine{hash: queue.Hash(rest[:32]), bytes: int64(binary.BigEndian.Uint64(rest[32:]))}
	kept := editedSize + int(binary.BigEndian.Uint32(rest[40:]))
	p.sent.line = bytes.Clone(rest[editedSize:kept])
	return p, rest[kept:], nil
}

// withPast returns a checked record with another past.
func withPast(rec []byte, p *past) ([]byte, error) {
	end := recordHeader + int(binary.BigEndian.Uint32(rec[offStrings:]))
	_, line, err := parsePast(rec, end)
	if err != nil {
		return nil, err
	}
	out := make([]byte, 0, end+pastSize+editedSize+len(p.sent.line)+len(line))
	out = append(appendPast(append(out, rec[:end]...), p), line...)
	out[0] = recordReturns
	sumRecord(out)
	return out, nil
}

// sent is the line of a message as it was sent.
func (m *record) sent() sentLine {
	if m.past.edited {
		return m.past.sent
	}
	return sentLine{hash: queue.LineHash(m.msg.Line), bytes: int64(len(m.msg.Line)), line: m.msg.Line}
}
