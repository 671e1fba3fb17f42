package handler_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"breakwater/queue"
	"breakwater/queue/handler"
)

func done(note string) queue.Answer {
	return queue.Answer{Verb: queue.Ack, Outcome: "DONE", Note: note}
}

func retry(reason string) queue.Answer { return queue.Answer{Verb: queue.Retry, Reason: reason} }

// unread is a retry that the handler has not asked for.
func unread(reason string) queue.Answer {
	return queue.Answer{Verb: queue.Retry, Reason: reason, Unanswered: true}
}

func TestParseAnswer(t *testing.T) {
	until := time.Date(2026, 3, 31, 16, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, line string
		want       queue.Answer
	}{
		{"an outcome", `{"outcome":"POSTED","by":"alice","note":"n"}`, queue.Answer{Verb: queue.Ack, Outcome: "POSTED", By: "alice", Note: "n"}},
		{"white space around", " \t{ \"outcome\" : \"A_1\" } \r", queue.Answer{Verb: queue.Ack, Outcome: "A_1"}},
		{"a decoded text", `{"outcome":"P\u004fSTED"}`, queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"no outcome", `{"by":"bob"}`, queue.Answer{Verb: queue.Ack, Outcome: "DONE", By: "bob"}},
		{"an object of its own", `{"id":7,"Outcome":"x","lines":[1,{"retry":true}]}`, done("")},
		{"verbs that are not meant", `{"outcome":"POSTED","retry":false,"hold":null,"reject":false}`, queue.Answer{Verb: queue.Ack, Outcome: "POSTED"}},
		{"retry", `{"retry":true,"after_ms":5000,"reason":"locked"}`, queue.Answer{Verb: queue.Retry, After: 5 * time.Second, Reason: "locked"}},
		{"retry at once", `{"retry":true,"after_ms":0}`, retry("")},
		{"retry after a very long time", `{"retry":true,"after_ms":99999999999999999999999999}`, queue.Answer{Verb: queue.Retry, After: math.MaxInt64}},
		{"release", `{"release":true,"reason":"r"}`, queue.Answer{Verb: queue.Release, Reason: "r"}},
		{"hold", `{"hold":"2026-03-31T18:00:00+02:00","reason":"close"}`, queue.Answer{Verb: queue.Hold, Until: until, Reason: "close"}},
		{"reject", `{"reject":true,"reason":"r","by":"alice"}`, queue.Answer{Verb: queue.Reject, Reason: "r", By: "alice"}},

		{"an object behind blank lines", "\r\n \n\t{\"reject\":true}", queue.Answer{Verb: queue.Reject}},

		{"nothing", ``, done("")},
		{"text", `posted`, done("")},
		{"an array", `[{"retry":true}]`, done("")},
		{"a string", `"{}"`, done("")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := handler.ParseAnswer([]byte(c.line))
			if got != c.want || err != nil {
				t.Errorf("got %+v, %v\nwant %+v", got, err, c.want)
			}
		})
	}
}

func TestParseAnswer_what_is_malformed(t *testing.T) {
	for _, c := range []struct {
		name, line string
		want       queue.Answer
	}{
		// The effect has happened: these settle.
		{"a bad outcome", `{"outcome":"posted ok","note":"n"}`, done(`n; malformed answer: outcome is not 1 to 64 of A-Z, 0-9 and _: "posted ok"`)},
		{"a long outcome", `{"outcome":"` + strings.Repeat("A", 65) + `"}`, done(`malformed answer: outcome is not 1 to 64 of A-Z, 0-9 and _: "` + strings.Repeat("A", 63) + `...`)},
		{"an outcome of another kind", `{"outcome":7}`, done(`malformed answer: outcome is not a string: 7`)},
		{"by and note of another kind", `{"outcome":"POSTED","by":["a"],"note":1}`, queue.Answer{
			Verb: queue.Ack, Outcome: "POSTED", Note: `malformed answer: by is not a string: ["a"]; note is not a string: 1`,
		}},
		{"a verb, and bad UTF-8 after it", "{\"reject\":true,\"reason\":\"caf\xe9\"}", unread("malformed answer: the line is no JSON object: ")},
		{"a verb, and bad UTF-8 before it", "{\"reason\":\"caf\xe9\",\"reject\":true}", unread("malformed answer: the line is no JSON object: ")},
		{"a verb beside what is no JSON", `{"retry":true,"amount":NaN}`, unread("malformed answer: the line is no JSON object: ")},
		{"a verb twice", `{"hold":"2026-03-31T18:00:00Z","hold":null}`, unread("malformed answer: the line is no JSON object: ")},
		{"a verb and more", `{"reject":true} junk`, unread("malformed answer: the line is no JSON object: ")},
		{"half an object", `{"outcome":"POSTED"`, unread("malformed answer: the line is no JSON object: ")},
		{"a verb as Python prints it", `{'reject': True, 'reason': 'no such account'}`, unread("malformed answer: the line is no JSON object: ")},
		{"a verb without quotes", `{ retry : true }`, unread("malformed answer: the line is no JSON object: ")},
		{"a name twice", `{"outcome":"POSTED","outcome":"A"}`, done(`malformed answer: the line is no JSON object: `)},
		{"words in braces", `{on hold no more}`, done(`malformed answer: the line is no JSON object: `)},
		{"a part of a word", `{threshold: 3}`, done(`malformed answer: the line is no JSON object: `)},
		{"bad UTF-8", "{\"note\":\"\xff\"}", done(`malformed answer: the line is no JSON object: `)},
		{"two objects", `{"outcome":"POSTED"}{}`, done("malformed answer: the line is no JSON object: something follows the object")},
		// The work is not done: these do not settle.
		{"a verb of another kind", `{"retry":"yes"}`, unread(`malformed answer: retry is neither true nor false: "yes"`)},
		{"a release of another kind", `{"release":1,"reason":"r"}`, unread(`r; malformed answer: release is neither true nor false: 1`)},
		{"a reject of another kind", `{"reject":{}}`, unread(`malformed answer: reject is neither true nor false: {}`)},
		{"a hold without a time", `{"hold":true}`, unread(`malformed answer: hold is not an RFC 3339 date and time up to the year 2261: true`)},
		{"a hold until nonsense", `{"hold":"tomorrow"}`, unread(`malformed answer: hold is not an RFC 3339 date and time up to the year 2261: "tomorrow"`)},
		{"a hold for ever", `{"hold":"9999-01-01T00:00:00Z"}`, unread(`malformed answer: hold is not an RFC 3339 date and time up to the year 2261: "9999-01-01T00:00:00Z"`)},
		{"a negative delay", `{"retry":true,"after_ms":-5}`, retry(`malformed answer: after_ms is not a whole number of milliseconds: -5`)},
		{"a delay with a fraction", `{"retry":true,"after_ms":1.5}`, retry(`malformed answer: after_ms is not a whole number of milliseconds: 1.5`)},
		{"two verbs", `{"retry":true,"reject":true}`, unread(`malformed answer: it says more than one thing`)},
		{"an outcome and a verb", `{"outcome":"POSTED","release":true}`, unread(`malformed answer: it says more than one thing`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := handler.ParseAnswer([]byte(c.line))
			if !errors.Is(err, handler.ErrAnswer) {
				t.Errorf("got error %v", err)
			}
			for _, text := range [...]struct{ got, want *string }{{&got.Note, &c.want.Note}, {&got.Reason, &c.want.Reason}} {
				if strings.HasSuffix(*text.want, "object: ") { // what follows is the library's
					if !strings.HasPrefix(*text.got, *text.want) {
						t.Errorf("got %q", *text.got)
					}
					*text.got = *text.want
				}
			}
			if got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}

// P11: what stands behind the limit may be a verb, so it is never a success.
func TestParseAnswer_what_is_longer_than_an_answer(t *testing.T) {
	const limit = 64 << 10
	fill := func(begin, end string, length int) string {
		return begin + strings.Repeat("x", length-len(begin)-len(end)) + end
	}
	for _, c := range []struct{ begin, end string }{
		{`{"retry":true,"reason":"`, `"}`},
		{`{"reason":"`, `","reject":true}`},
		{`{"outcome":"POSTED","note":"`, `"}`},
		{`{"id":7,"narrative":"`, ``},
		{` {`, ``},
		{"\ufeff{", ``},
	} {
		got, err := handler.ParseAnswer([]byte(fill(c.begin, c.end, limit+1)))
		if want := unread("malformed answer: over 65536 bytes"); got != want || !errors.Is(err, handler.ErrAnswer) {
			t.Errorf("%s…%s: got %.200v, %v", c.begin, c.end, got, err)
		}
	}
	if got, err := handler.ParseAnswer([]byte(fill(`{"outcome":"POSTED","x":"`, `"}`, limit))); got.Outcome != "POSTED" || err != nil {
		t.Errorf("at the limit: got %.200v, %v", got, err)
	}
	if got, err := handler.ParseAnswer([]byte(strings.Repeat(" ", limit+1))); got.Verb != queue.Retry {
		t.Errorf("blanks, and nobody knows what follows: got %+v, %v", got, err)
	}
	if got, err := handler.ParseAnswer([]byte(fill(`posted "reject"`, ``, limit+1))); got != done("") || err != nil {
		t.Errorf("a text: got %+v, %v", got, err)
	}
	if got, err := handler.ParseAnswer([]byte("\ufeff{\"reject\":true}")); got.Verb != queue.Reject || err != nil {
		t.Errorf("behind a byte order mark: got %v, %v", got, err)
	}
}

func TestParseAnswer_a_long_text_is_cut_between_characters(t *testing.T) {
	long := "x" + strings.Repeat("é", 20_000)
	got, err := handler.ParseAnswer([]byte(`{"reject":true,"reason":"` + long + `"}`))
	if err != nil || got.Verb != queue.Reject || len(got.Reason) != 2*queue.MaxRecordText-1 || !strings.HasPrefix(long, got.Reason) {
		t.Errorf("%d bytes of reason, %v", len(got.Reason), err)
	}
}

func FuzzParseAnswer(f *testing.F) {
	f.Add([]byte(`{"outcome":"POSTED","by":"a","note":"n"}`))
	f.Add([]byte(`{"retry":true,"after_ms":5,"reason":"r"}`))
	f.Add([]byte(`{"hold":"2026-03-31T18:00:00Z"}`))
	f.Add([]byte(`{"reject":true,"release":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		a, err := handler.ParseAnswer(line)
		if a.Verb < queue.Ack || a.Verb > queue.Reject || a.Unavailable || a.After < 0 {
			t.Fatalf("%q: %+v", line, a)
		}
		if a.Verb == queue.Ack != queue.ValidOutcome(a.Outcome) {
			t.Fatalf("%q: outcome %q", line, a.Outcome)
		}
		if a.Verb == queue.Hold && a.Until.IsZero() {
			t.Fatalf("%q: holds until nothing", line)
		}
		// Whatever is not settled was said in an object, and what everybody reads as
		// "not done" is not settled (P11).
		object := bytes.HasPrefix(bytes.TrimLeft(bytes.TrimPrefix(line, []byte("\ufeff")), " \t\r\n"), []byte("{"))
		if a.Verb != queue.Ack && !object {
			t.Fatalf("%q: %+v, and it is no object", line, a)
		}
		var o map[string]any
		if json.Unmarshal(line, &o) == nil && a.Verb == queue.Ack {
			for _, verb := range []string{"retry", "release", "reject"} {
				if o[verb] == true {
					t.Fatalf("%q: %+v", line, a)
				}
			}
		}
		if err != nil && a.Note == "" && a.Reason == "" {
			t.Fatalf("%q: %v is told to nobody", line, err)
		}
	})
}
