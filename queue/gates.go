package queue

import (
	"strconv"
	"unicode/utf8"
)

// Gate names one of the two gates that a single line can fail at the door.
// The other two, order and idempotency, need the store to judge.
type Gate string

// The gates of the door.
const (
	// Structural: the line is one strict JSON object with the members that
	// identify an exception.
	Structural Gate = "structural"
	// Monetary: the amount is a decimal string that fits its currency.
	Monetary Gate = "monetary"
)

// GateError says which gate a line failed and why. Such a line is not refused
// but quarantined: kept as a dead letter with its original bytes (P8).
type GateError struct {
	Gate Gate
	// Field is the member at fault; empty where the line could not be read as
	// an object at all, the reason then names the byte offset.
	Field string
	// Reason reads on from the field's name ("is missing"). It quotes at most
	// 64 bytes of the input and is plain ASCII, whatever the input was.
	Reason string
}

// Error returns gate, field and reason in one line of ASCII text.
func (e *GateError) Error() string {
	if e.Field == "" {
		return string(e.Gate) + " gate: " + e.Reason
	}
	return string(e.Gate) + " gate: " + e.Field + " " + e.Reason
}

// Code returns [CodePoison]: whichever gate failed, the line is poison.
func (e *GateError) Code() Code { return CodePoison }

func malformed(reason string) *GateError {
	return &GateError{Gate: Structural, Reason: reason}
}

func structural(m member, reason string) *GateError {
	return &GateError{Gate: Structural, Field: m.name(), Reason: reason}
}

func monetary(m member, reason string) *GateError {
	return &GateError{Gate: Monetary, Field: m.name(), Reason: reason}
}

// maxExcerpt bounds the input that an error repeats, in bytes: errors travel into
// receipts, logs and terminals.
const maxExcerpt = 64

// excerpt quotes the beginning of a value that has to be ASCII. Of one that is not it
// says so: a Cyrillic letter in MATCHED looks like the right one.
func excerpt(s string) string {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return Quote(s, maxExcerpt) + ", which is not all ASCII"
		}
	}
	return Quote(s, maxExcerpt)
}

// reading is what the parser found of the known members in one line.
type reading struct {
	text   string // the decoded members, back to back
	fields *[members]field
}

// field is one known member as it was found.
type field struct {
	kind       kind // kindAbsent, or the first byte of the JSON value
	size       int  // length in bytes after decoding, also where text has none of it
	start, end int  // its place in the text; empty when it was over its limit
}

// value returns the member's text: "" unless it is a string within its limit.
func (r reading) value(m member) string {
	f := &r.fields[m]
	if f.kind != kindString {
		return ""
	}
	return r.text[f.start:f.end]
}

// message judges the line by the structural and monetary gates. Members that
// could be read are filled in even when a gate fails, so that a quarantined
// line can be found by its trace id. All gates are looked at, and the first to
// fail is named in this fixed order, whatever order the sender wrote: the
// same content always gets the same answer.
func (r reading) message(line []byte) (Message, *GateError) {
	m := Message{
		IdempotencyKey: r.value(memberIdempotencyKey),
		TraceID:        r.value(memberTraceID),
		PartitionKey:   r.value(memberPartitionKey),
		LedgerEntity:   r.value(memberLedgerEntity),
		Amount:         r.value(memberAmount),
		Currency:       r.value(memberCurrency),
		Priority:       DefaultPriority,
		Line:           line,
	}
	verdicts := [...]*GateError{
		r.required(memberIdempotencyKey),
		r.required(memberTraceID),
		r.required(memberPartitionKey),
		r.required(memberLedgerEntity),
		r.decision(&m),
		r.priority(&m),
		r.route(&m),
		r.notBefore(&m),
		r.money(&m),
	}
	for _, failed := range verdicts {
		if failed != nil {
			return m, failed
		}
	}
	return m, nil
}

// fault says what is wrong with a string member as such, or "". An absent
// member is no fault here.
func (r reading) fault(m member) string {
	f := &r.fields[m]
	switch {
	case f.kind == kindAbsent:
		return ""
	case f.kind != kindString:
		return "must be a string, not " + kindName(f.kind)
	case f.size == 0:
		return "is empty"
	case f.size > m.limit():
		return "is " + strconv.Itoa(f.size) + " bytes long, at most " + strconv.Itoa(m.limit())
	}
	return ""
}

func (r reading) required(m member) *GateError {
	if r.fields[m].kind == kindAbsent {
		return structural(m, "is missing")
	}
	if reason := r.fault(m); reason != "" {
		return structural(m, reason)
	}
	return nil
}

func (r reading) decision(m *Message) *GateError {
	if failed := r.required(memberDecision); failed != nil {
		return failed
	}
	// The constants, not the text: they cost nothing to keep.
	switch text := r.value(memberDecision); MatchDecision(text) {
	case Matched:
		m.Decision = Matched
	case Partial:
		m.Decision = Partial
	case Unmatched:
		m.Decision = Unmatched
	default:
		return structural(memberDecision, "is none of MATCHED, PARTIAL, UNMATCHED: "+excerpt(text))
	}
	return nil
}

// priority takes one digit, as written: 5.0 and 5e0 are numbers that other
// readers of the line may take for something else.
func (r reading) priority(m *Message) *GateError {
	f := &r.fields[memberPriority]
	if f.kind == kindAbsent {
		return nil
	}
	if f.kind != kindNumber {
		return structural(memberPriority, "must be an integer, not "+kindName(f.kind))
	}
	text := r.text[f.start:f.end]
	if len(text) != 1 || text[0]-'0' > MaxPriority {
		return structural(memberPriority, "is not an integer from 0 to 9: "+excerpt(text))
	}
	m.Priority = text[0] - '0'
	return nil
}

// route keeps what upstream has decided; absent, it is decided with the money.
func (r reading) route(m *Message) *GateError {
	if reason := r.fault(memberRoute); reason != "" {
		return structural(memberRoute, reason)
	}
	switch text := r.value(memberRoute); Route(text) {
	case "":
	case AutoResolve:
		m.Route = AutoResolve
	case RouteReview:
		m.Route = RouteReview
	default:
		return structural(memberRoute, "is neither AUTO_RESOLVE nor ROUTE_REVIEW: "+excerpt(text))
	}
	return nil
}

func (r reading) notBefore(m *Message) *GateError {
	if reason := r.fault(memberNotBefore); reason != "" {
		return structural(memberNotBefore, reason)
	}
	text := r.value(memberNotBefore)
	if text == "" {
		return nil
	}
	due, reason := parseTimestamp(text)
	if reason != "" {
		return structural(memberNotBefore, reason+": "+excerpt(text))
	}
	m.NotBefore = due
	return nil
}

// money is the monetary gate, and what follows from an amount that passes: the
// route, where none was sent. The source hash is taken as soon as its four
// parts are known, for the evidence of lines that fail elsewhere.
func (r reading) money(m *Message) *GateError {
	if r.fields[memberAmount].kind == kindAbsent {
		return monetary(memberAmount, "is missing")
	}
	if reason := r.fault(memberAmount); reason != "" {
		return monetary(memberAmount, reason)
	}
	amount, reason := parseAmount(m.Amount)
	if reason != "" {
		return monetary(memberAmount, reason+": "+excerpt(m.Amount))
	}
	if m.IdempotencyKey != "" && m.LedgerEntity != "" && m.Decision != "" {
		m.SourceHash = SourceHash(m.IdempotencyKey, m.LedgerEntity, amount.Canonical(), m.Decision)
	}
	if reason := r.fault(memberCurrency); reason != "" {
		return monetary(memberCurrency, reason)
	}
	if failed := amount.checkFit(m.Currency); failed != nil {
		return failed
	}
	if m.Route == "" {
		m.Route = RouteFor(amount)
	}
	return nil
}
