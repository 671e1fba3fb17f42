package handler

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"breakwater/queue"
)

const (
	// maxExcerpt is how much of an error's body is looked at for the reason.
	maxExcerpt = 1 << 10
	// maxDiscard is how much of a body nobody wants is read, so that its connection
	// can be used again. A longer body costs the connection.
	maxDiscard = 64 << 10
	// discardTime is how long such reading may keep an answer that is known.
	discardTime = 250 * time.Millisecond
)

// succeeded is the answer to a 2xx: an ack, unless the body is an answer object
// that says otherwise. A body that breaks off, or that the time limit cuts off,
// cannot undo the success; but where the part that is missing may have said "retry"
// or "reject", nobody knows it. That is a retry with the same key, which the other
// end can tell from a new request.
func (t *try) succeeded(body io.Reader) queue.Answer {
	text, err := readAnswer(body)
	if err == nil {
		t.discard(body)
		a, _ := ParseAnswer(answerIn(text)) // it says itself what is wrong with it
		a.By, a.Note, a.Reason = t.hide(a.By), t.hide(a.Note), t.hide(a.Reason)
		return a
	}
	switch {
	case t.ctx.Err() != nil:
		return cutOff
	case errors.Is(t.limited.Err(), context.DeadlineExceeded):
		return queue.Answer{Verb: queue.Retry, Reason: t.h.limit() + ", while the answer was read", Unanswered: true}
	}
	return queue.Answer{Verb: queue.Retry, Reason: "the answer broke off: " + t.text(err.Error()), Unanswered: true}
}

// readAnswer reads a body for as long as it may turn out to be an answer object, at
// most maxAnswerLine and a byte of it. The error is that it ended too soon to tell.
func readAnswer(body io.Reader) ([]byte, error) {
	var text []byte
	piece := make([]byte, 4<<10)
	for {
		n, err := body.Read(piece)
		text = append(text, piece[:n]...)
		switch {
		case errors.Is(err, io.EOF), len(text) > maxAnswerLine, told(text, n):
			return text, nil
		case err != nil:
			return nil, err
		}
	}
}

// told reports whether more of a body, of which the last n bytes are new, cannot
// change its meaning: it begins like no object, or its first line is one.
func told(text []byte, n int) bool {
	begins := opening(text)
	if len(begins) == 0 || len(text) < len(byteOrderMark) && strings.HasPrefix(byteOrderMark, string(text)) {
		return false
	}
	if begins[0] != '{' {
		return true
	}
	end := bytes.IndexByte(begins, '\n')
	return end >= max(0, len(begins)-n) && isObject(begins[:end])
}

func isObject(line []byte) bool {
	v := jsontext.Value(line)
	return v.IsValid() && v.Kind() == jsontext.KindBeginObject
}

// answerIn is what [ParseAnswer] gets of a body: its first line if that is an
// object, else all of it that was read, because many a framework writes its JSON over
// several lines.
func answerIn(text []byte) []byte {
	if first, _, _ := bytes.Cut(opening(text), []byte("\n")); isObject(first) {
		return first
	}
	if len(text) > maxAnswerLine { // the end is missing, and no blank is the end
		return text
	}
	return bytes.TrimSpace(text)
}

// excerpt returns the beginning of an error's body and discards the rest.
func (t *try) excerpt(body io.Reader) string {
	// A body that drips must not keep an answer that is known already.
	stop := time.AfterFunc(discardTime, t.cancel)
	defer stop.Stop()
	text := make([]byte, maxExcerpt)
	n, err := io.ReadFull(body, text)
	if err == nil {
		_, _ = io.CopyN(io.Discard, body, maxDiscard) // whether there is more is all the same
	}
	return string(text[:n])
}

// discard reads what nobody wants, within its limits.
func (t *try) discard(body io.Reader) {
	stop := time.AfterFunc(discardTime, t.cancel)
	defer stop.Stop()
	_, _ = io.CopyN(io.Discard, body, maxDiscard) // whether there is more is all the same
}

// text makes what comes from elsewhere part of a reason: one line, bounded, valid
// UTF-8, without secrets.
func (t *try) text(s string) string {
	return clip(t.hide(strings.Join(strings.Fields(strings.ToValidUTF8(s, "\uFFFD")), " ")))
}

// retryAfter reads Retry-After (RFC 9110, §10.2.3): seconds, or a date. Zero: there
// is none, or it is over. understood is false where there is one that cannot be
// meant. A huge one is the longest there is; the policy caps it.
func retryAfter(header http.Header, now time.Time) (after time.Duration, understood bool) {
	value := strings.TrimSpace(header.Get("Retry-After"))
	if value == "" {
		return 0, true
	}
	if strings.Trim(value, "0123456789") == "" {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(math.MaxInt64/time.Second) {
			return math.MaxInt64, true
		}
		return time.Duration(seconds) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}
