package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"golang.org/x/mod/sumdb/note"
)

// Why an entry of a file of checkpoints is none that counts.
var (
	// ErrIncomplete: it breaks off, as the one that is written while the power goes
	// out does. It proves nothing, and contradicts nothing.
	ErrIncomplete = errors.New("it is incomplete")
	// ErrMalformed: it is not what a checkpoint looks like.
	ErrMalformed = errors.New("it is malformed")
	// ErrOtherKey: none of the keys has signed it.
	ErrOtherKey = errors.New("it was signed by another key")
	// ErrSignature: it names one of the keys, which has not signed this text.
	ErrSignature = errors.New("its signature is not of this text: it was changed, or forged")
)

// Entry is one checkpoint of a file.
type Entry struct {
	Line       int        // on which it begins, from 1
	Checkpoint Checkpoint // if Err is nil
	Key        string     // the name of the key that signed it, if Err is nil
	Err        error      // one of the above, in words
}

const (
	// maxNote bounds one checkpoint, in bytes; ours have about 300.
	maxNote = 16 << 10
	// sealed is how long a whole signature is in base64: 4 bytes that name the key,
	// 64 of Ed25519.
	sealed = 92
)

var (
	marker    = []byte(`{"checkpoint":"`) // of the form that is one line
	dash      = []byte("— ")
	lineFeed  = []byte("\n")
	openBrace = []byte("{")
)

// Line is the form that is one line: JSON in ASCII, whose text is the signed note.
func Line(signed []byte) []byte {
	text, err := json.Marshal(string(signed))
	if err != nil {
		panic(err) // of a string: cannot be
	}
	line := append([]byte(nil), marker[:len(marker)-1]...)
	for _, r := range string(text) {
		if r < 0x80 {
			line = append(line, byte(r))
		} else {
			line = fmt.Appendf(line, `\u%04x`, r) // the dash: all else that we sign is ASCII
		}
	}
	return append(line, "}\n"...)
}

// Read calls fn for each checkpoint of a file, or of a log that has some: signed notes
// one after the other, or lines of the form that Line has, whatever stands before it
// on its line. Other lines of JSON are passed over; everything else must be
// checkpoints. It holds one at a time. It ends with the first error of r or of fn.
func Read(r io.Reader, keys *Keys, fn func(Entry) error) error {
	s := scanner{keys: keys, fn: fn}
	lines := bufio.NewReaderSize(r, maxNote)
	for {
		line, err := lines.ReadSlice('\n')
		s.number++
		long := false
		for errors.Is(err, bufio.ErrBufferFull) {
			long = true
			_, err = lines.ReadSlice('\n')
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read the checkpoints: %w", err)
		}
		if bytes.HasSuffix(line, []byte("\r\n")) { // mail does that
			line = append(line[:len(line)-2], '\n')
		}
		if len(line) > 0 || long {
			if err := s.line(line, long); err != nil {
				return err
			}
		}
		if err != nil {
			return s.end()
		}
	}
}

// scanner cuts a file into checkpoints.
type scanner struct {
	keys   *Keys
	fn     func(Entry) error
	number int // of the line

	begun int    // the line on which the note begins that is being collected; 0: none is
	buf   []byte // it
	blank bool   // its text has ended
	seals int    // signature lines so far
}

// line takes in one line, with its end if it has one.
func (s *scanner) line(line []byte, long bool) error {
	if at := bytes.Index(line, marker); at >= 0 && !long {
		if err := s.end(); err != nil {
			return err
		}
		return s.json(line[at:])
	}
	isSeal := bytes.HasPrefix(line, dash)
	switch {
	case s.begun == 0 && bytes.HasPrefix(line, openBrace):
		return nil // somebody else's
	case bytes.Equal(line, lineFeed) && s.begun == 0:
		return nil
	case bytes.Equal(line, lineFeed) && !s.blank:
		s.blank = true
	case bytes.Equal(line, lineFeed):
		return s.end()
	case s.blank && !isSeal: // the next one begins
		if err := s.end(); err != nil {
			return err
		}
		return s.line(line, long)
	case s.blank:
		s.seals++
	}
	if s.begun == 0 {
		s.begun = s.number
	}
	if long || len(s.buf)+len(line) > maxNote {
		begun := s.begun
		s.reset()
		return s.fn(Entry{Line: begun, Err: fmt.Errorf("%w: longer than %d bytes", ErrMalformed, maxNote)})
	}
	s.buf = append(s.buf, line...)
	return nil
}

// json takes a note out of its line.
func (s *scanner) json(line []byte) error {
	var doc struct{ Checkpoint string }
	if err := json.NewDecoder(bytes.NewReader(line)).Decode(&doc); err != nil {
		kind := ErrMalformed
		if !bytes.HasSuffix(bytes.TrimRight(line, "\n"), []byte(`"}`)) {
			kind = ErrIncomplete
		}
		return s.fn(Entry{Line: s.number, Err: kind})
	}
	return s.fn(s.open(s.number, []byte(doc.Checkpoint)))
}

// end ends the note that is being collected, if one is.
func (s *scanner) end() error {
	if s.begun == 0 {
		return nil
	}
	begun, whole, msg := s.begun, s.seals > 0, bytes.Clone(s.buf)
	s.reset()
	if !whole {
		return s.fn(Entry{Line: begun, Err: ErrIncomplete})
	}
	return s.fn(s.open(begun, msg))
}

func (s *scanner) reset() { s.begun, s.buf, s.blank, s.seals = 0, s.buf[:0], false, 0 }

// open checks a note.
func (s *scanner) open(line int, msg []byte) Entry {
	e := Entry{Line: line}
	n, err := note.Open(msg, s.keys.known)
	var other *note.UnverifiedNoteError
	var forged *note.InvalidSignatureError
	switch {
	case brokenOff(msg):
		e.Err = ErrIncomplete
	case errors.As(err, &other):
		e.Err = fmt.Errorf("%w: %s", ErrOtherKey, signers(other.Note))
	case errors.As(err, &forged):
		e.Err = fmt.Errorf("%w (%s)", ErrSignature, keyName(forged.Name, forged.Hash))
	case err != nil:
		e.Err = ErrMalformed
	default:
		e.Key = keyName(n.Sigs[0].Name, n.Sigs[0].Hash)
		if e.Checkpoint, err = parse(n.Text); err != nil {
			e.Err = fmt.Errorf("%w: %w", ErrMalformed, err)
		}
	}
	return e
}

// brokenOff reports whether a note's last signature is shorter than one is, or has no
// end: what is left of one that was being written.
func brokenOff(msg []byte) bool {
	if !bytes.HasSuffix(msg, lineFeed) {
		return true
	}
	last := bytes.TrimSuffix(msg, lineFeed)
	last = last[bytes.LastIndexByte(last, '\n')+1:]
	if !bytes.HasPrefix(last, dash) {
		return true
	}
	return len(last)-1-bytes.LastIndexByte(last, ' ') < sealed
}

// signers names who has signed a note, for an error.
func signers(n *note.Note) string {
	text := ""
	for i, sig := range n.UnverifiedSigs {
		if i == 3 {
			return text + ", …"
		}
		if i > 0 {
			text += ", "
		}
		text += keyName(sig.Name, sig.Hash)
	}
	return text
}
