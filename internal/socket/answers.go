package socket

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"breakwater/queue"
)

// What consumers say, read as strictly as exceptions are: one object, no name twice,
// every member known, every value of its type. Where anything is wrong nothing of the
// line is done.

const (
	// maxName is how long a consumer's name may be, in bytes.
	maxName = 64
	// maxBy and maxText bound the texts of an answer, in bytes: what a record keeps
	// whole.
	maxBy   = queue.MaxRecordID
	maxText = queue.MaxRecordText
	// maxQuote is how much of a line an error repeats, in bytes.
	maxQuote = 64
)

// verbKind is what an answer asks for.
type verbKind uint8

const (
	settle verbKind = iota + 1
	extend
	detach
)

// said is a line of a consumer that is attached.
type said struct {
	line       uint64
	kind       verbKind
	settlement queue.Settlement // of extend the token
	fault      string           // why nothing is asked of the core

	// What became of it.
	seq      uint64
	deadline time.Time
	code     queue.Code // empty: it was done
	why      string
}

// verbs are the members that say what to do, and which others each may have.
var verbs = map[string]struct {
	kind verbKind
	verb queue.Verb
	with []string
}{
	"ack":     {settle, queue.Ack, []string{"outcome", "by", "note", "stderr"}},
	"retry":   {settle, queue.Retry, []string{"reason", "after_ms", "by", "stderr", "unanswered"}},
	"release": {settle, queue.Release, []string{"reason", "by", "stderr", "unanswered"}},
	"hold":    {settle, queue.Hold, []string{"until", "reason", "by", "stderr"}},
	"reject":  {settle, queue.Reject, []string{"reason", "by", "stderr"}},
	"extend":  {extend, 0, nil},
	"detach":  {detach, 0, nil},
}

// readAnswer reads one line. Its fault says what is wrong with it.
func readAnswer(text []byte) (a said) {
	var verb string
	var with []string
	err := eachMember(text, func(name string, value jsontext.Value) (err error) {
		switch _, isVerb := verbs[name]; {
		case isVerb && verb != "":
			return fmt.Errorf("it says both %s and %s", verb, name)
		case isVerb:
			verb = name
			return a.what(name, value)
		}
		with = append(with, name)
		s := &a.settlement
		switch name {
		case "outcome":
			s.Outcome, err = textOf(name, value, queue.MaxOutcome)
		case "by":
			s.By, err = textOf(name, value, maxBy)
		case "note":
			s.Note, err = textOf(name, value, maxText)
		case "reason":
			s.Reason, err = textOf(name, value, maxText)
		case "stderr":
			s.Stderr, err = textOf(name, value, maxText)
		case "until":
			s.Until, err = timeOf(name, value)
		case "after_ms":
			s.After, err = millisecondsOf(name, value)
		case "unanswered":
			s.Unanswered, err = flagOf(name, value)
		default:
			err = fmt.Errorf("there is no member %s", quote([]byte(name)))
		}
		return err
	})
	if err == nil {
		err = a.check(verb, with)
	}
	if err != nil {
		a.fault = err.Error()
	}
	return a
}

// what takes the member that says what to do.
func (a *said) what(name string, value jsontext.Value) error {
	a.kind, a.settlement.Verb = verbs[name].kind, verbs[name].verb
	if a.kind == detach {
		if value.Kind() != jsontext.KindTrue {
			return fmt.Errorf("%s is not true: %s", name, quoteValue(value))
		}
		return nil
	}
	token := ""
	if value.Kind() == jsontext.KindString {
		token = unquoted(value)
	}
	var ok bool
	if a.settlement.Token, ok = queue.ParseToken(token); !ok {
		return fmt.Errorf("%s is not a lease's token: %s", name, quoteValue(value))
	}
	return nil
}

// check says what the members cannot mean together.
func (a *said) check(verb string, with []string) error {
	if verb == "" {
		return errors.New("it says nothing: one of ack, retry, release, hold, reject, extend, detach is missing")
	}
	for _, name := range with {
		if !slices.Contains(verbs[verb].with, name) {
			return fmt.Errorf("%s has no member %s", verb, name)
		}
	}
	switch s := &a.settlement; {
	case s.Verb == queue.Ack && !queue.ValidOutcome(s.Outcome):
		return fmt.Errorf("outcome is not 1 to %d of A-Z, 0-9 and _: %s", queue.MaxOutcome, quote([]byte(s.Outcome)))
	case s.Verb == queue.Hold && s.Until.IsZero():
		return errors.New("hold has no until")
	}
	return nil
}

// request is the first line of a consumer.
type request struct {
	name     string
	prefetch int // at most math.MaxInt32; wrote has what is more
	routes   queue.RouteSet
	lease    time.Duration                    // 0: it asks for none
	wrote    struct{ prefetch, lease string } // the numbers as they were written, for a refusal
}

// ofExceptions are members by which an exception is known that is sent to the wrong
// socket.
var ofExceptions = []string{"idempotency_key", "trace_id", "partition_key", "ledger_entity", "match_decision", "variance_amount"}

// readAttach reads a line of a consumer that is not attached yet.
func readAttach(text []byte) (r request, err error) {
	r.routes = queue.RoutesOf(queue.Routes[:]...)
	err = eachMember(text, func(name string, value jsontext.Value) (err error) {
		switch name {
		case "attach":
			if r.name, err = textOf(name, value, maxName); err == nil {
				err = checkName(r.name)
			}
		case "prefetch":
			var n int64
			n, err = numberOf(name, value)
			r.prefetch, r.wrote.prefetch = int(min(n, math.MaxInt32)), shorten(string(value))
			if err == nil && n == 0 {
				err = errors.New("prefetch is 0: at least 1 is needed")
			}
		case "routes":
			r.routes, err = routesOf(value)
		case "lease_timeout_ms":
			r.lease, err = millisecondsOf(name, value)
			r.wrote.lease = shorten(string(value))
			if err == nil && r.lease < minLease {
				err = fmt.Errorf("lease_timeout_ms is %d: at least %d are needed", r.lease.Milliseconds(), minLease.Milliseconds())
			}
		default:
			if _, isVerb := verbs[name]; isVerb {
				return errors.New("attach first: nothing can be answered before")
			}
			err = fmt.Errorf("attach has no member %s", quote([]byte(name)))
			if slices.Contains(ofExceptions, name) {
				err = fmt.Errorf("%w: exceptions are sent to the enqueue socket, this is the consume socket", err)
			}
		}
		return err
	})
	switch {
	case err != nil:
	case r.name == "":
		err = errors.New("attach is missing: the name of the consumer")
	case r.prefetch == 0:
		err = errors.New("prefetch is missing: how many unsettled deliveries to have at most")
	}
	return r, err
}

// checkName says why a consumer cannot have a name: people meet it in lists and in the
// trail, where it must not pass for a worker.
func checkName(name string) error {
	switch {
	case name == "":
		return errors.New("attach is empty: a consumer needs a name")
	case strings.TrimSpace(name) != name:
		return errors.New("attach begins or ends with white space")
	case strings.HasPrefix(name, "w-") && strings.Trim(name[2:], "0123456789") == "":
		return errors.New("attach is the name of a worker: w- and digits are taken")
	}
	for _, r := range name {
		if !unicode.IsPrint(r) {
			return fmt.Errorf("attach has the character %U, which is not shown", r)
		}
	}
	return nil
}

// eachMember takes an object apart, in the order of its members. A value is valid
// until visit returns.
func eachMember(text []byte, visit func(name string, value jsontext.Value) error) error {
	dec := jsontext.NewDecoder(bytes.NewReader(text))
	if dec.PeekKind() != jsontext.KindBeginObject {
		return fmt.Errorf("the line is no JSON object: %s", quote(text))
	}
	if _, err := dec.ReadToken(); err != nil {
		return broken(err)
	}
	for dec.PeekKind() != jsontext.KindEndObject {
		name, err := dec.ReadToken()
		if err != nil {
			return broken(err)
		}
		text := name.String()
		value, err := dec.ReadValue()
		if err != nil {
			return broken(err)
		}
		if err := visit(text, value); err != nil {
			return err
		}
	}
	if _, err := dec.ReadToken(); err != nil {
		return broken(err)
	}
	if _, err := dec.ReadToken(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

// broken says what is wrong with a line's JSON. The decoder's error may quote it.
func broken(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the object is cut off")
	}
	text := strings.TrimPrefix(err.Error(), "jsontext: ")
	return fmt.Errorf("the line is not JSON: %s", shorten(text))
}

func textOf(name string, value jsontext.Value, limit int) (string, error) {
	if value.Kind() != jsontext.KindString {
		return "", fmt.Errorf("%s is not a string: %s", name, quoteValue(value))
	}
	text := unquoted(value)
	if len(text) > limit {
		return "", fmt.Errorf("%s has %d bytes, the limit is %d", name, len(text), limit)
	}
	return text, nil
}

func flagOf(name string, value jsontext.Value) (bool, error) {
	if k := value.Kind(); k != jsontext.KindTrue && k != jsontext.KindFalse {
		return false, fmt.Errorf("%s is neither true nor false: %s", name, quoteValue(value))
	}
	return value.Kind() == jsontext.KindTrue, nil
}

func timeOf(name string, value jsontext.Value) (time.Time, error) {
	if value.Kind() == jsontext.KindString {
		if t, ok := queue.ParseTime(unquoted(value)); ok {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%s is not an RFC 3339 date and time up to the year %d: %s", name, queue.MaxYear, quoteValue(value))
}

// numberOf reads a whole number that is not negative, as digits. One that is too large
// for its type is the largest: each has a limit that is far lower.
func numberOf(name string, value jsontext.Value) (int64, error) {
	if strings.Trim(string(value), "0123456789") != "" {
		return 0, fmt.Errorf("%s is not a whole number from 0 up: %s", name, quoteValue(value))
	}
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err != nil {
		return math.MaxInt64, nil
	}
	return n, nil
}

func millisecondsOf(name string, value jsontext.Value) (time.Duration, error) {
	n, err := numberOf(name, value)
	return time.Duration(min(n, int64(math.MaxInt64/time.Millisecond))) * time.Millisecond, err
}

func routesOf(value jsontext.Value) (queue.RouteSet, error) {
	if value.Kind() != jsontext.KindBeginArray {
		return 0, fmt.Errorf("routes is not a list: %s", quoteValue(value))
	}
	var set queue.RouteSet
	dec := jsontext.NewDecoder(bytes.NewReader(value))
	_, _ = dec.ReadToken() // the bracket; the value has been read once
	for dec.PeekKind() != jsontext.KindEndArray {
		one, err := dec.ReadValue()
		if err != nil {
			return 0, broken(err)
		}
		route := queue.Route("")
		if one.Kind() == jsontext.KindString {
			route = queue.Route(unquoted(one))
		}
		if queue.RouteIndex(route) < 0 {
			return 0, fmt.Errorf("routes has %s: there are %s", quoteValue(one), routeNames())
		}
		set |= queue.RoutesOf(route)
	}
	if set == 0 {
		return 0, errors.New("routes is empty: leave it out for all of them")
	}
	return set, nil
}

func routeNames() string {
	var names []string
	for _, r := range queue.Routes {
		names = append(names, string(r))
	}
	return strings.Join(names, " and ")
}

// unquoted returns the text of a string that the decoder has read.
func unquoted(value jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, value)
	return string(text)
}

// quote repeats the beginning of what was sent.
func quote(text []byte) string { return queue.Quote(string(text), maxQuote) }

// quoteValue shows a JSON value: a string by its text, what has no quotes without any.
func quoteValue(value jsontext.Value) string {
	switch value.Kind() {
	case jsontext.KindString:
		return quote([]byte(unquoted(value)))
	case jsontext.KindBeginObject, jsontext.KindBeginArray:
		return quote(value)
	default:
		return shorten(string(value))
	}
}

// shorten keeps the beginning of a text.
func shorten(text string) string {
	const limit = 3 * maxQuote
	if len(text) <= limit {
		return text
	}
	end := limit
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}
