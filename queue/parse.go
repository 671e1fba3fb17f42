package queue

import (
	"bytes"
	"errors"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Parser reads lines. It keeps its buffers from line to line, which is why one
// parser must not be used by two goroutines at once; give each connection its
// own. The zero value is ready to use. Between lines it holds on to the last
// line and to no more than about 64 KiB of its own.
type Parser struct {
	in     bytes.Buffer
	dec    jsontext.Decoder
	text   []byte         // the known members, decoded, back to back
	fields [members]field // where in the text each of them is
}

// maxKeptText and maxKeptLine say how much a parser keeps for the next line: an
// unusual line must not make every connection big for the rest of its life.
const (
	maxKeptText = 16 << 10
	maxKeptLine = 64 << 10
)

// ParseLine is [Parser.Parse] with a parser of its own: for callers that have a
// line now and then.
func ParseLine(line []byte) (Message, error) {
	var p Parser
	return p.Parse(line)
}

// Parse reads one line, given without its LF, and judges it by the structural
// and the monetary gate. One CR at the end is taken for half of the line's end
// and is no part of the message; all other bytes are, white space included.
//
// The error is a [*GateError] or nil. With an error the message still has the
// line and those members that could be read, for the record of the quarantine;
// it must not be admitted as it is.
//
// Message.Line is a part of line, not a copy: it stays good as long as the
// caller leaves line alone. Everything else in the message is its own.
func (p *Parser) Parse(line []byte) (Message, error) {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	broken := p.scan(line)
	m, failed := reading{text: string(p.text), fields: &p.fields}.message(line)
	p.shrink(len(line))
	// Broken JSON comes first: what is missing may stand behind the break.
	if broken != nil {
		return m, broken
	}
	if failed != nil {
		return m, failed
	}
	return m, nil
}

// shrink lets go of buffers that an unusual line has grown.
func (p *Parser) shrink(lineBytes int) {
	if cap(p.text) > maxKeptText {
		p.text = nil
	}
	if lineBytes > maxKeptLine {
		p.in, p.dec = bytes.Buffer{}, jsontext.Decoder{}
	}
}

// scan walks the line's one object and notes the known members. jsontext
// itself refuses bytes that are not UTF-8, lone surrogates, and names that
// appear twice in an object, at every level.
func (p *Parser) scan(line []byte) *GateError {
	p.text = p.text[:0]
	p.fields = [members]field{}
	// A line feed is white space to JSON, but a line that holds one would come
	// out as two wherever it is handed on.
	if at := bytes.IndexByte(line, '\n'); at >= 0 {
		return malformed("the line has a line feed in it" + atOffset(int64(at)))
	}
	p.in = *bytes.NewBuffer(line)
	p.dec.Reset(&p.in)
	first, err := p.dec.ReadToken()
	if err != nil {
		return p.broken(err)
	}
	if first.Kind() != jsontext.KindBeginObject {
		return malformed("the line is not an object but " + kindName(first.Kind()))
	}
	for p.dec.PeekKind() != jsontext.KindEndObject {
		if failed := p.scanMember(); failed != nil {
			return failed
		}
	}
	if _, err := p.dec.ReadToken(); err != nil {
		return p.broken(err)
	}
	end := p.dec.InputOffset()
	if _, err := p.dec.ReadToken(); err != io.EOF {
		return malformed("something follows the object" + atOffset(end))
	}
	return nil
}

// scanMember reads one member of the object.
func (p *Parser) scanMember() *GateError {
	if p.dec.PeekKind() != jsontext.KindString {
		_, err := p.dec.ReadToken() // an error: a name is a string
		return p.broken(err)
	}
	quoted, err := p.dec.ReadValue()
	if err != nil {
		return p.broken(err)
	}
	known := p.memberOf(quoted)
	k := p.dec.PeekKind()
	if k == jsontext.KindBeginObject || k == jsontext.KindBeginArray {
		p.note(known, k)
		return p.skipNested()
	}
	raw, err := p.dec.ReadValue()
	if err != nil {
		return p.broken(err)
	}
	p.note(known, k)
	p.keep(known, raw)
	return nil
}

// skipNested passes over an object or an array token by token. ReadValue would
// do it in one call, but by recursion, and to a depth of 10,000.
func (p *Parser) skipNested() *GateError {
	for {
		if _, err := p.dec.ReadToken(); err != nil {
			return p.broken(err)
		}
		switch depth := p.dec.StackDepth(); {
		case depth > MaxDepth:
			return malformed("the line nests deeper than " + strconv.Itoa(MaxDepth) + " levels" +
				atOffset(p.dec.InputOffset()))
		case depth == 1:
			return nil
		}
	}
}

// memberOf returns which member a quoted name means. A name may be written with
// escapes; the decoded name counts.
func (p *Parser) memberOf(quoted []byte) member {
	if bytes.IndexByte(quoted, '\\') < 0 {
		return memberNamed(quoted[1 : len(quoted)-1])
	}
	at := len(p.text)
	p.text, _ = jsontext.AppendUnquote(p.text, quoted) // cannot fail: the decoder has read it
	known := memberNamed(p.text[at:])
	p.text = p.text[:at]
	return known
}

// note remembers that a known member is there, and its kind.
func (p *Parser) note(m member, k kind) {
	if m < members {
		p.fields[m].kind = k
	}
}

// keep decodes a known member's string or number into the text. What is over
// its limit is measured but not kept: no record may grow with it.
func (p *Parser) keep(m member, raw []byte) {
	if m == members || p.fields[m].kind != kindString && p.fields[m].kind != kindNumber {
		return
	}
	start := len(p.text)
	if raw[0] == '"' {
		p.text, _ = jsontext.AppendUnquote(p.text, raw) // cannot fail, as above
	} else {
		p.text = append(p.text, raw...)
	}
	size := len(p.text) - start
	if size > m.limit() {
		p.text = p.text[:start]
	}
	f := &p.fields[m]
	f.size, f.start, f.end = size, start, len(p.text)
}

// broken puts what the decoder says into our words. The decoder's own are used
// where they quote no more than the few bytes at fault.
func (p *Parser) broken(err error) *GateError {
	offset := p.dec.InputOffset()
	var syntax *jsontext.SyntacticError
	if errors.As(err, &syntax) {
		offset = syntax.ByteOffset
	}
	switch {
	case err == io.EOF:
		return malformed("the line holds no object")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return malformed("the object is cut off" + atOffset(offset))
	case errors.Is(err, jsontext.ErrDuplicateName):
		return malformed("a member name appears twice" + atOffset(offset))
	case syntax == nil || syntax.Err == nil:
		return malformed("the line is not JSON" + atOffset(offset))
	}
	return malformed("the line is not JSON: " + short(syntax.Err.Error()) + atOffset(offset))
}

// short keeps a library's message short; it may quote the input.
func short(message string) string { return keepStart(message, 2*maxExcerpt) }

func atOffset(offset int64) string {
	return " at offset " + strconv.FormatInt(offset, 10)
}
