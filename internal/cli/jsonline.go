package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// lineMember is a member of a line's object, as it stands there.
type lineMember struct {
	name       string // decoded
	value      jsontext.Value
	start, end int // of name and value together
}

// errNoObject: a line is not one JSON object.
var errNoObject = errors.New("the line is not a JSON object")

// membersOf reads the members of a line. What is not one object whose names are all
// different is an error.
func membersOf(line []byte) (members []lineMember, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(line))
	if first, err := d.ReadToken(); err != nil || first.Kind() != jsontext.KindBeginObject {
		return nil, errors.Join(errNoObject, err)
	}
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		m := lineMember{name: name.String()}
		if m.value, err = d.ReadValue(); err != nil {
			return nil, err
		}
		m.value = m.value.Clone()
		m.end = int(d.InputOffset())
		m.start = nameStart(line, members)
		members = append(members, m)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, errors.Join(errNoObject, err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, errNoObject
	}
	return members, nil
}

// nameStart finds where the name of the next member begins: at the first quote after
// the members before it.
func nameStart(line []byte, before []lineMember) int {
	from := bytes.IndexByte(line, '{') + 1
	if n := len(before); n > 0 {
		from = before[n-1].end
	}
	return from + bytes.IndexByte(line[from:], '"')
}

// textMembers are those that are strings whatever stands there: an amount that was sent
// as a number is mended by it.
var textMembers = []string{
	"idempotency_key", "trace_id", "partition_key", "ledger_entity", "match_decision", "variance_amount",
	"currency", "route", "not_before",
}

// setMember returns the line with a member set. All other bytes stay as they are. The
// value is taken for text, unless the member is there and is something else: then it
// must be JSON.
func setMember(line []byte, name, value string) ([]byte, error) {
	members, err := membersOf(line)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(members, func(m lineMember) bool { return m.name == name })
	isText := slices.Contains(textMembers, name) || name != "priority" && (at < 0 || members[at].value.Kind() == jsontext.KindString)
	raw := jsontext.Value(value)
	if isText {
		if raw, err = jsontext.AppendQuote(nil, value); err != nil {
			return nil, fmt.Errorf("%s is not UTF-8", name)
		}
	} else if !raw.IsValid() {
		return nil, fmt.Errorf("%q is not JSON, and %s is no text", value, name)
	}
	if at >= 0 {
		m := members[at]
		return slices.Concat(line[:m.end-len(m.value)], raw, line[m.end:]), nil
	}
	quoted, err := jsontext.AppendQuote(nil, name)
	if err != nil {
		return nil, errors.New("the member's name is not UTF-8")
	}
	added := slices.Concat(quoted, []byte{':'}, raw)
	if n := len(members); n > 0 {
		end := members[n-1].end
		return slices.Concat(line[:end], []byte{','}, added, line[end:]), nil
	}
	at = bytes.IndexByte(line, '{') + 1
	return slices.Concat(line[:at], added, line[at:]), nil
}

// unsetMember returns the line without a member.
func unsetMember(line []byte, name string) ([]byte, error) {
	members, err := membersOf(line)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(members, func(m lineMember) bool { return m.name == name })
	switch {
	case at < 0:
		return nil, fmt.Errorf("the line has no member %q", name)
	case at > 0: // with the comma before it
		return slices.Concat(line[:members[at-1].end], line[members[at].end:]), nil
	case len(members) > 1: // with the comma after it
		return slices.Concat(line[:members[0].start], line[members[1].start:]), nil
	}
	return slices.Concat(line[:members[0].start], line[members[0].end:]), nil
}

// memberChange is a member that two lines have differently; from or to is "" where it is
// absent.
type memberChange struct{ name, from, to string }

// changesOf compares two lines member by member. A line that has no members is compared
// as a whole.
func changesOf(from, to []byte) (changes []memberChange) {
	was, err := membersOf(from)
	is, err2 := membersOf(to)
	if err != nil || err2 != nil {
		return []memberChange{{"line", string(from), string(to)}}
	}
	for _, m := range was {
		at := slices.IndexFunc(is, func(n lineMember) bool { return n.name == m.name })
		switch {
		case at < 0:
			changes = append(changes, memberChange{m.name, string(m.value), ""})
		case !bytes.Equal(is[at].value, m.value):
			changes = append(changes, memberChange{m.name, string(m.value), string(is[at].value)})
		}
	}
	for _, n := range is {
		if !slices.ContainsFunc(was, func(m lineMember) bool { return m.name == n.name }) {
			changes = append(changes, memberChange{n.name, "", string(n.value)})
		}
	}
	return changes
}

// maxChange bounds a value that a difference shows, in runes; show --json has it whole.
const maxChange = 500

// changeRows are changes as rows: what goes, and what comes.
func changeRows(changes []memberChange) (rows [][]string) {
	for _, c := range changes {
		if c.from != "" {
			rows = append(rows, []string{"- " + c.name, short(c.from, maxChange)})
		}
		if c.to != "" {
			rows = append(rows, []string{"+ " + c.name, short(c.to, maxChange)})
		}
	}
	return rows
}
