package queue

import (
	"errors"
	"fmt"
	"time"
)

// Edit is new content for one dead letter: a whole line, which the gates must let in.
type Edit struct {
	Seq uint64
	// Was is the SHA-256 of the line that was edited, so that nobody undoes what
	// somebody else has done meanwhile without having seen it.
	Was  Hash
	Line []byte
}

// EditResult answers the edit of the same index; Code is empty when it was done, and
// Field names the member at fault, where one is. Before is what the letter's content
// is, or was; After what it was to become, as far as that could be read.
type EditResult struct {
	Seq    uint64
	Code   Code
	Field  string
	Error  string
	Before Content
	After  Content
}

// Content identifies the content of a message, and says what it asks for. Route is empty
// where none could be read; then Priority and NotBefore say nothing.
type Content struct {
	SourceHash Hash
	LineHash   Hash
	LineBytes  int64
	Route      Route
	Priority   uint8
	NotBefore  time.Time
}

// Stale reports whether the edit was refused because the letter had other content by
// then.
func (r *EditResult) Stale(was Hash) bool { return r.Code == CodeUsage && r.Before.LineHash != was }

// Refuse makes r a refusal.
func (r *EditResult) Refuse(code Code, field, why string) {
	r.Code, r.Field, r.Error = code, field, why
}

// Letter is what decides whether a dead letter may be edited or put back.
type Letter struct {
	Stored
	Code      Code
	NotBefore time.Time
	Ordered   bool // it has been in the order of its key, and has its place in it
	Edited    bool
	Content   Content
}

// Check judges an edit by all that does not need a store: whether it is of the content
// that the letter has, the gates, and what can never be changed. The store that calls
// it then looks whether the idempotency key is free. A refusal is in r; the message is
// what the line says.
func (e *Edit) Check(l *Letter, r *EditResult) Message {
	r.Seq, r.Before = e.Seq, l.Content
	m, err := ParseLine(e.Line)
	r.After = Content{
		SourceHash: m.SourceHash, LineHash: LineHash(m.Line), LineBytes: int64(len(m.Line)),
		Route: m.Route, Priority: m.Priority, NotBefore: m.NotBefore,
	}
	var failed *GateError
	switch {
	case e.Was != l.Content.LineHash:
		r.Refuse(CodeUsage, "", "the letter has other content by now: it was edited meanwhile")
	case errors.As(err, &failed):
		r.Refuse(failed.Code(), failed.Field, failed.Reason)
	case r.After.LineHash == l.Content.LineHash:
		r.Refuse(CodeUsage, "", "it is the line that the letter has")
	case l.Ordered:
		l.keep(&m, r)
	}
	return m
}

// keep refuses to change what gives a message its place: others were compared with
// its key, and handed out behind it.
func (l *Letter) keep(m *Message, r *EditResult) {
	for _, c := range [...]struct {
		member  member
		changed bool
	}{
		{memberIdempotencyKey, m.IdempotencyKey != l.IdempotencyKey},
		{memberPartitionKey, m.PartitionKey != l.PartitionKey},
		{memberNotBefore, !sameMicro(m.NotBefore, l.NotBefore)},
	} {
		if c.changed {
			r.Refuse(CodeUsage, c.member.name(), "cannot be changed any more: the exception has its place in the order")
			return
		}
	}
}

// sameMicro reports whether two times are the same as far as stores keep them.
func sameMicro(a, b time.Time) bool {
	return a.Truncate(time.Microsecond).Equal(b.Truncate(time.Microsecond))
}

// Known refuses an edit because its idempotency key is another message's, or this
// content under it has been.
func (r *EditResult) Known(of uint64) {
	r.Refuse(CodeConflict, memberIdempotencyKey.name(), fmt.Sprintf("is that of seq %d: the letter needs one of its own", of))
}
