package handler

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"breakwater/queue"
)

// OutcomeDone is the outcome of a success that names none.
const OutcomeDone = "DONE"

// ErrAnswer: a handler's answer object says something that cannot be meant.
var ErrAnswer = errors.New("malformed answer")

const (
	// maxAnswerLine bounds the answer: of an object that is longer nobody knows what it
	// says.
	maxAnswerLine = 64 << 10
	// maxText bounds each text of an answer. It is more than a record keeps, so
	// that a record that had to cut it says so; a dead letter keeps it all.
	maxText = 2 * queue.MaxRecordText
	// maxShown bounds what is quoted of a malformed answer: the decoder's errors
	// quote it too.
	maxShown = 64
)

// ParseAnswer reads what a handler that succeeded said: the first line of a
// command's output, or a 2xx body (its first line, if that is an object).
//
//	{"outcome":"POSTED","by":"…","note":"…"}          ack; all of it optional
//	{"retry":true,"after_ms":5000,"reason":"…"}
//	{"release":true,"reason":"…"}
//	{"hold":"2026-03-31T18:00:00Z","reason":"…"}
//	{"reject":true,"reason":"…"}
//
// A line that is no JSON object is an ack with the outcome DONE; so is an object
// without any of these members. Others are the handler's own and ignored; null and
// false stand for absent.
//
// The answer may be used whatever the error, which is ErrAnswer with the details
// and also part of the answer's note or reason, so that the trail has it. Two rules
// decide what a malformed answer does. The handler has reported success: a bad
// outcome, name or note never undoes that. But where it says in any form that the
// work is not done (a verb with a bad value, two verbs at once, a verb beside an
// outcome), it is a retry: it counts, so that a handler that is always wrong ends
// in the dead letters, where a person sees it, and nothing is settled by mistake.
// The same goes for an object that cannot be read: it is a retry if it may say so, and
// an ack with a note if not. It may where a verb stands in it, where it ends too soon,
// and where it is longer than an answer may be (P11): what is missing may be a verb.
func ParseAnswer(firstLine []byte) (queue.Answer, error) {
	line := opening(firstLine)
	over := len(firstLine) > maxAnswerLine
	if len(line) == 0 && !over || len(line) > 0 && line[0] != '{' {
		return queue.Answer{Verb: queue.Ack, Outcome: OutcomeDone}, nil
	}
	if over {
		return unread(fmt.Errorf("%w: over %d bytes", ErrAnswer, maxAnswerLine))
	}
	var s said
	if err := s.read(line); err != nil {
		refuses := s.mayRefuse(line, err)
		s = said{}
		s.fault("the line is no JSON object: %s", shown([]byte(err.Error())))
		if refuses {
			return unread(fmt.Errorf("%w: %s", ErrAnswer, s.faults[0]))
		}
	}
	a := s.answer()
	if len(s.faults) == 0 {
		return a, nil
	}
	err := fmt.Errorf("%w: %s", ErrAnswer, strings.Join(s.faults, "; "))
	if a.Verb == queue.Ack {
		a.Note = join(a.Note, err.Error())
	} else {
		a.Reason = join(a.Reason, err.Error())
	}
	return a, err
}

// opening is a text from where it begins: behind a byte order mark, blanks and blank
// lines.
func opening(text []byte) []byte {
	return bytes.TrimLeft(bytes.TrimPrefix(text, []byte(byteOrderMark)), " \t\r\n")
}

const byteOrderMark = "\ufeff"

// unread is the answer of a handler whose own nobody can read: it has reported success,
// so its effect is likely to exist.
func unread(why error) (queue.Answer, error) {
	return queue.Answer{Verb: queue.Retry, Reason: why.Error(), Unanswered: true}, why
}

func join(text, more string) string {
	if text == "" {
		return more
	}
	return text + "; " + more
}

// The members that mean something.
const (
	saidOutcome = iota
	saidBy
	saidNote
	saidReason
	saidAfter
	saidRetry
	saidRelease
	saidHold
	saidReject
	saidMembers
)

var memberNames = [saidMembers]string{
	"outcome", "by", "note", "reason", "after_ms", "retry", "release", "hold", "reject",
}

// said is an answer object under way: the values of the members that mean
// something, empty where one is absent.
type said struct {
	values [saidMembers]jsontext.Value
	faults []string
}

func (s *said) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

// aVerb finds a verb in what is no JSON, as Python prints a dictionary or as JavaScript
// spells an object too.
var aVerb = regexp.MustCompile(`["'](?:retry|release|hold|reject)["']|\b(?:retry|release|hold|reject)\s*[:=]`)

// mayRefuse reports whether an object that could not be read may say that the work is
// not done.
func (s *said) mayRefuse(line []byte, err error) bool {
	for _, verb := range [...]int{saidRetry, saidRelease, saidHold, saidReject} {
		if s.values[verb] != nil {
			return true
		}
	}
	return aVerb.Match(line) || errors.Is(err, io.ErrUnexpectedEOF)
}

// read takes the line apart. Duplicate names and bad UTF-8 are errors of the
// decoder, and so is a second value on the line.
func (s *said) read(line []byte) error {
	dec := jsontext.NewDecoder(bytes.NewReader(line))
	if _, err := dec.ReadToken(); err != nil { // the caller has seen its brace
		return err
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		at := slices.Index(memberNames[:], name.String())
		value, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if at >= 0 && value.Kind() != jsontext.KindNull && value.Kind() != jsontext.KindFalse {
			s.values[at] = value.Clone()
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return err
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

// answer decides what the members mean together.
func (s *said) answer() queue.Answer {
	verb, named := queue.Ack, 0
	for _, v := range [...]struct {
		at   int
		verb queue.Verb
	}{{saidRetry, queue.Retry}, {saidRelease, queue.Release}, {saidHold, queue.Hold}, {saidReject, queue.Reject}} {
		if s.values[v.at] != nil {
			verb = v.verb
			named++
		}
	}
	if named == 0 {
		return queue.Answer{Verb: queue.Ack, Outcome: s.outcome(), By: s.text(saidBy), Note: s.text(saidNote)}
	}
	a := queue.Answer{Verb: verb, By: s.text(saidBy), Reason: s.text(saidReason)}
	more := named > 1 || s.values[saidOutcome] != nil
	if more {
		s.fault("it says more than one thing")
	}
	if more || !s.meant(&a) {
		a.Verb, a.Until, a.Unanswered = queue.Retry, time.Time{}, true
	}
	return a
}

// meant completes an answer whose verb is not an ack, and reports whether that can be
// meant.
func (s *said) meant(a *queue.Answer) (ok bool) {
	switch a.Verb {
	case queue.Retry:
		ok = s.mustBeTrue(saidRetry)
		a.After = s.after()
		return ok
	case queue.Release:
		return s.mustBeTrue(saidRelease)
	case queue.Reject:
		return s.mustBeTrue(saidReject)
	}
	if a.Until, ok = queue.ParseTime(s.text(saidHold)); !ok {
		s.fault("hold is not an RFC 3339 date and time up to the year %d: %s", queue.MaxYear, shown(s.values[saidHold]))
	}
	return ok
}

// outcome returns the outcome to record: the one that is named, if it can be.
func (s *said) outcome() string {
	v := s.values[saidOutcome]
	if v == nil {
		return OutcomeDone
	}
	if text := s.text(saidOutcome); queue.ValidOutcome(text) {
		return text
	} else if v.Kind() == jsontext.KindString {
		s.fault("outcome is not 1 to %d of A-Z, 0-9 and _: %s", queue.MaxOutcome, shown(v))
	}
	return OutcomeDone
}

// text returns a member that should be a string.
func (s *said) text(at int) string {
	v := s.values[at]
	if v == nil {
		return ""
	}
	if v.Kind() != jsontext.KindString {
		if at != saidHold { // which has a complaint of its own
			s.fault("%s is not a string: %s", memberNames[at], shown(v))
		}
		return ""
	}
	text, _ := jsontext.AppendUnquote(nil, v) // cannot fail: the decoder has read it
	if len(text) <= maxText {
		return string(text)
	}
	end := maxText
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return string(text[:end])
}

// mustBeTrue reports whether a verb has the one value that it can have.
func (s *said) mustBeTrue(at int) bool {
	v := s.values[at]
	if v.Kind() != jsontext.KindTrue {
		s.fault("%s is neither true nor false: %s", memberNames[at], shown(v))
		return false
	}
	return true
}

// after returns after_ms: digits only, since a delay is neither negative nor a
// fraction. A huge one is the longest there is; the policy caps it anyway.
func (s *said) after() time.Duration {
	v := s.values[saidAfter]
	if v == nil {
		return 0
	}
	if strings.Trim(string(v), "0123456789") != "" {
		s.fault("after_ms is not a whole number of milliseconds: %s", shown(v))
		return 0
	}
	ms, err := strconv.ParseInt(string(v), 10, 64)
	if err != nil || ms > int64(math.MaxInt64/time.Millisecond) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// shown is the beginning of a JSON value, as it was written.
func shown(v []byte) string {
	if len(v) > maxShown {
		return strings.ToValidUTF8(string(v[:maxShown]), "") + "..."
	}
	return string(v)
}
