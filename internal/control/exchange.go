package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"breakwater/internal/control/api"
	"breakwater/queue"
)

// exchange is one request and its answer.
type exchange struct {
	site    *site
	w       http.ResponseWriter
	r       *http.Request
	control *http.ResponseController
	query   query
	seq     string // the path's last segment, where that is a seq
	read    bool   // the body was read, as far as it could be
	begun   bool   // the answer's head was sent: nothing else can be said any more
}

// answer finds the endpoint, lets it work, and sees to it that whatever goes wrong is
// said: to the client as a problem, to the log if it is ours.
func (x *exchange) answer() {
	defer x.recover()
	x.deadlines()
	err := x.dispatch()
	if err == nil {
		return
	}
	p := problemOf(err)
	if p.status >= http.StatusInternalServerError && x.r.Context().Err() == nil {
		x.site.log.Error("request failed", "method", x.r.Method, "path", x.r.URL.Path, "code", string(p.code), "error", err.Error())
	}
	if x.begun {
		panic(http.ErrAbortHandler) // a cut connection: what was sent must not look complete
	}
	x.fail(p)
}

// deadlines bounds how long the client may take to send its body, also one that
// nobody asked for and net/http reads past, and to read the answer. They hold for
// the connection, so each request sets its own.
func (x *exchange) deadlines() {
	now := time.Now()
	if x.r.ContentLength != 0 {
		_ = x.control.SetReadDeadline(now.Add(bodyTime)) // fails only on connections that have none
	}
	_ = x.control.SetWriteDeadline(now.Add(writeTime))
}

func (x *exchange) dispatch() error {
	e, seq, err := x.site.routes.find(x.r.Method, x.r.URL.Path)
	if err != nil {
		return err
	}
	if x.r.Method != http.MethodPost && x.r.ContentLength != 0 {
		return usage("a %s has no body", x.r.Method)
	}
	if x.query, err = parseQuery(x.r.URL.RawQuery, e.query); err != nil {
		return err
	}
	x.seq = seq
	return e.handle(x)
}

// recover answers a defect of ours. The client learns that there is one; where it is
// stands in the log.
func (x *exchange) recover() {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v) // how net/http is asked to cut the connection
	}
	x.site.log.Error("defect in a request's handler", "path", x.r.URL.Path, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
	if x.begun {
		panic(http.ErrAbortHandler)
	}
	x.fail(problemOf(errors.New("panic")))
}

// fail answers with a problem document.
func (x *exchange) fail(p *problem) {
	if x.r.ContentLength != 0 && !x.read {
		_ = x.control.SetReadDeadline(time.Now().Add(pastTime)) // see deadlines
	}
	h := x.w.Header()
	if p.allow != "" {
		h.Set("Allow", p.allow)
	}
	if p.retry > 0 {
		h.Set("Retry-After", strconv.Itoa(p.retry))
	}
	_ = x.write(p.status, api.Trouble, p.body()) // who does not read it has left
}

// ok answers with a document.
func (x *exchange) ok(doc any) error { return x.write(http.StatusOK, api.JSON, doc) }

// write sends a document. Its error is only for the log: the client has gone.
func (x *exchange) write(status int, media string, doc any) error {
	body, err := json.Marshal(doc)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	body = append(visible(body), '\n')
	_ = x.control.SetWriteDeadline(time.Now().Add(writeTime)) // the work may have taken longer than the request's
	x.head(status, media)
	x.w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	x.w.WriteHeader(status)
	_, _ = x.w.Write(body) // what the client does not read is its own loss
	return nil
}

// head sets the headers that every answer has.
func (x *exchange) head(status int, media string) {
	x.begun = true
	h := x.w.Header()
	h.Set("Content-Type", media)
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
}

// visible escapes, in a JSON document, the characters that a person would not see or
// that could steer a terminal: answers are looked at with curl. What they decode to
// stays the same. Outside of strings JSON has only ASCII, so no parsing is needed.
func visible(doc []byte) []byte {
	plain := 0
	for plain < len(doc) && doc[plain] < 0x7f {
		plain++
	}
	if plain == len(doc) {
		return doc
	}
	out := append(make([]byte, 0, len(doc)+len(doc)/8), doc[:plain]...)
	for i := plain; i < len(doc); {
		_, size := utf8.DecodeRune(doc[i:])
		if doc[i] < 0x7f {
			out = append(out, doc[i])
		} else {
			quoted := queue.AppendText(nil, string(doc[i:i+size]))
			out = append(out, quoted[1:len(quoted)-1]...)
		}
		i += size
	}
	return out
}

// body reads a request's JSON into v, strictly: a name that is unknown or comes
// twice is a mistake that would otherwise go unnoticed. No body at all leaves v as it
// is.
func (x *exchange) body(v any) error { return x.bodyUpTo(v, MaxBody) }

// bodyUpTo is body with a limit of its own, in bytes.
func (x *exchange) bodyUpTo(v any, limit int64) error {
	kind := x.r.Header.Get("Content-Type")
	if kind != "" || x.r.ContentLength != 0 {
		media, _, err := mime.ParseMediaType(kind)
		if err != nil || media != api.JSON {
			return &problem{status: http.StatusUnsupportedMediaType, code: queue.CodeUsage,
				detail: "the body must be JSON", hint: "send Content-Type: " + api.JSON}
		}
	}
	x.read = true
	text, err := io.ReadAll(http.MaxBytesReader(x.w, x.r.Body, limit))
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return err
	case err != nil:
		x.w.Header().Set("Connection", "close") // where the next request begins is not known
		return usage("the body could not be read to its end")
	}
	_ = x.control.SetReadDeadline(time.Time{}) // from here on a read only waits for the client to leave
	if len(text) == 0 {
		return nil
	}
	return unreadable(jsonv2.Unmarshal(text, v, jsonv2.RejectUnknownMembers(true)))
}

// unreadable says what is wrong with a body, in the words of JSON and not in those of
// the library.
func unreadable(err error) error {
	var syntax *jsontext.SyntacticError
	var meaning *jsonv2.SemanticError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return usage("the body is not strict JSON: at byte %d", syntax.ByteOffset)
	case errors.As(err, &meaning) && errors.Is(err, jsonv2.ErrUnknownName):
		return usage("the body's member %s is not known here", excerpt(string(meaning.JSONPointer)))
	case errors.As(err, &meaning):
		return usage("the body's member %s is not of the right kind", excerpt(string(meaning.JSONPointer)))
	}
	return usage("the body is not what this path takes")
}

// action is who does something, as far as they say and as the kernel knows.
func (x *exchange) action(now time.Time, by, reason string) (queue.Action, error) {
	if len(by) > queue.MaxRecordID || len(reason) > queue.MaxRecordText {
		return queue.Action{}, usage("by has at most %d bytes, reason at most %d", queue.MaxRecordID, queue.MaxRecordText)
	}
	a := queue.Action{Now: now, By: by, Reason: reason}
	if p, ok := x.r.Context().Value(peerKey{}).(queue.Peer); ok && p != (queue.Peer{}) {
		a.Peer = &p
	}
	return a, nil
}
